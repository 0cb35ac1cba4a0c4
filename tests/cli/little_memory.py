#!/usr/bin/env python3
"""Limits of the address space (ulimit -v) from nothing up to where a command runs: each ends with a message and a code of its own.

    little_memory.py ZTRAIN SOURCE_ROOT [--steps N]

N limits for each command, spread evenly between that at which the loader has what it needs and that at which the command
succeeds. A loader without memory is not ztrain's: exit 127. Exit status 0: all hold, 1: one does not.
"""
import argparse
import collections
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from onnx_bytes import FLOAT, npz

LOADER = 127  # the loader's own exit code, whichever message it still finds memory for


def run(command, kilobytes):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (kilobytes << 10, kilobytes << 10))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # the program starts itself once more where this is not set: under a limit that may fail, and need not be shown twice
    environment = dict(os.environ, GOMP_SPINCOUNT="3000")
    return subprocess.run(command, capture_output=True, text=True, errors="replace", preexec_fn=limit, timeout=120, env=environment)


def first_that(holds, low, high, nearness):
    """The least number of kilobytes for which it holds, to within `nearness`; it holds for `high`, and not for `low`."""
    while high - low > nearness:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def is_told(done):
    """A success, or one message and a code that is no signal's. Where a few kilobytes are left OpenMP may be the one to say it."""
    if done.returncode == 1 and done.stderr.startswith("\nlibgomp: Out of memory"):
        return True
    return done.returncode == 0 or (done.returncode in (1, 3, 4) and done.stderr.startswith("ztrain: error: ") and
                                    done.stderr.count("ztrain: error: ") == 1)


def sweep(name, command, steps):
    # the loader itself ends with a signal within a few kilobytes of what it needs
    loaded = first_that(lambda at: is_told(run([command[0], "--version"], at)), 1 << 10, 1 << 20, 256)
    enough = first_that(lambda at: run(command, at).returncode == 0, loaded, 1 << 20, 1024)
    span, bad, codes = enough + (8 << 10) - loaded, [], collections.Counter()
    for i in range(steps):
        at = loaded + span * i // steps
        done = run(command, at)
        codes[done.returncode] += 1
        if done.returncode != LOADER and not is_told(done):
            bad.append(f"{at} kB: exit {done.returncode}: {done.stderr[:200]!r}")
    print(f"{'FAIL' if bad else 'ok  '} {name}: {loaded} to {loaded + span} kB: exit codes {dict(codes)}", flush=True)
    for line in bad[:5]:
        print("     " + line)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    mlp = ["--model", args.source / "models/mlp.onnx", "--config", args.source / "configs/mlp.json"]
    convnet = ["--model", args.source / "models/convnet.onnx", "--config", args.source / "configs/ds_config.json"]
    with tempfile.TemporaryDirectory() as tmp:
        train = ["--output", f"{tmp}/run", "--overwrite", "--steps", "2", "--quiet"]
        two = ["--ranks", "2", "--set", "ztrain.parallel.communicator=thread", "--set", "train_micro_batch_size_per_gpu=25"]
        images = pathlib.Path(tmp) / "images.npz"
        images.write_bytes(npz({"image": ([8, 3, 32, 32], [0.5] * (8 * 3 * 32 * 32), FLOAT)}))
        inputs = ["--inputs", images, "--output", f"{tmp}/out"]
        commands = {
            "train, 1 thread": ["train", *mlp, *train, "--threads", "1"],
            "train, 2 threads": ["train", *convnet, *train, "--threads", "2"],
            "train, 2 ranks": ["train", *mlp, *train, "--threads", "1", *two],
            "evaluate": ["evaluate", *convnet, "--threads", "2"],
            "plan": ["plan", *mlp],
            "inspect": ["inspect", *convnet[:2]],
            "predict": ["predict", *convnet[:2], *inputs, "--threads", "2"],
            "grad": ["grad", *convnet[:2], *inputs, "--threads", "1"],
        }
        held = [sweep(name, [str(x) for x in [args.program, *command]], args.steps) for name, command in commands.items()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
