#!/usr/bin/env python3
"""Kills, stops and breaks ranks in every phase of a run, and looks at what the user sees of it.

    test_failure.py ZTRAIN FAULT_LIBRARY SOURCE_ROOT [--trials N] [--seed N] [--ranks N]

Each trial trains the sample ConvNet on some ranks, of which one meets a fault (fault.c) or, at a random moment, a signal. Then
must hold: the exit code of contract.md, one message that names the rank, nothing of mpirun's own words, all ranks gone in time,
no process, shared memory or temporary file left. Prints a line a trial and 'N of M within the limits'. Exit status 77: there
is no mpirun.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = {"kill": 10, "fail": 10, "memory": 10, "stop": 30, "wait": 30}
OWN = {1, 2, 3, 4}

# phase: (function, the call of it at which the fault comes, end of its path, ranks (None: any), actions)
FAULTS = {
    "connecting": ("connect", 1, "", None, ["kill", "stop"]),
    "connected": ("connect", 2, "", None, ["kill", "stop"]),
    "starting MPI": ("connect", 4, "", None, ["kill", "wait"]),  # the first three are to the parent
    "start-up": ("open", 1, "ds_config.json", None, ["kill", "stop", "fail", "memory"]),
    "model": ("open", 1, "convnet.onnx", None, ["kill", "stop", "fail", "memory"]),
    "data reading": ("open", 1, ".bin", None, ["kill", "stop", "fail", "memory"]),
    "agreeing": ("open_memstream", 2, "", None, ["kill", "stop", "fail", "memory"]),
    "planning": ("posix_memalign", 6, "", None, ["kill", "stop", "fail", "memory"]),
    "writing the plan": ("rename", 1, "plan.txt", [0], ["kill", "stop", "fail"]),
    "first step": ("clock_gettime", 12, "", None, ["kill", "stop"]),
    "stepping": ("clock_gettime", 200, "", None, ["kill", "stop"]),
    "evaluating": ("pthread_create", 0, "", None, ["kill", "stop", "fail", "memory"]),
    "saving": ("rename", 1, "step-16", [0], ["kill", "stop", "fail"]),
    "naming the latest": ("rename", 1, "latest", [0], ["kill", "stop", "fail"]),
    "export": ("rename", 1, "model.onnx", [0], ["kill", "stop", "fail"]),
    "leaving": ("exit", 1, "", None, ["stop"]),
    "any moment": (None, 0, "", None, ["kill", "stop"]),
}
CHATTER = re.compile(r"mpirun|Primary job|MPI_ABORT|ORTE|PMIX|-{20}|noticed|btl|vader", re.I)


def processes(mark):
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append((int(folder.name), (folder / "comm").read_text().strip(), (folder / "stat").read_text().split()[2]))
        except OSError:
            pass
    return [f for f in found if f[2] != "Z"]


def rank_of(pid):
    environment = (pathlib.Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
    return next((int(e.split(b"=")[1]) for e in environment if e.startswith(b"OMPI_COMM_WORLD_RANK=")), None)


def count_calls(args, scratch, rank):
    """The thread that a rank makes first for its evaluation: one more than in a run that ends before it."""
    log = scratch / "calls"
    run(args, scratch, f"{rank} pthread_create 0 count {log}", ["--steps", "3"], b"")
    return int(log.read_text()) + 1


def command(args, scratch, more):
    root = args.source
    return [args.ztrain, "--model", root / "models/convnet.onnx", "--config", root / "configs/ds_config.json", "--ranks", args.ranks,
            "--set", f"train_batch_size={32 * args.ranks}", "--overwrite", "--output", scratch / "run", *more]


def environment(args, scratch, fault, mark):
    env = {**os.environ, "TMPDIR": str(scratch / "tmp"), "ZT_TRIAL": mark}
    if fault:
        env |= {"LD_PRELOAD": str(args.library), "ZT_FAULT": fault}
    return env


def run(args, scratch, fault, more, mark):
    return subprocess.run(list(map(str, command(args, scratch, more))), env=environment(args, scratch, fault, mark.decode()),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def left_behind(scratch, mark, shared_before):
    left = [f"process {p}" for p in processes(mark)]
    left += [f"/dev/shm/{n}" for n in set(os.listdir("/dev/shm")) - shared_before]
    left += [str(p) for p in (scratch / "tmp").rglob("*")]
    if (scratch / "run").exists() and not any((scratch / "run").iterdir()):
        left.append("the empty folder of the run")
    # an unfinished checkpoint stays hidden until the next one is saved
    left += [str(p) for p in (scratch / "run").rglob("*.tmp-*") if not p.name.startswith(".")] if (scratch / "run").exists() else []
    return left


def signal_rank(mark, rank, number, log, process):
    """As soon as there is such a rank; on a busy machine that takes a while."""
    while process.poll() is None:
        for pid, name, _ in processes(mark):
            try:
                if name == "ztrain" and rank_of(pid) == rank:
                    os.kill(pid, number)
                    log.write_text(f"{time.monotonic():.9f}\n")
                    return
            except OSError:  # it has ended since
                pass
        time.sleep(0.05)


def ranks_named(message, ranks):
    """Of "rank 1", of "rank 1, 2 or 3" where nobody knows which of them it was, and of "rank 0 to 2" that wait for each other."""
    found = re.search(r"\brank (\d+)( to \d+)?((?:, \d+)*(?: or \d+)?)", message)
    if not found:
        return []
    return range(ranks) if found[2] else list(map(int, re.findall(r"\d+", found[1] + found[3])))


def end_all(mark):
    for pid, _, _ in processes(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def trial(args, scratch, number, phase, action, rank):
    """(what is wrong, what the user saw, seconds)"""
    function, nth, text, _, _ = FAULTS[phase]
    mark, log = f"{os.getpid()}-{number}-{random.random()}".encode(), scratch / "happened"
    shutil.rmtree(scratch / "run", ignore_errors=True)
    shutil.rmtree(scratch / "tmp", ignore_errors=True)
    (scratch / "tmp").mkdir()
    log.unlink(missing_ok=True)
    shared_before = set(os.listdir("/dev/shm"))
    fault = f"{rank} {function} {nth or args.loader} {action} {log} {text}" if function else ""
    more = ["--epochs", "1"] if function else ["--epochs", "1000"]  # longer than the test
    process = subprocess.Popen(list(map(str, command(args, scratch, more))), env=environment(args, scratch, fault, mark.decode()),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not function:
        time.sleep(random.uniform(0.05, 3))
        signal_rank(mark, rank, signal.SIGKILL if action == "kill" else signal.SIGSTOP, log, process)
    try:
        talk = process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        end_all(mark)
        return ["did not end within 60 s"], process.communicate()[1], 60
    ended = time.monotonic()
    errors = [line for line in talk.splitlines() if line.startswith("ztrain: error:")]
    chatter = [line for line in talk.splitlines() if CHATTER.search(line) and not line.startswith("hint: ")]
    wrong = []
    if not log.exists():
        wrong.append("the fault was never met")
        seconds = 0
    else:
        seconds = ended - float(log.read_text())
    # a library that finds no memory may end the process itself: then the rank is lost
    codes = {5} if action in ("kill", "stop", "wait") else OWN | {5} if action == "memory" else OWN
    done = phase == "leaving"  # the rank's work is, and so is the run's
    codes = {0} if done else codes
    if process.returncode not in codes:
        wrong.append(f"exit code {process.returncode}, wants one of {sorted(codes)}")
    if len(errors) != (not done):
        wrong.append(f"{len(errors)} messages")
    elif not done and rank not in ranks_named(errors[0], args.ranks):
        wrong.append("the message does not name the rank")
    if chatter:
        wrong.append(f"chatter: {chatter[0]}")
    if seconds > LIMIT[action]:
        wrong.append(f"took {seconds:.1f} s")
    wrong += left_behind(scratch, mark, shared_before)
    return wrong, "; ".join(errors) or talk[-300:], seconds


def in_own_mounts():
    """As root, in a mount namespace of its own with an empty /dev/shm: what is left there is this test's."""
    if os.geteuid() == 0 and shutil.which("unshare") and "ZT_OWN_MOUNTS" not in os.environ:
        script = 'mount -t tmpfs none /dev/shm && exec "$@"'
        if subprocess.run(["unshare", "-m", "sh", "-c", script, "-", "true"], capture_output=True).returncode == 0:
            os.environ["ZT_OWN_MOUNTS"] = "1"
            os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "-", sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--phase", action="append")
    args = parser.parse_args()
    if not shutil.which("mpirun"):
        print("SKIPPED: there is no mpirun here")
        return 77
    in_own_mounts()
    args.ztrain, args.library, args.source = (p.resolve() for p in (args.ztrain, args.library, args.source))
    random.seed(args.seed)
    kinds = [(p, a) for p, f in FAULTS.items() for a in f[4] if not args.phase or p in args.phase]
    random.shuffle(kinds)
    planned = [kinds[number % len(kinds)] for number in range(args.trials)]
    bad, worst, outcomes = 0, collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "tmp").mkdir()
        if any(FAULTS[phase][0] and not FAULTS[phase][1] for phase, _ in planned):
            args.loader = count_calls(args, scratch, 1)
        for number, (phase, action) in enumerate(planned):
            rank = random.choice(FAULTS[phase][3] or range(args.ranks))
            wrong, said, seconds = trial(args, scratch, number, phase, action, rank)
            bad += bool(wrong)
            worst[action] = max(worst[action], seconds)
            outcomes[phase] += not wrong
            print(f"{'FAIL' if wrong else 'ok  '} {number + 1}: {action} rank {rank}, {phase}: {seconds:.1f} s: {said}"
                  + "".join(f"\n     {w}" for w in wrong), flush=True)
    print("slowest: " + ", ".join(f"{a} {s:.1f} s" for a, s in sorted(worst.items())))
    print(f"{args.trials - bad} of {args.trials} within the limits")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
