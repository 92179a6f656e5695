"""The five papers' tables: theirs, ours, the gap."""
