#!/usr/bin/env python3
"""Fails on an index that may grow the array it indexes.

    tests/growing_arrays.py [ROOT]          checks the tree
    tests/growing_arrays.py --self-test     checks that such an index is found

The arrays `values` and `nodes` of a graph hold pointers to storage that never moves, but the arrays themselves move when they
grow. In `g->values[zt_graph_add_value(g, ...)]` C may read `g->values` before the call. The id belongs in a variable.
"""
import pathlib
import re
import sys

GROWS = r"(?:zt_graph_(?:add|copy_node)|zt_emit|ZT_EMIT|zt_grad_(?:out_or_zero|unbroadcast)|zt_fuse_(?:add|replace)|zt_expand_|NET\(|net_)"
INDEX = re.compile(r"(?:->|\.)(?:values|nodes)\[[^\]]*?" + GROWS)
FOLDERS = ["graph", "ops", "parallel", "src", "tests"]


def problems(text):
    return [text.count("\n", 0, match.start()) + 1 for match in INDEX.finditer(text)]


def self_test():
    wrong = ["x = *g->values[zt_graph_add_value(g, NULL)];", "b->g->nodes[\n zt_emit(b)]->in = NULL;", "g->values[NET(g, a)]->id"]
    right = ["int id = zt_graph_add_value(g, NULL);\nx = g->values[id];", "g->values[zt_graph_find(g, name)]->data"]
    missed = [text for text in wrong if not problems(text)] + [text for text in right if problems(text)]
    print("\n".join(missed + [f"{len(wrong + right) - len(missed)} of {len(wrong + right)} judged rightly"]))
    return 1 if missed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    files = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*.[ch]"))
    found = [f"{file}:{line}: the index may grow the array" for file in files for line in problems(file.read_text(errors="replace"))]
    print("\n".join(found + [f"{len(files)} files, {len(found)} wrong indexes"]))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
