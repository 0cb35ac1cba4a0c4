#!/usr/bin/env python3
"""Quantization that ztrain.qat inserts into a model, against numpy in float64 and onnxruntime.

    qat.py ZTRAIN ROOT [MODULE]    MODULE: the CUDA module, which runs the small network on the device

A network of two products is trained with inserted quantization of weights (ranges of each step, or learned scales) and activations (moving
ranges), in several types, per tensor and per axis, symmetric and not: losses, weights, learned scales and the ranges that the written model
has are those of numpy. The convnet of models/ learns the digits with int8 weights and activations: onnxruntime's accuracy of the written
model is that of the evaluation; the same bits at 1 and 2 threads, after resuming, and over ddp and ZeRO; modes dp and ddp agree bit for bit. In fp16 and bf16 a step is near
numpy's, and both written models run."""
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import quantize
from quantize import Fake, RANGES, check, initializers, losses_of, run

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

INPUTS, HIDDEN, OUTPUTS, SAMPLES, STEPS, MOMENTUM = 6, 9, 4, 32, 6, 0.8
RATE, LEARNED_RATE = 0.05, 0.0005  # scales are small numbers: faster they turn negative, where every rounding counts
MARGIN = 1 + 2 ** -20
POINTS = 0.005  # of accuracy between onnxruntime and the last evaluation
LARGEST = {"int8": 127, "uint8": 127, "int4": 7, "uint4": 7, "int16": 32767, "uint16": 32767}  # from the middle, of a symmetric range
RANGES = {**RANGES, "int16": (-32768, 32767), "uint16": (0, 65535)}
quantize.RANGES.update(RANGES)


def session_of(model):
    """On a processor with AVX2 but no VNNI, onnxruntime's int8 kernels add pairs of products in 16 bits, which saturates, unless an
    option forbids it"""
    options, flags = onnxruntime.SessionOptions(), pathlib.Path("/proc/cpuinfo").read_text()
    if "avx2" in flags and "vnni" not in flags:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


# ---- the reference ----

