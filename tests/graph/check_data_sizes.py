#!/usr/bin/env python3
"""Models in which sizes depend on data train: detection by NonMaxSuppression, RoiAlign and a head; a mean over chosen elements.

    check_data_sizes.py ZTRAIN [--sanitized]

Each is trained by SGD, one sample a step, and followed by hand: `ztrain grad`, which knows the sizes, gives each step's
gradients, and the loss is this script's. Losses and final weights must agree, with one thread and with three. Where all
elements are chosen, a run of a large image takes about the memory that the plan says (not with sanitizers, which take more). A
model in which a size that depends on data reaches the loss, or a node that cannot be inside, is refused by the name of the node.
Dropout inside, and BatchNormalization between two choices, train.
Needs numpy and onnx; exit status 77 (skipped) without them.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"SKIP {missing}")
    sys.exit(77)

STEPS, RATE = 6, 0.05


def model(nodes, tensors, shape=(1, 1), size=8):
    graph = helper.make_graph(
        [helper.make_node(op, i, o, name=o[0] + "_node", **a) for op, i, o, a in nodes], "sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def weights(rng, *shape):
    return (rng.standard_normal(shape) * 0.4).astype(np.float32)


BACKBONE = [("Conv", ["x", "w"], ["f"], {"pads": [1, 1, 1, 1]})]
TO_ROW = [("Reshape", ["mean", "row"], ["y"], {})]


def base(rng):
    return {"w": weights(rng, 4, 1, 3, 3), "row": np.array([1, 1])}


def detection(rng):
    """Scores of four anchors from the features; the boxes that NonMaxSuppression leaves are read, scored and averaged."""
    nodes = BACKBONE + [
        ("GlobalAveragePool", ["f"], ["pooled"], {}), ("Flatten", ["pooled"], ["flat"], {}),
        ("MatMul", ["flat", "of_anchor"], ["score"], {}), ("Unsqueeze", ["score", "axis0"], ["scores"], {}),
        ("NonMaxSuppression", ["anchors", "scores", "most", "overlap"], ["chosen"], {}),
        ("Gather", ["chosen", "two"], ["box"], {"axis": 1}), ("Gather", ["chosen", "zero"], ["sample"], {"axis": 1}),
        ("Squeeze", ["anchors", "axis0"], ["boxes"], {}), ("Gather", ["boxes", "box"], ["rois"], {}),
        ("RoiAlign", ["f", "rois", "sample"], ["read"], {"output_height": 2, "output_width": 2}),
        ("Conv", ["read", "head", "bias"], ["hidden"], {}), ("Relu", ["hidden"], ["active"], {}),
        ("GatherND", ["scores", "chosen_of_scores"], ["confidence"], {}),
        ("Unsqueeze", ["confidence", "axes123"], ["factor"], {}), ("Mul", ["active", "factor"], ["weighted"], {}),
        ("ReduceMean", ["weighted"], ["mean"], {"keepdims": 0})] + TO_ROW
    nodes.insert(12, ("Gather", ["chosen", "order"], ["chosen_of_scores"], {"axis": 1}))
    tensors = base(rng) | {
        "of_anchor": weights(rng, 4, 4), "head": weights(rng, 3, 4, 2, 2), "bias": weights(rng, 3),
        "anchors": np.array([[[0, 0, 4, 4], [0, 1, 4, 5], [3, 3, 8, 8], [2.2, 2.1, 7.3, 7.4]]], np.float32),
        "axis0": np.array([0]), "axes123": np.array([1, 2, 3]), "most": np.array([3]), "overlap": np.array([0.4], np.float32),
        "two": np.array(2), "zero": np.array(0), "order": np.array([0, 1, 2])}
    return model(nodes, tensors)


def chosen(rng, above=0, size=8):
    """The mean over the features above a number, and a Compress whose length is read back by Shape."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}),
        ("Transpose", ["at"], ["places"], {}), ("GatherND", ["f", "places"], ["values"], {}),
        ("Reshape", ["f", "all"], ["list"], {}), ("Reshape", ["positive", "all"], ["flags"], {}),
        ("Compress", ["list", "flags"], ["again"], {}), ("Shape", ["again"], ["length"], {}),
        ("Cast", ["length"], ["number"], {"to": TensorProto.FLOAT}), ("ReduceSum", ["again"], ["sum"], {"keepdims": 0}),
        ("ReduceMean", ["values"], ["first"], {"keepdims": 0}), ("Div", ["sum", "number"], ["second"], {}),
        ("Add", ["first", "second"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(above), "all": np.array([-1])}, size=size)


