#!/usr/bin/env python3
"""What two ranks with steps of some microseconds leave to the programs beside them: a busy neighbour on each core, and starting one.

    tests/launch/neighbours.py ZTRAIN [--against OTHER_ZTRAIN] [--rounds N] [--only LAYOUT]

A network of 199 weights, --ranks 2 --threads 1, steps without end, no checkpoints, output in memory. Each round takes turns: the
neighbours alone, a program alone, then for each layout a run alone, beside a started program, beside the neighbours. A row has the
medians over the rounds: steps a second alone, context switches of the ranks a step, the neighbour's speed beside the run (1: as
alone), how much longer than alone it takes to start `python3 -c 'sum(range(3000000))'`, the worst of these. A neighbour is to keep
0.45, a start to take at most 5 times as long. Used by hand on a machine that does nothing else: other programs take their share of
the cores, and then only the rows of two builds against each other mean something. Exit status 1 where a median is beyond its limit.
"""
import argparse
import contextlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_bytes import INT64, model, node, npz, tensor, value_info  # noqa: E402

SPEED, START = 0.45, 5  # limits
LAYOUTS = {"ddp": [], "zero3": ["zero_optimization.stage=3"], "pipeline": ["pipeline.stages=2"],
           "threads": ["ztrain.parallel.communicator=thread"]}
CONFIG = """{"train_batch_size": 16, "steps_per_print": 1000000000, "optimizer": {"type": "SGD", "params": {"lr": 0.001}},
 "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "metrics": [], "checkpoint": {"every_epochs": 0}}}"""
NEIGHBOUR = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end, rounds = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    sum(range(2000))
    rounds += 1
print(rounds)
"""


def make_job(folder):
    values = random.Random(1)

    def weight(name, *dims):
        return tensor(dims, [values.uniform(-0.3, 0.3) for _ in range(dims[0] * (dims[1] if len(dims) > 1 else 1))], name=name)

    nodes = [node("Gemm", ["x", "w1", "b1"], ["h"], "first"), node("Relu", ["h"], ["r"], "relu"), node("Gemm", ["r", "w2", "b2"], ["y"], "second")]
    weights = [weight("w1", 8, 15), weight("b1", 15), weight("w2", 15, 4), weight("b2", 4)]
    (folder / "m.onnx").write_bytes(model(nodes, [value_info("x", ["n", 8])], [value_info("y", ["n", 4])], weights))
    (folder / "c.json").write_text(CONFIG)
    samples = 1600
    (folder / "d.npz").write_bytes(npz({"x": ([samples, 8], [values.random() for _ in range(8 * samples)]),
                                        "target": ([samples], [i % 4 for i in range(samples)], INT64)}))


class Run:
    """A run that goes on until close()."""

    def __init__(self, ztrain, folder, layout):
        self.metrics = folder / "run" / "metrics.jsonl"
        words = [ztrain, "--model", folder / "m.onnx", "--config", folder / "c.json", "--device", "cpu", "--ranks", 2, "--threads", 1,
                 "--steps", 10**9, "--overwrite", "--output", folder / "run"]
        for key in LAYOUTS[layout]:
            words += ["--set", key]
        self.metrics.unlink(missing_ok=True)
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def warm_up(self):
        while self.steps() < 1000 and self.process.poll() is None:
            time.sleep(0.1)
        assert self.process.poll() is None, f"{self.process.args[0]}: the run has ended"

    def steps(self):
        """metrics.jsonl grows by a line a step of some 160 bytes: as exact as a speed wants."""
        return self.metrics.stat().st_size / 160 if self.metrics.exists() else 0

    def tasks(self, pid=None):
        pid = pid or self.process.pid
        found = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += self.tasks(int(child))
        return found

    def switches(self):
        lines = [line for task in self.tasks() for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]
        return sum(int(line.split()[1]) for line in lines)

    def close(self):
        for _ in range(2):
            self.process.terminate()
            time.sleep(0.1)
        self.process.wait(60)


def start_a_program():
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "sum(range(3000000))"], check=True)
    return time.monotonic() - began


def neighbours(seconds):
    """Rounds of a busy program on each core."""
    words = [sys.executable, "-c", NEIGHBOUR]
    started = [subprocess.Popen([*words, str(core), str(seconds)], stdout=subprocess.PIPE) for core in sorted(os.sched_getaffinity(0))[:2]]
    return [int(s.communicate()[0]) for s in started]


def measure(ztrain, folder, layout, alone, start_alone):
    with contextlib.closing(Run(ztrain, folder, layout)) as run:
        run.warm_up()
        steps, switches, began = run.steps(), run.switches(), time.monotonic()
        time.sleep(1)
        made, seconds = run.steps() - steps, time.monotonic() - began
        switches = run.switches() - switches
        starts = [start_a_program() for _ in range(3)]
        beside = neighbours(2)
    return {"steps": made / seconds, "switches": switches / max(made, 1), "start": statistics.median(starts) / start_alone,
            "worst": max(starts) / start_alone, "speed": statistics.mean(b / a for a, b in zip(alone, beside))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--against", help="another build, in turn with the first")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=LAYOUTS)
    args = parser.parse_args()
    builds = [b for b in [args.against, args.ztrain] if b]
    layouts = [args.only] if args.only else list(LAYOUTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a run must not outlive this
    rows = {(build, layout): [] for layout in layouts for build in builds}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        make_job(pathlib.Path(scratch))
        for _ in range(args.rounds):
            for build, layout in rows:
                alone, start_alone = neighbours(1), statistics.median(start_a_program() for _ in range(3))
                rows[build, layout].append(measure(build, pathlib.Path(scratch), layout, [2 * a for a in alone], start_alone))
    print(f"{'build':24} {'layout':9} {'steps/s':>9} {'switches/step':>13} {'neighbour':>9} {'start':>6} {'worst':>6}   load {os.getloadavg()[0]:.1f}")
    bad = 0
    for (build, layout), found in rows.items():
        m = {key: statistics.median(f[key] for f in found) for key in found[0]}
        print(f"{build[-24:]:24} {layout:9} {m['steps']:9.0f} {m['switches']:13.3f} {m['speed']:9.2f} {m['start']:6.1f} "
              f"{max(f['worst'] for f in found):6.1f}")
        bad += build == args.ztrain and (m["speed"] < SPEED or m["start"] > START)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
