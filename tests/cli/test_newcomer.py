#!/usr/bin/env python3
"""What somebody meets who is new to ztrain: names that match nothing, data that nearly fit, keys of other programs.

    test_newcomer.py ZTRAIN [TEST ...]
"""
import json
import math
import os
import re
import subprocess
import sys
import unittest

import test_cli
import test_jobs
from onnx_bytes import BOOL, FLOAT, INT64, field, fields, model, node, npy, npz, read_npz, tensor, value_info

N = test_jobs.N


class Globs(test_jobs.Job):
    def test_globs_that_match_nothing_are_named(self):
        for key, value in [("trainable", ["*", "weihgt*"]), ("freeze", ["encodr.*"]), ("recompute", ["laier*"]),
                           ("param_groups", [{"match": "*.bais", "lr": 0.1}])]:
            name = "param_groups[0].match" if key == "param_groups" else f"{key}[{len(value) - 1}]"
            glob = value[-1]["match"] if key == "param_groups" else value[-1]
            done = self.train({key: value})
            self.assertRegex(done.stderr, rf"ztrain: warning: .*c.json:1:\d+: ztrain.{key}.*matches \"" + glob.replace("*", r"\*"))
            self.assertEqual(done.stderr.count(glob), 1)  # told once
            self.train({key: value}, "--strict", code=2, says=["c.json:1:", f": ztrain.{name}: ", glob])

    def test_globs_that_match_are_not(self):
        done = self.train({"trainable": ["*"], "freeze": ["b"], "recompute": ["prod*"],
                           "param_groups": [{"match": "w", "lr": 0.1}]}, "--strict")
        self.assertNotIn("warning", done.stderr)


class Origins(test_jobs.Job):
    """Problems that model or machine reveal name the file or the option that the key came from."""

    def test_the_file_that_gives_the_key_is_named(self):
        for block, says in [({"cluster": "here"}, 'ztrain.cluster: cluster "here" is not known'),
                            ({"memory_limit": "512B"}, "ztrain.memory_limit: 512 B per rank, but"),
                            ({"trainable": ["nope"]}, 'ztrain.trainable[0]: the model has no initializer "nope"'),
                            ({"tie": [["w", "nope"]]}, 'ztrain.tie[0][1]: the model has no initializer "nope"'),
                            ({"fuse": ["nope"]}, 'ztrain.fuse[0]: no pattern is called "nope"'),
                            ({"loss": {"type": "cross_entropy", "logits": "nope"}}, "ztrain.loss.logits: the model has no output"),
                            ({"loss": {"type": "cross_entropy", "class_weights": [1, 2]}}, "ztrain.loss.class_weights: 2 numbers"),
                            ({"data": {"augment": {"horizontal_flip": 0.5}}}, 'ztrain.data.augment: format "npz"')]:
            over = json.dumps({"ztrain": block}, indent=1)
            key = says.split(":")[0].split("[")[0].split(".")[-1]
            line = next(i for i, text in enumerate(over.splitlines(), 1) if f'"{key}"' in text)
            line += says.split(":")[0].count("[")  # an item of a list stands on a line of its own
            line += says.startswith("ztrain.tie")
            self.write("over.json", over.encode())
            done = self.train({}, "--config", self.folder / "over.json", code=2, says=[says])
            self.assertRegex(done, rf"error: [^\n]*/over\.json:{line}:\d+: " + re.escape(says))

    def test_an_option_that_gives_the_key_is_named(self):
        self.train({}, "--set", "ztrain.cluster=here", code=2, says=['error: --set ztrain.cluster: cluster "here" is not known'])
        self.train({}, "--set", 'ztrain.trainable=["nope"]', code=2, says=["error: --set ztrain.trainable[0]: the model has no"])

    def test_missing_data_are_told_with_the_ways_to_give_them(self):
        done = self.train({"data": {}}, code=2, says=["c.json:1:", ": ztrain.data: missing, wants a format and a path"])
        for words in ["--data FORMAT:PATH", "--config", '{"ztrain": {"data": {"format": FORMAT, "path": PATH}}}', "npz, synthetic, cifar10"]:
            self.assertIn(words, done.split("hint: ")[1])

    def test_communicator_nccl_without_gpus_is_not_told_to_use_the_cpu(self):
        says = self.train({"parallel": {"communicator": "nccl"}}, "--device", "cpu", code=2, says=["c.json:1:", "needs GPUs"])
        self.assertIn('hint: use communicator "auto"', says)


