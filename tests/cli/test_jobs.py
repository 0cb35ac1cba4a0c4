#!/usr/bin/env python3
"""What a training job makes of model, data and config: weighted losses, columns by name, several inputs and outputs.

    test_jobs.py ZTRAIN [TEST ...]
"""
import json
import math
import os
import shutil
import struct
import sys
import unittest
import zipfile

import test_cli
from onnx_bytes import (CODE, DOUBLE, FLOAT, FLOAT16, INT64, field, fields, model, node, npz, read_npz, read_tensor, tensor,
                        value_info)

# y = x w + b: 12 samples of 2 numbers, 3 classes
W = [0.25, -0.5, 0.75, 0.5, 0.125, -0.25]
B = [0.0, 0.25, -0.125]
N = 12
X = [((i * 37 + 11) % 29 - 14) * 0.125 for i in range(2 * N)]
CLASSES = [(i * 5 + 2) % 3 for i in range(N)]
SAMPLE_WEIGHTS = [(i * 3 % 5) * 0.5 for i in range(N)]


def linear(*nodes, out="y", rank=2, opset=17):
    return model([node("MatMul", ["x", "w"], ["h"], "product"), node("Add", ["h", "b"], ["scores"], "bias"), *nodes],
                 [value_info("x", ["n", 2])], [value_info(out, ["n", 3, "m", "k"][:rank])],
                 [tensor([2, 3], W, FLOAT, "w"), tensor([3], B, FLOAT, "b")], opset)


def attribute(name, number):
    return field(5, field(1, name) + field(3, number & (1 << 64) - 1) + field(20, 2))


def initializers(data):
    """{name: (type, values)} of a model's bytes, as read_tensor has them behind the name."""
    graph = next(value for number, value in fields(data) if number == 7)
    tensors = [value for number, value in fields(graph) if number == 5]
    return {next(v for n, v in fields(t) if n == 8).decode(): read_tensor(t)[1:] for t in tensors}


class Softmax:
    """Softmax regression with the weighted mean of cross_entropy, by SGD."""

    def __init__(self, smoothing=0, class_weights=(1, 1, 1), ignore=-100):
        self.w, self.b = [W[:3], W[3:]], B[:]
        self.smoothing, self.class_weights, self.ignore = smoothing, class_weights, ignore

    def scores(self, n):
        return [X[2 * n] * self.w[0][c] + X[2 * n + 1] * self.w[1][c] + self.b[c] for c in range(3)]

    def batch(self, samples, weights):
        """Loss and gradient by the scores: sum of s l / sum of s w."""
        total, loss, slopes = 0, 0, {}
        for n in samples:
            t, s = CLASSES[n], weights[n]
            if t == self.ignore:
                continue
            x = self.scores(n)
            lse = math.log(sum(map(math.exp, x)))
            want = [self.smoothing / 3 * w for w in self.class_weights]
            want[t] += (1 - self.smoothing) * self.class_weights[t]
            loss += s * sum(q * (lse - v) for q, v in zip(want, x))
            total += s * self.class_weights[t]
            before = slopes.get(n, [0] * 3)  # an epoch of a stream may have a sample twice
            slopes[n] = [b + s * (sum(want) * math.exp(v - lse) - q) for b, q, v in zip(before, want, x)]
        return (loss / total, {n: [v / total for v in g] for n, g in slopes.items()}) if total else (0, {})

    def step(self, micro_batches, weights, lr=0.5, alike=False):
        """A step's loss and gradient are the means of its micro-batches weighted by their samples, or `alike` as in DeepSpeed."""
        count, loss, slopes = sum(map(len, micro_batches)), 0, {}
        for samples in micro_batches:
            part, gradient = self.batch(samples, weights)
            share = 1 / len(micro_batches) if alike else len(samples) / count
            loss += part * share
            for n, g in gradient.items():
                slopes[n] = [v * share + before for v, before in zip(g, slopes.get(n, [0] * 3))]
        for n, g in slopes.items():
            for c in range(3):
                self.w[0][c] -= lr * g[c] * X[2 * n]
                self.w[1][c] -= lr * g[c] * X[2 * n + 1]
                self.b[c] -= lr * g[c]
        return loss


