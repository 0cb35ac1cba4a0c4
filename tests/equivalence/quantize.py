#!/usr/bin/env python3
"""Training through QuantizeLinear and DequantizeLinear against numpy in float64.

    quantize.py ZTRAIN SOURCE [MODULE]

A network of two products, whose weights (one scale for each column) and activations (one scale, with a zero point) are quantized, trains with SGD:
gradients pass by the straight-through estimator, scales are constants or learn by LSQ's gradient. The reference is written from the formulas. Also:
the pair computes the bits of its two nodes, the written model keeps both and has the learned scales, onnxruntime computes what ztrain trained and
the gradients that `grad --emit` writes, 1 and 2 threads leave the same weights, and what is not built is refused by name. MODULE: a CUDA module,
emulated or not, which must do what the CPU does.

Exit status 0: all hold, 1: one does not, 77: numpy or onnx is missing.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

random = np.random.default_rng(5)
SAMPLES, INPUTS, HIDDEN, OUTPUTS, STEPS, RATE = 24, 7, 19, 3, 5, 0.05
failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


# ---- the network: name of a quantization -> input, type, axis ----

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)}
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4}


def numbers(weights, activations):
    """Initial values: some activations and some weights lie outside of the range."""
    high = RANGES[weights][1]
    w1, w2 = random.standard_normal((INPUTS, HIDDEN)) * 0.6, random.standard_normal((HIDDEN, OUTPUTS)) * 0.6
    levels = RANGES[activations][1]
    values = {"w1": w1, "w2": w2, "b1": random.standard_normal(HIDDEN) * 0.1,
              "s_w1": np.abs(w1).max(0) / high * 0.8, "s_w2": np.abs(w2).max(0) / high * 0.9, "s_x": np.array(3.0 / levels), "s_h": np.array(2.5 / levels)}
    return {name: v.astype(np.float32) for name, v in values.items()}


def zeros_of(activations):
    return {"z_x": RANGES[activations][1] // 2 + 1, "z_h": 3}


def pair(name, scale, zero, axis=None):
    at = {} if axis is None else {"axis": axis}
    return [helper.make_node("QuantizeLinear", [name, scale, zero], [name + "_q"], name=name + "_quantize", **at),
            helper.make_node("DequantizeLinear", [name + "_q", scale, zero], [name + "_d"], name=name + "_dequantize", **at)]


def typed(name, value, type_name):
    value = np.asarray(value)
    return helper.make_tensor(name, TYPES[type_name], value.shape, value.reshape(-1).tolist())


def save(path, values, weights, activations, split=False):
    """split: an Identity between the nodes of each pair, so that they run one by one."""
    nodes = [*pair("x", "s_x", "z_x"), *pair("w1", "s_w1", "z_w1", 1), *pair("w2", "s_w2", "z_w2", 1),
             helper.make_node("MatMul", ["x_d", "w1_d"], ["m"]), helper.make_node("Add", ["m", "b1"], ["a"]), helper.make_node("Relu", ["a"], ["h"]),
             *pair("h", "s_h", "z_h"), helper.make_node("MatMul", ["h_d", "w2_d"], ["y"])]
    if split:
        for node in [n for n in nodes if n.op_type == "DequantizeLinear"]:
            nodes.insert(nodes.index(node), helper.make_node("Identity", [node.input[0]], [node.input[0] + "_i"]))
            node.input[0] += "_i"
    tensors = [numpy_helper.from_array(v, name) for name, v in values.items()]
    tensors += [typed(name, zero, activations) for name, zero in zeros_of(activations).items()]
    tensors += [typed(name, np.zeros(count, int), weights) for name, count in (("z_w1", HIDDEN), ("z_w2", OUTPUTS))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", OUTPUTS])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


# ---- the reference ----

class Fake:
    """y = (clip(round(x / s) + z) - z) s and its gradients."""

    def __init__(self, x, scale, zero, type_name):
        self.low, self.high = RANGES[type_name]
        self.scale, self.zero, self.v = scale, zero, x / scale
        self.q = np.clip(np.rint(self.v) + zero, self.low, self.high)
        self.passes = (self.v + zero >= self.low) & (self.v + zero <= self.high)
        self.y = (self.q - zero) * scale

    def back(self, dy):
        terms = dy * (self.q - self.zero - np.where(self.passes, self.v, 0))
        count = terms.size / self.scale.size
        return np.where(self.passes, dy, 0), (terms.sum(0) if self.scale.ndim else terms.sum()) / np.sqrt(count * self.high)


def gradients(p, x, target, weights, activations):
    zero = zeros_of(activations)
    fx, f1 = Fake(x, p["s_x"], zero["z_x"], activations), Fake(p["w1"], p["s_w1"], 0, weights)
    f2 = Fake(p["w2"], p["s_w2"], 0, weights)
    a = fx.y @ f1.y + p["b1"]
    fh = Fake(np.maximum(a, 0), p["s_h"], zero["z_h"], activations)
    y = fh.y @ f2.y
    loss, dy = ((y - target) ** 2).mean(), 2 * (y - target) / y.size
    dh, ds_h = fh.back(dy @ f2.y.T)
    dw2, ds_w2 = f2.back(fh.y.T @ dy)
    da = np.where(a > 0, dh, 0)
    dw1, ds_w1 = f1.back(fx.y.T @ da)
    _, ds_x = fx.back(da @ f1.y.T)
    return loss, {"w1": dw1, "w2": dw2, "b1": da.sum(0), "s_w1": ds_w1, "s_w2": ds_w2, "s_x": ds_x, "s_h": ds_h}


def train(values, x, target, weights, activations, learn):
    p, losses = {name: v.astype(np.float64) for name, v in values.items()}, []
    for _ in range(STEPS):
        loss, g = gradients(p, x, target, weights, activations)
        losses.append(loss)
        p = {name: v - RATE * g[name] if learn or not name.startswith("s_") else v for name, v in p.items()}
    return losses, p


# ---- ztrain ----

def config(path, data, scales, **more):
    ztrain = {"data": {"format": "npz", "path": str(data), "shuffle": False}, "loss": {"type": "mse"}, "steps": STEPS,
              "checkpoint": {"every_epochs": 0}, "qat": {"scales": scales, **more}}
    path.write_text(json.dumps({"train_batch_size": SAMPLES, "optimizer": {"type": "SGD", "params": {"lr": RATE}}, "ztrain": ztrain}))
    return path


def run(program, *words, status=0):
    done = subprocess.run([str(w) for w in (program, *words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != status:
        check(False, f"exit {done.returncode}, wants {status}: {' '.join(map(str, words))}\n{done.stderr[-900:]}")
    return done.stderr


def losses_of(folder):
    return [json.loads(line)["loss"] for line in open(folder / "metrics.jsonl")]


def initializers(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def trains(program, folder, weights, activations, learn, device):
    name = f"{weights} weights, {activations} activations, scales {'learned' if learn else 'fixed'}"
    folder = folder / f"{weights}-{activations}-{learn}"
    folder.mkdir()
    values = numbers(weights, activations)
    x, target = random.standard_normal((SAMPLES, INPUTS)), random.standard_normal((SAMPLES, OUTPUTS))
    x, target = x.astype(np.float32), target.astype(np.float32)
    np.savez(folder / "data.npz", x=x, target=target)
    save(folder / "m.onnx", values, weights, activations)
    start = ["train", "--model", folder / "m.onnx", "--config", config(folder / "c.json", folder / "data.npz", "learn" if learn else "fixed"), *device]
    hashes = [re.findall(r"weights: (\w+)", run(program, *start, "--threads", n, "--output", folder / f"run-{n}")) for n in (1, 2)]
    losses, wants = train(values, x.astype(np.float64), target.astype(np.float64), weights, activations, learn)
    out = folder / "run-1"
    check(np.allclose(losses_of(out), losses, rtol=2e-5), f"{name}: losses {losses_of(out)} are those of numpy")
    got = initializers(out / "model.onnx")
    for tensor, want in wants.items():
        off = np.abs(got[tensor] - want).max()
        moved = np.abs(want - values[tensor]).max()
        check(off <= 2e-6 + 1e-3 * moved, f"{name}: {tensor} within {off:.1e} after it moved by {moved:.1e}")
        check((moved > 0) == (learn or not tensor.startswith("s_")), f"{name}: {tensor} {'moves' if moved else 'stays'}")
    check(hashes[0] == hashes[1] and hashes[0], f"{name}: 1 and 2 threads leave the same weights")
    check([n.op_type for n in onnx.load(out / "model.onnx").graph.node] == [n.op_type for n in onnx.load(folder / "m.onnx").graph.node],
          f"{name}: the written model has the nodes of the file")
    same_bits(program, folder, x, got, weights, activations)
    in_onnxruntime(program, folder, name, x)


def predict(program, model, data, out):
    run(program, "predict", "--model", model, "--inputs", data, "--output", out)
    return np.load(out / "outputs.npz")["y"]


def same_bits(program, folder, x, values, weights, activations):
    """Trained values through the pairs, and through the nodes one by one."""
    np.savez(folder / "x.npz", x=x)
    plain = {name: v for name, v in values.items() if not name.startswith("z_")}
    save(folder / "joined.onnx", plain, weights, activations)
    save(folder / "split.onnx", plain, weights, activations, split=True)
    joined, split = (predict(program, folder / f"{k}.onnx", folder / "x.npz", folder / k) for k in ("joined", "split"))
    check(joined.tobytes() == split.tobytes(), f"{weights}, {activations}: a pair has the bits of its nodes")


def in_onnxruntime(program, folder, name, x):
    if not onnxruntime:
        return
    run(program, "grad", "--model", folder / "joined.onnx", "--inputs", folder / "x.npz", "--output", folder / "grad", "--emit", folder / "grad.onnx")
    params = np.load(folder / "grad" / "grad_params.npz")
    # In full precision, node by node: the gradients of ztrain are those of the nodes that the file has.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "joined.onnx"), options, providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": x})[0]
    check(np.allclose(y, np.load(folder / "joined" / "outputs.npz")["y"], rtol=1e-5, atol=1e-5), f"{name}: onnxruntime computes the trained model")
    session = onnxruntime.InferenceSession(str(folder / "grad.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: x if i.name == "x" else np.ones([d for d in i.shape], np.float32) for i in session.get_inputs()}
    got = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    for parameter in params.files:
        want = params[parameter]
        check(np.allclose(got[f"grad:{parameter}"], want, rtol=1e-4, atol=1e-5 * max(1, np.abs(want).max())), f"{name}: onnxruntime's gradient of {parameter}")


def refusals(program, folder):
    values = numbers("int8", "uint8")
    save(folder / "m.onnx", values, "int8", "uint8")
    np.savez(folder / "data.npz", x=np.zeros((SAMPLES, INPUTS), np.float32), target=np.zeros((SAMPLES, OUTPUTS), np.float32))
    for key in ("weights", "activations"):
        c = config(folder / "c.json", folder / "data.npz", "fixed", **{key: "int8"})
        says = run(program, "train", "--model", folder / "m.onnx", "--config", c, "--output", folder / "o", status=2)
        check("is quantized in the file" in says, f"ztrain.qat.{key} is refused for a model with pairs of its own: {says.strip().splitlines()[0]}")
    bad = onnx.load(folder / "m.onnx")
    for change, what in (({"s_w1": np.zeros(HIDDEN + 1, np.float32)}, "a scale of a wrong length"), ({"s_x": np.zeros((1, 1, 2), np.float32)}, "a scale of a wrong rank")):
        save(folder / "bad.onnx", {**values, **change}, "int8", "uint8")
        says = run(program, "predict", "--model", folder / "bad.onnx", "--inputs", folder / "data.npz", "--output", folder / "p", status=3)
        check("scale" in says and "equantize" in says, f"{what} is refused: {says.strip().splitlines()[0]}")
    for axis in (2, -3, 2 ** 62):
        for node in bad.graph.node:
            if node.name == "w1_quantize":
                node.ClearField("attribute")
                node.attribute.append(helper.make_attribute("axis", axis))
        onnx.save(bad, folder / "bad.onnx")
        says = run(program, "predict", "--model", folder / "bad.onnx", "--inputs", folder / "data.npz", "--output", folder / "p", status=3)
        check("axis" in says, f"axis {axis} is refused: {says.strip().splitlines()[0]}")


def beside(program, module, folder):
    """The program in a folder of its own with the CUDA module beside it, where it looks for it."""
    folder.mkdir()
    for file in (program, pathlib.Path(module)):
        shutil.copy(file, folder / file.name)
    return folder / program.name


def main():
    program, device = pathlib.Path(sys.argv[1]).resolve(), ["--device", "cpu"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if len(sys.argv) > 3:
            program, device = beside(program, sys.argv[3], folder / "place"), ["--device", "cuda"]
        for weights, activations, learn in (("int8", "uint8", False), ("int8", "uint8", True), ("int4", "uint8", True), ("int4", "uint4", False)):
            trains(program, folder, weights, activations, learn, device)
        refusals(program, folder)
    print(f"{checks - len(failures)} of {checks} hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
