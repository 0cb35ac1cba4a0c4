#!/usr/bin/env python3
"""The 1-bit optimizers as runs have them, against float64 trajectories.

    one_bit.py ZTRAIN SOURCE_ROOT              on the CPU
    one_bit.py ZTRAIN SOURCE_ROOT MODULE       a CUDA module, emulated or not, against the CPU

The loss of a model is the inner product of its weights and the sample, so that the gradient of a rank is its sample. Weights after every
step are those of the checkpoints. 1-bit Adam is held against tests/reference/tables/optimizers.json; 0/1 Adam and 1-bit LAMB against
tests/reference/tables/one-bit.json and, with tensors of some blocks, accumulation, a schedule and clipping, against the formulas.
Resuming is bitwise with as many ranks, and says that the errors begin anew with others. The bytes that ranks send are those of the plan.
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


def read_weights(folder, names, file="weights.safetensors"):
    data = (folder / file).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    read = {}
    for k in names:
        first, last = head[k]["data_offsets"]
        read[k] = numpy.frombuffer(data[8 + length + first:8 + length + last], "<f4").reshape(head[k]["shape"])
    return read


class Case:
    """A model, data whose samples are gradients, and runs."""

    def __init__(self, args, folder, kind, params, weights, grads, accumulation=1, epochs=1, ema=0, **config):
        self.args, self.folder, self.kind, self.names = args, pathlib.Path(folder), kind, list(weights)
        self.folder.mkdir()
        self.steps, self.ranks = epochs * len(grads), len(grads[0])
        write_model(self.folder / "model.onnx", weights)
        # of a step: micro-batch by micro-batch, the samples of the ranks
        samples = [rank for step in grads for part in range(accumulation) for rank in self.parts(step, part, accumulation)]
        numpy.savez(self.folder / "data.npz", **{"x_" + k: numpy.stack([s[k] for s in samples]) for k in weights})
        whole = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation,
                 "optimizer": {"type": kind, "params": params}, **config,
                 "ztrain": {"data": {"format": "npz", "path": "data.npz", "shuffle": False}, "loss": {"type": "output", "output": "loss"},
                            "steps": self.steps, "checkpoint": {"every_steps": 1, "keep": 1000}, "on_non_finite": "skip", "ema": ema}}
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


SHAPES = {"a": (70, 61), "b": (5,), "c": (4099,), "d": (1,)}
SHORT = {"OneBitAdam": {"freeze_step": 6}, "OneBitLamb": {"freeze_step": 6, "weight_decay": 0.01},
         "ZeroOneAdam": {"var_freeze_step": 9, "var_update_scaler": 2, "local_step_scaler": 3, "local_step_clipper": 4, "weight_decay": 0.01}}
WARM = {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.006, "warmup_num_steps": 20, "warmup_type": "linear"}}


def longer(args, folder):
    """Tensors of several blocks, two micro-batches a step, a rate that changes, clipping."""
    for kind, own in SHORT.items():
        for ranks in 2, 3:
            weights, grads = formulas.made(SHAPES, 20, ranks, 11)
            for rank in (rank for step in grads for rank in step):
                rank["a"][3], rank["b"][2] = 0, 0  # parts that never have a gradient
            params = {**formulas.BASE, **own}
            case = Case(args, folder / f"longer-{kind}-{ranks}", kind, params, weights, grads, 2, scheduler=WARM, gradient_clipping=300.0)
            ran = case.run("out")
            rows, norms = case.rows("out") if ran else [], []
            wanted = formulas.trajectory(kind, params, weights, grads, [row["lr"] for row in rows] or None, 300.0, norms)
            error = case.worst("out", wanted) if ran else numpy.inf
            check(error < MOST, f"{kind}, {ranks} ranks, accumulation, schedule, clipping: weights of 20 steps (worst {error:.1e})")
            check(ran and numpy.allclose([row["grad_norm"] for row in rows], norms, rtol=1e-5) and max(norms) > 300,
                  f"{kind}, {ranks} ranks: the norm is the mean's, then rank 0's own")


def halves(args, folder):
    """Gradients that half types hold exactly, so that those runs have the formulas of fp32; skipped steps are no updates."""
    for kind, own in SHORT.items():
        weights, grads = formulas.made(formulas.SHAPES, 20, 2, 3)
        grads = [[{k: (numpy.round(g[k] / numpy.abs(g[k]).max() * 64) / 64).astype(numpy.float32) for k in g} for g in row] for row in grads]
        params = {**formulas.BASE, **own}
        for half in "bf16", "fp16":
            extra = {"initial_scale_power": 17, "hysteresis": 1} if half == "fp16" else {}
            case = Case(args, folder / f"{half}-{kind}", kind, params, weights, grads, **{half: {"enabled": True, **extra}})
            ran = case.run("out")
            skipped = [row["skipped"] for row in case.rows("out")] if ran else []
            applied = [row for row, skip in zip(grads, skipped) if not skip]
            wanted = formulas.trajectory(kind, params, weights, applied)
            got = case.weights("out", 20) if ran else {}
            error = max((float(numpy.abs(got[k] - wanted[-1][k]).max()) for k in got), default=numpy.inf)
            check(error < 1e-4 and any(skipped) == (half == "fp16"), f"{kind}, {half}: weights after 20 steps, {sum(skipped)} skipped (worst {error:.1e})")


def resume(case, points, *options):
    case.run("whole", *options)
    last = case.bytes_of("whole", case.steps)
    check(len(last) == 3, f"{case.kind}: a checkpoint has the states of ranks")
    for step in points:
        case.run(f"from-{step}", "--resume", case.folder / f"whole/checkpoints/step-{step}", *options)
        check(case.bytes_of(f"from-{step}", case.steps) == last and "begin at zero" not in case.says, f"{case.kind}: resumed at step {step} bit for bit")


def resumes(args, folder):
    for kind, own in SHORT.items():
        case = Case(args, folder / f"resumes-{kind}", kind, {**formulas.BASE, **own}, *formulas.made(SHAPES, 20, 2, 5))
        resume(case, [3, 6, 7, 9, 10, 13, 17, 19])


# The rate halves after every epoch: no loss is better than the one before by so much.
PLATEAU = {"type": "ReduceLROnPlateau", "params": {"patience": 0, "factor": 0.5, "threshold": 1e9, "threshold_mode": "abs"}}


def followed(args, folder):
    """A rate that follows the loss changes between synchronizations of 0/1 Adam, which divide by the sum of the rates; also of several updates."""
    for ranks in 1, 2, 3:
        for batches in 3, 7:
            weights, grads = formulas.made(formulas.SHAPES, batches, ranks, 13)
            params, epochs = {**formulas.BASE, **SHORT["ZeroOneAdam"]}, 28 // batches
            case = Case(args, folder / f"followed-{ranks}-{batches}", "ZeroOneAdam", params, weights, grads, epochs=epochs, scheduler=PLATEAU)
            ran = case.run("out")
            rates = [row["lr"] for row in case.rows("out")] if ran else []
            check(rates == [0.005 * 0.5 ** max(i // batches - 1, 0) for i in range(case.steps)], f"plateau, {ranks} ranks: the rate halves every {batches} steps, from the second epoch on")
            error = case.worst("out", formulas.trajectory("ZeroOneAdam", params, weights, grads * epochs, rates or None)) if ran else numpy.inf
            check(error < MOST, f"plateau, {ranks} ranks, {batches} steps an epoch: weights of {case.steps} steps (worst {error:.1e})")
            if (ranks, batches) == (2, 3):
                resume(case, [10, 13, 15, 20])


def averaged(args, folder):
    """The average of the weights: each rank has that of its own, and rank 0's is saved."""
    weights, grads = formulas.made(SHAPES, 20, 2, 5)
    case = Case(args, folder / "averaged", "ZeroOneAdam", {**formulas.BASE, **SHORT["ZeroOneAdam"]}, weights, grads, ema=0.75)
    resume(case, [3, 9, 10, 13, 17, 19])
    own, off = {k: v.astype(float) for k, v in weights.items()}, []
    before, apart = None, False
    for step in range(1, 21):
        here = case.folder / f"whole/checkpoints/step-{step}"
        now, saved = read_weights(here, case.names), read_weights(here, [k + ".ema" for k in own], "optimizer.safetensors")
        own = {k: 0.75 * own[k] + 0.25 * now[k] for k in own}
        off += [float(numpy.abs(saved[k + ".ema"] - own[k]).max()) for k in own]
        if step < 10:  # the ranks are alike
            continue
        ranks = read_weights(here, [f"rank.{r}.{what}" for r in range(2) for what in ("weights", "ema")], "ranks.safetensors")
        if before is not None:
            off.append(float(numpy.abs(ranks["rank.1.ema"] - (0.75 * before + 0.25 * ranks["rank.1.weights"].astype(float))).max()))
        before = ranks["rank.1.ema"].astype(float)
        apart |= not numpy.array_equal(ranks["rank.0.ema"], ranks["rank.1.ema"])
    check(max(off) < 1e-6, f"ema: of every rank that of its weights in the checkpoints (off by {max(off):.1e})")
    check(apart, "ema: the ranks have averages of their own")


