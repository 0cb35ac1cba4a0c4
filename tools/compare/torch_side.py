#!/usr/bin/env python3
"""The PyTorch half of tools/compare_torch: trains a network of torch_networks.py and prints what it measured as a line of JSON.

    torch_side.py prepare FOLDER JOB...     writes what both sides start from: JOB.onnx, JOB.pt with the same weights, JOB/*.npy with data
    torch_side.py train FOLDER JOB [--variant eager|compile] [--threads N] [--steps N]

`train` prints {"first": loss} as soon as the first step is done, and {"seconds": [...], "loss": last} at the end. A step is
timed from the fetch of its batch to the end of the optimizer's update. Batches are cut and images brought to channels_last before the
first step, which is more than ztrain does ahead of time.
"""
import argparse
import contextlib
import json
import pathlib
import time
import warnings

import numpy as np
import torch
from torch.nn import functional as F

from torch_networks import NETWORKS
from torch_rows import BATCHES, JOBS, RATE


LOSSES = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss,
          "bce_with_logits": F.binary_cross_entropy_with_logits}
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by the axes of a tensor


def arrays(job):
    random = np.random.default_rng(0)

    def array(shape, values):
        shape = (BATCHES * job.batch, *shape)
        return random.integers(values, size=shape) if values else random.standard_normal(shape, np.float32)

    return {name: array(*of) for name, of in {**job.inputs, "target": job.target}.items()}


def prepare(options):
    from torch_torchscript import export
    for job in (JOBS[name] for name in options.job):
        torch.manual_seed(0)
        model, columns, data = NETWORKS[job.network]().train(), arrays(job), options.folder / job.name
        torch.save(model.state_dict(), options.folder / f"{job.name}.pt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this exporter is deprecated
            export(model, {name: torch.from_numpy(columns[name][:2]) for name in job.inputs}, options.folder / f"{job.name}.onnx")
        data.mkdir()
        for name, column in columns.items():
            np.save(data / f"{name}.npy", column)


def batches(job, folder):
    """[(inputs, target)], images in channels_last"""
    columns = [torch.from_numpy(np.load(folder / job.name / f"{name}.npy")) for name in [*job.inputs, "target"]]
    columns = [c.contiguous(memory_format=LAST[c.dim()]) if c.dim() in LAST else c for c in columns]
    return [(inputs, target) for *inputs, target in zip(*(c.split(job.batch) for c in columns))]


def loss_function(job, model):
    kind = LOSSES[job.loss()]

    def loss_of(inputs, target):
        with torch.autocast("cpu", torch.bfloat16) if job.bf16 else contextlib.nullcontext():
            output = model(*inputs)
        output = output.float()
        return kind(output.flatten(0, -2), target.flatten()) if job.target[1] else kind(output, target)

    return loss_of


def train(options):
    torch.set_num_threads(options.threads)
    job = JOBS[options.job[0]]
    model = NETWORKS[job.network]().train()
    model.load_state_dict(torch.load(options.folder / f"{job.name}.pt"))
    model = model.to(memory_format=LAST[5 if any(p.dim() == 5 for p in model.parameters()) else 4])
    optimizer = getattr(torch.optim, job.optimizer)(model.parameters(), lr=RATE, fused=True)
    data, loss_of, seconds = batches(job, options.folder), loss_function(job, model), []
    if options.variant == "compile":
        loss_of = torch.compile(loss_of)
    for step in range(options.steps):
        start = time.perf_counter()
        loss = loss_of(*data[step % BATCHES])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        seconds.append(time.perf_counter() - start)
        if step == 0:
            print(json.dumps({"first": value}), flush=True)
    print(json.dumps({"seconds": seconds, "loss": value, "torch": torch.__version__}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["prepare", "train"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("job", nargs="+", choices=JOBS)
    parser.add_argument("--variant", choices=["eager", "compile"], default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    {"prepare": prepare, "train": train}[options.mode](options)


if __name__ == "__main__":
    main()