class Folders(test_jobs.Job):
    def test_a_run_without_checkpoints_is_told_how_to_start_anew(self):
        self.train({"checkpoint": {"every_epochs": 0}})
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run", "--threads=1"]
        self.refused(*words, code=4, says=["already holds a run", "--resume", "--overwrite"])
        self.refused(*words, "--resume", code=4, says=["has left no checkpoint; --overwrite starts it from the beginning"])
        self.run_ztrain(*words, "--overwrite")

    def test_a_run_that_does_not_begin_leaves_no_folder(self):
        self.train({"checkpoint": {"every_steps": 1}})
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--threads=1"]
        (self.folder / "there").mkdir()
        before = sorted(self.folder.iterdir())
        for to in ["new", "new/er/run", "there", "there/new/"]:
            for resume, code, says in [([], 4, "has left no checkpoint"), ([self.folder / "nope"], 4, "nope: no such folder"),
                                       ([self.folder / "run", "--seed", "7"], 2, "ztrain.seed is 7 in --seed; the run of the checkpoint had 0")]:
                self.refused(*words, "--output", f"{self.folder}/{to}", "--resume", *resume, code=code, says=[says])
                self.assertEqual(sorted(self.folder.iterdir()), before)
                self.assertEqual(list((self.folder / "there").iterdir()), [])


class Resumed(test_jobs.Job):
    def test_a_complete_run_is_told_how_to_go_on(self):
        words = ["--config", self.folder / "c.json", "--model", self.folder / "m.onnx", "--output", self.folder / "run", "--threads=1", "--resume"]
        self.train()
        self.assertIn("the run is complete; a larger --epochs or --steps continues it", self.run_ztrain(*words).stderr)
        self.assertNotIn("complete", self.run_ztrain(*words, "--steps", "5").stderr)

    def test_a_key_that_changes_the_tensors_is_hinted_at(self):
        self.train({"checkpoint": {"every_steps": 1}})
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "other", "--threads=1",
                 "--resume", self.folder / "run"]
        for key, value, was, tensor in [("ztrain.freeze", '["w"]', "[]", '"w" does not belong to this run'),
                                        ("ztrain.freeze", '["b"]', "[]", '"b" does not belong to this run'),
                                        ("ztrain.ema", "0.9", "0", '"w.ema" is missing'),
                                        ("ztrain.qat.activations", '"uint8"', "none", '"x.range" is missing'),
                                        ("ztrain.trainable", '["b"]', '["*"]', '"w" does not belong to this run')]:
            self.refused(*words, "--set", f"{key}={value}", code=4,
                         says=[f"tensor {tensor}", f"hint: {key} is {value} in --set {key}; the run of the checkpoint had {was}. --load CHECKPOINT --weights-only"])


class Data(test_jobs.Job):
    def test_a_batch_larger_than_the_data_is_told(self):
        done = self.train(train_batch_size=64, says=["ztrain: warning", "train_batch_size 64", "12 samples"])
        self.assertEqual(len(self.losses()), 4)
        self.train({}, "--strict", code=2, says=["train_batch_size 64"], train_batch_size=64)
        self.train({"data": {"format": "npz", "path": "d.npz", "drop_last": True}}, code=4, train_batch_size=64,
                   says=["drop_last", "hint: "])

    def test_an_unknown_format_lists_those_there_are(self):
        self.train({"data": {"format": "tsv", "path": "d"}}, code=2,
                   says=["npz, synthetic, cifar10, cifar100, imagefolder, mnist, npy, csv, tokens"])

    def mean_squared(self, target, says=()):
        self.data(target=target)
        self.train({"loss": {"type": "mse"}}, optimizer={"type": "SGD", "params": {"lr": 0.01}})
        return self.losses()

    def test_integer_targets_become_floats_with_losses_on_numbers(self):
        values = [(i * 7) % 5 for i in range(3 * N)]
        wanted = self.mean_squared(([N, 3], [float(v) for v in values]))
        self.assertEqual(self.mean_squared(([N, 3], values, INT64)), wanted)
        for loss in ["l1", "smooth_l1", "huber", "bce_with_logits"]:
            self.data(target=([N, 3], [v % 2 for v in values], INT64))
            self.train({"loss": {"type": loss}})

    def test_axes_of_one_element_are_no_obstacle(self):
        self.train()
        wanted = self.losses()
        self.data(target=([N, 1], test_jobs.CLASSES, INT64))
        self.train()
        self.assertEqual(self.losses(), wanted)
        for out in [["n", 1], ["n"]]:  # scores x w with w [2, 1] or [2]
            w = tensor([2, *out[1:]], [0.5, -0.25], FLOAT, "w")
            self.write("m.onnx", model([node("MatMul", ["x", "w"], ["y"], "product")], [value_info("x", ["n", 2])],
                                       [value_info("y", out)], [w]))
            values = [float(i % 4) for i in range(N)]
            flat = self.mean_squared(([N], values))
            self.assertEqual(self.mean_squared(([N, 1], values)), flat)

    def test_other_shapes_get_a_hint(self):
        self.data(target=([N, 3, 2], [0.0] * 6 * N))
        self.train({"loss": {"type": "mse"}}, code=4, says=["samples of shape [3, 2], wants [3]"])
        self.write("m.onnx", model([node("Relu", ["x"], ["h"]), node("Mul", ["h", "w"], ["y"], "product")],
                                   [value_info("x", ["n", 2, 3])], [value_info("y", ["n", 2, 3])],
                                   [tensor([3], [1.0, 2.0, 3.0], FLOAT, "w")]))
        self.data(x=([N, 2, 3], [1.0] * 6 * N), target=([N, 6], [0.0] * 6 * N))
        self.train({"loss": {"type": "mse"}}, code=4, says=["samples of shape [6], wants [2, 3]", "hint: ", "reshape"])


