"""The papers' studies as recipes, one file each."""