def layers(rng):
    """Two choices one behind the other; a shape that is read between them is that of a tensor behind both too."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}), ("Transpose", ["at"], ["places"], {}),
        ("GatherND", ["f", "places"], ["values"], {}), ("ReduceMean", ["values"], ["mean0"], {"keepdims": 0}), ("Mul", ["f", "mean0"], ["g"], {}),
        ("Shape", ["g"], ["shape"], {}), ("Reshape", ["g", "all"], ["list"], {}), ("Reshape", ["list", "shape"], ["again"], {}),
        ("Greater", ["again", "factor"], ["large"], {}), ("NonZero", ["large"], ["at1"], {}), ("Transpose", ["at1"], ["places1"], {}),
        ("GatherND", ["again", "places1"], ["values1"], {}), ("ReduceMean", ["values1"], ["mean1"], {"keepdims": 0}),
        ("Mul", ["list", "mean1"], ["h"], {}), ("Reshape", ["h", "shape"], ["maps"], {}), ("ReduceSum", ["maps"], ["sum"], {"keepdims": 0}),
        ("Mul", ["sum", "factor"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "all": np.array([-1]), "factor": np.float32(0.01)})


def cut(rng):
    """As many of the features as are positive, every second one from the end, and those from this number on."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("Reshape", ["f", "all"], ["list"], {}), ("Cast", ["positive"], ["ones"], {"to": TensorProto.INT64}),
        ("ReduceSum", ["ones"], ["sum"], {}), ("Reshape", ["sum", "all"], ["long"], {}), ("Slice", ["list", "long", "end", "zero", "back"], ["first"], {}),
        ("Slice", ["list", "long", "end_of_all"], ["rest"], {}), ("ReduceSumSquare", ["first"], ["mean0"], {"keepdims": 0}),
        ("ReduceMean", ["rest"], ["mean1"], {"keepdims": 0}), ("Add", ["mean0", "mean1"], ["both"], {}), ("Mul", ["both", "factor"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "all": np.array([-1]), "end": np.array([-9999]), "zero": np.array([0]), "back": np.array([-2]),
                                     "end_of_all": np.array([9999]), "factor": np.float32(0.05)})


def behind(rng):
    """A number that is written, and reshaped, behind the node whose size depends on data."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}),
        ("Transpose", ["at"], ["places"], {}), ("GatherND", ["f", "places"], ["values"], {}),
        ("Constant", [], ["axis"], {"value": numpy_helper.from_array(np.array(0))}),
        ("Constant", [], ["one"], {"value": numpy_helper.from_array(np.array([1]))}),
        ("Reshape", ["axis", "one"], ["axes"], {}), ("ReduceMean", ["values", "axes"], ["mean"], {"keepdims": 0})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0)})


# Two of four channels are chosen and read one by one, as a loop over experts that were chosen, in a TorchScript file: the
# number of parts of the Split is that of the exporter's example.
def experts(rng, most=2):
    nodes = BACKBONE + [
        ("GlobalAveragePool", ["f"], ["pooled"], {}), ("Reshape", ["pooled", "all"], ["scores"], {}), ("TopK", ["scores", "most"], ["best", "which"], {}),
        ("ReduceMin", ["best"], ["least"], {"keepdims": 0}), ("GreaterOrEqual", ["scores", "least"], ["hit"], {}), ("NonZero", ["hit"], ["at"], {}),
        ("Transpose", ["at"], ["places"], {}), ("Split", ["places", "ones"], ["expert0", "expert1"], {}),
        ("GatherND", ["scores", "expert0"], ["first"], {}), ("GatherND", ["scores", "expert1"], ["second"], {}),
        ("Mul", ["second", "factor"], ["scaled"], {}), ("Add", ["first", "scaled"], ["sum"], {}), ("Reshape", ["sum", "row"], ["y"], {})]
    return model(nodes, base(rng) | {"all": np.array([-1]), "most": np.array([most]), "ones": np.array([1, 1]), "factor": weights(rng, 1)})


def halves(rng):
    """Two halves of the positive features; the features in two parts, the first as long as there are positive ones, the second whole."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("Reshape", ["f", "all"], ["list"], {}), ("Reshape", ["positive", "all"], ["flags"], {}),
        ("Compress", ["list", "flags"], ["values"], {}), ("Split", ["values"], ["first", "second"], {"num_outputs": 2}),
        ("ReduceMean", ["first"], ["mean0"], {"keepdims": 0}), ("ReduceSumSquare", ["second"], ["mean1"], {"keepdims": 0}),
        ("Cast", ["flags"], ["ones"], {"to": TensorProto.INT64}), ("ReduceSum", ["ones"], ["long"], {}), ("Size", ["list"], ["whole"], {}),
        ("Sub", ["whole", "long"], ["rest"], {}), ("Concat", ["long", "rest"], ["sizes"], {"axis": 0}),
        ("Split", ["list", "sizes"], ["start", "end"], {}), ("ReduceSumSquare", ["start"], ["mean2"], {"keepdims": 0}),
        ("ReduceMean", ["end"], ["mean3"], {"keepdims": 0}), ("Sum", ["mean0", "mean1", "mean2", "mean3"], ["sum"], {}), ("Mul", ["sum", "factor"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "all": np.array([-1]), "factor": np.float32(0.01)})


