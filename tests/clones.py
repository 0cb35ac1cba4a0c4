#!/usr/bin/env python3
"""Names of loops marked ZT_CLONES or ZT_FMA_CLONES must be unique in the program, though they are static: clang gives their resolvers external linkage.

    tests/clones.py ROOT
    tests/clones.py --self-test
"""
import collections
import pathlib
import re
import sys

MARKED = re.compile(r"ZT_(?:FMA_)?CLONES\s+static\s+[\w\s*]*?\b(\w+)\s*\(")


def repeated(texts):
    """Of {file: text}: 'name: files' of names that several functions have."""
    files = collections.defaultdict(list)
    for file, text in texts.items():
        for name in MARKED.findall(text):
            files[name].append(str(file))
    return [f"{name}: {', '.join(where)}" for name, where in sorted(files.items()) if len(where) > 1]


def main():
    if sys.argv[1:] == ["--self-test"]:
        one = "ZT_FMA_CLONES static void run_a(struct x *c,\n  int n) {"
        assert repeated({"a.c": one, "b.c": "ZT_CLONES static double *run_b(int n) {"}) == []
        assert repeated({"a.c": one, "b.c": one}) == ["run_a: a.c, b.c"]
        return 0
    root = pathlib.Path(sys.argv[1])
    texts = {file.relative_to(root): file.read_text() for room in ("src", "graph", "ops", "parallel") for file in (root / room).rglob("*.c")}
    problems = repeated(texts)
    print("\n".join(problems) or f"{sum(len(MARKED.findall(t)) for t in texts.values())} names, each once")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
