"""Makes the files beside it, where TensorFlow 2.21 and tf_keras are installed: `TF_USE_LEGACY_KERAS=1 python make.py`.

Donkey's categorical pilot in small, as .h5 and .tflite, and with whole-number input; and a 3-D pilot, whose pooling is TensorFlow's own.
Each .npz holds an input and what TensorFlow answers to it.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from tf_keras import Input, Model, layers, models, utils

HERE = Path(__file__).parent
utils.set_random_seed(7)
frames = np.random.default_rng(5).integers(0, 256, (4, 20, 24, 3), np.uint8)
shown = frames / np.float32(255)

given = Input((20, 24, 3), name="img_in")
maps = layers.Conv2D(4, 3, strides=2, activation="relu")(given)
maps = layers.Conv2D(3, 3, strides=2, activation="elu")(maps)
codes = layers.Dense(5, activation="tanh")(layers.Flatten()(maps))
heads = [layers.Dense(count, activation="softmax", name=name)(codes) for name, count in (("angle_out", 15), ("throttle_out", 20))]
pilot = Model(given, heads)
pilot.save(HERE / "pilot.h5", include_optimizer=False)
angle, throttle = pilot.predict(shown, verbose=0)

plain = tf.lite.TFLiteConverter.from_keras_model(pilot)
(HERE / "pilot.tflite").write_bytes(plain.convert())

small = tf.lite.TFLiteConverter.from_keras_model(pilot)
small.optimizations = [tf.lite.Optimize.DEFAULT]
small.representative_dataset = lambda: ([image[None]] for image in np.random.default_rng(6).random((50, 20, 24, 3), dtype=np.float32))
small.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
small.inference_input_type = small.inference_output_type = tf.uint8
(HERE / "pilot_uint8.tflite").write_bytes(small.convert())

deep = models.Sequential(
    [Input((2, 8, 8, 3)), layers.Conv3D(2, (1, 3, 3)), layers.MaxPooling3D((1, 2, 2)), layers.Flatten(), layers.Dense(1)]
)
flex = tf.lite.TFLiteConverter.from_keras_model(deep)
flex.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
(HERE / "pilot_3d.tflite").write_bytes(flex.convert())
deep.save(HERE / "pilot_3d.h5", include_optimizer=False)
clip = np.random.default_rng(8).integers(0, 256, (4, 8, 8, 3), np.uint8)
windows = np.stack([clip[:-1], clip[1:]], 1) / np.float32(255)

values = Model(given, [layer.output for layer in pilot.layers if layer.weights]).predict(shown, verbose=0)
means = [value.mean((1, 2)) if value.ndim == 4 else value for value in values[:3]]
np.savez_compressed(
    HERE / "pilot.npz",
    frames=frames,
    angle=angle,
    throttle=throttle,
    values=np.concatenate(means, 1),
    clip=clip,
    deep=deep.predict(windows),
)
