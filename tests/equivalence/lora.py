#!/usr/bin/env python3
"""Low-rank adapters (ztrain.lora) against explicit graphs, a derivation in float64, other layouts, and the memory that the plan prints.

    lora.py ZTRAIN SOURCE [--16-bits | MODULE]

--16-bits: only the layouts, in bf16 and fp16. MODULE: a CUDA module, emulated or not, which must do what the CPU does. Exit status 0: all hold, 1: one does not, 77: numpy, onnx or a GPU
is missing.
"""
import copy
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnx.parser
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
        words += ["--output", self.out, *self.options] if command == "train" and "--output" not in more else []
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


def parsed(text):
    """Nodes of a text in ONNX's syntax."""
    return list(onnx.parser.parse_graph(f"g (float[N] x) => (float[N] y) {{ {text} }}").node)


LOOP = "Loop(n, , x) <body = b (int64 i, bool c, float[N,6] v) => (c, o) {{ u = {}  s = Mul(u, half)  p = Add(s, x)  o = Tanh(p) }}>"  # a contraction
COUNT = "n = Constant<value_int = {}>()  "

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
    "two Gemms with alpha": ([6], (6, 6), [at("Gemm", "x", "w", "h", alpha=0.5), at("Tanh", "h", "k"), at("Gemm", "k", "w", "y", alpha=0.5, transB=1)], True),
    "Conv": ([3, 7, 7], (4, 3, 3, 3), [at("Conv", "x", "w", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
                                       at("ReduceMean", "c", "planes", "y", keepdims=0)], False),
    "Conv of groups": ([4, 6, 6], (6, 2, 3, 3), [at("Conv", "x", "w", "c", group=2, dilations=[2, 2]),
                                                 at("ReduceMean", "c", "planes", "y", keepdims=0)], False),
    "If": ([6], (6, 5), parsed("c = Constant<value_int = 1>()  b = Cast<to = 9>(c)  y = If(b) <then_branch = t () => (u) { v = MatMul(x, w)"
                               "  u = Tanh(v) }, else_branch = e () => (u) { u = MatMul(x, w) }>"), True),
    "If that hands the weight on": ([6], (6, 6), parsed(
        "c = Constant<value_int = 0>()  b = Cast<to = 9>(c)  v = If(b) <then_branch = t () => (w) { }, else_branch = e () => (u) { u = Identity(w) }>"
        "  y = MatMul(x, v)"), True),
    "Loop that is written out": ([6], (6, 6), parsed(COUNT.format(3) + "y = " + LOOP.format("MatMul(v, w)")), True),
    "Loop that runs as a loop": ([6], (6, 6), parsed(COUNT.format(1500) + "y = " + LOOP.format("MatMul(v, w)")), True),
    "Loop of a transposed weight": ([6], (6, 6), parsed("t = Transpose<perm = [1, 0]>(w)  " + COUNT.format(1500) + "y = " + LOOP.format("MatMul(v, t)")),
                                    False),
    "Loop with Gemm, transB": ([6], (6, 6), parsed(COUNT.format(1200) + "y = " + LOOP.format("Gemm<transB = 1, alpha = 0.5>(v, w)")), False),
    "Loop, and a reader outside": ([6], (6, 6), parsed(COUNT.format(1500) + "z = " + LOOP.format("MatMul(v, w)") + "  y = MatMul(z, w)"), True),
    "Loop in a Loop": ([6], (6, 6), parsed(COUNT.format(1300) + "k = Constant<value_int = 4>()  y = Loop(k, , x) <body = a (int64 j, bool d, float[N,6] r)"
                       " => (d, z) { z = Loop(n, , r) <body = b (int64 i, bool c, float[N,6] v) => (c, o) { u = MatMul(v, w)  s = Mul(u, half)  p = Add(s, x)  o = Tanh(p) }> }>"), True),
    "Scan that is written out": ([5, 6], (6, 6), parsed(
        "t = Transpose<perm = [1, 0, 2]>(x)  z = ReduceSum<keepdims = 0>(x, axes)  y, all = Scan<num_scan_inputs = 1, body = b (float[N,6] h, float[N,6] a)"
        " => (o, o) { u = MatMul(h, w)  s = Mul(u, half)  p = Add(s, a)  o = Tanh(p) }>(z, t)"), True),
    "Scan that runs as a loop": ([1100, 6], (6, 6), parsed(
        "t = Transpose<perm = [1, 0, 2]>(x)  z = ReduceMean<keepdims = 0>(x, axes)  h, all = Scan<num_scan_inputs = 1, body = b (float[N,6] h, float[N,6] a)"
        " => (o, o) { u = MatMul(h, w)  s = Mul(u, half)  p = Add(s, a)  o = Tanh(p) }>(z, t)  first = Constant<value_ints = [0]>()"
        "  m = ReduceMean<keepdims = 0>(all, first)  y = Add(h, m)"), True),
    "function": ([6], (6, 5), parsed("y = my.f(x, w)"), True),
    "function in a Loop": ([6], (6, 6), parsed(COUNT.format(1500) + "y = " + LOOP.format("my.f(v, w)")), True),
    "Conv in a Loop": ([3, 5, 5], (3, 3, 3, 3), parsed(
        COUNT.format(1100) + "h = Loop(n, , x) <body = b (int64 i, bool c, float[N,3,5,5] v) => (c, o) { u = Conv<pads = [1, 1, 1, 1]>(v, w)  s = Mul(u, fifth)"
        "  p = Add(s, x)  o = Tanh(p) }>  y = ReduceMean<keepdims = 0>(h, planes)"), False),
}
FUNCTIONS = [helper.make_function("my", "f", ["a", "b"], ["c"], [at("MatMul", "a", "b", "c")], [helper.make_opsetid("", 18)])]
CLASSES = {"two readers": 6, "two Gemms with alpha": 6, "Conv": 4, "Conv of groups": 6, "Conv in a Loop": 3, "If": 5, "function": 5}
CONSTANTS = {"bias": floats(5), "axes": np.array([1]), "planes": np.array([2, 3]), "fifth": np.float32(0.2), "half": np.float32(0.5)}


