#!/usr/bin/env python3
"""Exports a Keras network (TensorFlow) for training, with tf2onnx; made to be copied for a network of your own.

    pip install -r tools/export/requirements-keras.txt
    tools/export/keras_tf2onnx.py --output models/mobilenet.onnx
    build/ztrain --model models/mobilenet.onnx --config configs/mobilenet.json

models/mobilenet.onnx comes from here. What matters when the file is to be trained, not only run:

  names, axes       The data columns and the loss refer to input and output names: the name of the TensorSpec, and the key of
                    the dictionary that the function returns. None in the shape makes the batch dimension dynamic.
  layout            Keras keeps channels last, data/cifar10 gives channels first: inputs_as_nchw wraps the input.
  logits            Export the logits, not the softmax: cross_entropy takes logits.
  zeros and ones    tf2onnx drops what adds zeros or multiplies by ones, and merges equal constants: fresh biases and scales
                    are gone and cannot train. Start them a little off, or export trained weights.
  BatchNorm         is folded into the convolution before it and trains as a part of that. (Where it must stay a node of its
                    own, another exporter is needed.)

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import tensorflow as tf
import tf2onnx
from keras import layers


def norm_relu(x):
    off = keras.initializers.RandomNormal(0, 0.01), keras.initializers.RandomNormal(1, 0.01)  # see "zeros and ones" above
    return layers.ReLU(6)(layers.BatchNormalization(beta_initializer=off[0], gamma_initializer=off[1])(x))


def separable(x, channels, stride):
    """A depthwise 3x3 convolution, then a 1x1 convolution over channels; each with BatchNormalization and ReLU6."""
    start = keras.initializers.RandomNormal(0, (2 / 9) ** 0.5)  # he_normal counts all channels, each sum here has 9 terms
    x = norm_relu(layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False, depthwise_initializer=start)(x))
    return norm_relu(layers.Conv2D(channels, 1, use_bias=False, kernel_initializer="he_normal")(x))


def mobilenet():
    """The plan of MobileNet (Howard et al., 2017) for 32x32 colour images: separable convolutions from 16 to 128 channels."""
    image = x = keras.Input((32, 32, 3))
    x = norm_relu(layers.Conv2D(16, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(x))
    for channels, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        x = separable(x, channels, stride)
    return keras.Model(image, layers.Dense(10, bias_initializer="random_normal")(layers.GlobalAveragePooling2D()(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    keras.utils.set_random_seed(options.seed)
    model = mobilenet()
    function = tf.function(lambda image: {"logits": model(image, training=False)},
                           input_signature=[tf.TensorSpec((None, 32, 32, 3), tf.float32, "image")])
    tf2onnx.convert.from_function(function, function.input_signature, opset=17, inputs_as_nchw=["image:0"],
                                  output_path=options.output)
    print(f"{options.output}: {model.count_params()} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
