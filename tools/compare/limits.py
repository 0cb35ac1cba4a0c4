"""The least time that a training step can take on this machine: its dense operations over the measured peak of multiply-adds, and
the bytes of its optimizer over the measured bandwidth of memory."""
import csv
import json
import re
import subprocess

from machine import Problem

LARGEST = 1 << 26  # elements of a tensor of step_bandwidth
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
    """`build`: the folder of ztrain's build. The peak is measured again for each row, and the highest counts: other programs can
    only lower it."""

    def __init__(self, build):
        self.peak_program, self.update_program, self.peaks = build / "tests/ops/fma_peak", build / "tests/optim/step_bandwidth", {}
        missing = [str(path.relative_to(build)) for path in (self.peak_program, self.update_program) if not path.exists()]
        if missing:
            raise Problem(f"not built: ninja -C {build} {' '.join(missing)}")
        self.isa = self.measure(1)["isa"]

    def measure(self, threads):
        said = json.loads(output(self.peak_program, threads))
        for bf16, key in (False, "fp32_gflops"), (True, "bf16_gflops"):
            self.peaks[threads, bf16] = max(1e9 * (said[key] or 0), self.peaks.get((threads, bf16), 0))
        return said

    def has_bf16(self):
        return self.peaks[1, True] > 0

    def dense_ms(self, job, plan, threads):
        """Of the operations of products and convolutions, those that an attention's gradient computes again included."""
        return 1e3 * plan.flops / self.peaks[threads, job.bf16]

    def update_ms(self, job, plan, threads):
        """Of the optimizer, which keeps weights, gradients and states in fp32."""
        parts = [LARGEST] * (plan.weights // LARGEST) + [plan.weights % LARGEST] * (plan.weights % LARGEST > 0)
        said = json.loads(output(self.update_program, job.optimizer, threads, 15, *parts))
        return said["ms"] * said["gb_per_s"] / max(said["machine"].values())

    def say(self):
        return "; ".join(f"{'bf16' if bf16 else 'fp32'} {rate / 1e9:.0f} GFLOP/s on {threads} thread{'s' * (threads > 1)}"
                         for (threads, bf16), rate in sorted(self.peaks.items()) if rate)
