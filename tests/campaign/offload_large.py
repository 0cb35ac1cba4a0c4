#!/usr/bin/env python3
"""A GPT of over 400 million weights trains in less memory than its optimizer takes: ZeRO stage 3 with states and parameters in
files, in a control group in which plain ddp is refused before it starts.

    tests/campaign/offload_large.py ZTRAIN [--folder DIR] [--limit GB] [--steps N] [--layers N]

Makes the model with random weights (onnx, numpy) and the data, needs some 15 GB of disk in DIR (default: a temporary folder), and a
folder of control groups that it may write to (root); without one it says so and ends with exit status 77. Exit status 0: all holds.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper

WIDTH, HEADS, LENGTH, WORDS = 1536, 12, 64, 8192
failures = 0


def check(holds, what):
    global failures
    failures += not holds
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    return holds


class Model:
    """Nodes, and initializers whose contents go to one file as they are made."""

    def __init__(self, folder):
        self.nodes, self.tensors, self.weights = [], [], 0
        self.data = open(folder / "gpt.bin", "wb")
        self.random = numpy.random.default_rng(0)

    def node(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weight(self, name, *shape, value=None):
        count = int(numpy.prod(shape))
        array = self.random.standard_normal(count, numpy.float32) * 0.02 if value is None else numpy.full(count, value, numpy.float32)
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        for key, at in (("location", "gpt.bin"), ("offset", self.data.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(at))
        self.data.write(array.tobytes())
        self.tensors.append(tensor)
        self.weights += count
        return name

    def constant(self, array):
        name = f"constant_{len(self.nodes)}"
        self.nodes.append(helper.make_node("Constant", [], [name], name, value=onnx.numpy_helper.from_array(numpy.asarray(array))))
        return name

    def linear(self, x, name, rows, columns):
        product = self.node("MatMul", x, self.weight(name + ".weight", rows, columns))
        return self.node("Add", product, self.weight(name + ".bias", columns, value=0))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(name + ".weight", WIDTH, value=1), self.weight(name + ".bias", WIDTH, value=0))

    def heads(self, x, order):
        shape = self.constant(numpy.array([0, 0, HEADS, WIDTH // HEADS], numpy.int64))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=order)

    def attention(self, x, name, mask):
        q, k, v = (self.heads(self.linear(x, f"{name}.{part}", WIDTH, WIDTH), order)
                   for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))
        scale = self.constant(numpy.float32((WIDTH // HEADS) ** -0.5))
        scores = self.node("Add", self.node("Mul", self.node("MatMul", q, k), scale), mask)
        mixed = self.node("Transpose", self.node("MatMul", self.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        whole = self.node("Reshape", mixed, self.constant(numpy.array([0, 0, WIDTH], numpy.int64)))
        return self.linear(whole, name + ".out", WIDTH, WIDTH)

    def layer(self, x, name, mask):
        x = self.node("Add", x, self.attention(self.norm(x, name + ".norm1"), name + ".attention", mask))
        hidden = self.node("Gelu", self.linear(self.norm(x, name + ".norm2"), name + ".up", WIDTH, 4 * WIDTH))
        return self.node("Add", x, self.linear(hidden, name + ".down", 4 * WIDTH, WIDTH))

    def finish(self, folder, output):
        self.data.close()
        graph = helper.make_graph(self.nodes, "gpt", [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", LENGTH])],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", LENGTH, WORDS])], self.tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        (folder / "gpt.onnx").write_bytes(made.SerializeToString())


def make_model(folder, layers):
    m = Model(folder)
    x = m.node("Gather", m.weight("words", WORDS, WIDTH), "input_ids")
    x = m.node("Add", x, m.weight("places", LENGTH, WIDTH))
    mask = m.constant(numpy.triu(numpy.full((LENGTH, LENGTH), -1e9, numpy.float32), 1))
    for i in range(layers):
        x = m.layer(x, f"layers.{i}", mask)
    logits = m.node("MatMul", m.norm(x, "norm"), m.weight("head", WIDTH, WORDS))
    m.finish(folder, logits)
    return m.weights


def make_data(folder):
    random = numpy.random.default_rng(1)
    words = random.integers(0, WORDS, (16, LENGTH + 1))
    numpy.savez(folder / "data.npz", input_ids=words[:, :-1], target=words[:, 1:])


def config(folder, zero):
    made = {"train_batch_size": 2, "steps_per_print": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": zero,
            "ztrain": {"data": {"format": "npz", "path": "data.npz"}, "loss": {"type": "cross_entropy"}, "device": "cpu",
                       "checkpoint": {"every_epochs": 0}}}
    path = folder / f"{'ddp' if not zero else 'nvme'}.json"
    path.write_text(json.dumps(made, indent=1))
    return path


class Group:
    """A control group with a limit of memory, of either version."""

    def __init__(self, limit):
        first = pathlib.Path("/sys/fs/cgroup/memory")
        version_1 = first.is_dir()
        self.path = (first if version_1 else pathlib.Path("/sys/fs/cgroup")) / f"ztrain-offload-{os.getpid()}"
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(str(limit))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        self.path.rmdir()


def run(args, folder, group, path, *command):
    done = subprocess.run([args.program, *command, "--model", folder / "gpt.onnx", "--config", path, "--threads", str(os.cpu_count())],
                          preexec_fn=group.enter, capture_output=True, text=True)
    return done.returncode, done.stderr


def trains(args, folder, group):
    aside = {"device": "nvme", "nvme_path": str(folder)}
    zero = {"stage": 3, "stage3_prefetch_bucket_size": 0, "offload_optimizer": {**aside, "pipeline_read": True, "pipeline_write": True},
            "offload_param": {**aside, "max_in_cpu": 0, "buffer_count": 2}}
    train = ["train", "--output", folder / "run", "--steps", str(args.steps)]
    code, says = run(args, folder, group, config(folder, {}), *train)
    print(says)
    check(code == 2 and "training needs" in says and str(group.path) in says and not (folder / "run/metrics.jsonl").exists(),
          f"ddp is refused before it starts (exit {code})")
    code, says = run(args, folder, group, config(folder, zero), *train)
    print(says)
    rows = [json.loads(line) for line in open(folder / "run/metrics.jsonl")] if (folder / "run/metrics.jsonl").exists() else []
    losses = [row["loss"] for row in rows]
    check(code == 0 and len(losses) == args.steps and losses[-1] < losses[0], f"stage 3 with files trains (exit {code}, losses {losses})")
    check(not list(folder.glob("ztrain-*")), "its files are gone")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, help="for model, data, files and run")
    parser.add_argument("--limit", type=float, default=6, help="of the control group, in GB (%(default)s)")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=14)
    args = parser.parse_args()
    try:
        group = Group(int(args.limit * 1e9))
    except OSError as e:
        print(f"skipped: no control group can be made here ({e})")
        return 77
    try:
        with tempfile.TemporaryDirectory(dir=args.folder) as tmp:
            folder = pathlib.Path(tmp)
            weights = make_model(folder, args.layers)
            make_data(folder)
            check(weights >= 400e6 or args.layers < 14, f"the model has {weights} weights")
            trains(args, folder, group)
    finally:
        group.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
