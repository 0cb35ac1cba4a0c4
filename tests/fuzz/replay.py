#!/usr/bin/env python3
"""Runs a fuzz target on the inputs that are kept here: its seeds, and what once broke it (found/TARGET).

    replay.py PROGRAM TARGET SEEDS

An input that crashes the program, or all together for longer than meson's limit, fails the test; found by halves, it is named.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def holds(program, paths, folder):
    env = {**os.environ, "TMPDIR": folder, "HOME": folder, "GOMP_SPINCOUNT": "3000"}
    done = subprocess.run([program, *paths], env=env, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode and len(paths) == 1:
        print(f"{pathlib.Path(paths[0]).name}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    return done.returncode == 0


def name_bad(program, paths, folder):
    for half in (paths[:len(paths) // 2], paths[len(paths) // 2:]):
        if half and not holds(program, half, folder) and len(half) > 1:
            name_bad(program, half, folder)


def main():
    if len(sys.argv) != 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    program, target, seeds = sys.argv[1:]
    program = os.path.abspath(program)
    with tempfile.TemporaryDirectory() as inputs, tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(HERE / f"seeds/{seeds}.zip").extractall(inputs)
        paths = sorted(map(str, [*pathlib.Path(inputs).iterdir(), *(HERE / "found" / target).glob("*")]))
        if holds(program, paths, folder):
            print(f"{len(paths)} inputs")
            return 0
        name_bad(program, paths, folder)
    return 1


if __name__ == "__main__":
    sys.exit(main())