class Job(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.write("m.onnx", linear(out="scores"))
        self.data()

    def data(self, **more):
        columns = {"x": ([N, 2], X), "target": ([N], CLASSES, INT64), **more}
        self.write("d.npz", npz({name: column for name, column in columns.items() if column}))

    def train(self, ztrain=None, *arguments, code=0, says=(), **config):
        block = {"data": {"format": "npz", "path": "d.npz", "shuffle": False}, "steps": 4, "metrics": [], **(ztrain or {})}
        self.write("c.json", json.dumps({"train_batch_size": 6, "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
                                         **config, "ztrain": block}).encode())
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run",
                 "--overwrite", "--threads=1", *arguments]
        if code:
            return self.refused(*words, code=code, says=says)
        done = self.run_ztrain(*words)
        for word in says:
            self.assertIn(word, done.stderr)
        return done

    def losses(self):
        rows = map(json.loads, (self.folder / "run" / "metrics.jsonl").read_text().splitlines())
        return [row["loss"] for row in rows if "eval" not in row]

    def close(self, have, want, tolerance=2e-6):
        self.assertEqual(len(have), len(want))
        for a, b in zip(have, want):
            self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(b)))


class Weights(Job):
    def follow(self, reference, weights, cut, loss, **config):
        """Four steps of 6 samples, cut into micro-batches of `cut`."""
        self.train({"loss": {"type": "cross_entropy", **loss}}, **config)
        steps = [range(0, 6), range(6, 12)] * 2
        self.close(self.losses(), [reference.step([s[i:i + cut] for i in range(0, 6, cut)], weights) for s in steps])

    def test_classes_weigh_with_smoothing_and_ignored_targets(self):
        for smoothing in [0, 0.1]:
            for ignore in [-100, 1]:
                self.follow(Softmax(smoothing, [0.5, 2, 1], ignore), [1] * N, 6,
                            {"class_weights": [0.5, 2, 1], "label_smoothing": smoothing, "ignore_index": ignore})

    def test_samples_weigh_alone_and_together_with_classes(self):
        self.data(importance=([N], SAMPLE_WEIGHTS))
        self.follow(Softmax(), SAMPLE_WEIGHTS, 6, {"weight": "importance"})
        self.follow(Softmax(0.1, [0.5, 2, 1]), SAMPLE_WEIGHTS, 6,
                    {"weight": "importance", "class_weights": [0.5, 2, 1], "label_smoothing": 0.1})

    def test_micro_batches_are_weighted_means_of_their_own(self):
        self.data(importance=([N], SAMPLE_WEIGHTS))
        for more in [{"gradient_accumulation_steps": 2}, {"train_micro_batch_size_per_gpu": 2}]:
            cut = 3 if "gradient_accumulation_steps" in more else 2
            self.follow(Softmax(), SAMPLE_WEIGHTS, cut, {"weight": "importance"}, **more)

    def test_accumulation_goes_on_over_the_end_of_an_epoch_as_in_deepspeed(self):
        """12 samples in micro-batches of 4, two of them a step: steps 2, 5, ... hold the end of one epoch and the begin of the next."""
        self.data(importance=([N], [1.0] * N))
        block = {"dataloader": "deepspeed", "epochs": 2, "steps": 0, "parallel": {"communicator": "thread"},
                 "data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz", "shuffle": False}}
        micro = [range(0, 4), range(4, 8), range(8, 12)] * 2
        reference = Softmax()
        losses = [reference.step(micro[2 * s:2 * s + 2], [1] * N) for s in range(3)]
        for ranks in [1, 2]:
            self.train(block, f"--ranks={ranks}", train_batch_size=8, gradient_accumulation_steps=2)
            rows = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
            self.close([r["loss"] for r in rows if "eval" not in r], losses)
            self.assertEqual([r["epoch"] for r in rows if "eval" not in r], [0, 0, 1])
            self.assertEqual([r["step"] for r in rows if "eval" in r], [2, 3])
        self.train({**block, "dataloader": "ztrain"}, train_batch_size=8, gradient_accumulation_steps=2)
        self.assertEqual(len(self.losses()), 4)
        self.train(block, train_batch_size=10, gradient_accumulation_steps=2, dataloader_drop_last=True)

    def test_a_short_micro_batch_counts_as_much_as_the_others_in_deepspeed(self):
        """The last micro-batch of an epoch has what is left, on every rank as much; its loss is the mean of its own samples."""
        for samples, ranks, micro, steps in [(12, 1, 5, 2), (12, 1, 5, 3), (12, 1, 1, 5), (14, 2, 2, 3), (13, 2, 2, 2), (5, 2, 4, 3), (3, 1, 4, 2)]:
            again = [i % N for i in range(samples)]
            self.data(x=([samples, 2], [X[2 * i + k] for i in again for k in range(2)]),
                      target=([samples], [CLASSES[i] for i in again], INT64))
            epoch = again + again[:-samples % ranks]
            cut = [epoch[i:i + micro * ranks] for i in range(0, len(epoch), micro * ranks)] * 6 * steps
            reference = Softmax()
            losses = [reference.step(cut[s * steps:s * steps + steps], [1] * N, alike=True) for s in range(6)]
            block = {"dataloader": "deepspeed", "steps": 6, "parallel": {"communicator": "thread"},
                     "data": {"format": "npz", "path": "d.npz", "shuffle": False}}
            more = {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps, "train_batch_size": micro * steps * ranks}
            for layout in [{}] if ranks == 1 else [{}, {"zero_optimization": {"stage": 2}}, {"mode": "dp"}]:
                mode = layout.pop("mode", "ddp")
                self.train({**block, "parallel": {"communicator": "thread", "mode": mode}}, f"--ranks={ranks}", **more, **layout)
                rows = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
                self.close([r["loss"] for r in rows], losses)
                self.assertEqual([r["samples"] for r in rows], [sum(map(len, cut[s * steps:s * steps + steps])) for s in range(6)])
                self.close(initializers((self.folder / "run" / "model.onnx").read_bytes())["b"][1], reference.b)

    def test_a_stream_goes_on_from_a_step_with_a_short_micro_batch(self):
        block = {"dataloader": "deepspeed", "steps": 7, "checkpoint": {"every_steps": 1, "keep": 0}}
        config = {"train_batch_size": 10, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1}}
        self.train({**block, "data": {"format": "npz", "path": "d.npz"}, "parallel": {"communicator": "thread"}}, "--ranks=1", **config)
        whole, last = self.losses(), (self.folder / "run" / "model.onnx").read_bytes()
        for step in range(1, 7):
            shutil.copytree(self.folder / "run" / "checkpoints" / f"step-{step}", self.folder / f"from-{step}")
        for step in range(1, 7):
            self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / f"again-{step}",
                            "--threads=1", "--resume", self.folder / f"from-{step}")
            rows = [json.loads(line) for line in (self.folder / f"again-{step}" / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual([r["loss"] for r in rows], whole[step:])
            self.assertEqual((self.folder / f"again-{step}" / "model.onnx").read_bytes(), last)

    def test_padding_of_a_rank_meets_the_samples_weights(self):
        """14 samples on 2 ranks in steps of 12: the last step has 2; 13: one rank's only row is padding."""
        for samples in [14, 13]:
            again = [i % N for i in range(samples)]
            self.data(x=([samples, 2], [X[2 * i + k] for i in again for k in range(2)]),
                      target=([samples], [CLASSES[i] for i in again], INT64),
                      importance=([samples], [SAMPLE_WEIGHTS[i] + 0.5 for i in again]))
            block = {"loss": {"weight": "importance"}, "parallel": {"communicator": "thread"}}
            self.train(block, "--ranks=2", train_batch_size=12)
            reference, weights = Softmax(), [w + 0.5 for w in SAMPLE_WEIGHTS]
            last = [[12 % N], [13 % N]] if samples == 14 else [[12 % N]]
            self.close(self.losses(), [reference.step(step, weights) for step in [[range(6), range(6, 12)], last] * 2])

    def test_a_batch_that_weighs_nothing_changes_nothing(self):
        self.data(importance=([N], [1.0] * 6 + [0.0] * 6))
        self.follow(Softmax(), [1] * 6 + [0] * 6, 6, {"weight": "importance"})

    def test_elements_weigh_in_other_losses(self):
        wanted, importance = [0.5 * v for v in range(3 * N)], [(i * 3 % 5) * 0.5 for i in range(3 * N)]
        self.data(target=([N, 3], wanted), importance=([N, 3], importance))
        self.train({"loss": {"type": "mse", "weight": "importance"}, "steps": 1})
        scores = [v for n in range(6) for v in Softmax().scores(n)]
        squares = sum(w * (x - t) ** 2 for w, x, t in zip(importance, scores, wanted))
        self.close(self.losses(), [squares / sum(importance[:18])])

    def test_evaluation_weighs_the_loss_but_not_the_accuracy(self):
        self.data(importance=([N], SAMPLE_WEIGHTS))
        block = {"loss": {"weight": "importance", "class_weights": [0.5, 2, 1]}, "metrics": ["accuracy"],
                 "data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz"}}
        self.train(block)
        result = json.loads(self.run_ztrain("evaluate", "--model", self.folder / "m.onnx", "--config",
                                            self.folder / "c.json").stdout)
        reference = Softmax(0, [0.5, 2, 1])
        loss = sum(reference.batch(range(a, a + 6), SAMPLE_WEIGHTS)[0] for a in [0, 6]) / 2
        right = sum(max(range(3), key=reference.scores(n).__getitem__) == CLASSES[n] for n in range(N))
        self.close([result["loss"], result["accuracy"]], [loss, right / N])

    def test_weights_that_do_not_fit_are_refused(self):
        self.train({"loss": {"class_weights": [1, 2]}}, code=2,
                   says=["ztrain.loss.class_weights: 2 numbers", '"scores" has 3 classes'])
        self.train({"loss": {"weight": "importance"}}, code=4, says=['no array named "importance"', "target"])
        self.data(importance=([N, 2], SAMPLE_WEIGHTS * 2))
        self.train({"loss": {"weight": "importance"}}, code=4, says=['"importance"', "shape [2], wants []"])
        self.data(target=([N, 3], [0.0] * 3 * N), importance=([N, 2], SAMPLE_WEIGHTS * 2))
        self.train({"loss": {"type": "l1", "weight": "importance"}}, code=4,
                   says=["ztrain.loss.weight", "[6, 2]", "first axes of the target's shape [6, 3]"])


class Nodes(Job):
    """Losses as nodes of the graph."""

    def graph(self, op, reduction, weights):
        text = field(5, field(1, "reduction") + field(4, reduction) + field(20, 3))
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["scores"]),
                 node("LogSoftmax", ["scores"], ["logs"]) + attribute("axis", 1),
                 node(op, ["scores" if op[0] == "S" else "logs", "label", "weights"][:3 if weights else 2],
                      ["each" if reduction == "none" else "loss"]) + text + attribute("ignore_index", 1)]
        if reduction == "none":
            nodes.append(node("ReduceMean", ["each"], ["loss"]) + attribute("keepdims", 0))
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2]), value_info("label", ["n"], INT64)],
                                   [value_info("loss", [])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([3], B, FLOAT, "b"),
                                    tensor([3], [0.5, 2, 1], FLOAT, "weights")]))

    def test_standard_losses_train_with_every_reduction(self):
        self.data(target=None, label=([N], CLASSES, INT64))
        for op in ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"]:
            for weights in [None, [0.5, 2, 1]]:
                for reduction in ["mean", "sum", "none"]:
                    self.graph(op, reduction, weights)
                    self.train({"loss": {"type": "output"}, "freeze": ["weights"]})
                    reference, w = Softmax(0, weights or [1, 1, 1], 1), [1] * N
                    steps, losses = [range(0, 6), range(6, 12)] * 2, []
                    for step in steps:
                        total = sum((weights or [1, 1, 1])[CLASSES[n]] for n in step if CLASSES[n] != 1)
                        factor = {"mean": 1, "sum": total, "none": total / 6}[reduction]
                        losses.append(factor * reference.step([step], w, lr=0.5 * factor))
                    self.close(self.losses(), losses)


