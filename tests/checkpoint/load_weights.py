#!/usr/bin/env python3
"""--load PATH --weights-only: weights by name and shape, from checkpoints, models and adapters, into the same model and into changed ones.

    load_weights.py ZTRAIN SOURCE

Exit status 0: all hold, 1: one does not, 77: numpy or onnx is missing.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    sys.exit(77)

failures, checks = [], 0
random = np.random.default_rng(3)


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def save(path, widths, names, dtype=np.float32):
    """Products and a BatchNormalization, whose statistics are loaded too."""
    tensors, nodes, x = {}, [], "x"
    for i, name in enumerate(names):
        tensors[name] = floats(widths[i], widths[i + 1]).astype(dtype)
        nodes.append(helper.make_node("MatMul", [x, name], [f"h{i}"], name=f"product_{i}"))
        x = f"h{i}"
    norm = {f"norm.{k}": np.abs(floats(widths[-1])).astype(dtype) for k in ("weight", "bias", "running_mean", "running_var")}
    nodes.append(helper.make_node("BatchNormalization", [x, *norm], ["y"], name="norm"))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, ["N", widths[0]])],
                              [helper.make_tensor_value_info("y", kind, ["N", widths[-1]])],
                              [numpy_helper.from_array(t, n) for n, t in {**tensors, **norm}.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return {name: data[8 + length:][slice(*t["data_offsets"])] for name, t in json.loads(data[8:8 + length]).items()}


def initializers(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder, self.count = program, folder, 0

    def __call__(self, model, config, *options, sets=(), status=0):
        self.count += 1
        self.out = self.folder / f"run-{self.count}"
        words = [self.program, "--model", model, "--config", config, "--output", self.out, "--threads", 1, *options]
        for pair in sets:
            words += ["--set", pair]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.says = done.stderr
        if done.returncode != status:
            check(False, f"exit {done.returncode}, wants {status}: {' '.join(map(str, options))}\n{done.stderr[-600:]}")
        return [line for line in done.stderr.splitlines() if line.startswith("weights: ")]

    def rows(self):
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in open(self.out / "metrics.jsonl")]

    def model(self):
        return initializers(self.out / "model.onnx")


STILL = ['optimizer={"type": "SGD", "params": {"lr": 0}}', 'ztrain.batch_norm=frozen']


def same(run, folder, config, first):
    """Into the same model: a checkpoint is the trained file, whatever the layout, and everything else starts anew."""
    model, trained = folder / "first.onnx", first / "model.onnx"
    for path in (first, first / "checkpoints/step-6", first / "checkpoints/latest", trained):
        run(model, config, "--load", path, "--weights-only", "--steps", 1, sets=STILL)
        got, wants = run.model(), initializers(trained)
        check(all(np.array_equal(got[k], wants[k]) for k in wants), f"{path.name}: the weights are those of the trained model")
        check("6 of 6 tensors match" in run.says and "w1 [6, 8]: loaded" in run.says and "running_mean [3]: loaded" in run.says, f"{path.name}: the table")
    run(trained, config, "--steps", 4)
    wants = run.rows()
    for options in ([], ["--ranks", 2, "--set", "ztrain.parallel.communicator=thread", "--set", "zero_optimization.stage=3", "--set", "ztrain.parallel.sync_batch_norm=true"]):
        run(model, config, "--load", first, "--weights-only", "--steps", 4, *options)
        check(run.rows() == wants if not options else np.allclose([r["loss"] for r in run.rows()], [r["loss"] for r in wants], rtol=1e-5),
              f"optimizer, step and data start anew {options[3:4]}")


def changed(run, folder, config, first):
    """Into another model: one row a tensor, with the reason."""
    other = save(folder / "other.onnx", [6, 8, 3], ["w1", "v2"])
    before = initializers(other)
    wants = initializers(first / "model.onnx")
    run(other, config, "--load", first / "checkpoints/step-6", "--weights-only", "--steps", 1, sets=STILL)
    got = run.model()
    check(np.array_equal(got["w1"], wants["w1"]) and np.array_equal(got["v2"], before["v2"]), "what has the name is loaded, the rest stays")
    for line in ("5 of 6 tensors match", "v2 [8, 3]: missing in the source, keeps its initial values", "w2 [8, 3]: not used, this run has no parameter of that name"):
        check(line in run.says, f"the table: {line}")
    wider = save(folder / "wider.onnx", [6, 9, 3], ["w1", "w2"])
    run(wider, config, "--load", first, "--weights-only", "--steps", 1)
    check("w1 [6, 9]: has shape [6, 8] in the source, keeps its initial values" in run.says and "4 of 6" in run.says, "the table: another shape")
    run(other, config, "--load", first, "--weights-only", "--strict", status=4)
    check("v2 [8, 3]: missing in the source" in run.says and "w2 [8, 3]: not used" in run.says and run.says.count("ztrain: error") == 2,
          "--strict: each is an error")
    run(folder / "first.onnx", config, "--load", first, "--weights-only", "--strict", "--steps", 1)
    check("6 of 6" in run.says, "--strict: nothing to complain about")
    half = save(folder / "half.onnx", [6, 8, 3], ["w1", "w2"], np.float16)
    run(half, config, "--load", first, "--weights-only", "--steps", 1, sets=STILL)
    check("w1 [6, 8]: loaded, converted from float to float16" in run.says and np.array_equal(run.model()["w1"], wants["w1"].astype(np.float16)), "float to float16")
    run(folder / "first.onnx", config, "--load", half, "--weights-only", "--steps", 1, sets=STILL)
    check("w2 [8, 3]: loaded, converted from float16 to float" in run.says and np.array_equal(run.model()["w2"], initializers(half)["w2"].astype(np.float32)), "float16 to float")


def save_folded(path, names):
    """A Conv, a MatMul and a Gemm of which the exporter folded weight norm, and the module's name of each weight where it has another one."""
    weights = {"conv.weight": floats(4, 3, 3), "onnx::MatMul_9": floats(4, 4), "up.weight": floats(5, 4)}
    nodes = [helper.make_node("Conv", ["x", "conv.weight"], ["c"], pads=[1, 1]), helper.make_node("ReduceMean", ["c", "axis"], ["r"], keepdims=0),
             helper.make_node("MatMul", ["r", "onnx::MatMul_9"], ["m"]), helper.make_node("Gemm", ["m", "up.weight"], ["y"], transB=1)]
    tensors = [numpy_helper.from_array(t, n) for n, t in weights.items()] + [numpy_helper.from_array(np.array([2], np.int64), "axis")]
    info = helper.make_tensor_value_info("onnx::MatMul_9", onnx.TensorProto.FLOAT, [4, 4])
    entry = info.metadata_props.add()
    entry.key, entry.value = "pkg.onnxscript.optimizer.folded_from", str(["div", *names, "linalg_vector_norm"])
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 6])],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 5])], tensors, value_info=[info])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def save_tensors(path, tensors):
    at, head = 0, {}
    for name, t in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))
    return path


