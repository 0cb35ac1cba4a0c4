#!/usr/bin/env python3
"""Runs on data of several kinds: class probabilities as targets, and formats from the file to the losses.

    test_data.py ZTRAIN [TEST ...]
"""
import json
import math
import os
import shutil
import struct
import sys
import unittest
import zlib

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


class Tokens(test_jobs.Job):
    """y = embedding of the token: a bigram model of sequences [N, 4]."""

    def setUp(self):
        super().setUp()
        table = [((i * 37 + 11) % 29 - 14) / 16 for i in range(49)]
        self.write("m.onnx", model([node("Gather", ["table", "ids"], ["scores"], "look up")], [value_info("ids", ["n", 4], INT64)],
                                   [value_info("scores", ["n", 4, 7])], [tensor([7, 7], table, FLOAT, "table")], 17))
        self.stream = [(i * i * 3 + i // 5) % 7 for i in range(49)]

    def test_streams_of_every_kind_give_the_losses_of_arrays(self):
        ids = [t for i in range(12) for t in self.stream[4 * i:4 * i + 4]]
        after = [t for i in range(12) for t in self.stream[4 * i + 1:4 * i + 5]]
        self.write("d.npz", npz({"ids": ([12, 4], ids, INT64), "target": ([12, 4], after, INT64)}))
        self.train()
        wanted = self.losses()
        (self.folder / "stream").mkdir()
        self.write("stream/train.bin", struct.pack("<49H", *self.stream))
        self.write("wide.bin", struct.pack("<49I", *self.stream))
        self.write("llm.bin", struct.pack("<256i", 20240520, 1, 49, *[0] * 253) + struct.pack("<49H", *self.stream))
        for path, more in [("stream", {}), ("wide.bin", {"token_type": "uint32"}), ("llm.bin", {})]:
            self.train({"data": {"format": "tokens", "path": path, "shuffle": False, **more}})
            self.assertEqual(self.losses(), wanted)

    def test_evaluation_reads_val_bin_and_bad_streams_end_the_run(self):
        (self.folder / "stream").mkdir()
        self.write("stream/train.bin", struct.pack("<49H", *self.stream))
        self.write("stream/val.bin", struct.pack("<21H", *self.stream[:21]))
        self.train({"data": {"format": "tokens", "path": "stream"}, "metrics": ["accuracy"]})
        self.assertIn('"eval": true', (self.folder / "run" / "metrics.jsonl").read_text())
        self.write("stream/train.bin", struct.pack("<4H", *self.stream[:4]))
        self.train({"data": {"format": "tokens", "path": "stream"}}, code=4, says=["too few tokens for one sample of 4"])

    def test_tokens_that_the_table_lacks_are_told_of_the_data(self):
        self.write("t.bin", struct.pack("<49H", *self.stream[:6], 7, *self.stream[7:]))
        self.write("c.json", json.dumps({"train_batch_size": 6, "ztrain": {"steps": 4, "data": {"format": "tokens", "path": "t.bin", "shuffle": False}}}).encode())
        done = self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run", "--overwrite", code=4)
        self.assertIn('t.bin: column "ids", token 6: value 7 is out of range, wants 0..6', done.stderr)
        for row, value in ((2, 9), (1, -8)):  # as indices of Gather, -7..-1 count from the end
            ids = [0] * 16
            ids[4 * row + 3] = value
            self.write("d.npz", npz({"ids": ([4, 4], ids, INT64), "target": ([4, 4], [0] * 16, INT64)}))
            self.train(code=4, says=["d.npz", f'column "ids", row {row}: value {value} is out of range, wants 0..6'])


def png(width, height, grey):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + grey[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


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

    def test_folders_of_pictures_give_the_losses_of_the_same_bytes(self):
        order = sorted(range(N), key=lambda n: (test_jobs.CLASSES[n], n))
        pixels = bytes((i * 7) % 256 for i in range(16 * N))
        for n in order:
            folder = self.folder / "pictures" / "train" / f"class {test_jobs.CLASSES[n]}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{n:02}.png").write_bytes(png(4, 4, pixels[16 * n:16 * n + 16]))
        for name in ["train", "t10k"]:
            sorted_pixels = b"".join(pixels[16 * n:16 * n + 16] for n in order)
            self.write(f"idx/{name}-images-idx3-ubyte", struct.pack(">4I", 0x803, N, 4, 4) + sorted_pixels)
            self.write(f"idx/{name}-labels-idx1-ubyte", struct.pack(">2I", 0x801, N) + bytes(test_jobs.CLASSES[n] for n in order))
        shutil.copytree(self.folder / "pictures" / "train", self.folder / "pictures" / "val")
        for augment in [None, self.augment]:
            wanted = self.run_images(augment=augment)
            self.train({"data": {"format": "imagefolder", "path": "pictures/train", "normalize": {"mean": [0.5], "std": [0.25]},
                                 "augment": augment or {}}, "steps": 6})
            self.assertEqual(self.losses(), wanted)
        self.assertIn('"eval": true', (self.folder / "run" / "metrics.jsonl").read_text())
        (folder / "zz.png").write_bytes(png(4, 4, pixels[:16])[:50])
        done = self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run",
                               "--overwrite", code=4)
        self.assertRegex(done.stderr, r"ztrain: error: .*/zz.png: is a broken PNG file")

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
