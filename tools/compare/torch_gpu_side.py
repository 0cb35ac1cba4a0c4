#!/usr/bin/env python3
"""The PyTorch half of tools/gpu_suite: a network of gpu_models.py at PyTorch's best. Prints {"ms": of a step, ...}.

    torch_gpu_side.py NAME --batch 256 --steps 60 [--max-autotune] [--bf16] [--profile] [--device cpu --small]

torch.compile, the whole step with fused AdamW (the ConvNet: Adam) in one CUDA graph, cuDNN's engines chosen by trying them (cudnn.benchmark),
bf16 autocast where asked, channels_last for images, scaled_dot_product_attention; data lie on the GPU before the first step. Where the
capture of a whole step fails, compile's own CUDA graphs (mode reduce-overhead) and the optimizer beside them: "graph" says which. What is
waited for are blocks of steps, so that launching one step is hidden behind the one before; "ms" is the median over blocks. TF32 is off,
as it is in ztrain by default. --profile adds the kernels that take longest, by torch.profiler. The CPU is for a rehearsal: eager, and no
figure means anything.
"""
import argparse
import json
import statistics
import time

import torch

from gpu_models import MODULES, batch as batch_of, loss as loss_of, module
from gpu_rows import row

WARMUP, BLOCK = 10, 10  # steps, and how many are timed at once


def step_of(options, model, optimizer, mode):
    def forward(x, y):
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.bf16):
            return loss_of(model(x), y)

    compute = torch.compile(forward, mode=mode) if options.device == "cuda" else forward

    def step(x, y):
        loss = compute(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss
    return step


def captured(step, batch):
    """A call of it runs the whole step as one CUDA graph, over the same batch."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARMUP):
            step(*batch)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(*batch)

    def replay(*_):
        graph.replay()
        return loss
    return replay


def best_step(options, model, optimizer, batch):
    """(the step, what its CUDA graph is)"""
    if options.device != "cuda":
        return step_of(options, model, optimizer, None), "none"
    modes = ("max-autotune-no-cudagraphs", "max-autotune") if options.max_autotune else (None, "reduce-overhead")
    try:
        return captured(step_of(options, model, optimizer, modes[0]), batch), "the whole step"
    except RuntimeError as why:
        torch._dynamo.reset()
        return step_of(options, model, optimizer, modes[1]), f"torch.compile's ({str(why).splitlines()[0]})"


def profile(step, batch, rows):
    with torch.profiler.profile() as seen:
        for _ in range(5):
            step(*batch)
    events = [e for e in seen.key_averages() if getattr(e, "self_device_time_total", 0) > 0] or list(seen.key_averages())
    time_of = lambda e: getattr(e, "self_device_time_total", 0) or e.self_cpu_time_total  # noqa: E731
    events.sort(key=time_of, reverse=True)
    return [{"kernel": e.key[:90], "us": time_of(e) / 5, "calls": e.count / 5} for e in events[:rows]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--max-autotune", action="store_true", help="kernels of matrix products are chosen by trying them")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # of convolutions on by default; of matrix products off
    torch.backends.cudnn.benchmark = True
    model = module(options.name, options.small).to(options.device)
    batch = [t.to(options.device) for t in batch_of(options.name, options.batch, options.small)]
    if row(options.name).image():
        model, batch[0] = model.to(memory_format=torch.channels_last), batch[0].contiguous(memory_format=torch.channels_last)
    kind = torch.optim.Adam if options.name == "convnet" else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=1e-3, fused=True, **({"capturable": True} if options.device == "cuda" else {}))
    (step, graph), seconds = best_step(options, model, optimizer, batch), []
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for _ in range(WARMUP):
        step(*batch)
    for _ in range(-(-options.steps // BLOCK)):
        wait()
        began = time.perf_counter()
        for _ in range(BLOCK):
            loss = step(*batch)
        wait()
        seconds.append((time.perf_counter() - began) / BLOCK)
    result = {"ms": 1e3 * statistics.median(seconds), "torch": torch.__version__, "graph": graph, "loss": loss.item()}
    if options.profile:
        result["kernels"] = profile(step, batch, 12)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
