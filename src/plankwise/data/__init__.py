"""From a source to batches: clean, split, encode, batch."""
