"""The built-in world: roads, a front camera, the truth."""