class Embedding:
    """y = E[i] E^T: an embedding and a head that are one table, with the mean of cross_entropy and SGD."""

    def __init__(self, table, indices, targets, padding=()):
        self.e, self.i, self.t, self.padding = [list(row) for row in table], indices, targets, padding

    def step(self, samples, lr):
        rows, width = len(self.e), len(self.e[0])
        slope, loss = [[0.0] * width for _ in self.e], 0.0
        for n in samples:
            x = self.e[self.i[n]]
            y = [sum(a * b for a, b in zip(x, row)) for row in self.e]
            lse = math.log(sum(map(math.exp, y)))
            loss += (lse - y[self.t[n]]) / len(samples)
            dy = [(math.exp(v - lse) - (c == self.t[n])) / len(samples) for c, v in enumerate(y)]
            for c in range(rows):
                for k in range(width):
                    slope[c][k] += dy[c] * x[k]  # the head's part stays, as in PyTorch
                    if self.i[n] not in self.padding:
                        slope[self.i[n]][k] += dy[c] * self.e[c][k]
        self.e = [[v - lr * g for v, g in zip(row, gradient)] for row, gradient in zip(self.e, slope)]
        return loss


class Padding(test_jobs.Job):
    TABLE = [[0.5, -0.25], [1.0, 0.75], [-0.5, 0.25], [0.125, 1.5], [-1.0, 0.5]]
    INDICES = [(i * 3 + 1) % 5 for i in range(N)]
    TARGETS = [(i * 2) % 5 for i in range(N)]

    def setUp(self):
        super().setUp()
        self.make(self.TABLE)
        self.write("d.npz", npz({"i": ([N], self.INDICES, INT64), "target": ([N], self.TARGETS, INT64)}))

    def make(self, rows, producer="hand"):
        table = tensor([5, 2], [v for row in rows for v in row], FLOAT, "model.shared.weight")
        nodes = [node("Gather", ["i", "model.shared.weight"][::-1], ["x"], "look"),
                 node("Transpose", ["model.shared.weight"], ["head"], "turn"), node("MatMul", ["x", "head"], ["y"], "product")]
        self.write("m.onnx", model(nodes, [value_info("i", ["n"], INT64)], [value_info("y", ["n", 5])], [table], producer=producer))

    def follow(self, padding, idx, *arguments, **config):
        oracle = Embedding(self.TABLE, self.INDICES, self.TARGETS, padding)
        self.train({"padding_idx": idx}, *arguments, **config)
        self.close(self.losses(), [oracle.step(s, 0.5) for s in [range(0, 6), range(6, 12)] * 2])
        stored = test_jobs.initializers((self.folder / "run" / "model.onnx").read_bytes())["model.shared.weight"]
        self.close(stored[-1], [v for row in oracle.e for v in row])

    def test_the_row_gets_no_gradient_from_its_look_ups(self):
        self.follow([], {})
        self.follow([1], {"*shared.weight": 1})
        self.follow([4], {"*shared.weight": -1})
        self.follow([1], {"*shared.weight": 1}, "--set", "ztrain.fuse=[]")
        self.follow([1], {"*shared.weight": 1}, "--set", "ztrain.parallel.mode=ddp", "--ranks", "2", "--set",
                    "ztrain.parallel.communicator=thread")

    def test_a_row_of_zeros_is_the_padding_row_in_files_of_pytorch_alone(self):
        for producer, zeros, block, padding in [("pytorch", [1], {}, [1]), ("tf2onnx", [1], {}, []), ("pytorch", [1, 4], {}, []),
                                                ("pytorch", [1], {"trainable": ["*", "model.shared.weight"]}, []),
                                                ("pytorch", [1], {"padding_idx": {"*": 4}}, [4])]:
            table = [[0.0, 0.0] if r in zeros else row for r, row in enumerate(self.TABLE)]
            self.make(table, producer)
            oracle = Embedding(table, self.INDICES, self.TARGETS, padding)
            done = self.train(block)
            self.close(self.losses(), [oracle.step(s, 0.5) for s in [range(0, 6), range(6, 12)] * 2])
            self.assertEqual("row 1 of model.shared.weight: gets no gradient" in done.stderr, padding == [1], done.stderr)

    def test_indices_from_the_end_are_the_same_row(self):
        self.write("d.npz", npz({"i": ([N], [i - 5 for i in self.INDICES], INT64), "target": ([N], self.TARGETS, INT64)}))
        self.follow([1], {"*shared.weight": 1})

    def test_what_does_not_fit_is_refused_by_name(self):
        self.train({"padding_idx": {"*nothing*": 1}}, code=2, says=["c.json:1:", ": ztrain.padding_idx.*nothing*: matches no initializer", "are: model.shared.weight"])
        for row in [5, -6]:
            self.train({"padding_idx": {"*shared*": row}}, code=2, says=[f"row {row} is outside", "5 rows"])
        self.train({"padding_idx": {"*": 1.5}}, code=2, says=["ztrain.padding_idx.*: wants an integer"])
        self.write("m.onnx", test_jobs.linear(out="scores"))
        self.data()
        self.train({"padding_idx": {"w": 0}}, code=2, says=["padding_idx.w: ", '"w"', "no Gather along axis 0 reads"])


