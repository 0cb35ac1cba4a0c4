#!/usr/bin/env python3
"""The other half of tools/compare_deepspeed: DeepSpeed on the CPU, one rank, fp32.

    deepspeed_side.py export FOLDER               writes FOLDER/NETWORK.onnx, NETWORK.pt and NETWORK.npz of every network
    deepspeed_side.py train FOLDER CASES.json     trains each case; prints lines of RESULT and JSON: {"versions": ...}, then
                                                  {"losses": [...]} or {"error": "..."} of every case

A case is {"network": ..., "config": what DeepSpeed is given, "steps": N}. Every case has a process of its own, forked after
DeepSpeed is imported. The loss of a step is the mean over its micro-batches.
"""
import contextlib
import io
import json
import multiprocessing
import os
import pathlib
import re
import sys
import traceback
import warnings

import numpy as np
import torch

SAMPLES, CLASSES = 64, 10


class Mlp(torch.nn.Module):
    """[N, 24] -> [N, 10]"""
    inputs = (24,)

    def __init__(self):
        super().__init__()
        self.one, self.norm = torch.nn.Linear(24, 64), torch.nn.LayerNorm(64)
        self.two, self.three = torch.nn.Linear(64, 32), torch.nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.three(torch.tanh(self.two(torch.tanh(self.norm(self.one(x))))))


class ConvNet(torch.nn.Module):
    """[N, 3, 12, 12] -> [N, 10]"""
    inputs = (3, 12, 12)

    def __init__(self):
        super().__init__()
        self.one, self.norm = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
        self.two, self.pool = torch.nn.Conv2d(16, 24, 3, padding=1, stride=2), torch.nn.AvgPool2d(2)
        self.three = torch.nn.Linear(24 * 9, CLASSES)

    def forward(self, x):
        x = torch.tanh(self.norm(self.one(x)))
        return self.three(torch.flatten(self.pool(torch.tanh(self.two(x))), 1))


NETWORKS = {"MLP": Mlp, "ConvNet": ConvNet}


def samples(shape, seed):
    """Inputs whose class a random linear rule decides, so that the loss falls."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, *shape)).astype(np.float32)
    y = (x.reshape(SAMPLES, -1) @ rng.standard_normal((int(np.prod(shape)), CLASSES))).argmax(1)
    return x, y.astype(np.int64)


def export(folder):
    for seed, (name, network) in enumerate(NETWORKS.items()):
        torch.manual_seed(seed)
        model, (x, y) = network(), samples(network.inputs, seed)
        torch.save(model.state_dict(), folder / f"{name}.pt")
        np.savez(folder / f"{name}.npz", x=x, target=y)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (torch.from_numpy(x[:2]),), folder / f"{name}.onnx", dynamo=False, input_names=["x"],
                              output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.PRESERVE)


def train(folder, case):
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    model = NETWORKS[case["network"]]()
    model.load_state_dict(torch.load(folder / f"{case['network']}.pt"))
    data = np.load(folder / f"{case['network']}.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["target"])
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=case["config"])
    size, micro_batches, losses, at = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps(), [], 0
    for _ in range(case["steps"]):
        parts = []
        for _ in range(micro_batches):
            rows = [(at + i) % SAMPLES for i in range(size)]
            loss = torch.nn.functional.cross_entropy(engine(x[rows]), y[rows])
            parts.append(loss.item())
            engine.backward(loss)
            engine.step()
            at += size
        losses.append(sum(parts) / len(parts))
    return losses


def last_words(error):
    """The first line of the message, or what torch.compile says that the compiled code raised."""
    text = str(error).strip() or "no message"
    raised = re.search(r"got (\w+)\(['\"](.+?)['\"]\)", text)
    return f"{raised[1]}: {raised[2]}" if raised else f"{type(error).__name__}: {text.splitlines()[0]}"


def work(folder, case, end):
    try:
        end.send({"losses": train(folder, case)})
    except Exception as error:  # whatever DeepSpeed says is the result
        traceback.print_exc()
        end.send({"error": last_words(error)})


def train_all(folder, cases):
    import deepspeed  # once, before the forks
    print("RESULT " + json.dumps({"versions": {"deepspeed": deepspeed.__version__, "torch": torch.__version__}}), flush=True)
    fork = multiprocessing.get_context("fork")
    for case in cases:
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=work, args=(folder, case, theirs))
        process.start()
        theirs.close()
        try:
            result = ours.recv()
        except EOFError:
            process.join()
            result = {"error": f"its process ended with status {process.exitcode}"}
        process.join()
        print("RESULT " + json.dumps(result), flush=True)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "export":
        export(folder)
    else:
        train_all(folder, json.loads(pathlib.Path(sys.argv[3]).read_text()))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
