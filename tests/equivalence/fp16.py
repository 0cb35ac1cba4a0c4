#!/usr/bin/env python3
"""Trains in fp16 and holds it against fp32, against other layouts, against DeepSpeed's rule and lines, and against itself resumed.

    fp16.py ZTRAIN CASE [MODULE]

CASE is a folder of tests/reference/cases whose batch is 16. MODULE: a CUDA module, emulated or not, which must do what the CPU does.
Needs only Python's standard library. Exit status 0: all hold, 1: one does not, 77: CASE is not there, or the module finds no GPU.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

failures, checks = [], 0
LINE = "[deepspeed] OVERFLOW! Rank 0 Skipping step."
HALVES = ["train_micro_batch_size_per_gpu=8", "ztrain.parallel.communicator=thread"]


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


class Runs:
    def __init__(self, program, case, folder, *options):
        self.program, self.case, self.folder, self.options, self.count = program, case, folder, options, 0

    def __call__(self, *sets, ranks=1, steps=12, status=0, more=(), half="fp16.enabled=true"):
        """Rows of metrics.jsonl without the clock, overflow lines, model.onnx."""
        self.count += 1
        self.out = self.folder / f"run-{self.count}"
        words = [self.program, "--model", self.case / "model.onnx", "--config", self.case / "config.json", "--output", self.out, "--threads", 1,
                 "--ranks", ranks, "--steps", steps, *self.options, *more]
        for pair in [half, *sets]:
            words += ["--set", pair]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.says = done.stderr
        if done.returncode != status:
            check(False, f"exit {done.returncode}, wants {status}: {done.stderr[-600:]}")
            return [], [], b""
        lines = [line for line in done.stderr.splitlines() if "OVERFLOW" in line]
        rows = [json.loads(line) for line in open(self.out / "metrics.jsonl")]
        model = self.out / "model.onnx"
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows], lines, model.read_bytes() if model.exists() else b""


def close(rows, others, share):
    return len(rows) == len(others) and all(abs(a["loss"] - b["loss"]) <= share * abs(b["loss"]) for a, b in zip(rows, others))


def static(run):
    """A scale that is small enough changes nothing but rounding: clipping and norms are those of the loss that is not scaled."""
    full, _, _ = run("gradient_clipping=0.5", half="fp16.enabled=false")
    rows, lines, _ = run("gradient_clipping=0.5", "fp16.loss_scale=1024")
    check(close(rows, full, 0.02), "a static scale: losses within 2 % of fp32")
    check(all(abs(a["grad_norm"] - b["grad_norm"]) < 0.05 * b["grad_norm"] for a, b in zip(rows, full)), "norms before clipping, unscaled")
    check([(r["loss_scale"], r["skipped"]) for r in rows] == 12 * [(1024, False)] and not lines, "metrics.jsonl has the scale")
    rows, lines, _ = run("fp16.loss_scale=70000", steps=3)
    check(all(r["skipped"] and r["loss_scale"] == 70000 for r in rows) and lines == 3 * [LINE], "a scale beyond fp16 skips every step")


def dynamic(run):
    """Twice 65536, which fp16 cannot hold, then down; three good steps, and up again."""
    rows, lines, _ = run("fp16.loss_scale_window=4", "scheduler.type=WarmupLR", "scheduler.params.warmup_num_steps=100",
                         "scheduler.params.warmup_max_lr=0.01", "scheduler.params.warmup_type=linear")
    held, halved = LINE + " Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1", LINE + " Attempted loss scale: 65536, reducing to 32768"
    check(lines[:2] == [held, halved] and lines[2:4] == [held, halved], "overflow lines are DeepSpeed's")
    scales = [r["loss_scale"] for r in rows]
    check(scales == [65536, 65536, 32768, 32768, 32768, 32768, 65536, 65536, 32768, 32768, 32768, 32768], f"so are the scales: {scales}")
    check([r["skipped"] for r in rows] == [s == 65536 for s in scales], "steps of 65536 are skipped")
    check(rows[0]["lr"] == rows[1]["lr"] == rows[2]["lr"] < rows[4]["lr"], "the schedule waits for skipped steps")
    check(rows[0]["loss"] == rows[2]["loss"] or rows[0]["epoch"] == rows[2]["epoch"], "weights stay")
    check(all(r["grad_norm"] is None for r in rows if r["skipped"]), "a skipped step has no norm")
    return rows


def first_overflow(run):
    """--verbose appends the gradient that the backward pass reaches first, and a rank that owns a part of it which is not finite."""
    for what, words, ranks, rank in [("one rank", [], 1, 0), ("two ranks", HALVES, 2, 1), ("zero3", [*HALVES, "zero_optimization.stage=3"], 2, 1),
                                     ("two stages", ["pipeline.stages=2", *HALVES, "gradient_accumulation_steps=2"], 2, 1)]:
        _, plain, model = run(*words, ranks=ranks, steps=4)
        _, lines, same = run(*words, ranks=ranks, steps=4, more=["--verbose"])
        wanted = [f'{line} | first: gradient of "intercepts2", rank {rank}' for line in plain]
        check(len(plain) == 2 and lines == wanted and model == same, f"{what}: --verbose names the first gradient that overflows: {lines}")
    _, lines, _ = run("fp16.loss_scale=60000", "optimizer.params.lr=1", more=["--verbose"])
    check(bool(lines) and all(' | first: gradient of "' in line and "intercepts2" not in line for line in lines),
          f"where the last bias stays finite, it is another: {lines[:1]}")


def minimum(run):
    run("fp16.initial_scale_power=17", "fp16.min_loss_scale=65536", "fp16.hysteresis=1", status=1)
    check("loss scale already at minimum (65536)" in run.says and "at step 2: " in run.says and "hint: use bf16" in run.says,
          f"an overflow at the minimum ends the run, and says what: {run.says.splitlines()[-2:]}")
    check(LINE + " Attempted loss scale: 131072, reducing to 65536" in run.says, "the one before it halves")
    check("the loss scale 65536 is beyond fp16" in run.says, "so it does where the scale is what overflows")
    run("fp16.initial_scale_power=4", "fp16.min_loss_scale=16", "fp16.hysteresis=1", "optimizer.params.lr=1e5", status=1)
    check('node "' in run.says.split("already at minimum")[-1], f"the node that overflows first is named: {run.says.splitlines()[-2:]}")


def layouts(run):
    ddp, _, model = run(*HALVES, ranks=2)
    for what, words in {"zero1": ["zero_optimization.stage=1"], "zero2": ["zero_optimization.stage=2"], "zero3": ["zero_optimization.stage=3"]}.items():
        rows, _, other = run(*HALVES, *words, ranks=2)
        check(bool(model) and other == model and rows == ddp, f"{what} leaves the same bits as ddp")
    one, _, _ = run()
    for what, words in {"two stages": ["pipeline.stages=2", *HALVES, "gradient_accumulation_steps=2"], "mode dp": ["ztrain.parallel.mode=dp", *HALVES[:1]]}.items():
        rows, _, _ = run(*words, ranks=2)
        check(close(rows, one, 1e-3) and [r["skipped"] for r in rows] == [r["skipped"] for r in one], f"{what}: skips and losses of one rank")


def resumed(run):
    words = ["fp16.loss_scale_window=3", "fp16.initial_scale_power=14", "ztrain.checkpoint.every_steps=4", "ztrain.checkpoint.keep=0"]
    rows, _, model = run(*words, steps=16)
    whole = run.out
    check(any(r["skipped"] for r in rows), "a scale that rises overflows in the end")
    for step in (4, 8, 12):
        again, _, other = run(*words, steps=16, more=["--resume", whole / f"checkpoints/step-{step}"])
        check(bool(model) and other == model and again == rows[step:], f"resumed at step {step} the run is as if it had not stopped")
    run("ztrain.checkpoint.every_steps=4", steps=4, half="bf16.enabled=true")
    manifest = json.loads((run.out / "checkpoints/step-4/manifest.json").read_text())
    again, _, _ = run("fp16.initial_scale_power=10", steps=6, more=["--resume", run.out / "checkpoints/step-4"])
    check("loss_scale" not in manifest and [r["loss_scale"] for r in again] == [1024, 1024], "a checkpoint without a scale begins with the config's")


def on_device(run, program, module, case, folder):
    """The program with the module beside it, where it looks for it."""
    place = folder / "gpu"
    place.mkdir()
    for file in (program, module):
        shutil.copy(file, place)
    device = Runs(place / "ztrain", case, folder / "device", "--device", "cuda")
    device.folder.mkdir()
    for what, words, ranks in [("dynamic", ["fp16.loss_scale_window=3", "gradient_clipping=0.5"], 1), ("static", ["fp16.loss_scale=512"], 1),
                               ("two ranks, zero2", [*HALVES, "zero_optimization.stage=2"], 2),
                               ("mode dp", ["ztrain.parallel.mode=dp", *HALVES[:1]], 2),
                               ("two stages", ["pipeline.stages=2", *HALVES, "gradient_accumulation_steps=2"], 2)]:
        rows, lines, _ = run(*words, ranks=ranks)
        there, said, _ = device(*words, ranks=ranks)
        check(close(there, rows, 5e-3), f"{what}: losses of the CPU")
        check([(r["loss_scale"], r["skipped"], r["lr"]) for r in there] == [(r["loss_scale"], r["skipped"], r["lr"]) for r in rows] and said == lines,
              f"{what}: scales, skips and lines of the CPU")
    first_overflow(device)
    device("fp16.initial_scale_power=17", "fp16.min_loss_scale=65536", "fp16.hysteresis=1", status=1)
    check("loss scale already at minimum (65536)" in device.says, "an overflow at the minimum ends the run")
    resumed(device)


def main():
    program, case = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if not case.is_dir():
        print(f"SKIP: {case} is not there")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        run = Runs(program, case, pathlib.Path(scratch))
        if len(sys.argv) > 3:
            on_device(run, program, sys.argv[3], case, pathlib.Path(scratch))
        else:
            static(run)
            dynamic(run)
            first_overflow(run)
            minimum(run)
            layouts(run)
            resumed(run)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
