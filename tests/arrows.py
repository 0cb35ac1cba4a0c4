#!/usr/bin/env python3
"""Draws the rooms of the house and fails on an arrow that runs up, a circle, a folder that is too large, or a row in no table.

    tests/arrows.py [--draw] [--objects BUILD] [ROOT]    checks the tree; --draw first prints rooms, arrows and circles
    tests/arrows.py --self-test                          checks that each wrong thing in a made-up tree is found

A room is a folder. An arrow from file A to file B is an include or, with --objects, a call: a symbol that an object of BUILD needs and
another object defines (BUILD needs compile_commands.json, as meson writes it). Circles of files are those of includes and calls: a
table that names its rows, whose sources include the table's header, is none.

    base <- graph <- ops    base <- device <- ops    graph, device <- parallel    all of them <- src/*
    graph/      ir <- onnx <- passes and its folders <- export
    ops/        kernel <- cpu, cuda <- families (FAMILIES) <- fusion <- table.c, patterns.c
    parallel/   comm <- partition <- schedule    comm <- launch    offload (files in place of memory) sees base alone
    src/        session <- plan <- run <- report <- checkpoint <- train <- cli <- main

optim and data may see base, the config and graph/ir/dtype.h. graph/onnx, where the file format is known, keeps its private headers to
itself. Each outside library is included in one place only; tests may include anything. Where an include names a macro, the files that
define the macro are held to what it stands for.

A source that no meson.build names is an error. With --objects so is a row (an operator, a fusion pattern, ...) that its table does not
list (TABLES): the program would build without it.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SUFFIXES = {".c", ".h", ".cu", ".cuh", ".inc"}
PRODUCT = ["src", "graph", "ops", "parallel"]
FOLDERS = PRODUCT + ["tests"]

# The families of operators: each may see those before it.
FAMILIES = ["elementwise", "reduce", "softmax", "sequence", "movement", "random", "matmul", "pool", "conv", "norm", "norm_slices", "quantize", "attention",
            "linear_attention", "recurrent", "resample", "detection", "signal", "ml", "loss", "control", "training", "lowered"]

# Which room a file belongs to: the first pattern that matches, /** with the folders below. "onnx file" is what graph/onnx keeps to itself.
ROOMS = [
    ("base", "src/base/**"), ("device", "src/device/**"), ("optim", "src/optim/**"), ("data", "src/data/**"), ("config", "src/config/**"),
    ("dtype", "graph/ir/dtype.*"), ("ir", "graph/ir/**"), ("onnx", "graph/onnx/onnx.h"), ("onnx file", "graph/onnx/**"),
    ("passes", "graph/passes/**"), ("emit", "graph/export/emit.c"), ("export", "graph/export/**"),
    ("comm", "parallel/comm/**"), ("launch", "parallel/launch/**"), ("partition", "parallel/partition/**"), ("schedule", "parallel/schedule/**"),
    ("offload", "parallel/offload/**"),
    *((room, f"ops/{room}/**") for room in ["kernel", "cpu", "cuda", *FAMILIES, "fusion"]), ("ops", "ops/*"),
    ("session", "src/session/**"), ("plan", "src/plan/**"), ("run", "src/run/**"), ("report", "src/report/**"),
    ("checkpoint", "src/checkpoint/**"), ("train", "src/train*.[ch]"), ("cli", "src/cli/**"), ("main", "src/*"),
    ("main", "src/module/**"), ("tests", "tests/**"),
]

LOW = ["base", "dtype"]
GRAPH = ["ir", "onnx", "passes", "export"]
PARALLEL = ["comm", "launch", "partition", "schedule", "offload"]
OPS = ["kernel", "cpu", "cuda", *FAMILIES, "fusion", "ops"]
STAIRS = ["session", "plan", "run", "report", "checkpoint", "train", "cli", "main"]
UNDER_OPS = LOW + ["device"] + GRAPH
FLOOR = UNDER_OPS + OPS + PARALLEL + ["optim", "data", "config"]

# What a room may see besides itself.
MAY_SEE = {
    "base": [],
    "dtype": ["base"],
    "device": ["base"],
    "config": ["base"],
    "optim": LOW + ["config"],
    "data": LOW + ["config"],
    "onnx file": LOW + ["ir", "onnx"],
    "emit": LOW + GRAPH + ["onnx file"],
    "comm": UNDER_OPS,
    "launch": UNDER_OPS + ["comm"],
    "partition": UNDER_OPS + ["comm"],
    "schedule": UNDER_OPS + ["comm", "partition"],
    "offload": LOW,
    "cuda": UNDER_OPS + ["kernel"],  # not cpu
    "tests": FLOOR + STAIRS + ["onnx file", "emit"],
}
MAY_SEE |= {room: LOW + GRAPH[:i] for i, room in enumerate(GRAPH)}
MAY_SEE |= {room: UNDER_OPS + OPS[:i] for i, room in enumerate(OPS) if room not in MAY_SEE}
MAY_SEE |= {room: FLOOR + STAIRS[:i] for i, room in enumerate(STAIRS)}
# What others may call of a room, under the name by which they may see it.
CALLED = {"onnx file": "onnx", "emit": "export"}

# Outside libraries: the headers by pattern, and the files that may include them.
VENDORS = [
    ("cJSON", ["cJSON.h", "cjson/*"], ["src/checkpoint/*"]),
    ("protobuf-c", ["*.pb-c.h", "protobuf-c/*", "google/protobuf-c/*"], ["graph/onnx/*", "graph/export/*", "src/report/*"]),
    ("libcrypto", ["openssl/*"], ["parallel/comm/mac.c"]),
    ("libzip", ["zip.h", "zipconf.h"], ["src/data/*"]),
    ("libjpeg", ["jpeglib.h", "jerror.h"], ["src/data/picture/jpeg_file.c"]),
    ("libpng", ["png.h"], ["src/data/picture/png_file.c"]),
    ("cuDNN, cuBLAS, NVRTC", ["cudnn*", "cublas*", "nvrtc*"], ["ops/*_cuda.c", "ops/cuda/dnn_graph_cuda.h", "*.cu"]),
    ("CUDA", ["cuda*", "device_launch_parameters.h", "cooperative_groups*"], ["src/device/cuda*.c", "*.cu", "*.cuh"]),
    ("oneDNN", ["dnnl*", "oneapi/*"], ["ops/cpu/dnnl.*", "ops/*_cpu.c"]),
    ("MPI", ["mpi.h"], ["parallel/comm/mpi/*"]),
    ("NCCL", ["nccl.h"], ["parallel/comm/nccl.c"]),
    ("liburing", ["liburing*"], ["parallel/offload/*"]),
    ("Check", ["check.h"], []),
]

# Rows by their symbols, and the source of the table that must list them.
TABLES = [("zt_op_*", "ops/*/rows.c"), ("zt_*_rows", "ops/table.c"), ("zt_pattern_*", "ops/patterns.c"),
          ("zt_optimizer_cuda_*", "src/module/module_cuda.c"), ("zt_optimizer_*", "src/optim/types/types.c"), ("zt_format_*", "src/data/data.c")]

LARGEST = 40  # files in a folder

# Arrows that run up or close a circle today. The list must end empty: an entry that is not wrong any more fails too.
KNOWN = []

INCLUDE = re.compile(r"\s*#\s*include\b\s*(.*)")
DEFINE = re.compile(r'\s*#\s*define\s+(\w+)\s+("[^"]+\.(?:h|inc)")\s*$')
NAME = re.compile(r'"([^"]+)"|<([^>]+)>')


def room_of(path):
    """The room of a path, None where no pattern matches."""
    for room, pattern in ROOMS:
        if fnmatch.fnmatch(path, pattern) and (pattern.endswith("**") or path.count("/") == pattern.count("/")):
            return room
    return None


def file_of(path):
    """What a header and the source of its name have in common; sources of kernels are files of their own."""
    return path.removesuffix(".c").removesuffix(".h")


def files_of(pair):
    return file_of(pair[0]), file_of(pair[1])


def folder_of(path):
    """The folder, of which src/ has two: train and main."""
    return f"src ({room_of(path)})" if path.count("/") == 1 and path.startswith("src/") else os.path.dirname(path)


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


class House:
    """What is wrong in single lines (problems), and the arrows: {(path, path): [why]} in all and those that run up."""

    def __init__(self, root):
        self.root, self.problems = pathlib.Path(root).resolve(), []
        self.arrows, self.up = collections.defaultdict(list), collections.defaultdict(list)
        self.compiled = set()  # files of which there is an object
        paths = [p for folder in FOLDERS for p in sorted((self.root / folder).rglob("*")) if p.is_file()]
        self.paths = [str(p.relative_to(self.root)) for p in paths if p.suffix not in (".pyc", ".o")]
        self.sources = [path for path in self.paths if pathlib.Path(path).suffix in SUFFIXES]

    def add(self, source, target, why, may_see):
        """An arrow between two files of the product; a header and the source of its name are one."""
        pair = source, target
        if file_of(source) == file_of(target):
            return
        self.arrows[pair].append(why)
        if not may_see:
            self.up[pair].append(why)

    def read_include(self, path, text, where, macros):
        match = NAME.match(text)
        if not match:
            return None if text.strip() in macros else "an include must name a file"
        quoted, name = match.group(1) is not None, match.group(1) or match.group(2)
        target = resolve(self.root, pathlib.Path(path), name, quoted)
        if target is None:
            vendor, problem = vendor_problem(path, name)
            return problem if vendor or not quoted else f'"{name}" is no file of the tree'
        if target.suffix in (".c", ".cu"):
            return f"{target} is a source, only headers are included"
        here, there = room_of(path), room_of(str(target))
        if here == "tests" or None in (here, there):
            return None
        if there == "tests":
            return f"{target} belongs to the tests"
        self.add(path, str(target), f"{where} includes {target}", here == there or there in MAY_SEE[here])
        return None

    def read_includes(self):
        lines = {path: (self.root / path).read_text(errors="replace").splitlines() for path in self.sources}
        macros = {match.group(1) for text in lines.values() for match in map(DEFINE.match, text) if match}
        for path, text in lines.items():
            for number, line in enumerate(text, 1):
                include, define = INCLUDE.match(line), DEFINE.match(line)
                named = include.group(1) if include else define.group(2) if define else None
                problem = named and self.read_include(path, named, f"{path}:{number}", macros)
                if problem:
                    self.problems.append(f"{path}:{number}: {problem}")

    def read_calls(self, symbols):
        """symbols: [(source, symbol, nm's letter for it)]."""
        defined = {}
        for source, symbol, kind in symbols:
            self.compiled.add(file_of(source))
            if kind != "U":
                defined.setdefault(symbol, source)
        for source, symbol, kind in symbols:
            target = defined.get(symbol)
            here, there = room_of(source), target and room_of(target)
            if kind != "U" or target == source or not here or not there:
                continue
            self.add(source, target, f"{source} calls {symbol} of {target}", here == there or CALLED.get(there, there) in MAY_SEE[here])

    def check_tables(self, symbols):
        needed = collections.defaultdict(set)
        for source, symbol, kind in symbols:
            if kind == "U":
                needed[symbol].add(source)
        for source, symbol, kind in symbols:
            table = next((table for rows, table in TABLES if kind in "DR" and fnmatch.fnmatchcase(symbol, rows)), None)
            if table and not fnmatch.filter(needed[symbol] | {source}, table):
                self.problems.append(f"{source}: no row of {table} lists {symbol}")

    def check_builds(self):
        """Every source of a folder with a meson.build is named there or in one above."""
        for path in (pathlib.Path(path) for path in self.sources if path.endswith((".c", ".cu")) and not path.startswith("tests/")):
            builds = [self.root / folder / "meson.build" for folder in path.parents]
            texts = [build.read_text() for build in builds if build.is_file()]
            if texts and not any(f"{path.name}'" in text for text in texts):
                self.problems.append(f"{path}: no meson.build names it")

    def is_judged(self, file):
        """Whether all arrows from a file are known: its objects are, or it has none."""
        return file in self.compiled or not {file, f"{file}.c"}.intersection(self.sources)

    def check_folders(self):
        count = collections.Counter(os.path.dirname(path) for path in self.paths)
        for folder, files in sorted(count.items()):
            if files > LARGEST:
                self.problems.append(f"{folder}: {files} files, at most {LARGEST} are allowed")
        for path in self.sources:
            if not room_of(path):
                self.problems.append(f"{path}: in no room that tests/arrows.py knows")


def symbols_of(build, root):
    """[(source, symbol, nm's letter for it)] of the objects that a build has of the product's sources."""
    source_of = {}
    for row in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(os.path.normpath(pathlib.Path(row["directory"]) / row["file"]))
        inside = source.is_relative_to(root) and source.relative_to(root).parts[0] in PRODUCT
        if inside and not row["output"].startswith("tests/") and (build / row["output"]).exists():
            source_of[row["output"]] = str(source.relative_to(root))
    for kernel in root.glob("*/**/*.cu"):
        if (build / f"{kernel.name}.o").exists() and kernel.relative_to(root).parts[0] in PRODUCT:
            source_of[f"{kernel.name}.o"] = str(kernel.relative_to(root))
    if not source_of:
        sys.exit(f"{build} has no objects of {root}")
    listing = subprocess.run(["nm", "-A", *source_of], cwd=build, capture_output=True, text=True, check=True).stdout
    return read_symbols(listing, source_of)


def read_symbols(listing, source_of):
    """What nm -A printed: OBJECT:[ADDRESS] TYPE SYMBOL"""
    found = []
    for line in listing.splitlines():
        output, rest = line.split(":", 1)
        *_, kind, symbol = rest.split()
        # Families declare the ids of their kernels; ops/cuda_ids.c numbers them from the families' own lists.
        if kind in "TDRBVWU" and not symbol.startswith("zt_cuda_id_"):
            found.append((source_of[output], symbol, kind))
    return found


def circles_of(pairs):
    """The strongly connected components of more than one node, each sorted."""
    after, order, low, stack, found = collections.defaultdict(set), {}, {}, [], []
    for one, other in pairs:
        after[one].add(other)

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in after.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            circle = [stack.pop()]
            while circle[-1] != node:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(after):
        if node not in order:
            visit(node)
    return sorted(found)


def folder_pairs(pairs):
    return {(folder_of(one), folder_of(other)) for one, other in pairs if folder_of(one) != folder_of(other)}


def inside(pair, circles):
    return any(pair[0] in circle and pair[1] in circle for circle in circles)


def pairs_of(entries):
    return {tuple(entry.split(" -> ")) for entry in entries}


def judge(house, known):
    """What is wrong: lines, arrows up and circles that the list does not know, and entries of the list that are not wrong any more."""
    found, circles = list(house.problems), circles_of(house.arrows)
    rest = {pair for pair in house.arrows if files_of(pair) not in known}
    for (one, other), why in sorted({files_of(pair): house.up[pair][0] for pair in sorted(rest.intersection(house.up))}.items()):
        found.append(f"{one} -> {other} runs up: {why}; {room_of(one)} may see {', '.join(MAY_SEE[room_of(one)]) or 'nothing'}")
    found += [f"circle of files: {', '.join(circle)}" for circle in circles_of(rest)]
    found += [f"circle of folders: {', '.join(circle)}" for circle in circles_of(folder_pairs(rest))]
    wrong = {files_of(pair) for pair in house.arrows if pair in house.up or inside(pair, circles)}
    found += [f"{one} -> {other} is in KNOWN, but not wrong any more: take it off the list" for one, other in sorted(known - wrong)
              if house.is_judged(one)]
    return found


def draw(house):
    count = collections.Counter(folder_of(path) for path in house.paths if not path.startswith("tests/"))
    arrows = collections.Counter((folder_of(one), folder_of(other)) for one, other in house.arrows)
    print("rooms")
    for folder in sorted(count):
        seen = [f"{other} {number}" for (one, other), number in sorted(arrows.items()) if one == folder and other != folder]
        print(f"  {folder} ({count[folder]} files) -> {', '.join(seen) or 'nothing'}")
    print(f"arrows up: {len(house.up)}")
    for (one, other), why in sorted(house.up.items()):
        print(f"  {one} -> {other}: {why[0]}{f' and {len(why) - 1} more' if len(why) > 1 else ''}")
    for name, circles in ("folders", circles_of(folder_pairs(house.arrows))), ("files", circles_of(house.arrows)):
        print(f"circles of {name}: {len(circles)}")
        print("".join(f"  {', '.join(circle)}\n" for circle in circles), end="")


def look(root, symbols=()):
    house = House(root)
    house.read_includes()
    house.read_calls(symbols)
    house.check_folders()
    house.check_builds()
    house.check_tables(symbols)
    return house


# (file, its include, whether that is wrong)
INCLUDES = [
    ("src/base/a.c", '"base/err.h"', False), ("graph/ir/a.c", '"base/err.h"', False), ("graph/ir/a.c", '"graph.h"', False),
    ("ops/conv/a.c", '"graph/ir/graph.h"', False), ("ops/conv/a.c", '"device/device.h"', False), ("ops/conv/a_cpu.c", "<dnnl.h>", False),
    ("parallel/comm/a.c", '"graph/ir/graph.h"', False), ("src/a.c", '"ops/table.h"', False), ("src/cli/a.c", '"parallel/comm/comm.h"', False),
    ("src/optim/a.c", '"graph/ir/dtype.h"', False), ("src/data/a.c", '"config/config.h"', False), ("tests/a.c", "<check.h>", False),
    ("graph/onnx/read.c", '"onnx.pb-c.h"', False), ("graph/onnx/read.c", '"file.h"', False), ("graph/export/emit.c", '"graph/onnx/file.h"', False),
    ("graph/onnx/read.c", '"graph/ir/graph.h"', False), ("parallel/comm/mpi/mpi.c", "<mpi.h>", False), ("ops/conv/k.cu", "<cuda_runtime.h>", False),
    ("src/base/a.c", '"graph/ir/graph.h"', True), ("src/base/a.c", '"config/config.h"', True), ("graph/ir/a.c", '"ops/table.h"', True),
    ("graph/ir/a.c", '"../../ops/table.h"', True), ("graph/ir/a.c", "<ops/table.h>", True), ("graph/ir/a.c", '"device/device.h"', True),
    ("src/device/a.c", '"graph/ir/dtype.h"', True), ("ops/conv/a.c", '"parallel/comm/comm.h"', True), ("parallel/comm/a.c", '"ops/table.h"', True),
    ("parallel/comm/a.c", '"config/config.h"', True), ("src/optim/a.c", '"graph/ir/graph.h"', True), ("src/data/a.c", '"optim/optim.h"', True),
    ("src/config/rows.h", '"graph/ir/graph.h"', True), ("graph/ir/a.c", '"tests/t.h"', True), ("graph/ir/a.c", "MACRO", True),
    ("src/plan/a.c", '"session/s.h"', False), ("src/cli/a.c", '"train.h"', False), ("src/checkpoint/a.c", '"report/r.h"', False),
    ("src/session/a.c", '"plan/p.h"', True), ("src/plan/job/a.c", '"run/r.h"', True), ("src/run/a.c", '"train.h"', True),
    ("src/report/a.c", '"checkpoint/c.h"', True), ("src/train.c", '"cli/c.h"', True), ("src/main.c", '"cli/c.h"', False),
    ("src/a.c", '"graph/b.c"', True), ("src/a.c", '"nowhere.h"', True), ("src/a.c", "<check.h>", True),
    ("graph/ir/a.c", 'BODY\n#define BODY "graph.h"', False), ("graph/ir/a.c", 'BODY\n#define BODY "ops/table.h"', True),
    ("src/train.c", "<cjson/cJSON.h>", True), ("graph/passes/infer.c", '"onnx.pb-c.h"', True), ("src/data/a.c", "<mpi.h>", True),
    ("ops/conv/a.c", "<dnnl.h>", True), ("src/run/a.c", "<cuda_runtime.h>", True), ("src/train.c", "<zip.h>", True),
    ("parallel/schedule/a.c", "<nccl.h>", True), ("graph/passes/infer.c", '"graph/onnx/file.h"', True), ("src/train.c", '"graph/onnx/file.h"', True),
    # inside graph, ops and parallel
    ("graph/passes/a.c", '"graph/onnx/onnx.h"', False), ("graph/onnx/a.c", '"graph/passes/p.h"', True), ("graph/ir/a.c", '"graph/onnx/onnx.h"', True),
    ("graph/passes/sub/a.c", '"graph/passes/p.h"', False), ("graph/passes/sub/a.c", '"graph/export/e.h"', True),
    ("graph/export/a.c", '"graph/passes/p.h"', False), ("ops/conv/a.c", '"ops/elementwise/e.h"', False),
    ("ops/elementwise/a.c", '"ops/conv/c.h"', True), ("ops/kernel/a.c", '"ops/elementwise/e.h"', True), ("ops/cuda/a.c", '"ops/conv/c.h"', True),
    ("ops/cpu/a.c", '"ops/kernel/k.h"', False), ("ops/cuda/a.c", '"ops/cpu/u.h"', True), ("ops/conv/a.c", '"ops/fusion/f.h"', True),
    ("ops/fusion/a.c", '"ops/conv/c.h"', False), ("ops/conv/a.c", '"ops/table.h"', True), ("ops/table.c", '"ops/fusion/f.h"', False),
    ("ops/unheard/a.c", '"base/err.h"', True), ("parallel/schedule/a.c", '"parallel/comm/comm.h"', False),
    ("parallel/comm/tcp/a.c", '"parallel/launch/l.h"', True), ("parallel/launch/a.c", '"parallel/comm/comm.h"', False),
    ("parallel/partition/a.c", '"parallel/schedule/s.h"', True), ("parallel/schedule/a.c", '"parallel/launch/l.h"', True),
]
HEADERS = ["src/base/err.h", "src/config/config.h", "src/device/device.h", "src/optim/optim.h", "graph/ir/graph.h", "graph/ir/dtype.h",
           "graph/onnx/file.h", "graph/onnx/onnx.h", "graph/passes/p.h", "graph/export/e.h", "ops/kernel/k.h", "ops/cpu/u.h", "ops/elementwise/e.h",
           "ops/conv/c.h", "ops/fusion/f.h", "ops/table.h", "parallel/comm/comm.h", "parallel/launch/l.h", "parallel/schedule/s.h",
           "tests/t.h", "src/session/s.h", "src/plan/p.h", "src/run/r.h", "src/report/r.h", "src/checkpoint/c.h", "src/train.h", "src/cli/c.h"]

# (what, {file: text}, nm's lines, known arrows, a part of what is found or None)
HOUSES = [
    ("a call down", {}, ["ops/conv/a.c.o: U f", "src/base/b.c.o:0 T f"], [], None),
    ("a call up", {}, ["src/base/b.c.o: U f", "ops/conv/a.c.o:0 T f"], [], "src/base/b -> ops/conv/a runs up"),
    ("a call up of a datum", {}, ["ops/kernel/b.c.o: U row", "ops/conv/a.c.o:0 D row"], [], "ops/conv/a runs up"),
    ("a call of what is declared in onnx.h", {}, ["src/cli/a.c.o: U f", "graph/onnx/read.c.o:0 T f"], [], None),
    ("a call of what is static elsewhere", {}, ["src/base/b.c.o: U f", "ops/conv/a.c.o:0 t f"], [], None),
    ("a header and its source", {"src/run/a.h": "", "src/run/a.c": '#include "a.h"'}, [], [], None),
    ("a circle of headers", {"src/run/a.h": '#include "b.h"', "src/run/b.h": '#include "a.h"'}, [], [], "circle of files: src/run/a.h, src/run/b.h"),
    ("a circle of calls", {}, ["src/run/a.c.o: U g", "src/run/a.c.o:0 T f", "src/run/b.c.o: U f", "src/run/b.c.o:0 T g"], [],
     "circle of files: src/run/a.c, src/run/b.c"),
    ("a table and its row", {"src/run/a.c": '#include "b.h"', "src/run/b.h": ""}, ["src/run/a.c.o:0 D row", "src/run/b.c.o: U row"], [], None),
    ("a circle of three", {"src/run/a.h": '#include "b.h"', "src/run/b.h": '#include "c.h"', "src/run/c.h": '#include "a.h"'}, [], [],
     "circle of files: src/run/a.h, src/run/b.h, src/run/c.h"),
    ("a circle of folders of one room", {"src/run/a.c": '#include "rank/b.h"', "src/run/rank/b.h": "", "src/run/rank/c.c": '#include "run/d.h"',
                                         "src/run/d.h": ""}, [], [], "circle of folders: src/run, src/run/rank"),
    ("main, cli and train", {"src/main.c": '#include "cli/c.h"', "src/cli/c.h": "", "src/cli/train.c": '#include "train.h"', "src/train.h": ""},
     [], [], None),
    ("forty files", {f"src/run/{i}.c": "" for i in range(40)}, [], [], None),
    ("forty-one files", {f"src/run/{i}.c": "" for i in range(41)}, [], [], "41 files"),
    ("forty-one models", {f"tests/ops/exported/{i}.onnx": "" for i in range(41)}, [], [], "41 files"),
    ("a known call up", {}, ["src/base/b.c.o: U f", "ops/conv/a.c.o:0 T f"], ["src/base/b -> ops/conv/a"], None),
    ("a known circle", {"src/run/a.h": '#include "b.h"', "src/run/b.h": '#include "a.h"'}, [], ["src/run/a -> src/run/b"], None),
    ("what is known and gone", {"src/base/b.h": ""}, [], ["src/base/b -> ops/conv/a"], "take it off the list"),
    ("what is known and right", {"src/run/a.h": '#include "b.h"', "src/run/b.h": ""}, [], ["src/run/a -> src/run/b"], "take it off the list"),
    ("what is known of the header and called", {"src/base/b.c": '#include "ops/conv/a.h"', "ops/conv/a.h": ""},
     ["src/base/b.c.o: U f", "ops/conv/a.c.o:0 T f"], ["src/base/b -> ops/conv/a"], None),
    ("what is known and not compiled", {"src/base/b.c": ""}, [], ["src/base/b -> ops/conv/a"], None),
    ("a row in its family's table", {}, ["ops/conv/a.c.o:0 D zt_op_a", "ops/conv/rows.c.o: U zt_op_a"], [], None),
    ("a row in no table", {}, ["ops/conv/a.c.o:0 D zt_op_a", "ops/conv/b.c.o: U zt_op_a"], [], "no row of ops/*/rows.c lists zt_op_a"),
    ("a function with the name of a row", {}, ["graph/ir/a.c.o:0 T zt_op_find"], [], None),
    ("a family in no table", {}, ["ops/conv/rows.c.o:0 D zt_conv_rows"], [], "no row of ops/table.c lists zt_conv_rows"),
    ("a pattern in no table", {}, ["ops/conv/fuse_a.c.o:0 R zt_pattern_a"], [], "no row of ops/patterns.c lists zt_pattern_a"),
    ("a source that is built", {"ops/conv/a.c": "", "ops/conv/meson.build": "files('a.c')"}, [], [], None),
    ("a source that is built from above", {"ops/conv/a.c": "", "ops/meson.build": "files('conv/a.c')"}, [], [], None),
    ("a source that is not built", {"ops/conv/a.c": "", "ops/conv/meson.build": "files('b.c')"}, [], [], "ops/conv/a.c: no meson.build names it"),
]


def found_in(files, listing=(), known=()):
    """What is wrong with a tree of these files and objects, whose names are those of their sources and .o."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            (pathlib.Path(root) / name).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(root) / name).write_text(f"/* */\n{text}\n")
        symbols = read_symbols("\n".join(listing), {line.split(":")[0]: line.split(":")[0].removesuffix(".o") for line in listing})
        return judge(look(root, symbols), pairs_of(known))


def self_test():
    failures = []
    for path, include, wrong in INCLUDES:
        found = found_in({name: "" for name in HEADERS + ["graph/b.c"] * (include == '"graph/b.c"')} | {path: f"#include {include}"})
        if bool(found) != wrong:
            failures.append(f"{path} including {include}: {'was not found' if wrong else found[0]}")
    for what, files, listing, known, part in HOUSES:
        found = found_in(files, listing, known)
        if (not found) if part is None else (len(found) == 1 and part in found[0]):
            continue
        failures.append(f"{what}: wanted {part or 'nothing'}, found {'; '.join(found) or 'nothing'}")
    number = len(INCLUDES) + len(HOUSES)
    print("\n".join(failures + [f"{number - len(failures)} of {number} made-up trees judged rightly"]))
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent, help="the tree; default: this one")
    parser.add_argument("--draw", action="store_true", help="print rooms, arrows with their number, arrows up, circles")
    parser.add_argument("--objects", metavar="BUILD", type=pathlib.Path, help="a build folder, whose objects show who calls whom")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    house = look(args.root, symbols_of(args.objects.resolve(), pathlib.Path(args.root).resolve()) if args.objects else ())
    if args.draw:
        draw(house)
    found = judge(house, pairs_of(KNOWN))
    compiled = f"{len(house.compiled)} of them as objects, " if args.objects else ""
    print("\n".join(found + [f"{len(house.sources)} files, {compiled}{len(house.arrows)} arrows, {len(KNOWN)} known to be wrong, "
                             f"{len(found)} more things wrong"]))
    return 1 if found or not house.sources else 0


if __name__ == "__main__":
    sys.exit(main())