def numbers_of(low, high, type_name, symmetric):
    """Scale and zero point of a range that is widened to contain 0. The ends of the range lie inside of the codes' range."""
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    least, most = RANGES[type_name]
    if symmetric:
        return np.maximum(-low, high) / LARGEST[type_name] * MARGIN, np.float64(0 if least < 0 else (most + 1) // 2)
    scale = (high - low) / (most - least) * MARGIN
    return scale, np.clip(np.rint(least - low / scale), least, most)


class Moving:
    """A moving average without the weight of its first zeros."""

    def __init__(self):
        self.low = self.high = self.weight = 0.0

    def see(self, x):
        """x: the samples of all ranks."""
        self.low = MOMENTUM * self.low + (1 - MOMENTUM) * x.min()
        self.high = MOMENTUM * self.high + (1 - MOMENTUM) * x.max()
        self.weight = MOMENTUM * self.weight + 1 - MOMENTUM

    def range(self):
        return self.low / self.weight, self.high / self.weight


class Plain:
    """What is not quantized, as quantize.Fake."""

    def __init__(self, y):
        self.y = y

    def back(self, dy):
        return dy, None


def quantized_weight(w, learned, c):
    if c["weights"] == "none":
        return Plain(w)
    if c["learn"]:
        return Fake(w, learned, 0 if RANGES[c["weights"]][0] < 0 else LARGEST[c["weights"]] + 1, c["weights"])
    along = 0 if c["per"] == "axis" else None
    return Fake(w, *numbers_of(w.min(along), w.max(along), c["weights"], c["weights_symmetric"]), c["weights"])


def quantized_activation(x, moving, c):
    if not c["activations"]:
        return None
    moving.see(x)
    return Fake(x, *numbers_of(*moving.range(), c["activations"], c["activations_symmetric"]), c["activations"])


def step(p, moving, x, target, c):
    fx = quantized_activation(x, moving[0], c)
    f1, f2 = quantized_weight(p["w1"], p.get("w1.scale"), c), quantized_weight(p["w2"], p.get("w2.scale"), c)
    xq = fx.y if fx else x
    a = xq @ f1.y + p["b1"]
    h = np.maximum(a, 0)
    fh = quantized_activation(h, moving[1], c)
    hq = fh.y if fh else h
    y = hq @ f2.y
    loss, dy = ((y - target) ** 2).mean(), 2 * (y - target) / y.size
    dh = dy @ f2.y.T
    dw2, ds2 = f2.back(hq.T @ dy)
    da = np.where(a > 0, fh.back(dh)[0] if fh else dh, 0)
    dw1, ds1 = f1.back(xq.T @ da)
    return loss, {"w1": dw1, "w2": dw2, "b1": da.sum(0), "w1.scale": ds1, "w2.scale": ds2}


def train(values, x, target, c, steps=STEPS):
    p, losses, moving = {name: v.astype(np.float64) for name, v in values.items()}, [], (Moving(), Moving())
    if c["learn"]:
        along = 0 if c["per"] == "axis" else None
        p.update({f"{w}.scale": numbers_of(p[w].min(along), p[w].max(along), c["weights"], True)[0] for w in ("w1", "w2")})
    half = SAMPLES // 2
    for k in range(steps):
        rows = slice(half * (k % 2), half * (k % 2) + half)
        loss, g = step(p, moving, x[rows], target[rows], c)
        losses.append(loss)
        p = {name: v - rate_of(c) * g[name] for name, v in p.items()}
    return losses, p, moving


# ---- the small network ----

def save(path, values, opset=21):
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["m"], name="first"), helper.make_node("Add", ["m", "b1"], ["a"]), helper.make_node("Relu", ["a"], ["h"]),
             helper.make_node("MatMul", ["h", "w2"], ["y"], name="second")]
    tensors = [numpy_helper.from_array(v, name) for name, v in values.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", OUTPUTS])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


def config(path, data, c, **more):
    qat = {"scales": "learn" if c["learn"] else "fixed", "weights": c["weights"], "per": c["per"], "weights_symmetric": c["weights_symmetric"],
           "activations_symmetric": c["activations_symmetric"], "momentum": MOMENTUM}
    if c["activations"]:
        qat["activations"] = c["activations"]
    ztrain = {"data": {"format": "npz", "path": str(data), "shuffle": False}, "loss": {"type": "mse"}, "steps": STEPS, "checkpoint": {"every_epochs": 0}, "qat": qat}
    path.write_text(json.dumps({"train_batch_size": SAMPLES // 2, "optimizer": {"type": "SGD", "params": {"lr": rate_of(c)}}, "ztrain": {**ztrain, **more}}))
    return path


def rate_of(c):
    return LEARNED_RATE if c["learn"] else RATE


def name_of(c):
    return (f"{c['weights']} weights per {c['per']}{'' if c['weights_symmetric'] else ', not symmetric'}{', learned' if c['learn'] else ''}, "
            f"{c['activations'] or 'no'} activations{', symmetric' if c['activations_symmetric'] else ''}")


def small(folder, c):
    """A network and data in a new folder: weights, inputs, targets, and what starts a run."""
    random = np.random.default_rng(11)
    values = {"w1": random.standard_normal((INPUTS, HIDDEN)), "w2": random.standard_normal((HIDDEN, OUTPUTS)) + 0.3, "b1": random.standard_normal(HIDDEN)}
    values = {k: v.astype(np.float32) for k, v in values.items()}
    x, target = (random.standard_normal((SAMPLES, n)).astype(np.float32) for n in (INPUTS, OUTPUTS))
    x[SAMPLES // 2:] *= 1.7  # the ranges of the batches differ
    folder.mkdir()
    np.savez(folder / "data.npz", x=x, target=target)
    save(folder / "m.onnx", values)
    return values, x, target, ["train", "--model", folder / "m.onnx", "--config", config(folder / "c.json", folder / "data.npz", c)]


def check_written_numbers(name, written, moving, c, near):
    """Scales and zero points in the model. near: how far the ends of an activation's range may be from numpy's."""
    along = 0 if c["per"] == "axis" else None
    for tensor in ("w1", "w2") if not c["learn"] and c["weights"] != "none" else ():
        scale, zero = numbers_of(written[tensor].min(along), written[tensor].max(along), c["weights"], c["weights_symmetric"])
        check(np.allclose(written[tensor + ".scale"], scale, rtol=1e-6) and np.all(written[tensor + ".zero_point"].astype(float) == zero),
              f"{name}: {tensor} is written with the scale of its range")
    for tensor, average in zip(("x", "h"), moving) if c["activations"] else ():
        scale, zero = numbers_of(*average.range(), c["activations"], c["activations_symmetric"])
        off = c["activations"].endswith("16") or (near > 1e-4 and not c["activations_symmetric"])
        check(np.isclose(written[tensor + ".scale"], scale, rtol=near) and abs(float(written[tensor + ".zero_point"]) - zero) <= off,
              f"{name}: {tensor} is written with scale {written[tensor + '.scale']:.6g} of its moving range, numpy has {scale:.6g}")


def in_16_bits(program, folder, c, half, device):
    """One step, in which values are rounded to 16 bits and some get another code. Ranges and codes are computed in fp32."""
    name, near = f"{half}, {name_of(c)}", {"fp16": 2e-3, "bf16": 2e-2}[half]
    values, x, target, start = small(folder, c)
    scale = ["--set", "fp16.loss_scale=64"] if half == "fp16" else []
    out = folder / "run"
    run(program, *start, *device, "--steps", 1, "--set", f"{half}.enabled=true", *scale, "--set", "zero_optimization.stage3_gather_16bit_weights_on_model_save=true", "--output", out)
    losses, wants, moving = train(values, x.astype(np.float64), target.astype(np.float64), c, 1)
    check(np.allclose(losses_of(out), losses, rtol=near), f"{name}: the loss {losses_of(out)} is near numpy's {losses}")
    written, halves = initializers(out / "model.onnx"), initializers(out / "model.16bit.onnx")
    for tensor in ("w1", "w2", "b1"):
        off, moved = np.abs(written[tensor] - wants[tensor]).max(), np.abs(wants[tensor] - values[tensor]).max()
        check(off <= 10 * near * moved and moved > 0, f"{name}: {tensor} within {off:.1e} after it moved by {moved:.1e}")
        check(halves[tensor].itemsize == 2 and np.abs(halves[tensor].astype(np.float32) - written[tensor]).max() <= np.abs(written[tensor]).max() * 2.0**-8,
              f"{name}: {tensor} is written in 16 bits")
    along = 0 if c["per"] == "axis" else None
    for tensor in ("w1", "w2") if c["learn"] else ():
        first = numbers_of(values[tensor].min(along), values[tensor].max(along), c["weights"], True)[0]
        want = wants[tensor + ".scale"]
        check(np.abs(written[tensor + ".scale"] - want).max() <= 10 * near * np.abs(want - first).max() > 0, f"{name}: the scale of {tensor} learns as numpy's")
    check_written_numbers(name, written, moving, c, 2 * near)
    for file in ("model.onnx", "model.16bit.onnx"):
        onnx.checker.check_model(onnx.load(out / file), full_check=True)
    if onnxruntime:
        y, rounded = (session_of(out / file).run(None, {"x": x})[0] for file in ("model.onnx", "model.16bit.onnx"))
        check(np.abs(y - rounded).max() <= 0.03 * np.abs(y).max(), f"{name}: onnxruntime runs both models, {np.abs(y - rounded).max():.1e} apart")


def against_numpy(program, folder, c, device):
    name = name_of(c)
    values, x, target, start = small(folder, c)
    start += device
    hashes = [re.findall(r"weights: (\w+)", run(program, *start, "--threads", n, "--output", folder / f"run-{n}")) for n in (1, 2)]
    check(hashes[0] and hashes[0] == hashes[1], f"{name}: the same weights at 1 and 2 threads")
    losses, wants, moving = train(values, x.astype(np.float64), target.astype(np.float64), c)
    got = losses_of(folder / "run-1")
    check(np.allclose(got, losses, rtol=2e-5), f"{name}: losses {got} are those of numpy {losses}")
    model = folder / "run-1" / "model.onnx"
    onnx.checker.check_model(onnx.load(model), full_check=True)
    written = initializers(model)
    for tensor in ("w1", "w2", "b1", *(["w1.scale", "w2.scale"] if c["learn"] else [])):
        off, moved = np.abs(written[tensor] - wants[tensor]).max(), np.abs(wants[tensor] - values.get(tensor, 0)).max()
        check(off <= 2e-6 + 1e-3 * moved and moved > 0, f"{name}: {tensor} within {off:.1e} after it moved by {moved:.1e}")
    check_written_numbers(name, written, moving, c, 1e-4)
    if onnxruntime and c["weights"] in ("int8", "uint8"):
        run(program, "predict", "--model", model, "--inputs", folder / "x.npz", "--output", folder / "p") if not np.savez(folder / "x.npz", x=x) else None
        session = session_of(model)
        y, here = session.run(None, {"x": x})[0], np.load(folder / "p" / "outputs.npz")["y"]
        check(np.abs(y - here).max() <= 0.02 * np.abs(here).max(), f"{name}: onnxruntime's int8 kernels agree within {np.abs(y - here).max():.1e}")


def two_ranks_on_device(program, folder, case):
    """Two ranks on devices share their ranges as two ranks of the CPU do."""
    for mode in ("ddp", "dp"):
        losses = {}
        for device in ("cpu", "cuda"):
            out = folder / f"{mode}-{device}"
            run(program, "train", "--model", case / "m.onnx", "--config", case / "c.json", "--device", device, "--ranks", 2,
                "--set", "ztrain.parallel.communicator=thread", "--set", f"ztrain.parallel.mode={mode}", "--output", out)
            losses[device] = losses_of(out)
        check(np.allclose(losses["cpu"], losses["cuda"], rtol=2e-5), f"{mode}, two ranks on two devices: {losses}")


def replicas(program, folder, c):
    """Modes dp and ddp: ranges are those of all ranks' samples, so that two ranks train as one."""
    name = f"two ranks, {name_of(c)}"
    values, x, target, start = small(folder, c)
    start += ["--device", "cpu", "--set", "ztrain.checkpoint.every_steps=3"]
    losses, wants, moving = train(values, x.astype(np.float64), target.astype(np.float64), c)
    dp = ["--ranks", 2, "--set", "ztrain.parallel.mode=dp"]
    hashes = [hash_of(program, *start, "--threads", n, *way, "--output", folder / out) for out, way, n in (("ddp", dp[:2], 1), ("dp", dp, 1), ("dp-2", dp, 2))]
    check(hashes[0] and hashes[0] == hashes[1] == hashes[2], f"{name}: dp has the bits of ddp, at 1 and 2 threads")
    got, written = losses_of(folder / "dp"), initializers(folder / "dp" / "model.onnx")
    check(np.allclose(got, losses, rtol=2e-5), f"{name}: dp has losses {got}, numpy {losses}")
    for tensor in ("w1", "w2", "b1"):
        off, moved = np.abs(written[tensor] - wants[tensor]).max(), np.abs(wants[tensor] - values[tensor]).max()
        check(off <= 2e-6 + 1e-3 * moved and moved > 0, f"{name}: {tensor} within {off:.1e} after it moved by {moved:.1e}")
    check_written_numbers(name, written, moving, c, 1e-4)
    hash_of(program, *start, *dp, "--steps", 3, "--output", folder / "part")
    check(hash_of(program, *start, *dp, "--output", folder / "part", "--resume") == hashes[1], f"{name}: dp has the same weights and ranges after resuming")
    run(program, *start, "--output", folder / "one")
    check(np.allclose(got, losses_of(folder / "one"), rtol=2e-6), f"{name}: replicas train as one rank")


# ---- batch normalisation, and ranks without samples ----

def save_normalised(path, random):
    """Two products with a normalisation between them: its running statistics are far from those of a batch."""
    values = {"w1": random.standard_normal((INPUTS, HIDDEN)) * 9, "w2": random.standard_normal((HIDDEN, OUTPUTS)), "g": np.ones(HIDDEN), "b": np.zeros(HIDDEN),
              "mean": np.zeros(HIDDEN), "var": np.ones(HIDDEN)}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["m"], name="first"), helper.make_node("BatchNormalization", ["m", "g", "b", "mean", "var"], ["n"], name="norm", momentum=0.999),
             helper.make_node("Relu", ["n"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["y"], name="second")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", OUTPUTS])],
                              [numpy_helper.from_array(v.astype(np.float32), name) for name, v in values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def ranks_without_samples(program, folder):
    """The second step has 3 samples: of four ranks the last has none, whose rows have no part in any range. With statistics over all
    ranks the run is that of one rank; with a rank's own, its normalisation takes the running statistics, far from the others'."""
    random, c = np.random.default_rng(5), {**cases()[0], "activations": "int16"}
    folder.mkdir()
    save_normalised(folder / "m.onnx", random)
    np.savez(folder / "data.npz", x=random.standard_normal((11, INPUTS)).astype(np.float32), target=random.standard_normal((11, OUTPUTS)).astype(np.float32))
    start = ["train", "--model", folder / "m.onnx", "--config", config(folder / "c.json", folder / "data.npz", c), "--device", "cpu", "--threads", 1, "--steps", 4,
             "--set", "train_batch_size=8", "--set", "optimizer.params.lr=0.001"]
    for half in ([], ["--set", "bf16.enabled=true"]):
        one = folder / f"one{len(half)}"
        run(program, *start, *half, "--output", one)
        for ranks, more in ((2, []), (4, []), (4, ["--set", "zero_optimization.stage=2"]), (4, ["--set", "pipeline.stages=2", "--set", "gradient_accumulation_steps=1"])):
            out = folder / f"ranks-{len(half)}-{ranks}-{len(more)}"
            run(program, *start, *half, *more, "--ranks", ranks, "--set", "ztrain.parallel.sync_batch_norm=true", "--output", out)
            near = 2e-2 if half else 2e-5
            check(np.allclose(losses_of(out), losses_of(one), rtol=near), f"normalised, {ranks} ranks {more} {half}: losses {losses_of(out)}, one rank {losses_of(one)}")
            got, wants = (initializers(f / "model.onnx")["h.scale"] for f in (out, one))
            check(np.isclose(got, wants, rtol=near), f"normalised, {ranks} ranks {more} {half}: scale {got:.6g}, one rank {wants:.6g}")
        out = folder / f"own-{len(half)}"
        run(program, *start, *half, "--ranks", 4, "--output", out)
        got = initializers(out / "model.onnx")["h.scale"] * 65535
        check(got < 1, f"normalised with a rank's own statistics {half}: the range {got:.3g} is that of normalised rows, not of the running statistics")


# ---- the digits ----

def digits(program, folder, root):
    """Trains; returns what starts a run."""
    c = folder / "digits.json"
    c.write_text(json.dumps({"train_batch_size": 64, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
                             "ztrain": {"data": {"format": "cifar10", "path": str(root / "models/digits")}, "loss": {"type": "cross_entropy"}, "metrics": ["accuracy"],
                                        "epochs": 3, "qat": {"weights": "int8", "activations": "int8"}}}))
    return ["train", "--model", root / "models/convnet.onnx", "--config", c, "--device", "cpu"]


def hash_of(program, *words):
    return re.findall(r"weights: (\w+)", run(program, *words))


def accuracy(model, root):
    raw = np.fromfile(root / "models/digits/test_batch.bin", np.uint8).reshape(-1, 3073)
    session = session_of(model)
    scores = session.run(None, {"image": (raw[:, 1:].reshape(-1, 3, 32, 32) / 255).astype(np.float32)})[0]
    return (scores.argmax(1) == raw[:, 0]).mean()


def evaluations(folder):
    return [line["accuracy"] for line in map(json.loads, open(folder / "metrics.jsonl")) if line.get("eval")]


def learns_digits(program, folder, root):
    start = digits(program, folder, root)
    whole = hash_of(program, *start, "--output", folder / "whole", "--threads", 2)
    plain = folder / "plain"
    run(program, *start, "--output", plain, "--set", "ztrain.qat.weights=none", "--set", "ztrain.qat.activations=none")
    ours, float32 = evaluations(folder / "whole")[-1], evaluations(plain)[-1]
    check(ours > 0.94, f"digits: accuracy {ours:.4f} with int8, {float32:.4f} in fp32")
    check(hash_of(program, *start, "--output", folder / "one", "--threads", 1) == whole, "digits: the same weights at 1 and 2 threads")
    hash_of(program, *start, "--output", folder / "again", "--epochs", 1)
    check(hash_of(program, *start, "--output", folder / "again", "--resume") == whole, "digits: the same weights after resuming")
    model = folder / "whole" / "model.onnx"
    onnx.checker.check_model(onnx.load(model), full_check=True)
    names = [n.op_type for n in onnx.load(model).graph.node]
    check(names.count("QuantizeLinear") == names.count("DequantizeLinear") == 8, f"digits: four weights and four activations are quantized in the model: {names}")
    if onnxruntime:
        theirs = accuracy(model, root)
        check(abs(theirs - ours) <= POINTS, f"digits: onnxruntime's accuracy {theirs:.4f} is the last evaluation's {ours:.4f}")
    same = run_evaluate(program, model, start)
    check(abs(same - ours) < 1e-6, f"digits: ztrain evaluate of the written model: {same:.4f}, the last evaluation {ours:.4f}")
    run(program, *start, "--output", folder / "dp", "--epochs", 1, "--ranks", 2, "--set", "ztrain.parallel.mode=dp")
    ours, same = evaluations(folder / "dp")[-1], run_evaluate(program, folder / "dp" / "model.onnx", start)
    check(ours > 0.8 and abs(same - ours) < 1e-6, f"digits, dp: ztrain evaluate of the written model: {same:.4f}, the last evaluation {ours:.4f}")


def learns_digits_in_fp16(program, folder, root):
    """From DeepSpeed's first scale, whose overflows skip steps."""
    start = [*digits(program, folder, root), "--set", "fp16.enabled=true", "--set", "zero_optimization.stage3_gather_16bit_weights_on_model_save=true"]
    whole = hash_of(program, *start, "--output", folder / "half", "--threads", 2)
    ours = evaluations(folder / "half")[-1]
    check(ours > 0.94, f"digits: accuracy {ours:.4f} with int8 in fp16")
    hash_of(program, *start, "--output", folder / "half-again", "--epochs", 1, "--threads", 1)
    check(hash_of(program, *start, "--output", folder / "half-again", "--resume", "--threads", 1) == whole, "digits: fp16 has the same weights on one thread, after resuming")
    for file in ("model.onnx", "model.16bit.onnx") if onnxruntime else ():
        theirs = accuracy(folder / "half" / file, root)
        check(abs(theirs - ours) <= POINTS, f"digits: onnxruntime's accuracy {theirs:.4f} of {file} is the last evaluation's {ours:.4f}")


def run_evaluate(program, model, start):
    """The config inserts nothing where a file is evaluated."""
    import subprocess
    words = [str(w) for w in (program, "evaluate", "--model", model, "--config", start[4], "--device", "cpu")]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout)["accuracy"]


def layouts(program, folder, root):
    start = [*digits(program, folder, root), "--steps", 8, "--set", "ztrain.checkpoint.every_epochs=0", "--set", "ztrain.checkpoint.every_steps=4"]
    ddp = hash_of(program, *start, "--output", folder / "ddp", "--ranks", 2)
    threads = ["--set", "ztrain.parallel.communicator=thread"]  # of one process, which start sooner; ddp's are processes
    for stage in (1, 3):
        check(hash_of(program, *start, *threads, "--output", folder / f"zero{stage}", "--ranks", 2, "--set", f"zero_optimization.stage={stage}") == ddp,
              f"ZeRO {stage} has the weights and ranges of ddp")
    short = [w if w != 8 else 4 for w in start]
    hash_of(program, *short, *threads, "--output", folder / "part", "--ranks", 2)
    check(hash_of(program, *start, *threads, "--output", folder / "part", "--ranks", 2, "--resume") == ddp, "two ranks: the same weights and ranges after resuming")
    alone = hash_of(program, *start, "--output", folder / "alone")
    check(hash_of(program, *start, "--output", folder / "recomputed", "--set", 'ztrain.recompute=["*"]') == alone, "recomputation changes no bit")
    run(program, *start, *threads, "--output", folder / "stages", "--ranks", 2, "--set", "pipeline.stages=2")
    a, b = initializers(folder / "alone" / "model.onnx"), initializers(folder / "stages" / "model.onnx")
    check(a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() for k in a), "two pipeline stages write the model of one")


# ---- what is refused ----

def refusals(program, folder, root):
    start = [*digits(program, folder, root), "--output", folder / "refused", "--overwrite", "--steps", 1]
    for sets, says in (
            (["ztrain.qat.weights=int7"], "ztrain.qat.weights"), (["ztrain.qat.activations=fp8"], "ztrain.qat.activations"),
            (['ztrain.qat.match=["nothing"]'], "matches no MatMul, Gemm or Conv"), (["ztrain.qat.match=[]"], "ztrain.qat.match"),
            (["ztrain.qat.momentum=1"], "ztrain.qat.momentum"), (["ztrain.qat.per=block"], "ztrain.qat.per"),
            (["ztrain.qat.scales=learn", "ztrain.qat.weights_symmetric=false"], "zero points are not learned"), (["ztrain.qat.weights=int4"], "opset 21"),
            (["ztrain.qat.weights=none", "ztrain.qat.activations=none", "ztrain.qat.per=tensor"], "needs ztrain.qat.weights")):
        text = run(program, *start, *(word for one in sets for word in ("--set", one)), status=2)
        check(says in text and "error" in text, f"{sets} is refused: {text.strip().splitlines()[-1]}")
    model = folder / "old.onnx"
    save(model, {"w1": np.ones((INPUTS, HIDDEN), np.float32), "w2": np.ones((HIDDEN, OUTPUTS), np.float32), "b1": np.ones(HIDDEN, np.float32)}, 12)
    np.savez(folder / "old.npz", x=np.zeros((SAMPLES, INPUTS), np.float32), target=np.zeros((SAMPLES, OUTPUTS), np.float32))
    c = config(folder / "old.json", folder / "old.npz", cases()[0])
    text = run(program, "train", "--model", model, "--config", c, "--output", folder / "refused", "--overwrite", status=2)
    check("opset 13" in text, f"an axis in opset 12 is refused: {text.strip().splitlines()[-1]}")
    run(program, "train", "--model", model, "--config", c, "--output", folder / "refused", "--overwrite", "--set", "ztrain.qat.per=tensor")
    onnx.checker.check_model(onnx.load(folder / "refused" / "model.onnx"), full_check=True)
    text = run(program, *start[:2], folder / "again" / "model.onnx", *start[3:], status=2)
    check("is quantized in the file" in text, f"a model with its own pairs is refused: {text.strip().splitlines()[-1]}")


def matches(program, folder, root):
    start = [*digits(program, folder, root), "--overwrite", "--steps", 2]
    run(program, *start, "--output", folder / "some", "--set", 'ztrain.qat.match=["classifier.1.weight", "*features.3/Conv"]')
    read = {i for n in onnx.load(folder / "some" / "model.onnx").graph.node if n.op_type == "QuantizeLinear" for i in n.input[:1]}
    check({i for i in read if "." in i and "/" not in i} == {"classifier.1.weight", "features.3.weight"} and len(read) == 4, f"patterns over weights and nodes: {sorted(read)}")
    text = run(program, *start, "--output", folder / "frozen", "--set", "ztrain.qat.scales=learn", "--set", 'ztrain.freeze=["features.0.weight.scale"]')
    check("no initializer" not in text, "freeze matches a learned scale")
    got = initializers(folder / "frozen" / "model.onnx")
    most = np.abs(got["features.0.weight"]).reshape(32, -1).max(1) / 127 * MARGIN
    check(np.allclose(got["features.0.weight.scale"], most, rtol=1e-6), "a frozen scale follows its weight")
    run(program, *start[:-2], "--output", folder / "none", "--steps", 0, "--epochs", 0)
    check("image.scale" not in initializers(folder / "none" / "model.onnx"), "a range that no step has seen is not written")


def save_shared(path, values):
    """w read as it is, transposed, and as a copy that trains apart, as in TorchScript's files; an activation that two nodes read."""
    nodes = [helper.make_node("Identity", ["w"], ["copy"]), helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]), helper.make_node("MatMul", ["x", "w"], ["a"]),
             helper.make_node("Gemm", ["x", "copy"], ["b"], transB=1), helper.make_node("MatMul", ["x", "wt"], ["c"]), helper.make_node("Gemm", ["w", "x"], ["d"], transB=1),
             helper.make_node("Transpose", ["d"], ["e"], perm=[1, 0]), helper.make_node("Sum", ["a", "b", "c", "e"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", INPUTS])], [numpy_helper.from_array(v, name) for name, v in values.items()])
    onnx.save(helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def forms_of_weights(program, folder):
    random = np.random.default_rng(5)
    save_shared(folder / "shared.onnx", {"w": random.standard_normal((INPUTS, INPUTS)).astype(np.float32)})
    x = random.standard_normal((SAMPLES, INPUTS)).astype(np.float32)
    np.savez(folder / "shared.npz", x=x, target=random.standard_normal((SAMPLES, INPUTS)).astype(np.float32))
    for learn in (False, True):
        c = config(folder / "shared.json", folder / "shared.npz", {**cases()[0], "learn": learn})
        out = folder / f"shared-{learn}"
        run(program, "train", "--model", folder / "shared.onnx", "--config", c, "--output", out, "--device", "cpu")
        model, got = onnx.load(out / "model.onnx"), initializers(out / "model.onnx")
        onnx.checker.check_model(model, full_check=True)
        pairs = {n.input[0] + str([a.i for a in n.attribute]): got[n.input[1]] for n in model.graph.node if n.op_type == "QuantizeLinear"}
        check(len(pairs) == 5 and not np.array_equal(got["w"], got["copy"]), f"w and its copy train apart, and have pairs {sorted(pairs)}")
        most = {"w[1]": (got["w"], 0), "w[0]": (got["w"], 1), "wt[1]": (got["w"].T, 0), "copy[0]": (got["copy"], 1)}
        for name, (weight, along) in most.items() if not learn else ():
            check(np.allclose(pairs[name], np.abs(weight).max(along) / 127 * MARGIN, rtol=1e-6), f"{name}: the scales are those of the axis")
        run(program, "predict", "--model", out / "model.onnx", "--inputs", folder / "shared.npz", "--output", out / "p")
        if onnxruntime:
            y = session_of(out / "model.onnx").run(None, {"x": x})[0]
            here = np.load(out / "p" / "outputs.npz")["y"]
            check(np.abs(y - here).max() <= 0.02 * np.abs(here).max(), f"onnxruntime agrees within {np.abs(y - here).max():.1e}")


def cases():
    base = {"weights": "int8", "activations": "uint8", "per": "axis", "weights_symmetric": True, "activations_symmetric": False, "learn": False}
    return [base, {**base, "activations": "int8", "per": "tensor"}, {**base, "weights": "uint8", "weights_symmetric": False}, {**base, "activations": "int8", "activations_symmetric": True},
            {**base, "learn": True}, {**base, "learn": True, "per": "tensor", "activations": None}, {**base, "weights": "uint8", "learn": True},
            {**base, "weights": "int4", "activations": "uint8"}, {**base, "weights": "uint4", "weights_symmetric": False, "activations": "uint4"},
            {**base, "weights": "int16", "activations": "uint16"}]


def main():
    program, root, device = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), ["--device", "cpu"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        module = len(sys.argv) > 3
        if module:
            program, device = quantize.beside(program, sys.argv[3], folder / "place"), ["--device", "cuda"]
        for i, c in enumerate(cases()):
            against_numpy(program, folder / f"case-{i}", c, device)
        for i, c in enumerate(cases()[k] for k in (0, 2, 4, 5)):
            for half in ("fp16", "bf16"):
                in_16_bits(program, folder / f"{half}-{i}", c, half, device)
        if module:
            two_ranks_on_device(program, folder, folder / "case-0")
        else:
            for k in (0, 3, 4):
                replicas(program, folder / f"replicas-{k}", cases()[k])
            ranks_without_samples(program, folder / "normalised")
            learns_digits(program, folder, root)
            learns_digits_in_fp16(program, folder, root)
            layouts(program, folder, root)
            matches(program, folder, root)
            forms_of_weights(program, folder)
            refusals(program, folder, root)
    print(f"{quantize.checks - len(quantize.failures)} of {quantize.checks} hold")
    return 1 if quantize.failures else 0


if __name__ == "__main__":
    sys.exit(main())
