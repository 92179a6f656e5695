"""Keras files, rebuilt layer by layer into torch without TensorFlow."""

from skidpad.subjects.formats.keras.opening import open_keras

__all__ = ["open_keras"]
