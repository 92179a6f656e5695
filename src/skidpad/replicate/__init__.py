"""Each paper's figure, ours, and the gap."""
