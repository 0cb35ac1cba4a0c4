#!/usr/bin/env python3
"""Runs the program in several layouts and holds them against each other.

    equivalence.py ZTRAIN SOURCE_ROOT

The same bits: ddp, zero1, zero2 and zero3 on two thread ranks leave equal model files; one, two and three compute threads too.
The same losses: two pipeline stages (1f1b, gpipe), and a batch divided among ranks, against one rank. bf16 within 2 %.
Needs only Python's standard library. Exit status 0: all hold, 1: one does not.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

failures, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


class Case:
    def __init__(self, program, model, config, folder):
        self.program, self.model, self.config, self.folder = program, model, config, pathlib.Path(folder)
        self.runs = 0

    def run(self, *options):
        """rows of metrics.jsonl, bytes of model.onnx; None and the message where the run failed"""
        self.runs += 1
        out = self.folder / str(self.runs)
        done = subprocess.run([self.program, "--model", self.model, "--config", self.config, "--output", out, *options],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        if done.returncode:
            print(done.stderr[-600:], file=sys.stderr)
            return None, b""
        rows = [json.loads(line) for line in open(out / "metrics.jsonl")]
        return [r for r in rows if not r.get("eval")], (out / "model.onnx").read_bytes()


def sets(*pairs):
    return [x for p in pairs for x in ("--set", p)]


def thread_ranks(n, *pairs):
    return ["--ranks", str(n), *sets('ztrain.parallel.communicator=thread', *pairs)]


def worst(rows, reference, key="loss"):
    if not rows or len(rows) != len(reference):
        return float("inf")
    return max(abs(a[key] - b[key]) / max(abs(b[key]), 1e-9) for a, b in zip(rows, reference))


def same_bits_over_stages(case, divide, what):
    """ddp = zero1 = zero2 = zero3, and their losses those of one rank"""
    one, _ = case.run("--threads", "1")
    first, model = case.run("--threads", "1", *thread_ranks(2, *divide, "zero_optimization.stage=0"))
    check(one and worst(first, one) < 1e-5, f"{what}: two ranks give the losses of one (worst {worst(first, one or []):.1e})")
    for stage in (1, 2, 3):
        rows, other = case.run("--threads", "1", *thread_ranks(2, *divide, f"zero_optimization.stage={stage}"))
        check(bool(model) and other == model, f"{what}: zero{stage} leaves the same bits as ddp")
        check(rows is not None and [r["loss"] for r in rows] == [r["loss"] for r in first or []],
              f"{what}: zero{stage} has the same losses as ddp")


def pipeline(case, micro, what):
    one, _ = case.run("--threads", "1")
    for schedule in ("1f1b", "gpipe"):
        rows, _ = case.run("--threads", "1", *thread_ranks(2, "pipeline.stages=2", *micro, f"ztrain.parallel.schedule={schedule}"))
        check(bool(one) and worst(rows, one) < 1e-5, f"{what}: two stages, {schedule}: the losses of one rank (worst {worst(rows, one or []):.1e})")


def threads(case, what):
    _, model = case.run("--threads", "1")
    for n in (2, 3):
        _, other = case.run("--threads", str(n))
        check(bool(model) and other == model, f"{what}: {n} threads leave the same bits as one")


def uneven(case, what):
    """an epoch whose last step of 28 samples leaves the eighth rank with padding alone

    The weights hardly move: over 24 steps of Adam's full size rounding reaches the kink of some ReLU on one side only."""
    whole = ["--steps", "24", "--set", "optimizer.params.lr=1e-6"]
    one, _ = case.run(*whole, "--threads", "1")
    rows, model = case.run(*whole, "--threads", "1", *thread_ranks(8))
    check(bool(one) and one[-1]["samples"] == 28, f"{what}: the last step of an epoch is smaller")
    check(bool(one) and worst(rows, one) < 1e-5, f"{what}: a rank without samples weighs nothing (worst {worst(rows, one or []):.1e})")
    norms = worst(rows, one or [], "grad_norm")
    check(norms < 1e-4, f"{what}: nor does it in the gradient (worst {norms:.1e})")
    _, other = case.run(*whole, "--threads", "1", *thread_ranks(8, "zero_optimization.stage=3"))
    check(bool(model) and other == model, f"{what}: zero3 on eight uneven ranks leaves the same bits as ddp")


def bf16(case, what):
    one, _ = case.run("--threads", "1")
    rows, _ = case.run("--threads", "1", "--set", "bf16.enabled=true")
    check(bool(one) and worst(rows, one) < 0.02, f"{what}: bf16 losses within 2 % of fp32 (worst {worst(rows, one or []):.1e})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("source", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        def case(name, model, config):
            (tmp / name).mkdir()
            return Case(args.program, model, config, tmp / name)
        convnet = case("convnet", args.source / "models/convnet.onnx", args.source / "configs/ds_config.json")
        run = convnet.run
        uneven(convnet, "convnet")
        convnet.run = lambda *o: run("--steps", "6", *o)
        threads(convnet, "convnet")
        same_bits_over_stages(convnet, ["train_micro_batch_size_per_gpu=32", "gradient_accumulation_steps=1"], "convnet")
        pipeline(convnet, ["train_micro_batch_size_per_gpu=16", "gradient_accumulation_steps=4"], "convnet")
        cases = args.source / "tests/reference/cases"
        folder = cases / "mlp-wine-sklearn"
        mlp = case("mlp", folder / "model.onnx", folder / "config.json")
        threads(mlp, "mlp")
        same_bits_over_stages(mlp, ["train_micro_batch_size_per_gpu=8"], "mlp")
        pipeline(mlp, ["train_micro_batch_size_per_gpu=4", "gradient_accumulation_steps=4"], "mlp")
        bf16(mlp, "mlp")
        folder = cases / "resnet-bn-train"
        threads(case("resnet", folder / "model.onnx", folder / "config.json"), "resnet")
        folder = cases / "autoencoder-loss-output"
        lamb = case("lamb", folder / "model.onnx", folder / "config.json")
        same_bits_over_stages(lamb, ["train_micro_batch_size_per_gpu=16"], "lamb")
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
