"""What to try next: guided greedy search and its baselines."""
