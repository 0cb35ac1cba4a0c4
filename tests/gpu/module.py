#!/usr/bin/env python3
"""Checks what can be known of the CUDA module without a GPU.

    tests/gpu/module.py links MODULE                        every undefined symbol is one of the libraries it names, it names no others
                                                            than allowed, and it exports its table alone
    tests/gpu/module.py kernels NVCC 'ARGUMENT ...' FILE.cu ...  every kernel of the files is an entry in its PTX
    tests/gpu/module.py embeds MODULE FILE.cu ...           the module carries device code that has every kernel of the files: machine code
                                                            for 9.0, PTX of 8.0 for what is older and of 9.0 for what is newer
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


def embeds(module, *sources):
    wanted = {("compute", 80), ("sm", 90), ("compute", 90)}
    found = device_code(module)
    problems = [] if len(found) == len(sources) else [f"has device code of {len(found)} files, wants {len(sources)}"]
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
    return [str(w) for w in (program, "--model", case / "model.onnx", "--config", case / "config.json", "--verbose", "--steps", STEPS, "--output",
                             output, "--overwrite", *more)]


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
    for fuse in '["chain"]', "[]":
        with tempfile.TemporaryDirectory() as scratch:
            run = train(pathlib.Path(scratch), ztrain, module, case, *[word for s in ("ztrain.fuse=" + fuse, *settings) for word in ("--set", s)])
            if run is None or run[1]:
                return run and run[1]
            plan = (pathlib.Path(scratch) / "run" / "plan.txt").read_text()
        weights += re.findall(r"^weights: (\w+)$", run[0], re.M)
        found = re.search(r"^ fused: chain [1-9]", plan, re.M) and re.search(r"^  cuda Chain .*: \w+, \w+", plan, re.M)
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


def dropping(folder):
    """A case: y = relu(x w) with half of it dropped, times v."""
    folder.mkdir()
    numbers = [((i * 37) % 101 - 50) / 60 for i in range(24 * 8)]
    nodes = [node("MatMul", ["x", "w"], ["h"], "fc1"), node("Relu", ["h"], ["r"], "relu"), node("Dropout", ["r"], ["d"], "drop"),
             node("MatMul", ["d", "v"], ["scores"], "fc2")]
    (folder / "model.onnx").write_bytes(model(nodes, [value_info("x", ["n", 8])], [value_info("scores", ["n", 4])],
                                              [tensor([8, 24], numbers, FLOAT, "w"), tensor([24, 4], numbers[:96], FLOAT, "v")]))
    (folder / "d.npz").write_bytes(npz({"x": ([24, 8], numbers), "target": ([24], [i % 4 for i in range(24)], INT64)}))
    data = {"format": "npz", "path": str(folder / "d.npz"), "shuffle": False}
    (folder / "config.json").write_text(json.dumps({
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
        "ztrain": {"loss": {"type": "cross_entropy"}, "data": data}}))
    return folder


def draws(ztrain, module):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        run = train(folder, ztrain, module, dropping(folder / "case"))
        if run is None or run[1]:
            return run and run[1]
        _, wrong = said(*words(folder / "program" / "ztrain", folder / "case", folder / "host", "--device", "cpu"))
        here, there = ([json.loads(line)["loss"] for line in (folder / name / "metrics.jsonl").read_text().splitlines()] for name in ("host", "run"))
    print(*there)
    wrong += [] if len(here) == STEPS and all(abs(a - b) < 1e-5 for a, b in zip(here, there)) else [f"losses {there}, wants {here}"]
    return wrong + wants(run[0], "captured segments: 2 in a full step")


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
        planned = [line.split("\t")[:11] for line in nodes.read_text().splitlines()] if nodes.exists() else []
    lines = [line.split("\t") for line in table.splitlines()]
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    problems += [] if planned == [line[:11] for line in lines] else ["plan --nodes lists other nodes than --profile"]
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
                (bare, [], [r"^  device +cpu \(auto: no CUDA device: the CUDA module .* is not there"])]:
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
    checks = {"links": links, "kernels": kernels, "embeds": embeds, "refuses": refuses, "trains": trains, "chains": chains,
              "derives": derives, "draws": draws,
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
