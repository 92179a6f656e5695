"""Closed loop: `skidpad drive` lets a network steer through scenarios."""
