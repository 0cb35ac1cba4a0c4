#!/usr/bin/env python3
"""zero_optimization.ignore_unused_parameters: false refuses a model with parameters that the loss does not reach, and names them.

    unused_parameters.py ZTRAIN

Exit status 0: it does, 1: it does not.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_model(path):
    """y is the loss's; z has parameters of its own, of which Floor gives one no gradient even if z counted."""
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((4, 4)).astype(np.float32) for name in ("used.weight", "other.weight", "cut.weight")}
    nodes = [helper.make_node("MatMul", ["x", "used.weight"], ["h"]), helper.make_node("MatMul", ["x", "cut.weight"], ["c"]), helper.make_node("Floor", ["c"], ["f"]),
             helper.make_node("Add", ["h", "f"], ["y"]), helper.make_node("MatMul", ["x", "other.weight"], ["z"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 4]) for n in ("x", "y", "z")]
    graph = helper.make_graph(nodes, "unused", ports[:1], ports[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_model(folder / "model.onnx")
        config = {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
                  "ztrain": {"data": {"format": "synthetic", "samples": 16}, "steps": 2, "loss": {"type": "mse", "logits": "y", "target": "t"}}}
        (folder / "config.json").write_text(json.dumps(config))

        def run(name, *sets, code=0):
            words = [pathlib.Path(sys.argv[1]).resolve(), "--model", folder / "model.onnx", "--config", folder / "config.json", "--output", folder / name]
            for pair in sets:
                words += ["--set", pair]
            done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            nonlocal failures
            holds = done.returncode == code
            failures += not holds
            print(f"{'ok  ' if holds else 'FAIL'} {name}: exit {done.returncode}{'' if holds else ': ' + done.stderr[-400:]}")
            return done.stderr

        key = "zero_optimization.ignore_unused_parameters="
        run("ignored")
        run("true", key + "true")
        for stage in range(4):
            says = run(f"stage-{stage}", key + "false", f"zero_optimization.stage={stage}", code=2)
            named = '2 parameters have no gradient: ' in says and '"other.weight"' in says and '"cut.weight"' in says and "used.weight" not in says
            failures += not named
            print("ok   both are named" if named else f"FAIL {says}")
        run("frozen", key + "false", 'ztrain.freeze=["other.*", "cut.*"]')
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
