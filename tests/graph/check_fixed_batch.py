#!/usr/bin/env python3
"""Models exported by PyTorch with a fixed batch, trained at others, against the same models exported with a free one.

    check_fixed_batch.py ZTRAIN [--only NAME]

Both exporters where they can. Each fixed export is trained for three epochs of 22 samples at micro-batches other than its own, the
last of an epoch being smaller again: the losses must be those of the free export. Not in CI: needs torch, onnx, onnxscript and
numpy.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn

warnings.filterwarnings("ignore")


class View(nn.Module):
    """Numbers of the batch in view and reshape."""
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(2, 4, 3), nn.Linear(4 * 16, 3)

    def forward(self, x):
        n = x.shape[0]
        h = torch.relu(self.conv(x.view(n, 2, 6, 6)))
        return self.fc(h.reshape(n, -1))


class Token(nn.Module):
    """A learned token that is expanded to the batch, as in ViT, and attention with heads."""
    def __init__(self):
        super().__init__()
        self.token, self.qkv, self.fc = nn.Parameter(torch.randn(1, 1, 8) * 0.1), nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        n = x.shape[0]
        x = torch.cat([self.token.expand(n, -1, -1), x], 1)
        q, k, v = self.qkv(x).view(n, x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        h = torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v
        return self.fc(h.transpose(1, 2).reshape(n, x.shape[1], 8)[:, 0])


class Repeat(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.fc = nn.Parameter(torch.randn(1, 2, 5)), nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(torch.cat([x, self.token.repeat(x.shape[0], 1, 1)], 1)).mean(1)


class Lstm(nn.Module):
    """States of zeros, made for the batch."""
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        h = torch.zeros(1, x.shape[0], 6)
        y, _ = self.lstm(x, (h, h))
        return self.fc(y[:, -1])


class Flat(nn.Module):
    """The batch is merged with the time and taken apart again."""
    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(5, 4), nn.Linear(4 * 3, 3)

    def forward(self, x):
        n, t, c = x.shape
        h = torch.tanh(self.fc(x.reshape(n * t, c))).reshape(n, t * 4)
        return self.out(h)


class Experts(nn.Module):
    """A mixture of experts: each token goes to one of three, which reads and adds to the rows it was given."""
    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Linear(5, 3), nn.Linear(5, 3)
        self.experts = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))

    def forward(self, x):
        n, t, c = x.shape
        h = x.reshape(-1, c)
        share, which = torch.softmax(self.gate(h), -1).max(-1)
        y = torch.zeros_like(h)
        for k, expert in enumerate(self.experts):
            rows = torch.nonzero(which == k)[:, 0]
            y = y.index_add(0, rows, torch.tanh(expert(h[rows])) * share[rows, None])
        return self.out(y.reshape(n, t, c).mean(1))


MODELS = {"view": (View, (2, 6, 6)), "token": (Token, (4, 8)), "repeat": (Repeat, (3, 5)), "lstm": (Lstm, (4, 5)), "flat": (Flat, (3, 5)), "experts": (Experts, (6, 5))}
# Of a batch of 1, the dynamo exporter leaves the Expand of a token out. (Of 8 it folds the token into a weight of 8 equal rows.)
REFUSED = [("token", True, 1), ("repeat", True, 1)]
SAMPLES = 22
passed = failures = 0


def report(name, problem):
    global passed, failures
    passed += not problem
    failures += bool(problem)
    print(f"FAIL {name}: {problem}" if problem else f"ok   {name}", flush=True)


def export(module, shape, batch, free, dynamo, path):
    sample = torch.randn(batch, *shape)
    if dynamo:
        dims = {"x": {0: torch.export.Dim("n", min=2, max=64)}} if free else None
        torch.onnx.export(module, (sample,), path, input_names=["x"], output_names=["y"], dynamo=True, dynamic_shapes=dims,
                          external_data=False, verbose=False)
    else:
        torch.onnx.export(module, (sample,), path, input_names=["x"], output_names=["y"], dynamo=False, opset_version=17,
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}} if free else None)


def train(ztrain, model, data, micro, out):
    config = {"train_batch_size": micro, "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
              "ztrain": {"data": {"format": "npz", "path": str(data), "shuffle": False}, "epochs": 3,
                         "loss": {"type": "cross_entropy", "logits": "y"}}}
    (out.parent / "c.json").write_text(json.dumps(config))
    done = subprocess.run([ztrain, "--model", model, "--config", out.parent / "c.json", "--output", out, "--overwrite"],
                          capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    return [json.loads(line)["loss"] for line in open(out / "metrics.jsonl")], ""


def check(ztrain, fixed, free, data, micro, folder):
    losses, said = train(ztrain, fixed, data, micro, folder / "fixed")
    wanted, why = train(ztrain, free, data, micro, folder / "free")
    if losses is None or wanted is None:
        return said if losses is None else f"the free export does not train: {why}"
    worst = max(abs(a - b) for a, b in zip(losses, wanted))
    return "" if len(losses) == len(wanted) and worst < 1e-6 else f"losses are off by {worst:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, (kind, shape) in MODELS.items():
            if options.only not in name:
                continue
            rng = np.random.default_rng(1)
            np.savez(folder / "data.npz", x=rng.standard_normal((SAMPLES, *shape)).astype(np.float32),
                     target=rng.integers(0, 3, SAMPLES))
            for dynamo in (True, False):
                for batch in (8, 1):
                    torch.manual_seed(0)
                    module = kind().eval()
                    fixed, free = folder / "fixed.onnx", folder / "free.onnx"
                    title = f"{name}, {'dynamo' if dynamo else 'TorchScript'}, exported for {batch}"
                    try:
                        export(module, shape, batch, False, dynamo, fixed)
                        export(module, shape, 4, True, dynamo, free)
                    except Exception as problem:  # the exporter's own affair
                        print(f"not exported: {title}: {str(problem)[:200]}")
                        continue
                    for micro in (4, 8, 7, 16):
                        if (name, dynamo, batch) in REFUSED:
                            _, said = train(options.ztrain, fixed, folder / "data.npz", micro, folder / "out")
                            report(f"{title}, refused at {micro}", "" if "node_cat (Concat)" in str(said) else f"not refused: {said}")
                        else:
                            report(f"{title}, trained at {micro}", check(options.ztrain, fixed, free, folder / "data.npz", micro, folder))
    print(f"{passed} passed, {failures} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
