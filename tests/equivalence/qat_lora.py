#!/usr/bin/env python3
"""Adapters (ztrain.lora) of weights that ztrain.qat quantizes, against numpy in float64 and onnxruntime.

    qat_lora.py ZTRAIN ROOT [MODULE]    MODULE: the CUDA module, which runs the small network on the device

What is quantized is W + s B A. The network of qat.py trains adapters alone: losses, A, B, the merged weights and the scales that the model has are
those of numpy; the adapters' file continues to the same model. The convnet of models/ is trained on the digits, then adapted with int8 weights and
activations: onnxruntime's loss and accuracy of the written model are those of the last evaluation; the same bits at 1 and 2 threads, after resuming,
over ZeRO and with recomputation. In fp16 and bf16 a step is near numpy's."""
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx

import lora
import qat
import quantize
from lora import safetensors
from qat import Moving, cases, check_written_numbers, hash_of, name_of, numbers_of, onnxruntime, session_of, small, step
from quantize import check, initializers, losses_of, run

RANK, ALPHA, RATES = 2, 3, (0.005, 0.0005)  # fixed and learned scales, as in qat.py
SCALE = ALPHA / RANK
LORA = ["--set", 'ztrain.lora.match=["w1", "w2"]', "--set", f"ztrain.lora.rank={RANK}", "--set", f"ztrain.lora.alpha={ALPHA}"]
APART = ["--set", "ztrain.lora.export=adapters"]
PREFIX = "base_model.model."


# ---- the reference ----

def merged(values, p, w):
    return values[w] + SCALE * (p[w + ".B"] @ p[w + ".A"]).T if w + ".A" in p else values[w]


def train(values, first, x, target, c, steps=qat.STEPS):
    """Adapters and learned scales train, the weights and b1 do not."""
    values, x, target = ({k: v.astype(np.float64) for k, v in values.items()}, x.astype(np.float64), target.astype(np.float64))
    p, losses, moving, half = {k: v.astype(np.float64) for k, v in first.items()}, [], (Moving(), Moving()), qat.SAMPLES // 2
    along = 0 if c["per"] == "axis" else None
    if c["learn"]:
        start = {w: merged(values, p, w) for w in ("w1", "w2")}
        p.update({f"{w}.scale": numbers_of(start[w].min(along), start[w].max(along), c["weights"], True)[0] for w in start})
    for k in range(steps):
        rows = slice(half * (k % 2), half * (k % 2) + half)
        now = {**values, **{n: v for n, v in p.items() if n.endswith("scale")}, **{w: merged(values, p, w) for w in ("w1", "w2")}}
        loss, g = step(now, moving, x[rows], target[rows], c)
        losses.append(loss)
        change = {}
        for w in ("w1", "w2"):
            if w + ".A" in p:
                change |= {w + ".A": SCALE * p[w + ".B"].T @ g[w].T, w + ".B": SCALE * g[w].T @ p[w + ".A"].T}
            if c["learn"]:
                change[w + ".scale"] = g[w + ".scale"]
        p = {n: v - RATES[c["learn"]] * change[n] for n, v in p.items()}
    return losses, p, moving


# ---- the small network ----

def factors_of(folder):
    """The adapters' file, by the names of the reference; other tensors by their own."""
    short = {f"{PREFIX}{w}.lora_{k}.weight": f"{w}.{k}" for w in ("w1", "w2") for k in "AB"}
    return {short.get(n, n): t for n, t in safetensors(folder / "adapter_model.safetensors").items()}


def without_qat(folder):
    """The config of a run that has not been quantized."""
    c = json.loads((folder / "c.json").read_text())
    del c["ztrain"]["qat"]
    (folder / "plain.json").write_text(json.dumps(c))
    return folder / "plain.json"


