"""Sweeps: many runs of one recipe with keys from a space, shared by any number of workers; the best is chosen by a score."""
