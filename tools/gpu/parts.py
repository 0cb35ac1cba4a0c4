"""The parts of tools/gpu_suite, the most telling ones first. Each is a function of a Part; it fails by raising Failed."""
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import platform
import re
import shutil
import sys
import tempfile

from part import Failed, ROOT, Refused

import speed

BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12}
LAYOUTS = {"ddp": [], "zero 1": ["zero_optimization.stage=1"], "zero 2": ["zero_optimization.stage=2"], "zero 3": ["zero_optimization.stage=3"],
           "dp": ["ztrain.parallel.mode=dp", "zero_optimization.stage=0"], "pipeline": ["pipeline.stages=2"]}
NETWORKS = (*speed.NETWORKS, "convnet")
OWN = "own kernel"
MUST_NOT_BE_OURS = re.compile(r"Conv|MatMul|Gemm|Linear|Einsum|Attention")
CASES = ROOT / "tests" / "reference" / "cases"
REHEARSED = ["convnet-dynamo", "gpt-tiny-dynamo", "mlp-wine-sklearn", "resnet-bn-train"]
CASE = "tests/reference/cases/"
# tests that run ztrain with a module; the first ones are also rehearsed
RUNS = ["gpu/module.py skips ZTRAIN MODULE", "gpu/module.py draws ZTRAIN MODULE", "gpu/module.py softens ZTRAIN MODULE",
        "equivalence/optimizers.py ZTRAIN ROOT MODULE", "equivalence/lora.py ZTRAIN ROOT MODULE", "gpu/offload.py ZTRAIN MODULE ROOT",
        f"equivalence/fp16.py ZTRAIN {CASE}mlp-wine-sklearn MODULE", "equivalence/gradient_types.py ZTRAIN MODULE",
        "equivalence/quantize.py ZTRAIN ROOT MODULE", "equivalence/qat.py ZTRAIN ROOT MODULE", "gpu/module.py turns ZTRAIN MODULE",
        f"gpu/module.py profiles ZTRAIN MODULE {CASE}convnet-dynamo",
        f"gpu/module.py chains ZTRAIN MODULE {CASE}autoencoder-loss-output", f"gpu/module.py chains ZTRAIN MODULE {CASE}jax-mlp",
        f"gpu/module.py derives ZTRAIN MODULE {CASE}paddle-cnn"]
AT_ONCE = 8  # programs beside each other on the one GPU
QUICK = "mlp-wine-sklearn"  # the case that the emulated device runs to its end in a second
FATAL = re.compile(r"illegal|misaligned|launch failure|stack error|invalid program counter|device-side|invalid address")
SANITIZED = ["pool", "loss"]  # families: one of cuDNN's and one of our own kernels


# ---- what is here ----

def say_gpus(part):
    part.say(part.run("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader").strip())


def say_torch(part):
    part.say(part.run(part.suite.torch_python, "-c", "import torch; print('PyTorch', torch.__version__, 'CUDA', torch.version.cuda, 'cuDNN', "
                      "torch.backends.cudnn.version())").strip().splitlines()[-1])


def say_doctor(part):
    for name, path in part.suite.libraries.items():
        part.say(f"{name}: {path or 'left to the loader'}")
    text = part.run(part.suite.program("ztrain"), "doctor")
    for line in text.splitlines():
        part.say(f"`{line}`")
    wanted = ["CUDA"] if part.suite.rehearses else ["CUDA", "GPUs", *part.suite.libraries]
    if missing := [name for name in wanted if not re.search(rf"^ok +{name} ", text, re.M)]:
        raise Failed("doctor does not find " + ", ".join(missing))


def versions(part):
    about, problems = part.suite.manifest, []
    part.say(f"{platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}, {os.cpu_count()} cores; bundle of {about['date']}, "
             f"commit {about['commit'][:12]}{' and changes' if about['changed'] else ''}, wants glibc {about['glibc']}")
    rehearsed = {say_gpus: shutil.which("nvidia-smi"), say_torch: part.suite.has_torch, say_doctor: True}
    for say in (say_gpus, say_torch, say_doctor):
        if part.suite.rehearses and not rehearsed[say]:
            continue
        try:
            say(part)
        except Failed as problem:
            problems.append(str(problem))
    if problems:
        raise Failed("\n".join(problems))


# ---- right numbers ----

def families(part):
    if part.suite.options.families:
        return part.suite.options.families.split(",")
    return sorted(path.stem for path in (ROOT / "tests/ops/cases").glob("*.c"))


