#!/usr/bin/env python3
"""Runs every file of configs/parallel by the command that its comment names, and looks for what the file shows.

    tests/parallel_configs.py ZTRAIN [NAME ...]         these, or all

A run must end well, with the steps its config asks for, a loss that falls, and a plan and memory as the story says. Runs that
promise the same weights must have them, bit for bit. Prints 'N passed, N failed'.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "configs" / "parallel"
STORIES = ["accumulation", "auto", "ddp", "dp", "hosts", "one_bit_adam", "pipeline_1f1b", "pipeline_gpipe", "pipeline_zero2", "uneven_batch", "zero1",
           "zero2", "zero3"]
SAME_WEIGHTS = [("ddp", "zero1", "zero2", "zero3", "hosts"), ("pipeline_gpipe", "pipeline_1f1b")]
# What the plan says of a story, in the words of plan.txt.
SHOWS = {"ddp": r"^ddp, 2 ranks", "dp": r"^dp, 2 ranks", "zero1": r"^zero1, 2 ranks", "zero2": r"^zero2, 2 ranks", "zero3": r"GATHER bucket 0",
         "pipeline_gpipe": r"schedule gpipe, 4 slots", "pipeline_1f1b": r"schedule 1f1b, 2 slots",
         "pipeline_zero2": r"^zero2, 4 ranks = 2 stages x 2 data-parallel", "accumulation": r"8 per micro-batch x 4 micro-batches x 2 ranks",
         "uneven_batch": r"^last step of an epoch: 41 samples", "hosts": r"^zero1, 2 ranks", "one_bit_adam": r"^OneBitAdam: updates before 13 reduce gradients",
         "auto": r"^plan auto: \d+ candidates?"}


def command_of(path):
    found = re.findall(r"^// +ztrain (.*)$", path.read_text(), re.MULTILINE)
    if len(found) != 1 or f"--config configs/parallel/{path.name}" not in found[0]:
        raise RuntimeError("no comment with the one command that runs it")
    return found[0].split()


def run(ztrain, name, output):
    """The hash of the weights."""
    command = command_of(FOLDER / f"{name}.json")
    done = subprocess.run([ztrain, *command, "--output", output], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-600:]}")
    config = json.loads((output / "config.resolved.json").read_text())
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "eval" not in row]
    steps = config["ztrain"]["steps"] or 22  # without a number of steps: two epochs of 1,001 samples, 96 a step
    if len(losses) != steps:
        raise RuntimeError(f"{len(losses)} steps, not {steps}")
    if not sum(losses[-3:]) < sum(losses[:3]):
        raise RuntimeError(f"the loss does not fall: {losses}")
    if not re.search(SHOWS[name], (output / "plan.txt").read_text(), re.MULTILINE):
        raise RuntimeError(f"plan.txt does not say {SHOWS[name]}")
    return re.search(r"^weights: (\w+)$", done.stderr, re.MULTILINE)[1]


def differing(weights):
    """The groups whose weights should be the same and are not."""
    return [group for group in SAME_WEIGHTS if len({weights[name] for name in group if name in weights}) > 1]


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    wanted, weights, failed = sys.argv[2:] or STORIES, {}, 0
    unknown = {path.stem for path in FOLDER.glob("*.json")} ^ set(STORIES)
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            try:
                weights[name] = run(pathlib.Path(sys.argv[1]).resolve(), name, pathlib.Path(folder) / "run")
                print(f"PASS {name}: weights {weights[name]}", flush=True)
            except Exception as problem:  # whatever went wrong belongs to this story, the others still run
                failed += 1
                print(f"FAIL {name}: {type(problem).__name__}: {problem}", flush=True)
    for group in differing(weights):
        print(f"FAIL weights that should be the same: {', '.join(f'{n} {weights.get(n)}' for n in group)}")
    for name in sorted(unknown):
        print(f"FAIL {name}: a file without a story here, or a story without a file")
    failed += len(differing(weights)) + len(unknown)
    print(f"{len(weights)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
