#!/usr/bin/env python3
"""The outside of ztrain: options, messages, exit codes, and the commands that need no training.

    test_cli.py ZTRAIN [TEST ...]
"""
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import unittest

from onnx_bytes import (BOOL, DOUBLE, FLOAT, INT64, external_tensor, field, model, node, npz, read_npz, read_tensor, sequence_info,
                        tensor, value_info)

ZTRAIN = None
COMMANDS = ["train", "plan", "inspect", "evaluate", "predict", "grad", "bench", "diff", "verify", "tune-nvme", "ops", "doctor", "help"]

# y = x w + b with x [n, 2], w [2, 3]; k is an integer that only a shape needs
W = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
B = [0.5, -0.5, 0.25]
X = [1.0, 2.0, -3.0, 4.0]
Y = [9.5, 11.5, 15.25, 13.5, 13.5, 15.25]


def linear(x_type=FLOAT, extra_nodes=(), extra_outputs=()):
    return model([node("MatMul", ["x", "w"], ["h"], "product"), node("Add", ["h", "b"], ["y"], "bias"), *extra_nodes],
                 [value_info("x", ["n", 2], x_type)], [value_info("y", ["n", 3], x_type), *extra_outputs],
                 [tensor([2, 3], W, x_type, "w"), tensor([3], B, x_type, "b")])


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def run_ztrain(self, *arguments, code=0, env=None, **more):
        done = subprocess.run([ZTRAIN, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=60,
                              env={**os.environ, **(env or {})}, **more)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def refused(self, *arguments, code=2, says=(), **more):
        done = self.run_ztrain(*arguments, code=code, **more)
        self.assertTrue(done.stderr.startswith("ztrain: error: "), done.stderr)
        for words in says:
            self.assertIn(words, done.stderr)
        return done.stderr


class Options(Case):
    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            text = self.run_ztrain(command, "--help").stdout
            self.assertTrue(text.startswith("usage: ztrain "), text)
            self.assertIn(command, text)
            self.assertIn("  --help ", text)

    def test_help_lists_every_command(self):
        text = self.run_ztrain("--help").stdout
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", text)

    def test_version_is_one_line(self):
        self.assertRegex(self.run_ztrain("--version").stdout, r"^ztrain \d+\.\d+\.\d+\n$")

    def test_without_arguments_what_is_missing_is_named(self):
        text = self.refused(says=["--model", "--config", "hint: `ztrain --help` lists the commands and options"])
        self.assertEqual(text.count("hint: "), 1)
        self.refused("plan", says=["--model", "--config", "hint: `ztrain plan --help` lists the options"])

    def test_a_model_or_data_without_its_option_is_told_the_option(self):
        self.refused("inspect", "m.onnx", says=['unexpected argument "m.onnx"', "hint: a model follows --model"])
        config = self.write("c.json", b"{}")
        self.refused("--model", "m", "--config", config, "--data", "d.npz", says=["--data d.npz: the format is missing, wants FORMAT:PATH"])

    def test_an_unknown_command_names_the_nearest(self):
        self.refused("prdict", says=["unknown command prdict", "hint: did you mean `ztrain predict`?"])

    def test_an_unknown_option_names_the_nearest(self):
        self.refused("predict", "--modle", "m", says=["unknown option --modle", "hint: did you mean --model?"])
        self.refused("predict", "--modle=m", says=["unknown option --modle", "hint: did you mean --model?"])

    def test_options_of_other_programs_name_what_does_it_here(self):
        for option, owner, hint in [("--module", "another launcher", "runs no script"), ("--no_python", "another launcher", "runs no script"),
                                    ("--force_multi", "another launcher", "--hostfile FILE"), ("--num-gpus=2", "another launcher", "--ranks N"),
                                    ("--enable_each_rank_log", "another launcher", "rank 0"),
                                    ("--autotuning", "another launcher", "--set autotuning.enabled=true"),
                                    ("--learning_rate=1", "training scripts", "--set optimizer.params.lr=X"),
                                    ("--output_dir", "training scripts", "--output DIR"), ("--max-steps", "training scripts", "--steps N"),
                                    ("--num_train_epochs", "training scripts", "--epochs N"),
                                    ("--resume_from_checkpoint", "training scripts", "--resume [CHECKPOINT]"),
                                    ("--bf16", "training scripts", "--set bf16.enabled=true"),
                                    ("--fp16", "training scripts", "--set fp16.enabled=true")]:
            self.refused("--model", "m", option, "x", says=[f"unknown option {option.split('=')[0]}, which belongs to {owner}\nhint: ", hint])
        self.refused("inspect", "--bf16", says=["unknown option --bf16\nhint: `ztrain inspect --help`"])  # has no --set

    def test_every_fusion_pattern_is_in_the_documentation(self):
        root = pathlib.Path(__file__).parents[2]
        patterns = set(re.findall(r"^    ROW\((\w+)\)", (root / "ops/patterns.c").read_text(), re.M))
        self.assertGreater(len(patterns), 40)
        self.assertEqual(patterns - set(re.findall(r"`(\w+)`", (root / "docs/gpu.md").read_text())), set())

    def test_keys_that_hints_name_are_keys(self):
        """A --set of a hint is not refused as an unknown key."""
        source = (pathlib.Path(__file__).parents[2] / "src/session/options.c").read_text()
        keys = set(re.findall(r'"[^"\n]*use --set ([\w.]+)=', source)) | set(re.findall(r"or --set ([\w.]+)=", source))
        self.assertGreater(len(keys), 15)
        config = self.write("c.json", json.dumps({"optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR"}}).encode())
        for key in keys:
            done = subprocess.run([ZTRAIN, "--model", "m", "--config", config, "--set", f"{key}=null"], capture_output=True, text=True, timeout=60)
            self.assertNotIn("unknown key", done.stderr)
        self.refused("--model", "m", "--config", config, "--set", "no.such=null", says=["unknown key"])

    def test_a_missing_value_names_the_option(self):
        self.refused("--model", says=["--model"])
        self.refused("--model", "--config", "c", says=["--model"])
        self.refused("--model=", says=["--model", "empty"])
        self.refused("verify", "", says=["CHECKPOINT: the value is empty"])
        self.refused("report", "run", "", says=["RUN: the value is empty"])
        self.refused("diff", "run", "", says=["RUN_B: the value is empty"])

    def test_an_option_given_twice_is_refused(self):
        self.refused("--model", "a", "--model=b", says=["--model", "twice"])
        self.refused("--quiet", "--quiet", says=["--quiet", "twice"])

    def test_set_may_be_repeated(self):
        text = self.refused("--set", "a=1", "--set", "b=2", says=["--model"])
        self.assertNotIn("twice", text)

    def test_a_flag_takes_no_value(self):
        self.refused("--quiet=1", says=["--quiet", "no value"])

    def test_numbers_are_whole_and_in_range(self):
        for option, value in [("--threads", "0"), ("--threads", "x"), ("--threads", "1.5"), ("--ranks", "0"), ("--ranks", "-1"),
                              ("--epochs", "-1"), ("--steps", "1e3"), ("--seed", "0x10"), ("--seed", "9223372036854775808"),
                              ("--seed", " 1"), ("--ranks", "99999999999999999999")]:
            self.refused(option, value, says=[option, value.strip()])

    def test_an_option_of_another_command_is_refused(self):
        self.refused("ops", "--model", "m", says=["--model", "ztrain ops"])
        self.refused("predict", "--set", "a=1", says=["--set", "ztrain predict"])
        self.refused("evaluate", "--ranks", "1", says=["option --ranks is not accepted by `ztrain evaluate`", "hint: "])

    def test_there_are_long_options_only(self):
        self.refused("-m", "x", says=["unknown option -m", "hint: "])
        self.refused("-h", says=["unknown option -h", "hint: did you mean --help?"])
        self.refused("plan", "-h", says=["unknown option -h", "hint: did you mean --help?"])
        self.refused("train", "model.onnx", says=['"model.onnx"', "hint: "])

    def test_quiet_and_verbose_exclude_each_other(self):
        self.refused("--model", "m", "--config", "c", "--quiet", "--verbose", says=["--quiet", "--verbose"])

    def test_no_argument_crashes_it(self):
        words = ["--model", "--model=", "--", "-", "", "=", "--=", "---model", "--help=", "train", "ops", "--set", "a=b", "--ranks",
                 "\x1b[31m", "\xff", "%s%n", "x" * 5000, "--" + "y" * 5000, "--json", "--seed", "-0"]
        rng = random.Random(1)
        for _ in range(150):
            arguments = rng.choices(words, k=rng.randrange(1, 6))
            done = subprocess.run([ZTRAIN, *arguments], capture_output=True, timeout=60, cwd=self.folder)
            self.assertIn(done.returncode, (0, 2, 3, 4), arguments)
            self.assertNotIn(b"\x1b", done.stderr, arguments)

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([ZTRAIN, "ops"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 4)
        self.assertIn("standard output", done.stderr)

    def test_it_starts_with_and_without_a_spin_count(self):
        plain = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        for extra in ({}, {"GOMP_SPINCOUNT": "5"}, {"OMP_WAIT_POLICY": "passive"}):
            done = subprocess.run([ZTRAIN, "--version"], env={**plain, **extra}, capture_output=True, timeout=20)
            self.assertEqual(done.returncode, 0)

    def test_a_small_stack_is_raised_or_named(self):
        def run(soft, hard):
            return subprocess.run([ZTRAIN, "ops"], capture_output=True, text=True, timeout=20,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft << 10, hard << 10)))
        self.assertEqual(run(256, 8192).returncode, 0)
        small = run(256, 512)
        self.assertEqual((small.returncode, small.stderr.splitlines()[0]), (1, "ztrain: error: the stack is limited to 262144 bytes, 1048576 are needed"))

    def test_instructions_may_be_limited(self):
        def run(isa, *words):
            return subprocess.run([ZTRAIN, *words], env={**os.environ, "ZTRAIN_ISA": isa}, capture_output=True, text=True, timeout=20)
        self.assertIn("instructions up to generic", run("generic", "doctor").stdout)
        wrong = run("sse9", "--version")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("ZTRAIN_ISA: \"sse9\" is none of generic, avx2, avx512, avx512_bf16, amx", wrong.stderr)


