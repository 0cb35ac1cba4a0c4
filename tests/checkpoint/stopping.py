#!/usr/bin/env python3
"""Runs that are stopped: by signals, which save, and by kill -9, which does not.

    stopping.py ZTRAIN SOURCE_ROOT [--only WORD ...] [--kills N] [--seed N]

Needs only Python's standard library. Exit status 0: all hold, 1: one does not.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from runs import LAYOUTS, THREAD, Bench, check, main


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def signals(args, tmp, rng):
    b = Bench(args, tmp / "signals", "mlp", "mlp", "--set", "ztrain.checkpoint.every_epochs=0", "--steps", "1000000000")
    two = ["--set", "train_micro_batch_size_per_gpu=25"]
    cases = [("one", signal.SIGTERM, []), ("threads", signal.SIGINT, LAYOUTS["ddp x 2"] + two)]
    cases += [("hung up", signal.SIGHUP, [])]
    if shutil.which("mpirun"):
        cases += [("processes", signal.SIGTERM, ["--ranks", "2", *two]), ("processes hung up", signal.SIGHUP, ["--ranks", "2", *two])]
    for name, number, options in cases:
        out = b.folder / name
        with b.started(name, "--quiet", *options) as process:
            wait_for(lambda: lines(out / "metrics.jsonl") > 3)
            process.send_signal(signal.SIGUSR1)
            saved = wait_for(lambda: (out / "checkpoints/latest").exists())
            check(saved and process.poll() is None, f"signals: {name}, {number.name}: SIGUSR1 saves and goes on")
            process.send_signal(number)
            says = process.communicate(timeout=60)[1]
        step = int((out / "checkpoints/latest").read_text().strip()[5:])
        check(process.returncode == 128 + number and not says, f"signals: {name}, {number.name}: exit {process.returncode}, nothing said: {says!r}")
        check(step == sum("eval" not in row for row in b.rows(name)) and b.verify(out).returncode == 0 and not (out / "model.onnx").exists(),
              f"signals: {name}, {number.name}: the last step is saved, and there is no model")
    with b.started("told") as process:
        wait_for(lambda: lines(b.folder / "told/metrics.jsonl") > 3)
        process.terminate()
        last = process.communicate(timeout=60)[1].decode().splitlines()[-1]
    check(last == "Stopped by SIGTERM after saving a checkpoint; --resume continues", f"signals: without --quiet the end is told: {last}")


def has_blocked(process, number):
    """whether the program has come to the point from which on the signal waits"""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")), 16) >> (number - 1) & 1


def early(args, tmp, rng):
    """SIGUSR1 before there is anything to save, here from the first thing that the program does on"""
    b = Bench(args, tmp / "early", "mlp", "mlp", "--set", "ztrain.checkpoint.every_epochs=0", "--steps", "1000000000", "--quiet")
    layouts = [("one", [])] + ([("processes", ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25"])] if shutil.which("mpirun") else [])
    for name, options in layouts:
        for i in range(6):
            out = b.folder / f"{name}-{i}"
            with b.started(out.name, *options) as process:
                wait_for(lambda: has_blocked(process, signal.SIGUSR1) or process.poll() is not None)
                time.sleep(i * 0.01)
                process.send_signal(signal.SIGUSR1)
                saved = wait_for(lambda: (out / "checkpoints/latest").exists() or process.poll() is not None)
                check(saved and process.poll() is None, f"signals: early: {name}, {10 * i} ms on: SIGUSR1 is kept until there is something to save")
                process.terminate()
                process.communicate(timeout=60)
    done = subprocess.run([args.program, "inspect", "--model", args.source / "models/mlp.onnx"], capture_output=True,
                          preexec_fn=lambda: (signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]), os.kill(os.getpid(), signal.SIGUSR1)))
    check(done.returncode == 0, f"signals: early: a command that saves nothing goes on: exit {done.returncode}")


def ignored(args, tmp, rng):
    """what a run was started to ignore stays ignored, as nohup wants it, also by its ranks"""
    b = Bench(args, tmp / "ignored", "mlp", "mlp", "--set", "ztrain.checkpoint.every_epochs=0", "--steps", "1000000000", "--quiet")
    layouts = [("one", [])] + ([("processes", ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25"])] if shutil.which("mpirun") else [])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for name, options in layouts:
        metrics = b.folder / name / "metrics.jsonl"
        with b.started(name, *options) as process:
            wait_for(lambda: lines(metrics) > 3)
            process.send_signal(signal.SIGHUP)
            before = lines(metrics)
            check(wait_for(lambda: lines(metrics) > before + 50) and process.poll() is None, f"signals: ignored: {name}: the run goes on")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            check(process.returncode == 128 + signal.SIGTERM, f"signals: ignored: {name}: others are not: exit {process.returncode}")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def closed(args, tmp, rng):
    """standard error and output of which nobody reads on, as after `2>&1 | head -1`"""
    b = Bench(args, tmp / "closed", "mlp", "mlp", "--steps", "60", "--set", "steps_per_print=1")
    layouts = [("one", [])] + ([("processes", ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25"])] if shutil.which("mpirun") else [])
    for name, options in layouts:
        reader, writer = os.pipe()
        process = subprocess.Popen(b.command(name, *options), stdout=writer, stderr=writer, stdin=subprocess.DEVNULL)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        try:
            code = process.wait(timeout=120)
        finally:
            process.kill()
        check(code == 0 and len(b.rows(name)) >= 60 and (b.folder / name / "model.onnx").exists(), f"signals: closed: {name}: trained to its end: exit {code}")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([args.program, "inspect", "--model", args.source / "models/mlp.onnx"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    check(done.returncode == 0 and not done.stderr, f"signals: closed: a reader that went is no error: exit {done.returncode}, {done.stderr!r}")


def locked(args, tmp, rng):
    """a folder in which a run writes is its own, until it ends, however that is"""
    b = Bench(args, tmp / "locked", "mlp", "mlp", "--quiet", "--set", "ztrain.checkpoint.every_epochs=0")
    two = ["--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25"]
    layouts = [("one", []), ("threads", [*two, *THREAD])] + ([("processes", two)] if shutil.which("mpirun") else [])
    for name, options in layouts:
        out = b.folder / name
        with b.started(name, *options, "--steps", "1000000000") as process:
            wait_for(lambda: lines(out / "metrics.jsonl") > 3)
            process.send_signal(signal.SIGUSR1)
            wait_for(lambda: (out / "checkpoints/latest").exists())
            for _, others in layouts:
                for again in (["--overwrite"], ["--resume"], []):
                    told = b.run(name, *others, *again, "--steps", "3", status=4)
                    check(told and f"{out}: another run writes here: process " in b.says and b.says.count("error") == 1,
                          f"locked: {name}: refused: {[*others[:2], *again]}")
            before = lines(out / "metrics.jsonl")
            check(wait_for(lambda: lines(out / "metrics.jsonl") > before) and process.poll() is None, f"locked: {name}: the run goes on")
            process.kill()
        check(wait_for(lambda: b.run(name, *options, "--overwrite", "--steps", "3"), 15), f"locked: {name}: nobody holds it after kill -9")
        check(not (out / ".ztrain-lock").exists(), f"locked: {name}: a run that ends leaves no lock")


def twice(args, tmp, rng):
    """a second signal ends the process in the middle of a step, where the first alone would have saved at its end"""
    b = Bench(args, tmp / "twice", "convnet", "ds_config", "--set", "train_batch_size=1500", "--epochs", "1000", "--quiet",
              "--set", "ztrain.checkpoint.every_epochs=0")
    with b.started("run") as process:
        wait_for(lambda: lines(b.folder / "run/metrics.jsonl") > 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        says = process.communicate(timeout=60)[1]
    check(process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT) and not says, f"signals: twice: exit {process.returncode}, nothing said: {says!r}")
    check(not (b.folder / "run/checkpoints/latest").exists(), "signals: twice: nothing was saved")


def kills(args, tmp, rng):
    """kill -9 at random moments of a run that does little else than save"""
    saving = ["--set", "ztrain.checkpoint.every_steps=1", "--set", "ztrain.checkpoint.keep=2"]
    b = Bench(args, tmp / "kills", "mlp", "mlp", "--ranks", "2", *THREAD, "--set", "train_micro_batch_size_per_gpu=25",
              "--set", "zero_optimization.stage=2", "--quiet")
    if not check(b.run("run", "--steps", "1", *saving), "kills: a first checkpoint"):
        return
    out, held, during = b.folder / "run", 0, 0
    for i in range(args.kills):
        before = lines(out / "metrics.jsonl")
        with b.started("run", "--resume", "--steps", "1000000000", *saving) as process:
            wait_for(lambda: lines(out / "metrics.jsonl") > before or process.poll() is not None)
            time.sleep(rng.random() * 0.02)
            process.kill()
            says = process.communicate()[1]
        during += any(p.name.startswith(".") for p in (out / "checkpoints").iterdir())
        held += process.returncode == -9 and not says and b.verify(out).returncode == 0
    check(held == args.kills, f"kills: {held} of {args.kills} runs went on, and left a whole checkpoint when they were killed ({during} in the middle of saving)")
    step = int((out / "checkpoints/latest").read_text().strip()[5:]) + 3
    ok = b.run("run", "--resume", "--steps", step, *saving) and b.run("plain", "--steps", step, "--set", "ztrain.checkpoint.every_epochs=0")
    check(ok and b.same("run", "plain"), f"kills: the rows and the model of {step} steps are those of a run that nobody killed")
    check(sorted(p.name for p in (out / "checkpoints").iterdir() if "tmp" in p.name or "old" in p.name) == [], "kills: nothing half is left")


def ranks_below(pid):
    """the processes of ztrain that a parent has started, through mpirun, by what the system says of them"""
    found, todo = [], [pid]
    while todo:
        at = todo.pop()
        try:
            below = [int(p) for task in os.listdir(f"/proc/{at}/task") for p in open(f"/proc/{at}/task/{task}/children").read().split()]
            todo += below
            found += [p for p in below if pathlib.Path(os.readlink(f"/proc/{p}/exe")).name == "ztrain"]
        except OSError:  # it has ended
            pass
    return found


def losses(args, tmp, rng):
    """kill -9 to one rank of several processes that do little else than save"""
    if not shutil.which("mpirun"):
        return
    b = Bench(args, tmp / "losses", "mlp", "mlp", "--ranks", "2", "--set", "train_micro_batch_size_per_gpu=25", "--quiet",
              "--set", "zero_optimization.stage=2", "--set", "ztrain.checkpoint.every_steps=1", "--set", "ztrain.checkpoint.keep=2")
    if not check(b.run("run", "--steps", "1"), "losses: a first checkpoint"):
        return
    out, held, during, runs = b.folder / "run", 0, 0, (args.kills + 3) // 4
    for _ in range(runs):
        before = lines(out / "metrics.jsonl")
        with b.started("run", "--resume", "--steps", "1000000000") as process:
            wait_for(lambda: lines(out / "metrics.jsonl") > before or process.poll() is not None)
            time.sleep(rng.random() * 0.02)
            ranks = ranks_below(process.pid)
            if ranks:
                os.kill(rng.choice(ranks), signal.SIGKILL)
            else:
                process.kill()
            says = process.communicate(timeout=60)[1]
        during += any(p.name.startswith(".") for p in (out / "checkpoints").iterdir())
        held += process.returncode == 5 and says.count(b"error") == 1 and b.verify(out).returncode == 0
    check(held == runs, f"losses: {held} of {runs} runs that lost a rank went on from a whole checkpoint ({during} in the middle of saving)")


if __name__ == "__main__":
    sys.exit(main(__doc__, [signals, early, ignored, closed, locked, twice, kills, losses], [("--kills", 12, "times to kill a run")]))
