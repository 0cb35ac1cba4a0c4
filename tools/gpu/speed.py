"""The parts of tools/gpu_suite that time training: ztrain, then PyTorch, by turns."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from part import Failed, ROOT

from convnet import CONFIG, MODEL, read_rows
from gpu_rows import light_file, row

COMPARE = ROOT / "tools" / "compare"
WARMUP, STEPS = 10, 60
PEAK_BF16 = 989e12  # an H100's and an H200's, dense, NVIDIA's data sheet
NETWORKS = {"gpt2": ("G3", 16, "tokens", "1; goal 1.1 and 475,000"), "resnet50": ("G2", 256, "images", "1 and 3,500; goal 1.15")}


def steps_of(part):
    """(steps that are not counted, those that are)"""
    return (1, 2) if part.suite.rehearses else (WARMUP, STEPS)


def network_file(part, name):
    """The network's file with weights, made once."""
    if name == "convnet":
        return MODEL
    model = part.suite.work / f"{name}.onnx"
    if not model.exists():
        part.run(sys.executable, ROOT / "tools/export/light_weights.py", light_file(name, part.suite.rehearses), "--output",
                 model.with_name("part.onnx"))
        model.with_name("part.onnx").rename(model)
    return model


def network_data(part, name, samples):
    import numpy
    data = part.suite.work / f"{name}.npz"
    if not data.exists():
        numpy.savez(data, **row(name, part.suite.rehearses).arrays(samples))
    return data


def network(part, name, batch=None, bf16=True):
    """(file, config, batch) of a network as it is trained: its row's batch unless said, a small one in a rehearsal."""
    if name == "convnet":
        count = 1 if part.suite.rehearses else batch or 256
        return MODEL, {**CONFIG, "train_batch_size": count, "bf16": {"enabled": bf16}}, count
    count = 2 if part.suite.rehearses else batch or NETWORKS[name][1]
    return network_file(part, name), {
        "train_batch_size": count, "steps_per_print": 1000, "bf16": {"enabled": bf16},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}},
        "ztrain": {"data": {"format": "npz", "path": str(network_data(part, name, 4 * count)), "drop_last": True},
                   "loss": {"type": "cross_entropy"}, "metrics": [], "checkpoint": {"every_epochs": 0}}}, count


def words_of(part, folder, model, config, *more):
    """The command that trains into `folder`/run."""
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps(config))
    return [part.suite.program("ztrain"), "--model", model, "--config", path, "--output", pathlib.Path(folder) / "run", "--device", "cuda", *more]


def wait_for_row(part, run, rows):
    began = time.monotonic()
    while run.poll() is None and part.left() > 0 and not (rows.exists() and rows.stat().st_size):
        time.sleep(0.001)
    return time.monotonic() - began


def ours(part, model, config):
    """Milliseconds of every step after the first ones, and seconds from the start to the first."""
    warmup, steps = steps_of(part)
    steps += warmup
    with tempfile.TemporaryDirectory(dir=part.suite.work) as folder:
        words = words_of(part, folder, model, config, "--quiet", "--steps", str(steps))
        run = subprocess.Popen(words, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=part.suite.full_environment())
        rows = pathlib.Path(folder) / "run" / "metrics.jsonl"
        first = wait_for_row(part, run, rows)
        try:
            _, said = run.communicate(timeout=max(part.left(), 1))
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            raise Failed(f"not done in time: ztrain --model {model}") from None
        if run.returncode:
            raise Failed(f"ztrain --model {model} exits {run.returncode}\n{said}")
        found = read_rows(rows, steps, config["train_batch_size"])
    return [1e3 * one["seconds"] for one in found[warmup:]], first


def theirs(part, name, batch, bf16, *extra):
    """PyTorch's result, None where a rehearsal has no PyTorch, or it is not asked for."""
    if not part.suite.compares:
        return None
    if not part.suite.has_torch:
        if not part.suite.rehearses:
            raise Failed("there is no PyTorch for CUDA: --torch-python names a Python that has it")
        return None
    small = ["--small", "--device", "cpu"] if part.suite.rehearses else []
    text = part.run(part.suite.torch_python, COMPARE / "torch_gpu_side.py", name, "--batch", batch, "--steps", steps_of(part)[1],
                    *(["--bf16"] if bf16 else []), *small, *extra, env={"LD_LIBRARY_PATH": part.suite.outer_library_path})
    return json.loads(text.splitlines()[-1])


def by_turns(part, name, batch, bf16, each, *extra):
    """ztrain and PyTorch by turns, another round where there is time for one as long as the longest; each(PyTorch's ms or None, our ms,
    seconds to our first step, batch) after every run."""
    model, config, batch = network(part, name, batch, bf16)
    what, own, other, firsts = f"{name}, batch {batch}, {'bf16' if bf16 else 'fp32'}", [], [], []

    def tell():
        each(statistics.median(other) if other else None, statistics.median(own), min(firsts), batch)

    longest = 0
    for _ in range(part.suite.options.rounds if part.suite.compares and not part.suite.rehearses else 1):
        began = time.monotonic()
        if longest > part.left():
            part.say(f"{what}: no time for another round")
            return
        milliseconds, first = ours(part, model, config)
        own, firsts = own + milliseconds, firsts + [first]
        part.say(f"{what}: ztrain {statistics.median(milliseconds):.3f} ms a step, the first one after {first:.2f} s")
        tell()
        if result := theirs(part, name, batch, bf16, *extra):
            other.append(result["ms"])
            part.say(f"{what}: PyTorch {result['torch']} {result['ms']:.3f} ms a step; CUDA graph: {result['graph']}")
            tell()
        longest = time.monotonic() - began


def convnet(part):
    for batch, bf16 in (256, True), (256, False), (32, True), (32, False):
        def each(other, own, first, _):
            what = f"ConvNet, batch {batch}, {'bf16' if bf16 else 'fp32'}"
            part.row("G1", f"{what}, ms a step", other, own, other and other / own, "1.5, goal 4")
            if batch == 256 and not bf16:
                part.row("G5", "ConvNet, process start to first step, s", None, first, None, "below 2, goal 0.8")
        by_turns(part, "convnet", batch, bf16, each)


def compare(name, *extra):
    """Rate and share of the peak of one of NETWORKS; `extra` goes to PyTorch's side."""
    label, _, unit, wanted = NETWORKS[name]
    note = f" (PyTorch: {extra[-1][2:]})" if extra else ""

    def work(part):
        one = row(name, part.suite.rehearses)

        def each(other, own, _, batch):
            rate, share = ([ms and scale / ms for ms in (other, own)] for scale in
                           (batch * one.positions * 1e3, 1e5 * one.flops * batch / PEAK_BF16))
            part.row(label, f"{name}, batch {batch}, bf16, {unit}/s{note}", *rate, other and other / own, wanted)
            part.row(label, f"{name}, share of {PEAK_BF16 / 1e12:.0f} TFLOP/s, %{note}", *share, None, "45 %" if name == "gpt2" else "")
        by_turns(part, name, None, True, each, *extra)
    return work
