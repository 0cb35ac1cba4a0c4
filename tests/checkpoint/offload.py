#!/usr/bin/env python3
"""Offload from outside: a run whose optimizer states are in files leaves what it leaves without them, resumes from and for any
layout, removes its files, and says what it lacks.

    offload.py ZTRAIN SOURCE_ROOT [--only WORD ...] [--seed N]

Needs only Python's standard library. Exit status 0: all hold, 1: one does not.
"""
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

from runs import THREAD, Bench, check, few_images, main

SAVES = ["--set", "ztrain.checkpoint.keep=0"]
EVERY_4 = ["--steps", "12", "--set", "ztrain.checkpoint.every_steps=4"]


def bench(args, folder, *options):
    return Bench(args, folder, "convnet", "ds_config", *SAVES, *options)


def nvme(b, *keys):
    """Options that put the optimizer states into files below the bench's folder."""
    (b.folder / "nvme").mkdir(exist_ok=True)
    pairs = [("device", "nvme"), ("nvme_path", b.folder / "nvme"), *(key.split("=") for key in keys)]
    return ["--set", "zero_optimization.stage=3",
            *(x for k, v in pairs for x in ("--set", f"zero_optimization.offload_optimizer.{k}={v}"))]


def params(b):
    """Options that put the parameters into files too."""
    return [x for k, v in (("device", "nvme"), ("nvme_path", b.folder / "nvme"), ("max_in_cpu", 20000))
            for x in ("--set", f"zero_optimization.offload_param.{k}={v}")]


def is_empty(b):
    return not list((b.folder / "nvme").iterdir())


def weights(b):
    return b.says.rsplit("weights: ", 1)[-1].split()[0] if "weights: " in b.says else b.says[-300:]


# ---- resuming ----


def resumes(args, tmp, rng):
    """from files into files, into memory, and from memory into files; also into another number of ranks"""
    b = bench(args, tmp / "resume", *EVERY_4)
    small = ["--set", "zero_optimization.sub_group_size=1"]
    ran = b.run("memory") and b.run("files", *nvme(b), *small)
    check(ran and b.same("memory", "files"), "resume: a run with files leaves the same rows and model")
    same = ran and all((b.checkpoint("memory", s) / f).read_bytes() == (b.checkpoint("files", s) / f).read_bytes()
                       for s in (4, 8, 12) for f in ("weights.safetensors", "optimizer.safetensors"))
    check(same, "resume: its checkpoints have the same bytes")
    check(b.run("all", *nvme(b), *params(b)) and b.same("memory", "all"), "resume: so does one with parameters in files")
    for one, other in (("files", "files"), ("files", "memory"), ("memory", "files"), ("all", "all"), ("memory", "all"), ("all", "files")):
        out = b.folder / "again"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(b.folder / one, out)
        options = nvme(b, "pipeline_read=true", "pipeline_write=true") if other != "memory" else []
        options += params(b) if other == "all" else []
        went = b.run("again", "--resume", b.checkpoint("again", 8), *options, *small)
        check(went and b.same("again", "memory"), f"resume: from {one} into {other}")
    check(is_empty(b), "resume: nothing is left below nvme_path")
    two = ["--ranks", "2", *THREAD, "--set", "zero_optimization.stage=3"]
    ran = b.run("two", *two) and b.run("two files", *nvme(b), *two)
    check(ran and b.same("two", "two files"), "resume: two ranks with files leave the same rows and model")
    went = b.run("more", "--resume", b.checkpoint("memory", 8), *nvme(b), *params(b), *two)
    check(went and is_empty(b), "resume: two ranks with files go on from one without")


def records(folder):
    """The records of the only event file that have a histogram, without their times."""
    data, at, found = next(folder.rglob("events.*")).read_bytes(), 0, []
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        record = data[at + 12 + 9:at + 12 + length]  # the head of a record, the time
        at += length + 16
        found += [record] if b"Weights/" in record or b"Gradients/" in record else []
    return found