def names_read(nodes):
    """What nodes and the graphs in them read."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from names_read(attribute.g.node)
            yield from (output.name for output in attribute.g.output)


def save(path, nodes, tensors, sample, classes, target=TensorProto.INT64):
    used = set(names_read(nodes))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *sample])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", classes or "C"])],
                              [numpy_helper.from_array(t, name) for name, t in tensors.items() if name in used])
    calls = "my" in {node.domain for node in nodes} or "Loop" in {node.op_type for node in nodes}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)], ir_version=10)
    model.functions.extend(FUNCTIONS if calls else [])
    onnx.save(model, path)


def config(path, data, **more):
    ztrain = {"data": {"format": "npz", "path": str(data), "shuffle": False}, "loss": {"type": "cross_entropy"}, "steps": STEPS,
              "checkpoint": {"every_epochs": 0}, **more}
    path.write_text(json.dumps({"train_batch_size": SAMPLES, "steps_per_print": 1,
                                "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "weight_decay": 0.1}}, "ztrain": ztrain}))
    return path


def lora(*match, **more):
    return {"match": list(match), "rank": RANK, "alpha": ALPHA, "export": "adapters", **more}


def rename(nodes):
    """w becomes w_adapted, also in the graphs that nodes hold."""
    for node in nodes:
        node.input[:] = ["w_adapted" if i == "w" else i for i in node.input]
        for attribute in node.attribute:
            rename(attribute.g.node)
            for output in attribute.g.output:
                output.name = "w_adapted" if output.name == "w" else output.name
    return nodes


def explicit(nodes, shape, a, b, in_out):
    """The same nodes reading w + s B A, which the graph computes."""
    before = [at("Reshape", "w.lora_A.weight", "flat", "A2"), at("Reshape", "w.lora_B.weight", "tall", "B2"), at("MatMul", "B2", "A2", "BA")]
    before += [at("Transpose", "BA", "BAt", perm=[1, 0])] if in_out else [at("Identity", "BA", "BAt")]
    before += [at("Mul", "BAt", "scale", "sBA"), at("Reshape", "sBA", "shape", "d"), at("Add", "w", "d", "w_adapted")]
    after = rename([copy.deepcopy(node) for node in nodes])
    return before + after, {"w.lora_A.weight": a, "w.lora_B.weight": b, "scale": np.float32(ALPHA / RANK), "shape": np.array(shape),
                            "flat": np.array([RANK, -1]), "tall": np.array([-1, RANK])}


def form(run, folder, name):
    sample, shape, nodes, in_out = FORMS[name]
    classes = CLASSES.get(name, shape[0] if "Loop" in name or "Scan" in name or "If" in name else 5)
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


def bodies(run, folder):
    """What cannot be adapted in graphs that nodes hold is refused by node; what runs as a loop does so."""
    np.savez(folder / "data.npz", x=floats(SAMPLES, 6), target=random.integers(0, 6, SAMPLES))
    start = [folder / "m.onnx", config(folder / "lora.json", folder / "data.npz", lora=lora("w"))]
    adapted = lambda **more: "ztrain.lora=" + json.dumps(lora("w", **more))
    loop = COUNT.format(1500) + "y = " + LOOP.format("MatMul(v, w)")
    named = lambda text: [node for node in parsed(text) if not setattr(node, "name", f"node_{node.output[0]}")]
    model = lambda text, **tensors: save(folder / "m.onnx", named(text), {"w": floats(6, 6), **CONSTANTS, **tensors}, [6], 6)
    model(loop)
    run(*start, command="plan")
    check("LoopRun" in run.says, "the loop of these tests runs as a loop")
    run(*start, adapted(dropout=0.1), status=3)
    check('node_y (LoopRun): reads "w" in a loop that runs as a loop: ztrain.lora.dropout' in run.says, f"dropout in a loop: {run.says[-300:]}")
    model("k = Constant<value_int = 3>()  z, last = Loop(k, , x, w) <body = b (int64 i, bool c, float[N,6] v, float[6,6] m) => (c, o, n) { u = MatMul(v, m)"
          "  o = Tanh(u)  n = Mul(m, half) }>  y = MatMul(z, v2)", v2=floats(6, 6))
    run(*start, status=2)
    check('"w", which is carried or cut into slices, which are other tensors in each iteration, by node_z (Loop)' in run.says, f"a state: {run.says[-300:]}")
    model("k = Constant<value_int = 3>()  z = Loop(k, , x) <body = b (int64 i, bool c, float[N,6] v) => (c, o) { u = MatMul(v, w)  t = Add(w, half)"
          "  o = MatMul(u, t) }>  y = Identity(z)")
    run(*start, status=2)
    check(re.search(r'"w", which is read by node_z/.* \(Add\) too', run.says), f"another reader in a body: {run.says[-300:]}")
    model("k = Constant<value_int = 3>()  z, all = Loop(k, , x) <body = b (int64 i, bool c, float[N,6] v) => (c, o, w) { o = MatMul(v, w) }>"
          "  y = Identity(z)")
    run(*start, status=2)
    check('"w", which is handed out by the body of node_z (Loop) too' in run.says, f"an output of a body: {run.says[-300:]}")
    model("c = Constant<value_int = 1>()  b = Cast<to = 9>(c)  z = If(b) <then_branch = t () => (u) { u = MatMul(x, v2) },"
          " else_branch = e () => (u) { u = MatMul(x, w) }>  y = Identity(z)", v2=floats(6, 6))
    run(*start, "ztrain.lora=" + json.dumps(lora("w", "v2")))
    check('"w" has no adapter: its readers are in a branch that is not taken' in run.says and set(run.adapters()) == {"v2.lora_A.weight", "v2.lora_B.weight"},
          f"a branch that is not taken: {run.says[-300:]}")
    model(loop)
    names = []
    for pattern in ("node_y/*", "*y*"):
        run(*start, "ztrain.lora=" + json.dumps(lora(pattern)))
        names.append(sorted(run.adapters()))
    check(names == 2 * [["w.lora_A.weight", "w.lora_B.weight"]], f"patterns match nodes of a body: {names}")
    for ranks, sets in ((2, ["zero_optimization.stage=3"]), (2, []), (1, ["bf16.enabled=true"]), (1, ["fp16.enabled=true", "fp16.loss_scale=128"])):
        run(*start, adapted(), *THREADS)
        one = run.losses()
        run(*start, adapted(), *THREADS, *sets, more=["--ranks", ranks])
        check(np.allclose(run.losses(), one, rtol=2e-2 if ranks == 1 else 2e-6), f"a loop, {ranks} ranks, {sets}: losses {run.losses()} and {one}")


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


# ---- a whole model ----

GPT = ['ztrain.lora={"match": ["*qkv*", "*proj*", "*mlp*"], "rank": 4, "alpha": 8, "dropout": 0.1}', "ztrain.checkpoint.every_steps=3",
       "ztrain.data.eval_path=null", "train_batch_size=8", "steps_per_print=1"]
LAYOUTS = {
    "2 ranks": (2, []),
    **{f"ZeRO {stage}, 2 ranks": (2, [f"zero_optimization.stage={stage}"]) for stage in (1, 2, 3)},
    "ZeRO 3, nothing whole, 2 ranks": (2, ["zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0"]),
    "2 stages, ZeRO 3, nothing whole, 4 ranks": (4, ["pipeline.stages=2", "zero_optimization.stage=3",
                                                     "zero_optimization.stage3_param_persistence_threshold=0"]),
    "2 stages": (2, ["pipeline.stages=2"]),
    "2 stages, ZeRO 1, 4 ranks": (4, ["pipeline.stages=2", "zero_optimization.stage=1"]),
    "mode dp": (2, ["ztrain.parallel.mode=dp"]),
}


def layouts(run, source, *precision):
    """Losses of one rank in every layout, and runs that resume as if they had not stopped."""
    start, more = [source / "models/gpt.onnx", source / "configs/gpt.json"], ["--steps", 6]
    run(*start, *GPT, *precision, more=more)
    one, what = run.losses(), " ".join(precision) or "fp32"
    for name, (ranks, sets) in {"1 rank": (1, []), **LAYOUTS}.items():
        sets = [*GPT, *precision, *THREADS, *sets]
        weights = run(*start, *sets, more=[*more, "--ranks", ranks])
        losses, folder = run.losses(), run.out / "checkpoints/step-3"
        check(np.allclose(losses, one, rtol=2e-2 if precision else 2e-6), f"{what}, {name}: losses {losses[-1]} and {one[-1]}")
        resumed = run(*start, *sets, more=[*more, "--ranks", ranks, "--resume", folder])
        check(resumed == weights and len(weights) == 1, f"{what}, {name}: the same bits when it resumes")
    steady = [GPT[0].replace("0.1", "0"), *precision]  # other micro-batches drop other elements
    for micro_batches in (2, 4):
        run(*start, *GPT[1:], *steady, f"gradient_accumulation_steps={micro_batches}", more=more)
        one = run.losses() if micro_batches == 2 else one
    check(np.allclose(run.losses(), one, rtol=2e-2 if precision else 2e-6), f"{what}: smaller micro-batches give the same losses")


def state_bytes(run, model, config, *sets):
    """Bytes of the plan per rank: weights, gradients and states; then activations."""
    run(model, config, *sets, command="plan")
    row = re.search(r"^rank 0 +(.*)", run.says, re.M).group(1).split()
    return sum(int(n) for n in row[:3]), int(row[3])


def gpt(path, width, layers, heads, tokens, length):
    """A GPT of random weights, the output layer apart."""
    tensors = {"wte.weight": floats(tokens, width), "wpe.weight": floats(length, width), "head.weight": floats(width, tokens),
               "split": np.array([0, 0, 3, heads, width // heads]), "join": np.array([0, 0, width]),
               "mask": np.triu(np.full((length, length), -1e4, np.float32), 1), "scale": np.float32((width // heads) ** -0.5)}
    nodes = [at("Gather", "wte.weight", "x", "e"), at("Add", "e", "wpe.weight", "h0")]
    for i in range(layers):
        n, last = lambda name: f"h.{i}.{name}", f"h{i}"
        for norm in ("ln_1", "ln_2"):
            tensors |= {n(f"{norm}.weight"): np.ones(width, np.float32), n(f"{norm}.bias"): np.zeros(width, np.float32)}
        for name, a, b in [("attn.qkv", width, 3 * width), ("attn.proj", width, width), ("mlp.fc", width, 4 * width), ("mlp.proj", 4 * width, width)]:
            tensors |= {n(f"{name}.weight"): floats(a, b) * np.float32(0.1), n(f"{name}.bias"): np.zeros(b, np.float32)}
        linear = lambda name, x, y: [at("MatMul", x, n(f"{name}.weight"), y + "_w"), at("Add", y + "_w", n(f"{name}.bias"), y)]
        nodes += [at("LayerNormalization", last, n("ln_1.weight"), n("ln_1.bias"), n("a"))] + linear("attn.qkv", n("a"), n("qkv"))
        nodes += [at("Reshape", n("qkv"), "split", n("heads")), at("Transpose", n("heads"), n("parts"), perm=[2, 0, 3, 1, 4]),
                  helper.make_node("Split", [n("parts")], [n("q1"), n("k1"), n("v1")], name=n("cut"), axis=0, num_outputs=3)]
        nodes += [at("Squeeze", n(c + "1"), "first", n(c)) for c in "qkv"]
        nodes += [at("Transpose", n("k"), n("kt"), perm=[0, 1, 3, 2]), at("MatMul", n("q"), n("kt"), n("s")), at("Mul", n("s"), "scale", n("t")),
                  at("Add", n("t"), "mask", n("u")), at("Softmax", n("u"), n("p"), axis=-1), at("MatMul", n("p"), n("v"), n("o")),
                  at("Transpose", n("o"), n("ot"), perm=[0, 2, 1, 3]), at("Reshape", n("ot"), "join", n("j"))]
        nodes += linear("attn.proj", n("j"), n("z")) + [at("Add", last, n("z"), n("m")),
                                                        at("LayerNormalization", n("m"), n("ln_2.weight"), n("ln_2.bias"), n("b"))]
        nodes += linear("mlp.fc", n("b"), n("f")) + [at("Relu", n("f"), n("g"))] + linear("mlp.proj", n("g"), n("y"))
        nodes += [at("Add", n("m"), n("y"), f"h{i + 1}")]
    tensors["first"] = np.array([0])
    nodes += [at("MatMul", f"h{layers}", "head.weight", "y")]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(nodes, "gpt", [helper.make_tensor_value_info("x", TensorProto.INT64, ["N", length])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", length, tokens])],
                              [numpy_helper.from_array(t, name) for name, t in tensors.items() if name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def memory(run, folder):
    """A third of full training's weights, gradients and states at most; two bytes a frozen weight in half precision."""
    gpt(folder / "gpt.onnx", 384, 4, 6, 256, 16)
    np.savez(folder / "text.npz", x=random.integers(0, 256, (8, 16)), target=random.integers(0, 256, (8, 16)))
    start = [folder / "gpt.onnx", config(folder / "gpt.json", folder / "text.npz")]
    adapted = 'ztrain.lora={"match": ["*attn*"], "rank": 8, "alpha": 16}'
    batch = ["train_batch_size=8"]
    full, activations = state_bytes(run, *start, *batch)
    less, others = state_bytes(run, *start, *batch, adapted)
    check(3 * less <= full, f"memory: {less} bytes of weights, gradients and states, a third of {full}; activations {others} and {activations}")
    elements = sum(t.size for t in initializers(folder / "gpt.onnx").values() if t.dtype == np.float32)
    for half in ("bf16.enabled=true", "fp16.enabled=true"):
        least, _ = state_bytes(run, *start, *batch, adapted, half)
        check(least < 2.4 * elements, f"memory, {half}: {least} bytes, without fp32 copies of {elements} frozen elements")
        full, _ = state_bytes(run, *start, *batch, half)
        check(3 * least <= full, f"memory, {half}: a third of {full}")
    run(*start, *batch, adapted, more=["--steps", 2])
    line = re.search(r"parameters +(\d+) in 16 tensors train\n +lora +rank 8, alpha 16, 8 weights adapted\n +h\.\*\.attn\.qkv x 4: (\d+) elements\n"
                     r" +h\.\*\.attn\.proj x 4: (\d+) elements\n", run.says)
    wants = [4 * 8 * (384 + 1152), 4 * 8 * 768]
    check(line and [int(n) for n in line.groups()] == [sum(wants), *wants], "the start table lists what is adapted")


