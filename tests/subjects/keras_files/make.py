"""Writes the files beside this script with the real Keras 3 and Keras 2 (tf_keras), both on TensorFlow, and what they answer.

Run in an environment of its own: pip install tensorflow-cpu tf_keras; KERAS_BACKEND=tensorflow python make.py
Each network comes with a .npz: its input, and its answers in order (answer_0, answer_1, ...).
"""

from pathlib import Path

import keras
import numpy as np
import tf_keras

FOLDER = Path(__file__).parent


def residual(k):
    """Strides and pools whose "same" padding is not symmetric, a shortcut, batch norm, PReLU, two answers."""
    layers = k.layers
    picture = k.Input((13, 18, 3))
    x = layers.Rescaling(1 / 127.5, -1.0)(picture)
    x = layers.Conv2D(4, 5, strides=2, padding="same", activation="elu")(x)
    x = layers.MaxPooling2D(2, padding="same")(x)
    y = layers.BatchNormalization()(x)
    y = layers.Activation("relu")(y)
    y = layers.Conv2D(4, (3, 2), padding="same", use_bias=False)(y)
    x = layers.Add()([x, y])
    z = layers.SeparableConv2D(3, 3, padding="same", depth_multiplier=2)(x)
    z = layers.PReLU(shared_axes=[1, 2], alpha_initializer="uniform")(z)
    x = layers.Concatenate()([x, z])
    x = layers.AveragePooling2D(2, strides=2, padding="same")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(6, activation="hard_sigmoid")(x)
    x = layers.Dropout(0.5)(x)
    return k.Model(picture, [layers.Dense(1, name="steering")(x), layers.Dense(1, activation="sigmoid", name="collision")(x)])


def recurrent(k):
    """Convolutions for each moment, a model within the model, both directions of an LSTM, a GRU of the old kind."""
    layers = k.layers
    clip = k.Input((4, 8, 10, 3))
    x = layers.TimeDistributed(layers.Conv2D(3, 3, strides=2, padding="same"))(clip)
    x = layers.TimeDistributed(layers.LeakyReLU())(x)
    inner = k.Sequential([layers.Flatten(), layers.Dense(5, activation="tanh"), layers.BatchNormalization()])
    x = layers.TimeDistributed(inner)(x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True, recurrent_activation="hard_sigmoid"))(x)
    both = layers.Flatten()(x)
    x = layers.LSTM(4, return_sequences=True)(x)
    x = layers.GRU(3, reset_after=False, return_sequences=True, go_backwards=True)(x)
    x = layers.GRU(3, reset_after=True)(x)
    twice = layers.Dense(3, activation="relu")
    return k.Model(clip, [layers.Dense(1)(twice(twice(x))), both])


def fixed(model, seed: int):
    """Gives a model weights that do not change from run to run, none of them zero."""
    rng = np.random.default_rng(seed)
    for weights in model.weights:
        positive = "variance" in getattr(weights, "path", weights.name)
        if "seed" not in getattr(weights, "path", weights.name):
            weights.assign(rng.uniform(0.3, 1.5, weights.shape) if positive else rng.normal(0, 0.4, weights.shape))
    return model


def answers(name: str, model, scale: float) -> None:
    pictures = (np.random.default_rng(3).random((3, *model.input_shape[1:])) * scale).astype(np.float32)
    found = model(pictures, training=False)
    found = found if isinstance(found, list | tuple) else [found]
    np.savez_compressed(FOLDER / f"{name}.npz", picture=pictures, **{f"answer_{n}": np.asarray(answer) for n, answer in enumerate(found)})


def main() -> None:
    for name, k, build, scale in (
        ("residual_keras3", keras, residual, 255.0),
        ("recurrent_keras3", keras, recurrent, 2.0),
        ("residual_keras2", tf_keras, residual, 255.0),
        ("recurrent_keras2", tf_keras, recurrent, 2.0),
    ):
        k.backend.clear_session()
        model = fixed(build(k), 7)
        answers(name, model, scale)
        if k is keras:
            model.save(FOLDER / f"{name}.keras")
        elif build is residual:
            model.save(FOLDER / f"{name}.h5")
        else:
            (FOLDER / f"{name}.json").write_text(model.to_json())
            model.save_weights(FOLDER / f"{name}_weights.h5")
    tf_keras.backend.clear_session()
    layers = tf_keras.layers
    model = tf_keras.Sequential([tf_keras.Input((6, 8, 3)), layers.Lambda(lambda x: x / 127.5 - 1.0), layers.Flatten(), layers.Dense(1)])
    answers("lambda_keras2", fixed(model, 7), 255.0)
    model.save(FOLDER / "lambda_keras2.h5")


if __name__ == "__main__":
    main()