class Ops(Case):
    def rows(self):
        lines = self.run_ztrain("ops").stdout.splitlines()
        self.assertEqual(lines[0].split()[:3], ["name", "domain", "opsets"])
        return [line.split() for line in lines[1:]]

    def test_a_row_says_opsets_gradient_back_ends_and_types(self):
        conv = next(r for r in self.rows() if r[0] == "Conv")
        self.assertEqual(conv[1:4], ["ai.onnx", "1-", "yes"])
        self.assertIn("ref", conv[4].split(","))
        self.assertIn("float", conv[5].split(","))

    def test_own_operators_stand_last(self):
        domains = [r[1] for r in self.rows()]
        self.assertIn("ztrain", domains)
        self.assertEqual(domains, sorted(domains, key=lambda d: d == "ztrain"))

    def test_every_operator_has_a_reference_kernel(self):
        self.assertEqual([r[0] for r in self.rows() if "ref" not in r[4].split(",") and r[4] != "bodies"], [])

    def test_json_holds_the_same_rows(self):
        rows = [json.loads(line) for line in self.run_ztrain("ops", "--json").stdout.splitlines()]
        self.assertEqual([[r["name"], r["domain"], r["opsets"]] for r in rows], [r[:3] for r in self.rows()])
        self.assertEqual([r["name"] for r in rows if r["experimental"]], [r[0] for r in self.rows() if r[-1] == "experimental"])

    def test_what_onnx_may_still_change_is_experimental(self):
        marked = {r[1] for r in self.rows() if r[-1] == "experimental"}
        self.assertEqual(marked, {"ai.onnx.preview"})
        self.assertEqual([r[0] for r in self.rows() if r[1] == "ai.onnx.preview" and r[-1] != "experimental"], [])


