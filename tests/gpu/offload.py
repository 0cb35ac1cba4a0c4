#!/usr/bin/env python3
"""Offload from a CUDA device: the host's update leaves the bits of the device's, in fp32, bf16 and fp16, and so does resuming.

    tests/gpu/offload.py ZTRAIN MODULE SOURCE_ROOT

MODULE: a CUDA module, emulated or not. Needs only Python's standard library. Exit status 0: all hold, 1: one does not, 77: the module
finds no GPU.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


class Runs:
    def __init__(self, program, source, folder):
        self.program, self.source, self.folder, self.count = program, source, folder, 0
        (folder / "nvme").mkdir()

    def __call__(self, *sets, ranks=1, steps=8, resume=(), status=0):
        """Rows of metrics.jsonl without the clock, and model.onnx."""
        self.count += 1
        self.out = self.folder / f"run-{self.count}"
        words = [self.program, "--model", self.source / "models/mlp.onnx", "--config", self.source / "configs/mlp.json", "--device", "cuda",
                 "--output", self.out, "--threads", 1, "--ranks", ranks, "--steps", steps, *resume]
        for pair in ["ztrain.parallel.communicator=thread", *sets]:
            words += ["--set", pair]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300)
        self.says = done.stderr
        if done.returncode != status:
            print(f"exit {done.returncode}, not {status}\n{done.stderr[-900:]}", file=sys.stderr)
            return None, None
        if status:
            return None, None
        rows = [json.loads(line) for line in open(self.out / "metrics.jsonl")]
        return [{k: v for k, v in r.items() if k != "seconds"} for r in rows], (self.out / "model.onnx").read_bytes()

    def away(self, kind, device, *more):
        """Settings that put states ("optimizer") or parameters ("param") elsewhere."""
        pairs = [f"device={device}", *more, *([f"nvme_path={self.folder}/nvme"] if device == "nvme" else [])]
        return [f"zero_optimization.offload_{kind}.{pair}" for pair in pairs]


WIDTHS = {"fp32": ["bf16.enabled=false"], "bf16": [], "fp16": ["bf16.enabled=false", "fp16.enabled=true", "fp16.initial_scale_power=17",
                                                               "fp16.loss_scale_window=3", "fp16.hysteresis=1"]}


def keeps_bits(run):
    for name, width in WIDTHS.items():
        base = [*width, "zero_optimization.stage=3", "gradient_clipping=0.5", "optimizer.type=AdamW", 'optimizer.params={"lr": 0.01}',
                "train_batch_size=40"]
        ways = {"states on the host": run.away("optimizer", "cpu"),
                "states in files": run.away("optimizer", "nvme", "pipeline_read=true", "pipeline_write=true"),
                "all on the host": run.away("optimizer", "cpu") + run.away("param", "cpu"),
                "all in files": run.away("optimizer", "nvme") + run.away("param", "nvme", "max_in_cpu=0"),
                "a part of the states": run.away("optimizer", "cpu", "ratio=0.5")}
        for ranks in (1, 2):
            rows, model = run(*base, ranks=ranks)
            if name == "fp16":
                check(rows and any(r["skipped"] for r in rows) and not all(r["skipped"] for r in rows), "fp16: some steps are skipped")
            for what, sets in ways.items():
                there, other = run(*base, *sets, ranks=ranks)
                check(model and other == model and there == rows, f"{name}, {ranks} rank{'s' * (ranks > 1)}, {what}: the same rows and model")


def resumes(run):
    base = ["zero_optimization.stage=3", "ztrain.checkpoint.every_steps=4", "ztrain.checkpoint.keep=0", "optimizer.type=Lamb",
            'optimizer.params={"lr": 0.01}']
    ways = {"device": [], "host": run.away("optimizer", "cpu") + run.away("param", "cpu"),
            "files": run.away("optimizer", "nvme") + run.away("param", "nvme", "max_in_cpu=0")}
    rows, model = run(*base)
    saved = run.out / "checkpoints/step-4"
    for what, sets in ways.items():
        run(*base, *sets)
        own = run.out / "checkpoints/step-4"
        same = all((own / f).read_bytes() == (saved / f).read_bytes() for f in ("weights.safetensors", "optimizer.safetensors"))
        check(same, f"{what}: a checkpoint has the same bytes")
        again, other = run(*base, *sets, resume=["--resume", saved])
        check(model and other == model and again == rows[4:], f"{what}: goes on from a checkpoint of the device")
        again, other = run(*base, resume=["--resume", own])
        check(model and other == model and again == rows[4:], f"{what}: its checkpoint goes on on the device")


def averages(run):
    """Muon's matrices and the average of the weights; evaluation and model.onnx have the average"""
    for optimizer in ('{"type": "AdamW", "params": {"lr": 0.01}}', '{"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.01}}'):
        base = ["zero_optimization.stage=3", f"optimizer={optimizer}", "ztrain.ema=0.75", "train_batch_size=40",
                "ztrain.checkpoint.every_steps=4", "ztrain.checkpoint.keep=0"]
        ways = {"states on the host": run.away("optimizer", "cpu"), "states in files": run.away("optimizer", "nvme", "pipeline_read=true"),
                "all on the host": run.away("optimizer", "cpu") + run.away("param", "cpu"),
                "all in files": run.away("optimizer", "nvme") + run.away("param", "nvme", "max_in_cpu=0")}
        for ranks in (1, 2):
            name = f"{optimizer[10:14]} with average, {ranks} rank{'s' * (ranks > 1)}"
            rows, model = run(*base, ranks=ranks)
            saved = run.out / "checkpoints/step-4"
            for what, sets in ways.items():
                there, other = run(*base, *sets, ranks=ranks)
                check(model and other == model and there == rows, f"{name}, {what}: the same rows and model")
                again, other = run(*base, *sets, ranks=ranks, resume=["--resume", saved])
                check(model and other == model and again == rows[4:], f"{name}, {what}: goes on from a checkpoint of the device")


