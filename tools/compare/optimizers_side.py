#!/usr/bin/env python3
"""The other half of tools/compare_optimizers: PyTorch's fused optimizers on the CPU.

    optimizers_side.py ELEMENTS...

Reads lines {"type": "AdamW", "threads": 2, "steps": 30} and answers each with {"seconds": [...]}, or {"error": "..."} where
PyTorch has no fused form. The first line it writes has the version. The first step of a request is not among the seconds.
"""
import json
import sys
import time

import torch


def steps(kind, threads, count, sizes):
    torch.set_num_threads(threads)
    tensors = [torch.nn.Parameter(torch.rand(size)) for size in sizes]
    for tensor in tensors:
        tensor.grad = torch.rand_like(tensor)
    optimizer, seconds = getattr(torch.optim, kind)(tensors, lr=1e-3, fused=True), []
    for _ in range(count + 1):
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def main():
    sizes = [int(word) for word in sys.argv[1:]]
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"seconds": steps(request["type"], request["threads"], request["steps"], sizes)}
        except (AttributeError, RuntimeError, TypeError) as error:
            answer = {"error": str(error).splitlines()[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