class Doctor(Case):
    def test_what_is_there_and_how_to_get_what_is_not(self):
        text = self.run_ztrain("doctor").stdout
        for what in ["ztrain", "processor", "memory", "oneDNN", "mpirun", "gnuplot", "CUDA", "GPUs", "driver", "runtime", "cuBLASLt", "NVRTC", "cuDNN", "NCCL"]:
            self.assertRegex(text, rf"(?m)^(ok|missing|none) +{what} +\S")
        without = self.run_ztrain("doctor", env={"PATH": "/nowhere"}).stdout
        self.assertRegex(without, r"(?m)^missing +mpirun .*\n +hint: apt-get install openmpi-bin$")

    def test_it_takes_no_options(self):
        self.refused("doctor", "--json", says=["--json"])


class Predict(Case):
    def predict(self, data, inputs, code=0, says=(), extra=()):
        path, out = self.write("m.onnx", data), self.folder / "new" / "out"
        arguments = ["predict", "--model", path, "--inputs", inputs, "--output", out, *extra]
        if code == 0:
            self.run_ztrain(*arguments)
            self.assertEqual([p.name for p in out.iterdir() if "tmp" in p.name], [])
        else:
            self.refused(*arguments, code=code, says=says)
        return out

    def test_a_folder_of_tensors_gives_outputs_by_number_and_by_name(self):
        self.write("in/input_0.pb", tensor([2, 2], X))
        out = self.predict(linear(), self.folder / "in")
        self.assertEqual(read_tensor((out / "output_0.pb").read_bytes()), ([2, 3], FLOAT, Y))
        self.assertEqual(read_npz(out / "outputs.npz"), {"y": ([2, 3], Y)})

    def test_an_npz_with_the_names_of_the_inputs_gives_the_same(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X), "target": ([2], [0, 1], INT64)}))
        out = self.predict(linear(), path)
        self.assertEqual(read_npz(out / "outputs.npz"), {"y": ([2, 3], Y)})

    def test_any_thread_count_gives_the_same(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X)}))
        out = self.predict(linear(), path, extra=["--threads", "3"])
        self.assertEqual(read_npz(out / "outputs.npz"), {"y": ([2, 3], Y)})

    def test_no_rows_at_all_are_allowed(self):
        out = self.predict(linear(), self.write("in.npz", npz({"x": ([0, 2], [])})))
        self.assertEqual(read_npz(out / "outputs.npz"), {"y": ([0, 3], [])})

    def test_double_is_computed_as_double(self):
        out = self.predict(linear(DOUBLE), self.write("in.npz", npz({"x": ([2, 2], X, DOUBLE)})))
        self.assertEqual(read_tensor((out / "output_0.pb").read_bytes())[1:], (DOUBLE, Y))

    def test_an_initializer_may_be_given_by_name(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X), "b": ([3], [0, 0, 0])}))
        self.assertEqual(read_npz(self.predict(linear(), path) / "outputs.npz")["y"][1], [9, 12, 15, 13, 14, 15])

    def test_an_initializer_of_another_shape_is_refused(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X), "b": ([2], [0, 0])}))
        self.predict(linear(), path, code=4, says=['"b"', "[2]", "[3]"])

    def test_a_wrong_type_names_input_found_and_wanted(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X, DOUBLE)}))
        out = self.predict(linear(), path, code=4, says=['"x"', "double", "float"])
        self.assertFalse(out.exists())

    def test_a_wrong_shape_names_input_found_and_wanted(self):
        self.predict(linear(), self.write("in.npz", npz({"x": ([4], X)})), code=4, says=['"x"', "[4]"])
        self.predict(linear(), self.write("in.npz", npz({"x": ([1, 4], X)})), code=4, says=['"x"', "[1, 4]", "2"])

    def test_a_missing_input_is_named(self):
        (self.folder / "in").mkdir()
        self.predict(linear(), self.folder / "in", code=4, says=['"x"', "input_0.pb"])
        self.predict(linear(), self.write("in.npz", npz({"z": ([1], [1])})), code=4, says=['"x"', 'the file has: z'])

    def test_inputs_that_are_not_there_are_named(self):
        self.predict(linear(), self.folder / "nothing.npz", code=4, says=["nothing.npz"])

    def test_a_damaged_tensor_is_named(self):
        self.write("in/input_0.pb", tensor([2, 2], X)[:-3])
        self.predict(linear(), self.folder / "in", code=4, says=["input_0.pb"])

    def test_all_missing_operators_are_reported_at_once(self):
        data = linear(extra_nodes=[node("Foo", ["y"], ["z"], "first", "far.away"), node("Bar", ["z"], ["u"], "second", "far.away")],
                      extra_outputs=[value_info("u", [])])
        out = self.predict(data, self.write("in.npz", npz({"x": ([2, 2], X)})), code=3, says=["m.onnx", "first (Foo)", "second (Bar)"])
        self.assertFalse(out.exists())

    def test_an_unsupported_node_that_no_output_needs_is_harmless(self):
        data = linear(extra_nodes=[node("Foo", ["y"], ["z"], "idle", "far.away")])
        self.predict(data, self.write("in.npz", npz({"x": ([2, 2], X)})))

    def test_a_sequence_input_is_refused_by_name(self):
        data = model([node("Relu", ["x"], ["y"])], [value_info("x", [2]), sequence_info("many")], [value_info("y", [2])])
        self.predict(data, self.write("in.npz", npz({"x": ([2], [1, 2])})), code=4, says=['"many"'])

    def test_a_truncated_model_is_named(self):
        for keep in (0, 1, 10, 40, -5):
            self.predict(linear()[:keep], self.write("in.npz", npz({"x": ([2, 2], X)})), code=3, says=["m.onnx"])

    def test_an_output_folder_that_cannot_be_made_is_named(self):
        self.write("new", b"a file")
        self.predict(linear(), self.write("in.npz", npz({"x": ([2, 2], X)})), code=4, says=["new"])


    @unittest.skipUnless(subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0, "mounts of its own are wanted (root)")
    def test_values_that_memory_cannot_hold_together_are_an_error(self):
        """On a machine of 40 MB, according to /proc/meminfo."""
        data = model([node("ConstantOfShape", ["a"], ["y"]), node("ConstantOfShape", ["b"], ["z"], "second")],
                     [value_info("a", [1], INT64), value_info("b", [1], INT64)], [value_info("y", ["n"]), value_info("z", ["m"])])
        path, small = self.write("m.onnx", data), self.write("meminfo", b"MemTotal: 40000 kB\n")
        for second, code in (4000000, 0), (6000000, 3):
            source = self.write("in.npz", npz({"a": ([1], [5000000], INT64), "b": ([1], [second], INT64)}))
            done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/meminfo && exec "$@"', small, ZTRAIN, "predict",
                                   "--model", path, "--inputs", source, "--output", self.folder / "out"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(f'ztrain: error: {path}: second (ConstantOfShape): output "z" has shape [6000000], '
                      "which is too large for this machine beside 0.0", done.stderr)