def normalized(lengths, direction):
    """g v / |v| over the axes in which g has one element."""
    axes = tuple(k for k in range(direction.ndim) if lengths.size == 1 or lengths.shape[k] == 1)
    return (lengths.astype(np.float64) * direction / np.sqrt((direction.astype(np.float64) ** 2).sum(axes, keepdims=True))).astype(np.float32)


def weight_norms(run, folder):
    """A state dict with lengths and directions into a model that has the weights."""
    form = "head.parametrizations.weight.original{}"
    model = save_folded(folder / "folded.onnx", [form.format(0), form.format(1)])
    config = folder / "folded.json"
    config.write_text(json.dumps({"train_batch_size": 4, "ztrain": {"data": {"format": "synthetic", "samples": 8}, "loss": {"type": "mse", "target": "t"}, "trainable": ["*"]}}))
    np.savez(folder / "folded.npz", x=floats(8, 3, 6), t=floats(8, 5))
    config.write_text(json.dumps({"train_batch_size": 4, "ztrain": {"data": {"format": "npz", "path": "folded.npz"}, "loss": {"type": "mse", "target": "t"}, "trainable": ["*"]}}))
    for axis, g in (("dim 0", [(4, 1, 1), (4, 1), (5, 1)]), ("dim 1 and none", [(1, 3, 1), (1, 4), ()])):
        parts = {"conv.weight_g": floats(*g[0]), "conv.weight_v": floats(4, 3, 3), form.format(0): floats(*g[1]), form.format(1): floats(4, 4),
                 "up.weight_g": np.asarray(floats(*g[2]), np.float32), "up.weight_v": floats(5, 4)}
        run(model, config, "--load", save_tensors(folder / "parts.safetensors", parts), "--weights-only", "--steps", 1, sets=STILL)
        got = run.model()
        wants = [normalized(parts[a], parts[b]) for a, b in (("conv.weight_g", "conv.weight_v"), (form.format(0), form.format(1)), ("up.weight_g", "up.weight_v"))]
        for name, want in zip(("conv.weight", "onnx::MatMul_9", "up.weight"), (wants[0], wants[1].T, wants[2])):
            check(np.allclose(got[name], want, rtol=1e-6, atol=0), f"weight norm, {axis}: {name} is g v / |v|")
        check("3 of 3 tensors match" in run.says and "conv.weight [4, 3, 3]: loaded, computed from conv.weight_g and conv.weight_v (weight norm)" in run.says and "not used" not in run.says,
              f"weight norm, {axis}: the table says that weights were computed")
    parts["conv.weight_v"] = floats(4, 3, 2)
    del parts["up.weight_v"]
    parts.update({f"norm.{k}": np.abs(floats(4)) for k in ("weight", "bias", "running_mean", "running_var")})
    run(model, config, "--load", save_tensors(folder / "parts.safetensors", parts), "--weights-only", "--steps", 1)
    for line in ("conv.weight [4, 3, 3]: conv.weight_g [1, 3, 1] and conv.weight_v [4, 3, 2] give no weight of this shape", "up.weight [5, 4]: missing in the source",
                 "up.weight_g []: not used", "norm.* [4]: not used, this run has no BatchNormalization of that name"):
        check(line in run.says, f"weight norm, the table: {line}")


