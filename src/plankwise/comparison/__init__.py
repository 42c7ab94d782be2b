"""Methods side by side: same predecessor, same examples, same budget, several seeds."""
