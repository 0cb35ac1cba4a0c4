#!/usr/bin/env python3
"""Every reference case in fp16 (static and dynamic loss scale) and bf16, against what rounding to that type costs the case.

    half_cases.py ZTRAIN CASES [--only NAME,NAME]

The tolerances of the cases are those of fp32: by 1e-4 of the loss they say nothing about numbers of 11 or 8 bits. What these bits cost a case is measured without
any code of half precision: in fp32, with every trained weight moved by up to one unit in the last place of the type, three times. Losses and weights
of a run in half precision may be FACTOR times as far from fp32 as the farthest of these runs so far; activations and gradients are rounded too. Two floors: of
the loss, the absolute rounding of logits (a confident sample has the loss e^-m at margin m, which the rounding of m changes by its absolute
size), and of a tensor's update, TENSOR units. Elements whose first gradient is within TENSOR units of 0, in lengths of the tensor's other gradients, are
left out: rounding decides about their sign, and Adam makes whole steps of it.
Exit status 0: all hold, 1: one does not, 77: numpy or onnx is missing.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError:
    sys.exit(77)

FACTOR, RUNS, TENSOR = 4, 3, 8
TYPES = {"fp16": 2.0 ** -11, "bf16": 2.0 ** -8}
MODES = {"fp16, static": ("fp16", ["fp16.enabled=true", "fp16.loss_scale=1024", "bf16.enabled=false"]),
         "fp16, dynamic": ("fp16", ["fp16.enabled=true", "fp16.initial_scale_power=15", "bf16.enabled=false"]),
         "bf16": ("bf16", ["bf16.enabled=true"])}


def tensors(path):
    model = onnx.load(path)
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found.update({node.output[0]: numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"})
        elif node.op_type == "Identity" and node.input[0] in found and node.output[0] not in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def move(case, to, names, unit, seed):
    """The case's model with weights moved by up to a unit in the last place."""
    random, model = np.random.default_rng(seed), onnx.load(case / "model.onnx")
    stored = {t.name: t for t in model.graph.initializer}
    stored.update({n.output[0]: a.t for n in model.graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"})
    for name in names:
        if name in stored:
            value = numpy_helper.to_array(stored[name])
            stored[name].CopyFrom(numpy_helper.from_array((value * (1 + unit * random.uniform(-1, 1, value.shape))).astype(value.dtype), name))
    onnx.save(model, to)
    return to


class Case:
    def __init__(self, program, folder, case):
        self.program, self.folder, self.case = program, folder, case
        expected = json.loads((case / "expected.json").read_text())
        self.names = expected["trainable"]
        self.noise = {k: np.array([i for a, b in ranges for i in range(a, b)], int) for k, ranges in expected["noise_elements"].items()}
        self.start = tensors(case / "model.onnx")
        with np.load(case / "grads.npz") as grads:
            self.grads = {name: grads[name].astype(float).ravel() for name in grads.files}

    def run(self, model, *sets):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = [self.program, "--model", model, "--config", self.case / "config.json", "--output", out, "--threads", 1, "--quiet"]
        done = subprocess.run([str(w) for w in words] + [w for s in sets for w in ("--set", s)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        rows = [json.loads(line) for line in open(out / "metrics.jsonl")]
        rows = [row for row in rows if not row.get("eval")]
        return np.array([row["loss"] for row in rows]), [row["skipped"] for row in rows], tensors(out / "model.onnx")

    def left_out(self, name, unit):
        small = np.abs(self.grads[name]) < TENSOR * unit * np.sqrt(np.mean(self.grads[name] ** 2))
        return np.union1d(self.noise.get(name, np.array([], int)), np.flatnonzero(small))

    def distance(self, run, base, unit):
        """Of losses, by step; of updates, by tensor, over the length of the update."""
        far = {}
        for name in self.names:
            a, b, start = (np.delete(x[name].astype(float).ravel(), self.left_out(name, unit)) for x in (run[2], base[2], self.start))
            far[name] = np.linalg.norm(a - b) / max(np.linalg.norm(b - start), 1e-12) if a.size else 0
        return np.abs(run[0] - base[0]), far


def check(case, modes):
    """Rows: mode, whether it holds, worst loss and worst tensor over what they may be, and these."""
    base = case.run(case.case / "model.onnx", "bf16.enabled=false")
    if isinstance(base, str):
        return [("fp32", False, base)]
    costs, rows = {}, []
    for kind, unit in TYPES.items():
        gaps = []
        for seed in range(RUNS):
            moved = case.run(move(case.case, case.folder / "moved.onnx", case.names, unit, seed), "bf16.enabled=false")
            gaps.append(case.distance(moved, base, unit))
        loss = np.maximum.accumulate(np.max([g[0] for g in gaps], 0))
        costs[kind] = loss, {name: max(g[1][name] for g in gaps) for name in case.names}
    for mode in modes:
        kind, sets = MODES[mode]
        run = case.run(case.case / "model.onnx", *sets)
        if isinstance(run, str):
            rows.append((mode, "needs the dynamic loss scale" in run, run))
            continue
        if any(run[1]) or len(run[0]) != len(base[0]):
            rows.append((mode, False, f"{sum(run[1])} steps skipped"))
            continue
        unit = TYPES[kind]
        loss, far = case.distance(run, base, unit)
        may = np.maximum(FACTOR * costs[kind][0], unit * (1 + 4 * np.maximum(base[0], 0.25)))
        worst, step = (loss / may).max(), int((loss / may).argmax())
        over = {name: far[name] / max(FACTOR * costs[kind][1][name], TENSOR * unit) for name in case.names}
        tensor = max(over, key=over.get)
        rows.append((mode, worst <= 1 and over[tensor] <= 1,
                     f"loss {worst:.2f} of what it may be ({loss[step] / abs(base[0][step]):.1e} at step {step + 1}), weights {over[tensor]:.2f} ({far[tensor]:.1e} {tensor})"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--only", help="names of cases, with commas between")
    args = parser.parse_args()
    failed = count = 0
    for folder in sorted(args.cases.iterdir()):
        if not (folder / "expected.json").exists() or (args.only and folder.name not in args.only.split(",")):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            for mode, holds, text in check(Case(args.program, pathlib.Path(temporary), folder), MODES):
                count, failed = count + 1, failed + (not holds)
                print(f"{'ok  ' if holds else 'FAIL'} {folder.name}, {mode}: {text}", flush=True)
    print(f"{count - failed} hold, {failed} do not")
    sys.exit(bool(failed))


main()
