"""A run, from config to record."""
