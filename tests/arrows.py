#!/usr/bin/env python3
"""Fails on an include that goes against the arrows of the house.

    tests/arrows.py [ROOT]          checks the tree
    tests/arrows.py --self-test     checks that a wrong include in a made-up tree is found

    base <- graph <- ops    base <- device <- ops    graph, device <- parallel    all of them <- src/*
    within src: session <- plan <- run <- report <- checkpoint <- train <- cli <- main

optim and data may see base, the config and graph/ir/dtype.h. graph/onnx, where the file format is known, keeps its private
headers to itself. Each outside library is included in one place only; tests may include anything. Where an include names a macro,
the files that define the macro are held to what it stands for.
"""
import fnmatch
import pathlib
import re
import sys
import tempfile

SUFFIXES = {".c", ".h", ".cu", ".cuh", ".inc"}
FOLDERS = ["src", "graph", "ops", "parallel", "tests"]

# Which room a file belongs to: the first pattern that matches.
ROOMS = [("base", "src/base/*"), ("device", "src/device/*"), ("optim", "src/optim/*"), ("data", "src/data/*"),
         ("dtype", "graph/ir/dtype.h"), ("graph", "graph/onnx/onnx.h"), ("onnx", "graph/onnx/*"), ("onnx", "graph/export/emit.c"),
         ("graph", "graph/*"), ("ops", "ops/*"), ("parallel", "parallel/*"), ("config", "src/config/*"), ("tests", "tests/*"),
         ("session", "src/session/*"), ("plan", "src/plan/*"), ("run", "src/run/*"), ("report", "src/report/*"),
         ("checkpoint", "src/checkpoint/*"), ("train", "src/train*"), ("cli", "src/cli/*"), ("main", "src/*")]

# What the rooms of src/ that put a run together stand on, and their order: each may include those before it.
FLOOR = ["base", "dtype", "graph", "device", "ops", "parallel", "optim", "data", "config"]
STAIRS = ["session", "plan", "run", "report", "checkpoint", "train", "cli", "main"]

# What a room may include besides itself.
MAY_SEE = {
    "base": [],
    "config": ["base"],
    "dtype": ["base"],
    "graph": ["base", "dtype"],
    "onnx": ["base", "dtype", "graph"],
    "device": ["base"],
    "ops": ["base", "dtype", "graph", "device"],
    "parallel": ["base", "dtype", "graph", "device"],
    "optim": ["base", "dtype", "config"],
    "data": ["base", "dtype", "config"],
    "tests": FLOOR + STAIRS + ["onnx"],
}
MAY_SEE |= {room: FLOOR + STAIRS[:i] for i, room in enumerate(STAIRS)}

# Outside libraries: the headers by pattern, and the files that may include them.
VENDORS = [
    ("cJSON", ["cJSON.h", "cjson/*"], ["src/checkpoint/*"]),
    ("protobuf-c", ["*.pb-c.h", "protobuf-c/*", "google/protobuf-c/*"], ["graph/onnx/*", "graph/export/*", "src/report/*"]),
    ("libcrypto", ["openssl/*"], ["parallel/comm/mac.c"]),
    ("libzip", ["zip.h", "zipconf.h"], ["src/data/*"]),
    ("cuDNN, cuBLAS, NVRTC", ["cudnn*", "cublas*", "nvrtc*"], ["ops/*_cuda.c", "ops/cuda/dnn_graph_cuda.h", "*.cu"]),
    ("CUDA", ["cuda*", "device_launch_parameters.h", "cooperative_groups*"], ["src/device/cuda*.c", "*.cu", "*.cuh"]),
    ("oneDNN", ["dnnl*", "oneapi/*"], ["ops/cpu/dnnl.*", "ops/*_cpu.c"]),
    ("MPI", ["mpi.h"], ["parallel/comm/mpi/*"]),
    ("NCCL", ["nccl.h"], ["parallel/comm/nccl.c"]),
    ("liburing", ["liburing*"], ["src/data/*", "parallel/offload*"]),
    ("Check", ["check.h"], []),
]

INCLUDE = re.compile(r"\s*#\s*include\b\s*(.*)")
DEFINE = re.compile(r'\s*#\s*define\s+(\w+)\s+("[^"]+\.(?:h|inc)")\s*$')
NAME = re.compile(r'"([^"]+)"|<([^>]+)>')


def room_of(path):
    return next(room for room, pattern in ROOMS if fnmatch.fnmatch(path, pattern))


def resolve(root, including, name, quoted):
    """The path below root that an include names, or None: next to the file, then -I. and -Isrc."""
    folders = ([root / including.parent] if quoted else []) + [root, root / "src"]
    for folder in folders:
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root)
    return None


def vendor_problem(path, name):
    """(is it a vendor's header, what is wrong with including it here)."""
    for vendor, headers, places in VENDORS:
        if any(fnmatch.fnmatch(name, header) for header in headers):
            allowed = path.startswith("tests/") or any(fnmatch.fnmatch(path, place) for place in places)
            return True, None if allowed else f"{vendor} belongs in {', '.join(places) or 'tests'}"
    return False, None


def include_problem(root, path, text, macros):
    match = NAME.match(text)
    if not match:
        return None if text.strip() in macros else "an include must name a file"
    quoted, name = match.group(1) is not None, match.group(1) or match.group(2)
    target = resolve(root, path, name, quoted)
    if target is None:
        vendor, problem = vendor_problem(str(path), name)
        return problem if vendor or not quoted else f'"{name}" is no file of the tree'
    if target.suffix in (".c", ".cu"):
        return f"{target} is a source, only headers are included"
    here, there = room_of(str(path)), room_of(str(target))
    if here == there or there in MAY_SEE[here]:
        return None
    return f"{here} must not see {there} ({target}); it may include {', '.join(MAY_SEE[here]) or 'nothing but itself'}"


