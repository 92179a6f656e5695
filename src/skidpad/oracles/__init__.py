"""Judges of answers: metamorphic relations and prediction error."""
