#!/usr/bin/env python3
"""Trains ConvNet with DeepSpeed's CIFAR-10 config in fp16 and checks that its overflow lines come in pairs, at the period of its tutorial's log.

    fp16_periods.py ZTRAIN ROOT [--window 10] [--periods 3]

The loss scale 65536 is beyond fp16, so the first two steps overflow: one lowers the hysteresis, one halves the scale. After a window of good steps the scale doubles,
and the same two lines follow: a period of window + 2 steps, 1002 with the config's own window of 1000 (--window 1000 --periods 2: some five minutes). The data are
synthetic. Exit status 0: so it is, 1: not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

LINE = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, "
PAIR = [LINE + "but hysteresis is 2. Reducing hysteresis to 1", LINE + "reducing to 32768"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--periods", type=int, default=3)
    a = parser.parse_args()
    period = a.window + 2
    ours = {"ztrain": {"data": {"format": "synthetic", "samples": 4096}, "loss": {"type": "cross_entropy", "target": "target"},
                       "steps": a.periods * period + 2, "checkpoint": {"every_epochs": 0}}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "ours.json").write_text(json.dumps(ours))
        words = [a.ztrain.resolve(), "--model", a.root / "models/convnet.onnx", "--config", a.root / "tests/reference/ds_configs/cifar10_zero2_fp16.json", "--config",
                 folder / "ours.json", "--output", folder / "run", "--set", f"fp16.loss_scale_window={a.window}"]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            print(f"FAIL exit {done.returncode}: {done.stderr[-600:]}")
            return 1
        rows = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    lines = [line for line in done.stderr.splitlines() if "OVERFLOW" in line]
    skipped = [r["step"] - 1 for r in rows if r["skipped"]]  # iterations count from 0
    wanted = [k * period + i for k in range(a.periods + 1) for i in (0, 1)]
    rises = [r["step"] - 1 for before, r in zip(rows, rows[1:]) if r["loss_scale"] > before["loss_scale"]]
    print(f"skipped iterations {skipped}, scale rises for {rises}; {len(lines)} lines")
    holds = skipped == wanted and lines == PAIR * (a.periods + 1) and rises == wanted[2::2]
    print("ok   pairs of overflow lines" if holds else f"FAIL wants {wanted}: {lines}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
