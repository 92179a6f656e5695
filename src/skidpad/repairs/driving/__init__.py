"""Repairs from closed-loop drives: the network drives, a careful driver says what would have been right, and it is retrained on that."""
