"""What was gained and lost: scores, speed, size."""
