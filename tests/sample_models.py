#!/usr/bin/env python3
"""Trains sample models for 20 steps, each with its own config, and loads the results elsewhere.

    tests/sample_models.py ZTRAIN                   every models/*.onnx
    tests/sample_models.py ZTRAIN MODEL.onnx...     these, with the configs of the samples of that name

The loss must fall, every tensor that `ztrain inspect` calls trained must have moved, and onnxruntime must load the trained
model and agree with `ztrain predict` (tests/runtime_agrees.py). Prints 'N passed, N failed'.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import runtime_agrees

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = {"convnet": "ds_config"}  # else it has the model's name
STEPS, ENDS, FALL = 20, 5, 0.98  # the mean of the last 5 losses is below 0.98 of that of the first 5


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[1]} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def check_losses(folder):
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    losses = [row["loss"] for row in rows if "eval" not in row]
    first, last = np.mean(losses[:ENDS]), np.mean(losses[-ENDS:])
    if not (len(losses) == STEPS and last < FALL * first):
        raise RuntimeError(f"the loss does not fall: {losses}")
    return f"loss {first:.3f} -> {last:.3f}"


def tensors(model):
    """{name: array} of the initializers, and of what an Identity calls one of them: training makes it an initializer."""
    graph = onnx.load(model).graph
    found = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def check_moved(ztrain, model, trained_model):
    listed = run(ztrain, "inspect", "--model", model)
    trained = re.findall(r"^  (\S+) +\w+\[[^]]*\] +trained ", listed, re.MULTILINE)
    before, after = tensors(model), tensors(trained_model)
    still = [name for name in trained if np.array_equal(before[name], after[name])]
    if still or not trained:
        raise RuntimeError(f"{len(still)} of {len(trained)} tensors did not move: {', '.join(still[:5])}")
    return f"{len(trained)} tensors moved"


def data_for(model, config):
    """The samples of an npz; images are noise here."""
    if config["data"]["format"] == "npz":
        return np.load(config["data"]["path"])
    random = np.random.default_rng(0)
    return {value.name: random.standard_normal((runtime_agrees.SAMPLES, 3, 32, 32))
            for value in onnx.load(model).graph.input}


def check(ztrain, model, folder):
    stem = model.stem
    run(ztrain, "--model", model, "--config", ROOT / "configs" / f"{CONFIG.get(stem, stem)}.json", "--steps", STEPS,
        "--output", folder)
    said = [check_losses(folder), check_moved(ztrain, model, folder / "model.onnx")]
    config = json.loads((folder / "config.resolved.json").read_text())["ztrain"]
    error = runtime_agrees.largest_error(ztrain, folder / "model.onnx", config["loss"], data_for(model, config))
    if not error <= runtime_agrees.TOLERANCE:
        raise RuntimeError(f"onnxruntime differs by {error:.1e}")
    return ", ".join([*said, f"onnxruntime within {error:.1e}"])


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    models = [pathlib.Path(name) for name in sys.argv[2:]] or sorted((ROOT / "models").glob("*.onnx"))
    failed = 0
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"PASS {model.stem}: {check(sys.argv[1], model, pathlib.Path(folder) / 'run')}", flush=True)
            except Exception as problem:  # whatever went wrong belongs to this model, the others still run
                failed += 1
                print(f"FAIL {model.stem}: {type(problem).__name__}: {problem}", flush=True)
    print(f"{len(models) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
