#!/usr/bin/env python3
"""Holds sums of gradients in 16 bits, over ranks and over micro-batches, against NumPy's.

    gradient_types.py ZTRAIN [MODULE]

The model is one matrix product with a bias, both zero, so that one step of SGD at rate 1 leaves minus the gradient, exactly. Runs of one micro-batch give the
gradient of each; communication_data_type, data_types.grad_accum_dtype, prescale_gradients, gradient_predivide_factor and gradient_allreduce_op add them in NumPy's
float16 or in bfloat16 (ml_dtypes). MODULE: a CUDA module, emulated or not. Exit status 0: all hold, 1: one does not.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INS, OUTS, ROWS = 96, 131, 8  # 12,707 elements: the slices of a bucket have different lengths
TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


def write_model(path):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "product"), helper.make_node("Add", ["h", "b"], ["y"], "bias")], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", INS])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", OUTS])],
        [numpy_helper.from_array(np.zeros((INS, OUTS), np.float32), "w"), numpy_helper.from_array(np.zeros(OUTS, np.float32), "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Runs:
    def __init__(self, program, folder, *options):
        self.program, self.folder, self.options, self.count = program, folder, options, 0
        rng = np.random.default_rng(3)
        self.x = rng.standard_normal((64, INS), dtype=np.float32) * np.exp2(rng.integers(-6, 6, INS)).astype(np.float32)
        self.y = rng.standard_normal((64, OUTS), dtype=np.float32) * 40
        write_model(folder / "model.onnx")

    def write(self, rows, accumulation, sets):
        """The folder of a step of micro-batches of ROWS rows, with config and data; `rows`: of the data."""
        config = {"train_micro_batch_size_per_gpu": ROWS, "gradient_accumulation_steps": accumulation, "optimizer": {"type": "SGD", "params": {"lr": 1.0}},
                  "ztrain": {"data": {"format": "npz", "path": "data.npz", "shuffle": False}, "steps": 1, "loss": {"type": "mse", "target": "t"}, **sets.pop("ztrain", {})}, **sets}
        self.count += 1
        here = self.folder / f"run-{self.count}"
        here.mkdir()
        (here / "config.json").write_text(json.dumps(config))
        np.savez(here / "data.npz", x=self.x[rows], t=self.y[rows])
        return here

    def words(self, here, *more):
        return [str(w) for w in [self.program, *more, "--model", self.folder / "model.onnx", "--config", here / "config.json", "--threads", 1, *self.options]]

    def command(self, rows, ranks, accumulation, sets, *words):
        here = self.write(rows, accumulation, sets)
        done = subprocess.run(self.words(here, *words, "--ranks", ranks), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, cwd=here)
        return here, done

    def over_tcp(self, rows, **sets):
        """The gradient of two ranks that meet at a port of this host."""
        here = self.write(rows, 1, {"ztrain": {"parallel": {"communicator": "tcp"}}, **sets})
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        ranks = [subprocess.Popen(self.words(here, "train", "--output", "out"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=here, env={
            **os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(2)]
        codes = [r.wait(timeout=120) for r in ranks]
        return self.gradient(here) if codes == [0, 0] else np.full(1, np.nan)

    def __call__(self, rows, ranks=1, accumulation=1, **sets):
        """The gradient of the step, [w b], as the step used it."""
        if ranks > 1:
            sets.setdefault("ztrain", {}).setdefault("parallel", {}).setdefault("communicator", "thread")
        here, done = self.command(rows, ranks, accumulation, sets, "train", "--output", "out")
        if done.returncode:
            check(False, f"exit {done.returncode}: {done.stderr[-500:]}")
            return np.full(OUTS * (INS + 1), np.nan, np.float32)
        return self.gradient(here)

    def gradient(self, here):
        weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(here / "out/model.onnx").graph.initializer}
        return -np.concatenate([weights["w"].ravel(), weights["b"]])


def parts(run, count):
    """Gradients of the micro-batches of a step, each of the mean of its own loss."""
    return [run(slice(ROWS * i, ROWS * (i + 1))) for i in range(count)]


def exact(a, b):
    return bool(np.array_equal(a.astype(np.float32), b.astype(np.float32)))


def over_ranks(g, dtype, before=1.0, after=1.0):
    """round(round(g) before), added in the order of ranks, and round(sum after): products and sums of fp32, rounded to dtype."""
    kind = TYPES[dtype]
    held = [(p.astype(kind).astype(np.float32) * np.float32(before)).astype(kind) for p in g]
    total = held[0]
    for p in held[1:]:
        total = (total.astype(np.float32) + p.astype(np.float32)).astype(kind)
    return (total.astype(np.float32) * np.float32(after)).astype(kind).astype(np.float32)


def over_micro_batches(g, dtype):
    return over_ranks([p / np.float32(len(g)) for p in g], dtype)


def ranks(run, of):
    """The steps of one micro-batch a rank. Rank r has the r-th."""
    for n in (2, 4):
        g = of[:n]
        check(exact(run(slice(0, ROWS * n), n), over_ranks([p / np.float32(n) for p in g], "fp32")), f"{n} ranks: fp32 is NumPy's sum")
        for dtype in ("fp16", "bf16"):
            want = over_ranks(g, dtype, after=1 / n)
            for stage in range(4):
                check(exact(run(slice(0, ROWS * n), n, communication_data_type=dtype, zero_optimization={"stage": stage}), want), f"{n} ranks, {dtype}, stage {stage}")
            check(exact(run(slice(0, ROWS * n), n, communication_data_type=dtype, prescale_gradients=True), over_ranks(g, dtype, before=1 / n)), f"{n} ranks, {dtype}: prescale_gradients")
            check(exact(run(slice(0, ROWS * n), n, communication_data_type=dtype, gradient_predivide_factor=3, zero_optimization={"stage": 1}), over_ranks(g, dtype, 1 / np.float32(3), np.float32(3) / n)),
                  f"{n} ranks, {dtype}: gradient_predivide_factor")
        check(not exact(over_ranks(g, "fp16", 1 / np.float32(3), np.float32(3) / n), over_ranks(g, "fp16", after=1 / n)), "the factor shows")
        for stage in range(3):
            check(exact(run(slice(0, ROWS * n), n, gradient_allreduce_op="sum", zero_optimization={"stage": stage}), over_ranks(g, "fp32")), f"{n} ranks: sum, stage {stage}")
        check(exact(run(slice(0, ROWS * n), n, gradient_allreduce_op="sum", communication_data_type="fp16"), over_ranks(g, "fp16")), f"{n} ranks: sum in fp16")


def layouts(run, of):
    want = over_ranks(of[:2], "fp16", after=0.5)
    for what, sets in {"buckets that overlap": {"zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 4096}},
                       "small gathers": {"zero_optimization": {"allgather_bucket_size": 4096}}, "a ring": {"ztrain": {"parallel": {"all_reduce": "ring"}}},
                       "processes over MPI": {"ztrain": {"parallel": {"communicator": "mpi"}}}}.items():
        check(exact(run(slice(0, 2 * ROWS), 2, communication_data_type="fp16", **sets), want), f"{what}: the same bits")
    check(exact(run.over_tcp(slice(0, 2 * ROWS), communication_data_type="fp16"), want), "processes over TCP: the same bits")
    check(exact(run(slice(0, 2 * ROWS), 2, communication_data_type="fp16", ztrain={"parallel": {"mode": "dp"}}), over_ranks([p / np.float32(2) for p in of[:2]], "fp16")), "mode dp")
    four = slice(0, 4 * ROWS)
    stages = {"pipeline": {"stages": 2}, "communication_data_type": "bf16"}
    check(exact(run(four, 4, 2, **stages), over_ranks([over_ranks([p / np.float32(2) for p in pair], "fp32") for pair in (of[0:4:2], of[1:4:2])], "bf16", after=0.5)),
          "two stages of two ranks, two micro-batches")
    sent = []
    for dtype in ("fp32", "fp16"):
        _, done = run.command(slice(0, 2 * ROWS), 2, 1, {"communication_data_type": dtype}, "plan")
        line = next(line for line in done.stdout.splitlines() if line.startswith("stage 0 "))
        sent.append(line.split("   ")[-1].split(", ")[1])
    value, unit = sent[0].split()
    half, other = sent[1].split()
    check(unit == other and abs(float(value) / float(half) - 2) < 0.05, f"the plan says half the bytes: {sent}")


def micro_batches(run, of):
    for dtype in ("fp16", "bf16"):
        wanted = over_micro_batches(of[:4], dtype)
        check(exact(run(slice(0, 4 * ROWS), 1, 4, data_types={"grad_accum_dtype": dtype}), wanted), f"four micro-batches in {dtype}")
        check(exact(run(slice(0, ROWS), data_types={"grad_accum_dtype": dtype}), over_micro_batches(of[:1], dtype)), f"a single one in {dtype}")
        halves = [[p / np.float32(4) for p in of[r:4:2]] for r in range(2)]
        sums = [over_ranks(pair, dtype) for pair in halves]
        for stage in (0, 1):
            check(exact(run(slice(0, 4 * ROWS), 2, 2, data_types={"grad_accum_dtype": dtype}, zero_optimization={"stage": stage}), over_ranks(sums, "fp32")), f"two ranks, two micro-batches in {dtype}, stage {stage}")
        reduced = [over_ranks([p / np.float32(4) for p in pair], "fp32") for pair in (of[0:2], of[2:4])]
        for stage in (2, 3):
            check(exact(run(slice(0, 4 * ROWS), 2, 2, data_types={"grad_accum_dtype": dtype}, zero_optimization={"stage": stage}), over_ranks(reduced, dtype)), f"two ranks, two micro-batches in {dtype}, stage {stage}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder, options = pathlib.Path(scratch), []
        if len(sys.argv) > 2:  # the program with the module beside it, where it looks for it
            for file in (program, sys.argv[2]):
                shutil.copy(file, folder)
            program, options = folder / "ztrain", ["--device", "cuda"]
        run = Runs(program, folder, *options)
        of = parts(run, 4)
        ranks(run, of)
        if len(sys.argv) == 2:
            layouts(run, of)
        micro_batches(run, of)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
