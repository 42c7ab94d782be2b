"""What a run will cost, before it runs: multiply-adds counted, time calibrated on a few real steps, memory by its parts."""