def other_ranks(args, folder):
    """Two samples a step: two ranks, or one with twice the micro-batch."""
    for kind, own in SHORT.items():
        weights, grads = formulas.made(SHAPES, 20, 2, 5)
        case = Case(args, folder / f"ranks-{kind}", kind, {**formulas.BASE, **own}, weights, grads)
        case.run("two")
        for step in 9, 17:
            two = case.folder / f"two/checkpoints/step-{step}"
            ran = case.run(f"one-{step}", "--resume", two, "--set", "train_micro_batch_size_per_gpu=2", ranks=1)
            check(ran and "errors of the compression begin at zero: the checkpoint is of another number of ranks" in case.says,
                  f"{kind}: resumed at step {step} with one rank, which says that errors begin anew")
        ran = case.run("back", "--resume", case.folder / "one-9/checkpoints/step-15")
        check(ran and "begin at zero" in case.says, f"{kind}: and back with two")
        ran = case.run("changed", "--resume", case.folder / "two/checkpoints/step-9", "--set",
                       f"optimizer.params.{'var_' * (kind == 'ZeroOneAdam')}freeze_step=12", status=2)
        check(ran and "freeze_step is 12" in case.says, f"{kind}: freeze_step may not change on resuming")
        if kind == "ZeroOneAdam":
            damage(case)