def against_numpy(program, folder, c, device, loaded):
    name = f"adapted, {'from a file, ' if loaded else ''}{name_of(c)}"
    values, x, target, start = small(folder, c)
    start += [*device, *LORA, "--set", f"optimizer.params.lr={RATES[c['learn']]}"]
    begin = folder / "begin"
    run(program, *start[:4], without_qat(folder), *start[5:], *APART, *([] if loaded else ["--steps", 0, "--epochs", 0]), "--set", f"optimizer.params.lr={RATES[0]}", "--output", begin)
    first = {n: t for n, t in factors_of(begin).items() if n[-2:] in (".A", ".B")}
    check(len(first) == 4 and np.any(first["w1.B"]) == loaded, f"{name}: the adapters at the start: {sorted(first)}")
    start += ["--weights-only", "--load", begin / "adapter_model.safetensors"] if loaded else []
    hashes = [hash_of(program, *start, "--threads", n, "--output", folder / f"run-{n}") for n in (1, 2)]
    check(hashes[0] and hashes[0] == hashes[1], f"{name}: the same weights at 1 and 2 threads")
    losses, wants, moving = train(values, first, x, target, c)
    got = losses_of(folder / "run-1")
    check(np.allclose(got, losses, rtol=2e-5), f"{name}: losses {got} are those of numpy {losses}")
    run(program, *start, *APART, "--output", folder / "apart")
    trained = factors_of(folder / "apart")
    for tensor, want in wants.items():
        off, change = np.abs(trained[tensor] - want).max(), np.abs(want - first.get(tensor, 0)).max()
        check(off <= 2e-6 + 1e-3 * change and change > 0, f"{name}: {tensor} within {off:.1e} after it moved by {change:.1e}")
    check(onnx.load(folder / "apart" / "model.onnx").SerializeToString() == onnx.load(folder / "m.onnx").SerializeToString(), f"{name}: the model of the adapters is the file")
    model = folder / "run-1" / "model.onnx"
    onnx.checker.check_model(onnx.load(model), full_check=True)
    written = initializers(model)
    for w in ("w1", "w2"):
        want = merged(values, {n: t.astype(np.float64) for n, t in trained.items()}, w)
        check(np.abs(written[w] - want).max() <= 1e-6, f"{name}: {w} is written with its adapter")
    check(np.array_equal(written["b1"], values["b1"]), f"{name}: b1 does not train")
    check_written_numbers(name, written, moving, c, 1e-4)
    again = ["--weights-only", "--load", folder / "apart" / "adapter_model.safetensors", "--steps", 0, "--epochs", 0]
    run(program, *start[:len(start) - 3 * loaded], *again, "--output", folder / "again")
    same = initializers(folder / "again" / "model.onnx")
    check(all(np.array_equal(written[n], same[n]) for n in written | same), f"{name}: the adapters' file gives the model")
    check_runtime(program, name, folder, model, x, target, c)


def check_runtime(program, name, folder, model, x, target, c):
    np.savez(folder / "x.npz", x=x)
    run(program, "predict", "--model", model, "--inputs", folder / "x.npz", "--output", folder / "p")
    here = np.load(folder / "p" / "outputs.npz")["y"]
    if onnxruntime and c["weights"] in ("int8", "uint8"):
        y = session_of(model).run(None, {"x": x})[0]
        check(np.abs(y - here).max() <= 0.02 * np.abs(here).max(), f"{name}: onnxruntime's int8 kernels agree within {np.abs(y - here).max():.1e}")


def in_16_bits(program, folder, c, half, device):
    """One step after adapters were loaded: the weight and its change are added in fp32, before codes are chosen."""
    name, near = f"adapted, {half}, {name_of(c)}", {"fp16": 2e-3, "bf16": 2e-2}[half]
    values, x, target, start = small(folder, c)
    start += [*device, *LORA, "--set", f"optimizer.params.lr={RATES[c['learn']]}"]
    run(program, *start[:4], without_qat(folder), *start[5:], *APART, "--set", f"optimizer.params.lr={RATES[0]}", "--output", folder / "begin")
    first = {n: t for n, t in factors_of(folder / "begin").items() if n[-2:] in (".A", ".B")}
    start += ["--weights-only", "--load", folder / "begin" / "adapter_model.safetensors", "--steps", 1, "--set", f"{half}.enabled=true"]
    start += ["--set", "fp16.loss_scale=64"] if half == "fp16" else []
    out = folder / "run"
    run(program, *start, "--set", "zero_optimization.stage3_gather_16bit_weights_on_model_save=true", "--output", out)
    losses, wants, moving = train(values, first, x, target, c, 1)
    check(np.allclose(losses_of(out), losses, rtol=near), f"{name}: the loss {losses_of(out)} is near numpy's {losses}")
    run(program, *start, *APART, "--output", folder / "apart")
    trained, written = factors_of(folder / "apart"), initializers(out / "model.onnx")
    for tensor in first:
        off, change = np.abs(trained[tensor] - wants[tensor]).max(), np.abs(wants[tensor] - first[tensor]).max()
        check(off <= 10 * near * change and change > 0, f"{name}: {tensor} within {off:.1e} after it moved by {change:.1e}")
    check_written_numbers(name, written, moving, c, 2 * near)
    for file in ("model.onnx", "model.16bit.onnx"):
        onnx.checker.check_model(onnx.load(out / file), full_check=True)
    if onnxruntime:
        y, rounded = (session_of(out / file).run(None, {"x": x})[0] for file in ("model.onnx", "model.16bit.onnx"))
        check(np.abs(y - rounded).max() <= 0.03 * np.abs(y).max(), f"{name}: onnxruntime runs both models, {np.abs(y - rounded).max():.1e} apart")


