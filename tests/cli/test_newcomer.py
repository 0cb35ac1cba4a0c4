#!/usr/bin/env python3
"""What somebody meets who is new to ztrain: names that match nothing, data that nearly fit, keys of other programs.

    test_newcomer.py ZTRAIN [TEST ...]
"""
import json
import os
import sys
import unittest

import test_cli
import test_jobs
from onnx_bytes import FLOAT, INT64, model, node, npy, npz, read_npz, tensor, value_info

N = test_jobs.N


class Globs(test_jobs.Job):
    def test_globs_that_match_nothing_are_named(self):
        for key, value in [("trainable", ["*", "weihgt*"]), ("freeze", ["encodr.*"]), ("recompute", ["laier*"]),
                           ("param_groups", [{"match": "*.bais", "lr": 0.1}])]:
            name = "param_groups[].match" if key == "param_groups" else key
            glob = value[-1]["match"] if key == "param_groups" else value[-1]
            done = self.train({key: value})
            self.assertRegex(done.stderr, rf"ztrain: warning: .*c.json: ztrain.{key}.*matches \"" + glob.replace("*", r"\*"))
            self.train({key: value}, "--strict", code=2, says=["c.json: ztrain." + name, glob])

    def test_globs_that_match_are_not(self):
        done = self.train({"trainable": ["*"], "freeze": ["b"], "recompute": ["prod*"],
                           "param_groups": [{"match": "w", "lr": 0.1}]}, "--strict")
        self.assertNotIn("warning", done.stderr)


class Data(test_jobs.Job):
    def test_a_batch_larger_than_the_data_is_told(self):
        done = self.train(train_batch_size=64, says=["ztrain: warning", "train_batch_size 64", "12 samples"])
        self.assertEqual(len(self.losses()), 4)
        self.train({}, "--strict", code=2, says=["train_batch_size 64"], train_batch_size=64)
        self.train({"data": {"format": "npz", "path": "d.npz", "drop_last": True}}, code=4, train_batch_size=64,
                   says=["drop_last", "hint: "])

    def test_formats_that_are_not_there_say_how_to_convert(self):
        for format in ["csv", "npy", "tokens", "mnist", "imagefolder"]:
            self.train({"data": {"format": format, "path": "d"}}, code=2,
                       says=[f'"{format}" is not supported yet', "npz, cifar10 and synthetic", "numpy.savez"])
        text = self.train({"data": {"format": "tsv", "path": "d"}}, code=2, says=["npz, cifar10, synthetic"])
        self.assertNotIn("tokens", text)

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
                     self.folder / "o", code=4, says=["x.npy: is one array", "2 inputs", "numpy.savez", "a=..., b=..."])

    def test_training_on_one_array_says_what_is_wanted(self):
        self.write("d.npz", npy([N, 2], test_jobs.X))
        self.train(code=4, says=["d.npz: is not a npz file", "hint: it is one array", "numpy.savez"])


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