def damage(case):
    """A flipped bit in any tensor of ranks.safetensors is named."""
    path = case.folder / "two/checkpoints/step-17/ranks.safetensors"
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + length])
    check(set(name.split(".")[2] for name in tensors) == {"worker_error", "server_error", "weights", "exp_avg", "exp_avg_sq", "momentum_accumulator"},
          "behind var_freeze_step the ranks' weights and states are stored")
    for name, tensor in tensors.items():
        at = 8 + length + sum(tensor["data_offsets"]) // 2
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1:])
        said = subprocess.run([case.args.program, "verify", path.parent], capture_output=True, text=True)
        check(said.returncode == 4 and "ranks.safetensors" in said.stderr and "checksum" in said.stderr, f"verify finds a bit in {name}")
    ran = case.run("damaged", "--resume", path.parent, status=4)
    check(ran and "ranks.safetensors" in case.says, "a run does not resume from it")
    path.write_bytes(data)


def volume(args, folder):
    """What comms_logger counts against the plan, and 1/32 of the reduced gradients but for scales and filling."""
    weights, grads = formulas.made({"a": (300, 400), "b": (400,)}, 8, 2, 1)
    for kind, parts in ("OneBitAdam", 2), ("OneBitLamb", 1):
        case = Case(args, folder / f"volume-{kind}", kind, {**formulas.BASE, "freeze_step": 4}, weights, grads,
                    comms_logger={"enabled": True, "prof_all": True, "verbose": False})
        case.run("out")
        rows = dict.fromkeys(re.findall(r"^(all_to_all|all_gather|reduce_scatter)$", case.says, re.M))
        sizes = {op: re.findall(rf"^{op}\n((?:\s+.*\n)+)", case.says, re.M) for op in rows}
        padded = sum(-(-n // 16) * 16 for n in ([120000, 400] if parts == 2 else [120400]))
        message = (4 * parts + padded // 16 + 3) // 4 * 4
        counted = re.findall(r"([\d.]+) KB\s+(\d+)", "".join(sizes.get("all_to_all", [])))
        check(counted == [(f"{2 * message / 1024:.2f}".rstrip("0").rstrip("."), "4")], f"{kind}: 4 exchanges of {message} bytes a rank ({counted})")
        plan = (case.folder / "out/plan.txt").read_text()
        full, sent = 2 * 4 * 120400 // 2, 2 * message
        found = re.search(r"updates before 5 reduce gradients as predicted above, (\d+) bytes.*\n.*all-reduce, (\d+) bytes.*\(1/([\d.]+)\)", plan)
        check(found and (int(found[1]), int(found[2])) == (full, sent), f"{kind}: the plan has {full} and {sent} bytes")
        check(31.5 < full / sent <= 32 and found and found[3] == f"{full / sent:.1f}", f"{kind}: 1/{full / sent:.1f} of the bytes")
        check("from update 5 on, 1/" in case.says, f"{kind}: the start says when")
    case.run("never", "--set", "optimizer.params.freeze_step=100")
    check("update 101 is the first to be compressed, the run has 8: nothing is" in case.says, "a run that is too short says so")


STEPS = 14  # of runs on a device, which may be emulated


def on_device(args, folder):
    """The program with the module beside it, where it looks for it: the bits of the CPU, or nearly where norms are summed in another order."""
    place = folder / "gpu"
    place.mkdir()
    for file in args.program, args.module:
        shutil.copy(file, place)
    for kind, own in SHORT.items():
        for ranks in 1, 2:
            case = Case(args, folder / f"device-{kind}-{ranks}", kind, {**formulas.BASE, **own}, *formulas.made(formulas.SHAPES, STEPS, ranks, 9),
                        gradient_clipping=1.0)
            ran = case.run("cpu", "--set", "gradient_clipping=0") and case.run("clipped")
            case.args = argparse.Namespace(program=place / args.program.name)
            ran = ran and case.run("cuda", "--device", "cuda", "--set", "gradient_clipping=0") and case.run("clipped-cuda", "--device", "cuda")
            same = ran and case.bytes_of("cpu", STEPS) == case.bytes_of("cuda", STEPS)
            error, clipped = (case.worst(there, [case.weights(here, step) for step in range(1, STEPS + 1)]) if ran else numpy.inf
                              for there, here in (("cuda", "cpu"), ("clipped-cuda", "clipped")))
            check(same or (kind == "OneBitLamb" and error < MOST), f"{kind}, {ranks} ranks: the device leaves the bits of the CPU (off by {error:.1e})")
            check(clipped < MOST, f"{kind}, {ranks} ranks, clipping: weights of the CPU (off by {clipped:.1e})")
        resume(case, [5, 9, 13], "--device", "cuda", "--set", "gradient_clipping=0")
        half = ["--set", "fp16=" + json.dumps({"enabled": True, "initial_scale_power": 17, "hysteresis": 1})]
        ran = case.run("half-cuda", "--device", "cuda", *half)
        case.args = args
        ran = case.run("half", *half) and ran
        skips, there = ([row["skipped"] for row in case.rows(out)] if ran else [] for out in ("half", "half-cuda"))
        error = case.worst("half-cuda", [case.weights("half", step) for step in range(1, STEPS + 1)]) if ran else numpy.inf
        check(any(skips) and skips == there and error < 1e-3, f"{kind}, 2 ranks, fp16: skips and weights of the CPU (off by {error:.1e})")


def follows_on_device(args, folder):
    """A rate that follows the loss, and the average of the weights: 0/1 Adam on the device has the bits of the CPU, and goes on with them."""
    place = folder / "gpu"
    for ranks in 1, 2:
        weights, grads = formulas.made(formulas.SHAPES, 5, ranks, 9)
        case = Case(args, folder / f"follows-{ranks}", "ZeroOneAdam", {**formulas.BASE, **SHORT["ZeroOneAdam"]}, weights, grads, epochs=4,
                    scheduler=PLATEAU, ema=0.75)
        ran = case.run("cpu")
        case.args = argparse.Namespace(program=place / args.program.name)
        ran = ran and case.run("cuda", "--device", "cuda")
        check(ran and case.bytes_of("cpu", 20) == case.bytes_of("cuda", 20), f"plateau, average, {ranks} ranks: the device leaves the bits of the CPU")
        if ranks == 2:
            resume(case, [9, 14, 17], "--device", "cuda")


def roomy_memory():
    """A folder in memory with room for what all runs save, which a disk takes long to keep. None: there is none."""
    shared = pathlib.Path("/dev/shm")
    return shared if shared.is_dir() and shutil.disk_usage(shared).free > 2 << 30 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("module", type=pathlib.Path, nargs="?")
    args = parser.parse_args()
    args.program = args.program.resolve()
    with tempfile.TemporaryDirectory(dir=roomy_memory()) as folder:
        for test in [on_device, follows_on_device] if args.module else [tables, longer, halves, resumes, followed, averaged, other_ranks, volume]:
            test(args, pathlib.Path(folder))
    print(f"{checks - len(failures)} of {checks} hold")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
