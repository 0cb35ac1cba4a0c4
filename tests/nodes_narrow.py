#!/usr/bin/env python3
"""Runs the ONNX standard's node tests whose inputs or outputs have a narrow type (float8, float4, integers of 4 and 2
bits), which tests/reference/onnx_nodes.py leaves out, against ztrain.

    nodes_narrow.py build/ztrain                          every such test
    nodes_narrow.py build/ztrain --only 'quantizelinear*' some; --list shows their names
    nodes_narrow.py build/ztrain --types                  every code of every type through files, raw and typed, and Cast

Each test is written in the standard's own layout, `ztrain predict` must write output_N.pb, and its elements must have the
expected codes: NaN equals NaN, and -0 equals 0 for float4e2m1, whose NaN the reference makes -0. Prints a line a failing
test, then 'N passed, N failed'. Exits 1 if anything failed.
"""
import argparse, fnmatch, pathlib, subprocess, sys, tempfile, warnings
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

import node_cases

NARROW = {T.FLOAT8E4M3FN: 8, T.FLOAT8E4M3FNUZ: 8, T.FLOAT8E5M2: 8, T.FLOAT8E5M2FNUZ: 8, T.FLOAT8E8M0: 8,
          T.UINT4: 4, T.INT4: 4, T.FLOAT4E2M1: 4, T.UINT2: 2, T.INT2: 2}


def element_types(model):
    return [v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]
            if v.type.WhichOneof("value") == "tensor_type"]


def narrow_cases(only):
    return [case for case in node_cases.collect() if any(t in NARROW for t in element_types(case.model)) and
            fnmatch.fnmatch(case.name.removeprefix("test_"), only.removeprefix("test_"))]


def to_proto(value, name):
    return value if isinstance(value, T) else numpy_helper.from_array(np.asarray(value), name)


def as_numbers(proto):
    """The elements in double; the proto's dims and type are compared before."""
    return numpy_helper.to_array(proto).astype(np.float64)


def compare(got, want):
    if got.data_type != want.data_type:
        return f"type {T.DataType.Name(got.data_type)}, expected {T.DataType.Name(want.data_type)}"
    if list(got.dims) != list(want.dims):
        return f"dims {list(got.dims)}, expected {list(want.dims)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = as_numbers(got), as_numbers(want)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return None if same.all() else f"{int((~same).sum())} of {same.size} elements differ: {a[~same][:4]}, expected {b[~same][:4]}"


def predict(ztrain, model, inputs, folder):
    """Returns the outputs, or the problem as text."""
    data, out = folder / "data", folder / "out"
    data.mkdir()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, proto in enumerate(inputs):
        (data / f"input_{i}.pb").write_bytes(proto.SerializeToString())
    done = subprocess.run([ztrain, "predict", "--model", folder / "model.onnx", "--inputs", data, "--output", out],
                          capture_output=True, text=True, errors="replace", timeout=60)
    if done.returncode:
        return f"exit {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing on stderr'])[-1]}"
    return [T.FromString((out / f"output_{i}.pb").read_bytes()) for i in range(len(model.graph.output))]


def run_case(ztrain, case):
    for inputs, outputs in case.data_sets:
        with tempfile.TemporaryDirectory() as folder:
            protos = [to_proto(v, case.model.graph.input[i].name) for i, v in enumerate(inputs)]
            got = predict(ztrain, case.model, protos, pathlib.Path(folder))
        if isinstance(got, str):
            return got
        for i, want in enumerate(outputs):
            problem = compare(got[i], to_proto(want, ""))
            if problem:
                return f"output {case.model.graph.output[i].name}: {problem}"
    return None


def in_typed_field(proto):
    """The same tensor with its elements in int32_data: a packed byte a number."""
    typed = T()
    typed.CopyFrom(proto)
    typed.ClearField("raw_data")
    typed.int32_data.extend(proto.raw_data)
    return typed


def type_case(ztrain, dtype, typed):
    """All codes, an odd number of them, as graph input (raw) and as initializer (raw or typed): both come back, and both
    are made float."""
    count = 2 ** NARROW[dtype] - (1 if NARROW[dtype] < 8 else 0)
    numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
    codes = np.arange(count, dtype=np.uint8)
    held = codes
    if dtype in (T.INT4, T.INT2): # ml_dtypes holds them with their sign
        bits = NARROW[dtype]
        held = ((codes ^ (1 << (bits - 1))).astype(np.int16) - (1 << (bits - 1))).astype(np.int8)
        array = held.astype(numpy_type)
    else:
        array = codes.view(numpy_type)
    proto = numpy_helper.from_array(array, "w")
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["w"], ["b"]),
             helper.make_node("Cast", ["x"], ["c"], to=T.FLOAT), helper.make_node("Cast", ["w"], ["d"], to=T.FLOAT)]
    values = {n: helper.make_tensor_value_info(n, t, [count]) for n, t in
              (("x", dtype), ("a", dtype), ("b", dtype), ("c", T.FLOAT), ("d", T.FLOAT))}
    graph = helper.make_graph(nodes, "types", [values["x"]], [values[n] for n in "abcd"],
                              [in_typed_field(proto) if typed else proto])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    with tempfile.TemporaryDirectory() as folder:
        got = predict(ztrain, model, [proto], pathlib.Path(folder))
    if isinstance(got, str):
        return got
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = numpy_helper.from_array(array.astype(np.float32), "")
    for one, want in zip(got, (proto, proto, wide, wide)):
        if one.data_type != T.FLOAT and one.raw_data != proto.raw_data:
            return "the codes of Identity differ"
        problem = compare(one, want)
        if problem:
            return problem
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--types", action="store_true")
    options = parser.parse_args()
    runs = [(f"{T.DataType.Name(t)} in {'int32_data' if typed else 'raw_data'}", type_case, (t, typed))
            for t in NARROW for typed in (False, True)]
    if not options.types:
        cases = narrow_cases(options.only)
        runs = [(case.name, run_case, (case,)) for case in cases] + (runs if options.only == "*" else [])
    if options.list:
        print("\n".join(name for name, _, _ in runs))
        return 0
    failed = 0
    for name, function, arguments in runs:
        problem = function(options.ztrain, *arguments)
        failed += problem is not None
        if problem:
            print(f"{name}: {problem}")
    print(f"{len(runs) - failed} passed, {failed} failed")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
