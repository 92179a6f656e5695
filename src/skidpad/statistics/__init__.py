"""Tests, effect sizes and intervals, each checked against a reference."""