def frozen(run, folder, config, first):
    """Weights that do not train: used, exported, and part of what a checkpoint may resume."""
    model, freeze = folder / "first.onnx", ["ztrain.freeze=[\"w1\"]", "ztrain.checkpoint.every_steps=2"]
    wants = initializers(first / "model.onnx")
    load = ["--load", first, "--weights-only"]
    weights = run(model, config, *load, "--steps", 4, sets=freeze)
    folder_of, full = run.out, run.rows()
    check(np.array_equal(run.model()["w1"], wants["w1"]) and not np.array_equal(run.model()["w2"], wants["w2"]), "a frozen weight is exported as it was loaded")
    run(first / "model.onnx", config, "--steps", 4, sets=freeze)
    check(run.rows() == full, "and used")
    run(model, config, "--resume", folder_of / "checkpoints/step-2", "--steps", 4, sets=freeze, status=4)
    check("made from another model" in run.says and "resumes with the same --load" in run.says, "without --load such a run does not resume")
    check(run(model, config, *load, "--resume", folder_of / "checkpoints/step-2", "--steps", 4, sets=freeze) == weights, "with it, bit for bit")
    check("--resume replaces those that train" in run.says and "start anew" not in run.says, "and the start says what --resume replaces")


def constants(run, folder, source):
    """The exporter's constants do not train: no checkpoint has them, and a model file has them unused."""
    model, config = source / "models/gpt.onnx", folder / "constants.json"
    config.write_text(json.dumps({"train_batch_size": 2, "ztrain": {"data": {"format": "synthetic", "samples": 4}, "loss": {"type": "mse"}, "steps": 1}}))
    run(model, config)
    for path in (run.out / "checkpoints/latest", run.out / "model.onnx", model):
        run(model, config, "--load", path, "--weights-only", "--strict", "--verbose")
        check("val_67 [1]: does not train, keeps the model's values" in run.says or path.suffix, f"{path.name}: constants are listed with --verbose")
        check("missing in the source" not in run.says and "not used" not in run.says, f"{path.name}: --strict, no constant is missing")
    for name, parameter, made in (("logit_scale", "logit_scale", "exp"), ("layer_scale", "gate", "sigmoid")):
        folded = source / f"tests/exported/{name}/{name}.dynamo.onnx"  # has what the exporter computed from the parameter
        run(folded, config, "--steps", 3, sets=['optimizer={"type": "SGD", "params": {"lr": 0.5}}'])
        trained, wants = run.out / "model.onnx", run.model()[made]
        run(folded, config, "--load", trained, "--weights-only", sets=STILL)
        check(f"{parameter} []: loaded, computed from {made}" in run.says and "not used" not in run.says and
              np.allclose(run.model()[made], wants, rtol=1e-6) and not np.allclose(wants, initializers(folded)[made], rtol=1e-6),
              f"{parameter}: a folded parameter comes from what the source has instead")
    for path in ("tests/exported/tied/tied.dynamo.onnx", "tests/reference/cases/gpt-tiny-torchscript/model.onnx"):
        run(source / path, config)
        run(source / path, config, "--load", run.out / "model.onnx", "--weights-only", "--strict")
        check("not used" not in run.says, f"{path}: tied copies and merged constants are not missed")
    merged = source / "tests/exported/merged/merged.torchscript.onnx"  # a.weight is b.weight too, by an Identity
    run(merged, config, "--load", merged, "--weights-only")
    check("b.weight [8]: loaded" in run.says and "missing in the source" not in run.says, "a parameter that the exporter merged is in the file")


