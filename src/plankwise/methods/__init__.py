"""Ways to train a successor, one file each."""