class Ends(Job):
    """Activations at the end of the graph, which the loss makes itself."""

    def end(self, *nodes, opset=17, rank=2):
        self.write("m.onnx", linear(*nodes, out=nodes and "y" or "scores", rank=rank, opset=opset))

    def with_and_without(self, *nodes, used, opset=17, **loss):
        self.end()
        self.train({"loss": loss})
        plain = self.losses()
        self.end(*nodes, opset=opset)
        done = self.train({"loss": loss})
        self.assertEqual("the loss reads the input of this node" in done.stderr, used, done.stderr)
        self.assertEqual(self.losses() == plain, used)
        return done.stderr

    def test_the_input_of_a_last_softmax_is_used(self):
        soft = lambda op, out, axis: node(op, ["scores"], [out], "soft") + attribute("axis", axis)
        for op in ["Softmax", "LogSoftmax"]:
            text = self.with_and_without(soft(op, "y", 1), used=True)
            self.assertIn(f"soft ({op}): cross_entropy computes probabilities itself", text)
            self.with_and_without(soft(op, "y", -1), used=True)
            self.with_and_without(soft(op, "y", 1), used=True, opset=12)
            self.with_and_without(soft(op, "s", 1), node("Identity", ["s"], ["y"]), used=True)
            to_double = node("Cast", ["s"], ["d"]) + attribute("to", 11)
            self.with_and_without(soft(op, "s", 1), to_double, node("Cast", ["d"], ["y"]) + attribute("to", 1), used=True)

    def test_a_softmax_over_other_axes_stays(self):
        self.with_and_without(node("Softmax", ["scores"], ["y"]) + attribute("axis", 0), used=False)
        self.with_and_without(node("Softmax", ["scores"], ["y"]) + attribute("axis", 0), used=False, opset=12)

    def test_views_keep_the_classes_where_they_are(self):
        """[n, 3] -> [n, 3, 1] -> softmax of axis 1, before opset 13 of all from it on -> [n, 3]"""
        wide = node("Unsqueeze", ["scores"], ["u"]) + field(5, field(1, "axes") + field(8, 2) + field(20, 7))
        back = node("Flatten", ["s"], ["y"])
        for axis, used in [(1, True), (2, False)]:
            self.with_and_without(wide, node("Softmax", ["u"], ["s"]) + attribute("axis", axis), back, used=used, opset=12)

    def test_evaluation_agrees(self):
        results = []
        for nodes in [[], [node("Softmax", ["scores"], ["y"])]]:
            self.end(*nodes)
            self.train({"metrics": ["accuracy"], "data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz"}})
            done = self.run_ztrain("evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json")
            self.assertEqual("the loss reads the input of this node" in done.stderr, bool(nodes))
            results.append(done.stdout)
        self.assertEqual(*results)

    def test_the_exported_model_keeps_its_softmax(self):
        self.end(node("Softmax", ["scores"], ["y"]))
        self.train()
        self.write("x.npz", npz({"x": ([N, 2], X)}))
        self.run_ztrain("predict", "--model", self.folder / "run/model.onnx", "--inputs", self.folder / "x.npz",
                        "--output", self.folder / "out")
        dims, rows = read_npz(self.folder / "out/outputs.npz")["y"]
        self.assertEqual(dims, [N, 3])
        self.close([sum(rows[i:i + 3]) for i in range(0, 3 * N, 3)], [1] * N)

    def test_nll_reads_what_is_there(self):
        self.end()
        self.train()
        plain = self.losses()
        self.end(node("LogSoftmax", ["scores"], ["y"]))
        done = self.train({"loss": {"type": "nll"}})
        self.close(self.losses(), plain)
        self.assertNotIn("this node", done.stderr)
        self.end(node("Softmax", ["scores"], ["y"]))
        self.train({"loss": {"type": "nll"}}, says=["holds probabilities, but nll expects log-probabilities"])

    def test_a_sigmoid_under_bce_is_warned_about_and_stays(self):
        self.data(target=([N, 3], [float(i % 2) for i in range(3 * N)]))
        self.end(node("Sigmoid", ["scores"], ["y"], "last"))
        self.train({"loss": {"type": "bce_with_logits"}, "steps": 1},
                   says=["last (Sigmoid)", "probabilities, but bce_with_logits expects logits"])
        squash = lambda v: 1 / (1 + math.exp(-v))
        y = [squash(v) for n in range(6) for v in Softmax().scores(n)]
        terms = [math.log1p(math.exp(-v)) + v * (1 - i % 2) for i, v in enumerate(y)]
        self.close(self.losses(), [sum(terms) / len(terms)])


