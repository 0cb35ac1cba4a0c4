#!/usr/bin/env python3
"""The PyTorch half of tools/gpu_suite's row G1: the sample ConvNet at PyTorch's best on the GPU. Prints {"ms": median of a step, ...}.

    torch_gpu_side.py --batch 256 --steps 60 [--bf16]

torch.compile(mode="max-autotune") with CUDA graphs, the fused optimizer, channels_last, and bf16 autocast where asked; images lie on the GPU
before the first step. TF32 is off, as it is in ztrain by default.
"""
import argparse
import json
import statistics
import time

import torch

from torch_side import convnet

WARMUP = 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # of convolutions on by default; of matrix products off
    model = convnet().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    loss_of = torch.nn.CrossEntropyLoss()
    images = torch.randn(options.batch, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.batch,), device="cuda")
    forward = torch.compile(lambda x, y: loss_of(model(x), y), mode="max-autotune")
    seconds = []
    for _ in range(options.steps + WARMUP):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=options.bf16):
            loss = forward(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"ms": 1e3 * statistics.median(seconds[WARMUP:]), "torch": torch.__version__, "loss": loss.item()}))


if __name__ == "__main__":
    main()