def histograms(args, tmp, rng):
    """histograms of weights and gradients are those of a run without files"""
    b = bench(args, tmp / "histograms", "--steps", "4", "--set", "tensorboard.enabled=true", "--set", "ztrain.monitor.histogram_steps=2")
    for ranks in ([], ["--ranks", "2", *THREAD, "--set", "zero_optimization.stage=3"]):
        ran = b.run("memory", "--overwrite", *ranks) and b.run("files", "--overwrite", *ranks, *nvme(b), *params(b),
                                                               "--set", "zero_optimization.sub_group_size=1")
        found = ran and records(b.folder / "files")
        check(ran and len(found) == 32 and found == records(b.folder / "memory"), f"histograms: {len(ranks) and 2 or 1} ranks: the same")


def averages(args, tmp, rng):
    """the average of the weights and Muon's momentum are in the files too: the same evaluation, model and checkpoints, resumed or not"""
    small = ["--set", "zero_optimization.sub_group_size=1", "--data", f"cifar10:{few_images(args.source, tmp / 'images', 300)}"]
    for kind, optimizer in (("Adam", []), ("Muon", ["--set", 'optimizer={"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.002}}'])):
        b = bench(args, tmp / kind, *EVERY_4, "--set", "ztrain.ema=0.8", "--set", "train_batch_size=50", *optimizer, *small)
        for ranks in ([], ["--ranks", "2", *THREAD, "--set", "zero_optimization.stage=3"]):
            name = f"averages: {kind}, {len(ranks) and 2 or 1} ranks"
            ways = {"memory": [], "files": nvme(b, "pipeline_read=true", "pipeline_write=true"), "all": nvme(b) + params(b)}
            ran = b.run("memory", "--overwrite", *ranks)
            check(ran and any(r.get("eval") for r in b.rows("memory")), f"{name}: runs, and evaluates")
            for way in ("files", "all"):
                ran = b.run(way, "--overwrite", *ranks, *ways[way])
                check(ran and b.same("memory", way), f"{name}: {way}: the same rows, evaluation and model")
                same = ran and all((b.checkpoint("memory", s) / f).read_bytes() == (b.checkpoint(way, s) / f).read_bytes()
                                   for s in (4, 12) for f in ("weights.safetensors", "optimizer.safetensors"))
                check(same, f"{name}: {way}: its checkpoints have the same bytes")
            for one, other in (("files", "all"), ("memory", "files"), ("all", "memory")):
                shutil.rmtree(b.folder / "again", ignore_errors=True)
                shutil.copytree(b.folder / one, b.folder / "again")
                went = b.run("again", "--resume", b.checkpoint("again", 8), *ranks, *ways[other])
                check(went and b.same("again", "memory"), f"{name}: goes on from {one} into {other}")
        check(is_empty(b), "averages: nothing is left below nvme_path")


def alone(args, tmp, rng):
    """parameters in files, or in memory because all fit max_in_cpu (its default), with the optimizer's states where they were; beside frozen
    weights and adapters too, on one rank and two"""
    b = bench(args, tmp / "alone", "--steps", "3", "--set", "zero_optimization.stage=3")
    some, every = params(b), params(b)[:-2]
    (b.folder / "nvme").mkdir()
    lora = json.dumps({"match": ["classifier.1*"], "rank": 2, "alpha": 4})
    for kind, keys in (("all train", []), ("frozen", ["--set", 'ztrain.freeze=["features.0*"]']), ("adapters", ["--set", f"ztrain.lora={lora}"])):
        for ranks in ([], ["--ranks", "2", *THREAD]):
            ran = b.run("memory", "--overwrite", *keys, *ranks)
            for way, options in (("some in files", some), ("all in memory", every)):
                ran = ran and b.run(way, "--overwrite", *keys, *ranks, *options)
                check(ran and b.same("memory", way), f"alone: {kind}, {len(ranks) and 2 or 1} ranks, {way}: the same rows and model")
    check(is_empty(b), "alone: nothing is left below nvme_path")


# ---- automatic plans ----


