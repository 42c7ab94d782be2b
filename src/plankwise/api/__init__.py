"""Python as first-class as the command: compress, compare and evaluate, with the options of a recipe and data in memory."""
