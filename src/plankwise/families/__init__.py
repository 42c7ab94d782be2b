"""What a model family needs beyond the general rule, one file per `config.model_type`."""
