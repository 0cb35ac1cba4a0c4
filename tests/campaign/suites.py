"""Tests of the repository as parts of a campaign: the same functions, more often and with other random numbers."""
import os
import re
import subprocess
import sys
import time

from ledger import ROOT, Outcome


def outcome_of(done, began, runs, held):
    outcome = Outcome(runs=runs, seconds=time.monotonic() - began, lost=runs - held)
    failures = re.findall(r"^FAIL.*(?:\n     .*)*", done.stdout, re.M)  # what was wrong stands indented below
    outcome.found = [" ".join(f.split()) for f in failures]
    if done.returncode and not outcome.found:
        outcome.crashes, outcome.found = 1, [(done.stdout + done.stderr)[-400:]]
    return outcome


def suite(campaign, *words):
    """In mounts of its own where it makes some: what parts beside it have in /dev/shm is not what its runs left there."""
    env = {k: v for k, v in os.environ.items() if k != "ZT_OWN_MOUNTS"}
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**env, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": "/tmp"})


def saving_kills(campaign, seconds):
    """kill -9 of runs that do little else than save (tests/checkpoint/stopping.py), some 8 a second and each fourth of a rank."""
    began, kills = time.monotonic(), max(4, int(2 * seconds))
    done = suite(campaign, ROOT / "tests/checkpoint/stopping.py", campaign.build / "ztrain", ROOT, "--only", "kills", "losses", "--kills",
                 kills, "--seed", time.time_ns() % 10**9)
    counted = re.findall(r"(\d+) of (\d+) runs", done.stdout)
    runs = sum(int(n) for _, n in counted)
    return outcome_of(done, began, runs, sum(int(n) for n, _ in counted) - len(re.findall("^FAIL (?!.*of)", done.stdout, re.M)))


def flipped_bits(campaign, seconds):
    """Bits of any tensor of a checkpoint, which `ztrain verify` must name (tests/checkpoint/checkpoints.py), some 8 a second."""
    began, flips = time.monotonic(), max(10, int(8 * seconds))
    done = suite(campaign, ROOT / "tests/checkpoint/checkpoints.py", campaign.build / "ztrain", ROOT, "--only", "flips", "--flips", flips,
                 "--seed", time.time_ns() % 10**9)
    named, runs = map(int, re.search(r"(\d+) of (\d+) flipped", done.stdout).groups())
    return outcome_of(done, began, runs, named)


def lost_ranks(campaign, seconds):
    """Ranks that are killed, stopped, out of memory or fail in every phase (tests/launch/test_failure.py)."""
    began, trials = time.monotonic(), max(1, int(seconds / 6))
    done = suite(campaign, ROOT / "tests/launch/test_failure.py", campaign.build / "ztrain", campaign.build / "tests/launch/fault.so", ROOT,
                 "--trials", trials, "--seed", time.time_ns() % 10**9)
    held, runs = map(int, re.search(r"(\d+) of (\d+) within", done.stdout).groups())
    return outcome_of(done, began, runs, held)


def soak(campaign, seconds, options, steps=20_000):
    """20,000 steps with memory, descriptors and threads as at step 200 (tests/steady_memory.py), whatever the seconds."""
    began = time.monotonic()
    done = suite(campaign, ROOT / "tests/steady_memory.py", "--steps", steps, campaign.build / "ztrain", ROOT / "models/mlp.onnx",
                 ROOT / "configs/mlp.json", "--device", "cpu", "--threads", 1, *options)
    outcome = Outcome(runs=steps, seconds=time.monotonic() - began)
    if done.returncode:
        outcome.lost, outcome.found = 1, [(done.stdout + done.stderr).strip()[-400:]]
    return outcome