def rejoined(rng):
    """The features in two parts, the first as long as there are positive ones, each by its own weight and again in one list, which a fixed
    shape takes: a loop over the experts that a router chose."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("Reshape", ["f", "column"], ["list"], {}), ("Reshape", ["positive", "all"], ["flags"], {}),
        ("Cast", ["flags"], ["ones"], {"to": TensorProto.INT64}), ("ReduceSum", ["ones"], ["long"], {}), ("Shape", ["flags"], ["whole"], {}),
        ("Sub", ["whole", "long"], ["rest"], {}), ("Concat", ["long", "rest"], ["sizes"], {"axis": 0}), ("Split", ["list", "sizes"], ["start", "end"], {}),
        ("MatMul", ["start", "expert0"], ["made0"], {}), ("MatMul", ["end", "expert1"], ["made1"], {}), ("Relu", ["made0"], ["active0"], {}),
        ("Split", ["made1", "two"], ["value1", "gate1"], {"axis": 1}), ("Sigmoid", ["gate1"], ["open1"], {}), ("Mul", ["value1", "open1"], ["active1"], {}),
        ("Concat", ["active1", "active0"], ["joined"], {"axis": 0}), ("Mul", ["joined", "list"], ["product"], {}), ("Expand", ["product", "shape"], ["same"], {}),
        ("ReduceMean", ["same"], ["mean"], {"keepdims": 0})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "all": np.array([-1]), "column": np.array([-1, 1]), "expert0": weights(rng, 1, 3),
                                     "expert1": weights(rng, 1, 6), "two": np.array([3, 3]), "shape": np.array([256, 3])})


def placed(rng):
    """The first features in the places of large ones, as masked_scatter of TorchScript writes it: of 200, as many as there are places."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["large"], {}), ("NonZero", ["large"], ["at"], {}), ("Transpose", ["at"], ["places"], {}),
        ("Shape", ["places"], ["size"], {}), ("Gather", ["size", "zero"], ["number"], {}), ("Reshape", ["f", "all"], ["list"], {}),
        ("Slice", ["list", "zero", "most"], ["source"], {}), ("Slice", ["source", "zero", "number"], ["first"], {}),
        ("ScatterND", ["f", "places", "first"], ["put"], {}), ("ReduceSumSquare", ["put"], ["sum"], {"keepdims": 0}),
        ("Mul", ["sum", "factor"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0.1), "all": np.array([-1]), "zero": np.array([0]), "most": np.array([200]),
                                     "factor": np.float32(0.01)})


