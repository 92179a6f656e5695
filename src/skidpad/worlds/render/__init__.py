"""The built-in world's renderer, compiled for the CPU and for a GPU."""