class Grad(Case):
    def grad(self, data, files, code=0, says=()):
        path, out = self.write("m.onnx", data), self.folder / "out"
        for name, contents in files.items():
            self.write(f"in/{name}", contents)
        arguments = ["grad", "--model", path, "--inputs", self.folder / "in", "--output", out]
        if code == 0:
            self.run_ztrain(*arguments)
        else:
            self.refused(*arguments, code=code, says=says)
        return out

    def test_without_cotangents_they_are_ones(self):
        out = self.grad(linear(), {"input_0.pb": tensor([2, 2], X)})
        self.assertEqual(read_tensor((out / "grad_input_0.pb").read_bytes()), ([2, 2], FLOAT, [6, 15, 6, 15]))
        self.assertEqual(read_npz(out / "grad_params.npz"), {"w": ([2, 3], [-2] * 3 + [6] * 3), "b": ([3], [2] * 3)})

    def test_a_cotangent_weighs_its_output(self):
        files = {"input_0.pb": tensor([2, 2], X), "grad_output_0.pb": tensor([2, 3], [0, 1, 0, 0, 0, 0])}
        out = self.grad(linear(), files)
        self.assertEqual(read_tensor((out / "grad_input_0.pb").read_bytes())[2], [2, 5, 0, 0])
        self.assertEqual(read_npz(out / "grad_params.npz")["b"][1], [0, 1, 0])

    def test_an_output_without_a_cotangent_contributes_nothing(self):
        data = linear(extra_nodes=[node("Add", ["y", "y"], ["z"])], extra_outputs=[value_info("z", ["n", 3])])
        files = {"input_0.pb": tensor([2, 2], X), "grad_output_1.pb": tensor([2, 3], [0, 0, 0, 0, 0, 1])}
        out = self.grad(data, files)
        self.assertEqual(read_npz(out / "grad_params.npz")["b"][1], [0, 0, 2])

    def test_an_npz_gives_the_same(self):
        path = self.write("in.npz", npz({"x": ([2, 2], X), "grad_output_0": ([2, 3], [0, 1, 0, 0, 0, 0])}))
        self.run_ztrain("grad", "--model", self.write("m.onnx", linear()), "--inputs", path, "--output", self.folder / "out")
        self.assertEqual(read_tensor((self.folder / "out" / "grad_input_0.pb").read_bytes())[2], [2, 5, 0, 0])

    def test_an_input_without_a_path_gets_zeros_and_an_integer_nothing(self):
        data = model([node("Gather", ["x", "i"], ["y"])],
                     [value_info("i", [1], INT64), value_info("unused", [2]), value_info("x", [3])], [value_info("y", [1])])
        out = self.grad(data, {"input_0.pb": tensor([1], [2], INT64), "input_1.pb": tensor([2], [5, 5]),
                               "input_2.pb": tensor([3], [1, 2, 3])})
        self.assertFalse((out / "grad_input_0.pb").exists())
        self.assertEqual(read_tensor((out / "grad_input_1.pb").read_bytes()), ([2], FLOAT, [0, 0]))
        self.assertEqual(read_tensor((out / "grad_input_2.pb").read_bytes()), ([3], FLOAT, [0, 0, 1]))
        self.assertEqual(read_npz(out / "grad_params.npz"), {})

    def test_copies_of_an_initializer_are_tensors_of_their_own_in_torchscript_files_alone(self):
        for producer, gradients in [("pytorch", {"b": ([2], [5, 7]), "c": ([2], [1, 1])}), ("", {"b": ([2], [6, 8])})]:
            data = model([node("Identity", ["b"], ["c"]), node("Mul", ["x", "b"], ["h"]), node("Add", ["h", "c"], ["y"])],
                         [value_info("x", [2])], [value_info("y", [2])], [tensor([2], [3, 4], FLOAT, "b")], producer=producer)
            out = self.grad(data, {"input_0.pb": tensor([2], [5, 7])})
            self.assertEqual(read_npz(out / "grad_params.npz"), gradients)

    def test_a_cotangent_of_another_shape_or_type_is_refused(self):
        x = tensor([2, 2], X)
        self.grad(linear(), {"input_0.pb": x, "grad_output_0.pb": tensor([3], [1, 1, 1])}, code=4,
                  says=["grad_output_0", "[3]", "[2, 3]"])
        self.grad(linear(), {"input_0.pb": x, "grad_output_0.pb": tensor([2, 3], Y, DOUBLE)}, code=4, says=["double", "float"])

    def emit(self, data, inputs, code=0, says=()):
        """Folder of what grad wrote, and the gradient graph."""
        path, source, out, gradient_graph = self.write("m.onnx", data), self.write("in.npz", npz(inputs)), self.folder / "out", self.folder / "gradient_graph.onnx"
        arguments = ["grad", "--model", path, "--inputs", source, "--output", out, "--emit", gradient_graph]
        self.run_ztrain(*arguments) if code == 0 else self.refused(*arguments, code=code, says=says)
        return out, gradient_graph

    def test_the_emitted_graph_gives_the_gradients(self):
        data = model([node("MatMul", ["x", "w"], ["h"]), node("Gelu", ["h"], ["g"]), node("Softmax", ["g"], ["s"]),
                      node("Add", ["s", "b"], ["y"]), node("ArrayFeatureExtractor", ["y", "last"], ["z"], domain="ai.onnx.ml")],
                     [value_info("x", ["n", 2])], [value_info("y", ["n", 3]), value_info("z", ["n", 1])],
                     [tensor([2, 3], W, FLOAT, "w"), tensor([3], B, FLOAT, "b"), tensor([1, 1], [2], INT64, "last")], opset=20, domains=["ai.onnx.ml"])
        cotangent = ([2, 3], [0.5, -1, 2, 1, 0, -3])
        out, gradient_graph = self.emit(data, {"x": ([2, 2], X), "grad_output_0": cotangent})
        source = self.write("gradient_graph.npz", npz({"x": ([2, 2], X), "grad_output_0": cotangent}))
        self.run_ztrain("predict", "--model", gradient_graph, "--inputs", source, "--output", self.folder / "again")
        again, params = read_npz(self.folder / "again" / "outputs.npz"), read_npz(out / "grad_params.npz")
        self.assertEqual(set(again), {"y", "z", "grad_input_0", "grad:w", "grad:b"})
        self.assertEqual(again["z"], ([2, 1], again["y"][1][2::3]))
        for name, want in {"grad_input_0": read_tensor((out / "grad_input_0.pb").read_bytes())[2],
                           "grad:w": params["w"][1], "grad:b": params["b"][1]}.items():
            self.assertTrue(any(want), name)
            for a, b in zip(again[name][1], want):
                self.assertAlmostEqual(a, b, 5, name)

    def test_names_of_emitted_gradients_collide_with_none_of_the_model(self):
        data = model([node("Mul", ["x", "w"], ["grad_input_0"]), node("Relu", ["grad_input_0"], ["grad:w"])], [value_info("x", [2])],
                     [value_info("grad_input_0", [2]), value_info("grad:w", [2])], [tensor([2], [3, 4], FLOAT, "w")])
        _, gradient_graph = self.emit(data, {"x": ([2], [5, 7]), "grad_output_0": ([2], [1, 1])})
        self.run_ztrain("predict", "--model", gradient_graph, "--inputs", self.folder / "in.npz", "--output", self.folder / "again")
        again = read_npz(self.folder / "again" / "outputs.npz")
        self.assertEqual({name: values for name, (_, values) in again.items()},
                         {"grad_input_0": [15, 28], "grad:w": [15, 28], "grad_input_0.2": [3, 4], "grad:w.2": [5, 7]})

    def test_a_cotangent_of_no_output_is_named(self):
        x = {"x": ([2, 2], X)}
        self.emit(linear(), {**x, "grad_output_1": ([2, 3], Y)}, code=4, says=["in.npz: grad_output_1: the model has no such output", "1 output,"])
        self.grad(linear(), {"input_0.pb": tensor([2, 2], X), "grad_output_00.pb": tensor([2, 3], Y)}, code=4,
                  says=["grad_output_00.pb: the model has no such output"])

    def test_no_input_is_written_over_and_no_fifo_replaced(self):
        path, source = self.write("m.onnx", linear()), self.write("outputs.npz", npz({"x": ([2, 2], X)}))
        self.refused("grad", "--model", path, "--inputs", source, "--output", self.folder / "out", "--emit", path, code=4,
                     says=["m.onnx: cannot be written: the command reads it"])
        self.assertEqual(path.read_bytes(), linear())
        self.refused("predict", "--model", path, "--inputs", source, "--output", self.folder, code=4, says=["outputs.npz: cannot be written"])
        for command, name in ("predict", "output_0.pb"), ("grad", "grad_input_0.pb"):
            named = self.write(name, linear())
            self.refused(command, "--model", named, "--inputs", source, "--output", self.folder, code=4, says=[f"{name}: cannot be written: the command reads it"])
            self.assertEqual(named.read_bytes(), linear())
            named.write_bytes(source.read_bytes())
            self.refused(command, "--model", path, "--inputs", named, "--output", self.folder, code=4, says=[f"{name}: cannot be written: the command reads it"])
            self.assertEqual(named.read_bytes(), source.read_bytes())
            named.unlink()
        os.mkfifo(self.folder / "fifo")
        self.refused("grad", "--model", path, "--inputs", source, "--output", self.folder / "out", "--emit", self.folder / "fifo", code=4,
                     says=[f"ztrain: error: {self.folder}/fifo: cannot be written: it is not a regular file"])
        self.refused("grad", "--model", path, "--inputs", self.folder / "fifo", "--output", self.folder / "out", code=4, says=["fifo: not a regular file"])

    def test_an_emitted_gradient_without_a_path_is_zeros(self):
        data = model([node("Relu", ["x"], ["y"])], [value_info("x", [2]), value_info("unused", [3])], [value_info("y", [2])])
        _, gradient_graph = self.emit(data, {"x": ([2], [1, -1]), "unused": ([3], [1, 2, 3])})
        source = self.write("gradient_graph.npz", npz({"x": ([2], [1, -1]), "unused": ([3], [1, 2, 3]), "grad_output_0": ([2], [5, 7])}))
        self.run_ztrain("predict", "--model", gradient_graph, "--inputs", source, "--output", self.folder / "again")
        again = read_npz(self.folder / "again" / "outputs.npz")
        self.assertEqual((again["grad_input_0"][1], again["grad_input_1"][1]), ([5, 0], [0, 0, 0]))

    def test_what_has_no_standard_form_is_named_and_nothing_is_written(self):
        data = model([node("Dropout", ["x", "r", "t"], ["y"], "drop")], [value_info("x", [2])], [value_info("y", [2])],
                     [tensor([], [0.5], FLOAT, "r"), tensor([], [1], BOOL, "t")], opset=13)
        out, gradient_graph = self.emit(data, {"x": ([2], [1, -1])}, code=3, says=["DropoutTrain", "cannot be emitted"])
        self.assertFalse(gradient_graph.exists())
        self.assertFalse((out / "grad_params.npz").exists())


