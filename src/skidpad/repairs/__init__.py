"""Retraining on what a run found."""