def shared_out(run, source, folder):
    """ZeRO stage 3 shares frozen weights out: the bits of ddp, a slice in the plan, nothing new in checkpoints and exports."""
    gpt(folder / "gpt.onnx", 96, 2, 4, 64, 16)
    np.savez(folder / "text.npz", x=random.integers(0, 64, (16, 16)), target=random.integers(0, 64, (16, 16)))
    start = [folder / "gpt.onnx", config(folder / "gpt.json", folder / "text.npz")]
    adapted, whole = 'ztrain.lora={"match": ["*attn*"], "rank": 4, "alpha": 8}', ["zero_optimization.stage3_param_persistence_threshold=0"]
    frozen = {"lora": [adapted], "freeze": ['ztrain.freeze=["h.0.*", "*mlp*", "wte*"]'], "trainable": ['ztrain.trainable=["*attn*"]']}
    sizes = {name: t.nbytes for name, t in initializers(folder / "gpt.onnx").items() if t.dtype == np.float32 and t.ndim > 1 and name != "mask"}
    for how, precision in [(how, precision) for how in frozen for precision in ([], ["bf16.enabled=true"], ["fp16.enabled=true", "fp16.loss_scale=128"])]:
        what, weights, held = f"{how} {precision[:1]}", {}, {}
        for stage in (0, 3):
            sets = ["train_batch_size=8", f"zero_optimization.stage={stage}", *whole, *frozen[how], *precision, "ztrain.checkpoint.every_steps=2",
                    "ztrain.data.eval_path=" + json.dumps(str(folder / "text.npz"))]
            for communicator in ("thread",) if precision else ("thread", "mpi"):
                weights[stage, communicator] = run(*start, *sets, f"ztrain.parallel.communicator={communicator}", more=["--ranks", 2])
                out = run.out
            run(*start, *sets, *THREADS, more=["--ranks", 2], command="plan")
            plan = run.says
            held[stage] = [int(n) for n in re.findall(r"^rank \d +(\d+)", plan, re.M)] or 2 * [int(re.search(r"^ranks 0-1 +(\d+)", plan, re.M).group(1))]
            files = {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*.safetensors")) + sorted(out.glob("model.onnx"))}
            first = files if not stage else first
            check(files == first, f"{what}, stage {stage}: checkpoints and export are those of stage 0")
        check(len(set(map(tuple, weights.values()))) == 1 and all(len(w) == 1 for w in weights.values()), f"{what}: the same bits in stages 0 and 3, threads and mpi: {weights}")
        slots = re.findall(r"(GATHER|RELEASE|GATHERED) bucket \d+, frozen", plan)
        shared = int(re.search(r"frozen tensors, (\d+) units", plan).group(1)) * 4
        check(slots.count("GATHER") > 2 and slots.count("GATHER") == slots.count("RELEASE"), f"{what}: {len(slots)} commands gather and release frozen buckets")
        resumed = run(*start, *sets, *THREADS, more=["--ranks", 2, "--resume", out / "checkpoints/step-2"])
        check(resumed == weights[3, "thread"], f"{what}: the same bits when it resumes")
        expects = sum(v for k, v in sizes.items() if how == "lora" or (how == "freeze" and (k.startswith("h.0.") or "mlp" in k or "wte" in k))
                      or (how == "trainable" and "attn" not in k)) // (2 if precision else 1)
        tables = sum(sizes[k] for k in ("wte.weight", "wpe.weight")) if precision else 0  # look-ups may read them in fp32
        check(expects <= shared <= expects + tables // 2 + 64 * len(sizes), f"{what}: {shared} bytes are shared out, of {expects} frozen ones")
        if how == "lora" and not precision:  # 4 / N bytes a weight, trained or frozen, and the vectors
            trained = sum(t.nbytes for t in safetensors(out / "checkpoints/step-2/weights.safetensors").values())
            vectors = sum((t.nbytes + 63) // 64 * 64 for t in initializers(folder / "gpt.onnx").values() if t.dtype == np.float32 and t.ndim == 1)
            off = sum(held[3]) - (trained + shared + 2 * vectors)
            check(abs(off) <= 128, f"{what}: both ranks hold {held[3]} bytes: {trained} + {shared} once and {vectors} each")
        check(2 * held[0][0] - sum(held[3]) > 0.95 * shared, f"{what}: ranks hold {held[3]} bytes of parameters at stage 3, {held[0]} at stage 0, {shared} frozen")


def stored_in_half(run, folder):
    """A file of float16 weights: read as it is in fp16, without a copy in another type, and trained in fp32 and bf16."""
    model = onnx.load(folder / "gpt.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, folder / "half.onnx")
    start, adapted = [folder / "half.onnx", folder / "gpt.json"], 'ztrain.lora={"match": ["*attn*"], "rank": 8, "alpha": 16}'
    losses = {}
    for precision in ([], ["bf16.enabled=true"], ["fp16.enabled=true", "fp16.loss_scale=128"]):
        run(*start, "train_batch_size=8", "optimizer.params.lr=0.001", adapted, *precision)
        losses[" ".join(precision)] = run.losses()
        kept = initializers(run.out / "model.onnx")
        before = initializers(folder / "half.onnx")
        check(all(kept[k].dtype == before[k].dtype and (np.array_equal(kept[k], before[k]) != ("attn" in k and k.endswith("weight"))) for k in before),
              f"float16 file {precision}: attention weights change, in their type, and no others")
    check(all(np.allclose(x, losses[""], rtol=0.02) and x[-1] < x[0] for x in losses.values()), f"float16 file: losses {losses}")


def refusals(run, source):
    start = [source / "models/gpt.onnx", source / "configs/gpt.json"]
    for block, words in [
        ({"match": ["*qvk*"]}, 'match[0]: "*qvk*" matches no weight of a MatMul, Gemm or Conv'),
        ({"match": ["*qkv*", "token*"]}, 'match[1]: "token*" matches only what cannot be adapted: "token.weight", which is read by node_embedding'),
        ({"match": ["*proj*"], "rank": 81}, 'rank: 81 exceeds the rank of "val_79" [80, 80], at most 80'),
        ({"match": []}, "ztrain.lora.match: needs at least one pattern"), ({"rank": 4}, "needs at least one pattern"),
        ({"match": "*"}, "ztrain.lora.match: wants a list of texts"), ({"match": ["*"], "rank": 0}, "ztrain.lora.rank: 0"),
        ({"match": ["*"], "rank": "x"}, "ztrain.lora.rank"), ({"match": ["*"], "alpha": 0}, "ztrain.lora.alpha"),
        ({"match": ["*"], "dropout": 1}, "ztrain.lora.dropout"), ({"match": ["*"], "export": "both"}, "ztrain.lora.export"),
        ({"match": ["*"], "ranks": 4}, "ztrain.lora.ranks"),
    ]:
        run(*start, "ztrain.lora=" + json.dumps(block), status=2)
        check(words in run.says, f"refused: {json.dumps(block)}: {words}")
    adapters = "ztrain.lora=" + json.dumps({"match": ["*qkv*"], "rank": 4, "export": "adapters"})
    run(*start, adapters, more=["--steps", 1])
    folder = run.out
    left = sorted(p.name for p in folder.glob("adapter_*"))
    run(*start, more=["--steps", 1, "--output", folder, "--overwrite"])
    check(left == ["adapter_config.json", "adapter_model.safetensors"] and not list(folder.glob("adapter_*")), "--overwrite leaves no adapters of the run before")
    run(*start, "ztrain.lora=" + json.dumps({"match": ["*qkv*"], "rank": 4}), 'ztrain.trainable=["norm.*"]', more=["--steps", 1])
    check("in 6 tensors train" in run.says, "ztrain.trainable trains more than the adapters")


def on_device(run, source, module, folder):
    """Every form, and the layouts of a model, with the module beside the program, where it looks for it."""
    place = folder / "gpu"
    place.mkdir()
    for file in (run.program, module):
        shutil.copy(file, place)
    device = Runs(place / "ztrain", folder / "device", "--device", "cuda")
    device.folder.mkdir()
    for name in FORMS:
        form(device, folder, name)
    start = [source / "models/gpt.onnx", source / "configs/gpt.json"]
    for precision, name in (([], "1 rank"), ([], "ZeRO 3, 2 ranks"), (["bf16.enabled=true"], "2 stages"),
                            ([], "ZeRO 3, nothing whole, 2 ranks"), (["fp16.enabled=true"], "ZeRO 3, nothing whole, 2 ranks"),
                            (["fp16.enabled=true"], "ZeRO 2, 2 ranks")):
        ranks, sets = LAYOUTS.get(name, (1, []))
        sets, more = [*GPT, *precision, *THREADS, *sets, "ztrain.checkpoint.every_steps=2", "train_batch_size=8"], ["--steps", 4, "--ranks", ranks]
        run(*start, *sets, more=more)
        weights, folder = device(*start, *sets, more=more), device.out / "checkpoints/step-2"
        check(np.allclose(device.losses(), run.losses(), rtol=1e-2 if precision else 1e-5), f"device, {precision}, {name}: losses of the CPU")
        check(device(*start, *sets, more=[*more, "--resume", folder]) == weights, f"device, {precision}, {name}: the same bits when it resumes")


def main():
    program, source = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run = Runs(program, folder)
        if sys.argv[3:] == ["--16-bits"]:
            for precision in ("bf16.enabled=true", "fp16.enabled=true"):
                layouts(run, source, precision)
        elif len(sys.argv) > 3:
            on_device(run, source, pathlib.Path(sys.argv[3]).resolve(), folder)
        else:
            derivation(run, folder)
            bodies(run, folder)
            for name in FORMS:
                form(run, folder, name)
            refusals(run, source)
            memory(run, folder)
            shared_out(run, source, folder)
            stored_in_half(run, folder)
            layouts(run, source)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