class Inspect(Case):
    def inspect(self, data):
        return self.run_ztrain("inspect", "--model", self.write("m.onnx", data)).stdout

    def test_inputs_outputs_and_verdicts_are_listed(self):
        text = self.inspect(linear())
        self.assertRegex(text, r"(?m)^  x +float\[n, 2\]$")
        self.assertRegex(text, r"(?m)^  y +float\[n, 3\]$")
        self.assertRegex(text, r"(?m)^  w +float\[2, 3\] +trained  \w+")
        self.assertRegex(text, r"(?m)^  MatMul +ai\.onnx +opset 17 +1 x  gradient$")
        self.assertIn("initializers: 2, trained 2; 9 elements, trained 9", text)

    def test_an_unsupported_operator_is_reported_without_failing(self):
        text = self.inspect(linear(extra_nodes=[node("Foo", ["y"], ["z"], "idle", "far.away")]))
        self.assertRegex(text, r"(?m)^  Foo +far\.away .*not supported$")
        self.assertIn("not needed for any output", text)
        text = self.inspect(linear(extra_nodes=[node("Foo", ["y"], ["z"], "busy", "far.away")], extra_outputs=[value_info("z", [])]))
        self.assertIn("some outputs cannot be computed", text)
        self.assertRegex(text, r"(?m)^outputs that do not depend on these.*: y$")
        data = model([node("Foo", ["x"], ["y"], "busy", "far.away")], [value_info("x", [2])], [value_info("y", [2])])
        self.assertIn("this model cannot run", self.inspect(data))

    def test_weights_in_constant_nodes_are_told_of(self):
        held = field(5, field(1, "value") + field(5, tensor([2, 3], W, FLOAT)) + field(20, 4))
        data = model([node("Constant", [], ["w"]) + held, node("MatMul", ["x", "w"], ["y"])],
                     [value_info("x", [1, 2])], [value_info("y", [1, 3])])
        self.assertIn("1 Constant nodes hold float tensors", self.inspect(data))

    def test_external_data_need_not_be_there(self):
        data = model([node("MatMul", ["x", "w"], ["y"])], [value_info("x", [1, 2])], [value_info("y", [1, 3])],
                     [external_tensor([2, 3], "absent.bin", "w")])
        self.assertRegex(self.inspect(data), r"(?m)^  w +float\[2, 3\] +trained")

    def test_equal_initializers_are_paired(self):
        data = model([node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "v"], ["y"])], [value_info("x", [1, 2])],
                     [value_info("y", [1, 2])], [tensor([2, 3], W, FLOAT, "w"), tensor([3, 2], [1, 4, 2, 5, 3, 6], FLOAT, "v")])
        self.assertIn("w = transpose of v", self.inspect(data))

    def test_names_cannot_command_the_terminal(self):
        data = model([node("Relu", ["\x1b[31mx"], ["y"])], [value_info("\x1b[31mx", [2])], [value_info("y", [2])])
        self.assertNotIn("\x1b", self.inspect(data))

    def test_a_file_that_is_not_there_is_named(self):
        self.refused("inspect", "--model", self.folder / "no.onnx", code=3, says=["no.onnx"])


