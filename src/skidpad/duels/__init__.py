"""Two vehicles on a highway: the engine, its opponents, what they learn, and who was to blame."""