def planned(args, tmp, rng):
    """plan auto keeps what is offloaded, at the ZeRO stage that it needs, and changes no bit; on a CPU "cpu" leaves it free"""
    b = Bench(args, tmp / "planned", "convnet", "ds_config", "--steps", "4", "--set", "zero_optimization.stage=0")
    (b.folder / "nvme").mkdir()
    auto = [*nvme(b), "--set", "zero_optimization.stage=0", "--set", "ztrain.plan=auto"]  # the stage is for the planner to choose
    for ranks in ([], ["--ranks", "2", *THREAD]):
        ran = b.run("fixed", "--overwrite", *ranks) and b.run("auto", "--overwrite", *ranks, *auto)
        check(ran and b.same("fixed", "auto"), f"planned: {'two ranks' if ranks else 'one rank'} with files leave the same rows and model")
        check('left out: ZeRO stages below 3, which exclude zero_optimization.offload_optimizer.device "nvme"' in b.says
              and ", zero 3, micro-batch" in b.says and re.search(r"offload +\S+ MB in ", b.says), "planned: the reason, and the files")
        cpu = ["--set", "zero_optimization.offload_optimizer.device=cpu", "--set", "zero_optimization.offload_param.device=cpu"]
        ran = b.run("cpu", "--overwrite", *ranks, *cpu, "--set", "ztrain.plan=auto")
        check(ran and b.same("fixed", "cpu") and "left out" not in b.says
              and 'offload_optimizer.device = "cpu" (plan auto chose zero_optimization.stage 0)' in b.says, "planned: a notice on a CPU")
    far = [args.program, "plan", "--model", args.source / "models/convnet.onnx", "--config", args.source / "configs/ds_config.json",
           "--ranks", "4", "--cluster", "h200", "--set", "ztrain.plan=auto", "--set", "zero_optimization.offload_optimizer.device=cpu"]
    done = subprocess.run(far, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and 'ZeRO stages below 1, which exclude zero_optimization.offload_optimizer.device "cpu"' in done.stdout
          and ", zero 0," not in done.stdout and re.search(r"offloaded: host memory [1-9]", done.stdout), "planned: GPUs keep states on the host")
    check(is_empty(b), "planned: nothing is left below nvme_path")


# ---- without io_uring ----

FILTER_CALL = 425  # io_uring_setup, on every Linux


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse_uring():
    """A seccomp filter, as sandboxes have it: io_uring_setup fails with EPERM."""
    code = b"".join(struct.pack("HBBI", *i) for i in [
        (0x20, 0, 0, 0),                          # load the number of the call
        (0x15, 0, 1, FILTER_CALL),                # another one: skip
        (0x06, 0, 0, 0x00050000 | errno.EPERM),   # errno
        (0x06, 0, 0, 0x7FFF0000)])                # allow
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(4, code)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def fallback(args, tmp, rng):
    """threads read and write where the kernel refuses io_uring, and the start says so"""
    b = bench(args, tmp / "fallback", "--steps", "12")
    b.run("memory")
    whole = weights(b)
    b.before = refuse_uring
    ran = b.run("threads", *nvme(b), "--set", "aio.queue_depth=4", "--set", "aio.intra_op_parallelism=2")
    check(ran and weights(b) == whole, "fallback: threads give the same weights")
    check("threads (io_uring: Operation not permitted)" in b.says, "fallback: the start table names the reason")


# ---- files ----


def leftovers(args, tmp, rng):
    """what a killed run leaves is removed by the next one of the same output folder"""
    b = bench(args, tmp / "leftovers")
    endless = ["--steps", "100000", "--set", "ztrain.checkpoint.every_steps=0"]
    with b.started("killed", *nvme(b), *endless) as process:
        files = lambda: list((b.folder / "nvme").glob("*/rank0/optimizer.swp"))
        for _ in range(200):
            if files() and (b.folder / "killed/metrics.jsonl").exists():
                break
            time.sleep(0.05)
        check(len(files()) == 1, "leftovers: the file has its place while the run goes on")
        other = b.run("other", *nvme(b), "--steps", "2", "--overwrite")
        check(other, "leftovers: another run offloads beside it")
        process.send_signal(signal.SIGKILL)
        process.wait()
    check(len(files()) == 1, "leftovers: a killed run leaves its file")
    check(b.run("killed", *nvme(b), "--steps", "2", "--overwrite") and is_empty(b), "leftovers: the next run removes it")
    with b.started("ended", *nvme(b), *endless) as process:
        for _ in range(200):
            if files() and (b.folder / "ended/metrics.jsonl").exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.wait()
    check(is_empty(b), "leftovers: a run that is stopped removes it")


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def refusals(args, tmp, rng):
    """too little space, a path that is none, and a link in the way end with exit 4 before anything is trained"""
    b = bench(args, tmp / "refusals", "--steps", "12")
    b.before = limit_files
    check(b.run("space", *nvme(b), status=4) and "cannot reserve 2.5 MB: File too large" in b.says and is_empty(b),
          "refusals: a file that cannot have its size")
    b.before = None
    (b.folder / "file").write_text("")
    check(b.run("path", *nvme(b, f"nvme_path={b.folder}/file"), status=4) and "file: cannot create the folder: File exists" in b.says,
          "refusals: a path that is no folder")
    check(b.run("made", *nvme(b, f"nvme_path={b.folder}/new/one")) and list((b.folder / "new/one").iterdir()) == [],
          "refusals: a folder that is absent is made, as DeepSpeed does")
    check(b.run("stage", *nvme(b), "--set", "zero_optimization.stage=2", status=2) and "needs zero_optimization.stage 3" in b.says,
          "refusals: NVMe below stage 3")


