"""The least time that a training step can take on this machine: its dense operations over the measured peak of multiply-adds, and
the bytes of its optimizer over the measured bandwidth of memory."""
import csv
import json
import re
import subprocess

from machine import Problem

LARGEST = 1 << 26  # elements of a tensor of step_bandwidth
ROUNDS, ROUND_WEIGHTS = 200, 4e8  # of both programs at most; weights that step_bandwidth updates in all rounds
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Problem(f"{' '.join(map(str, command))}\nended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout + done.stderr


def found(pattern, text, what):
    match = re.search(pattern, text, re.M)
    if not match:
        raise Problem(f"`ztrain plan` prints no {what}")
    return match


class Plan:
    """What `ztrain plan` says of a job: operations of products and convolutions in a step, weights, bytes of the process."""

    def __init__(self, program, words, nodes):
        text = output(program, "plan", *words, "--nodes", nodes)
        with open(nodes, newline="") as file:
            self.flops = 2 * sum(int(row["runs"]) * float(row["macs"]) for row in csv.DictReader(file, delimiter="\t"))
        self.weights = int(found(r"^\d+ tensors, (\d+) elements", text, "number of weights")[1])
        size = found(r"^host memory: ([\d.]+) ([KMG]?B) for all ranks", text, "host memory")
        self.bytes = float(size[1]) * UNITS[size[2]]


class Limits:
    """`build`: the folder of ztrain's build. Rates are measured before and after the pairs of each row, and the highest counts: other
    programs can only lower it."""

    def __init__(self, build):
        self.peak_program, self.update_program = build / "tests/ops/fma_peak", build / "tests/optim/step_bandwidth"
        self.distance_program = build / "tests/ops/core_distance"
        self.peaks, self.updates = {}, {}  # operations a second by threads and type; milliseconds by optimizer, threads and weights
        programs = self.peak_program, self.update_program, self.distance_program
        missing = [str(path.relative_to(build)) for path in programs if not path.exists()]
        if missing:
            raise Problem(f"not built: ninja -C {build} {' '.join(missing)}")
        self.isa = self.measure_peak(1)["isa"]

    def measure_peak(self, threads):
        said = json.loads(output(self.peak_program, threads, ROUNDS))
        for bf16, key in (False, "fp32_gflops"), (True, "bf16_gflops"):
            self.peaks[threads, bf16] = max(1e9 * (said[key] or 0), self.peaks.get((threads, bf16), 0))
        return said

    def measure(self, job, plan, threads):
        self.measure_peak(threads)
        parts = [LARGEST] * (plan.weights // LARGEST) + [plan.weights % LARGEST] * (plan.weights % LARGEST > 0)
        rounds = int(max(15, min(ROUNDS, ROUND_WEIGHTS / plan.weights)))
        said = json.loads(output(self.update_program, job.optimizer, threads, rounds, *parts))
        key = job.optimizer, threads, plan.weights
        self.updates[key] = min(said["ms"] * said["gb_per_s"] / max(said["machine"].values()), self.updates.get(key, float("inf")))

    def distance(self):
        """Nanoseconds from core to core now, None with one: virtual cores move between cache complexes."""
        return json.loads(output(self.distance_program))["ns"]

    def has_bf16(self):
        return self.peaks[1, True] > 0

    def dense_ms(self, job, plan, threads):
        """Of the operations of products and convolutions, those that an attention's gradient computes again included."""
        return 1e3 * plan.flops / self.peaks[threads, job.bf16]

    def update_ms(self, job, plan, threads):
        """Of the optimizer, which keeps weights, gradients and states in fp32."""
        return self.updates[job.optimizer, threads, plan.weights]

    def say(self):
        return "; ".join(f"{'bf16' if bf16 else 'fp32'} {rate / 1e9:.0f} GFLOP/s on {threads} thread{'s' * (threads > 1)}"
                         for (threads, bf16), rate in sorted(self.peaks.items()) if rate)