def run_once(part, mode, family, number, before, most=None):
    return part.run(*before, part.suite.program("run_ops"), *mode.split(), "--backend", "cuda", "--module", part.suite.folder, "--family", family,
                    "--from", number, codes=(0, 1), most=most)


def lines_of(part, mode, family, number, before):
    """(passed, lines of failures) of the cases from `number` on, with the process's end as a line where it did not come to the last one."""
    text, end = "", ""
    try:
        text = run_once(part, mode, family, number, before)
    except Failed as problem:
        text = end = str(problem)
    wrong = [line for line in text.splitlines() if line.startswith("FAIL")]
    counted = re.search(r"(\d+) passed, (\d+) failed", text)
    if counted and int(counted[2]) == len(wrong) and not end:
        return int(counted[1]), wrong
    return 0, wrong + [f"{mode}, {family}: {end or text[-500:]}"]


def trace_fatal(part, mode, family, number):
    """What compute-sanitizer says of the case goes into the log."""
    try:
        run_once(part, mode, family, number, [cuda_tool("compute-sanitizer")], most=15)
    except (Failed, Refused):
        pass  # the log has it


def run_ops(part, mode, family, *before):
    """(passed, what is wrong) of one family of op cases on the device. After an error that a process does not survive, another goes on."""
    passed, wrong, number = 0, [], 0
    while True:
        count, lines = lines_of(part, mode, family, number, before)
        passed += count
        fatal = next((k for k, line in enumerate(lines) if line.startswith("FAIL") and FATAL.search(line)), None)
        if fatal is None:
            return passed, wrong + lines
        wrong += lines[:fatal + 1]
        number = int(lines[fatal].split()[1])
        trace_fatal(part, mode, family, number)
        number += 1


def ops(*modes):
    def work(part):
        """Families beside each other: most of the time goes into plans and compilation on the host."""
        jobs = [(mode, family) for mode in modes for family in families(part)]
        with concurrent.futures.ThreadPoolExecutor(max(min(os.cpu_count() or 1, 16), 1)) as pool:
            results = list(pool.map(lambda job: run_ops(part, *job), jobs))
        wrong = []
        for mode in modes:
            of_mode = [result for job, result in zip(jobs, results) if job[0] == mode]
            lines = [line for _, some in of_mode for line in some]
            part.say(f"{mode}: {sum(count for count, _ in of_mode)} passed, {len(lines)} failed")
            wrong += [f"{mode}: {line}" for line in lines]
        if wrong or not any(count for count, _ in results):
            raise Failed("\n".join(wrong[:200]) or "no case ran")
    return work


def check_case(part, case, *extra, divided=1):
    """Says the checker's line, and returns it where it is no PASS. `divided`: among how many ranks the checker divides the batch; it needs
    no launcher for them, since they are threads."""
    words = ["--launcher", "env", "--ranks", divided] if divided > 1 else []
    try:
        text = part.run(sys.executable, CASES.parent / "check_case.py", "--ztrain", part.suite.program("ztrain"), *words, case, "--",
                        "--device", "cuda", *extra, codes=(0, 1, 2), most=120)
    except Failed as problem:
        text = str(problem)
    line = text.strip().splitlines()[0] if text.strip() else f"{case.name}: no line"
    part.say(line)
    return None if line.startswith("PASS") else line


def first_loss(part, case):
    """What a rehearsal has time for: a step of the case, whose loss must be the expected one."""
    with tempfile.TemporaryDirectory(dir=part.suite.work) as folder:
        part.run(part.suite.program("ztrain"), "--model", case / "model.onnx", "--config", case / "config.json", "--output", f"{folder}/run",
                 "--device", "cuda", "--quiet", "--steps", 1)
        loss = json.loads(pathlib.Path(f"{folder}/run/metrics.jsonl").read_text().splitlines()[0])["loss"]
    expected = json.loads((case / "expected.json").read_text())
    good = abs(loss - expected["losses"][0]) <= expected["loss_tol"][0]
    line = f"{'PASS' if good else 'FAIL'} {case.name}: the first loss is {loss:.7g}, expected {expected['losses'][0]:.7g}"
    part.say(line)
    return None if good else line