class Export(test_jobs.Job):
    def setUp(self):
        super().setUp()
        nodes = [node("Dropout", ["x", "ratio", "on"], ["kept", "mask"], "drop"),
                 node("MatMul", ["kept", "w"], ["h"], "product"), node("Add", ["h", "b"], ["scores"], "bias")]
        self.parts = [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])], [
            tensor([2, 3], test_jobs.W, FLOAT, "w"), tensor([3], test_jobs.B, FLOAT, "b"), tensor([], [0.5], FLOAT, "ratio"),
            tensor([], [True], BOOL, "on")]
        self.write("m.onnx", model(nodes, *self.parts))

    def dropout(self):
        """Inputs and outputs of the Dropout in the trained model."""
        graph = next(value for number, value in fields((self.folder / "run" / "model.onnx").read_bytes()) if number == 7)
        for number, value in fields(graph):
            if number == 1 and (4, b"Dropout") in fields(value):
                return [[v for k, v in fields(value) if k == which] for which in [1, 2]]

    def predicted(self):
        self.run_ztrain("predict", "--model", self.folder / "run" / "model.onnx", "--inputs", self.folder / "d.npz", "--output",
                        self.folder / "p")
        return read_npz(self.folder / "p" / "outputs.npz")["scores"][1]

    def test_a_dropout_goes_back_to_inference_form(self):
        self.train()
        self.assertEqual(self.dropout(), [[b"x", b"ratio"], [b"kept"]])
        trained = test_jobs.initializers((self.folder / "run" / "model.onnx").read_bytes())
        w, b = trained["w"][-1], trained["b"][-1]
        self.close(self.predicted(), [test_jobs.X[2 * n] * w[c] + test_jobs.X[2 * n + 1] * w[3 + c] + b[c]
                                      for n in range(N) for c in range(3)])

    def test_the_mode_may_be_in_a_constant_node(self):
        held = field(5, field(1, "value") + field(5, tensor([], [True], BOOL, "")) + field(20, 4))
        nodes = [node("Constant", [], ["on"], "mode") + held, node("Dropout", ["x", "ratio", "on"], ["kept"], "drop"),
                 node("MatMul", ["kept", "w"], ["h"], "product"), node("Add", ["h", "b"], ["scores"], "bias")]
        self.write("m.onnx", model(nodes, *self.parts[:2], self.parts[2][:-1]))
        self.train()
        self.assertEqual(self.dropout(), [[b"x", b"ratio"], [b"kept"]])

    def test_a_mask_that_is_read_stays(self):
        nodes = [node("Dropout", ["x", "ratio", "on"], ["kept", "mask"], "drop"), node("Not", ["mask"], ["gone"], "gone"),
                 node("MatMul", ["kept", "w"], ["h"], "product"), node("Add", ["h", "b"], ["scores"], "bias")]
        self.write("m.onnx", model(nodes, self.parts[0], self.parts[1] + [value_info("gone", ["n", 2], BOOL)], self.parts[2]))
        self.train({"loss": {"type": "cross_entropy", "logits": "scores"}})
        self.assertEqual(self.dropout(), [[b"x", b"ratio"], [b"kept", b"mask"]])

    def test_it_stays_in_training_form_where_that_is_asked_for(self):
        self.train({"export": "train"})
        self.assertEqual(self.dropout(), [[b"x", b"ratio", b"on"], [b"kept", b"mask"]])


class Evaluate(test_jobs.Job):
    def test_data_of_the_command_line_are_evaluated(self):
        self.train()
        words = ["evaluate", "--model", self.folder / "run" / "model.onnx", "--config", self.folder / "c.json"]
        self.refused(*words, says=["eval_path", "hint: ", "--data FORMAT:PATH"])
        done = self.run_ztrain(*words, "--data", f"npz:{self.folder / 'd.npz'}")
        self.assertEqual(json.loads(done.stdout)["samples"], N)
        self.write("e.npz", npz({"x": ([5, 2], test_jobs.X[:10]), "target": ([5], test_jobs.CLASSES[:5], INT64)}))
        config = json.loads((self.folder / "c.json").read_text())
        config["ztrain"]["data"]["eval_path"] = "d.npz"
        self.write("c.json", json.dumps(config).encode())
        done = self.run_ztrain(*words, "--data", f"npz:{self.folder / 'e.npz'}")
        self.assertEqual(json.loads(done.stdout)["samples"], 5)

    def test_a_config_for_several_ranks_is_evaluated_on_one(self):
        words = ["evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--data", f"npz:{self.folder / 'd.npz'}"]
        self.train()
        wanted = self.run_ztrain(*words).stdout
        config = json.loads((self.folder / "c.json").read_text())
        config.update(train_micro_batch_size_per_gpu=3, gradient_accumulation_steps=1, train_batch_size=6, pipeline={"stages": 2})
        self.write("c.json", json.dumps(config).encode())
        self.assertEqual(self.run_ztrain(*words).stdout, wanted)

    def test_what_cannot_be_planned_names_the_file(self):
        self.train()
        words = ["evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--data", f"npz:{self.folder / 'd.npz'}"]
        self.refused(*words, "--set", 'ztrain.freeze=["*"]', code=3, says=["m.onnx: nothing to train"])
        self.refused(*words, "--set", "ztrain.memory_limit=64B", code=2, says=["error: --set ztrain.memory_limit: 64 B per rank"])


