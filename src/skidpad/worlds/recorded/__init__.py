"""Rendered drives as recordings: `rendered?...`."""