class Ties(Job):
    """x e^T w -> scores: two layers whose weights may be one."""

    E = [0.5, -0.25, 0.75, 0.25, -0.5, 1.0]  # [3, 2]

    def setUp(self):
        super().setUp()
        self.data(target=([N], [c % 2 for c in CLASSES], INT64))
        turned = [self.E[2 * r + c] for c in range(2) for r in range(3)]
        self.make("apart", turned)
        # the same network with one initializer, used twice
        self.make("shared", None)
        self.make("other", [v + 0.125 for v in turned])

    def make(self, name, up):
        """x [n, 2] -> up [2, 3] -> Tanh -> e [3, 2]; without `up`, e^T in its place."""
        nodes = [node("MatMul", ["x", "up"], ["h"])] if up else [node("Transpose", ["e"], ["t"]), node("MatMul", ["x", "t"], ["h"])]
        nodes += [node("Tanh", ["h"], ["a"]), node("MatMul", ["a", "e"], ["s"]), node("Add", ["s", "bias"], ["scores"])]
        tensors = [tensor([3, 2], self.E, FLOAT, "e"), tensor([2], [0.0, 0.0], FLOAT, "bias")]
        self.write(name + ".onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 2])],
                                         ([tensor([2, 3], up, FLOAT, "up")] if up else []) + tensors))

    def run_on(self, name, block, *arguments, **more):
        (self.folder / "m.onnx").write_bytes((self.folder / f"{name}.onnx").read_bytes())
        return self.train({"steps": 8, **block}, *arguments, **more)

    def weights(self):
        return {n: v for n, (_, v) in initializers((self.folder / "run/model.onnx").read_bytes()).items()}

    def check_tied(self):
        w = self.weights()
        self.assertEqual([w["up"][c * 3 + r] for r in range(3) for c in range(2)], w["e"])
        self.assertNotEqual(w["e"], self.E)

    def test_a_shared_initializer_trains_once_and_stays_one(self):
        done = self.run_on("shared", {})
        self.assertIn("8 in 2 tensors", done.stderr)
        self.assertEqual(sorted(self.weights()), ["bias", "e"])

    def test_tied_parameters_train_as_one(self):
        self.run_on("shared", {})
        shared, one = self.losses(), self.weights()
        self.run_on("apart", {})
        self.assertNotEqual(self.losses(), shared)
        done = self.run_on("apart", {"tie": [["e", "up"]]})
        self.assertIn("8 in 2 tensors", done.stderr)
        self.close(self.losses(), shared)
        self.close(self.weights()["e"], one["e"])
        self.check_tied()
        self.run_on("apart", {"tie": [["up", "e"]]})
        self.close(self.losses(), shared)
        self.check_tied()

    def test_the_values_of_the_first_name_count(self):
        self.run_on("shared", {})
        shared = self.losses()
        done = self.run_on("other", {"tie": [["e", "up"]]})
        self.assertIn('ztrain.tie: the initial values of "up" differ from those of "e", which are used', done.stderr)
        self.close(self.losses(), shared)
        self.check_tied()

    def test_globs_know_the_first_name(self):
        groups = [{"match": "e", "lr": 0.05}]
        self.run_on("shared", {"param_groups": groups})
        slow = self.losses()
        self.run_on("apart", {"tie": [["e", "up"]], "param_groups": groups})
        self.close(self.losses(), slow)
        self.run_on("apart", {"tie": [["e", "up"]], "freeze": ["up"]})
        self.check_tied()
        self.run_on("other", {"tie": [["e", "up"]], "freeze": ["e"]})
        w = self.weights()
        self.assertEqual(w["e"], self.E)
        self.assertEqual([w["up"][c * 3 + r] for r in range(3) for c in range(2)], w["e"])

    def test_every_layout_trains_the_same(self):
        block = {"tie": [["e", "up"]]}
        self.run_on("apart", block)
        plain = self.losses()
        for stage in range(4):
            self.run_on("apart", {**block, "parallel": {"communicator": "thread"}}, "--ranks=2", zero_optimization={"stage": stage})
            self.close(self.losses(), plain)
            self.check_tied()

    def test_a_pipeline_stage_may_hold_both(self):
        turned = [self.E[2 * r + c] for c in range(2) for r in range(3)]
        wide = [0.01 * (i % 7 - 3) for i in range(256)]
        nodes = [node("MatMul", ["x", "up"], ["h"]), node("Tanh", ["h"], ["a"]), node("MatMul", ["a", "e"], ["s"]),
                 node("MatMul", ["s", "wide"], ["k"]), node("Tanh", ["k"], ["l"]), node("MatMul", ["l", "out"], ["scores"])]
        self.write("deep.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 2])],
                                      [tensor([2, 3], turned, FLOAT, "up"), tensor([3, 2], self.E, FLOAT, "e"),
                                       tensor([2, 128], wide, FLOAT, "wide"), tensor([128, 2], wide, FLOAT, "out")]))
        block = {"tie": [["e", "up"]], "parallel": {"communicator": "thread"}}
        self.run_on("deep", block)
        plain = self.losses()
        self.run_on("deep", block, "--ranks=2", pipeline={"stages": 2})
        self.close(self.losses(), plain)
        self.check_tied()

    def test_square_matrices_are_tied_as_their_values_say(self):
        square, turned, free = [0.5, -0.25, 0.75, 0.25], [0.5, 0.75, -0.25, 0.25], [1.0, 2.0, 3.0, 4.0]
        nodes = [node("MatMul", ["x", "a"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "b"], ["scores"])]
        for b, transposed in [(square, False), (turned, True), (free, False)]:
            self.write("square.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 2])],
                                            [tensor([2, 2], square, FLOAT, "a"), tensor([2, 2], b, FLOAT, "b")]))
            self.run_on("square", {"tie": [["a", "b"]]})
            w = self.weights()
            self.assertEqual(w["b"], [w["a"][i] for i in ([0, 2, 1, 3] if transposed else range(4))])

    def test_what_does_not_fit_is_refused_by_its_key(self):
        for ties, words in [([["e", "nothing"]], ['ztrain.tie[0][1]: the model has no initializer "nothing"']),
                            ([["e", "up"], ["bias", "s"]], ['ztrain.tie[1][1]: the model has no initializer "s"']),
                            ([["e", "bias"]], ['ztrain.tie[0][1]: "bias" [2] has neither']),
                            ([["e", "up"], ["bias", "e"]], ['ztrain.tie[1][1]: "e" is in ztrain.tie[0] already'])]:
            self.run_on("apart", {"tie": ties}, code=2, says=[*words, "c.json"])

    def test_a_tie_holds_over_pipeline_stages(self):
        self.run_on("apart", {"tie": [["e", "up"]]})
        one, losses = self.weights(), self.losses()
        self.run_on("apart", {"tie": [["e", "up"]], "parallel": {"communicator": "thread"}}, "--ranks=2", pipeline={"stages": 2})
        self.close(self.losses(), losses)
        two = self.weights()
        self.assertEqual(two["up"], [two["e"][i] for i in (0, 2, 4, 1, 3, 5)])
        self.close(two["e"], one["e"])