def masked(rng):
    """Halves of large features in the places of these, as `y[mask] = 0.5 * x[mask]` is in a dynamo file: what is put is expanded to as
    many as the mask has."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["large"], {}), ("NonZero", ["large"], ["at"], {}), ("Transpose", ["at"], ["places"], {}),
        ("GatherND", ["f", "places"], ["values"], {}), ("Mul", ["values", "half"], ["halves"], {}), ("Reshape", ["large", "all"], ["flags"], {}),
        ("Cast", ["flags"], ["ones"], {"to": TensorProto.INT64}), ("ReduceSum", ["ones"], ["number"], {}), ("Expand", ["halves", "number"], ["filled"], {}),
        ("ScatterND", ["f", "places", "filled"], ["put"], {}), ("ReduceSumSquare", ["put"], ["sum"], {"keepdims": 0}),
        ("Mul", ["sum", "factor"], ["mean"], {})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0.1), "all": np.array([-1]), "half": np.float32(0.5), "factor": np.float32(0.01)})


def wide(rng):
    """Chosen rows through LayerNormalization and two products of a size that the CPU's fast kernels take."""
    nodes = BACKBONE + [
        ("Reshape", ["f", "pair"], ["rows"], {}), ("ReduceSum", ["rows", "axis1"], ["sum"], {"keepdims": 0}), ("Greater", ["sum", "nothing"], ["positive"], {}),
        ("NonZero", ["positive"], ["at"], {}), ("Transpose", ["at"], ["places"], {}), ("GatherND", ["rows", "places"], ["values"], {}),
        ("LayerNormalization", ["values", "scale"], ["normed"], {}), ("MatMul", ["normed", "up"], ["hidden"], {}), ("Relu", ["hidden"], ["active"], {}),
        ("MatMul", ["active", "down"], ["out"], {}), ("ReduceMean", ["out"], ["mean"], {"keepdims": 0})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "pair": np.array([-1, 4]), "axis1": np.array([1]), "scale": np.ones(4, np.float32),
                                     "up": weights(rng, 4, 192), "down": weights(rng, 192, 192)})


def dropped(training=True):
    """The mean over the chosen features after Dropout: a multiple of the only weight, for each choice and each mask."""
    nodes = [("Mul", ["x", "factor"], ["f"], {}), ("Greater", ["x", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}),
             ("Transpose", ["at"], ["places"], {}), ("GatherND", ["f", "places"], ["values"], {}),
             ("Dropout", ["values", "ratio", "training"], ["kept"], {}), ("ReduceMean", ["kept"], ["mean"], {"keepdims": 0})] + TO_ROW
    return model(nodes, {"factor": np.array([2], np.float32), "nothing": np.float32(0), "ratio": np.float32(0.5), "training": np.array(training),
                         "row": np.array([1, 1])})


def apart(rng):
    """Two choices with a BatchNormalization between them, which belongs to neither."""
    nodes = BACKBONE + [
        ("Greater", ["f", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}), ("Transpose", ["at"], ["places"], {}),
        ("GatherND", ["f", "places"], ["values"], {}), ("ReduceMean", ["values"], ["mean0"], {"keepdims": 0}), ("Mul", ["f", "mean0"], ["g"], {}),
        ("BatchNormalization", ["g", "s", "b", "m", "v"], ["normed"], {}), ("Greater", ["normed", "nothing"], ["large"], {}), ("NonZero", ["large"], ["at1"], {}),
        ("Transpose", ["at1"], ["places1"], {}), ("GatherND", ["normed", "places1"], ["values1"], {}), ("ReduceMean", ["values1"], ["mean"], {"keepdims": 0})] + TO_ROW
    return model(nodes, base(rng) | {"nothing": np.float32(0), "s": np.ones(4, np.float32), "b": np.zeros(4, np.float32), "m": np.zeros(4, np.float32),
                                     "v": np.ones(4, np.float32)})


