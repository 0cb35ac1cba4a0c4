#!/usr/bin/env python3
"""Joins CUDA sources into one, in which each has a namespace of its own: nvcc takes several times as long to read CUDA's headers, once for
the host and once for the device, as to compile what stands behind them without optimization.

    tests/gpu/join_kernels.py OUTPUT.cu FILE.cu ...

What the files include comes first, outside the namespaces; guards make the lines that include it again empty. Functions and tables for
other files keep C linkage.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r"^#include .*\n", re.M)
FUNCTION = re.compile(r"^(?!static |template |extern )(?=[a-z][\w ]*[ *]\w+\()", re.M)
TABLE = re.compile(r"^(const struct \w+ zt_\w+) = {\n.*?^};", re.M | re.S)


def exported(text):
    return TABLE.sub(r'extern "C" { extern \1; \g<0> }', FUNCTION.sub('extern "C" ', text))


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    target, *sources = map(pathlib.Path, sys.argv[1:])
    texts = [source.read_text() for source in sources]
    joined = "".join(dict.fromkeys(line for text in texts for line in INCLUDE.findall(text)))
    for source, text in zip(sources, texts):
        name = re.sub(r"\W", "_", "_".join(source.parts[-2:]))
        joined += f'namespace {name} {{\n#line 1 "{source}"\n{exported(text)}}}\n'
    target.write_text(joined)
    return 0


if __name__ == "__main__":
    sys.exit(main())
