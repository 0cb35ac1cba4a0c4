#!/usr/bin/env python3
"""Every header of the tree compiles alone, twice in one unit: it must include what it uses and have a guard.

    tests/headers.py ROOT COMPILER [ARGUMENT...]

Where the source of a header's name includes it before anything else, the build compiles it alone already: of such a header only the guard
is looked at. The others are compiled here. A header of an outside library that is not installed here skips the headers that need it, by name. A body of code that
only its includer's macros complete is no header: its name ends in .inc.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

FIRST = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
GUARD = re.compile(r"(?:/\*.*?\*/\s*)?#ifndef (\w+)\n#define \1\n.*\n#endif\s*(?:/\*.*?\*/\s*)?", re.S)
FOLDERS = ["src", "graph", "ops", "parallel", "tests"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", '-DZT_VERSION="0"', "-DZT_ISA_BUILT=ZT_ISA_AMX", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c", "-"]


def compile_text(compiler, root, text):
    return subprocess.run([*compiler, "-I", root, "-I", root / "src", *FLAGS], input=text, text=True, capture_output=True)


def is_shown_by_the_build(root, header):
    """Whether the source of this name includes the header first, and a guard holds all of it."""
    source = header.with_suffix(".c")
    first = FIRST.search(source.read_text()) if source.exists() else None
    return bool(first) and header in (root / first[1], root / "src" / first[1]) and bool(GUARD.fullmatch(header.read_text()))


def missing_library(compiler, root, header):
    names = re.findall(r"^\s*#\s*include\s*<([^>]+)>", header.read_text(errors="replace"), re.M)
    return next((n for n in names if compile_text(compiler, root, f"#include <{n}>\n").returncode), None)


def check(compiler, root, header):
    """(passed, failed or skipped; what to print)."""
    name = header.relative_to(root)
    if is_shown_by_the_build(root, header):
        return "passed", None
    done = compile_text(compiler, root, f'#include "{name}"\n' * 2 + "extern int unit_is_not_empty;\n")
    if done.returncode == 0:
        return "passed", None
    library = missing_library(compiler, root, header)
    if library:
        return "skipped", f"SKIP {name}: <{library}> is not installed here"
    return "failed", f"FAIL {name} does not compile alone:\n{done.stderr.strip()}"


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    root, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    headers = sorted(h for folder in FOLDERS for h in (root / folder).rglob("*.h"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda h: check(compiler, root, h), headers))
    for _, text in results:
        if text:
            print(text)
    counts = {what: sum(r == what for r, _ in results) for what in ("passed", "failed", "skipped")}
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