def at_borders(random, w):
    """Weights just above the borders of codes, most of which float16 moves below. The largest of a column stays."""
    scale = np.abs(w).max(0) / 127 * qat.MARGIN
    trials = (np.floor(w / scale)[..., None] + 0.5 + random.uniform(0.001, 0.02, (*w.shape, 200))) * scale[:, None]
    falls = trials.astype(np.float16) / scale[:, None] < np.floor(w / scale)[..., None] + 0.5
    found = np.take_along_axis(trials, falls.argmax(-1)[..., None], -1)[..., 0]
    return np.where((np.abs(w) < np.abs(w).max(0)) & falls.any(-1), found, w).astype(np.float32)


def sums_are_float(program, folder, device):
    """In fp16 the weight is not rounded before its code is chosen."""
    c = {**cases()[0], "activations": None}
    values, x, target, start = small(folder, c)
    values["w1"] = at_borders(np.random.default_rng(3), values["w1"])
    x, target = np.abs(x), 0 * target  # all changes of codes add up
    np.savez(folder / "data.npz", x=x, target=target)
    qat.save(folder / "m.onnx", values)
    run(program, *start, *device, *LORA, "--steps", 1, "--set", "fp16.enabled=true", "--set", "fp16.loss_scale=64", "--output", folder / "run")
    want, rounded = (train({**values, "w1": w}, {}, x, target, c, 1)[0][0] for w in (values["w1"], values["w1"].astype(np.float16)))
    got = losses_of(folder / "run")[0]
    check(abs(got / want - 1) < 2e-3 < 3e-3 < abs(rounded / want - 1), f"fp16: the loss {got:.5f} is numpy's {want:.5f}, with rounded weights it is {rounded:.5f}")


# ---- forms of nodes ----

def forms(program, folder):
    """What ran is what the written model computes, in each form of a node that lora.py has and that can be quantized."""
    runs = lora.Runs(program, folder)
    quantized = ["ztrain.qat.weights=int8", "ztrain.qat.activations=int8", "optimizer.params.lr=0", "ztrain.steps=1", "ztrain.lora.export=merged"]
    for name in ("MatMul", "MatMul, rank 3", "MatMul of a transposed weight", "MatMul, weight on the left", "Gemm", "Gemm, transB", "Gemm, transA", "two readers",
                 "Gemm, weight on the left", "Gemm, transposed weight on the left", "two Gemms with alpha", "Conv", "Conv of groups", "Loop, and a reader outside"):
        sample, shape, nodes, _ = lora.FORMS[name]
        classes = lora.CLASSES.get(name, shape[0] if "Loop" in name else 5)
        target = lora.random.integers(0, classes, lora.SAMPLES)
        np.savez(folder / "data.npz", x=lora.floats(lora.SAMPLES, *sample), target=target)
        np.savez(folder / "x.npz", x=np.load(folder / "data.npz")["x"])
        lora.save(folder / "m.onnx", nodes, {"w": lora.floats(*shape), **lora.CONSTANTS}, sample, classes)
        start = [folder / "m.onnx", lora.config(folder / "lora.json", folder / "data.npz", lora=lora.lora("w"))]
        runs(*start)
        runs(*start, *quantized, more=["--weights-only", "--load", runs.out / "adapter_model.safetensors"])
        y = lora.predict(runs, runs.out / "model.onnx", folder).astype(np.float64)
        loss = -(y[range(len(y)), target] - np.log(np.exp(y).sum(1))).mean()
        pairs = sum(n.op_type == "QuantizeLinear" for n in onnx.load(runs.out / "model.onnx").graph.node)
        check(pairs >= 2 and abs(runs.losses()[0] / loss - 1) < 1e-5, f"{name}: the loss {runs.losses()[0]:.7f} is that of the written model {loss:.7f}, {pairs} pairs")