def problems(root):
    root = pathlib.Path(root).resolve()
    files = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    lines = {file: file.read_text(errors="replace").splitlines() for file in files}
    macros = {match.group(1) for text in lines.values() for match in map(DEFINE.match, text) if match}
    found = []
    for file in files:
        path = file.relative_to(root)
        for number, line in enumerate(lines[file], 1):
            include, define = INCLUDE.match(line), DEFINE.match(line)
            named = include.group(1) if include else define.group(2) if define else None
            problem = named and include_problem(root, path, named, macros)
            if problem:
                found.append(f"{path}:{number}: {problem}")
    return len(files), found


# (file, its include, whether that is a wrong arrow)
SELF_TEST = [
    ("src/base/a.c", '"base/err.h"', False), ("graph/a.c", '"base/err.h"', False), ("graph/ir/a.c", '"graph.h"', False),
    ("ops/a.c", '"graph/ir/graph.h"', False), ("ops/a.c", '"device/device.h"', False), ("ops/a_cpu.c", "<dnnl.h>", False),
    ("parallel/a.c", '"graph/ir/graph.h"', False), ("src/a.c", '"ops/table.h"', False), ("src/cli/a.c", '"parallel/comm/comm.h"', False),
    ("src/optim/a.c", '"graph/ir/dtype.h"', False), ("src/data/a.c", '"config/config.h"', False), ("tests/a.c", "<check.h>", False),
    ("graph/onnx/read.c", '"onnx.pb-c.h"', False), ("graph/onnx/read.c", '"file.h"', False),
    ("graph/onnx/read.c", '"graph/ir/graph.h"', False), ("parallel/comm/mpi/mpi.c", "<mpi.h>", False), ("ops/k.cu", "<cuda_runtime.h>", False),
    ("src/base/a.c", '"graph/ir/graph.h"', True), ("src/base/a.c", '"config/config.h"', True), ("graph/a.c", '"ops/table.h"', True),
    ("graph/a.c", '"../ops/table.h"', True), ("graph/a.c", "<ops/table.h>", True), ("graph/a.c", '"device/device.h"', True),
    ("src/device/a.c", '"graph/ir/dtype.h"', True), ("ops/a.c", '"parallel/comm/comm.h"', True), ("parallel/a.c", '"ops/table.h"', True),
    ("parallel/a.c", '"config/config.h"', True), ("src/optim/a.c", '"graph/ir/graph.h"', True), ("src/data/a.c", '"optim/optim.h"', True),
    ("src/config/rows.h", '"graph/ir/graph.h"', True), ("graph/a.c", '"tests/t.h"', True), ("graph/a.c", "MACRO", True),
    ("src/plan/a.c", '"session/s.h"', False), ("src/cli/a.c", '"train.h"', False), ("src/checkpoint/a.c", '"report/r.h"', False),
    ("src/session/a.c", '"plan/p.h"', True), ("src/plan/a.c", '"run/r.h"', True), ("src/run/a.c", '"train.h"', True),
    ("src/report/a.c", '"checkpoint/c.h"', True), ("src/train.c", '"cli/c.h"', True),
    ("src/a.c", '"graph/b.c"', True), ("src/a.c", '"nowhere.h"', True), ("src/a.c", "<check.h>", True),
    ("graph/a.c", 'BODY\n#define BODY "ir/graph.h"', False), ("graph/a.c", 'BODY\n#define BODY "ops/table.h"', True),
    ("src/train.c", "<cjson/cJSON.h>", True), ("graph/passes/infer.c", '"onnx.pb-c.h"', True), ("src/data/a.c", "<mpi.h>", True),
    ("ops/a.c", "<dnnl.h>", True), ("src/exec.c", "<cuda_runtime.h>", True), ("src/train.c", "<zip.h>", True),
    ("parallel/plan.c", "<nccl.h>", True), ("graph/passes/infer.c", '"file.h"', True), ("src/train.c", '"graph/onnx/file.h"', True),
]
HEADERS = ["src/base/err.h", "src/config/config.h", "src/device/device.h", "src/optim/optim.h", "graph/ir/graph.h", "graph/ir/dtype.h",
           "graph/onnx/file.h", "ops/table.h", "parallel/comm/comm.h", "tests/t.h", "graph/b.c",
           "src/session/s.h", "src/plan/p.h", "src/run/r.h", "src/report/r.h", "src/checkpoint/c.h", "src/train.h", "src/cli/c.h"]


def self_test():
    failures = 0
    for path, include, wrong in SELF_TEST:
        with tempfile.TemporaryDirectory() as root:
            for name in HEADERS + [path]:
                (pathlib.Path(root) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(root) / name).write_text("\n")
            (pathlib.Path(root) / path).write_text(f"/* */\n#include {include}\n")
            found = problems(root)[1]
        if bool(found) != wrong:
            print(f"{path} including {include}: {'was not found' if wrong else found[0]}")
            failures += 1
    print(f"{len(SELF_TEST) - failures} of {len(SELF_TEST)} includes judged rightly")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    files, found = problems(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    print("\n".join(found + [f"{files} files, {len(found)} wrong includes"]))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
