"""The layers of Keras, each rebuilt in torch."""
