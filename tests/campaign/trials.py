"""Runs that meet a fault, a signal or a full disk, one after the other, each held to what docs/reliability.md promises:

the exit code is one of the contract, with one message; no process is left; every file under a final name is whole; checkpoints
verify; and the run goes on to the weights of one that nothing happened to.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import fuzzing
from ledger import ROOT, Outcome
from test_failure import end_all, processes

STEPS, EVERY = 32, 8  # one epoch of mlp.json is 29 steps
LIMIT_SECONDS, GONE_SECONDS = 90, 10  # a run (TCP ranks wait 60 s for each other); what a killed process leaves behind
SHORT_SECONDS = 20
FUNCTIONS = ["open", "write", "fsync", "close", "rename", "mmap", "malloc"]
TWO = ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25"]
LAYOUTS = {
    "one": [],
    "thread": [*TWO, "--set", "ztrain.parallel.communicator=thread", "--set", "zero_optimization.stage=2"],
    "mpi": [*TWO, "--set", "zero_optimization.stage=1"],
    "tcp": [*TWO[2:], "--set", "ztrain.parallel.communicator=tcp"],
}
WEIGHTS = {"one": 12, "thread": 4, "mpi": 2, "tcp": 1}  # how often: mpirun takes a second, and TCP ranks wait a minute for one that ended early
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]


class Run:
    """What one or two processes of a run did: the exit codes, and what was said."""

    def __init__(self, codes, says, seconds):
        self.codes, self.says, self.seconds = codes, says, seconds
        self.errors = [line for line in says.splitlines() if line.startswith("ztrain: error:")]
        weights = re.search(r"weights: ([0-9a-f]{16})", says)
        self.weights = weights and weights.group(1)


class Bench:
    """A folder for runs of the digits perceptron, and the weights that undisturbed ones have."""

    def __init__(self, campaign, seed, short=False):
        self.short = short  # no time for TCP ranks that wait for each other
        self.campaign, self.random, self.folder = campaign, random.Random(seed), campaign.scratch()
        self.program = campaign.build / "ztrain"
        self.library = campaign.build / "tests/launch/fault.so"
        self.mark, self.calls = f"campaign-{os.getpid()}-{seed}", {}
        self.plain = {}

    def command(self, layout, out, *options):
        return [str(w) for w in (self.program, "--model", ROOT / "models/mlp.onnx", "--config", ROOT / "configs/mlp.json", "--device",
                                 "cpu", "--threads", "1", "--steps", STEPS, "--set", f"ztrain.checkpoint.every_steps={EVERY}",
                                 "--set", "ztrain.checkpoint.keep=0", "--output", out, "--quiet", *LAYOUTS[layout], *options)]

    def environments(self, layout, fault):
        env = {**fuzzing.environment(self.folder), "ZT_TRIAL": self.mark}
        if fault:
            env |= {"LD_PRELOAD": str(self.library), "ZT_FAULT": fault}
        if layout != "tcp":
            return [env]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return [{**env, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port)} for r in range(2)]

    def start(self, layout, out, *options, fault=None):
        return [subprocess.Popen(self.command(layout, out, *options), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
                for env in self.environments(layout, fault)]

    def finish(self, started):
        """None where it does not end."""
        began, says = time.monotonic(), ""
        try:
            for process in started:
                says += process.communicate(timeout=LIMIT_SECONDS)[1]
        except subprocess.TimeoutExpired:
            end_all(self.mark.encode())
            for process in started:
                process.communicate()
            return None
        return Run([p.returncode for p in started], says, time.monotonic() - began)

    def run(self, layout, out, *options, fault=None):
        return self.finish(self.start(layout, out, *options, fault=fault))

    def undisturbed(self, layout):
        """(weights, model) of a run that nothing happens to; all layouts of two have their own."""
        if layout not in self.plain:
            out = self.folder / f"plain-{layout}"
            done = self.run(layout, out)
            if not done or any(done.codes):
                raise RuntimeError(f"an undisturbed run ({layout}) failed: {done and done.says}")
            self.plain[layout] = done.weights, (out / "model.onnx").read_bytes()
            shutil.rmtree(out)
        return self.plain[layout]

    def call(self, layout, function):
        """A call to hit, at random among those that a whole run makes."""
        if (layout, function) not in self.calls:
            log, out = self.folder / "calls", self.folder / "counted"
            self.run(layout, out, fault=f"any {function} 0 count {log}")
            self.calls[layout, function] = max(int(n) for n in log.read_text().split())
            log.unlink()
            shutil.rmtree(out)
        return self.random.randint(1, self.calls[layout, function])

    def close(self):
        shutil.rmtree(self.folder)


def half_files(out, model):
    """What under a final name is not whole."""
    if not out.exists():
        return
    if (out / "model.onnx").exists() and (out / "model.onnx").read_bytes() != model:
        yield "model.onnx is another"
    for name in ("config.resolved.json", "metrics.jsonl"):
        path = out / name
        if path.exists():
            text = path.read_text(errors="replace")
            try:  # the row that was being written is no row yet
                [json.loads(t) for t in ([text] if name[0] == "c" else text.split("\n")[:-1])]
            except ValueError:
                yield f"{name} is damaged"


def judge(bench, layout, out, done, codes):
    """What does not hold of a run that has ended, whatever happened to it."""
    weights, model = bench.undisturbed(layout)
    if done is None:
        return [f"did not end within {LIMIT_SECONDS} s"]
    wrong = []
    for code in done.codes:
        if code not in codes:
            wrong.append(f"exit code {code}")
    if all(c == 0 for c in done.codes) and done.weights != weights:
        wrong.append(f"exit code 0 with other weights: {done.weights}")
    if any(0 < c < 128 for c in done.codes) and layout != "tcp" and len(done.errors) != 1:
        wrong.append(f"{len(done.errors)} messages: {done.says[-200:]!r}")
    ended = time.monotonic()
    while (left := processes(bench.mark.encode())) and time.monotonic() - ended < GONE_SECONDS:
        time.sleep(0.1)
    if left:
        wrong.append(f"processes are left: {left}")
        end_all(bench.mark.encode())
    wrong += half_files(out, model)
    return wrong


def resume(bench, layout, out):
    """What does not hold of the run that goes on."""
    weights, model = bench.undisturbed(layout)
    held = (out / "checkpoints/latest").exists()
    if held:
        verified = subprocess.run([bench.program, "verify", out], capture_output=True, text=True, env=fuzzing.environment(bench.folder))
        if verified.returncode:
            return [f"verify: {verified.stderr.strip()[-200:]}"]
    again = bench.run(layout, out, "--resume" if held else "--overwrite")
    if again is None or any(again.codes):
        return [f"going on failed: {again and (again.codes, again.says[-200:])}"]
    if again.weights != weights or (out / "model.onnx").read_bytes() != model:
        return [f"went on to other weights: {again.weights}, not {weights}"]
    return []


def settle(outcome, what, done, wrong, lost):
    """Counts a trial."""
    outcome.runs += 1
    if done is None:
        outcome.hangs += 1
    elif any(w.startswith("exit code") for w in wrong):
        outcome.crashes += 1
    elif wrong or lost:
        outcome.lost += 1
    outcome.found += [f"{what}: {w}" for w in wrong + lost]


def repeated(trial):
    """The part that tries until its seconds are over, at least once."""
    def run(campaign, seconds, **more):
        began, outcome = time.monotonic(), Outcome()
        bench = Bench(campaign, time.time_ns(), seconds < SHORT_SECONDS)
        try:
            while time.monotonic() - began < seconds or not outcome.runs:
                out = bench.folder / "run"
                trial(bench, outcome, out, **more)
                shutil.rmtree(out, ignore_errors=True)
        finally:
            bench.close()
        outcome.seconds = time.monotonic() - began
        return outcome
    return run


def choose(bench):
    there = [n for n in LAYOUTS if (n != "mpi" or shutil.which("mpirun")) and not (n == "tcp" and bench.short)]
    return bench.random.choices(there, [WEIGHTS[n] for n in there])[0]


@repeated
def faults(bench, outcome, out, function):
    """One call fails, or all from it on as on a full disk."""
    layout = choose(bench)
    bench.undisturbed(layout)
    full = function == "write" and bench.random.random() < 0.5
    call, log = f"{bench.call(layout, function)}{'+' if full else ''}", bench.folder / "happened"
    log.unlink(missing_ok=True)
    done = bench.run(layout, out, fault=f"any {function} {call} {'full' if full else 'fail'} {log}")
    if not log.exists():  # threads made fewer calls this time
        return
    wrong = judge(bench, layout, out, done, {0, 1, 2, 3, 4, 5} if layout in ("mpi", "tcp") else {0, 1, 2, 3, 4})
    settle(outcome, f"{layout}, {function} call {call}", done, wrong, resume(bench, layout, out))


def saved(out, done, number):
    """What does not hold of a run that a signal has stopped: the steps that it has done are saved."""
    rows = [json.loads(t) for t in (out / "metrics.jsonl").read_text().split("\n")[:-1]] if (out / "metrics.jsonl").exists() else []
    steps, latest = sum("eval" not in row for row in rows), out / "checkpoints/latest"
    if steps and -number in done.codes:
        yield f"exit code {-number} behind step {steps}"
    elif steps and 128 + number in done.codes and (not latest.exists() or int(latest.read_text().split("-")[1]) != steps):
        yield f"step {steps} is not saved"


@repeated
def signals(bench, outcome, out):
    """SIGUSR1 saves and goes on; the others save and stop, whenever they come."""
    layout, number = choose(bench), bench.random.choice(SIGNALS)
    bench.undisturbed(layout)
    began = time.monotonic()
    started = bench.start(layout, out, "--set", "ztrain.checkpoint.every_epochs=0")
    time.sleep(bench.random.uniform(0, 0.3 if layout in ("one", "thread") else 1.2))
    for process in started:
        process.send_signal(number)
    done = bench.finish(started)
    # before the program has said what a signal means, and behind its end, the system decides: it ends the process
    codes = {0, 128 + number, -number} if number != signal.SIGUSR1 else {0, -number}
    wrong = judge(bench, layout, out, done, codes | {5} if layout == "tcp" else codes)  # a rank may see the other go first
    if done and not (out / "model.onnx").exists():
        wrong += saved(out, done, number)
    settle(outcome, f"{layout}, {number.name} after {time.monotonic() - began:.2f} s", done, wrong, resume(bench, layout, out))


@repeated
def kills(bench, outcome, out):
    """kill -9 of a process of the run, at any moment."""
    layout = choose(bench)
    bench.undisturbed(layout)
    started = bench.start(layout, out)
    time.sleep(bench.random.uniform(0, 0.25 if layout in ("one", "thread") else 1.2))
    there = [pid for pid, name, _ in processes(bench.mark.encode()) if name == "ztrain"]
    victim = bench.random.choice(there) if there else None
    if victim:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:  # it has ended since
            victim = None
    done = bench.finish(started)
    if not victim:
        return
    wrong = judge(bench, layout, out, done, {0, 5, -signal.SIGKILL})
    settle(outcome, f"{layout}, kill -9", done, wrong, resume(bench, layout, out))


def mounted(folder, bytes_):
    folder.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={bytes_}", "none", folder], capture_output=True).returncode == 0


@repeated
def full_disk(bench, outcome, out):
    """The disk is full at some size; the run goes on once there is room."""
    disk, layout = bench.folder / "disk", choose(bench)
    bench.undisturbed(layout)
    size = 4096 * bench.random.randint(1, 80)
    if not mounted(disk, size):
        raise RuntimeError("a mount namespace of its own is wanted (root, or unshare -Urm)")
    try:
        done = bench.run(layout, disk / "run")
        wrong = judge(bench, layout, disk / "run", done, {0, 4, 5} if layout in ("mpi", "tcp") else {0, 4})
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        settle(outcome, f"{layout}, {size >> 10} kB", done, wrong, resume(bench, layout, disk / "run"))
    finally:
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()
