#!/usr/bin/env python3
"""Turns a CUDA source into C++ that runs its kernels on the CPU (cuda.hpp), so that they can be held against the reference kernels without
a GPU.

    tests/gpu/emulated/translate.py ROOT FILE.cu OUTPUT.cpp DEPFILE

CUDA's headers become cuda.hpp, our *.cuh are put in place, and KERNEL<<<GRID, BLOCK, 0, STREAM>>>(ARGUMENTS) becomes
emulate(GRID, BLOCK, STREAM, bound(KERNEL, ARGUMENTS)), where the arguments are evaluated. DEPFILE lists the headers that were put in place, for ninja.
"""
import pathlib
import re
import sys

VENDOR = re.compile(r"#include <(cuda_\w+|math_constants)\.h>")
OURS = re.compile(r'#include "([\w/]+\.cuh)"')
LAUNCH = re.compile(r"(\w+(?:<[^<>;()]*>)?)\s*<<<")


def closing(text, start):
    """The index behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return i + 1
    raise ValueError("a bracket is not closed")


def arguments(text):
    """`text` cut at the commas outside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def replace_launches(text):
    done = ""
    while launch := LAUNCH.search(text):
        end = text.index(">>>", launch.end())
        grid, block, _, stream = arguments(text[launch.end():end])
        call_end = closing(text, end + 3)
        done += text[:launch.start()] + f"emulate({grid}, {block}, {stream}, bound({launch[1]}, {text[end + 4:call_end - 1]}))"
        text = text[call_end:]
    return done + text


def with_ours(root, text, headers):
    """`text` with our headers in place, and theirs; their guards keep each in once. Adds their paths to the set `headers`."""
    def put(match):
        path = root / match[1]
        path = path if path.exists() else root / "src" / match[1]
        headers.add(str(path))
        return with_ours(root, path.read_text(), headers)
    return OURS.sub(put, text)


def main():
    if len(sys.argv) != 5:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    root, source, target, depfile = map(pathlib.Path, sys.argv[1:])
    headers = set()
    text = with_ours(root, source.read_text(), headers)
    text = '#include "tests/gpu/emulated/cuda.hpp"\n' + VENDOR.sub("", text)
    target.write_text(replace_launches(text))
    depfile.write_text(f"{target}: {' '.join(sorted(headers))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
