#!/usr/bin/env python3
"""What a training step is on a GPU, node by node, held against the files in lists/: which library runs each node and why not, launches,
bytes, and the estimated time on an H100 and an H200.

    device_list.py TOOL FOLDER SOURCE_ROOT [--rewrite]
    device_list.py TOOL FOLDER SOURCE_ROOT --planned FOLDER     cuDNN itself, asked for each GPU (planned/), has a plan for all of these

TOOL is device_list (device_list.c), FOLDER holds the emulated module. GPT-2 124M, ResNet-50 and ConvNet in bfloat16 at the batch sizes of
tools/gpu_suite; nothing is computed, and the models in models/light need no weights. Nodes that are alike are one line. The
emulated cuDNN has an engine for all that these networks ask it for: what is on our own kernels is there by our own rules. The number of
launches that is wanted is not held. --rewrite writes the files anew: look at the difference before it is committed. Needs only Python's
standard library.
"""
import collections, difflib, json, os, pathlib, subprocess, sys, tempfile, zipfile

# name: model, batch, columns of the data and their shapes, launches a step that are wanted at most
NETWORKS = {
    "gpt2": ("models/light/gpt2.onnx", 16, {"input": ("<i8", [1024]), "target": ("<i8", [1024])}, 400),
    "resnet50": ("models/light/resnet50.onnx", 128, {"input": ("<f4", [3, 224, 224]), "target": ("<i8", [])}, 450),
    "convnet": ("models/convnet.onnx", 256, {"image": ("<f4", [3, 32, 32]), "target": ("<i8", [])}, 25),
}
GPUS = ["h100", "h200"]
PLANNED = ["h200", "h100", "a100"]


# ---- a model whose weights are not there: each ConstantOfShape that stands for one becomes an initializer in a file that does not exist ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value, whole field) of every field of a message: an int, or the bytes of a text or message."""
    at = 0
    while at < len(data):
        begin = at
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value, data[begin:at]


def encoded(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return encoded(number << 3) + encoded(value)
    value = value.encode() if isinstance(value, str) else value
    return encoded(number << 3 | 2) + encoded(len(value)) + value


def shape_in(tensor):
    """The name and the int64 elements of a TensorProto."""
    found = collections.defaultdict(list)
    for number, value, _ in fields(tensor):
        found[number].append(value)
    raw = found[9][0] if found[9] else b""
    return found[8][0], [int.from_bytes(raw[i:i + 8], "little") for i in range(0, len(raw), 8)]


def absent(name, dims):
    entries = [("location", "absent.bin"), ("offset", "0"), ("length", str(4 * product(dims)))]
    return field(5, b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) +
                 b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries) + field(14, 1))


def without_weights(model):
    graph = next(v for n, v, _ in fields(model) if n == 7)
    shapes = dict(shape_in(v) for n, v, _ in fields(graph) if n == 5)
    out = b""
    for number, value, whole in fields(graph):
        node = collections.defaultdict(list)
        for n, v, _ in fields(value) if number == 1 else ():
            node[n].append(v)
        weight = node[4] == [b"ConstantOfShape"] and node[1][0] in shapes
        out += absent(node[2][0], shapes[node[1][0]]) if weight else whole
    return b"".join(field(7, out) if n == 7 else whole for n, _, whole in fields(model))


# ---- data of zeros ----

def product(dims):
    count = 1
    for d in dims:
        count *= d
    return count


def write_data(path, columns, samples):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, (dtype, shape) in columns.items():
            shape = (samples, *shape)
            head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}"
            head += " " * (63 - (len(head) + 10) % 64) + "\n"
            file.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() +
                          bytes(product(shape) * int(dtype[2:])))


# ---- the list ----

def run(tool, folder, model, config, gpu, rows):
    environment = {**os.environ, "ZT_EMULATED_DRY": "1", "ZT_PLANNED_GPU": gpu, "XDG_CACHE_HOME": "none", "HOME": "none"}
    done = subprocess.run([tool, folder, model, config, gpu, rows], capture_output=True, text=True, timeout=300, env=environment,
                          cwd=rows.parent)
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.strip()}")
    lines = [line.split("\t") for line in rows.read_text().splitlines()]
    return tuple(map(int, done.stdout.split())), [dict(zip(lines[0], line)) for line in lines[1:]]


def estimate(row):
    return int(row["runs"]) * float(row["estimated_us"])


def grouped(lists):
    """Rows that are alike in all but the name, in the order of the first: (row, count, launches of one, microseconds of one by GPU)."""
    same = ("phase", "op", "type", "backend", "path", "note", "runs", "flops", "bytes", "measured_us")
    found = {}
    for rows in zip(*lists):
        key = tuple(rows[0][k] for k in same)
        one = found.setdefault(key, [rows[0], 0, [estimate(r) for r in rows]])
        one[1] += 1
    return [(row, count, int(float(row["measured_us"])) if row["measured_us"] != "-" else 0, times) for row, count, times in found.values()]


