#!/usr/bin/env python3
"""Random graphs whose nodes have outputs that nothing reads train as the same graphs in which something does.

    check_unused.py ZTRAIN [--graphs N] [--seed N]

Every graph is a chain of blocks (Split, TopK, LSTM, GRU, BatchNormalization, LayerNormalization, MaxPool, Dropout, If, Loop and Scan,
written out and run as loops) that use some of their outputs. Its twin adds 0 times the sum of each unused one. Both are trained
for two steps and differentiated; losses and gradients must agree. Under sanitizers this reads what a gradient of an unused
output is made of. An initializer of a loop's body that no node reads is no parameter. Needs numpy and onnx; exit status 77 (skipped)
without them.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"SKIP {missing}")
    sys.exit(77)

ROWS, WIDE = 4, 8


class Net:
    """A graph in the making; `twin`: unused outputs are read."""

    def __init__(self, seed, twin):
        self.random, self.twin = np.random.default_rng(seed), twin
        self.nodes, self.weights, self.zeros, self.count = [], [], [], 0

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def weight(self, *shape, at=0.0):
        name = f"w{len(self.weights)}"  # the same in the twin
        self.weights.append(numpy_helper.from_array((at + self.random.uniform(-0.5, 0.5, shape)).astype(np.float32), name))
        return name

    def constant(self, array):
        name = self.name("k")
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array))))
        return name

    def add(self, op, inputs, outputs=1, **attributes):
        made = [self.name("v") for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, **attributes))
        return made if outputs > 1 else made[0]

    def unused(self, *names):
        for name in names:
            zero = self.add("Mul", [self.add("ReduceSum", [name], keepdims=0), self.constant(np.float32(0))]) if self.twin else None
            self.zeros += [zero] if self.twin else []

    def some(self, names):
        """A random part of them, at least one; the others are unused."""
        used = self.random.permutation(len(names))[:self.random.integers(1, len(names) + 1)]
        self.unused(*[n for i, n in enumerate(names) if i not in used])
        return [names[i] for i in sorted(used)]

    def dense(self, x, wide, to=WIDE):
        return self.add("MatMul", [x, self.weight(wide, to)])


def value(name, shape=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def split(net, x):
    sizes = [[4, 4], [1, 3, 4], [2, 2, 2, 2]][net.random.integers(3)]
    parts = net.add("Split", [x, net.constant(np.array(sizes, np.int64))], len(sizes), axis=1)
    return [net.dense(p, sizes[parts.index(p)]) for p in net.some(parts)]


def top_k(net, x):
    k = int(net.random.integers(1, 5))
    values, _ = net.add("TopK", [x, net.constant(np.array([k], np.int64))], 2, axis=1)
    return [net.dense(values, k)]


def recurrent(net, x, op, gates, outputs):
    steps = net.add("Reshape", [x, net.constant(np.array([-1, 2, 4], np.int64))])
    steps = net.add("Transpose", [steps], perm=[1, 0, 2])
    made = net.add(op, [steps, net.weight(1, gates * 3, 4), net.weight(1, gates * 3, 3), net.weight(1, gates * 6)], outputs, hidden_size=3)
    shape = net.constant(np.array([ROWS, -1], np.int64))
    flat = []
    for name in net.some(made):
        whole = name == made[0]
        turned = net.add("Transpose", [name], perm=[2, 0, 1, 3] if whole else [1, 0, 2])
        flat.append(net.dense(net.add("Reshape", [turned, shape]), 6 if whole else 3))
    return flat


def batch_norm(net, x):
    if net.random.integers(2):
        scale, bias, mean, variance = net.weight(WIDE, at=1), net.weight(WIDE), net.weight(WIDE), net.weight(WIDE, at=1)
        y, _, _ = net.add("BatchNormalization", [x, scale, bias, mean, variance], 3, training_mode=1)
        return [y]
    y, mean, _ = net.add("LayerNormalization", [x, net.weight(WIDE, at=1), net.weight(WIDE)], 3, axis=1)
    net.unused(mean)
    return [y]


def pool(net, x):
    image = net.add("Reshape", [x, net.constant(np.array([-1, 1, 2, 4], np.int64))])
    y, _ = net.add("MaxPool", [image], 2, kernel_shape=[2, 2], strides=[1, 1])
    return [net.dense(net.add("Reshape", [y, net.constant(np.array([-1, 3], np.int64))]), 3)]


def dropout(net, x):
    y, _ = net.add("Dropout", [x, net.constant(np.float32(0.0)), net.constant(np.bool_(True))], 2)
    return [y]


def branch(net, x):
    graphs = []
    for op in ("Tanh", "Sigmoid"):
        names = [net.name("b"), net.name("b")]
        nodes = [helper.make_node(op, [x], [names[0]]), helper.make_node("Neg", [x], [names[1]])]
        graphs.append(helper.make_graph(nodes, op, [], [value(n) for n in names]))
    made = net.add("If", [net.constant(np.bool_(True))], 2, then_branch=graphs[0], else_branch=graphs[1])
    return net.some(made)


def loop(net, x):
    iterations = int(net.random.choice([0, 1, 3, 1500]))
    i, c, v, s, u, t, m, p = (net.name("b") for _ in range(8))
    nodes = [helper.make_node("MatMul", [v, net.weight(WIDE, WIDE)], [m]), helper.make_node("Tanh", [m], [u]),
             helper.make_node("Mul", [s, u], [p]), helper.make_node("Sin", [p], [t])]
    body = helper.make_graph(nodes, "body", [value(i, [], TensorProto.INT64), value(c, [], TensorProto.BOOL), value(v), value(s)],
                             [value(c, [], TensorProto.BOOL), value(u), value(t), value(p, [ROWS, WIDE])],
                             [numpy_helper.from_array(np.zeros(3, np.float32), net.name("unread"))])
    a, b, stack = net.add("Loop", [net.constant(np.int64(iterations)), "", x, x], 3, body=body)
    used = net.some([a, b, stack])
    return [net.add("ReduceSum", [n, net.constant(np.array([0], np.int64))], keepdims=0) if n == stack else n for n in used]


def scan(net, x):
    iterations = int(net.random.choice([3, 1500]))
    over = net.add("Expand", [net.add("Unsqueeze", [x, net.constant(np.array([0], np.int64))]),
                              net.constant(np.array([iterations, 1, 1], np.int64))])
    v, s, u, t = (net.name("b") for _ in range(4))
    nodes = [helper.make_node("Add", [v, s], [t]), helper.make_node("Tanh", [t], [u])]
    body = helper.make_graph(nodes, "body", [value(v), value(s)], [value(u), value(t, [ROWS, WIDE])])
    a, stack = net.add("Scan", [x, over], 2, body=body, num_scan_inputs=1, scan_input_directions=[int(net.random.integers(2))])
    return [net.add("ReduceMean", [n, net.constant(np.array([0], np.int64))], keepdims=0) if n == stack else n for n in net.some([a, stack])]


BLOCKS = [split, split, top_k, lambda n, x: recurrent(n, x, "LSTM", 4, 3), lambda n, x: recurrent(n, x, "GRU", 3, 2), batch_norm,
          pool, dropout, branch, loop, loop, scan]


def build(seed, twin):
    net = Net(seed, twin)
    x = net.dense("x", 3)
    for _ in range(int(net.random.integers(1, 5))):
        parts = BLOCKS[net.random.integers(len(BLOCKS))](net, x)
        x = parts[0]
        for part in parts[1:]:
            x = net.add("Add", [x, part])
        x = net.add("Tanh", [x])
    y = net.dense(x, WIDE, 2)
    for zero in net.zeros:
        y = net.add("Add", [y, zero])
    net.nodes.append(helper.make_node("Identity", [y], ["y"]))
    graph = helper.make_graph(net.nodes, "g", [value("x", [ROWS, 3])], [value("y", [ROWS, 2])], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(ztrain, folder, *arguments):
    done = subprocess.run([ztrain, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    return f"{arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-1500:]}" if done.returncode else ""


def results(ztrain, folder, seed, twin):
    """Losses and gradients by what they are of, or what went wrong."""
    model = build(seed, twin)
    onnx.save(model, folder / "m.onnx")
    numbers = np.random.default_rng(seed + 1)
    np.savez(folder / "d.npz", x=numbers.uniform(-1, 1, (ROWS, 3)).astype(np.float32), t=numbers.uniform(-1, 1, (ROWS, 2)).astype(np.float32))
    (folder / "c.json").write_text(json.dumps(
        {"train_batch_size": ROWS, "optimizer": {"type": "SGD", "params": {"lr": 0.01}},
         "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "steps": 2, "loss": {"type": "mse", "target": "t"}}}))
    problem = run(ztrain, folder, "train", "--model", "m.onnx", "--config", "c.json", "--output", "o", "--overwrite") or \
        run(ztrain, folder, "grad", "--model", "m.onnx", "--inputs", "d.npz", "--output", "g")
    if problem:
        return None, problem
    found = {"losses": np.array([json.loads(line)["loss"] for line in open(folder / "o" / "metrics.jsonl")])}
    found.update({f"gradient of {k}": v for k, v in np.load(folder / "g" / "grad_params.npz").items()})
    return found, [n.op_type for n in model.graph.node]


def check(ztrain, folder, seed):
    plain, said = results(ztrain, folder, seed, False)
    twin, other = results(ztrain, folder, seed, True) if plain else (None, "")
    if plain is None or twin is None:
        return said if plain is None else other
    unread = [name for name in plain if "unread" in name]
    if unread:
        return f"{unread} trains; the nodes are {said}"
    for name, have in plain.items():
        want = next((v for k, v in twin.items() if k == name), None)
        if want is None or have.shape != want.shape or not np.allclose(have, want, rtol=1e-5, atol=1e-6 * max(1, np.max(np.abs(want), initial=0))):
            return f"{name} is {have}, with all outputs read {want}; the nodes are {said}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ztrain, passed, failed = str(pathlib.Path(options.ztrain).resolve()), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(options.seed, options.seed + options.graphs):
            problem = check(ztrain, pathlib.Path(scratch), seed)
            passed, failed = passed + (not problem), failed + bool(problem)
            if problem:
                print(f"FAIL graph {seed}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