@contextlib.contextmanager
def group(limit):
    """A control group with a limit of memory, of either version; None where none can be made."""
    first = pathlib.Path("/sys/fs/cgroup/memory")
    old = first.is_dir()
    path = (first if old else pathlib.Path("/sys/fs/cgroup")) / f"ztrain-offload-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))
    except OSError as e:
        print(f"SKIP no control group can be made here: {e}")
        path = None
    try:
        yield path
    finally:
        if path:
            path.rmdir()


def limited(args, tmp, rng):
    """what cannot fit into the control group ends before it starts, in training and in the plan, with both sizes"""
    b = bench(args, tmp / "limited", "--steps", "2")
    with group(100 << 20) as path:
        if not path:
            return
        b.before = lambda: (path / "cgroup.procs").write_text(str(os.getpid()))
        check(b.run("fits"), "limited: a run that fits trains")
        wide = ["--ranks", "2"]
        check(b.run("not", *wide, status=2) and "training needs" in b.says and f"there are 105 MB ({path}/memory." in b.says
              and not (b.folder / "not/metrics.jsonl").exists(), "limited: two ranks do not fit, and the limit is named")
        (path / ("memory.limit_in_bytes" if "memory/" in str(path) else "memory.max")).write_text(str(60 << 20))
        done = subprocess.run([args.program, "plan", *b.start], capture_output=True, text=True, timeout=60, preexec_fn=b.before)
        check(done.returncode == 2 and "a rank needs" in done.stderr and "62.9 MB" in done.stderr, "limited: ztrain plan refuses a rank")


def tunes(args, tmp, rng):
    """tune-nvme prints the best rates and the keys of aio, which a run takes, and leaves nothing"""
    b = bench(args, tmp / "tunes", "--steps", "3")
    there = b.folder / "nvme"
    there.mkdir()
    tune = lambda *options, **how: subprocess.run([args.program, "tune-nvme", *options], capture_output=True, text=True, timeout=300, **how)
    done = tune(there)
    check(done.returncode == 0 and re.search(r"(?m)^Best performance \(GB/sec\): read = +[\d.]+, write = +[\d.]+$", done.stderr), "tunes: the best line")
    aio = json.loads(done.stdout)["aio"] if done.returncode == 0 else {}
    kinds = {"block_size": int, "queue_depth": int, "intra_op_parallelism": int, "single_submit": bool, "overlap_events": bool}
    check({k: type(v) for k, v in aio.items()} == kinds, f"tunes: the keys of aio with their types ({aio})")
    check(b.run("run", *nvme(b), "--set", f"aio={json.dumps(aio)}"), "tunes: a run takes them")
    check(is_empty(b), "tunes: nothing is left")
    done = tune(there, preexec_fn=refuse_uring)
    check(done.returncode == 0 and "measured with threads (io_uring: Operation not permitted)" in done.stderr, "tunes: threads where io_uring is refused")
    for path, why in ((b.folder / "none", "No such file"), (args.program, "Not a directory"), ("/proc", "cannot be created")):
        done = tune(path)
        check(done.returncode == 4 and why in done.stderr and not done.stdout, f"tunes: refused: {why}")
    with open(there / "small", "w"):  # a limit of file sizes stands for a full disk
        done = tune(there, preexec_fn=limit_files)
    check(done.returncode == 4 and "cannot reserve 268 MB" in done.stderr and os.listdir(there) == ["small"], "tunes: too little space")


if __name__ == "__main__":
    sys.exit(main(__doc__, [resumes, histograms, averages, alone, planned, fallback, leftovers, refusals, limited, tunes], []))
