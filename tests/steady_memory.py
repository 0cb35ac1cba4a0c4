#!/usr/bin/env python3
"""Checks that training allocates nothing as it goes: resident memory, descriptors and threads at step 200 and at the last one are
the same, memory to 1 MB.

    tests/steady_memory.py [--steps N] ZTRAIN MODEL CONFIG [OPTION...]

Of all processes of the run, where --ranks makes several. The last step is 2,000 without --steps.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

FIRST, LIMIT_KB, MANY = 200, 1024, 10**9


def family(pid):
    """The process and all below it."""
    found = [pid]
    for at in found:
        for task in os.listdir(f"/proc/{at}/task"):
            found += map(int, pathlib.Path(f"/proc/{at}/task/{task}/children").read_text().split())
    return found


def used(pid):
    """(kB resident, descriptors, threads)"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return (int(re.search(r"VmRSS:\s*(\d+)", status).group(1)), len(os.listdir(f"/proc/{pid}/fd")),
            int(re.search(r"Threads:\s*(\d+)", status).group(1)))


def used_over(pid):
    """The least of some moments: evaluations and checkpoints have threads and files of their own for a while."""
    seen = []
    for _ in range(20):
        seen.append(used(pid))
        time.sleep(0.01)
    return tuple(map(min, zip(*seen)))


def wait_for_step(process, metrics, step):
    """Until metrics.jsonl has a row of this step or a later one; what each process uses then, None when it is gone."""
    while process.poll() is None:
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        if any(int(m.group(1)) >= step for m in re.finditer(r'"step": ?(\d+)', "\n".join(lines[-3:]))):
            return {pid: used_over(pid) for pid in family(process.pid)}
        time.sleep(0.005)
    return None


def compare(first, last):
    """The first process, and what holds of none."""
    wrong = [] if first.keys() == last.keys() else [f"processes {sorted(first)} became {sorted(last)}"]
    for pid in first.keys() & last.keys():
        (kb, files, threads), (kb_last, files_last, threads_last) = first[pid], last[pid]
        print(f"process {pid}: {kb} kB, {files} descriptors, {threads} threads at step {FIRST}; {kb_last} kB, {files_last}, {threads_last} "
              "at the last")
        if abs(kb_last - kb) >= LIMIT_KB or files_last != files or threads_last != threads:
            wrong.append(f"process {pid} grew")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("model")
    parser.add_argument("config")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("options", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [args.ztrain, "--model", args.model, "--config", args.config, "--output", f"{folder}/run", "--steps",
                   str(MANY), "--quiet", *args.options]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        seen = [wait_for_step(process, pathlib.Path(folder, "run", "metrics.jsonl"), step) for step in (FIRST, args.steps)]
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    if status != 128 + signal.SIGTERM or None in seen:
        print(f"the run ended with status {status}, or before its memory could be read: {seen}")
        return 1
    wrong = compare(*seen)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
