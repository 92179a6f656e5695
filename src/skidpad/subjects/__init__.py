"""The network under test: its description, loading, prediction, activations, the zoo and training."""
