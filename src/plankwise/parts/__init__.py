"""Kinds of successor, one file each."""
