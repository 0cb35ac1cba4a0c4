#!/usr/bin/env python3
"""The other half of tools/compare_ranks: one rank of PyTorch's DistributedDataParallel, or of DeepSpeed's ZeRO, on the CPU.

    ranks_side.py MODEL.onnx --data FOLDER --engine ddp|zero1|zero2|zero3 [--variant eager|compile] [--batch N] [--steps N]

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say which rank. Rank 0 prints {"seconds": [...], "losses": [first, last],
"versions": ...} at the end. A step is timed as in torch_side.py; its loss is the mean over the ranks. Images are converted, normalised
and brought to channels_last before the first step, which is more than ztrain does ahead of time. Each rank takes every WORLD_SIZE-th
sample of a batch.
"""
import argparse
import json
import os
import pathlib
import time

import onnx
import torch
import torch.distributed as dist
from onnx import numpy_helper

from torch_networks import NETWORKS

RATE = 1e-3
MEAN, STD = 0.5, 0.5  # as in the configuration that compare_ranks gives ztrain


def load_model(path):
    """The sample ConvNet, whose initializers have the names of its parameters."""
    model = NETWORKS["convnet"]()
    model.load_state_dict({i.name: torch.tensor(numpy_helper.to_array(i).copy()) for i in onnx.load(path).graph.initializer})
    return model


def load_images(folder):
    raw = b"".join(p.read_bytes() for p in sorted(pathlib.Path(folder).glob("data_batch_*.bin")))
    records = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).float().div_(255).sub_(MEAN).div_(STD)
    return images.contiguous(memory_format=torch.channels_last), records[:, 0].long()


def batches(count, batch):
    """Index tensors of whole batches, epoch after epoch, each epoch a new permutation."""
    while True:
        order = torch.randperm(count)
        for start in range(0, count - batch + 1, batch):
            yield order[start:start + batch]


def adam(parameters):
    return torch.optim.Adam(parameters, lr=RATE, fused=True)


class Ddp:
    def __init__(self, model, options):
        dist.init_process_group("gloo")
        self.model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
        self.optimizer = adam(model.parameters())
        self.run = torch.compile(self.model) if options.variant == "compile" else self.model

    def step(self, loss_of):
        loss = loss_of(self.run)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def version(self):
        return f"PyTorch {torch.__version__}"


class Zero:
    def __init__(self, model, options):
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
        ranks = int(os.environ["WORLD_SIZE"])
        config = {"train_batch_size": options.batch, "train_micro_batch_size_per_gpu": options.batch // ranks,
                  "steps_per_print": 10 ** 6, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                  "zero_optimization": {"stage": int(options.engine[-1]), "overlap_comm": True, "contiguous_gradients": True}}
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=adam(model.parameters()), config=config)
        self.deepspeed = deepspeed.__version__

    def step(self, loss_of):
        loss = loss_of(self.engine)
        self.engine.backward(loss)
        self.engine.step()
        return loss

    def version(self):
        return f"DeepSpeed {self.deepspeed}, PyTorch {torch.__version__}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--engine", choices=["ddp", "zero1", "zero2", "zero3"], required=True)
    parser.add_argument("--variant", choices=["eager", "compile"], default="eager")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same permutations on every rank
    model = load_model(options.model)
    if options.engine == "ddp":  # DeepSpeed's ZeRO copies weights into flat buffers and takes contiguous ones alone
        model = model.to(memory_format=torch.channels_last)
    images, labels = load_images(options.data)
    engine = (Ddp if options.engine == "ddp" else Zero)(model, options)
    seconds, losses, order = [], [], batches(len(images), options.batch)
    for _ in range(options.steps):
        start = time.perf_counter()
        index = next(order)[rank::ranks]
        x, y = images.index_select(0, index), labels.index_select(0, index)
        losses.append(engine.step(lambda run: torch.nn.functional.cross_entropy(run(x), y)).item())
        seconds.append(time.perf_counter() - start)
    mean = torch.tensor([losses[0], losses[-1]])
    dist.all_reduce(mean)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "losses": (mean / ranks).tolist(), "versions": engine.version()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