class Predict(test_jobs.Job):
    def test_one_array_is_the_one_input(self):
        self.write("x.npy", npy([N, 2], test_jobs.X))
        for source in ["x.npy", "d.npz"]:
            self.run_ztrain("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / source, "--output",
                            self.folder / source[:1])
        self.assertEqual(read_npz(self.folder / "x" / "outputs.npz"), read_npz(self.folder / "d" / "outputs.npz"))
        self.write("x.npy", npy([N, 2], test_jobs.X)[:-3])
        self.refused("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "x.npy", "--output",
                     self.folder / "o", code=4, says=["x.npy: holds 93 bytes"])

    def test_several_inputs_say_how_to_save_them(self):
        self.write("m.onnx", model([node("Add", ["a", "b"], ["y"])], [value_info("a", ["n"]), value_info("b", ["n"])],
                                   [value_info("y", ["n"])]))
        self.write("x.npy", npy([2], [1.0, 2.0]))
        self.refused("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "x.npy", "--output",
                     self.folder / "o", code=4, says=["x.npy: holds one array", "2 inputs", "numpy.savez", "a=..., b=..."])

    def test_training_on_one_array_says_what_is_wanted(self):
        self.write("d.npz", npy([N, 2], test_jobs.X))
        self.train(code=4, says=["d.npz: is not an npz file", "hint: it is a .npy file", "numpy.savez"])


class Keys(test_jobs.Job):
    def test_keys_of_other_programs_are_known_by_their_name(self):
        for block, key, wanted in [("params", "learning_rate", "lr"), ("params", "epsilon", "eps"), ("params", "beta1", "betas"),
                                   ("params", "wd", "weight_decay"), ("", "batch_size", "train_batch_size"),
                                   ("", "learning_rate", "optimizer.params.lr"), ("", "max_grad_norm", "gradient_clipping"),
                                   ("ztrain", "num_epochs", "epochs"), ("ztrain", "max_steps", "steps"),
                                   ("ztrain", "batch_size", "train_batch_size")]:
            config = {"optimizer": {"type": "Adam", "params": {"lr": 0.1, **({key: 1} if block == "params" else {})}}}
            if not block:
                config[key] = 1
            text = self.train({key: 1} if block == "ztrain" else {}, code=2, says=["unknown key"], **config)
            self.assertIn(f"did you mean {wanted}?", text)

    def test_keys_of_an_object_inside_are_named(self):
        for key, wanted in [("optimizer.momentum", "params.momentum"), ("ztrain.eval_path", "data.eval_path"), ("pipeline.num_stages", "stages"),
                            ("wandb.entity", "team"), ("ztrain.lora.r", "rank")]:
            self.train({}, "--set", f"{key}=1", code=2, says=[f"--set {key}: unknown key, did you mean {wanted}?"])
        self.train({}, "--set", "scheduler.params.warmup_min=1", code=2, scheduler={"type": "WarmupLR"}, says=["did you mean warmup_min_lr?"])
        for key in ["optimizer.enabled", "zzz", "epochs", "checkpoint.every_steps"]:  # not in an object of this one
            text = self.train({}, "--set", f"{key}=1", code=2, says=["unknown key"])
            self.assertNotIn("did you mean", text)

    def test_values_name_the_nearest(self):
        self.train({}, "--device", "gpu", code=2, says=['unknown "gpu", did you mean "cuda"?'])
        self.train({"checkpoint": {"best": "f1"}}, code=2, says=['hint: known are: loss, accuracy, ""\n'])


