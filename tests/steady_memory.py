#!/usr/bin/env python3
"""Checks that training allocates nothing as it goes: resident memory at step 200 and at step 2,000 is the same to 1 MB.

    tests/steady_memory.py ZTRAIN MODEL CONFIG [OPTION...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

FIRST, LAST, LIMIT_KB = 200, 2000, 1024


def resident_kb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s*(\d+)", text)
    return int(found.group(1)) if found else None


def wait_for_step(process, metrics, step):
    """Until metrics.jsonl has a row of this step or a later one; the memory then, None when the process is gone."""
    while process.poll() is None:
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        if any(int(m.group(1)) >= step for m in re.finditer(r'"step": ?(\d+)', "\n".join(lines[-3:]))):
            return resident_kb(process.pid)
        time.sleep(0.005)
    return None


def main():
    if len(sys.argv) < 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    ztrain, model, config, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        command = [ztrain, "--model", model, "--config", config, "--output", f"{folder}/run", "--steps", str(LAST + 200),
                   "--quiet", *options]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        seen = [wait_for_step(process, pathlib.Path(folder, "run", "metrics.jsonl"), step) for step in (FIRST, LAST)]
        status = process.wait()
    if status or None in seen:
        print(f"the run ended with status {status} before its memory could be read: {seen}")
        return 1
    print(f"resident at step {FIRST}: {seen[0]} kB, at step {LAST}: {seen[1]} kB")
    return 1 if abs(seen[1] - seen[0]) >= LIMIT_KB else 0


if __name__ == "__main__":
    sys.exit(main())
