"""Recorded frames under stimuli, judged by a relation: `skidpad test` (DeepTest)."""