def cases(part):
    chosen = [CASES / name for name in REHEARSED] if part.suite.rehearses else sorted(CASES.iterdir())
    work = lambda case: first_loss(part, case) if part.suite.rehearses and case.name != QUICK else check_case(part, case)  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [line for line in pool.map(work, chosen) if line]
    if wrong:
        raise Failed("\n".join(wrong))


def ranks(part):
    """Two ranks as threads, which share the GPU where there is one."""
    chosen, wrong = [CASES / name for name in (QUICK, "convnet-dynamo", "gpt-tiny-dynamo")], []
    for name, keys in LAYOUTS.items():
        part.say(f"{name}, 2 ranks:")
        for case in chosen[:1] if part.suite.rehearses else chosen:
            sets = [word for key in (*keys, "ztrain.parallel.communicator=thread") for word in ("--set", key)]
            line = check_case(part, case, "--ranks", 2, *sets, divided=1 if name == "pipeline" else 2)
            wrong += [f"{name}: {line}"] if line else []
    if wrong:
        raise Failed("\n".join(wrong))


def whole_run(part, words):
    """(which test, what is wrong) of one of RUNS: a test of the project that runs ztrain with a module, on this device."""
    script, *rest = words.split()
    places = {"ZTRAIN": part.suite.program("ztrain"), "MODULE": part.suite.program("ztrain-cuda.so"), "ROOT": ROOT}
    path = f"{part.suite.folder}:{part.suite.environment['LD_LIBRARY_PATH']}"  # for the copies that the test makes of the programs
    try:
        part.run(sys.executable, ROOT / "tests" / script, *[places.get(word, ROOT / word if "/" in word else word) for word in rest],
                 env={"LD_LIBRARY_PATH": path})
    except Failed as problem:
        return words, str(problem)
    return words, None


def runs(part):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda words: whole_run(part, words), RUNS[:2] if part.suite.rehearses else RUNS))
    for words, wrong in results:
        part.say(f"{'FAIL' if wrong else 'PASS'} {words}")
    if wrong := [wrong for _, wrong in results if wrong]:
        raise Failed("\n".join(wrong))


# ---- which kernels, and how long each takes ----

def node_rows(path):
    """The lines of `plan --nodes` and of profile.tsv: one a node of a step, "-" where a column says nothing."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def kernels_of(part, name):
    """Says what runs the network's nodes and why not a library; returns what must not be as it is."""
    model, config, _ = speed.network(part, name)
    with tempfile.TemporaryDirectory(dir=part.suite.work) as folder:
        path, nodes = pathlib.Path(folder) / "config.json", pathlib.Path(folder) / "nodes.tsv"
        path.write_text(json.dumps(config))
        text = part.run(part.suite.program("ztrain"), "plan", "--model", model, "--config", path, "--device", "cuda", "--nodes", nodes)
        part.suite.report.append("kernels.txt", f"==== {name}\n{nodes.read_text()}\n")
        rows = node_rows(nodes)
    by = collections.Counter(row["path"] if row["path"] != "-" else row["backend"] for row in rows)
    part.say(f"{name}: " + ", ".join(f"{what} {count}" for what, count in by.most_common()))
    noted = collections.Counter((row["op"], row["type"], row["path"], row["note"]) for row in rows if row["note"] != "-")
    for (op, dtype, by_what, note), count in noted.most_common():
        part.say(f"{name}: {count} {op} ({dtype}) by {by_what}: {note}")
    wrong = [f"{name}: {line}" for line in re.findall(r"^kernels: without the GPU.*", text, re.M)]
    if part.suite.rehearses:  # the emulated cuDNN has few engines
        return wrong
    return wrong + [f"{name}: {count} {op} ({dtype}) on our own kernel: {note}" for (op, dtype, by_what, note), count in noted.items()
                    if by_what == OWN and MUST_NOT_BE_OURS.search(op)]


def kernels(part):
    if wrong := [line for name in NETWORKS for line in kernels_of(part, name)]:
        raise Failed("\n".join(wrong))


def times_of(part, name, bf16=True):
    model, config, _ = speed.network(part, name, bf16=bf16)
    name = name if bf16 else f"{name}, fp32"
    with tempfile.TemporaryDirectory(dir=part.suite.work) as folder:
        text = part.run(*speed.words_of(part, folder, model, config, "--profile", "--steps", 3 if part.suite.rehearses else 12))
        rows = pathlib.Path(folder) / "run" / "profile.tsv"
        part.suite.report.append("times.txt", f"==== {name}\n{rows.read_text()}\n")
        timed = [row for row in node_rows(rows) if row["measured_us"] != "-"]
    shown = text[text.find("Profile:"):].splitlines() if "Profile:" in text else []
    for line in shown[:24]:
        part.say(f"{name}: {line}")
    if not timed:
        raise Failed(f"{name}: no node was timed\n{text[-600:]}")


