#!/usr/bin/env python3
"""The 1-bit optimizers as runs have them, against float64 trajectories.

    one_bit.py ZTRAIN SOURCE_ROOT

The loss of a model is the inner product of its weights and the sample, so that the gradient of a rank is its sample. Weights after every
step are those of the checkpoints. 1-bit Adam is held against tests/reference/tables/optimizers.json; 0/1 Adam and 1-bit LAMB against
tests/reference/tables/one-bit.json and, with tensors of some blocks, accumulation, a schedule and clipping, against the formulas.
Needs onnx and numpy. Exit status 0: all hold, 1: one does not.
"""
import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import one_bit_formulas as formulas  # noqa: E402

failures, checks = [], 0
MOST = 1e-5


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)
    return holds


def write_model(path, weights):
    """loss = mean over samples of the sum over tensors of sum(weight * input)"""
    nodes, inputs, terms = [], [], []
    for name, value in weights.items():
        inputs.append(helper.make_tensor_value_info("x_" + name, TensorProto.FLOAT, ["N", *value.shape]))
        nodes.append(helper.make_node("Mul", ["x_" + name, name], ["product_" + name]))
        axes = numpy_helper.from_array(numpy.arange(1, value.ndim + 1), "axes_" + name)
        nodes += [helper.make_node("Constant", [], ["axes_" + name], value=axes),
                  helper.make_node("ReduceSum", ["product_" + name, "axes_" + name], ["sum_" + name], keepdims=0)]
        terms.append("sum_" + name)
    nodes += [helper.make_node("Sum", terms, ["all"]), helper.make_node("ReduceMean", ["all"], ["loss"], keepdims=0)]
    out = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "inner", inputs, [out], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def read_weights(folder, names):
    data = (folder / "weights.safetensors").read_bytes()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    read = {}
    for k in names:
        first, last = head[k]["data_offsets"]
        read[k] = numpy.frombuffer(data[8 + length + first:8 + length + last], "<f4").reshape(head[k]["shape"])
    return read


class Case:
    """A model, data whose samples are gradients, and runs."""

    def __init__(self, args, folder, kind, params, weights, grads, accumulation=1, **config):
        self.args, self.folder, self.names = args, pathlib.Path(folder), list(weights)
        self.folder.mkdir()
        self.steps, self.ranks = len(grads), len(grads[0])
        write_model(self.folder / "model.onnx", weights)
        # of a step: micro-batch by micro-batch, the samples of the ranks
        samples = [rank for step in grads for part in range(accumulation) for rank in self.parts(step, part, accumulation)]
        numpy.savez(self.folder / "data.npz", **{"x_" + k: numpy.stack([s[k] for s in samples]) for k in weights})
        whole = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation,
                 "optimizer": {"type": kind, "params": params}, **config,
                 "ztrain": {"data": {"format": "npz", "path": "data.npz", "shuffle": False}, "loss": {"type": "output", "output": "loss"},
                            "steps": self.steps, "checkpoint": {"every_steps": 1, "keep": 1000}, "on_non_finite": "skip"}}
        (self.folder / "config.json").write_text(json.dumps(whole))

    @staticmethod
    def parts(step, part, accumulation):
        """Micro-batches whose mean is the gradient: one has twice what another lacks."""
        factor = 1 if accumulation == 1 else 2 * part
        return [{k: (factor * v).astype(numpy.float32) for k, v in rank.items()} for rank in step]

    def run(self, out, *options, processes=False, ranks=None, status=0):
        command = [self.args.program, "--model", self.folder / "model.onnx", "--config", self.folder / "config.json", "--output", self.folder / out,
                   "--threads", "1", "--ranks", str(ranks or self.ranks), *options]
        command += [] if processes else ["--set", "ztrain.parallel.communicator=thread"]
        done = subprocess.run([str(x) for x in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.says = done.stderr
        if done.returncode != status:
            print(f"exit {done.returncode}, not {status}\n{done.stderr[-1500:]}", file=sys.stderr)
        return done.returncode == status

    def rows(self, out):
        return [json.loads(line) for line in open(self.folder / out / "metrics.jsonl")]

    def weights(self, out, step):
        return read_weights(self.folder / out / "checkpoints" / f"step-{step}", self.names)

    def bytes_of(self, out, step):
        folder = self.folder / out / "checkpoints" / f"step-{step}"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix == ".safetensors"}

    def worst(self, out, wanted):
        worst = 0.0
        for step, want in enumerate(wanted, 1):
            got = self.weights(out, step)
            for k in self.names:
                size = numpy.abs(want[k])
                worst = max(worst, float((numpy.abs(got[k] - want[k]) / numpy.maximum(size, 0.1 * size.max())).max()))
        return worst


def arrays(row):
    return {k: numpy.array(v) for k, v in row.items()}


def tables(args, folder):
    """Every trajectory of both tables, with threads, and with processes where there is an mpirun."""
    one, own = (json.loads((args.source / "tests/reference/tables" / name).read_text()) for name in ("optimizers.json", "one-bit.json"))
    runs = [(run, {k: v.astype(numpy.float32) for k, v in arrays(one["params0"]).items()},
             [[arrays(a), arrays(b)][:run["ranks"]] for a, b in zip(one["grads"], one["onebit"]["grads_rank1"])]) for run in one["onebit"]["runs"]]
    runs += [(run, *formulas.made(formulas.SHAPES, formulas.STEPS, run["ranks"], 7)) for run in own["runs"]]
    check(len(runs) == 14 and formulas.table() == own, "the table of 0/1 Adam and 1-bit LAMB is what its script writes")
    for run, weights, grads in runs:
        case = Case(args, folder / run["name"], run["optimizer"]["type"], run["optimizer"]["params"], weights, grads)
        wanted = [arrays(row) for row in run["trajectory"]]
        for processes in [False] + [True] * (run["ranks"] == 2 and shutil.which("mpirun") is not None):
            out = "processes" if processes else "threads"
            error = case.worst(out, wanted) if case.run(out, processes=processes) else numpy.inf
            check(error < MOST, f"{run['name']}, {out}: weights of {len(wanted)} steps (worst {error:.1e})")
        if (case.folder / "processes").exists():
            check(case.bytes_of("threads", case.steps) == case.bytes_of("processes", case.steps), f"{run['name']}: processes leave the bits of threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables(args, pathlib.Path(folder))
    print(f"{checks - len(failures)} of {checks} hold")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