class LogLevel(test_jobs.Job):
    def test_it_chooses_what_is_printed(self):
        counts = {level: len(self.train(log_level=level).stderr.splitlines()) for level in ["debug", "info", "warning", "error", "critical"]}
        self.assertGreater(counts["debug"], counts["info"])
        self.assertGreater(counts["info"], counts["warning"])
        self.assertEqual([counts[level] for level in ["warning", "error", "critical"]], [1, 1, 1])  # weights: HASH
        self.assertIn("ztrain: warning: ", self.train({"freeze": ["zz"]}, log_level="warning").stderr)
        self.assertNotIn("ztrain: warning: ", self.train({"freeze": ["zz"]}, log_level="error").stderr)

    def test_options_are_above_it(self):
        self.assertEqual(self.train({}, "--quiet", log_level="debug").stderr, self.train({}, "--quiet").stderr)
        verbose = [len(self.train({}, "--verbose", **config).stderr.splitlines()) for config in [{}, {"log_level": "error"}]]
        self.assertEqual(verbose[0], verbose[1])


class FilesOfOthers(test_jobs.Job):
    """What somebody has who comes from PyTorch or DeepSpeed."""

    def test_a_file_of_torch_save_is_no_model(self):
        words = ["--config", self.folder / "c.json", "--output", self.folder / "out", "--threads=1"]
        self.train()
        self.write("pytorch_model.bin", npz({"x": ([1], [1.0])}))  # a zip archive too
        self.refused("--model", self.folder / "pytorch_model.bin", *words, code=3, says=["pytorch_model.bin", "hint: ", "torch.onnx.export()"])
        self.refused("--model", self.folder / "m.onnx", *words, "--load", self.folder / "pytorch_model.bin", "--weights-only", code=3,
                     says=["pytorch_model.bin", "hint: ", "safetensors.torch.save_file()"])
        stored = (self.folder / "run/checkpoints/step-4/weights.safetensors").read_bytes()
        self.write("w.safetensors", stored)
        self.refused("--model", self.folder / "w.safetensors", *words, code=3, says=["hint: ", "--load"])

    def test_a_checkpoint_of_deepspeed_is_named(self):
        self.train()
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "out", "--resume"]
        self.write("ds/latest", b"global_step10")
        self.write("ds/global_step10/mp_rank_00_model_states.pt", b"PK")
        for path, says in [("ds", 'ds/latest: does not name a checkpoint: "global_step10" has no manifest.json'),
                           ("ds/global_step10", "not a checkpoint: it has no manifest.json")]:
            self.refused(*words, self.folder / path, code=4, says=[says, "hint: this is a checkpoint of DeepSpeed", "zero_to_fp32.py"])

    def test_the_name_of_the_targets_is_hinted_at(self):
        self.data(target=None, labels=([N], test_jobs.CLASSES, INT64))
        self.train(code=4, says=['no array named "target" (it has: x, labels)', "hint: ztrain.loss.target names", "--set ztrain.loss.target=NAME"])
        self.train({}, "--set", "ztrain.loss.target=labels")
        self.data(x=None)
        self.assertNotIn("loss.target", self.train(code=4, says=['no array named "x"', "hint: the array of an input has the name of the input"]))
        predict = ["predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "d.npz", "--output", self.folder / "out"]
        self.refused(*predict, code=4, says=['input 0 "x"', "the file has: target"])

    def test_a_table_without_a_header_and_a_folder_without_classes_get_a_hint(self):
        self.write("d.csv", b"1,2,0\n3,4,1\n")
        self.train({"data": {"format": "csv", "path": "d.csv"}}, code=4, says=["no column named", "hint: ", "unless ztrain.data.header is false"])
        (self.folder / "pictures").mkdir()
        self.train({"data": {"format": "imagefolder", "path": "pictures"}}, code=4, says=["has no class folders", "hint: ", "pictures/CLASS/NAME.png"])

    def test_channels_that_are_last_are_told_apart_from_other_orders(self):
        self.write("m.onnx", model([node("GlobalAveragePool", ["x"], ["h"]), node("Flatten", ["h"], ["f"]), node("MatMul", ["f", "w"], ["y"], "last")],
                                   [value_info("x", ["n", 2, 4, 5])], [value_info("y", ["n", 3])], [tensor([2, 3], test_jobs.W, FLOAT, "w")]))
        for shape, hint in [([N, 4, 5, 2], "array.transpose(0, 3, 1, 2)"), ([N, 40], "array.reshape()"), ([N, 5, 4, 2], "array.reshape()")]:
            self.data(x=(shape, [0.0] * 40 * N))
            self.train(code=4, says=["wants [2, 4, 5]", "hint: ", hint])

    def test_packed_mnist_files_are_found(self):
        self.write("m.onnx", model([node("Flatten", ["x"], ["f"]), node("MatMul", ["f", "w"], ["y"], "last")], [value_info("x", ["n", 1, 2, 1])],
                                   [value_info("y", ["n", 3])], [tensor([2, 3], test_jobs.W, FLOAT, "w")]))
        self.write("mnist/train-images-idx3-ubyte.gz", b"")
        text = self.train({"data": {"format": "mnist", "path": "mnist"}}, code=4, says=["No such file"])
        self.assertRegex(text, "hint: unpack the file beside it: gunzip .*/mnist/train-images-idx3-ubyte.gz")


class Underway(test_jobs.Job):
    """The run has begun: its error is the last that is said."""

    def refused(self, *arguments, code=2, says=(), **more):
        text = self.run_ztrain(*arguments, code=code, **more).stderr
        error = text[text.index("ztrain: error: "):]
        for words in says:
            self.assertIn(words, error)
        return error


class NonFinite(Underway):
    """The step in which loss or gradient stop to be finite is run again, and what made them so is named."""

    def chain(self, *ops, w=test_jobs.W, tail=()):
        """x w, then each of (op, name, further inputs), then + b; `tail`: further initializers."""
        nodes, at = [node("MatMul", ["x", "w"], ["h0"], "product")], "h0"
        for op, name, *more in ops:
            nodes.append(node(op, [at, *more], [name + "_out"], name))
            at = name + "_out"
        nodes.append(node("Add", [at, "b"], ["scores"], "bias"))
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 3], w, FLOAT, "w"), tensor([3], test_jobs.B, FLOAT, "b"), *tail]))

    def test_the_first_node_and_tensor_are_named(self):
        self.chain(("Log", "log"), ("Tanh", "after"))
        self.train(code=1, says=['the loss is not finite', 'at step 1: node "log" (Log) makes nan in "log_out"', "forward"])
        self.chain(("Exp", "huge"), ("Sub", "difference", "huge_out"), w=[4000.0] * 6)  # inf - inf
        self.train({"fuse": []}, code=1, says=['node "huge" (Exp) makes inf in "huge_out"'])

    def test_a_mask_of_minus_infinity_is_no_culprit(self):
        masks = [tensor([3], [0.0, 0.0, float("-inf")], FLOAT, "mask")]
        self.chain(("Add", "masked", "mask"), ("Softmax", "weights"), ("Log", "log"), tail=masks)
        self.train({"fuse": [], "loss": {"type": "mse"}}, code=4)  # classes are no target of it
        self.data(target=([N, 3], [0.5] * 3 * N))
        self.train({"fuse": [], "loss": {"type": "mse"}}, code=1, says=['node "log" (Log) makes -inf in "log_out"'])

    def test_a_gradient_is_followed_too(self):
        self.chain(("Abs", "distance"), ("Sqrt", "root"), w=[0.0] * 6)  # the slope of the root at 0
        self.train({"fuse": []}, code=1, says=["the gradient is not finite", "at step 1: node", "backward", "root"])

    def test_a_later_step_is_named(self):
        self.data(x=([N, 2], [v * 1e4 for v in test_jobs.X]))
        self.chain(("Exp", "huge"), w=[1e-6] * 6)
        text = self.train({}, code=1, says=['node "huge" (Exp) makes inf in "huge_out"'])
        self.assertRegex(text, "at step [2-4]: ")

    def test_samples_that_are_not_finite_are_named(self):
        for value, name in [(float("nan"), "nan"), (float("inf"), "inf")]:
            x = test_jobs.X[:]
            x[2 * 7] = x[2 * 9 + 1] = value
            self.data(x=([N, 2], x))
            self.train(code=1, says=["at step 2: ", f'd.npz: column "x" holds {name} in sample 7, 9', "hint: samples"])
            self.train({"data": {"format": "npz", "path": "d.npz", "shuffle": True}}, code=1, says=["in sample "])
            self.train({}, "--ranks", "2", "--set", "ztrain.parallel.communicator=thread", code=1,
                       says=[f'd.npz: column "x" holds {name} in sample 7, 9'])
        self.train(code=1, train_micro_batch_size_per_gpu=1, says=['column "x" holds inf in sample 7, 9'])  # not in the first micro-batch
        self.data(target=([N, 3], [float("nan") if i == 8 else 0.5 for i in range(3 * N)]))
        self.train({"loss": {"type": "mse"}}, code=1, says=['column "target" holds nan in sample 2'])

    def test_weights_that_were_not_finite_are_named(self):
        self.write("m.onnx", model([node("MatMul", ["x", "w"], ["h"], "product"), node("Add", ["h", "b"], ["scores"], "bias")],
                                   [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 3], test_jobs.W[:5] + [float("nan")], FLOAT, "w"),
                                    tensor([3], test_jobs.B, FLOAT, "b")]))
        self.train(code=1, says=['at step 1: weight "w" holds nan before the step'])

    def test_the_first_rank_is_named(self):
        x = test_jobs.X[:]
        x[2 * 4:2 * 5] = [-1e4, -1e4]  # a sample of rank 1
        self.data(x=([N, 2], x))
        self.chain(("Exp", "huge"), w=[-1.0] * 6)
        for more in [["--set", "ztrain.parallel.communicator=thread"], ["--set", "zero_optimization.stage=2", "--set",
                                                                       "ztrain.parallel.communicator=thread"]]:
            self.train({}, "--ranks", "2", *more, code=1,
                       says=["ztrain: error: rank 1", 'at step 1: node "huge" (Exp) makes inf in "huge_out" (forward, micro-batch 0)'])
        self.train({}, "--ranks", "2", "--set", "pipeline.stages=2", "--set", "ztrain.parallel.communicator=thread", code=1,
                   says=['node "huge" (Exp) makes inf in "huge_out"'])

    def test_an_evaluation_that_is_not_finite_stays_json_and_is_an_error(self):
        self.chain(("Log", "log"))
        says = "the loss of the evaluation is not finite (nan): "
        self.train({"on_non_finite": "skip", "data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz"}},
                   says=["warning: " + says + 'node "log" (Log) makes nan in "log_out"'])
        evaluate = ["evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--data", f"npz:{self.folder / 'd.npz'}"]
        done = self.run_ztrain(*evaluate, code=1)
        self.assertIsNone(json.loads(done.stdout)["loss"])
        self.assertIn("ztrain: error: " + says + 'node "log" (Log) makes nan in "log_out"\n', done.stderr)
        self.chain(w=[float("nan")] * 6)
        self.refused(*evaluate, code=1, says=[says + 'weight "w" holds nan\n'])
        self.chain()
        self.data(x=([N, 2], [float("nan") if i == 14 else 1.0 for i in range(2 * N)]))
        self.refused(*evaluate, code=1, says=[says, 'd.npz: column "x" holds nan in sample 7\n', "hint: samples"])

    def test_a_run_that_skips_most_of_its_end_fails(self):
        self.chain(("Log", "log"))
        words = {"on_non_finite": "skip"}
        self.train({**words, "steps": 120}, code=1, says=["100 of the last 100 steps were skipped", "hint: "])
        self.assertTrue((self.folder / "run" / "model.onnx").exists())
        self.train({**words, "steps": 99})
        x = test_jobs.X[:]
        x[2 * 9] = float("nan")  # every second step
        self.data(x=([N, 2], x))
        self.chain()
        self.train({**words, "steps": 200})

    def test_weights_that_have_grown_beyond_use_are_warned_of(self):
        words = 'model.onnx: "w" has an element of magnitude'
        self.assertIn(words, self.train({"steps": 1}, optimizer={"type": "SGD", "params": {"lr": 1e12}}).stderr)
        self.assertNotIn(words, self.train({"steps": 1}).stderr)

    def test_weights_that_are_not_finite_at_the_end_fail(self):
        text = self.train({"steps": 1}, code=1, says=["the weights are not finite at the end", '"w"', "hint: "],
                          optimizer={"type": "SGD", "params": {"lr": 1e39}})
        self.assertNotIn("weights: ", text)
        self.assertFalse((self.folder / "run" / "model.onnx").exists())


