"""What a run will take, before it runs: its own stages try out a few steps, and say by the work in each what all will take."""
