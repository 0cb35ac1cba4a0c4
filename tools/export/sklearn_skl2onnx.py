#!/usr/bin/env python3
"""Exports a scikit-learn network for training, with skl2onnx; made to be copied for a network of your own.

    pip install -r tools/export/requirements-sklearn.txt
    tools/export/sklearn_skl2onnx.py --output models/mlp.onnx
    build/ztrain --model models/mlp.onnx --config configs/mlp.json

models/mlp.onnx comes from here. What matters when the file is to be trained, not only run:

  fit first         scikit-learn makes the weights in fit(): what is exported has seen some samples at least.
  logits            skl2onnx makes the label and the probabilities outputs. cross_entropy takes what goes into the softmax,
                    the result of the last Add: it becomes one more output, named in ztrain.loss.logits.
  zipmap=False      makes the probabilities a tensor instead of a sequence of dictionaries.

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import warnings

import onnx
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier


def fit(seed):
    """8x8 digits to ten classes through 64 and 32 hidden units, after one pass over the first 100 images."""
    pixels, classes = load_digits(return_X_y=True)
    network = MLPClassifier(hidden_layer_sizes=(64, 32), max_iter=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the rest is ztrain's work
        return network.fit(pixels[:100] / 16, classes[:100])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    network = fit(options.seed)
    model = to_onnx(network, initial_types=[("pixels", FloatTensorType([None, 64]))], target_opset=17,
                    options={id(network): {"zipmap": False}})
    model.graph.output.append(onnx.helper.make_tensor_value_info("add_result2", onnx.TensorProto.FLOAT, [None, 10]))
    with open(options.output, "wb") as file:
        file.write(model.SerializeToString())
    count = sum(weights.size for weights in network.coefs_ + network.intercepts_)
    print(f"{options.output}: {count} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