def refused(rng):
    """(what, the model, words of the message)"""
    yield "sizes of other data", experts(rng, most=3), ["expert0_node (Split)", "leave 1 of the 3 along its axis over"]
    yield "fewer than the sizes", experts(rng, most=1), ["expert0_node (Split)", "its sizes add up to 2, but its axis has 1 elements"]
    start = BACKBONE + [("Greater", ["f", "nothing"], ["positive"], {}), ("NonZero", ["positive"], ["at"], {}),
                        ("Transpose", ["at"], ["places"], {}), ("GatherND", ["f", "places"], ["values"], {})]
    tensors = base(rng) | {"nothing": np.float32(0), "pair": np.array([-1, 1])}
    yield "a varying result", model(start + [("Relu", ["values"], ["y"], {})], tensors, ["many"]), ["y_node (Relu)", "\"y\" depends on data"]
    norm = {"s": np.ones(1, np.float32), "b": np.zeros(1, np.float32), "m": np.zeros(1, np.float32), "v": np.ones(1, np.float32)}
    yield ("a training form", model(start + [("Reshape", ["values", "pair"], ["rows"], {}),
                                             ("BatchNormalization", ["rows", "s", "b", "m", "v"], ["normed"], {}),
                                             ("ReduceMean", ["normed"], ["mean"], {"keepdims": 0})] + TO_ROW, tensors | norm),
           ["normed_node (BatchNormalization)", "has a training form"])


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stderr


def initializers(path, names):
    return {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(path).graph.initializer if t.name in names}


def config():
    return {"train_batch_size": 1, "optimizer": {"type": "SGD", "params": {"lr": RATE}},
            "ztrain": {"loss": {"type": "mse"}, "data": {"format": "npz", "path": "data.npz", "shuffle": False}, "epochs": 1,
                       "freeze": ["anchors"]}}


