"""What stands and drives in the built-in world, drawn once."""
