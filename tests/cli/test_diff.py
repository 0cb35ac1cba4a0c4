#!/usr/bin/env python3
"""ztrain diff: equal runs, runs that part, other layouts, damaged files.

    test_diff.py ZTRAIN [TEST ...]
"""
import json
import os
import pathlib
import random
import struct
import sys
import unittest

import test_cli
from onnx_bytes import FLOAT, INT64, model, node, npz, tensor, value_info

N, IN, HIDDEN, OUT = 24, 4, 6, 3
random_numbers = random.Random(5)
W1 = [random_numbers.uniform(-1, 1) for _ in range(IN * HIDDEN)]
W2 = [random_numbers.uniform(-1, 1) for _ in range(HIDDEN * OUT)]
X = [random_numbers.uniform(-1, 1) for _ in range(N * IN)]
THREADS = ["--set", "ztrain.parallel.communicator=thread"]


def one_bit(value):
    """The nearest float above in magnitude: one bit of the mantissa."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", bits ^ 1))[0]


def perceptron(w1=W1, w2=W2):
    return model([node("MatMul", ["x", "w1"], ["h"], "first"), node("Tanh", ["h"], ["t"], "squash"),
                  node("MatMul", ["t", "w2"], ["scores"], "second")],
                 [value_info("x", ["n", IN])], [value_info("scores", ["n", OUT])],
                 [tensor([IN, HIDDEN], w1, FLOAT, "w1"), tensor([HIDDEN, OUT], w2, FLOAT, "w2")])


def three_layers(wm):
    """A perceptron with one more layer, of weights `wm`, between its two."""
    return model([node("MatMul", ["x", "w1"], ["h"], "first"), node("Tanh", ["h"], ["t"], "squash"),
                  node("MatMul", ["t", "wm"], ["m"], "middle"), node("Sigmoid", ["m"], ["s"], "bend"),
                  node("MatMul", ["s", "w2"], ["scores"], "second")],
                 [value_info("x", ["n", IN])], [value_info("scores", ["n", OUT])],
                 [tensor([IN, HIDDEN], W1, FLOAT, "w1"), tensor([HIDDEN, HIDDEN], wm, FLOAT, "wm"),
                  tensor([HIDDEN, OUT], W2, FLOAT, "w2")])


def hash_file(rank, nodes, ran):
    """hashes-RANK.bin of one of two stages: nodes are (name, backward), ran (micro-batch, node, hash) in the rank's order."""
    text = lambda value: struct.pack("<H", len(value)) + value.encode()
    out = b"ZTHASH1\n" + struct.pack("<7I", rank, 2, 0, 1, rank, 2, 4) + struct.pack("<I", len(nodes))
    for name, backward in nodes:
        out += text(name) + text("Relu") + text(name + ".y") + text("float[4]") + bytes([backward])
    return out + b"".join(struct.pack("<IIIQ", 1, micro_batch, n, number) for micro_batch, n, number in ran)


