#!/usr/bin/env python3
"""Gives a model random weights where it has made-up ones: ConstantOfShape nodes that stand for weights, as in the `light`
models of onnx's own test data, become initializers that training can start from. Needs numpy and onnx.

    tools/export/light_weights.py light_resnet50.onnx --output resnet50.onnx --seed 0

A weight of Conv is normal with variance 2 / (terms of the sum) (He et al., 2015), one of Gemm with deviation 0.01, as AlexNet's
were (Krizhevsky et al., 2012): logits are small at first, so that Dropout does not drown the loss. The scale of a
BatchNormalization or of a Mul is 1, its variance 1; biases, means and what an Add adds are 0. What else a ConstantOfShape
makes is left alone.
"""
import argparse
import math
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

# operator: the part that each of its inputs plays
PARTS = {
    "Conv": (None, "he", "zero"),
    "Gemm": (None, "small", "zero"),
    "BatchNormalization": (None, "one", "zero", "zero", "one"),
    "Mul": (None, "one"),
    "Add": (None, "zero"),
}


def parts(graph):
    """{value: the part it plays}, also through Unsqueeze and Reshape."""
    found = {}
    for node in reversed(graph.node):
        if node.op_type in ("Unsqueeze", "Reshape") and node.output[0] in found:
            found[node.input[0]] = found[node.output[0]]
        for value, part in zip(node.input, PARTS.get(node.op_type, ())):
            if part:
                found[value] = part
    return found


def payload(part, shape, name, seed):
    if part in ("zero", "one"):
        return np.full(shape, float(part == "one"), np.float32)
    deviation = math.sqrt(2 / math.prod(shape[1:])) if part == "he" else 0.01
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])  # its own numbers, whatever stands before it
    return random.standard_normal(shape, np.float32) * np.float32(deviation)


def fill(model, seed):
    """Replaces the nodes in place; returns the number of weights made."""
    graph, made = model.graph, 0
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer if i.data_type == onnx.TensorProto.INT64}
    known = parts(graph)
    for node in list(graph.node):
        name = node.output[0]
        if node.op_type != "ConstantOfShape" or name not in known or node.input[0] not in shapes:
            continue
        shape = [int(d) for d in shapes[node.input[0]]]
        graph.initializer.append(numpy_helper.from_array(payload(known[name], shape, name, seed), name))
        if model.ir_version < 4:  # there every initializer is an input as well
            graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        graph.node.remove(node)
        made += 1
    drop_unread(graph)
    return made


def drop_unread(graph):
    """The shapes that nothing reads any more."""
    read = {value for node in graph.node for value in node.input}
    unread = {i.name for i in graph.initializer} - read
    for values in (graph.initializer, graph.input):
        for value in [v for v in values if v.name in unread]:
            values.remove(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    options = parser.parse_args()
    model = onnx.load(options.model)
    made = fill(model, options.seed)
    onnx.save(model, options.output)
    print(f"{options.output}: {made} weights, seed {options.seed}")


if __name__ == "__main__":
    main()