# ---- the digits ----

def evaluated(folder):
    return [line for line in map(json.loads, open(folder / "metrics.jsonl")) if line.get("eval")][-1]


def of_runtime(model, root):
    """Loss and accuracy of the test digits."""
    raw = np.fromfile(root / "models/digits/test_batch.bin", np.uint8).reshape(-1, 3073)
    y = session_of(model).run(None, {"image": (raw[:, 1:].reshape(-1, 3, 32, 32) / 255).astype(np.float32)})[0].astype(np.float64)
    y -= y.max(1, keepdims=True)
    return -(y[range(len(y)), raw[:, 0]] - np.log(np.exp(y).sum(1))).mean(), (y.argmax(1) == raw[:, 0]).mean()


def adapts_digits(program, folder, root):
    start = qat.digits(program, folder, root)
    run(program, *start, "--epochs", 2, "--set", "ztrain.qat.weights=none", "--set", "ztrain.qat.activations=none", "--output", folder / "base")
    adapted = json.loads(start[4].read_text())
    adapted["ztrain"] |= {"epochs": 2, "lora": {"match": ["*weight"], "rank": 2}}
    (folder / "adapted.json").write_text(json.dumps(adapted))
    start = [*start[:2], folder / "base" / "model.onnx", "--config", folder / "adapted.json", *start[5:]]
    for learn in (False, True):
        more = [*start, *(["--set", "ztrain.qat.scales=learn"] if learn else [])]
        name, out = f"digits, {'learned' if learn else 'fixed'} scales", folder / f"digits-{learn}"
        whole = hash_of(program, *more, "--output", out, "--threads", 2)
        ours = evaluated(out)
        check(ours["accuracy"] > 0.94, f"{name}: accuracy {ours['accuracy']:.4f}")
        part = folder / f"part-{learn}"
        hash_of(program, *more, "--output", part, "--epochs", 1, "--threads", 1)
        check(hash_of(program, *more, "--output", part, "--resume", "--threads", 1) == whole, f"{name}: the same weights on one thread, after resuming")
        model = out / "model.onnx"
        onnx.checker.check_model(onnx.load(model), full_check=True)
        base, got = initializers(folder / "base" / "model.onnx"), initializers(model)
        changed = {n for n in base if not np.array_equal(base[n], got[n])}
        check(changed == {n for n in base if n.endswith("weight")}, f"{name}: the model has changed weights: {sorted(changed)}")
        here = qat.run_evaluate(program, model, more)
        check(abs(here - ours["accuracy"]) < 1e-6, f"{name}: ztrain evaluate of the written model: {here:.4f}, the last evaluation {ours['accuracy']:.4f}")
        if onnxruntime:
            loss, accuracy = of_runtime(model, root)
            check(abs(loss - ours["loss"]) < 0.01 * ours["loss"] and abs(accuracy - ours["accuracy"]) <= qat.POINTS,
                  f"{name}: onnxruntime has loss {loss:.5f} and accuracy {accuracy:.4f}, the last evaluation {ours['loss']:.5f} and {ours['accuracy']:.4f}")
    return start


def layouts(program, folder, start):
    start = [*start, "--steps", 8, "--set", "ztrain.checkpoint.every_epochs=0", "--set", "ztrain.qat.scales=learn"]
    for kind in ([], ["--set", "fp16.enabled=true", "--set", "fp16.initial_scale_power=6"], ["--set", "bf16.enabled=true"]):
        name = kind[1][:4] if kind else "fp32"
        ddp = hash_of(program, *start, *kind, "--output", folder / f"ddp-{name}", "--ranks", 2)
        threads = ["--set", "ztrain.parallel.communicator=thread"]  # of one process, which start sooner; ddp's are processes
        for stage in (1, 2, 3):
            zero = hash_of(program, *start, *kind, *threads, "--output", folder / f"zero{stage}-{name}", "--ranks", 2, "--set", f"zero_optimization.stage={stage}",
                           "--set", "zero_optimization.stage3_param_persistence_threshold=0")
            check(ddp and zero == ddp, f"{name}: ZeRO {stage} has the weights and ranges of ddp")
    run(program, *start, "--output", folder / "dp", "--ranks", 2, "--set", "ztrain.parallel.mode=dp")
    losses = [losses_of(folder / out) for out in ("ddp-fp32", "dp")]
    check(len(losses[0]) >= 8 and np.allclose(losses[0][:8], losses[1][:8], rtol=1e-5), f"dp has the losses of ddp: {losses}")
    alone = hash_of(program, *start, "--output", folder / "alone")
    check(hash_of(program, *start, "--output", folder / "recomputed", "--set", 'ztrain.recompute=["*"]') == alone, "recomputation changes no bit")
    run(program, *start, *threads, "--output", folder / "stages", "--ranks", 2, "--set", "pipeline.stages=2")
    a, b = initializers(folder / "alone" / "model.onnx"), initializers(folder / "stages" / "model.onnx")
    check(a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() for k in a), "two pipeline stages write the model of one")


