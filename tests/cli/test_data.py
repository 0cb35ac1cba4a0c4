#!/usr/bin/env python3
"""Runs on data of several kinds: class probabilities as targets, and formats from the file to the losses.

    test_data.py ZTRAIN [TEST ...]
"""
import json
import math
import os
import struct
import sys
import unittest

import test_cli
import test_jobs
from onnx_bytes import FLOAT, INT64, model, node, npy, npz, tensor, value_info
from test_jobs import N, X

PROBABILITIES = [((i * 13 + 5) % 17) * 0.0625 for i in range(3 * N)]


class Soft(test_jobs.Softmax):
    """The mean over rows of sum of w_c ((1 - e) t_c + e / C) (-log p_c): PyTorch's cross_entropy with probabilities."""

    def batch(self, samples, weights):
        total, loss, slopes = sum(weights[n] for n in samples), 0, {}
        for n in samples:
            x = self.scores(n)
            lse = math.log(sum(map(math.exp, x)))
            want = [w * ((1 - self.smoothing) * t + self.smoothing / 3)
                    for w, t in zip(self.class_weights, PROBABILITIES[3 * n:3 * n + 3])]
            loss += weights[n] * sum(q * (lse - v) for q, v in zip(want, x))
            slopes[n] = [weights[n] * (sum(want) * math.exp(v - lse) - q) for q, v in zip(want, x)]
        return (loss / total, {n: [v / total for v in g] for n, g in slopes.items()}) if total else (0, {})


class Probabilities(test_jobs.Job):
    follow = test_jobs.Weights.follow

    def setUp(self):
        super().setUp()
        self.data(target=([N, 3], PROBABILITIES), importance=([N], test_jobs.SAMPLE_WEIGHTS))

    def test_losses_are_those_of_the_formula(self):
        for smoothing in [0, 0.1]:
            for classes in [[1, 1, 1], [0.5, 2, 1]]:
                loss = {"class_weights": classes, "label_smoothing": smoothing}
                self.follow(Soft(smoothing, classes), [1] * N, 6, loss)
                self.follow(Soft(smoothing, classes), test_jobs.SAMPLE_WEIGHTS, 6, {"weight": "importance", **loss})
        self.follow(Soft(0.1), [1] * N, 2, {"label_smoothing": 0.1}, train_micro_batch_size_per_gpu=2)

    def test_ranks_give_the_losses_of_one(self):
        self.train()
        one = self.losses()
        for mode in ["ddp", "dp"]:
            self.train({"parallel": {"mode": mode, "communicator": "thread"}}, "--ranks=2")
            self.close(self.losses(), one)

    def test_accuracy_takes_the_largest_probability_and_evaluation_may_have_classes(self):
        largest = [max(range(3), key=lambda c: PROBABILITIES[3 * n + c]) for n in range(N)]
        self.write("e.npz", npz({"x": ([N, 2], X), "target": ([N], largest, INT64)}))
        found = []
        for path in ["d.npz", "e.npz"]:
            self.train({"data": {"format": "npz", "path": "d.npz", "eval_path": path, "shuffle": False}, "metrics": ["accuracy"]})
            rows = map(json.loads, (self.folder / "run" / "metrics.jsonl").read_text().splitlines())
            found.append([row["accuracy"] for row in rows if "eval" in row])
        self.assertEqual(found[0], found[1])
        self.assertTrue(found[0])

    def test_what_does_not_fit_is_refused(self):
        self.train({"loss": {"type": "cross_entropy", "ignore_index": 1}}, code=2, says=["ignore_index", "class probabilities"])
        self.train({"loss": {"type": "nll"}}, code=4, says=['"target" is of type float, wants int64'])
        self.data(target=([N, 2], PROBABILITIES[:2 * N]))
        self.train(code=4, says=['"target" is of type float', "hint: ", "probabilities have samples of shape [3]"])


class Formats(test_jobs.Job):
    """The same numbers in another format give the same losses."""

    def setUp(self):
        super().setUp()
        self.train()
        self.wanted = self.losses()

    def check(self, **data):
        self.train({"data": {"shuffle": False, **data}})
        self.assertEqual(self.losses(), self.wanted)

    def test_npy(self):
        (self.folder / "arrays").mkdir()
        self.write("arrays/x.npy", npy([N, 2], X))
        self.write("arrays/target.npy", npy([N], test_jobs.CLASSES, INT64))
        self.check(format="npy", path="arrays")

    def test_csv(self):
        rows = [f"{test_jobs.CLASSES[n]};{X[2 * n + 1]!r};{X[2 * n]!r}\n" for n in range(N)]
        self.write("d.csv", ("class;second;first\n" + "".join(rows)).encode())
        self.check(format="csv", path="d.csv", delimiter=";", columns=["first", "second"], target_columns=["class"])
        self.write("e.csv", "".join(rows).encode())
        self.check(format="csv", path="e.csv", delimiter=";", header=False, columns=["2", "1"], target_columns=["0"])

    def test_keys_of_another_format_are_refused(self):
        self.train({"data": {"format": "npz", "path": "d.npz", "delimiter": ";"}}, code=2, says=["delimiter", "npz has no such"])


class Images(test_jobs.Job):
    """A linear classifier of 1 x 4 x 4 images."""

    def setUp(self):
        super().setUp()
        weights = [((i * 37 + 11) % 29 - 14) / 64 for i in range(48)]
        self.write("m.onnx", model([node("Flatten", ["x"], ["f"], "flat"), node("MatMul", ["f", "w"], ["scores"], "product")],
                                   [value_info("x", ["n", 1, 4, 4])], [value_info("scores", ["n", 3])],
                                   [tensor([16, 3], weights, FLOAT, "w")], 17))
        (self.folder / "idx").mkdir()
        pixels = bytes((i * 7) % 256 for i in range(16 * N))
        for name in ["train", "t10k"]:
            self.write(f"idx/{name}-images-idx3-ubyte", struct.pack(">4I", 0x803, N, 4, 4) + pixels)
            self.write(f"idx/{name}-labels-idx1-ubyte", struct.pack(">2I", 0x801, N) + bytes(test_jobs.CLASSES))

    augment = {"random_crop": {"padding": 1}, "horizontal_flip": 0.5, "color_jitter": {"brightness": 0.3}, "cutout": 2}

    def run_images(self, *arguments, augment=None, **more):
        data = {"format": "mnist", "path": "idx", "normalize": {"mean": [0.5], "std": [0.25]}}
        self.train({"data": {**data, "augment": augment or {}}, "steps": 6, **more}, *arguments)
        return self.losses()

    def test_augmented_runs_are_the_same_at_any_ranks_and_after_a_resume(self):
        plain, one = self.run_images(), self.run_images(augment=self.augment)
        self.assertNotEqual(plain, one)
        two = self.run_images("--ranks=2", augment=self.augment, parallel={"communicator": "thread"})
        self.close(two, one)
        self.run_images("--set", "ztrain.steps=3", augment=self.augment, checkpoint={"every_steps": 3})
        self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run",
                        "--resume", "--threads=1")
        self.assertEqual(self.losses(), one)

    def test_evaluation_is_not_augmented_and_has_its_default(self):
        said = []
        for augment in [None, self.augment]:
            self.run_images(augment=augment)
            done = self.run_ztrain("evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json")
            said.append(done.stdout)
        self.assertEqual(said[0], said[1])
        self.assertIn("loss", said[0])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