def refuses(run):
    base = ["zero_optimization.stage=3"]
    run(*base, *run.away("param", "cpu"), status=2)
    check('offload_param.device: "cpu" needs offload_optimizer with ratio 1 on a GPU' in run.says, "parameters without states are refused")
    run(*base, *run.away("optimizer", "cpu", "ratio=0"), *run.away("param", "cpu"), "optimizer.type=Muon", 'optimizer.params={"lr": 0.02}', status=2)
    check('offload_param.device: "cpu" needs offload_optimizer with ratio 1 on a GPU' in run.says, "nor with a ratio of 0")


def keeps_tensors_whole(run):
    """Optimizers of whole tensors have all states on one side, with the same bits, and the start says so."""
    for name in ("Lamb", "Muon"):
        base = ["zero_optimization.stage=3", f'optimizer={{"type": "{name}", "params": {{"lr": 0.01}}}}', "train_batch_size=40"]
        for ranks in (1, 2):
            rows, model = run(*base, ranks=ranks)
            for ratio, told in (("0.5", True), ("1", False), ("0", False)):
                there, other = run(*base, *run.away("optimizer", "cpu", f"ratio={ratio}"), ranks=ranks)
                check(model and other == model and there == rows, f"{name}, ratio {ratio}, {ranks} rank{'s' * (ranks > 1)}: the same rows and model")
                says = f"offload_optimizer.ratio = {ratio} ({name} updates whole tensors, which the host does: all states are offloaded)"
                check((says in run.says) == told, f"{name}, ratio {ratio}: the start tells where a ratio has no effect")


def main():
    program, module, source = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for file in (program, module):
            shutil.copy(file, scratch)
        run = Runs(scratch / "ztrain", source, scratch)
        rows, _ = run("bf16.enabled=false", steps=1)
        if not rows and "no CUDA device" in run.says:
            print("SKIP: no GPU")
            return 77
        for part in (keeps_bits, keeps_tensors_whole, resumes, averages, refuses):
            part(run)
        check(not list((scratch / "nvme").iterdir()), "nothing is left in files")
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
