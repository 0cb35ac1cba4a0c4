#!/usr/bin/env python3
"""Trains ConvNet and the small GPT with the DeepSpeed configs of tests/reference/ds_configs as they are, on one rank and on two.

    ds_configs.py ZTRAIN ROOT [--steps 20]

What a script gives DeepSpeed, here the data and the number of steps, is a second --config. A batch that two ranks cannot divide is refused with the
settings that are valid, and trains with one of them laid over. Exit status 0: all hold, 1: one does not.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

DIVIDES = {"full_zero2_offload.json": {"gradient_accumulation_steps": 4}}  # by 2 ranks; 16 = 2 x 8 x 1 alone
checks, failures = 0, 0


def check(holds, what, says=""):
    global checks, failures
    checks += 1
    failures += not holds
    print(f"{'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {says[-1500:]}"))


def ours(root, model):
    data = {"convnet": {"format": "cifar10", "path": str(root / "models/digits")}, "gpt": {"format": "npz", "path": str(root / "models/text/train.npz")}}
    return {"ztrain": {"data": data[model], "loss": {"type": "cross_entropy"}}}


def train(a, folder, model, file, ranks, steps, over=()):
    layers = [ours(a.root, model), *over]
    words = [a.ztrain, "--model", a.root / f"models/{model}.onnx", "--config", file]
    for i, layer in enumerate(layers):
        (folder / f"over-{i}.json").write_text(json.dumps(layer))
        words += ["--config", folder / f"over-{i}.json"]
    words += ["--steps", steps, "--ranks", ranks, "--threads", 1, "--output", folder / "run", "--overwrite"]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=folder)
    rows = []
    if done.returncode == 0:
        rows = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    return done, [r for r in rows if "loss" in r and "step" in r]


def falls(rows, steps):
    """All steps ran, and a step that was applied has a finite loss."""
    losses = [r["loss"] for r in rows if r["loss"] is not None and not r.get("skipped")]
    return bool(len({r["step"] for r in rows}) == steps and losses and all(0 < loss < 20 for loss in losses))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=20)
    a = parser.parse_args()
    a.ztrain, a.root = a.ztrain.resolve(), a.root.resolve()
    files = sorted((a.root / "tests/reference/ds_configs").glob("*.json"))
    check(len(files) == 5, "five files")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for file in files:
            for model in ("convnet", "gpt"):
                for ranks in (1, 2):
                    what = f"{file.name}, {model}, {ranks} rank{'s' * (ranks > 1)}"
                    done, rows = train(a, folder, model, file, ranks, a.steps)
                    if ranks == 2 and file.name in DIVIDES:
                        over = DIVIDES[file.name]
                        offered = [f"{key} {value}" for key, value in over.items()]
                        check(done.returncode == 2 and all(re.search(rf"\b{o}\b", done.stderr) for o in offered), f"{what}: refused with what is valid", done.stderr)
                        done, rows = train(a, folder, model, file, ranks, a.steps, [over])
                        what += f" with {', '.join(offered)}"
                    check(done.returncode == 0 and falls(rows, a.steps), f"{what}: {a.steps} steps", done.stderr)
    print(f"{checks - failures} passed, {failures} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
