"""Scenarios: roads, domains, constraints, drawing and files."""
