#!/usr/bin/env python3
"""The PyTorch half of tools/compare_torch: trains the sample ConvNet and prints what it measured as one line of JSON.

    torch_side.py prepare WEIGHTS.pt MODEL.onnx       copies the ONNX file's weights where the other modes read them
    torch_side.py train WEIGHTS.pt --data FOLDER [--variant eager|compile] [--threads N] [--batch N] [--steps N]

`train` prints {"first": loss} as soon as the first step is done, and {"seconds": [...], "loss": last} at the end. A step is
timed from the fetch of its batch to the end of the optimizer's update. Images are converted, normalised and brought to
channels_last before the first step, which is more than ztrain does ahead of time.
"""
import argparse
import json
import pathlib
import time

import torch
from torch import nn

MEAN, STD = 0.5, 0.5  # as in the configuration that compare_torch gives ztrain


def convnet():
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2304, 128), nn.ReLU(), nn.Linear(128, 10))


def prepare(options):
    """Initializers are taken in file order, which the exporter makes that of state_dict()."""
    import onnx
    from onnx import numpy_helper
    tensors = [torch.tensor(numpy_helper.to_array(i).copy()) for i in onnx.load(options.model).graph.initializer]
    state = convnet().state_dict()
    shapes = [tuple(t.shape) for t in tensors]
    if shapes != [tuple(t.shape) for t in state.values()]:
        raise SystemExit(f"{options.model}: not the sample ConvNet, its initializers have the shapes {shapes}")
    torch.save(dict(zip(state, tensors)), options.weights)


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


def train(options):
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = convnet()
    model.load_state_dict(torch.load(options.weights))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    images, labels = load_images(options.data)

    def loss_of(x, y):
        return nn.functional.cross_entropy(model(x), y)

    if options.variant == "compile":
        loss_of = torch.compile(loss_of)
    seconds, order = [], batches(len(images), options.batch)
    for step in range(options.steps):
        start = time.perf_counter()
        index = next(order)
        loss = loss_of(images.index_select(0, index), labels.index_select(0, index))
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
    modes = parser.add_subparsers(required=True)
    mode = modes.add_parser("prepare")
    mode.set_defaults(run=prepare)
    mode.add_argument("weights")
    mode.add_argument("model")
    mode = modes.add_parser("train")
    mode.set_defaults(run=train)
    mode.add_argument("weights")
    mode.add_argument("--data", required=True)
    mode.add_argument("--variant", choices=["eager", "compile"], default="eager")
    mode.add_argument("--threads", type=int, default=1)
    mode.add_argument("--batch", type=int, default=256)
    mode.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
