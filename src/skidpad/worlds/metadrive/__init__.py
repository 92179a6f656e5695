"""MetaDrive as a world, in a process of its own."""