class Indices(Underway):
    def test_failures_while_it_runs_name_file_and_node(self):
        table = tensor([5, 3], [float(i) for i in range(15)], FLOAT, "table")
        nodes = [node("Add", ["i", "one"], ["k"]), node("Gather", ["table", "k"], ["scores"], "look")]  # i alone would be an error of the data
        self.write("m.onnx", model(nodes, [value_info("i", ["n"], INT64)], [value_info("scores", ["n", 3])], [table, tensor([], [1], INT64, "one")]))
        self.write("d.npz", npz({"i": ([N], [7 if i == 8 else 1 for i in range(N)], INT64),
                                 "target": ([N], test_jobs.CLASSES, INT64)}))
        says = ["m.onnx: ", "look", "Gather", "index 8"]
        self.assertEqual(self.failed().count("m.onnx"), 1)
        for more in [[], ["--ranks", "2", "--set", "ztrain.parallel.communicator=thread"]]:
            text = self.failed(*more)
            for words in says:
                self.assertIn(words, text)
        self.refused("evaluate", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--data",
                            f"npz:{self.folder / 'd.npz'}", code=self.code, says=says)

    def failed(self, *arguments):
        self.write("c.json", json.dumps({"train_batch_size": 6, "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
                                         "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "metrics": []}}).encode())
        done = subprocess.run([test_cli.ZTRAIN, "--model", self.folder / "m.onnx", "--config", self.folder / "c.json",
                               "--output", self.folder / "run", "--overwrite", *arguments], capture_output=True, text=True,
                              timeout=60)
        self.code = done.returncode
        self.assertIn(self.code, [1, 3, 4])
        return next(line for line in done.stderr.splitlines() if line.startswith("ztrain: error: "))


class Opset(test_jobs.Job):
    def test_an_opset_that_is_not_known_is_refused_by_name(self):
        self.write("m.onnx", test_jobs.linear(out="scores", opset=29))
        self.train(code=3, says=["m.onnx: opset 29 is newer than 28", "ztrain.allow_future_opset=true"])
        for command in ["predict", "grad"]:
            self.refused(command, "--model", self.folder / "m.onnx", "--inputs", self.folder / "d.npz", "--output",
                         self.folder / "o", code=3, says=["opset 29 is newer than 28"])
        self.train({}, "--set", "ztrain.allow_future_opset=true")
        self.run_ztrain("inspect", "--model", self.folder / "m.onnx")
        self.write("m.onnx", test_jobs.linear(out="scores", opset=28))
        self.train()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
