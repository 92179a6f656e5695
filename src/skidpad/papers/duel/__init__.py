"""Adversarial testing with reinforcement learning (ICST 2024): Table I and what lies beyond it."""
