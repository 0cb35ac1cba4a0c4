#!/usr/bin/env python3
"""Files that onnxruntime's optimizer writes at level "all" against the files that they were made of.

    check_optimized.py ZTRAIN [--only NAME]

The optimizer reorders channels in blocks (domain com.microsoft.nchwc). What ztrain predicts with its file must be what onnxruntime predicts with the plain
one; both must train alike, and the trained file must run in onnxruntime. Also files that leave out the import of com.microsoft. Needs numpy, onnx
and onnxruntime.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper

onnxruntime.set_default_logger_severity(4)  # not the warning that such a file is for this machine alone

HEADER = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1, "com.microsoft.nchwc": 1]>\n'
BATCH = 4
# name: (nodes from x to y, shape of x without batch, {initializer: shape}, operators of com.microsoft.nchwc in the optimized file)
NETWORKS = {
    "convolutions": ("""
        a = Conv<pads = [1,1,1,1]>(x, w1, b1)  b = Relu(a)  c = MaxPool<kernel_shape = [2,2], strides = [2,2]>(b)
        d = Conv<pads = [1,1,1,1], strides = [2,2]>(c, w2)  e = Conv<strides = [2,2]>(c, w3, b3)  f = Add(d, e)  g = Relu(f)
        h = Conv<pads = [1,1,1,1], group = 24>(g, w4)  i = Concat<axis = 1>(h, g)  y = Conv(i, w5)""", (3, 12, 12),
                     {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (24, 16, 3, 3), "w3": (24, 16, 1, 1), "b3": (24,), "w4": (24, 1, 3, 3), "w5": (5, 48, 1, 1)},
                     {"Conv", "MaxPool", "ReorderInput", "ReorderOutput"}),
    "groups, average pools and a gate": ("""
        a = Conv(x, w1, b1)  b = LeakyRelu<alpha = 0.1>(a)  c = Conv<group = 2, dilations = [2,2], pads = [2,2,2,2]>(b, w2)
        d = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]>(c)  e = Conv(d, w3)  f = GlobalAveragePool(e)  g = Conv(f, w4, b4)
        h = Sigmoid(g)  i = Mul(e, h)  j = GlobalMaxPool(i)  k = GlobalMaxPool(d)  l = Conv(k, w5)  y = Add(j, l)""", (32, 10, 10),
                                         {"w1": (64, 32, 3, 3), "b1": (64,), "w2": (64, 32, 3, 3), "w3": (48, 64, 1, 1), "w4": (48, 48, 1, 1), "b4": (48,),
                                          "w5": (48, 64, 1, 1)},
                                         {"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "ReorderInput", "ReorderOutput"}),
    "channels last and resizes": ("""
        r = Constant<value = float[4] {1.0, 1.0, 2.0, 3.0}>()
        t = Transpose<perm = [0,3,1,2]>(x)  a = Conv(t, w1)  b = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">(a, , r)
        c = Conv(b, w2)  d = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(c, , r)  e = Conv(d, w3)
        f = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(e, , r)  g = Conv(f, w4)  y = Transpose<perm = [0,2,3,1]>(g)""", (4, 4, 17),
                                  {"w1": (16, 17, 2, 2), "w2": (16, 16, 1, 1), "w3": (16, 16, 1, 1), "w4": (7, 16, 1, 1)},
                                  {"Conv", "ReorderInput", "ReorderOutput", "Upsample"}),
}
failures = passed = 0


def report(name, problem):
    global failures, passed
    failures += bool(problem)
    passed += not problem
    if problem:
        print(f"{name}: {problem}")


def run_ztrain(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def numbers(name, shape):
    return np.random.default_rng(sum(map(ord, name))).normal(size=shape).astype(np.float32)


def session_of(path, **options):
    settings = onnxruntime.SessionOptions()
    for key, value in options.items():
        setattr(settings, key, value)
    return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def write_network(nodes, shape, initializers, path):
    dims = ",".join(str(d) for d in (BATCH, *shape))
    model = onnx.parser.parse_model(HEADER + f"m (float[{dims}] x) => (float[a,b,c,d] y, float loss) {{ {nodes}  loss = ReduceSumSquare<keepdims = 0>(y) }}")
    for name, size in initializers.items():
        model.graph.initializer.append(numpy_helper.from_array(numbers(name, size) * np.float32(0.5 / np.sqrt(np.prod(size[1:]))), name))
    onnx.save(model, path)


def differs(have, want):
    if have.shape != want.shape:
        return f"has shape {have.shape}, onnxruntime's has {want.shape}"
    if np.abs(have - want).max() > 1e-5 * np.abs(want).max():
        return f"differs from onnxruntime's by {np.abs(have - want).max()} of {np.abs(want).max()}"
    return ""


def check_outputs(ztrain, path, feed, want, folder):
    np.savez(folder / "in.npz", **feed)
    code, said = run_ztrain(ztrain, "predict", "--model", path, "--inputs", folder / "in.npz", "--output", folder / "predicted")
    if code:
        return f"predict ended with {code}: {said.strip()}"
    have = np.load(folder / "predicted" / "outputs.npz")
    return next((f"{name} {problem}" for name, value in want.items() if (problem := differs(have[name], value))), "")


def train(ztrain, path, folder):
    config = {"train_batch_size": BATCH, "optimizer": {"type": "SGD", "params": {"lr": 0.001}},
              "ztrain": {"data": {"format": "npz", "path": "in.npz", "shuffle": False}, "steps": 5, "loss": {"type": "output", "output": "loss"}}}
    (folder / "c.json").write_text(json.dumps(config))
    out = folder / path.stem
    code, said = run_ztrain(ztrain, "--model", path, "--config", folder / "c.json", "--output", out)
    if code:
        return f"training {path.name} ended with {code}: {said.strip()}", None
    return "", [json.loads(line)["loss"] for line in open(out / "metrics.jsonl")]


def check_network(ztrain, nodes, shape, initializers, wanted, folder):
    write_network(nodes, shape, initializers, folder / "plain.onnx")
    feed = {"x": numbers("x", (BATCH, *shape))}
    session = session_of(folder / "plain.onnx", optimized_model_filepath=str(folder / "optimized.onnx"))
    written = {node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node if node.domain == "com.microsoft.nchwc"}
    if not wanted <= written:
        return f"onnxruntime has written {sorted(written)}, wanted {sorted(wanted)}"
    want = dict(zip(["y", "loss"], session.run(None, feed)))
    problem = check_outputs(ztrain, folder / "optimized.onnx", feed, want, folder)
    if problem:
        return problem
    (problem, losses), (other, plain) = (train(ztrain, folder / name, folder) for name in ("optimized.onnx", "plain.onnx"))
    if problem or other:
        return problem or other
    if not np.allclose(losses, plain, rtol=1e-5) or not losses[-1] < losses[0]:
        return f"the losses are {losses}, of the plain file {plain}"
    last = session_of(folder / "optimized" / "model.onnx").run(["loss"], feed)[0]
    after = session_of(folder / "plain" / "model.onnx").run(["loss"], feed)[0]
    return "" if np.isclose(last, after, rtol=1e-5) and last < losses[-1] else f"the trained files leave {last} and {after} in onnxruntime"


def check_refused(ztrain, node, words, folder):
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 16, 3, 3])],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], [numpy_helper.from_array(numbers("w", (12, 16, 1, 1)), "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)]), folder / "m.onnx")
    np.savez(folder / "in.npz", x=numbers("x", (1, 16, 3, 3)))
    code, said = run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "out")
    return f"ended with {code}: {said.strip()}" if code != 3 or any(w not in said for w in words) else ""


def check_import(ztrain, folder):
    """As onnxruntime, ztrain takes the newest version of a domain that the file does not import."""
    model = onnx.parser.parse_model(HEADER + "m (float[2,3] x) => (float[2,3] y) { h = com.microsoft.QuickGelu<alpha = 0.5>(x)  y = com.microsoft.Gelu(h) }")
    del model.opset_import[1:]
    onnx.save(model, folder / "m.onnx")
    feed = {"x": numbers("x", (2, 3))}
    return check_outputs(ztrain, folder / "m.onnx", feed, {"y": session_of(folder / "m.onnx").run(None, feed)[0]}, folder)


def check_exporter(ztrain, folder):
    """torch.sinc() in the file of PyTorch's dynamo exporter, of which the optimizer dropped what lists the parameters: pi stays as it is, so
    that the gradient at 0 is finite, and the start says what is lost."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, producer_name: "pytorch", opset_import: ["": 17, "com.microsoft.nchwc": 1]>
        m (float[{BATCH},6] x) => (float loss)
        <float[6] cut, float _MATH_PI = {{3.1415927}}, float zero = {{0}}, float one = {{1}}> {{
          [node_mul] a = Mul(x, cut)  p = Mul(a, _MATH_PI)  s = Sin(p)  q = Div(s, p)  is_zero = Equal(a, zero)
          sinc = Where(is_zero, one, q)  square = Mul(sinc, sinc)  loss = ReduceMean<keepdims = 0>(square) }}""")
    model.graph.initializer.append(numpy_helper.from_array(numbers("cut", (6,)), "cut"))
    onnx.save(model, folder / "m.onnx")
    x = numbers("x", (BATCH, 6))
    x[:, 3] = 0
    np.savez(folder / "in.npz", x=x)
    problem, losses = train(ztrain, folder / "m.onnx", folder)
    if problem or not np.isfinite(losses).all():
        return problem or f"the losses are {losses}"
    code, said = run_ztrain(ztrain, "--model", folder / "m.onnx", "--config", folder / "c.json", "--output", folder / "again", "--strict")
    return "" if code == 3 and "rewritten by onnxruntime's optimizer" in said else f"--strict ended with {code}: {said.strip()}"


REFUSED = {
    "channels of another CPU": (helper.make_node("Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc"), ["(Conv)", "12 channels are no blocks of"]),
    "more channels than there are": (helper.make_node("ReorderOutput", ["x"], ["y"], domain="com.microsoft.nchwc", channels=17),
                                     ["(ReorderOutput)", "channels = 17, of 16"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="", help="names that contain this")
    options = parser.parse_args()
    checks = {name: (check_network, *network) for name, network in NETWORKS.items()}
    checks |= {name: (check_refused, *case) for name, case in REFUSED.items()}
    checks["a domain that is not imported"] = (check_import,)
    checks["an exporter's file"] = (check_exporter,)
    for name, (check, *arguments) in checks.items():
        if options.only in name:
            with tempfile.TemporaryDirectory() as folder:
                report(name, check(options.ztrain, *arguments, pathlib.Path(folder)))
    print(f"{passed} passed, {failures} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
