"""Recorded frames under learned weather: `skidpad weather test` (DeepRoad)."""
