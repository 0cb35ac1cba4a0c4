"""What the tests of checkpoints share: a model with a folder for its runs, layouts, and the count of what held."""
import argparse
import contextlib
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

THREAD = ["--set", "ztrain.parallel.communicator=thread"]
# Layouts of 32 samples a step; the micro-batch follows from the rest.
LAYOUTS = {
    "ddp x 1": ["--ranks", "1"],
    "ddp x 2": ["--ranks", "2", *THREAD],
    "zero1 x 2": ["--ranks", "2", *THREAD, "--set", "zero_optimization.stage=1"],
    "zero2 x 4": ["--ranks", "4", *THREAD, "--set", "zero_optimization.stage=2", "--set", "train_micro_batch_size_per_gpu=8"],
    "zero3 x 2": ["--ranks", "2", *THREAD, "--set", "zero_optimization.stage=3"],
    "2 stages x 2": ["--ranks", "4", *THREAD, "--set", "pipeline.stages=2"],
}
# More, each of which meets two others: mode dp, and ranks as processes where there is an mpirun.
MORE = {"dp x 2": ["--ranks", "2", *THREAD, "--set", "ztrain.parallel.mode=dp"]}
if shutil.which("mpirun"):
    MORE["processes, zero2 x 2"] = ["--ranks", "2", "--set", "zero_optimization.stage=2"]
    MORE["processes, 2 stages x 2, zero1"] = ["--ranks", "4", "--set", "pipeline.stages=2", "--set", "zero_optimization.stage=1"]
failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        failures.append(what)
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    return holds


class Bench:
    """A model, its config, and a folder for runs."""

    def __init__(self, args, folder, model, config, *options):
        self.program, self.folder = args.program, pathlib.Path(folder)
        self.before = None  # called in the process of a run before the program starts
        self.folder.mkdir()
        if not isinstance(model, pathlib.Path):
            model, config = args.source / f"models/{model}.onnx", args.source / f"configs/{config}.json"
        self.start = ["--model", model, "--config", config, "--threads", "1", *options]

    def command(self, out, *options):
        return [str(x) for x in [self.program, *self.start, "--output", self.folder / out, *options]]

    def run(self, out, *options, status=0):
        done = subprocess.run(self.command(out, *options), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600,
                              preexec_fn=self.before)
        if done.returncode != status:
            print(f"exit {done.returncode}, not {status}: {' '.join(map(str, options))}\n{done.stderr[-800:]}", file=sys.stderr)
        self.says = done.stderr
        return done.returncode == status

    @contextlib.contextmanager
    def started(self, out, *options):
        """A run underway. With the block it ends, whatever happened there."""
        process = subprocess.Popen(self.command(out, *options), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def rows(self, out):
        """metrics.jsonl without the one field that is about the clock"""
        rows = [json.loads(line) for line in open(self.folder / out / "metrics.jsonl")]
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]

    def model(self, out):
        return (self.folder / out / "model.onnx").read_bytes()

    def checkpoint(self, out, step):
        return self.folder / out / "checkpoints" / f"step-{step}"

    def same(self, one, other):
        return self.rows(one) == self.rows(other) and self.model(one) == self.model(other)

    def verify(self, path):
        return subprocess.run([self.program, "verify", path], capture_output=True, text=True, timeout=60)


def few_images(source, folder, count):
    """A folder of the first `count` digits, and a fifth as many to evaluate on, whose epochs are short."""
    folder.mkdir()
    for name, images in (("data_batch_1.bin", count), ("test_batch.bin", count // 5)):
        (folder / name).write_bytes((source / "models/digits" / name).read_bytes()[:images * (1 + 3 * 32 * 32)])
    return folder


def files(folder):
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir()}


def main(doc, tests, options):
    """Runs them; `options` are (name, default, what for) of whole numbers. The exit status."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", choices=[t.__name__ for t in tests], help="some of them")
    parser.add_argument("--seed", type=int, default=0, help="of what is random here")
    for name, default, what in options:
        parser.add_argument(name, type=int, default=default, help=f"{what} (%(default)s)")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and so would its runs
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the same below nohup
    with tempfile.TemporaryDirectory() as tmp:
        for test in tests:
            if not args.only or test.__name__ in args.only:
                test(args, pathlib.Path(tmp), random.Random(args.seed))
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0