def restored(program, folder, root):
    """Weights that an exporter rearranged: adapters belong to the parameters, pairs to the file's initializers."""
    start = ["train", "--model", root / "models/gpt.onnx", "--config", root / "configs/gpt.json", "--device", "cpu", "--set", "ztrain.checkpoint.every_epochs=0"]
    for one in ('lora.match=["*"]', "lora.rank=4", "qat.weights=int8", "qat.activations=int8", "qat.scales=learn"):
        start += ["--set", "ztrain." + one]
    run(program, *start, "--steps", 4, "--output", folder / "gpt")
    run(program, *start, *APART, "--steps", 4, "--output", folder / "gpt-apart")
    again = ["--weights-only", "--load", folder / "gpt-apart" / "adapter_model.safetensors", "--steps", 0, "--epochs", 0]
    run(program, *start, *again, "--output", folder / "gpt-again")
    run(program, *start, "--steps", 4, "--ranks", 2, "--set", "pipeline.stages=2", "--set", "ztrain.parallel.communicator=thread", "--output", folder / "gpt-stages")
    whole = initializers(folder / "gpt" / "model.onnx")
    for out, what in (("gpt-again", "the adapters' file gives the model"), ("gpt-stages", "two stages write the model of one")):
        other = initializers(folder / out / "model.onnx")
        check(other.keys() == whole.keys() and all(other[n].tobytes() == whole[n].tobytes() for n in whole), f"gpt: {what}")
    scales = {n for n in whole if n.startswith("val_") and n.endswith(".scale")}
    check(len(scales) == 9, f"gpt: eight weights with adapters and the output layer are quantized: {sorted(scales)}")


def dropout(program, folder):
    c = {**cases()[0], "learn": False}
    values, x, target, start = small(folder, c)
    start += ["--device", "cpu", *LORA, "--set", "ztrain.lora.dropout=0.1"]
    text = run(program, *start, "--output", folder / "refused", status=2)
    check("ztrain.lora.dropout: 0.1 excludes ztrain.qat.weights" in text, f"dropout before an adapter of a quantized weight is refused: {text.strip().splitlines()[-1]}")
    run(program, *start, "--set", 'ztrain.lora.match=["w1"]', "--set", 'ztrain.qat.match=["w2"]', "--output", folder / "others")
    activations = [*start, "--set", "ztrain.qat.weights=none"]
    run(program, *activations, "--output", folder / "activations")
    got = initializers(folder / "activations" / "model.onnx")
    check("x.scale" in got and "w1.scale" not in got and not np.array_equal(got["w1"], values["w1"]), "activations alone are quantized in front of weight and adapter")


def main():
    program, root, device = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), ["--device", "cpu"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        module = len(sys.argv) > 3
        if module:
            program, device = quantize.beside(program, sys.argv[3], folder / "place"), ["--device", "cuda"]
        all_cases = cases()
        kinds = [*(all_cases[k] for k in (0, 1, 4, 5, 7)), {**all_cases[0], "weights": "none"}]
        for i, c in enumerate(kinds):
            against_numpy(program, folder / f"case-{i}", c, device, False)
            against_numpy(program, folder / f"loaded-{i}", c, device, True)
        for i, c in enumerate((all_cases[0], all_cases[4])):
            for half in ("fp16", "bf16"):
                in_16_bits(program, folder / f"{half}-{i}", c, half, device)
        sums_are_float(program, folder / "borders", device)
        if not module:
            forms(program, folder)
            layouts(program, folder, adapts_digits(program, folder, root))
            restored(program, folder, root)
            dropout(program, folder / "dropout")
    print(f"{quantize.checks - len(quantize.failures)} of {quantize.checks} hold")
    return 1 if quantize.failures else 0


if __name__ == "__main__":
    sys.exit(main())
