"""Recorded drives: frames in order, what the human did, and what is wrong with the recording."""
