#!/usr/bin/env python3
"""Holds ztrain's forward pass on trained models against onnxruntime's.

    tests/runtime_agrees.py ZTRAIN KEPT CASE...     KEPT is the folder given to check_case.py --keep

For each case the model.onnx that training left in KEPT/<case>/out runs on the first samples of the case's data, in both
programs; outputs must agree to 1e-5 of their largest value. Of several outputs (a classifier's label beside its scores)
the one that the loss reads is compared. Prints 'N passed, N failed'.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx.utils
import onnxruntime

SAMPLES, TOLERANCE = 8, 1e-5


def first_samples(session, data):
    """The graph's inputs from the data; where the graph fixes a batch, that many samples. Types as the graph has them."""
    feeds = {}
    for value in session.get_inputs():
        fixed = value.shape[0] if value.shape and isinstance(value.shape[0], int) else SAMPLES
        dtype = {"tensor(float)": np.float32, "tensor(int64)": np.int64}.get(value.type, data[value.name].dtype)
        feeds[value.name] = data[value.name][:fixed].astype(dtype)
    return feeds


def cut_to_loss(model, loss, folder):
    """The model itself where it has one output, else a copy that ends where the loss begins."""
    graph = onnx.load(model, load_external_data=False).graph
    if len(graph.output) == 1:
        return model
    cut = pathlib.Path(folder) / "model.onnx"
    onnx.utils.extract_model(model, cut, [v.name for v in graph.input], [loss.get("logits") or loss["output"]])
    return cut


def largest_error(ztrain, model, loss, data):
    """The largest difference of outputs over their largest value. loss: that block of the config; data: arrays named after
    the graph's inputs."""
    with tempfile.TemporaryDirectory() as folder:
        model = cut_to_loss(model, loss, folder)
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        feeds = first_samples(session, data)
        inputs = pathlib.Path(folder) / "inputs.npz"
        np.savez(inputs, **feeds)
        subprocess.run([ztrain, "predict", "--model", model, "--inputs", inputs, "--output", f"{folder}/out"], check=True)
        ours = np.load(f"{folder}/out/outputs.npz")
        names = [value.name for value in session.get_outputs()]
        return max(float(np.abs(ours[name].astype(np.float64) - theirs).max() / max(np.abs(theirs).max(), 1.0))
                   for name, theirs in zip(names, session.run(names, feeds)))


def main():
    if len(sys.argv) < 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    ztrain, kept, failed = sys.argv[1], pathlib.Path(sys.argv[2]), 0
    for case in map(pathlib.Path, sys.argv[3:]):
        try:
            loss = json.loads((case / "config.json").read_text())["ztrain"]["loss"]
            error = largest_error(ztrain, kept / case.name / "out" / "model.onnx", loss, np.load(case / "data.npz"))
            verdict = "PASS" if error <= TOLERANCE else "FAIL"  # a NaN fails
            print(f"{verdict} {case.name}: largest difference {error:.1e}")
        except Exception as problem:  # whatever went wrong belongs to this case, the others still run
            verdict = "FAIL"
            print(f"FAIL {case.name}: {type(problem).__name__}: {problem}")
        failed += verdict == "FAIL"
    print(f"{len(sys.argv) - 3 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
