"""DeepTest's image transformations, and their composition."""
