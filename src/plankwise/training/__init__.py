"""One training stage on `transformers.Trainer`."""
