#!/usr/bin/env python3
"""Checks what can be known of the CUDA module without a GPU.

    tests/gpu/module.py links MODULE                        every undefined symbol is one of the libraries it names, it names no others
                                                            than allowed, and it exports its table alone
    tests/gpu/module.py kernels NVCC 'ARGUMENT ...' FILE.cu ...  every kernel of the files is an entry in its PTX
    tests/gpu/module.py embeds MODULE UNITS FILE.cu ...     the module carries device code of so many units that has every kernel of the files:
                                                            machine code for 9.0, PTX of 8.0 for what is older and of 9.0 for what is newer
    tests/gpu/module.py refuses ZTRAIN MODEL CONFIG         without a GPU `--device cuda` exits 1 and says why, and leaves no model behind;
                                                            skipped (77) where there is one
    tests/gpu/module.py trains ZTRAIN MODULE CASE [SEGMENTS [OPTION ...]]
                                                            the first losses of a case of tests/reference, run with the module and
                                                            these options, are those expected, no node runs on the host, and --verbose
                                                            says SEGMENTS of what was captured; skipped where the module finds no GPU
    tests/gpu/module.py chains ZTRAIN MODULE CASE [KEY=VALUE]  the same case leaves the same weights with chains of elementwise nodes and
                                                            without, and plan.txt lists them; skipped alike
    tests/gpu/module.py derives ZTRAIN MODULE CASE          weights in bfloat16 and channels last are the same made all at once and, where nodes
                                                            are hashed, one by one
    tests/gpu/module.py draws ZTRAIN MODULE                 a model with Dropout, whose draws are part of what is captured, has the losses
                                                            of the CPU; skipped alike
    tests/gpu/module.py softens ZTRAIN MODULE               targets of class probabilities give the losses of the CPU, and no node of them runs on
                                                            the host; skipped alike
    tests/gpu/module.py turns ZTRAIN MODULE                 batches that lie on two sides of the device's memory in turn give the losses of the
                                                            CPU: one to three micro-batches a step, tails of epochs, evaluations between
                                                            steps; skipped alike
    tests/gpu/module.py skips ZTRAIN MODULE                 steps whose loss is not a number are left out, and counted nowhere: losses and
                                                            rates of the CPU; skipped alike
    tests/gpu/module.py stays ZTRAIN MODULE                 data that are held on the device in their stored format leave the losses and weights of
                                                            those that are copied in micro-batches, of cifar10 and npz, on one rank, two and two stages;
                                                            --verbose says which, and why; skipped alike
    tests/gpu/module.py profiles ZTRAIN MODULE CASE         --profile lists every node that plan.txt runs, with its time, and their sum; what
                                                            the device has no library for is said with the reason
    tests/gpu/module.py chooses ZTRAIN MODULE CASE          without --device the GPU is taken where the module and a GPU are there, else the CPU,
                                                            and the start says why; ranks that find different ones are refused
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_bytes import FLOAT, INT64, model, node, npz, tensor, value_info  # noqa: E402

# Libraries the module may name: its own needs and the C run time.
ALLOWED = re.compile(r"lib(cudart|cublasLt|cudnn|nvrtc|c|m|gcc_s|dl|pthread)\.so|ld-linux|linux-vdso")
EXPORTS = {"zt_cuda_module"}
STEPS = 6
FATBIN, KINDS = b"\x50\xed\x55\xba", {1: "compute", 2: "sm"}


def output(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def links(module):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", module))
    problems = [f"links {library}" for library in needed if not ALLOWED.match(library)]
    missing = subprocess.run(["ldd", "-r", module], capture_output=True, text=True)
    problems += re.findall(r".*undefined symbol.*|.*not found.*", missing.stdout + missing.stderr)
    exported = {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", module).splitlines()}
    problems += [f"exports {name}" for name in exported - EXPORTS] + [f"lacks {name}" for name in EXPORTS - exported]
    undefined = [line.split()[-1] for line in output("nm", "-D", "--undefined-only", module).splitlines()]
    problems += [f"needs {name} of the program" for name in undefined if name.startswith("zt_")]
    print(f"{len(needed)} libraries, {len(undefined)} symbols of them")
    return problems


def names_in(source):
    text = pathlib.Path(source).read_text()
    return re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(", text)


def kernels(nvcc, arguments, *sources):
    problems, count = [], 0
    kept = [a for a in arguments.split() if not a.startswith(("arch=", "-gencode"))]
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            target = pathlib.Path(folder) / "kernels.ptx"
            # The names do not depend on optimization, which the build does and which takes four fifths of the time.
            output(nvcc, *kept, "-Xcicc", "-O0", "-arch=compute_90", "--ptx", source, "-o", target)
            entries = re.findall(r"\.entry (\w+)\(", target.read_text())
            count += len(entries)
            names = names_in(source)
            problems += [f"{source}: {name} is not in its PTX" for name in names if not any(name in e for e in entries)]
            problems += [] if names else [f"{source}: has no kernel"]
    print(f"{count} entries in the PTX of {len(sources)} files")
    return problems


def device_code(module):
    """What each file's device code holds, {("sm" or "compute", capability), ...}: a header of magic, version, its own size and the size of what
    follows; before each piece its kind (1: PTX, 2: machine code), version, header size, size and, at 28, the capability."""
    with tempfile.NamedTemporaryFile() as section:
        output("objcopy", "-O", "binary", "--only-section=.nv_fatbin", module, section.name)
        data = pathlib.Path(section.name).read_bytes()
    found, at = [], data.find(FATBIN)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        piece, end, pieces = at + header, at + header + size, set()
        while piece < end:
            kind, own, length = struct.unpack_from("<HxxIQ", data, piece)
            pieces.add((KINDS[kind], *struct.unpack_from("<I", data, piece + 28)))
            piece += own + length
        found.append(pieces)
        at = data.find(FATBIN, end)
    return found


def embeds_ptx(module, units, *sources):
    return embeds(module, units, *sources, wanted={("compute", 90)})


def embeds(module, units, *sources, wanted=frozenset([("compute", 80), ("sm", 90), ("compute", 90)])):
    found = device_code(module)
    problems = [] if len(found) == int(units) else [f"has device code of {len(found)} files, wants {units}"]
    problems += [f"has device code for {sorted(pieces)}, wants {sorted(wanted)}" for pieces in found if pieces != wanted]
    registered = pathlib.Path(module).read_bytes()
    names = [name for source in sources for name in names_in(source)]
    problems += [f"lacks kernel {name}" for name in names if name.encode() not in registered]
    print(f"{len(names)} kernels")
    return problems


def there(path):
    if not pathlib.Path(path).exists():
        print(f"SKIP: {path} is not there")
    return pathlib.Path(path).exists()


def refuses(ztrain, model, config):
    if pathlib.Path("/dev/nvidiactl").exists() or pathlib.Path("/dev/dxg").exists():
        print("SKIP: there is a GPU here")
        return None
    if not there(model):
        return None
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([ztrain, "--model", model, "--config", config, "--device", "cuda", "--output", folder + "/run"],
                             capture_output=True, text=True, timeout=60)
        problems = [] if run.returncode == 1 else [f"exits {run.returncode}, wants 1"]
        if not re.search(r"^ztrain: error: .*no CUDA device: ", run.stderr, re.M):
            problems.append(f"does not say why: {run.stderr!r}")
        if not re.search(r"^hint: ", run.stderr, re.M):
            problems.append("gives no hint")
        if (pathlib.Path(folder) / "run" / "model.onnx").exists():
            problems.append("leaves a model behind")
    return problems


def installed(folder, *files):
    """The program with what stands beside it, where it looks for its module, in a folder of their own."""
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder)
    return folder / "ztrain"


def words(program, case, output, *more):
    steps = [] if "--steps" in more else ["--steps", STEPS]
    return [str(w) for w in (program, "--model", case / "model.onnx", "--config", case / "config.json", "--verbose", *steps, "--output", output,
                             "--overwrite", *more)]


def said(*command, code=0):
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    return run.stderr, [] if code in (None, run.returncode) else [f"exits {run.returncode}: {run.stderr}"]


def wrong_losses(case, output):
    got = [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()]
    expected = json.loads((case / "expected.json").read_text())
    # a tenth of what the case allows: 1e-5 of the loss in fp32
    return ([f"{len(got)} losses, wants {STEPS}"] if len(got) != STEPS else []) + \
        [f"step {i + 1}: loss {g}, wants {w}" for i, (g, w, most) in enumerate(zip(got, expected["losses"], expected["loss_tol"]))
         if not abs(g - w) <= most / 10]


def train(folder, ztrain, module, case, *options):
    """What the run on the GPU says, and what is wrong with that; it leaves `folder`/run. None where the case or a GPU is not there."""
    if not there(case):
        return None
    program = installed(folder / "program", ztrain, module)
    stderr, wrong = said(*words(program, pathlib.Path(case), folder / "run", "--device", "cuda", *options))
    if "no CUDA device" in stderr:
        print("SKIP:", stderr.splitlines()[0])
        return None
    return stderr, wrong


def trains(ztrain, module, case, segments="1 in a full step", *options):
    with tempfile.TemporaryDirectory() as scratch:
        run = train(pathlib.Path(scratch), ztrain, module, case, *options)
        if run is None or run[1]:
            return run and run[1]
        problems = wrong_losses(pathlib.Path(case), pathlib.Path(scratch) / "run")
    problems += [] if "runs on the host" not in run[0] else [run[0]]
    return problems + wants(run[0], re.escape(f"captured segments: {segments}"))


def chains(ztrain, module, case, *settings):
    weights, problems = [], []
    for fuse in '["fused_elementwise"]', "[]":
        with tempfile.TemporaryDirectory() as scratch:
            run = train(pathlib.Path(scratch), ztrain, module, case, *[word for s in ("ztrain.fuse=" + fuse, *settings) for word in ("--set", s)])
            if run is None or run[1]:
                return run and run[1]
            plan = (pathlib.Path(scratch) / "run" / "plan.txt").read_text()
        weights += re.findall(r"^weights: (\w+)$", run[0], re.M)
        found = re.search(r"^ fused: fused_elementwise [1-9]", plan, re.M) and re.search(r"^  cuda FusedElementwise .*: \w+, \w+", plan, re.M)
        problems += [] if bool(found) == (fuse != "[]") else [f"ztrain.fuse={fuse}: chains are {'' if found else 'not '}in plan.txt"]
    print(*weights)
    return problems + ([] if len(weights) == 2 and weights[0] == weights[1] else [f"weights: {weights}"])


def derives(ztrain, module, case):
    weights, problems = [], []
    for hashes in "01":
        with tempfile.TemporaryDirectory() as scratch:
            run = train(pathlib.Path(scratch), ztrain, module, case, "--set", "bf16={\"enabled\": true}", "--set", "ztrain.hashes=" + hashes)
            if run is None or run[1]:
                return run and run[1]
            plan = (pathlib.Path(scratch) / "run" / "plan.txt").read_text()
        weights += re.findall(r"^weights: (\w+)$", run[0], re.M)
        problems += [] if re.search(r"^  cuda Reorder .*reorder of", plan, re.M) else ["no weight is laid channels last"]
    return problems + ([] if len(weights) == 2 and weights[0] == weights[1] else [f"weights: {weights}"])


def dropping(folder, hole=None, soft=False):
    """A case: y = relu(x w) with half of it dropped, times v; the number at `hole` of the data is none. soft: the targets are class
    probabilities."""
    folder.mkdir()
    numbers = [((i * 37) % 101 - 50) / 60 for i in range(24 * 8)]
    nodes = [node("MatMul", ["x", "w"], ["h"], "fc1"), node("Relu", ["h"], ["r"], "relu"), node("Dropout", ["r"], ["d"], "drop"),
             node("MatMul", ["d", "v"], ["scores"], "fc2")]
    (folder / "model.onnx").write_bytes(model(nodes, [value_info("x", ["n", 8])], [value_info("scores", ["n", 4])],
                                              [tensor([8, 24], numbers, FLOAT, "w"), tensor([24, 4], numbers[:96], FLOAT, "v")]))
    data = [float("nan") if i == hole else x for i, x in enumerate(numbers)]
    target = ([24, 4], [i * 13 % 17 / 16 for i in range(96)]) if soft else ([24], [i % 4 for i in range(24)], INT64)
    (folder / "d.npz").write_bytes(npz({"x": ([24, 8], data), "target": target}))
    data = {"format": "npz", "path": str(folder / "d.npz"), "eval_path": str(folder / "d.npz"), "shuffle": False}
    (folder / "config.json").write_text(json.dumps({
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
        "ztrain": {"loss": {"type": "cross_entropy"}, "data": data}}))
    return folder


def numbers_of(folder):
    """Loss and rate of every line of metrics.jsonl, evaluations too; None where it has none, or not a number."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line.get(key) for line in lines for key in ("loss", "lr")]


