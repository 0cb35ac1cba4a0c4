#!/usr/bin/env python3
"""Optimizers, the average of the weights and learning-rate rules in whole runs.

    optimizers.py ZTRAIN SOURCE_ROOT [MODULE]

Every optimizer: ddp, zero1, zero2 and zero3 on two thread ranks leave equal model files, with the losses of one rank; pipeline stages
give them too; any number of threads leaves the same bits; a run that goes on from a checkpoint is the run that did not stop. The average
(ztrain.ema) is that of the weights of the checkpoints. A plateau lowers the rate, in a run that goes on too. The step line has the rates
of the next step. Cycles move the momentum, of SGD and RMSprop too. MODULE: ztrain-cuda.so of the emulated device, on which two ranks and one train alike and have the host's losses.
Needs only Python's standard library. Exit status 0: all hold, 1: one does not.
"""
import json
import math
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

for folder in ("cli", "checkpoint"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))
import onnx_bytes as onnx  # noqa: E402
from runs import few_images  # noqa: E402

failures, checks = [], 0
OPTIMIZERS = {
    "RMSprop": {"type": "RMSprop", "params": {"lr": 0.002, "alpha": 0.9}},
    "RMSprop, all states": {"type": "RMSprop", "params": {"lr": 0.002, "momentum": 0.9, "centered": True, "eps": 1e-4}},
    "Muon": {"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.002, "weight_decay": 0.01}},
    "Muon, standard": {"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.002, "ns_method": "standard"}},
}


def check(holds, what):
    global checks
    checks += 1
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)
    return holds


class Bench:
    def __init__(self, program, source, folder, name, *options):
        self.program, self.folder, self.options, self.runs = program, pathlib.Path(folder), options, 0
        case = source / "tests/reference/cases" / name
        self.model, self.config = (case / "model.onnx", case / "config.json") if case.exists() else (
            source / f"models/{name}.onnx", source / f"configs/{name}.json")

    def run(self, *options, out=None):
        """the folder of the run, None where it failed; what it said is in self.says"""
        self.runs += 1
        out = out or self.folder / str(self.runs)
        done = subprocess.run([self.program, "--model", self.model, "--config", self.config, "--output", out, *self.options, *options],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.says = done.stderr
        if done.returncode:
            print(done.stderr[-800:], file=sys.stderr)
        return None if done.returncode else out


def sets(*pairs):
    return [x for p in pairs for x in ("--set", p)]


def rows(out, evaluations=False):
    found = [json.loads(line) for line in open(out / "metrics.jsonl")] if out else []
    return [r for r in found if bool(r.get("eval")) == evaluations]


def model(out):
    return (out / "model.onnx").read_bytes() if out else b""


def worst(a, b):
    a, b = rows(a), rows(b)
    return max((abs(x["loss"] - y["loss"]) / y["loss"] for x, y in zip(a, b)), default=9) if len(a) == len(b) else 9


def thread_ranks(n, *pairs):
    return ["--ranks", str(n), *sets("ztrain.parallel.communicator=thread", *pairs)]


def goes_on(b, name, whole, at, *options):
    """a copy of the run continues from the checkpoint of step `at`"""
    again = b.folder / "again"
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(whole, again)
    (again / "model.onnx").unlink()
    out = b.run(*options, "--resume", again / f"checkpoints/step-{at}", out=again)
    keep = lambda r: {k: v for k, v in r.items() if k != "seconds"}
    same = out and list(map(keep, rows(out) + rows(out, True))) == list(map(keep, rows(whole) + rows(whole, True)))
    check(same and model(out) == model(whole), f"{name}: a run that goes on from step {at} is the run that did not stop")


def layouts(program, source, tmp):
    for i, (name, optimizer) in enumerate(OPTIMIZERS.items()):
        folder = tmp / f"layouts{i}"
        folder.mkdir()
        b = Bench(program, source, folder, "gpt", "--steps", "6", *sets(
            f"optimizer={json.dumps(optimizer)}", "scheduler=null", "ztrain.ema=0.8", "gradient_accumulation_steps=1",
            "train_batch_size=8", "ztrain.checkpoint.every_epochs=0", "ztrain.checkpoint.every_steps=3"))
        one = b.run("--threads", "1")
        check(one and model(b.run("--threads", "3")) == model(one), f"{name}: three threads leave the same bits as one")
        first = b.run("--threads", "1", *thread_ranks(2, "zero_optimization.stage=0"))
        check(first and worst(first, one) < 1e-5, f"{name}: two ranks give the losses of one (worst {worst(first, one):.1e})")
        for stage in (1, 2, 3):
            out = b.run("--threads", "1", *thread_ranks(2, f"zero_optimization.stage={stage}", "zero_optimization.reduce_bucket_size=20000"))
            check(out and model(out) == model(first), f"{name}: zero{stage} leaves the same bits as ddp")
        goes_on(b, name, out, 3, "--threads", "1", *thread_ranks(2, "zero_optimization.stage=3",
                                                                 "zero_optimization.reduce_bucket_size=20000"))
        piped = b.run("--threads", "1", *thread_ranks(2, "pipeline.stages=2"))
        check(piped and worst(piped, one) < 1e-5, f"{name}: two stages give the losses of one rank (worst {worst(piped, one):.1e})")


def tensors(file):
    """float tensors of a safetensors file by name"""
    data = file.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, t in json.loads(data[8:8 + length]).items():
        first, last = t["data_offsets"]
        found[name] = struct.unpack(f"<{(last - first) // 4}f", data[8 + length + first:8 + length + last])
    return found


def average(program, source, tmp):
    """the average after each step from the weights after each step; evaluation and model.onnx have it"""
    (tmp / "average").mkdir()
    b = Bench(program, source, tmp / "average", "mlp-wine-sklearn", "--steps", "8", *sets(
        "ztrain.ema=0.75", "ztrain.checkpoint.every_steps=1", "ztrain.checkpoint.keep=0"))
    plain, out = b.run("--set", "ztrain.ema=0"), b.run()
    if not check(out and plain and "exponential, factor 0.75" in b.says, "average: runs, and the start table says so"):
        return
    check([r["loss"] for r in rows(out)] == [r["loss"] for r in rows(plain)], "average: training does not read it")
    kept = lambda run, step, file: tensors(run / f"checkpoints/step-{step}/{file}.safetensors")
    check(all(kept(out, s, "weights") == kept(plain, s, "weights") for s in range(1, 9)), "average: checkpoints keep the weights")
    mean, off = None, 0
    for step in range(1, 9):
        weights, found = kept(out, step, "weights"), kept(out, step, "optimizer")
        if mean is None:  # the initial weights follow from the first average
            mean = {k: [(e - 0.25 * p) / 0.75 for e, p in zip(found[k + ".ema"], v)] for k, v in weights.items() if k + ".ema" in found}
        mean = {k: [0.75 * m + 0.25 * p for m, p in zip(v, weights[k])] for k, v in mean.items()}
        off = max(off, max(abs(m - e) for k in mean for m, e in zip(mean[k], found[k + ".ema"])))
    check(mean and off < 1e-6, f"average: it is that of the weights of the checkpoints (off by {off:.1e})")
    exported, flat = model(out), [struct.pack(f"<{len(v)}f", *v) for k, v in kept(out, 8, "optimizer").items() if k.endswith(".ema")]
    check(all(bytes_ in exported for bytes_ in flat) and model(out) != model(plain), "average: model.onnx has it")


def evaluated(program, source, tmp):
    """evaluations of the average are those of the exported model"""
    (tmp / "evaluated").mkdir()
    images = few_images(source, tmp / "evaluated" / "images", 320)
    b = Bench(program, source, tmp / "evaluated", "convnet", "--epochs", "2", "--data", f"cifar10:{images}", *sets("ztrain.ema=0.9"))
    b.config = source / "configs/ds_config.json"
    for name, options in (("one rank", []), ("zero3", thread_ranks(2, "zero_optimization.stage=3")), ("stages", thread_ranks(2, "pipeline.stages=2"))):
        out = b.run(*options)
        done = subprocess.run([program, "evaluate", "--model", out / "model.onnx", "--config", b.config, "--data", f"cifar10:{images}"], capture_output=True, text=True)
        loss, found = json.loads(done.stdout)["loss"], rows(out, True)[-1]["loss"]
        check(math.isclose(loss, found, rel_tol=1e-5), f"average, {name}: the evaluation is that of model.onnx ({loss} and {found})")


def plateau(program, source, tmp):
    (tmp / "plateau").mkdir()
    rule = {"type": "ReduceLROnPlateau", "params": {"patience": 0, "factor": 0.5, "threshold": 0.2}}
    for name, options in (("training loss", []), ("evaluation loss", ["--set", "ztrain.data.eval_path=" + str(source / "models/text/test.npz")])):
        b = Bench(program, source, tmp / "plateau", "gpt", "--epochs", "4", *sets(
            f"scheduler={json.dumps(rule)}", "ztrain.data.path=" + str(source / "models/text/test.npz"), "gradient_accumulation_steps=1",
            "ztrain.checkpoint.every_steps=1", "ztrain.checkpoint.keep=0", "train_batch_size=16"))
        shutil.rmtree(tmp / "plateau", ignore_errors=True)
        (tmp / "plateau").mkdir()
        if not options:
            b.options = (*b.options, "--set", "ztrain.data.eval_path=null")
        out = b.run(*options)
        if not check(out, f"plateau, {name}: a run"):
            continue
        own = rows(out)
        seen = [sum(r["loss"] * r["samples"] for r in own if r["epoch"] == e) / sum(r["samples"] for r in own if r["epoch"] == e)
                for e in range(4)] if not options else [r["loss"] for r in rows(out, True)]
        rate, best, rates = 0.003, math.inf, []
        for value in seen:
            rates.append(rate)
            if value < best * 0.8:
                best = value
            else:
                rate *= 0.5
        check([sorted({r["lr"] for r in own if r["epoch"] == e}) for e in range(4)] == [[r] for r in rates] and rates[-1] < 0.003,
              f"plateau, {name}: rates {rates}")
        half = own[-1]["step"] // 2 + 1
        goes_on(b, f"plateau, {name}", out, half, *options)
    plateau_of_groups(program, source, tmp)


GROUPS = ['ztrain.param_groups=[{"match": "*.bias", "lr": 0.001}]', "steps_per_print=1", "ztrain.checkpoint.every_steps=1", "ztrain.checkpoint.keep=0"]
BOUNDED = {"type": "ReduceLROnPlateau", "params": {"patience": 0, "factor": 0.5, "threshold": 0.9, "min_lr": [0.0004, 0.0005]}}


def plateau_of_groups(program, source, tmp):
    """each group's rate falls to its own bound; a run that goes on has them from the checkpoint"""
    (tmp / "bounds").mkdir()
    b = Bench(program, source, tmp / "bounds", "mlp-wine-sklearn", "--epochs", "5", *sets(
        f"scheduler={json.dumps(BOUNDED)}", 'optimizer={"type": "Adam", "params": {"lr": 0.002}}', *GROUPS))
    out = b.run()
    said = [tuple(map(float, m.split(", "))) for m in re.findall(r"^step=\d+, skipped=0, lr=\[(.*?)\]", b.says, re.M)]
    seen = list(dict.fromkeys(said))
    check(out and seen[:3] == [(0.002, 0.001), (0.001, 0.0005), (0.0005, 0.0005)] and seen[3:] in ([], [(0.0004, 0.0005)]), f"plateau of groups: rates {seen}")
    goes_on(b, "plateau of groups", out, rows(out)[-1]["step"] - 1)


def refused(program, source, tmp):
    (tmp / "refused").mkdir()
    b = Bench(program, source, tmp / "refused", "mlp-wine-sklearn")
    rule = {"type": "ReduceLROnPlateau", "params": {"mode": "max"}}
    check(b.run("--steps", "1", *sets(f"scheduler={json.dumps(rule)}", "ztrain.metrics=[]")) is None and
          "mode: \"max\" follows the accuracy" in b.says, "plateau: mode max without an accuracy is refused")


def step_line(program, source, tmp):
    (tmp / "line").mkdir()
    rule = {"type": "OneCycle", "params": {"cycle_min_lr": 0.001, "cycle_max_lr": 0.005, "cycle_first_step_size": 4}}
    b = Bench(program, source, tmp / "line", "mlp-wine-sklearn", "--steps", "6", *sets(
        f"scheduler={json.dumps(rule)}", "steps_per_print=1", 'optimizer={"type": "Adam", "params": {"lr": 0.001}}'))
    out = b.run()
    said = [(int(m[1]), float(m[2]), float(m[3]), float(m[4])) for m in
            re.finditer(r"^step=(\d+), skipped=0, lr=\[(\S+)\], mom=\[\[(\S+), (\S+)\]\]$", b.says, re.M)]
    used = [r["lr"] for r in rows(out)]
    ramp = [u / 4 if u <= 4 else (8 - u) / 4 for u in range(8)]
    check([line[0] for line in said] == list(range(7)) and all(math.isclose(a, 0.001 + 0.004 * r) for a, r in zip(used, ramp)), "step line: metrics have the rates used")
    check(all(math.isclose(line[1], used[line[0]], rel_tol=1e-6) for line in said[:-1]), "step line: it has the rate of the next step")
    beta1 = [0.8] + [0.9 - 0.1 * r for r in ramp[1:]]  # at first cycle_min_mom, as in DeepSpeed
    check(all(math.isclose(line[2], beta1[line[0]]) and line[3] == 0.99 for line in said),
          "step line: OneCycle's momentum moves")


# the momentum moves, that of SGD though the config gives none
CYCLES = {
    "OneCycleLR": ({"type": "OneCycleLR", "params": {"max_lr": 0.05}}, {"type": "SGD", "params": {"lr": 0.01, "nesterov": False}}),
    "CyclicLR": ({"type": "CyclicLR", "params": {"base_lr": 0.001, "max_lr": 0.004, "step_size_up": 2, "mode": "triangular2"}},
                 {"type": "RMSprop", "params": {"centered": True}}),
}


def cycles(program, source, tmp):
    """PyTorch's cycles in whole runs: the momentum of the step line, layouts, going on"""
    for name, (rule, optimizer) in CYCLES.items():
        (tmp / name).mkdir()
        b = Bench(program, source, tmp / name, "mlp-wine-sklearn", "--steps", "8", *sets(
            f"scheduler={json.dumps(rule)}", f"optimizer={json.dumps(optimizer)}", "steps_per_print=1", "ztrain.checkpoint.every_steps=4"))
        out = b.run()
        momenta = [float(m[1]) for m in re.finditer(r"^step=\d+, skipped=0, lr=\[\S+\], mom=\[(\S+)\]$", b.says, re.M)]
        check(out and len(momenta) == 9 and momenta[0] == rule["params"].get("max_momentum", 0.95 if name == "OneCycleLR" else 0.9) and
              min(momenta) < momenta[0], f"{name}: the step line has the momentum that moves ({momenta})")
        goes_on(b, name, out, 4)
        split = b.run(*thread_ranks(2, "zero_optimization.stage=2", "train_micro_batch_size_per_gpu=null", "gradient_accumulation_steps=1"))
        check(split and worst(split, out) < 1e-5, f"{name}: two ranks of ZeRO 2 have the losses of one (worst {worst(split, out):.1e})")


def device(program, source, tmp, module):
    """the emulated device: one rank has the losses of the host; two ranks in every stage leave the same bits"""
    (tmp / "device").mkdir()
    shutil.copy(program, tmp / "device/ztrain")
    shutil.copy(module, tmp / "device")
    for name, optimizer in OPTIMIZERS.items():
        folder = tmp / "device" / name.replace(", ", "-").replace(" ", "-")
        folder.mkdir()
        b = Bench(tmp / "device/ztrain", source, folder, "mlp-wine-sklearn", "--steps", "6", *sets(
            f"optimizer={json.dumps(optimizer)}", "ztrain.ema=0.8"))
        host, one = b.run("--device", "cpu"), b.run("--device", "cuda")
        check(host and one and worst(one, host) < 1e-5, f"{name}: the device has the losses of the host (worst {worst(one, host):.1e})")
        outs = [b.run("--device", "cuda", *thread_ranks(2, "train_micro_batch_size_per_gpu=8", f"zero_optimization.stage={z}")) for z in range(4)]
        check(all(outs) and worst(outs[0], one) < 1e-5, f"{name}: two ranks on devices have the losses of one (worst {worst(outs[0], one):.1e})")
        check(all(outs) and len({model(o) for o in outs}) == 1, f"{name}: ddp and ZeRO 1 to 3 leave the same bits on devices")
        a, c = tensors(host / "checkpoints/step-6/optimizer.safetensors"), tensors(one / "checkpoints/step-6/optimizer.safetensors")
        off = max(abs(x - y) for k in a if k.endswith(".ema") for x, y in zip(a[k], c[k]))
        check(off < 1e-5, f"{name}: averages on the device are those of the host (off by {off:.1e})")
    for name, (rule, optimizer) in CYCLES.items():
        b = Bench(tmp / "device/ztrain", source, tmp / "device", "mlp-wine-sklearn", "--steps", "8", *sets(
            f"scheduler={json.dumps(rule)}", f"optimizer={json.dumps(optimizer)}"))
        host, there = (b.run("--device", d, out=tmp / f"device/{name}-{d}") for d in ("cpu", "cuda"))
        check(host and there and worst(there, host) < 1e-5, f"{name}: losses on the device are those of the host")
    rule = {"type": "ReduceLROnPlateau", "params": {"patience": 0, "factor": 0.5, "threshold": 0.9}}
    b = Bench(tmp / "device/ztrain", source, tmp / "device", "mlp-wine-sklearn", "--epochs", "5", *sets(f"scheduler={json.dumps(rule)}"))
    host, there = (b.run("--device", d, out=tmp / f"device/on-{d}") for d in ("cpu", "cuda"))
    rates = [r["lr"] for r in rows(there)]
    check(there and rates == [r["lr"] for r in rows(host)] and len(set(rates)) > 1 and worst(there, host) < 1e-5,
          "plateau: rates and losses on the device are those of the host")
    b = Bench(tmp / "device/ztrain", source, tmp / "device", "mlp-wine-sklearn", "--epochs", "5", *sets(f"scheduler={json.dumps(BOUNDED)}", *GROUPS))
    host, there = (b.run("--device", d, out=tmp / f"device/bounds-{d}") for d in ("cpu", "cuda"))
    check(host and there and worst(there, host) < 1e-5, "plateau of groups: losses on the device are those of the host")
    b = Bench(tmp / "device/ztrain", source, tmp / "device", "mlp", "--epochs", "1", *sets("bf16.enabled=false", "ztrain.ema=0.9"))
    host, there = (b.run("--device", d, *thread_ranks(2, "zero_optimization.stage=3"), out=tmp / f"device/evaluated-{d}") for d in ("cpu", "cuda"))
    check(host and there and math.isclose(rows(host, True)[-1]["loss"], rows(there, True)[-1]["loss"], rel_tol=1e-5),
          "average: its evaluation on devices is that of the host")
    b = Bench(tmp / "device/ztrain", source, tmp / "device", "mlp-wine-sklearn", "--steps", "4", *sets(
        f"optimizer={json.dumps(OPTIMIZERS['Muon'])}", "ztrain.ema=0.8"))
    b.model, b.config = cut(tmp / "device")
    outs = [b.run("--device", d, *thread_ranks(2, f"zero_optimization.stage={z}"), out=tmp / f"device/split-{d}{z}")
            for d, z in (("cpu", 0), ("cpu", 2), ("cuda", 0), ("cuda", 1), ("cuda", 2), ("cuda", 3))]
    check(all(outs) and model(outs[0]) == model(outs[1]) and len({model(o) for o in outs[2:]}) == 1 and worst(outs[2], outs[0]) < 1e-5,
          f"Muon: matrices whose slices two devices have (worst {worst(outs[2], outs[0]):.1e})")


def cut(folder):
    """two layers of 1,500, whose weights are cut between two ranks, and data: model and config"""
    rng = random.Random(3)
    numbers = lambda n: [rng.uniform(-1, 1) for _ in range(n)]
    made = onnx.model([onnx.node("MatMul", ["x", "w1"], ["h"], "in"), onnx.node("Tanh", ["h"], ["t"], "tanh"),
                       onnx.node("MatMul", ["t", "w2"], ["y"], "out")],
                      [onnx.value_info("x", ["n", 4])], [onnx.value_info("y", ["n", 3])],
                      [onnx.tensor([4, 1500], numbers(6000), name="w1"),
                       onnx.tensor([1500, 3], [v / 30 for v in numbers(4500)], name="w2")])
    (folder / "cut.onnx").write_bytes(made)
    (folder / "cut.npz").write_bytes(onnx.npz({"x": ([32, 4], numbers(128)),
                                               "target": ([32], [rng.randrange(3) for _ in range(32)], onnx.INT64)}))
    (folder / "cut.json").write_text(json.dumps({"train_batch_size": 16, "ztrain": {
        "data": {"format": "npz", "path": "cut.npz"}, "loss": {"type": "cross_entropy"}}}))
    return folder / "cut.onnx", folder / "cut.json"


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__)
        return 2
    program, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        if len(sys.argv) == 4:
            device(program, source, tmp, sys.argv[3])
        else:
            for test in (layouts, average, evaluated, plateau, refused, step_line, cycles):
                test(program, source, tmp)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
