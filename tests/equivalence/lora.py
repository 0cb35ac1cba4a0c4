#!/usr/bin/env python3
"""Low-rank adapters (ztrain.lora) against explicit graphs, a derivation in float64, other layouts, and the memory that the plan prints.

    lora.py ZTRAIN SOURCE [MODULE]

MODULE: a CUDA module, emulated or not, which must do what the CPU does. Exit status 0: all hold, 1: one does not, 77: numpy, onnx or a GPU
is missing.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

failures, checks = [], 0
random = np.random.default_rng(7)
SAMPLES, STEPS, RANK, ALPHA = 12, 4, 2, 6
THREADS = ["ztrain.parallel.communicator=thread"]


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


def safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    return {name: np.frombuffer(data, "<f4", int(np.prod(t["shape"], dtype=int)), 8 + length + t["data_offsets"][0]).reshape(t["shape"])
            for name, t in head.items()}


def initializers(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


class Runs:
    def __init__(self, program, folder, *options):
        self.program, self.folder, self.options, self.count = program, folder, list(options), 0

    def __call__(self, model, config, *sets, more=(), status=0, command="train"):
        self.count += 1
        self.out = self.folder / f"run-{self.count}"
        words = [self.program, command, "--model", model, "--config", config, "--threads", 1, *more]
        words += ["--output", self.out, *self.options] if command == "train" else []
        for pair in sets:
            words += ["--set", pair]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.says = done.stderr + done.stdout
        if done.returncode != status:
            check(False, f"exit {done.returncode}, wants {status}: {' '.join(map(str, words))}\n{done.stderr[-900:]}")
        return re.findall(r"weights: (\w+)", done.stderr)

    def losses(self):
        return [json.loads(line)["loss"] for line in open(self.out / "metrics.jsonl")]

    def adapters(self):
        return {name.removeprefix("base_model.model."): t for name, t in safetensors(self.out / "adapter_model.safetensors").items()}


# ---- one node in each of its forms ----

def floats(*shape):
    return (random.standard_normal(shape) * 0.5).astype(np.float32)


def at(name, *inputs, op=None, **attrs):
    return helper.make_node(op or name, list(inputs[:-1]), [inputs[-1]], name=f"node_{inputs[-1]}", **attrs)


# NAME: shape of x, shape of the weight "w", nodes from "x" and "w" to "y" [N, C], whether w is stored as [in, out]
FORMS = {
    "MatMul": ([6], (6, 5), [at("MatMul", "x", "w", "y")], True),
    "MatMul, rank 3": ([4, 6], (6, 5), [at("MatMul", "x", "w", "y3"), at("ReduceMean", "y3", "axes", "y", keepdims=0)], True),
    "MatMul of a transposed weight": ([6], (5, 6), [at("Transpose", "w", "wt", perm=[1, 0]), at("MatMul", "x", "wt", "y")], False),
    "MatMul, weight on the left": ([6], (5, 6), [at("Transpose", "x", "xt", perm=[1, 0]), at("MatMul", "w", "xt", "yt"),
                                                 at("Transpose", "yt", "y", perm=[1, 0])], False),
    "Gemm": ([6], (6, 5), [at("Gemm", "x", "w", "bias", "y", alpha=0.5, beta=2.0)], True),
    "Gemm, transB": ([6], (5, 6), [at("Gemm", "x", "w", "bias", "y", transB=1)], False),
    "Gemm, transA": ([6], (6, 5), [at("Transpose", "x", "xt", perm=[1, 0]), at("Gemm", "xt", "w", "y", transA=1)], True),
    "Gemm, weight on the left": ([6], (5, 6), [at("Gemm", "w", "x", "yt", transB=1), at("Transpose", "yt", "y", perm=[1, 0])], False),
    "Gemm, transposed weight on the left": ([6], (6, 5), [at("Gemm", "w", "x", "yt", transA=1, transB=1),
                                                          at("Transpose", "yt", "y", perm=[1, 0])], True),
    "two readers": ([6], (6, 6), [at("MatMul", "x", "w", "h"), at("Transpose", "w", "wt", perm=[1, 0]), at("Tanh", "h", "k"),
                                  at("MatMul", "k", "wt", "y")], True),
    "Conv": ([3, 7, 7], (4, 3, 3, 3), [at("Conv", "x", "w", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
                                       at("ReduceMean", "c", "planes", "y", keepdims=0)], False),
    "Conv of groups": ([4, 6, 6], (6, 2, 3, 3), [at("Conv", "x", "w", "c", group=2, dilations=[2, 2]),
                                                 at("ReduceMean", "c", "planes", "y", keepdims=0)], False),
}
CONSTANTS = {"bias": floats(5), "axes": np.array([1]), "planes": np.array([2, 3])}


def save(path, nodes, tensors, sample, classes, target=TensorProto.INT64):
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *sample])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", classes or "C"])],
                              [numpy_helper.from_array(t, name) for name, t in tensors.items() if name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def config(path, data, **more):
    ztrain = {"data": {"format": "npz", "path": str(data), "shuffle": False}, "loss": {"type": "cross_entropy"}, "steps": STEPS,
              "checkpoint": {"every_epochs": 0}, **more}
    path.write_text(json.dumps({"train_batch_size": SAMPLES, "steps_per_print": 1,
                                "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "weight_decay": 0.1}}, "ztrain": ztrain}))
    return path


def lora(*match, **more):
    return {"match": list(match), "rank": RANK, "alpha": ALPHA, "export": "adapters", **more}


def explicit(nodes, shape, a, b, in_out):
    """The same nodes reading w + s B A, which the graph computes."""
    before = [at("Reshape", "w.lora_A.weight", "flat", "A2"), at("Reshape", "w.lora_B.weight", "tall", "B2"), at("MatMul", "B2", "A2", "BA")]
    before += [at("Transpose", "BA", "BAt", perm=[1, 0])] if in_out else [at("Identity", "BA", "BAt")]
    before += [at("Mul", "BAt", "scale", "sBA"), at("Reshape", "sBA", "shape", "d"), at("Add", "w", "d", "w_adapted")]
    after = [helper.make_node(n.op_type, ["w_adapted" if i == "w" else i for i in n.input], n.output, n.name) for n in nodes]
    for new, old in zip(after, nodes):
        new.attribute.extend(old.attribute)
    return before + after, {"w.lora_A.weight": a, "w.lora_B.weight": b, "scale": np.float32(ALPHA / RANK), "shape": np.array(shape),
                            "flat": np.array([RANK, -1]), "tall": np.array([-1, RANK])}


def form(run, folder, name):
    sample, shape, nodes, in_out = FORMS[name]
    classes = {"two readers": 6, "Conv": 4, "Conv of groups": 6}.get(name, 5)
    tensors = {"w": floats(*shape), **CONSTANTS}
    data, model, plain = folder / "data.npz", folder / "m.onnx", folder / "explicit.onnx"
    np.savez(data, x=floats(SAMPLES, *sample), target=random.integers(0, classes, SAMPLES))
    save(model, nodes, tensors, sample, classes)
    adapted = config(folder / "lora.json", data, lora=lora("w"))
    run(model, adapted, "optimizer.params.lr=0")
    first = run.adapters()
    a, b = first["w.lora_A.weight"], first["w.lora_B.weight"]
    out, inside = (shape[1], shape[0]) if in_out else (shape[0], int(np.prod(shape[1:])))
    bound = inside ** -0.5
    check(a.shape == (RANK, inside if len(shape) == 2 else shape[1], *shape[2:]) and b.shape == (out, RANK, *[1] * (len(shape) - 2)),
          f"{name}: PEFT's shapes, {a.shape} and {b.shape}")
    check(not b.any() and 0.5 * bound < np.abs(a).max() <= bound, f"{name}: B is zero, A uniform below {bound:.3f}")
    extra, more = explicit(nodes, shape, a, b, in_out)
    save(plain, extra, {**tensors, **more}, sample, classes)
    run(plain, config(folder / "plain.json", data, freeze=["w", "bias", "scale"], tie_equal=False))
    losses, trained = run.losses(), initializers(run.out / "model.onnx")
    run(model, adapted)
    got = run.adapters()
    check(np.allclose(run.losses(), losses, rtol=2e-6) and run.losses()[0] > run.losses()[-1], f"{name}: losses {run.losses()} are those of w + s B A")
    for factor in ["w.lora_A.weight", "w.lora_B.weight"]:
        off = np.abs(got[factor] - trained[factor]).max()
        check(off < 2e-5 and np.abs(got[factor] - first[factor]).max() > 1e-2, f"{name}: {factor} within {off:.1e}")
    check((run.out / "model.onnx").read_bytes() == model.read_bytes(), f"{name}: the model file is untouched")
    merged(run, folder, name, got, tensors, (model, adapted), in_out)


def merged(run, folder, name, adapters, tensors, start, in_out):
    """W + s B A, and nothing else, in the exported file; which computes what the adapters do."""
    run(*start, "ztrain.lora.export=merged")
    a, b = (adapters[f"w.lora_{k}.weight"].astype(np.float64) for k in "AB")
    change = (ALPHA / RANK) * b.reshape(-1, RANK) @ a.reshape(RANK, -1)
    wants = tensors["w"] + (change.T if in_out else change).reshape(tensors["w"].shape)
    got = initializers(run.out / "model.onnx")
    check(np.abs(got["w"] - wants).max() <= np.abs(wants).max() * 2 ** -24, f"{name}: merged is w + s B A rounded once")
    check(all(np.array_equal(got[k], tensors[k]) for k in got if k != "w"), f"{name}: other initializers stay")
    extra, more = explicit(FORMS[name][2], tensors["w"].shape, adapters["w.lora_A.weight"], adapters["w.lora_B.weight"], in_out)
    save(folder / "running.onnx", extra, {**tensors, **more}, FORMS[name][0], None)
    np.savez(folder / "x.npz", x=np.load(folder / "data.npz")["x"])
    outputs = [predict(run, model, folder) for model in (run.out / "model.onnx", folder / "running.onnx")]
    check(np.allclose(*outputs, rtol=1e-5, atol=1e-6), f"{name}: the merged model computes what ran")


def predict(run, model, folder):
    subprocess.run([str(w) for w in [run.program, "predict", "--model", model, "--inputs", folder / "x.npz", "--output", folder / "outputs"]],
                   check=True, stdout=subprocess.DEVNULL)
    return np.load(folder / "outputs/outputs.npz")["y"]


def derivation(run, folder):
    """x A1^T .. by hand: two adapted products with a ReLU between them, mean squared error, SGD with momentum, in float64."""
    w = [floats(6, 8), floats(8, 3)]
    x, target = floats(SAMPLES, 6), floats(SAMPLES, 3)
    np.savez(folder / "data.npz", x=x, target=target)
    save(folder / "m.onnx", [at("MatMul", "x", "w1", "h"), at("Relu", "h", "r"), at("MatMul", "r", "w2", "y")], dict(zip(["w1", "w2"], w)), [6], 3)
    start = [folder / "m.onnx", config(folder / "lora.json", folder / "data.npz", lora=lora("w*"), loss={"type": "mse"})]
    sgd = ['optimizer={"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}']
    run(*start, 'optimizer={"type": "SGD", "params": {"lr": 0}}')
    p = {k: v.astype(np.float64) for k, v in run.adapters().items()}
    velocity, losses, s = {k: 0 for k in p}, [], ALPHA / RANK
    for _ in range(STEPS):
        a, b = ([p[f"w{i}.lora_{k}.weight"] for i in (1, 2)] for k in "AB")
        h = x @ w[0] + s * (x @ a[0].T) @ b[0].T
        r = np.maximum(h, 0)
        y = r @ w[1] + s * (r @ a[1].T) @ b[1].T
        losses.append(((y - target) ** 2).mean())
        dy = 2 * (y - target) / y.size
        dh = (dy @ w[1].T + s * (dy @ b[1]) @ a[1]) * (h > 0)
        grads = {"w2.lora_A.weight": s * (dy @ b[1]).T @ r, "w2.lora_B.weight": s * dy.T @ (r @ a[1].T),
                 "w1.lora_A.weight": s * (dh @ b[0]).T @ x, "w1.lora_B.weight": s * dh.T @ (x @ a[0].T)}
        for k in p:
            velocity[k] = 0.9 * velocity[k] + grads[k]
            p[k] = p[k] - 0.1 * velocity[k]
    run(*start, *sgd)
    check(np.allclose(run.losses(), losses, rtol=1e-6), f"float64: losses {run.losses()}")
    got = run.adapters()
    off = max(np.abs(got[k] - p[k]).max() for k in p)
    check(off < 1e-6 and set(got) == set(p), f"float64: adapters within {off:.1e}")


def main():
    program, source = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run = Runs(program, folder)
        derivation(run, folder)
        for name in FORMS:
            form(run, folder, name)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


main()
