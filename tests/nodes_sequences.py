#!/usr/bin/env python3
"""Runs the ONNX standard's node tests with sequences and optionals, which tests/reference/onnx_nodes.py leaves out.

    nodes_sequences.py ZTRAIN [--only PATTERN]

A test is run when one of its graph inputs or outputs is a sequence or optional. Inputs are written as the standard's tests have
them (SequenceProto, OptionalProto, TensorProto); `ztrain predict` must write output_N.pb as a message of the type that the graph
declares, with equal tensors. Where a float tensor is among the inputs, `ztrain grad` must give gradients of the same structure.
Tests of strings are named and not run. Needs numpy and onnx. Exits 1 if a test fails or fewer than 29 ran (without --only).
"""
import argparse
import concurrent.futures
import fnmatch
import importlib.util
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import node_cases

AT_LEAST = 29


def load_reference():
    path = pathlib.Path(__file__).resolve().parent / "reference" / "onnx_nodes.py"
    spec = importlib.util.spec_from_file_location("reference_onnx_nodes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


nodes = load_reference()


def kind_of(value):
    return value.type.WhichOneof("value")


def element_type(kind, type_proto):
    """The tensor element type in a sequence or optional."""
    while kind != "tensor_type":
        type_proto = getattr(type_proto, kind).elem_type
        kind = type_proto.WhichOneof("value")
    return type_proto.tensor_type.elem_type


def to_message(value, info):
    """The message of a test's value for a graph input or output."""
    kind = kind_of(info)
    if kind == "tensor_type":
        return nodes.to_proto(value, info.name)
    if kind == "sequence_type":
        return numpy_helper.from_list([nodes.to_array(v) for v in value], info.name)
    if value is None or isinstance(value, list) and len(value) == 1 and value[0] is None:
        return onnx.OptionalProto(name=info.name, elem_type=onnx.OptionalProto.UNDEFINED)
    return numpy_helper.from_optional(value, info.name)


def structure(message):
    """What a message holds as lists of arrays; None is an empty optional."""
    if isinstance(message, onnx.TensorProto):
        return nodes.to_array(message)
    if isinstance(message, onnx.SequenceProto):
        if message.elem_type not in (onnx.SequenceProto.UNDEFINED, onnx.SequenceProto.TENSOR):
            raise ValueError(f"a sequence of element type {message.elem_type}")
        return [numpy_helper.to_array(t) for t in message.tensor_values]
    return {onnx.OptionalProto.UNDEFINED: lambda: None,
            onnx.OptionalProto.TENSOR: lambda: numpy_helper.to_array(message.tensor_value),
            onnx.OptionalProto.SEQUENCE: lambda: structure(message.sequence_value)}[message.elem_type]()


def compare(got, want, case):
    if (got is None) != (want is None) or isinstance(got, list) != isinstance(want, list):
        return f"is {type(got).__name__}, expected {type(want).__name__}"
    if got is None:
        return None
    if not isinstance(want, list):
        return nodes.compare(got, want, case.rtol, max(case.atol, 1e-6))
    if len(got) != len(want):
        return f"has {len(got)} elements, expected {len(want)}"
    return next((f"element {i}: {problem}" for i, (g, w) in enumerate(zip(got, want)) if (problem := compare(g, w, case))), None)


MESSAGES = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}


def read(path, info):
    message = MESSAGES[kind_of(info)]()
    message.ParseFromString(path.read_bytes())
    return structure(message)


def shapes_of(value):
    if value is None:
        return None
    return [shapes_of(v) for v in value] if isinstance(value, list) else (value.shape, value.dtype)


def check_gradients(ztrain, case, inputs, data, out, folder):
    """Gradients of float inputs have the structure of the inputs; their values are held in check_lowered.py."""
    problem = nodes.run([ztrain, "grad", "--model", folder / "model.onnx", "--inputs", data, "--output", out], 20)
    if problem:
        return f"grad: {problem}"
    for i, (info, message) in enumerate(zip(case.model.graph.input, inputs)):
        want = structure(message)
        if element_type(kind_of(info), info.type) != onnx.TensorProto.FLOAT or want is None or (isinstance(want, list) and not want):
            continue
        path = out / f"grad_input_{i}.pb"
        if not path.exists() or shapes_of(read(path, info)) != shapes_of(want):
            return f"grad_input_{i}.pb is not like input {i}"
    return None


def check(ztrain, case):
    graph = case.model.graph
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        onnx.save(case.model, folder / "model.onnx")
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data, out = folder / f"test_data_set_{number}", folder / f"out_{number}"
            data.mkdir()
            messages = [to_message(value, info) for value, info in zip(inputs, graph.input)]
            for i, message in enumerate(messages):
                (data / f"input_{i}.pb").write_bytes(message.SerializeToString())
            problem = nodes.run([ztrain, "predict", "--model", folder / "model.onnx", "--inputs", data, "--output", out], 20)
            for i, (value, info) in enumerate(zip(outputs, graph.output)):
                path = out / f"output_{i}.pb"
                problem = problem or (None if path.exists() else f"output_{i}.pb was not written")
                wrong = None if problem else compare(read(path, info), structure(to_message(value, info)), case)
                problem = problem or (f"output {info.name}: {wrong}" if wrong else None)
            problem = problem or check_gradients(ztrain, case, messages, data, folder / f"grad_{number}", folder)
            if problem:
                return problem
    return None


def load_cases():
    """Cases to run, and the names of those with strings."""
    run, strings = [], []
    for case in node_cases.collect():
        values = [*case.model.graph.input, *case.model.graph.output]
        if all(kind_of(v) == "tensor_type" for v in values) or not case.data_sets:
            continue
        texts = any(element_type(kind_of(v), v.type) == onnx.TensorProto.STRING for v in values)
        (strings if texts else run).append(case)
    return run, [case.name for case in strings]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", help="shell pattern on the test name")
    options = parser.parse_args()
    cases, strings = load_cases()
    if options.only:
        cases = [c for c in cases if fnmatch.fnmatch(c.name.removeprefix("test_"), options.only.removeprefix("test_"))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda case: check(options.ztrain, case), cases))
    for case, problem in zip(cases, results):
        print(f"FAIL {case.name}: {problem}" if problem else f"ok   {case.name}")
    failed = sum(map(bool, results))
    for name in strings:
        print(f"not run: {name} (strings)")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases or (not options.only and len(cases) < AT_LEAST) else 0


if __name__ == "__main__":
    sys.exit(main())
