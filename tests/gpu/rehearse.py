#!/usr/bin/env python3
"""Rehearses what is run on a machine with a GPU: tools/gpu_bundle's folder from a build that is there, and tools/gpu_suite over the
emulated device on small networks. Every part must pass, but for the tools that may be refused, and leave what it promises.

    tests/gpu/rehearse.py BUILD        needs numpy and onnx
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REFUSED = {"memcheck", "racecheck", "traced"}  # what compute-sanitizer and nsys do
FILES, MOST_BYTES = 8, 16 << 20
FAMILIES = "softmax,loss"  # of op cases; all of them run over the emulated device in tests of their own


def run(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    return done


def problems_of(out):
    files = list(out.iterdir())
    problems = [f"{len(files)} files, {FILES} come back"] if len(files) > FILES else []
    problems += [f"{file.name}: {file.stat().st_size} bytes" for file in files if file.stat().st_size > MOST_BYTES]
    results = json.loads((out / "results.json").read_text())
    problems += [f"{name}: {outcome}" for name, outcome in results["parts"].items()
                 if outcome != "passed" and not (name in REFUSED and outcome == "refused")]
    problems += [f"no row {label}" for label in ("G1", "G2", "G3", "G4", "G5") if not any(row[0] == label for row in results["rows"])]
    if not re.search(r"ok +NCCL +[\d.]+, /\S+/(programs|libraries)/libnccl\.so\.2`", (out / "report.md").read_text()):
        problems.append("doctor does not say which file of NCCL the loader took")
    for name in "kernels.txt", "times.txt":
        text = (out / name).read_text()
        problems += [f"{name} lacks {network}" for network in ("gpt2", "resnet50", "convnet") if f"==== {network}\n" not in text]
    return problems


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        bundle, out = pathlib.Path(scratch) / "bundle", pathlib.Path(scratch) / "out"
        # of a build with all libraries, which need not travel
        made = run(sys.executable, ROOT / "tools/gpu_bundle", "--build", sys.argv[1], "--output", bundle, "--most", 200)
        if made.returncode:
            return 1
        done = run(sys.executable, ROOT / "tools/gpu_suite", "--bundle", bundle, "--out", out, "--rehearse", "--families", FAMILIES,
                   "--deadline", 280)
        problems = problems_of(out)
        if bool(problems) != bool(done.returncode):
            problems.append(f"gpu_suite exits {done.returncode}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