class Types(Job):
    """Weights in half and double precision train in float and are stored as they were."""

    NAMES = {FLOAT16: "float16", DOUBLE: "double", FLOAT: "float"}

    def round(self, values, dtype):
        return list(struct.unpack(f"{len(values)}{CODE[dtype]}", struct.pack(f"{len(values)}{CODE[dtype]}", *values)))

    def make(self, weights, compute):
        """Weights stored as `weights`, computed as `compute`; all values of both are floats too."""
        w, b = [[v + 2**-9 for v in values] for values in (W, B)]
        names = ["w", "b"] if weights == compute else ["w_", "b_"]
        casts = [node("Cast", [n], [n + "_"], "cast " + n) + attribute("to", compute) for n in "wb" if weights != compute]
        nodes = [*casts, node("MatMul", ["x", names[0]], ["h"]), node("Add", ["h", names[1]], ["g"]),
                 node("RandomNormalLike", ["g"], ["r"], "noise") + attribute("dtype", compute) + field(
                     5, field(1, "scale") + field(2, 0.0) + field(20, 1)), node("Add", ["g", "r"], ["scores"])]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2], compute)], [value_info("scores", ["n", 3], compute)],
                                   [tensor([2, 3], w, weights, "w"), tensor([3], b, weights, "b")]))

    def stored(self):
        return initializers((self.folder / "run/model.onnx").read_bytes())

    def test_a_model_trains_as_its_float_twin(self):
        self.make(FLOAT, FLOAT)
        self.train({"steps": 6})
        losses, twin = self.losses(), self.stored()
        for weights, compute in [(FLOAT16, FLOAT16), (FLOAT16, FLOAT), (DOUBLE, DOUBLE), (DOUBLE, FLOAT), (FLOAT, FLOAT16),
                                 (FLOAT, DOUBLE)]:
            for x_type in [FLOAT, FLOAT16]:
                self.make(weights, compute)
                self.data(x=([N, 2], X, x_type))
                done = self.train({"steps": 6})
                self.assertEqual(self.losses(), losses)
                if weights != FLOAT:
                    self.assertIn(f"2 parameters have type {self.NAMES[weights]}: they train in fp32", done.stderr)
                self.assertEqual(self.stored(), {n: (weights, self.round(v, weights)) for n, (_, v) in twin.items()})

    def test_all_but_the_weights_is_kept_byte_for_byte(self):
        self.make(FLOAT16, FLOAT)
        self.train()
        before, after = (self.folder / "m.onnx").read_bytes(), (self.folder / "run/model.onnx").read_bytes()
        self.assertEqual(len(before), len(after))
        moved = [i for i in range(len(before)) if before[i] != after[i]]
        spans = [before.index(struct.pack("<6e", *[v + 2**-9 for v in W])), before.index(struct.pack("<3e", *[v + 2**-9 for v in B]))]
        self.assertTrue(moved and all(spans[0] <= i < spans[0] + 12 or spans[1] <= i < spans[1] + 6 for i in moved))

    def test_every_layout_and_evaluation_agree(self):
        block = {"data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz", "shuffle": False}}
        results = []
        for weights in [FLOAT, FLOAT16]:
            self.make(weights, weights)
            for stage in range(4):
                self.train({**block, "parallel": {"communicator": "thread"}}, "--ranks=2", zero_optimization={"stage": stage})
                results.append(self.losses())
            results.append(self.run_ztrain("evaluate", "--model", self.folder / "m.onnx", "--config",
                                           self.folder / "c.json", "--set", "ztrain.seed=0").stdout)
        self.assertEqual(results[:5], results[5:])

    def test_bf16_compute_runs_behind_it(self):
        losses = []
        for weights in [FLOAT, FLOAT16]:
            self.make(weights, weights)
            self.train(bf16={"enabled": True})
            losses.append(self.losses())
        self.assertEqual(*losses)

    def test_predict_runs_nodes_as_exported(self):
        self.make(FLOAT16, FLOAT16)
        self.write("x.npz", npz({"x": ([N, 2], X, FLOAT16)}))
        self.run_ztrain("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "x.npz", "--output", self.folder / "o")
        self.assertIn(b"<f2", zipfile.ZipFile(self.folder / "o/outputs.npz").read("scores.npy"))

    def test_frozen_halves_stay_as_they_are(self):
        self.make(FLOAT16, FLOAT16)
        self.train({"freeze": ["w"]})
        stored = self.stored()
        self.assertEqual(stored["w"], (FLOAT16, self.round([v + 2**-9 for v in W], FLOAT16)))
        self.assertNotEqual(stored["b"][1], self.round([v + 2**-9 for v in B], FLOAT16))


class Columns(Job):
    """Several inputs, outputs and targets by name."""

    def setUp(self):
        super().setUp()
        # scores = (x w + b) * mask[:, None] + table[ids]; spare = extra + scores
        self.table = [0.5, -0.25, 0.125, 0.0, 0.75, -0.5]
        self.mask, self.ids = [float(i % 3 > 0) for i in range(N)], [i % 2 for i in range(N)]
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["g"]),
                 node("Unsqueeze", ["mask", "one"], ["column"]), node("Mul", ["g", "column"], ["masked"]),
                 node("Gather", ["table", "ids"], ["rows"]), node("Add", ["masked", "rows"], ["scores"]),
                 node("Add", ["scores", "extra"], ["sum"]), node("FancyOp", ["sum"], ["spare"])]
        self.write("m.onnx", model(nodes, [value_info("ids", ["n"], INT64), value_info("x", ["n", 2]), value_info("mask", ["n"]),
                                           value_info("extra", ["n", 3])],
                                   [value_info("spare", ["n", 3]), value_info("scores", ["n", 3])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([3], B, FLOAT, "b"), tensor([1], [1], INT64, "one"),
                                    tensor([2, 3], self.table, FLOAT, "table")]))
        self.data(target=None, mask=([N], self.mask), ids=([N], self.ids, INT64), label=([N], CLASSES, INT64),
                  other=([N], [0] * N, INT64))

    def test_columns_feed_the_inputs_of_their_names(self):
        """No node of the output that is not asked for runs, and its input is not demanded of the data."""
        self.train({"loss": {"logits": "scores", "target": "label"}})
        reference, losses, lr = Softmax(), [], 0.5
        table = [self.table[:3], self.table[3:]]
        for step in [range(0, 6), range(6, 12)] * 2:
            loss, slopes = 0, {}
            for n in step:
                s = [v * self.mask[n] + r for v, r in zip(reference.scores(n), table[self.ids[n]])]
                lse = math.log(sum(map(math.exp, s)))
                loss += (lse - s[CLASSES[n]]) / 6
                slopes[n] = [(math.exp(v - lse) - (c == CLASSES[n])) / 6 for c, v in enumerate(s)]
            for n, g in slopes.items():
                for c in range(3):
                    reference.w[0][c] -= lr * g[c] * X[2 * n] * self.mask[n]
                    reference.w[1][c] -= lr * g[c] * X[2 * n + 1] * self.mask[n]
                    reference.b[c] -= lr * g[c] * self.mask[n]
                    table[self.ids[n]][c] -= lr * g[c]
            losses.append(loss)
        self.close(self.losses(), losses)

    def test_the_target_is_any_column(self):
        self.train({"loss": {"logits": "scores", "target": "other"}})
        self.assertLess(self.losses()[-1], self.losses()[0])
        self.train({"loss": {"type": "mse", "logits": "scores", "target": "x"}}, code=4, says=['"x"', "wants [3]"])

    def test_an_input_may_be_its_own_target(self):
        self.write("m.onnx", model([node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "v"], ["y"])],
                                   [value_info("x", ["n", 2])], [value_info("y", ["n", 2])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([3, 2], W[::-1], FLOAT, "v")]))
        self.train({"loss": {"type": "mse", "target": "x"}, "steps": 20})
        self.assertLess(self.losses()[-1], 0.5 * self.losses()[0])

    def test_what_is_missing_is_named(self):
        self.train({}, code=2, says=["ztrain.loss.logits is not set", "spare, scores"])
        self.train({"loss": {"logits": "spare"}}, code=3, says=["FancyOp"])
        self.train({"loss": {"logits": "scores"}}, code=4, says=['no array named "target"', "label"])
        self.data(mask=([N, 1], self.mask), ids=([N], self.ids, INT64))
        self.train({"loss": {"logits": "scores"}}, code=4, says=['"mask"', "shape [1], wants []"])
        self.data(mask=([N], self.mask), ids=([N], [float(i) for i in self.ids]))
        self.train({"loss": {"logits": "scores"}}, code=4, says=['"ids"', "of type float, wants int64"])

    def test_two_ranks_and_two_stages_read_the_same_columns(self):
        block = {"loss": {"logits": "scores", "target": "label"}}
        self.train(block)
        plain = self.losses()
        self.train({**block, "parallel": {"communicator": "thread"}}, "--ranks=2")
        self.close(self.losses(), plain)
        self.train({**block, "parallel": {"communicator": "thread"}}, "--ranks=2", pipeline={"stages": 2})
        self.close(self.losses(), plain)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
