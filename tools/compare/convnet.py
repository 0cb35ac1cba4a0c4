"""The job that tools/compare_ranks and tools/gpu_suite time: the sample ConvNet, batch 256, fp32, Adam, random batches of the digits."""
import json
import pathlib
import statistics

from machine import ROOT, Problem

MODEL, DATA = ROOT / "models" / "convnet.onnx", ROOT / "models" / "digits"
BATCH, WARMUP, STEPS = 256, 5, 60
CONFIG = {"train_batch_size": BATCH, "steps_per_print": 1000,
          "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "weight_decay": 0.0}},
          "ztrain": {"data": {"format": "cifar10", "path": str(DATA), "drop_last": True,
                              "normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}},
                     "loss": {"type": "cross_entropy"}, "metrics": [], "seed": 0, "checkpoint": {"every_epochs": 0}}}


def step_ms(result):
    return 1e3 * statistics.median(result["seconds"][WARMUP:])


def read_rows(metrics, steps, batch=BATCH):
    """The training rows of a metrics.jsonl: `steps` of whole batches, or a Problem."""
    rows = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines()]
    rows = [row for row in rows if not row.get("eval")]
    if len(rows) != steps or any(row["samples"] != batch for row in rows):
        raise Problem(f"{metrics}: {len(rows)} steps of {sorted({r['samples'] for r in rows})} samples, expected {steps} of {batch}")
    return rows


def same_job(what, ours, theirs, within=(0.05, None)):
    """A Problem unless first and last losses agree `within` these shares of the first one (None: any). With the same weights and data, but
    other random batches, the first losses agree to a few per cent."""
    for which, ours_is, theirs_is, share in zip(("first", "last"), ours["losses"], theirs["losses"], within):
        if share and not abs(ours_is - theirs_is) <= share * abs(theirs["losses"][0]):
            raise Problem(f"{what}: not the same job, the {which} loss is {ours_is:.6g} in ztrain and {theirs_is:.6g}")