class Train(Case):
    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        x = [rng.uniform(-1, 1) for _ in range(40)]
        y = [a * b for a in (1.0, -2.0) for b in x]
        self.write("data.npz", npz({"x": ([20, 2], x), "target": ([20, 3], (y + y)[:60])}))
        self.write("m.onnx", linear())
        self.config({})

    def config(self, more):
        block = {"data": {"format": "npz", "path": "data.npz", "eval_path": "data.npz"}, "loss": {"type": "mse"}, "epochs": 2}
        whole = {"train_batch_size": 8, "steps_per_print": 2, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
                 "ztrain": {**block, **more}}
        self.write("c.json", json.dumps(whole).encode())

    def train(self, *more, code=0, **options):
        arguments = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run", *more]
        return self.run_ztrain(*arguments, code=code, **options) if code == 0 else self.refused(*arguments, code=code, **options)

    def steps(self):
        return [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]

    def test_a_run_leaves_its_files_and_ends_with_a_hash(self):
        done = self.train()
        self.assertEqual(sorted(p.name for p in (self.folder / "run").iterdir()),
                         ["checkpoints", "config.resolved.json", "memory.jsonl", "metrics.jsonl", "model.onnx", "plan.txt"])
        self.assertRegex(done.stderr.splitlines()[-1], r"^weights: [0-9a-f]{16}$")
        self.assertRegex(done.stderr, r"(?m)^Epoch: 0 \| Batch: 0/3 \| Loss: \d+\.\d{4} \| lr 1\.0e-01 \| \d+ samples/s$")
        rows = [r for r in self.steps() if "eval" not in r]
        self.assertEqual([(r["step"], r["epoch"], r["samples"]) for r in rows],
                         [(1, 0, 8), (2, 0, 8), (3, 0, 4), (4, 1, 8), (5, 1, 8), (6, 1, 4)])
        self.assertEqual([(r["step"], r["epoch"]) for r in self.steps() if r.get("eval")], [(3, 0), (6, 1)])

    def test_former_names_of_fusion_patterns_train_alike_and_resume(self):
        hashes = []
        for names in '["fused_elementwise", "half_propagation"]', '["chain", "half"]':
            self.train("--overwrite", "--set", "ztrain.fuse=" + names, "--steps", "2")
            plan = self.folder / "run" / "plan.txt"
            plan.write_text(plan.read_text() + " fused: chain 3, half 2\n")
            done = self.train("--resume", "--set", "ztrain.fuse=" + names, "--steps", "4")
            hashes.append(done.stderr.splitlines()[-1])
        self.assertRegex(hashes[0], r"^weights: [0-9a-f]{16}$")
        self.assertEqual(hashes[0], hashes[1])

    def test_a_folder_that_holds_a_run_is_kept_unless_told(self):
        self.train()
        before = (self.folder / "run" / "model.onnx").read_bytes()
        self.train("--steps", "1", code=4, says=["run", "--overwrite"])
        self.assertEqual((self.folder / "run" / "model.onnx").read_bytes(), before)
        self.train("--steps", "1", "--overwrite")
        self.assertEqual([r["step"] for r in self.steps() if "eval" not in r], [1])

    def test_the_command_line_wins_over_the_configuration(self):
        self.config({"steps": 2, "seed": 5})
        self.train("--steps=3", "--set", "optimizer.params.lr=0.25")
        self.assertEqual([r["lr"] for r in self.steps() if "eval" not in r], [0.25] * 3)

    def test_what_a_script_gives_has_the_defaults_of_the_trainer(self):
        self.config({})
        config = json.loads((self.folder / "c.json").read_text())
        for key in [k for k in config if k != "ztrain"]:
            del config[key]
        self.write("c.json", json.dumps(config).encode())
        text = self.train().stderr
        for words in ["optimizer is not given: AdamW at lr 5e-5", "no batch size is given: train_micro_batch_size_per_gpu is 8",
                      "gradient_clipping is not given: 0"]:
            self.assertIn(words, text)
        resolved = json.loads((self.folder / "run" / "config.resolved.json").read_text())
        self.assertEqual((resolved["optimizer"]["type"], resolved["optimizer"]["params"]["lr"], resolved["train_batch_size"]),
                         ("AdamW", 5e-5, 8))

    def test_a_second_configuration_lies_over_the_first(self):
        self.config({"steps": 2, "seed": 5})
        self.write("over.json", json.dumps({"optimizer": {"params": {"lr": 0.25}}, "ztrain": {"steps": 3}}).encode())
        self.train("--config", self.folder / "over.json")
        self.assertEqual([r["lr"] for r in self.steps() if "eval" not in r], [0.25] * 3)

    def test_options_of_other_launchers_are_answered(self):
        for option, hint in [("--deepspeed_config", "--config FILE"), ("--num_gpus", "--ranks N"), ("--local_rank=3", "LOCAL_RANK"),
                             ("--nproc-per-node", "--ranks N"), ("--master_port", "MASTER_PORT"), ("--num_nodes", "--hostfile"), ("-H", "--hostfile"), ("-i", "--include")]:
            self.refused("train", option, "4", code=2, says=[f"unknown option {option.split('=')[0]}", "hint: ", hint])

    def test_quiet_leaves_the_last_line_alone(self):
        self.assertRegex(self.train("--quiet").stderr, r"^weights: [0-9a-f]{16}\n$")

    def test_json_lines_are_objects(self):
        for line in self.train("--json").stderr.splitlines():
            self.assertIsInstance(json.loads(line), dict, line)

    def test_errors_among_json_lines_are_plain(self):
        lines = self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run", "--json",
                                "--set", "optimizer.params.weight_decay=1e38", code=1).stderr.splitlines()
        plain = [line for line in lines if not line.startswith("{")]
        self.assertTrue(all(isinstance(json.loads(line), dict) for line in lines if line not in plain), lines)
        self.assertTrue(len(lines) > len(plain) > 0 and plain[0].startswith("ztrain: error: "), lines)
        self.assertTrue(all(line.startswith(("ztrain: error: ", "hint: ")) for line in plain), plain)

    def test_plan_writes_nothing(self):
        before = sorted(self.folder.rglob("*"))
        text = self.run_ztrain("plan", "--model", self.folder / "m.onnx", "--config", self.folder / "c.json", cwd=self.folder).stdout
        self.assertIn("parameters", text)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_a_wrong_key_names_file_line_and_key(self):
        self.config({"epoch": 3})
        self.train(code=2, says=["c.json:1:", "ztrain.epoch", "epochs"])
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
