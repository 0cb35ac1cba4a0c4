#!/usr/bin/env python3
"""Checks model.16bit.onnx, which runs in fp16 and bf16 write with zero_optimization.stage3_gather_16bit_weights_on_model_save.

    half_export.py ZTRAIN CASES

CASES is tests/reference/cases. The weights must be those of model.onnx, rounded by NumPy (ml_dtypes for bfloat16); the rest of the file must be model.onnx but for
Cast nodes; onnx's checker accepts it; onnxruntime runs it with the outputs of model.onnx whose weights were rounded. Exit status 0: all hold, 1: one does not.
"""
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

KEY = "zero_optimization.stage3_gather_16bit_weights_on_model_save=true"
HALVES = {"fp16": (np.float16, TensorProto.FLOAT16), "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16)}
CASES = ["mlp-wine-sklearn", "convnet-torchscript", "gpt-tiny-dynamo", "resnet-bn-train", "lstm-classifier"]
failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


def train(program, model, config, out, *sets):
    words = [program, "--model", model, "--config", config, "--output", out, "--steps", 2, "--threads", 1, "--set", KEY]
    for pair in sets:
        words += ["--set", pair]
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)


def undo(model, full):
    """The model as it would be without 16-bit weights: Casts of initializers gone, their readers read the initializer, which has the contents of `full`."""
    halves = {t.name: t for t in model.graph.initializer if t.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)}
    was = {t.name: t for t in full.graph.initializer}
    halves = {name: t for name, t in halves.items() if was[name].data_type == TensorProto.FLOAT}
    casts = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Cast" and n.input[0] in halves and n.output[0].startswith(n.input[0] + ".fp32")}
    for tensor in halves.values():
        tensor.CopyFrom(was[tensor.name])
    for info in [*model.graph.input, *model.graph.value_info]:
        if info.name in halves:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    kept = [n for n in model.graph.node if n.output[0] not in casts]

    def rename(nodes):
        for node in nodes:
            for i, name in enumerate(node.input):
                node.input[i] = casts.get(name, name)
            for attribute in node.attribute:
                rename(attribute.g.node)
    rename(kept)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return set(halves)


def outputs(model, rng):
    """Of every float input a random one; the shapes with 2 for what is open."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in i.shape]
        feeds[i.name] = rng.standard_normal(shape, dtype=np.float32) if i.type == "tensor(float)" else rng.integers(0, 4, shape).astype(np.int64 if "64" in i.type else np.int32)
    return session.run(None, feeds)


def one(program, source, config, out, half):
    dtype, number = HALVES[half]
    done = train(program, source, config, out, f"{half}.enabled=true", *(["fp16.loss_scale=128"] if half == "fp16" else []))
    what = f"{source.parent.name} {source.name} {half}"
    if done.returncode:
        check(False, f"{what}: exit {done.returncode}: {done.stderr[-400:]}")
        return
    full, narrow = onnx.load(out / "model.onnx"), onnx.load(out / "model.16bit.onnx")
    stated = onnx.load(out / "model.16bit.onnx", load_external_data=False)
    onnx.checker.check_model(str(out / "model.16bit.onnx"), full_check=True)
    weights = {t.name: t for t in full.graph.initializer}
    rounded = [t.name for t in narrow.graph.initializer if t.data_type == number and weights[t.name].data_type == TensorProto.FLOAT]
    same = all(np.array_equal(numpy_helper.to_array(t).astype(np.float32), numpy_helper.to_array(weights[t.name]).astype(dtype).astype(np.float32)) for t in narrow.graph.initializer if t.name in rounded)
    check(bool(rounded) and same, f"{what}: {len(rounded)} initializers are NumPy's rounding")
    reference = onnx.ModelProto()
    reference.CopyFrom(full)
    for t in reference.graph.initializer:
        if t.name in rounded:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(dtype).astype(np.float32), t.name))
    a, b = outputs(reference, np.random.default_rng(1)), outputs(narrow, np.random.default_rng(1))
    check(all(np.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in zip(a, b)), f"{what}: onnxruntime's outputs are those of the rounded weights")
    check(undo(narrow, full) == set(rounded) and narrow == full, f"{what}: nothing else differs from model.onnx")
    return stated


def main():
    program, cases = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for case in CASES:
            for half in HALVES:
                one(program, cases / case / "model.onnx", cases / case / "config.json", folder / f"{case}-{half}", half)
        wine = cases / "mlp-wine-sklearn"
        moved = onnx.load(cases / "convnet-torchscript/model.onnx")
        (folder / "moved").mkdir()
        onnx.save_model(moved, folder / "moved/model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
        stated = one(program, folder / "moved/model.onnx", cases / "convnet-torchscript/config.json", folder / "external", "bf16")
        outside = {e.value for t in stated.graph.initializer for e in t.external_data if e.key == "location"}
        check(outside == {"model.16bit.onnx.data"}, f"external data stay external: {outside}")
        old = onnx.load(wine / "model.onnx")
        old.ir_version = 3
        shapes = [onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in old.graph.initializer]
        old.graph.input.extend(shapes)
        (folder / "old").mkdir()
        onnx.save(old, folder / "old/model.onnx")
        one(program, folder / "old/model.onnx", wine / "config.json", folder / "inputs", "fp16")
        done = train(program, wine / "model.onnx", wine / "config.json", folder / "fp32")
        check(done.returncode == 0 and not (folder / "fp32/model.16bit.onnx").exists() and "neither fp16 nor bf16" in done.stderr, "fp32 runs write none and say so")
        low = onnx.load(cases / "convnet-torchscript/model.onnx")
        low.opset_import[0].version = 12
        onnx.save(low, folder / "low.onnx")
        done = train(program, folder / "low.onnx", cases / "convnet-torchscript/config.json", folder / "low", "bf16.enabled=true")
        check(done.returncode == 2 and "need opset 13" in done.stderr, f"bfloat16 below opset 13 is refused: {done.stderr[-200:]}")
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