class Diff(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.write("m.onnx", perceptron())
        self.write("d.npz", npz({"x": ([N, IN], X), "target": ([N], [i * 5 % OUT for i in range(N)], INT64)}))
        config = {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.05}},
                  "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "steps": 6, "hashes": 3, "metrics": []}}
        self.write("c.json", json.dumps(config).encode())

    def train(self, name, *arguments, onnx="m.onnx"):
        self.run_ztrain("--model", self.folder / onnx, "--config", self.folder / "c.json", "--output", self.folder / name,
                        "--threads=1", "--quiet", "--overwrite", *arguments)
        return self.folder / name

    def diff(self, a, b, code=0):
        return self.run_ztrain("diff", self.folder / a, self.folder / b, code=code).stdout

    def test_two_runs_of_the_same_are_equal(self):
        self.train("a")
        self.train("b")
        said = self.diff("a", "b")
        self.assertRegex(said, r"\nEqual: [1-9]\d* tensors compared\.\n")
        self.assertIn("hashes of 3 steps", said)
        self.assertNotIn("only in", said)

    def test_another_seed_parts_at_the_first_node(self):
        self.train("a")
        self.train("b", "--seed=1")
        self.assertRegex(self.diff("a", "b", code=1), r"differ at step 1, micro-batch 0, rank 0, forward node first ")

    def test_a_bit_of_a_weight_names_the_first_node_that_reads_it(self):
        changed = [one_bit(W2[0]), *W2[1:]]
        self.assertNotEqual(changed, W2)
        self.write("bit.onnx", perceptron(w2=changed))
        self.train("a", "--set", "ztrain.fuse=[]")
        self.train("b", "--set", "ztrain.fuse=[]", onnx="bit.onnx")
        said = self.diff("a", "b", code=1)
        self.assertIn('differ at step 1, micro-batch 0, rank 0, forward node second (MatMul), tensor "w2"', said)

    def test_a_later_parting_names_its_step(self):
        self.train("a")
        self.train("b", "--set", "optimizer.params.weight_decay=0.5")
        self.assertRegex(self.diff("a", "b", code=1), r"differ at step 2, micro-batch 0, rank 0, forward node first ")

    def test_steps_that_one_run_lacks_are_named(self):
        """A run that resumed has no hashes of the steps before."""
        step = lambda *steps: hash_file(0, [("f", 0)], []) + b"".join(struct.pack("<IIIQ", s, 0, 0, s) for s in steps)
        one_rank = lambda data: data[:8] + struct.pack("<7I", 0, 1, 0, 1, 0, 1, 4) + data[36:]
        for name, steps in [("a", range(3, 6)), ("b", range(1, 5)), ("c", [1])]:
            self.write(f"{name}/hashes-0.bin", one_rank(step(*steps)))
        said, a, b, c = self.diff("a", "b"), *(self.folder / name for name in "abc")
        self.assertIn("hashes of steps 3 to 5\n", said)
        self.assertIn("\nEqual: 2 tensors compared, of steps 3 to 4.\n"
                      f"Step 5 of {a} was not compared: {b} has no hashes of it.\n"
                      f"Steps 1 to 2 of {b} were not compared: {a} has no hashes of them.\n", said)
        self.assertNotIn("only in", said)
        self.assertIn(f"\nNothing could be compared.\nSteps 3 to 5 of {a} were not compared: {c} has no hashes of them.\n"
                      f"Step 1 of {c} was not compared: {a} has no", self.diff("a", "c", code=1))

    def test_layouts_with_the_same_samples_are_compared(self):
        self.train("ddp", "--ranks=2", *THREADS)
        self.train("dp", "--ranks=2", "--set", "ztrain.parallel.mode=dp")
        self.train("zero3", "--ranks=2", *THREADS, "--set", "zero_optimization.stage=3")
        self.assertIn("Equal: ", self.diff("ddp", "zero3"))
        self.assertRegex(self.diff("dp", "dp"), r"\nEqual: [1-9]")
        self.train("one")
        self.train("stages", "--ranks=2", *THREADS, "--set", "pipeline.stages=2", "--set", "ztrain.hashes=2")
        self.assertRegex(self.diff("one", "stages"), r"\nEqual: [1-9]")
        self.train("seed", "--ranks=2", *THREADS, "--set", "pipeline.stages=2", "--seed=1")
        self.assertRegex(self.diff("one", "seed", code=1), r"differ at step 1, micro-batch 0, rank 0, forward node first ")

    def test_a_parting_in_the_first_of_two_stages_is_named_before_what_follows_from_it(self):
        rng = random.Random(6)
        weights = [rng.uniform(-1, 1) for _ in range(HIDDEN * HIDDEN)]
        self.write("a.onnx", three_layers(weights))
        self.write("b.onnx", three_layers([weights[0] + 0.5, *weights[1:]]))
        stages = ["--ranks=2", *THREADS, "--set", "pipeline.stages=2", "--set", "pipeline.partition=uniform",
                  "--set", "ztrain.fuse=[]", "--set", "train_micro_batch_size_per_gpu=4"]
        self.train("a", *stages, onnx="a.onnx")
        self.train("b", *stages, onnx="b.onnx")
        said = self.diff("a", "b", code=1)
        self.assertIn("2 stages", said)
        self.assertIn('differ at step 1, micro-batch 0, rank 0, forward node middle (MatMul), tensor "wm"', said)

    def parted(self, nodes, orders, changed):
        """What diff says of two runs of two stages that differ in the hashes `changed`: (rank, micro-batch, node)."""
        for run in "ab":
            for rank in range(2):
                ran = [(m, n, 7 if run == "b" and (rank, m, n) in changed else 1) for m, n in orders[rank]]
                self.write(f"{run}/hashes-{rank}.bin", hash_file(rank, nodes[rank], ran))
        return self.diff("a", "b", code=1)

    def test_forward_goes_up_the_stages_and_backward_down(self):
        few = [("f", 0), ("b", 1)]
        many = [*((f"f{i}", 0) for i in range(4)), *((f"b{i}", 1) for i in range(4))]
        f, b = range(4), range(4, 8)
        first = lambda nodes: [(0, 0), (1, 0), (0, 1), (1, 1)] if nodes is few else [
            *((m, n) for m in range(2) for n in f), *((m, n) for m in range(2) for n in b)]
        last = lambda nodes: [(0, 0), (0, 1), (1, 0), (1, 1)] if nodes is few else [(m, n) for m in range(2) for n in (*f, *b)]
        # the last stage makes many tensors before its gradient goes down to a stage that has made two
        down = self.parted([[("g", 0), ("d", 1)], many], [first(few), last(many)], {(0, 0, 1), (1, 0, 5), (1, 0, 6)})
        self.assertIn("differ at step 1, micro-batch 0, rank 1, backward node b1 ", down)
        # the first stage makes many before the last one makes its first
        up = self.parted([many, few], [first(many), last(few)], {(0, 0, 3), (1, 0, 0), (1, 0, 1)})
        self.assertIn("differ at step 1, micro-batch 0, rank 0, forward node f3 ", up)
        # the first stage has run the next micro-batch forward before this one comes back
        next_one = self.parted([many, few], [first(many), last(few)], {(0, 1, 0), (1, 1, 0), (0, 0, 7), (0, 1, 7)})
        self.assertIn("differ at step 1, micro-batch 0, rank 0, backward node b3 ", next_one)

    def test_runs_without_a_step_are_not_compared(self):
        said = self.parted([[("f", 0)], [("g", 0)]], [[], []], set())
        self.assertIn("Nothing could be compared", said)

    def test_other_samples_are_not_compared(self):
        self.train("one")
        self.train("two", "--ranks=2", *THREADS)
        said = self.diff("one", "two", code=1)
        self.assertIn("Nothing could be compared", said)
        self.assertIn("have different shapes", said)
        self.assertIn("float[8, ", said)
        self.assertIn("float[4, ", said)

    def test_a_run_without_hashes_says_how_to_get_them(self):
        self.train("a")
        self.train("b", "--set", "ztrain.hashes=0")
        self.refused("diff", self.folder / "a", self.folder / "b", code=4, says=["no hashes of a run", "ztrain.hashes=N"])
        self.train("a", "--set", "ztrain.hashes=0")
        self.assertEqual(list((self.folder / "a").glob("hashes*")), [])

    def test_a_run_on_fewer_ranks_leaves_no_hashes_of_others(self):
        self.train("a", "--ranks=2", *THREADS)
        self.train("a")
        self.assertEqual([p.name for p in (self.folder / "a").glob("hashes*")], ["hashes-0.bin"])

    def test_a_rank_that_is_missing_is_named(self):
        folder = self.train("a", "--ranks=2", *THREADS)
        (folder / "hashes-1.bin").unlink()
        self.refused("diff", folder, folder, code=4, says=["hashes-1.bin"])
        (folder / "hashes-1.bin").write_bytes((folder / "hashes-0.bin").read_bytes())
        self.refused("diff", folder, folder, code=4, says=["hashes-1.bin", "not from rank 1"])

    def test_damaged_files_are_refused_by_name(self):
        path = self.train("a") / "hashes-0.bin"
        whole = path.read_bytes()
        for cut in [0, 7, 8, 30, 40, 100, len(whole) - 1]:
            path.write_bytes(whole[:cut])
            self.refused("diff", path.parent, path.parent, code=4, says=["hashes-0.bin"])
        path.write_bytes(whole[:36] + b"\xff\xff\xff\xff" + whole[40:])
        self.refused("diff", path.parent, path.parent, code=4, says=["hashes-0.bin", "damaged"])

    def test_no_damage_crashes_it(self):
        path = self.train("a") / "hashes-0.bin"
        whole, rng = path.read_bytes(), random.Random(3)
        self.train("b")
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(rng.choice([1, 3, 30])):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
            path.write_bytes(data[:rng.choice([len(data), rng.randrange(len(data))])])
            done = test_cli.subprocess.run([test_cli.ZTRAIN, "diff", path.parent, self.folder / "b"], capture_output=True)
            self.assertIn(done.returncode, (0, 1, 4))
            self.assertEqual(done.stderr.startswith(b"ztrain: error: "), done.returncode == 4)

    def test_two_runs_are_wanted(self):
        self.refused("diff", says=["RUN_A is missing", "RUN_B is missing"])
        self.refused("diff", "a", "b", "c", says=['"c"'])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
