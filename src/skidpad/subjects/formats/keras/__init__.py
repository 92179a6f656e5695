"""Keras files, rebuilt layer by layer into torch without TensorFlow."""