def as_peft(data):
    """the same tensors in a file as PEFT writes it"""
    length = int.from_bytes(data[:8], "little")
    names = {(k if k.startswith("base_model.model.") else "base_model.model." + k): v for k, v in json.loads(data[8:8 + length]).items()}
    head = json.dumps({"__metadata__": {"format": "pt"}, **names}).encode()
    head += b" " * (-(8 + len(head)) % 8)
    return len(head).to_bytes(8, "little") + head + data[8 + length:]


def adapters(run, folder, config, first):
    lora = ['ztrain.lora={"match": ["w1"], "rank": 2, "export": "adapters"}']
    run(folder / "first.onnx", config, "--load", first, "--weights-only", "--steps", 4, sets=lora)
    check("w1.lora_A.weight [2, 6]: missing in the source" in run.says and "w1 [6, 8]: loaded" in run.says, "a full checkpoint into adapters: the frozen weights")
    tensors, base = safetensors(run.out / "adapter_model.safetensors"), run.out
    check(np.array_equal(run.model()["w1"], initializers(first / "model.onnx")["w1"]), "the model beside the adapters has the weights that they belong to")
    run(base / "model.onnx", config, "--load", base / "adapter_model.safetensors", "--weights-only", "--steps", 1, sets=[*lora, *STILL])
    got = safetensors(run.out / "adapter_model.safetensors")
    check(all(got[name] == tensors[name] for name in got if "lora" in name) and sum("lora" in name for name in got) == 2, "adapters from their file")
    run(base / "model.onnx", config, "--steps", 1, sets=STILL)
    plain = run.rows()
    run(base / "model.onnx", config, "--load", base / "adapter_model.safetensors", "--weights-only", "--steps", 1, sets=[*lora, *STILL])
    check(run.rows()[0]["loss"] != plain[0]["loss"], "and they act")
    peft = folder / "peft.safetensors"
    peft.write_bytes(as_peft((base / "adapter_model.safetensors").read_bytes()))
    run(base / "model.onnx", config, "--load", peft, "--weights-only", "--steps", 1, sets=[*lora, *STILL])
    got = safetensors(run.out / "adapter_model.safetensors")
    check(all(got[name] == tensors[name] for name in got), "and from a file of PEFT, whose header has metadata")


def refused(run, folder, config, first):
    model = folder / "first.onnx"
    for options, status, words in [
        (["--load", first], 2, "--load needs --weights-only"), (["--weights-only"], 2, "--weights-only needs --load"),
        (["--load", folder / "none", "--weights-only"], 4, "no such folder"),
        (["--load", config, "--weights-only"], 3, "config.json"),
        (["--load", save(folder / "foreign.onnx", [5, 4], ["other"]), "--weights-only"], 4, "none of its 5 tensors has name and shape of a parameter"),
    ]:
        run(model, config, *options, status=status)
        check(words in run.says and not (run.out / "metrics.jsonl").exists(), f"refused: {words}")
    path = first / "checkpoints/step-6/weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    run(model, config, "--load", first, "--weights-only", status=4)
    check("weights.safetensors" in run.says and "checksum" in run.says, "refused: a damaged checkpoint")


def main():
    program, source = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run, config, model = Runs(program, folder), folder / "config.json", save(folder / "first.onnx", [6, 8, 3], ["w1", "w2"])
        np.savez(folder / "data.npz", x=floats(24, 6), target=random.integers(0, 3, 24))
        config.write_text(json.dumps({"train_batch_size": 8, "steps_per_print": 1, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
                                      "ztrain": {"data": {"format": "npz", "path": "data.npz"}, "loss": {"type": "cross_entropy"}, "epochs": 2}}))
        run(model, config)
        first = run.out
        for part in (same, changed, frozen, adapters, refused):
            part(run, folder, config, first)
        constants(run, folder, source)
        weight_norms(run, folder)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


main()
