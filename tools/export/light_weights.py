#!/usr/bin/env python3
"""Gives a model random weights where it has made-up ones: ConstantOfShape nodes that stand for weights, as in the `light`
models of onnx's own test data, become initializers that training can start from. Needs numpy and onnx.

    tools/export/light_weights.py light_resnet50.onnx --output resnet50.onnx --seed 0
    tools/export/light_weights.py resnet50.onnx --output light_resnet50.onnx --strip     the way back: a small file without weights

A weight of Conv is normal with variance 2 / (terms of the sum) (He et al., 2015), one of Gemm with deviation 0.01, as AlexNet's
were (Krizhevsky et al., 2012): logits are small at first, so that Dropout does not drown the loss. One of MatMul, Gather has
deviation 0.02, as GPT-2's (Radford et al., 2019). The scale of a normalization or of a Mul is 1, its variance 1; biases, means and
what an Add adds are 0. What else a ConstantOfShape makes is left alone. --strip takes the float32 weights of 64 elements or more that
these rules know, and what the exporter noted of single nodes.
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
    "MatMul": (None, "language"),
    "Gather": ("language",),
    "BatchNormalization": (None, "one", "zero", "zero", "one"),
    "LayerNormalization": (None, "one", "zero"),
    "Mul": (None, "one"),
    "Add": (None, "zero"),
}
DEVIATIONS = {"small": 0.01, "language": 0.02}
PASSED = ("Unsqueeze", "Reshape", "Transpose")
STRIPPED = 64  # elements; what is smaller may be a constant of a formula


def parts(graph):
    """{value: the part it plays}, also through operators that pass it on."""
    found = {}
    for node in reversed(graph.node):
        if node.op_type in PASSED and node.output[0] in found:
            found[node.input[0]] = found[node.output[0]]
        for value, part in zip(node.input, PARTS.get(node.op_type, ())):
            if part:
                found[value] = part
    return found


def payload(part, shape, name, seed):
    if part in ("zero", "one"):
        return np.full(shape, float(part == "one"), np.float32)
    deviation = math.sqrt(2 / math.prod(shape[1:])) if part == "he" else DEVIATIONS[part]
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
        weight = numpy_helper.from_array(payload(known[name], shape, name, seed), name)
        weight.metadata_props.extend(node.metadata_props)
        graph.initializer.append(weight)
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


def strip(model):
    """Weights become nodes in place, the first of the graph; returns the number of weights taken."""
    graph = model.graph
    known = parts(graph)
    taken = [i for i in graph.initializer
             if i.name in known and i.data_type == onnx.TensorProto.FLOAT and math.prod(i.dims) >= STRIPPED]
    for node in graph.node:
        del node.metadata_props[:]
    nodes = list(graph.node)
    del graph.node[:]
    for weight in taken:
        shape = f"{weight.name}.shape"
        graph.node.add(op_type="ConstantOfShape", input=[shape], output=[weight.name]).metadata_props.extend(weight.metadata_props)
        graph.initializer.append(numpy_helper.from_array(np.array(weight.dims, np.int64), shape))
        graph.initializer.remove(weight)
    graph.node.extend(nodes)
    return len(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    parser.add_argument("--strip", action="store_true", help="takes the weights away instead")
    options = parser.parse_args()
    model = onnx.load(options.model)
    said = f"{strip(model)} weights taken" if options.strip else f"{fill(model, options.seed)} weights, seed {options.seed}"
    onnx.save(model, options.output)
    print(f"{options.output}: {said}")


if __name__ == "__main__":
    main()
