#!/usr/bin/env python3
"""Files that change while ztrain reads them: each command ends with code 4 and the file's name, and writes nothing from them.

    changed_files.py ZTRAIN SOURCE_ROOT CUT_LIBRARY [TEST ...]

CUT_LIBRARY (cut.c) cuts a file just after it was mapped.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from onnx_bytes import FLOAT, external_tensor, model, node, npz, tensor, value_info

N = 256  # of a matrix: 256 KiB


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ztrain-changed-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def command(self, name, *options):
        return [str(x) for x in [PROGRAM, name, *options]]

    def cut(self, path, size, *command, nth=1):
        """Runs the command; `path` has `size` bytes from the moment on at which it was mapped."""
        before = path.stat().st_size
        environment = dict(os.environ, LD_PRELOAD=CUT, ZT_CUT=f"{size} {nth} {path}", GOMP_SPINCOUNT="3000")
        done = subprocess.run(self.command(*command), capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual(path.stat().st_size, size, "the file was not mapped")
        return done, f"ztrain: error: {path}: changed while it was read (was {before} bytes, is {size})\n"

    def assertChanged(self, done, says):
        self.assertEqual((done.returncode, done.stderr.count("ztrain: error:")), (4, 1), done.stderr)
        self.assertIn(says, done.stderr)

    def assertNothingBut(self, *names):
        found = sorted(str(p.relative_to(self.out)) for p in self.out.rglob("*")) if self.out.exists() else []
        self.assertEqual(found, sorted(names))


class Mapped(Case):
    """One cut just after the mapping, for each kind of file."""

    def write_model(self):
        (self.folder / "w.bin").write_bytes(bytes(4 * N * N))
        inside = tensor([N, N], [0.5] * (N * N), FLOAT, "v")
        self.model = self.folder / "model.onnx"
        self.model.write_bytes(model([node("MatMul", ["x", "v"], ["h"], "first"), node("MatMul", ["h", "w"], ["y"], "second")],
                                     [value_info("x", ["n", N])], [value_info("y", ["n", N])], [inside, external_tensor([N, N], "w.bin", "w")], 17))
        self.inputs = self.folder / "x.npz"
        self.inputs.write_bytes(npz({"x": ([64, N], [1.0] * (64 * N), FLOAT)}))

    def test_predict_and_grad_name_the_model(self):
        for command in ("predict", "grad"):
            for name, size in [("model.onnx", 5000), ("model.onnx", 0), ("w.bin", 100), ("w.bin", 4 * N * N - 1)]:
                with self.subTest(command=command, file=name, size=size):
                    self.write_model()
                    done, says = self.cut(self.folder / name, size, command, "--model", self.model, "--inputs", self.inputs,
                                          "--output", self.out)
                    self.assertChanged(done, says)
                    self.assertNothingBut()

    def test_predict_names_its_inputs(self):
        self.write_model()
        done, says = self.cut(self.inputs, 200, "predict", "--model", self.model, "--inputs", self.inputs, "--output", self.out,
                              nth=2)  # it is opened once more before, for the magic of a .npy file
        self.assertChanged(done, says)
        (self.folder / "in").mkdir()
        one = self.folder / "in/input_0.pb"
        one.write_bytes(tensor([64, N], [1.0] * (64 * N), FLOAT, "x"))
        done, says = self.cut(one, 200, "predict", "--model", self.model, "--inputs", one.parent, "--output", self.out)
        self.assertChanged(done, says)
        self.assertNothingBut()

    def test_inspect_and_plan_name_the_model(self):
        for size in (0, 4096, 100000):
            path = self.folder / "convnet.onnx"
            shutil.copy(ROOT / "models/convnet.onnx", path)
            done, says = self.cut(path, size, "inspect", "--model", path)
            self.assertChanged(done, says)
            shutil.copy(ROOT / "models/convnet.onnx", path)
            done, says = self.cut(path, size, "plan", "--model", path, "--config", ROOT / "configs/ds_config.json")
            self.assertChanged(done, says)

    def test_train_and_evaluate_name_model_data_and_config(self):
        source = {"convnet.onnx": "models/convnet.onnx", "config.json": "configs/ds_config.json",
                  "data_batch_1.bin": "models/digits/data_batch_1.bin", "test_batch.bin": "models/digits/test_batch.bin"}
        for command in ("train", "evaluate"):
            for name, size in [("convnet.onnx", 4096), ("config.json", 0), ("data_batch_1.bin", 30000), ("test_batch.bin", 30000)]:
                if (command, name) == ("evaluate", "data_batch_1.bin"):
                    continue
                with self.subTest(command=command, file=name):
                    for to, origin in source.items():
                        shutil.copyfile(ROOT / origin, self.folder / to)
                    more = ["--output", self.out, "--steps", "30"] if command == "train" else []
                    done, says = self.cut(self.folder / name, size, command, "--model", self.folder / "convnet.onnx", "--config",
                                          self.folder / "config.json", "--data", f"cifar10:{self.folder}", *more)
                    self.assertChanged(done, says)
                    self.assertFalse((self.out / "model.onnx").exists())
                    shutil.rmtree(self.out, ignore_errors=True)

    def test_npz_data_are_named(self):
        data = self.folder / "flat.npz"
        shutil.copyfile(ROOT / "models/digits/flat_train.npz", data)
        done, says = self.cut(data, 20000, "train", "--model", ROOT / "models/mlp.onnx", "--config", ROOT / "configs/mlp.json",
                              "--data", f"npz:{data}", "--output", self.out)
        self.assertChanged(done, says)

    def test_npy_data_are_named(self):
        folder = self.folder / "arrays"
        with zipfile.ZipFile(ROOT / "models/digits/flat_train.npz") as arrays:
            arrays.extractall(folder)
        largest = max(folder.iterdir(), key=lambda path: path.stat().st_size)
        done, says = self.cut(largest, 20000, "train", "--model", ROOT / "models/mlp.onnx", "--config", ROOT / "configs/mlp.json",
                              "--data", f"npy:{folder}", "--output", self.out)
        self.assertChanged(done, says)

    def test_checkpoints_are_named(self):
        start = ["--model", ROOT / "models/convnet.onnx", "--config", ROOT / "configs/ds_config.json", "--output", self.out]
        for name, size, nth in [("weights.safetensors", 5000, 1), ("optimizer.safetensors", 5000, 1), ("manifest.json", 10, 1)]:
            for command in ("verify", "train"):
                with self.subTest(command=command, file=name):
                    done = subprocess.run(self.command("train", *start, "--steps", "1", "--quiet", "--overwrite"), capture_output=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    before = (self.out / "model.onnx").read_bytes()
                    path = self.out / "checkpoints/step-1" / name
                    more = [*start, "--resume", "--steps", "2"] if command == "train" else [self.out]
                    done, says = self.cut(path, size, command, *more, nth=nth)
                    self.assertChanged(done, says)
                    self.assertEqual((self.out / "model.onnx").read_bytes(), before)


class Links(Case):
    """A file with several names: reading takes any of them, writing changes one."""

    def test_external_data_may_be_a_hard_link_but_no_symbolic_one(self):
        data, w = self.folder / "elsewhere.bin", self.folder / "w.bin"
        data.write_bytes(bytes(4 * N * N))
        (self.folder / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [value_info("x", ["n", N])],
                                                   [value_info("y", ["n", N])], [external_tensor([N, N], "w.bin", "w")], 17))
        (self.folder / "x.npz").write_bytes(npz({"x": ([1, N], [1.0] * N, FLOAT)}))
        for link, code in [(os.link, 0), (os.symlink, 3)]:
            link(data, w)
            done = subprocess.run(self.command("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "x.npz", "--output",
                                               self.out), capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            w.unlink()

    def test_a_run_leaves_the_other_names_of_its_files_as_they_were(self):
        start = ["--model", ROOT / "models/mlp.onnx", "--config", ROOT / "configs/mlp.json", "--output", self.out, "--quiet"]
        for again in (["--overwrite", "--seed", "7", "--steps", "3"], ["--resume", "--steps", "9"]):
            first = self.command("train", *start, "--overwrite", "--steps", "5", "--set", "ztrain.checkpoint.every_steps=3", "--set",
                                 "ztrain.hashes=2")
            subprocess.run(first, check=True, capture_output=True)
            copy = self.folder / again[0]
            shutil.copytree(self.out, copy, copy_function=os.link)
            before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
            self.assertGreater(len(before), 8)
            done = subprocess.run(self.command("train", *start, *again, "--set", "ztrain.hashes=2"), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotEqual((self.out / "metrics.jsonl").read_bytes(), before[copy / "metrics.jsonl"])
            for path, data in before.items():
                self.assertEqual(path.read_bytes(), data, path)


class Underway(Case):
    """Files of a run that is stepping."""

    def setUp(self):
        super().setUp()
        for origin in ("models/digits/data_batch_1.bin", "models/digits/test_batch.bin", "models/convnet.onnx"):
            shutil.copyfile(ROOT / origin, self.folder / pathlib.Path(origin).name)

    def run_until(self, change, *options):
        """Starts a run without end, and after some steps `change`s something; its code and what it said."""
        command = self.command("train", "--model", self.folder / "convnet.onnx", "--config", ROOT / "configs/ds_config.json", "--data",
                               f"cifar10:{self.folder}", "--output", self.out, "--steps", "1000000", "--threads", "1", *options)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                metrics = self.out / "metrics.jsonl"
                self.assertTrue(wait_for(lambda: process.poll() is not None or metrics.exists() and metrics.read_bytes().count(b"\n") > 3))
                change(process)
                says = process.communicate(timeout=60)[1]
            finally:
                process.kill()
        return process.returncode, says

    def layouts(self):
        two = ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=32"]
        yield "one", []
        yield "threads", [*two, "--set", "ztrain.parallel.communicator=thread"]
        if shutil.which("mpirun"):
            yield "processes", two

    def test_a_run_ends_with_the_file_that_changed(self):
        def resize(name, size):
            def change(process):  # a running one may see the new time before the new size
                process.send_signal(signal.SIGSTOP)
                os.truncate(self.folder / name, size)
                process.send_signal(signal.SIGCONT)
            return change

        def rewrite(process):
            with open(self.folder / "data_batch_1.bin", "r+b") as file:
                file.write(b"\0")

        changes = [("data_batch_1.bin", resize("data_batch_1.bin", 3073 * 700 + 11), f"was 4609500 bytes, is {3073 * 700 + 11}"),
                   ("data_batch_1.bin", resize("data_batch_1.bin", 0), "was 4609500 bytes, is 0"),
                   ("data_batch_1.bin", resize("data_batch_1.bin", 3073 * 1600), f"was 4609500 bytes, is {3073 * 1600}"),
                   ("data_batch_1.bin", rewrite, "written to, 4609500 bytes as before"),
                   ("test_batch.bin", resize("test_batch.bin", 100), "was 912681 bytes, is 100"),
                   ("convnet.onnx", resize("convnet.onnx", 0), "was 1264983 bytes, is 0")]
        for layout, options in self.layouts():
            for name, change, how in changes:
                with self.subTest(layout=layout, file=name, how=how):
                    self.setUp()
                    code, says = self.run_until(change, *options)
                    self.assertEqual((code, says.count("ztrain: error:")), (4, 1), says)
                    self.assertIn(f"{self.folder / name}: changed while it was read ({how})", says)
                    self.assertFalse((self.out / "model.onnx").exists())
                    self.assertEqual([p for p in self.out.rglob("*") if "tmp" in p.name], [])

    def test_a_checkpoint_that_was_asked_for_is_saved(self):
        """The data are cut in the same moment: steps whose samples were read before are whole."""
        def change(process):
            process.send_signal(signal.SIGSTOP)
            os.truncate(self.folder / "test_batch.bin", 100)
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        code, says = self.run_until(change, "--set", "ztrain.checkpoint.every_epochs=0")
        self.assertEqual((code, says.count("error")), (128 + signal.SIGTERM, 0), says)
        self.assertEqual(subprocess.run(self.command("verify", self.out), capture_output=True).returncode, 0)

    def test_a_file_that_is_replaced_is_kept_by_who_reads_it(self):
        def change(process):
            for name in ("data_batch_1.bin", "convnet.onnx"):
                (self.folder / "new").write_bytes(b"other")
                os.replace(self.folder / "new", self.folder / name)
            os.remove(self.folder / "test_batch.bin")
            rows = (self.out / "metrics.jsonl").read_bytes().count(b"\n")
            self.assertTrue(wait_for(lambda: (self.out / "metrics.jsonl").read_bytes().count(b"\n") > rows + 50))
            process.send_signal(signal.SIGTERM)
        code, says = self.run_until(change)
        self.assertEqual(code, 128 + signal.SIGTERM, says)


if __name__ == "__main__":
    PROGRAM, ROOT, CUT = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    del sys.argv[1:4]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