def listed(name, batch, wanted, steps, brought, lists):
    groups = grouped(lists)
    launches = {kind: sum(c * n for r, c, n, _ in groups if (r["op"] == "-") == (kind == "parts")) for kind in ("nodes", "parts")}
    ms = [sum(c * t[i] for _, c, _, t in groups) / 1e3 for i in range(len(GPUS))]
    yield f"{name}, batch {batch}, bfloat16"
    yield (f"{steps} launches a step, wanted at most {wanted}: {launches['nodes']} of nodes, {launches['parts']} of load, norm and update, "
           f"{steps - sum(launches.values())} others")
    yield f"{brought:,} bytes come to the device for a step: data that fit stay there"
    yield "estimated " + ", ".join(f"{g} {t:.3f} ms" for g, t in zip(GPUS, ms)) + ", without communication"
    yield ""
    yield "by our own kernels where a library may be asked, or in part by a library:"
    for row, count in collections.Counter((r["path"], r["op"], r["type"], r["note"]) for r, c, _, _ in groups for _ in range(c)
                                          if r["note"] != "-").items():
        yield f"  {row[0]:11} {count:3} {row[1]} ({row[2]}): {row[3]}"
    yield ""
    yield f"{'phase':8} {'nodes':>5} {'launches':>8} {'MB':>9} " + " ".join(f"{g + ' us':>9}" for g in GPUS) + "  op, type, by, first node"
    for r, count, number, times in groups:
        by = r["path"] if r["path"] != "-" else r["backend"]
        yield (f"{r['phase']:8} {count:5} {count * number:8} {count * int(r['bytes']) / 1e6:9.3f} " +
               " ".join(f"{count * t:9.1f}" for t in times) + f"  {r['op']} {r['type']} [{by}] {r['node']}")


def runs_of(tool, root, name, *where):
    """((launches, bytes brought), rows) of the network for each of `where`: a folder of a module, and a GPU."""
    path, batch, columns, _ = NETWORKS[name]
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        model, data, config = made / "model.onnx", made / "data.npz", made / "config.json"
        model.write_bytes(without_weights((root / path).read_bytes()))
        write_data(data, columns, 2 * batch)
        config.write_text(json.dumps({"train_batch_size": batch, "bf16": {"enabled": True}, "optimizer": {"type": "AdamW"},
                                      "ztrain": {"data": {"format": "npz", "path": str(data)}, "loss": {"type": "cross_entropy"}, "metrics": []}}))
        return [run(tool, folder, model, config, gpu, made / "rows.tsv") for folder, gpu in where]


def list_of(tool, folder, root, name):
    _, batch, _, wanted = NETWORKS[name]
    runs = runs_of(tool, root, name, *((folder, gpu) for gpu in GPUS))
    return "".join(line.rstrip() + "\n" for line in listed(name, batch, wanted, *runs[0][0], [rows for _, rows in runs]))


def refused(tool, folder, root, planned):
    """Prints the nodes that cuDNN refuses where the emulated one does not; returns how many."""
    count = 0
    for name in NETWORKS:
        (_, emulated), *others = runs_of(tool, root, name, (folder, "h100"), *((planned, gpu) for gpu in PLANNED))
        for gpu, (_, rows) in zip(PLANNED, others):
            other = [r for e, r in zip(emulated, rows) if (e["node"], e["path"], e["note"]) != (r["node"], r["path"], r["note"])]
            print(f"{'ok   ' if not other else 'FAIL '} {name} on {gpu}: {sum(r['path'] == 'cuDNN' for r in rows)} nodes are cuDNN's")
            print("".join(f"  {r['node']} ({r['op']}, {r['type']}): {r['path']}: {r['note']}\n" for r in other), end="")
            count += len(other) + abs(len(rows) - len(emulated))
    return count


def main():
    arguments = [a for a in sys.argv[1:] if a not in ("--rewrite", "--planned")]
    if len(arguments) != 3 + ("--planned" in sys.argv):
        sys.exit(__doc__.strip())
    tool, folder, root = (pathlib.Path(a).resolve() for a in arguments[:3])
    if "--planned" in sys.argv:
        return 1 if refused(tool, folder, root, pathlib.Path(arguments[3]).resolve()) else 0
    wrong = 0
    for name in NETWORKS:
        path, text = pathlib.Path(__file__).resolve().parent / "lists" / f"{name}.txt", list_of(tool, folder, root, name)
        if "--rewrite" in sys.argv:
            path.write_text(text)
            continue
        known = path.read_text() if path.exists() else ""
        wrong += text != known
        print("ok   " if text == known else "FAIL ", name)
        sys.stdout.writelines(list(difflib.unified_diff(known.splitlines(True), text.splitlines(True), "wanted", "found", n=1))[:60])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