def node_times(part):
    for name in NETWORKS:
        times_of(part, name)
    times_of(part, "convnet", bf16=False)


# ---- bandwidth ----

def adam(part):
    """G4: the bytes that an update must move over its time, against the memory's bandwidth where this kind of GPU is known."""
    found = json.loads(part.run(part.suite.program("adam_bandwidth"), part.suite.folder, *(["100000", "2"] if part.suite.rehearses else [])))
    peak = next((v for k, v in BANDWIDTH.items() if k in " ".join(part.suite.said_by("versions"))), None)
    part.say(f"{found['elements']} weights in {found['ms']:.3f} ms, {found['gb_per_s']:.0f} GB/s" +
             (f", {peak / 1e12} TB/s by the data sheet" if peak else ""))
    part.row("G4", "Adam, share of the memory's bandwidth, %", None, peak and found["gb_per_s"] * 1e11 / peak, None, "80, goal 88")


def all_reduce(part):
    text = part.run(part.suite.program("allreduce_device"), part.suite.folder, 2, *(["4096", "100000"] if part.suite.rehearses else []))
    for line in text.splitlines():
        part.say(line)


# ---- tools that a machine may refuse ----

def cuda_tool(name):
    for found in (shutil.which(name), f"/usr/local/cuda/bin/{name}"):
        if found and pathlib.Path(found).exists():
            return found
    raise Refused(f"{name} is not here")


def sanitizer(tool):
    def work(part):
        program, wrong = cuda_tool("compute-sanitizer"), []
        for family in SANITIZED:
            passed, lines = run_ops(part, "check", family, program, "--tool", tool, "--error-exitcode", "9")
            if any("Device not supported" in line for line in lines):
                raise Refused(f"{program} does not work with this device: Device not supported")
            part.say(f"{tool}, {family}: {passed} passed")
            wrong += lines
        if wrong:
            raise Failed("\n".join(wrong[:20]))
    return work


def traced(part):
    """ztrain's kernels by nsys, with PyTorch's by its profiler beside them."""
    model, config, batch = speed.network(part, "gpt2")
    other = speed.theirs(part, "gpt2", batch, True, "--profile")
    for kernel in other["kernels"] if other else []:
        part.say(f"PyTorch {kernel['us']:9.1f} us, {kernel['calls']:5.0f} calls a step: {kernel['kernel']}")
    nsys = cuda_tool("nsys")
    with tempfile.TemporaryDirectory(dir=part.suite.work) as folder:
        part.run(nsys, "profile", "--trace=cuda", "--cuda-graph-trace=node", "-o", f"{folder}/trace",
                 *speed.words_of(part, folder, model, config, "--quiet", "--steps", 30))
        if not pathlib.Path(f"{folder}/trace.nsys-rep").exists():
            raise Refused("nsys makes no report here")
        text = part.run(nsys, "stats", "--report", "cuda_gpu_kern_sum", "--format", "table", f"{folder}/trace.nsys-rep")
    for line in text.splitlines()[:24]:
        part.say("ztrain  " + line[:170])


# name: (what it does, seconds that it may take); what is most telling stands first
PARTS = {
    "versions": (versions, 60),
    "ops": (ops("check", "backward"), 90),
    "cases": (cases, 60),
    "ops-half": (ops("check --fp16", "backward --fp16", "check --fp16 --last", "backward --fp16 --last", "check --last", "backward --last"), 90),
    "kernels": (kernels, 60),
    "node-times": (node_times, 60),
    "gpt2": (speed.compare("gpt2"), 150),
    "resnet50": (speed.compare("resnet50"), 150),
    "convnet": (speed.convnet, 120),
    "adam": (adam, 30),
    "memcheck": (sanitizer("memcheck"), 60),
    "ranks": (ranks, 90),
    "runs": (runs, 120),
    "all-reduce": (all_reduce, 30),
    "racecheck": (sanitizer("racecheck"), 60),
    "gpt2-max-autotune": (speed.compare("gpt2", "--max-autotune"), 300),
    "resnet50-max-autotune": (speed.compare("resnet50", "--max-autotune"), 300),
    "traced": (traced, 120),
}