def as_on_the_host(ztrain, module, segments, *options, hole=None, soft=False):
    """What is wrong with a run of the case on the GPU: its losses and rates, held against the CPU's, or the captured segments."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        run = train(folder, ztrain, module, dropping(folder / "case", hole, soft), *options)
        if run is None or run[1]:
            return run and run[1]
        _, wrong = said(*words(folder / "program" / "ztrain", folder / "case", folder / "host", "--device", "cpu", *options))
        here, there = numbers_of(folder / "host"), numbers_of(folder / "run")
    print(*there)
    same = all(a == b or (a is not None and b is not None and abs(a - b) < 1e-5) for a, b in zip(here, there))
    wrong += [] if len(here) == len(there) >= 2 * STEPS and same else [f"losses and rates {there}, wants {here}"]
    wrong += ["a node of the loss runs on the host"] if soft and "runs on the host" in run[0] else []
    return wrong + wants(run[0], f"captured segments: {segments}")


def softens(ztrain, module):
    problems = []
    for more in [], ["--set", "ztrain.loss.class_weights=[0.5, 2, 1, 1]", "--set", "ztrain.loss.label_smoothing=0.1"]:
        found = as_on_the_host(ztrain, module, "2 in a full step", "--set", 'ztrain.metrics=["accuracy"]', *more, soft=True)
        if found is None:
            return None
        problems += found
    return problems


def draws(ztrain, module):
    return as_on_the_host(ztrain, module, "2 in a full step")


def turns(ztrain, module):
    ranks = ["--ranks", 2, "--set", "ztrain.parallel.communicator=thread", "--set"]
    problems = []
    os.environ["ZT_EMULATED_FREE"] = "0"  # no data stay on the device
    for batch, micro_batch, segments, *more in [
            (10, 10, "1 in a full step, 1 in"), (8, 4, "2 in a full step, 0 in"), (9, 3, "3 in a full step, 2 in", "--set", "gradient_clipping=0.05"),
            (9, 3, "", *ranks, "pipeline.stages=2"), (8, 4, "", *ranks, "pipeline.stages=2"), (12, 2, "", *ranks, "ztrain.parallel.mode=dp")]:
        found = as_on_the_host(ztrain, module, segments, "--set", f"train_batch_size={batch}", "--set",
                               f"train_micro_batch_size_per_gpu={micro_batch}", "--steps", 18, *more)
        if found is None:
            return None
        problems += found
    return problems


def skips(ztrain, module):
    warm = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 10, "warmup_type": "linear"}}
    return as_on_the_host(ztrain, module, "2 in a full step", "--set", "ztrain.on_non_finite=skip", "--set", "scheduler=" + json.dumps(warm),
                          "--set", "ztrain.data.eval_path=null", "--steps", 12, hole=70)


def pictures(folder):
    """A case of 37 records of CIFAR-10 in two files and 9 to evaluate on, and a perceptron for them."""
    folder.mkdir()
    for name, first, count in ("data_batch_1", 0, 23), ("data_batch_2", 23, 14), ("test_batch", 40, 9):
        records = (bytes([i % 10]) + bytes((i * 89 + k * 31 + k * k % 7 * (i + 3)) % 256 for k in range(3072)) for i in range(first, first + count))
        (folder / f"{name}.bin").write_bytes(b"".join(records))
    numbers = [((i * 37) % 101 - 50) / 900 for i in range(3072 * 16)]
    nodes = [node("Flatten", ["x"], ["flat"], "flatten"), node("MatMul", ["flat", "w"], ["h"], "fc1"), node("Relu", ["h"], ["r"], "relu"),
             node("MatMul", ["r", "v"], ["scores"], "fc2")]
    (folder / "model.onnx").write_bytes(model(nodes, [value_info("x", ["n", 3, 32, 32])], [value_info("scores", ["n", 10])],
                                              [tensor([3072, 16], numbers, FLOAT, "w"), tensor([16, 10], numbers[:160], FLOAT, "v")]))
    data = {"format": "cifar10", "path": str(folder), "normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.25]}}
    return write_case(folder, data)


def arrays(folder):
    """A case of 37 rows of numbers and classes in an npz file, 9 to evaluate on, and a perceptron for them."""
    folder.mkdir()
    numbers = [((i * 37) % 101 - 50) / 60 for i in range(37 * 7)]
    for name, first, count in ("train", 0, 37), ("eval", 5, 9):
        (folder / f"{name}.npz").write_bytes(npz({"x": ([count, 7], numbers[first * 7:(first + count) * 7]),
                                                  "target": ([count], [i % 4 for i in range(count)], INT64)}))
    nodes = [node("MatMul", ["x", "w"], ["h"], "fc1"), node("Relu", ["h"], ["r"], "relu"), node("MatMul", ["r", "v"], ["scores"], "fc2")]
    (folder / "model.onnx").write_bytes(model(nodes, [value_info("x", ["n", 7])], [value_info("scores", ["n", 4])],
                                              [tensor([7, 16], numbers[:112], FLOAT, "w"), tensor([16, 4], numbers[:64], FLOAT, "v")]))
    return write_case(folder, {"format": "npz", "path": str(folder / "train.npz"), "eval_path": str(folder / "eval.npz")})


def write_case(folder, data):
    """Steps of 8 samples, the last of an epoch of 5."""
    (folder / "config.json").write_text(json.dumps({
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
        "ztrain": {"loss": {"type": "cross_entropy"}, "metrics": ["accuracy"], "data": data}}))
    return folder


def left_behind(program, case, output, free, *options):
    """What the run says, what it leaves (weights, losses, those of evaluations), and what is wrong; `free`: bytes that the device says are free."""
    os.environ["ZT_EMULATED_FREE"] = str(free)
    command = [program, "--model", case / "model.onnx", "--config", case / "config.json", "--verbose", "--device", "cuda", "--set", "ztrain.epochs=3",
               "--output", output, "--overwrite", *options]
    stderr, wrong = said(*map(str, command))
    kept = ("step", "loss", "grad_norm", "eval_loss", "eval_accuracy", "accuracy")
    rows = [] if wrong else [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return stderr, [re.findall(r"^weights: \w+$", stderr, re.M), *({k: row[k] for k in kept if k in row} for row in rows)], wrong


def stays(ztrain, module):
    two = ["--ranks", "2", "--set", "ztrain.parallel.communicator=thread"]
    problems = []
    os.environ["ZT_EMULATED_DEVICES"] = "2"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        program = installed(folder / "program", ztrain, module)
        cases = {pictures(folder / "pictures"): 20000, arrays(folder / "arrays"): 400}
        for case, free in cases.items():
            for options in [], two, ["--set", 'bf16={"enabled": true}'], [*two, "--set", "ztrain.parallel.mode=dp"], \
                    [*two, "--set", "pipeline.stages=2"]:
                there, left, wrong = left_behind(program, case, folder / "run", 1 << 30, *options)
                if "no CUDA device" in there:
                    print("SKIP:", there.splitlines()[0])
                    return None
                come, other, more = left_behind(program, case, folder / "run", free, *options)
                problems += wrong + more + wants(there, "^training data: held on the device", "^evaluation data: held on the device") + \
                    wants(come, r"^training data: copied in micro-batches of .*, read by \d+ threads?: the data need \S+ \S+ in their stored format, more than half of the \S+ \S+ of free memory$",
                          "^evaluation data: copied in")
                plan = (folder / "run" / "plan.txt").read_text()
                problems += wants(plan, r"^training data, \S+ \S+ in their stored format, are held on the device if they fit into half of its free memory$")
                problems += [] if left == other and len(left) >= 16 and left[0] else [f"{case.name} {options}: {left}, in batches {other}"]
                print(case.name, *options, left[0], len(left))
        flips = ["--set", 'ztrain.data.augment={"random_crop": {"padding": 2}, "horizontal_flip": 0.5}']
        come, left, wrong = left_behind(program, folder / "pictures", folder / "run", 1 << 30, *flips)
        problems += wrong + wants(come, r'^training data: copied in micro-batches of .*: format "cifar10" reads its pictures anew in each epoch$',
                                  "^evaluation data: held on the device")
        _, two, wrong = left_behind(program, folder / "pictures", folder / "run", 1 << 30, *flips)
        problems += wrong + ([] if left == two and left[0] else [f"augmented twice: {left}, {two}"])
        made = ["--data", "synthetic:", "--set", "ztrain.data.samples=16", "--set", "ztrain.data.normalize={}"]
        there, _, wrong = left_behind(program, folder / "arrays", folder / "run", 1 << 30, *made)
        problems += wrong + wants(there, r'^training data: copied in micro-batches of .*: format "synthetic" cannot be held on the device$')
    return problems


def profiles(ztrain, module, case):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        run = train(folder, ztrain, module, case, "--profile", "--set", 'bf16={"enabled": true}')
        if run is None or run[1]:
            return run and run[1]
        plan, table = ((folder / "run" / name).read_text() for name in ("plan.txt", "profile.tsv"))
        nodes = folder / "nodes.tsv"
        _, problems = said(*(str(w) for w in (folder / "program" / "ztrain", "plan", "--model", pathlib.Path(case) / "model.onnx", "--config",
                                              pathlib.Path(case) / "config.json", "--device", "cuda", "--set", 'bf16={"enabled": true}', "--nodes", nodes)))
        planned = [line.split("\t")[:12] for line in nodes.read_text().splitlines()] if nodes.exists() else []
    lines = [line.split("\t") for line in table.splitlines()]
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    problems += [] if planned == [line[:12] for line in lines] else ["plan --nodes lists other nodes than --profile"]
    training = re.search(r"^training program.*?(?=^\S+ program|\Z)", plan, re.M | re.S)[0]
    ran = sorted(name for name in re.findall(r"^  (?:cuda|cpu|ref) +\S+ +(.*?)(?:: .*)?(?: \| .*)?$", training, re.M))
    listed = sorted(r["node"] for r in rows if r["op"] != "-")
    problems += [] if ran == listed else [f"plan.txt runs {ran}, --profile lists {listed}"]
    problems += [f"{r['node'] or r['phase']}: no time" for r in rows if r["measured_us"] == "-" or float(r["measured_us"]) < 0]
    problems += [f"{r['node']}: on our own kernel without a reason" for r in rows if r["path"] == "own kernel" and r["note"] == "-"]
    problems += [] if any(r["path"] == "cuDNN" for r in rows) else ["no node is cuDNN's"]
    print(f"{len(listed)} nodes")
    return problems + wants(run[0], r"^Profile: step [\d.]+ ms, \d+ nodes and parts [\d.]+ ms", r"^  kernels +.*cuDNN \d+")


def wants(stderr, *patterns):
    return [f"does not say {p!r}: {stderr}" for p in patterns if not re.search(p, stderr, re.M)]


def chooses(ztrain, module, case):
    if not there(case):
        return None
    case = pathlib.Path(case)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        gpu, bare, run = installed(folder / "gpu", ztrain, module), installed(folder / "bare", ztrain), folder / "run"
        problems, halves = [], ["--set", "train_micro_batch_size_per_gpu=8"]
        for program, more, patterns in [
                (gpu, [], [r"^  device +cuda \(auto\)$"]),
                (gpu, ["--ranks", 2, *halves, "--set", "ztrain.parallel.communicator=thread"], [r"^  device +cuda \(auto\)$"]),
                (gpu, ["--device", "cpu"], [r"^  device +cpu$"]),
                (gpu, ["--set", "activation_checkpointing.cpu_checkpointing=true"], [r"^  device +cpu \(auto: activation_checkpointing\.cpu_ch"]),
                (bare, [], [r"^  device +cpu \(auto: no CUDA device: the CUDA module .* was not found"])]:
            stderr, wrong = said(*words(program, case, run, *more))
            problems += wrong or wants(stderr, *patterns) + wrong_losses(case, run)
        stderr, wrong = said(*words(bare, case, run, "--set", "ztrain.parallel.communicator=nccl"), code=1)
        problems += wrong + wants(stderr, "^ztrain: error: .*no CUDA device: ")
        if mpirun := shutil.which("mpirun"):
            root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
            os.environ.update(root)
            stderr, _ = said(mpirun, "-n", "1", *words(gpu, case, run, *halves), ":", "-n", "1", *words(bare, case, run, *halves), code=None)
            problems += wants(stderr, "^ztrain: error: .*the kind of device of rank 1 differs from that of rank 0$", "^hint: .*--device cpu")
    return problems


def main():
    checks = {"links": links, "kernels": kernels, "embeds": embeds, "embeds_ptx": embeds_ptx, "refuses": refuses, "trains": trains, "chains": chains,
              "derives": derives, "draws": draws, "softens": softens, "turns": turns, "skips": skips, "stays": stays,
              "profiles": profiles, "chooses": chooses}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    problems = checks[sys.argv[1]](*sys.argv[2:])
    if problems is None:
        return 77
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