def by_hand(ztrain, made, data, folder):
    """Losses, and the weights after the last step."""
    now, losses, trained = onnx.ModelProto.FromString(made.SerializeToString()), [], {}
    for x, y in zip(data["x"], data["target"]):
        onnx.save(now, folder / "now.onnx")
        code, said = run([ztrain, "predict", "--model", folder / "now.onnx", "--inputs", save(folder / "x.npz", x=x[None]), "--output", folder / "p"])
        assert code == 0, said
        got = float(np.load(folder / "p" / "outputs.npz")["y"].reshape(()))
        losses.append((got - float(y[0])) ** 2)
        code, said = run([ztrain, "grad", "--model", folder / "now.onnx", "--inputs", folder / "x.npz", "--output", folder / "g"])
        assert code == 0, said
        gradients = np.load(folder / "g" / "grad_params.npz")
        for tensor in now.graph.initializer:
            if tensor.name in gradients.files and tensor.name != "anchors":
                moved = numpy_helper.to_array(tensor) - RATE * 2 * (got - float(y[0])) * gradients[tensor.name]
                trained[tensor.name] = moved.astype(np.float64)
                tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), tensor.name))
    return losses, trained


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def check(ztrain, name, made, folder):
    rng = np.random.default_rng(5)
    data = {"x": rng.standard_normal((STEPS, 1, 8, 8)).astype(np.float32), "target": rng.standard_normal((STEPS, 1)).astype(np.float32)}
    save(folder / "data.npz", **data)
    onnx.save(made, folder / "model.onnx")
    losses, trained = by_hand(ztrain, made, data, folder)
    assert all(np.abs(v - initializers(folder / "model.onnx", [k])[k]).max() > 0 for k, v in trained.items()), "a weight stays"
    (folder / "config.json").write_text(json.dumps(config()))
    for threads in ("1", "3"):
        code, said = run([ztrain, "train", "--model", folder / "model.onnx", "--config", folder / "config.json", "--output",
                          folder / "out", "--overwrite", "--threads", threads])
        assert code == 0, said
        steps = [json.loads(line)["loss"] for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
        assert np.allclose(steps[:STEPS], losses, rtol=2e-5, atol=1e-7), (name, steps, losses)
        for key, value in initializers(folder / "out" / "model.onnx", trained).items():
            assert np.allclose(value, trained[key], rtol=2e-5, atol=1e-6), (name, key)
    print(f"{name}: {len(trained)} tensors, losses {losses[0]:.4f} to {losses[-1]:.4f}")


def train(ztrain, made, folder):
    """Losses of the steps and weights behind them."""
    onnx.save(made, folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps(config()))
    code, said = run([ztrain, "train", "--model", folder / "model.onnx", "--config", folder / "config.json", "--output", folder / "out", "--overwrite"])
    assert code == 0, said
    return [json.loads(line)["loss"] for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()][:STEPS], folder / "out" / "model.onnx"


def check_dropout(ztrain, folder):
    """The gradient is that of the mask which the loss has seen: with the target 0 and y = factor * m, each step takes RATE * 2 y m off the factor."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((STEPS, 1, 8, 8)).astype(np.float32)
    save(folder / "data.npz", x=x, target=np.zeros((STEPS, 1), np.float32))
    losses, end = train(ztrain, dropped(), folder)
    factor, means = 2.0, []
    for loss in losses:
        means.append(np.sqrt(loss) / factor)
        factor -= RATE * 2 * np.sqrt(loss) * means[-1]
    assert np.isclose(initializers(end, ["factor"])["factor"][0], factor, rtol=1e-5), factor
    whole = [sample[sample > 0].mean() for sample in x]
    assert not np.isclose(means, whole, rtol=1e-3).any(), "nothing was dropped"
    assert 0.6 < np.mean(means) / np.mean(whole) < 1.6, means
    print(f"dropout: factor {factor:.4f}")


def check_apart(ztrain, folder):
    """BatchNormalization between two choices takes the statistics of the batch: a mean over its positive results is that of a normed batch."""
    rng = np.random.default_rng(7)
    save(folder / "data.npz", x=rng.standard_normal((STEPS, 1, 8, 8)).astype(np.float32), target=np.zeros((STEPS, 1), np.float32))
    losses, end = train(ztrain, apart(rng), folder)
    assert all(0.3 < np.sqrt(loss) < 1.2 for loss in losses), losses
    assert np.abs(initializers(end, ["m"])["m"]).max() > 0, "the running mean stays"
    print(f"apart: losses {losses[0]:.4f} to {losses[-1]:.4f}")


def check_memory(ztrain, folder):
    """The largest sizes there can be take at most 1.1 times what is planned, and more than half of it."""
    size, rng = 1024, np.random.default_rng(3)
    onnx.save(chosen(rng, above=-1e9, size=size), folder / "model.onnx")
    save(folder / "data.npz", x=rng.standard_normal((2, 1, size, size)).astype(np.float32), target=np.ones((2, 1), np.float32))
    settings = config()
    del settings["ztrain"]["freeze"]
    (folder / "config.json").write_text(json.dumps(settings))
    files = ["--model", folder / "model.onnx", "--config", folder / "config.json"]
    _, said = run([ztrain, "plan", *files])
    planned = re.search(r"host memory: ([0-9.]+) (MB|GB) for all ranks", said)
    planned = float(planned[1]) * {"MB": 1e6, "GB": 1e9}[planned[2]]
    process = subprocess.Popen([ztrain, "train", *files, "--output", folder / "large", "--quiet"], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    taken = used.ru_maxrss * 1024
    assert planned / 2 < taken <= 1.1 * planned, (taken, planned)
    print(f"the largest sizes: {taken / 1e6:.0f} MB of {planned / 1e6:.0f} MB planned")


def main():
    ztrain = pathlib.Path(sys.argv[1]).resolve()
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        check(ztrain, "detection", detection(rng), folder)
        check(ztrain, "chosen", chosen(rng), folder)
        check(ztrain, "behind", behind(rng), folder)
        check(ztrain, "experts", experts(rng), folder)
        check(ztrain, "layers", layers(rng), folder)
        check(ztrain, "cut", cut(rng), folder)
        check(ztrain, "halves", halves(rng), folder)
        check(ztrain, "rejoined", rejoined(rng), folder)
        check(ztrain, "wide", wide(rng), folder)
        check(ztrain, "placed", placed(rng), folder)
        check(ztrain, "masked", masked(rng), folder)
        check_dropout(ztrain, folder)
        check_apart(ztrain, folder)
        if "--sanitized" not in sys.argv:
            check_memory(ztrain, folder)
        (folder / "config.json").write_text(json.dumps(config()))
        save(folder / "data.npz", x=rng.standard_normal((1, 1, 8, 8)).astype(np.float32), target=np.ones((1, 1), np.float32))
        for what, made, words in refused(rng):
            onnx.save(made, folder / "model.onnx")
            code, said = run([ztrain, "train", "--model", folder / "model.onnx", "--config", folder / "config.json", "--output",
                              folder / "out", "--overwrite"])
            assert code == 3 and all(word in said for word in words), (what, code, said)
            print(f"{what}: refused")


if __name__ == "__main__":
    main()
