#!/usr/bin/env python3
"""What a plan says of files of offload: engine and settings, bytes, and their time in the predicted step; a run moves these bytes.

    nvme.py ZTRAIN SOURCE_ROOT

Needs only Python's standard library.
"""
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

ZTRAIN = ROOT = None
ADAM = 2  # state arrays
OPTIMIZER, PARAM = "zero_optimization.offload_optimizer.", "zero_optimization.offload_param."


def sets(**values):
    """Options; __ in a name stands for a dot."""
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def size(text):
    number, unit = re.fullmatch(r"([\d.]+) ([KMGT]?B)", text).groups()
    return float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.base = ["--model", ROOT / "models/gpt.onnx", "--config", ROOT / "configs/gpt.json", "--threads", "1", *sets(zero_optimization__stage=3)]

    def states(self, **more):
        place = {OPTIMIZER + "device": "nvme", OPTIMIZER + "nvme_path": self.folder / "nvme"}
        return sets(**place, **{OPTIMIZER + key: value for key, value in more.items()})

    def weights(self, **more):
        place = {PARAM + "device": "nvme", PARAM + "nvme_path": self.folder / "nvme", PARAM + "max_in_cpu": 0}
        return sets(**place, **{PARAM + key: value for key, value in more.items()}, zero_optimization__stage3_param_persistence_threshold=0)

    def plan(self, *options):
        done = subprocess.run([ZTRAIN, "plan", *self.base, *options], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def elements(self, text):
        return int(re.search(r"(?m)^\d+ tensors, (\d+) elements", text)[1])

    def step(self, text):
        return float(re.search(r"predicted step ([\d.]+) ms", text)[1])

    def transfers(self, text):
        """Bytes of an update read and written, of a micro-batch read forward and backward; ms of a step, bytes per second, read and written."""
        found = re.search(r"stage 0: an update reads ([\d.]+ \w+)(?: ahead)? and writes ([\d.]+ \w+)(?: behind)?; a micro-batch reads ([\d.]+ \w+) forward "
                          r"and ([\d.]+ \w+) backward\nstage 0: transfers ([\d.]+) ms per step at ([\d.e+]+) B/s read and ([\d.e+]+) B/s written, (\w+)\n", text)
        return [size(v) for v in found.groups()[:4]], float(found[5]), float(found[6]), float(found[7]), found[8]

    def near(self, value, expected):
        self.assertLessEqual(abs(value - expected), 0.036 * expected, f"{value}, wants {expected}")  # bytes are printed with two digits


class Plans(Case):
    def test_engine_and_settings(self):
        aio = sets(aio__block_size=262144, aio__queue_depth=16, aio__intra_op_parallelism=2, aio__single_submit="true", aio__overlap_events="false")
        text = self.plan(*self.states(), *aio)
        doctor = subprocess.run([ZTRAIN, "doctor"], capture_output=True, text=True, timeout=60)
        engine = re.search(r"(\S.*): transfers of offload to NVMe", doctor.stdout + doctor.stderr)[1].split()[-1]
        self.assertRegex(text, rf"(?m)^NVMe: files below {self.folder}/nvme; {engine}")
        self.assertIn("aio: block_size 262144, queue_depth 16, intra_op_parallelism 2, single_submit true, overlap_events false\n", text)
        self.assertIn("/nvme; io_uring, or threads where the kernel refuses it\n", self.plan(*self.states(), "--cluster", "h200"))
        self.assertNotIn("NVMe:", self.plan())
        self.assertFalse((self.folder / "nvme").exists())

    def test_states_take_the_time_of_their_bytes(self):
        without, serial = self.plan(), self.plan(*self.states())
        moved, ms, read, written, origin = self.transfers(serial)
        states = 4 * ADAM * self.elements(serial)
        for found, expected in zip(moved, (states, states, 0, 0)):
            self.near(found, expected)
        self.assertEqual(origin, "nominal")
        self.assertAlmostEqual(ms, 1e3 * (states / read + states / written), delta=0.001)
        self.assertAlmostEqual(self.step(serial) - self.step(without), ms, delta=0.002)
        half = self.transfers(self.plan(*self.states(ratio=0.5)))
        self.near(half[0][0], states / 2)
        lamb = self.transfers(self.plan(*self.states(), *sets(optimizer__type="Lamb")))
        self.near(lamb[0][1], 2 * states)

    def test_what_overlaps_takes_the_longer_time(self):
        without, serial = self.step(self.plan()), self.plan(*self.states())
        _, ms, read, written, _ = self.transfers(serial)
        update = float(re.search(r"(?m)^stage 0 +(?:[\d.]+ +){5}([\d.]+) ", serial)[1]) - ms  # with norm
        both = self.step(self.plan(*self.states(pipeline_read="true", pipeline_write="true")))
        self.assertGreater(both - without, ms - update - 0.01)
        self.assertLess(both, self.step(serial) - 0.0005)
        ahead = self.step(self.plan(*self.states(pipeline_read="true")))
        self.assertTrue(both <= ahead <= self.step(serial), (both, ahead))

    def test_weights_are_read_for_gathers_unless_a_buffer_has_them(self):
        all_kept = self.plan(*self.states(), *self.weights(buffer_count=64))
        moved, ms, read, written, _ = self.transfers(all_kept)
        weights = 4 * self.elements(all_kept)
        for found, expected in zip(moved, ((1 + ADAM) * weights, (1 + ADAM) * weights, weights, 0)):
            self.near(found, expected)
        micro_batches = int(re.search(r"per micro-batch x (\d+) micro-batch(?:es)?", all_kept)[1])
        self.assertAlmostEqual(ms, 1e3 * ((1 + ADAM + micro_batches) * weights / read + (1 + ADAM) * weights / written), delta=0.001)
        one, _, _, _, _ = self.transfers(self.plan(*self.states(), *self.weights(buffer_count=1), *sets(zero_optimization__stage3_max_reuse_distance=0)))
        self.near(one[2], weights)
        self.assertGreater(one[3], 0.5 * weights)
        kept, _, _, _, _ = self.transfers(self.plan(*self.states(), *self.weights(), "--set", PARAM + f"max_in_cpu={weights // 8}"))
        self.assertTrue(0.4 * weights < kept[2] < 0.9 * weights, kept)


class Runs(Case):
    def run_steps(self, steps, *options):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([ZTRAIN, *self.base, *options, "--steps", str(steps), "--output", self.folder / "run", "--overwrite"], cwd=ROOT, capture_output=True,
                              text=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stderr)
        return 512 * (after.ru_inblock - before.ru_inblock), 512 * (after.ru_oublock - before.ru_oublock), done.stderr

    def test_a_run_measures_the_files_and_moves_the_planned_bytes(self):
        options = [*self.states(), *self.weights(buffer_count=1), *sets(ztrain__checkpoint__every_steps=1000)]
        short, long = self.run_steps(4, *options), self.run_steps(12, *options)
        plan = (self.folder / "run/plan.txt").read_text()
        moved, _, read, written, origin = self.transfers(plan)
        self.assertEqual(origin, "measured")
        self.assertTrue(1e6 < read < 1e12 and 1e6 < written < 1e12)
        engine = re.search(r"(?m)^NVMe: files below .*; (.*)$", plan)[1]
        self.assertRegex(long[2], rf"buffers of [^;]*; {re.escape(engine)}, ")
        if "O_DIRECT" not in long[2] or long[0] == short[0]:
            self.skipTest("the file system does not count transfers")
        micro_batches = int(re.search(r"per micro-batch x (\d+) micro-batch(?:es)?", plan)[1])
        for found, expected in ((long[0] - short[0]) / 8, moved[0] + micro_batches * (moved[2] + moved[3])), ((long[1] - short[1]) / 8, moved[1]):
            self.assertTrue(0.95 < found / expected < 1.15, f"{found} bytes a step, {expected} planned")  # slices are rounded up to blocks of the disk


def main():
    global ZTRAIN, ROOT
    ZTRAIN, ROOT = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
    unittest.main()


if __name__ == "__main__":
    main()
