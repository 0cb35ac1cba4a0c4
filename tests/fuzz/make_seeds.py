#!/usr/bin/env python3
"""Writes first inputs for the fuzz targets, a folder a target. `tools/campaign --keep-seeds` minimises them.

    tests/fuzz/make_seeds.py ZTRAIN TO        also writes the dictionaries beside itself

Models: the ONNX standard's node tests and onnxruntime's operators (tests/graph), the same with their inputs as parameters (for
training), and small networks with If, Loop, Scan, functions, external data and the patterns of fusions. The rest is written here or
by ztrain. Needs numpy and onnx.
"""
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/graph"))
from microsoft_models import MICROSOFT
from microsoft_quantized import QUANTIZED
MOST_BYTES, TRAIN_WAYS = 8192, 11
NETWORKS = [
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 3] y)
       <float[4, 8] a_weight, float[8] a_bias, float[8, 3] b_weight> {
       h = MatMul(x, a_weight)  i = Add(h, a_bias)  j = Relu(i)  y = MatMul(j, b_weight) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2, 6, 6] x) => (float[N, 2] y)
       <float[4, 2, 3, 3] c_weight, float[4] n_weight, float[4] n_bias, float[4] n_running_mean, float[4] n_running_var, float[36, 2] l_weight> {
       a = Conv <pads = [1, 1, 1, 1]> (x, c_weight)  b = BatchNormalization(a, n_weight, n_bias, n_running_mean, n_running_var)
       c = Relu(b)  d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)  e = Flatten(d)  y = MatMul(e, l_weight) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y)
       <float[4, 8] a_weight, float[4, 8] b_weight, int64[2] split = {4, 4}> {
       h = MatMul(x, a_weight)  p, q = Split <axis = 1> (h, split)  i = MatMul(p, b_weight)  y, s = Split <axis = 1> (i, split) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (int64[N, 3] x) => (float[N, 3, 5] y)
       <float[5, 4] e_weight, float[4] n_weight, float[4] n_bias, float[4, 5] h_weight> {
       a = Gather(e_weight, x)  t = Transpose <perm = [0, 2, 1]> (a)  s = MatMul(a, t)  p = Softmax <axis = -1> (s)
       o = MatMul(p, a)  n = LayerNormalization <axis = -1> (o, n_weight, n_bias)  y = MatMul(n, h_weight) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y)
       <float[4, 4] w_weight, int64 trips = {3}, bool go = {1}> {
       y = Loop (trips, go, x) <body = step (int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] t) {
         d = Identity(c)  u = MatMul(s, w_weight)  t = Tanh(u) }> }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x, bool b) => (float[N, 4] y) <float[4, 4] w_weight> {
       y = If (b) <then_branch = yes () => (float[N, 4] p) { p = MatMul(x, w_weight) }, else_branch = no () => (float[N, 4] q) { q = Neg(x) }> }""",
    """<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w_weight> {
       a = local.twice(x, w_weight)  y = local.twice(a, w_weight) }
       <domain: "local", opset_import: ["" : 17]> twice (x, w) => (y) { a = MatMul(x, w)  y = Add(a, a) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float y) <float[4, 4] w_weight> {
       a = MatMul(x, w_weight)  b = Mul(a, a)  y = ReduceMean <keepdims = 0> (b) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 4, 3] x) => (float[2, 4, 5] y)
       <float[1, 20, 3] l_weight, float[1, 20, 5] l_recurrence, int64[1] axis = {2}> { s, h, c = LSTM <hidden_size = 5, layout = 1> (x, l_weight, l_recurrence)
       y = Squeeze(s, axis) } """.replace("l_recurrence> {", "l_recurrence, int64[1] axis = {2}> {"),
    """<ir_version: 8, opset_import: ["" : 18]> g (int64[N, 3] x) => (float[N, 4] y) <float[5, 4] e_weight, int64[1] axes = {0}, int64 at = {-1}> {
       s = SplitToSequence <axis = 0, keepdims = 0> (x)
       t = SequenceMap (s) <body = bag (int64[3] p) => (float[4] q) { r = Gather(e_weight, p)  q = ReduceSum <keepdims = 0> (r, axes) }>
       u = SequenceErase(t, at)  v = SequenceAt(t, at)  w = SequenceInsert(u, v)  o = Optional(w)  z = OptionalGetElement(o)
       y = ConcatFromSequence <axis = 0, new_axis = 1> (z) }""",
    """<ir_version: 8, opset_import: ["" : 17]> g (seq(float[N]) s, optional(float) o) => (seq(float) y, bool b) {
       y = Identity(s)  b = OptionalHasElement(o) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 8, 4, 4] x) => (float[N, 8, 4, 4] y)
       <float[8, 4, 1, 1] c_weight, int64[5] apart = {0, 2, 4, 4, 4}, int64[4] joined = {0, 8, 4, 4}> { a = Conv <group = 2> (x, c_weight)
       b = Reshape(a, apart)  t = Transpose <perm = [0, 2, 1, 3, 4]> (b)  c = Reshape(t, joined)  y = Conv <group = 2> (c, c_weight) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 6] x) => (float[N, 4] y) <float[6, 4] w_weight, float ratio = {0.5}, bool train = {1}> {
       d, m = Dropout <seed = 3> (x, ratio, train)  h = MatMul(d, w_weight)  e = Dropout(h, ratio)  y = Relu(e) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 16, 7, 7] x) => (float[N, 16, 7, 7] y) <float[16, 16, 3, 3] c_weight, float[16] c_bias> {
       a = Conv <pads = [1, 1, 1, 1]> (x, c_weight, c_bias)  b = Relu(a)  y = Conv <pads = [1, 1, 1, 1]> (b, c_weight) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 4, 6, 6] x) => (float[N, 2] y) <float[2, 4, 6, 6] c_weight, float[2] c_bias> {
       a = Conv(x, c_weight, c_bias)  y = Flatten(a) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 6, 8] x) => (float[N, 6, 4] y) <float[6, 1, 3] c_weight> {
       a = Conv <group = 6, dilations = [2], pads = [2, 2]> (x, c_weight)  y = AveragePool <kernel_shape = [2], strides = [2]> (a) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 2, 4, 4, 4] x) => (float[N, 2, 2, 2, 2] y) <float[2, 2, 3, 3, 3] c_weight> {
       a = Conv <pads = [1, 1, 1, 1, 1, 1]> (x, c_weight)  y = MaxPool <kernel_shape = [2, 2, 2], strides = [2, 2, 2]> (a) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (int64[N, 3] x) => (float[N, 4] y) <float[7, 4] e_weight, int64[1] axes = {1}> {
       a = Gather(e_weight, x)  b = ReduceMax <keepdims = 0> (a, axes)  c = ReduceMean <keepdims = 0> (a, axes)  y = Add(b, c) }""",
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 8] x) => (float[N, 4] y) <float[8, 4] w_weight, float scale = {0.05}, int8 zero = {0}> {
       q = QuantizeLinear(w_weight, scale, zero)  d = DequantizeLinear(q, scale, zero)  y = MatMul(x, d) }""",
]
ONNXRUNTIME = '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>\n'


def networks():
    rng = np.random.default_rng(0)
    for text in NETWORKS:
        model = parser.parse_model(text)
        for declared in model.graph.value_info:
            shape = [d.dim_value for d in declared.type.tensor_type.shape.dim]
            values = rng.uniform(0.1, 1, shape).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(values, declared.name))
        del model.graph.value_info[:]
        yield model


def of_onnxruntime():
    """(model, arrays of its inputs) of onnxruntime's operators."""
    rng = np.random.default_rng(1)
    for text, inputs, *_ in [*MICROSOFT.values(), *QUANTIZED.values()]:
        model = parser.parse_model(ONNXRUNTIME + text)
        yield model, [np.asarray(a) if isinstance(a, np.ndarray) else rng.uniform(-1, 1, a).astype(np.float32)
                      for a in (inputs[v.name] for v in model.graph.input)]


def node_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            if len(case.model.SerializeToString()) < MOST_BYTES and len(case.model.graph.node):
                yield case


def with_a_loss(model, values):
    """The inputs, of these values, as parameters, the mean of the first output as the loss, beside an input of four samples."""
    trained = onnx.ModelProto()
    trained.CopyFrom(model)
    graph, keeps_no_axes = trained.graph, {"keepdims": 0}
    graph.initializer.extend(numpy_helper.from_array(np.ascontiguousarray(value), given.name) for value, given in zip(values, graph.input))
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info("fed", TensorProto.FLOAT, ["N"]))
    graph.node.extend([helper.make_node("Cast", [graph.output[0].name], ["as_float"], to=TensorProto.FLOAT),
                       helper.make_node("ReduceMean", ["as_float"], ["of_test"], **keeps_no_axes),
                       helper.make_node("ReduceMean", ["fed"], ["of_fed"], **keeps_no_axes),
                       helper.make_node("Add", ["of_test", "of_fed"], ["loss_of_all"])])
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss_of_all", TensorProto.FLOAT, []))
    return trained


def as_training(case):
    model = case.model
    graph, opset = model.graph, max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")] or [0])
    if opset < 13 or not case.data_sets or graph.output[0].type.tensor_type.elem_type != TensorProto.FLOAT:
        return None
    values = case.data_sets[0][0]
    if len(values) != len(graph.input) or not all(isinstance(v, np.ndarray) and v.size <= 512 for v in values):
        return None
    return with_a_loss(model, values) if all(v.type.HasField("tensor_type") for v in graph.input) else None


def external(location, offset, length):
    weight = TensorProto(name="w.weight", data_type=TensorProto.FLOAT, dims=[2, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        if value is not None:
            weight.external_data.add(key=key, value=str(value))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w.weight"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])], [weight])
    return helper.make_model(graph).SerializeToString()


EXTERNAL = [("weights.bin", 0, 16), ("weights.bin", 4080, None), ("below/w.bin", None, None), ("link.bin", 0, 16), ("../x", 0, 16),
            ("weights.bin", 4096, 16)]


def archive(arrays, compression):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as to:
        for name, array in arrays.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, array)
            to.writestr(f"{name}.npy", one.getvalue())
    return buffer.getvalue()


def arrays():
    some = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "target": np.arange(2), "f": np.asfortranarray(np.eye(3)[:2]),
            "b": np.array(True), "h": np.zeros((0, 4), np.float16)}
    for array in some.values():
        one = io.BytesIO()
        np.lib.format.write_array(one, array)
        yield one.getvalue()
    yield archive(some, zipfile.ZIP_STORED)
    yield archive(some, zipfile.ZIP_DEFLATED)


def small_run(ztrain, at, **more):
    config = {"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.1}}, **more,
              "ztrain": {"steps": 1, "data": {"format": "synthetic", "samples": 8}, "loss": {"type": "output"}}}
    onnx.save(list(networks())[7], at / "m.onnx")
    (at / "c.json").write_text(json.dumps(config))
    subprocess.run([ztrain, "--model", at / "m.onnx", "--config", at / "c.json", "--output", at / "run", "--quiet"], check=True,
                   stderr=subprocess.DEVNULL)
    return at / "run"


def in_parts(manifest, layout):
    """The manifest of a checkpoint, without its last line, as one of two ranks with storage of their own would be."""
    text = json.loads(manifest)
    files = text.pop("files")
    for rank, (file, host) in enumerate(zip(files, ("near", "far"))):
        file |= {"name": f"part-{rank}-of-2.safetensors", "host": host}
    del text["crc32c"]
    text |= {"version": 2, "weights": {name: t["shape"] for name, t in layout.items()}, "files": files}
    return json.dumps(text, indent=2).encode()[:-2] + b",\n"


def as_part(stored, layout, length):
    """A file of tensors as a part: two slices of each."""
    slices, half = {}, lambda t: (t["data_offsets"][1] - t["data_offsets"][0]) // 8
    for name, t in layout.items():
        (at, end), middle = t["data_offsets"], half(t)
        for kind, (first, last) in (("weights", (0, middle)), ("weights-copy", (middle, (end - at) // 4))):
            slices[f"{kind}/{name}[{first}:{last}]"] = {"dtype": "F32", "shape": [last - first], "data_offsets": [at + 4 * first, at + 4 * last]}
    head = json.dumps(slices).encode()
    head += b" " * (-(8 + len(head)) % 64)
    return struct.pack("<Q", len(head)) + head + stored[8 + length:]


def checkpoint(ztrain):
    """The files of a checkpoint of a small network, and of one in parts; a manifest without its last line too, which the target adds."""
    plateau = {"type": "ReduceLROnPlateau", "params": {"patience": 1}}
    for more in {}, {"scheduler": plateau}, {"fp16": {"enabled": True}}:
        with tempfile.TemporaryDirectory() as folder:
            files = {path.name: path.read_bytes() for path in sorted((small_run(ztrain, pathlib.Path(folder), **more) / "checkpoints/step-1").iterdir())}
        manifest, stored = files["manifest.json"], files["weights.safetensors"]
        length = struct.unpack("<Q", stored[:8])[0]
        layout = json.loads(stored[8:8 + length])
        yield from files.values()
        yield manifest[:manifest.rindex(b'  "crc32c": "')]
        yield in_parts(manifest, layout)
        yield as_part(stored, layout, length)


def configs():
    for path in sorted([*(ROOT / "configs").glob("*.json"), *(ROOT / "configs/parallel").glob("*.json")]):
        yield path.read_bytes()


def cifar10():
    for labels in ([3], [0, 9], [10]):
        yield b"".join(bytes([label]) + bytes((7 * i + label) % 256 for i in range(3072)) for label in labels)


def idx():
    """The file of labels, with its length in front, and the file of images."""
    for count, height, width, classes in (3, 4, 5, 10), (1, 28, 28, 10), (2, 3, 3, 200):
        labels = struct.pack(">2I", 0x801, count) + bytes(i * 7 % classes for i in range(count))
        images = struct.pack(">4I", 0x803, count, height, width) + bytes(i % 256 for i in range(count * height * width))
        yield len(labels).to_bytes(2, "little") + labels + images
    yield (8).to_bytes(2, "little") + struct.pack(">2I", 0x801, 0) + struct.pack(">4I", 0x803, 1 << 31, 1 << 16, 1 << 16)


CSV = [
    b"a,b,target\n1,2,0\n-3.5e2,nan,9\n", b"1;2;3\n4;5;6\n", b'\xef\xbb\xbf"a","tar""get",target\r\n"1", 2 ,-100\r\n\r\n3,inf,4\r\n',
    b'a,target\n"1\n",2\n', b"target\n1\n2\n", b"a,target\n1,2,3\n", b'"a,target\n1,2\n', b"1;x;3\n", b";;\n;;\n",
]


def tokens():
    for bits, magic in (16, None), (32, None), (16, (20240520, 1)), (32, (20240801, 7)), (16, (20240520, 9)):
        stream = b"".join((i * 37 % 65536 + (bits == 32) * 40000).to_bytes(bits // 8, "little") for i in range(23))
        yield struct.pack("<256i", *magic, 23, *[0] * 253) + stream if magic else stream


def png(depth, kind, rows, *chunks):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    header = struct.pack(">2I5B", len(rows[0]) * 8 // depth // channels, len(rows), depth, kind, 0, 0, 0)
    data = zlib.compress(b"".join(bytes([i % 5]) + row for i, row in enumerate(rows)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*c) for c in ((b"IHDR", header), *chunks, (b"IDAT", data), (b"IEND", b"")))


def images():
    """Those that tests/data/picture_table.py wrote, and PNG files of other depths and kinds."""
    table = (ROOT / "tests/data/picture_table.inc").read_text()
    for content in re.findall(r'\{ "\w+\.\w+", \d+, \d+, \d+, \d+,\n +\{ ([0-9, ]+) \}', table):
        yield bytes(map(int, content.split(",")))
    ramp = [bytes((x * 31 + y * 17) % 256 for x in range(48)) for y in range(7)]
    for depth, kind in (1, 0), (2, 0), (16, 0), (16, 2), (8, 4), (16, 6):
        yield png(depth, kind, ramp)
    yield png(4, 3, ramp, (b"PLTE", bytes(range(48))), (b"tRNS", b"\0\x80"))
    yield png(8, 2, [bytes(3 * 40)] * 200)


COMMANDS = [
    "--model m.onnx --config c.json", "train --model=m.onnx --config c.json --set optimizer.params.lr=0.1 --steps 3 --json",
    "--help", "verify --help", "verify a b", "train --model m --data npz:x.npz --ranks 4 --threads 2 --device cpu --seed 7",
    "bench --model m --modes dp,ddp,zero1 --ranks 1,2 --batch-sizes 8,16 --warmup 1 --repeats 2", "--version",
    "--model m --resume --epochs 2 --output o --overwrite --quiet", "--model m --hostfile h --include a:0,1 --verbose --resume r",
]
HOSTFILES = [
    b"worker-1 slots=4\nworker-2 slots=2 # two\n\n", b"a slots=2\nb slots=2\0a@b:0,1\0", b"a slots=2\nb slots=2\0\0b:1\0",
    b"# none\n", b"a slots=1\na slots=2\n", b"a slots=4096\r\n",
]


def cache_entries():
    key = b"sm_90|a,kernel"
    magic = b"ztrain kept 1".ljust(16, b"\0")
    yield magic + len(key).to_bytes(8, "little") + (4).to_bytes(8, "little") + bytes(8) + key + b"code"
    yield b"anything"


def frames():
    """A hello for rank 0, frames of every kind between ranks, and of every kind to the parent; in pieces of 256 and of 4 bytes."""
    hello = struct.pack("<16s4iH6x16s32s", b"ztrain dials 2", 1, 1, 0, 4, 29500, bytes(16), bytes(range(32)))
    between = b"".join(struct.pack("<IHHQ", 0, kind, 0, len(data)) + data for kind, data in
                       ((1, b"round"), (2, b"message" * 20), (3, b""), (4, b"\1\0\0\0why"), (6, b"")))
    to_parent = b"".join(struct.pack("<II", kind, len(data)) + data for kind, data in ((3, b"a note\n\x1b[2J"), (5, bytes(4)), (2, bytes(232))))
    for text in (hello, hello + bytes(32), between, to_parent, struct.pack("<IHHQ", 0, 2, 0, 1 << 33)):
        yield b"\xff" + text
        yield b"\3" + text


def masked_crc(data):
    """TensorFlow's checksum of a record: a rotated CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def event_files():
    """The version, then a scalar a step: field 1 is the time, 2 the step, 3 the version, 5 the summary."""
    record = lambda data: (head := struct.pack("<Q", len(data))) + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))
    scalar = lambda step: b"\x09" + struct.pack("<d", 1.5) + b"\x10" + bytes([step]) + b"\x2a\x0a\x0a\x08\x0a\x01t\x15" + struct.pack("<f", 0.5)
    version = record(b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2")
    yield version + b"".join(record(scalar(step)) for step in (8, 64, 100, 120))
    yield version + record(scalar(8))[:-1]
    yield record(b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") + record(b"\x2a\x7f")


def metrics():
    step = '{"step": %d, "epoch": 0, "loss": %s, "lr": 0.001, "grad_norm": 1.5, "loss_scale": 1, "skipped": false, "samples": 8, "seconds": 0.01}\n'
    rows = "".join(step % (i, 1 / i) for i in range(1, 6))
    yield (rows + '{"step": 5, "epoch": 0, "eval": true, "loss": 0.08, "accuracy": 0.98}\n').encode()
    yield (rows + step % (6, "null") + '{"step": 1, "memory": 20000000, "device": 1000}\n').encode()
    yield rows.encode()[:-20]


def seeds(ztrain):
    """{target: iterable of bytes}"""
    tests = list(node_tests())
    nets, others = [m.SerializeToString() for m in networks()], list(of_onnxruntime())
    models = nets + [c.model.SerializeToString() for c in tests] + [m.SerializeToString() for m, _ in others]
    trained = [m.SerializeToString() for m in map(as_training, tests) if m is not None]
    trained += [with_a_loss(m, values).SerializeToString() for m, values in others if any(v.dtype == np.float32 for v in values)]
    tensors = [numpy_helper.from_array(a).SerializeToString() for a in (np.eye(2, dtype=np.float32), np.arange(3), np.array(1.5))]
    lists = [numpy_helper.from_list([np.eye(2, dtype=np.float32), np.arange(3, dtype=np.float32)]),
             numpy_helper.from_optional(np.arange(3)), numpy_helper.from_optional([np.arange(2), np.arange(3)]), onnx.OptionalProto(name="o")]
    return {
        "onnx": models + tensors + [m.SerializeToString() for m in lists] + [external(*e) for e in EXTERNAL],
        "predict": models,
        "grad": models,
        "train": [bytes([way]) + n for n in nets for way in range(TRAIN_WAYS)] + [bytes([1]) + t for t in trained],
        "config": configs(),
        "checkpoint": checkpoint(ztrain),
        "arrays": arrays(),
        "cifar10": cifar10(),
        "csv": CSV,
        "idx": idx(),
        "imagefolder": images(),
        "tokens": tokens(),
        "events": event_files(),
        "report": metrics(),
        "frames": frames(),
        "hostfile": HOSTFILES,
        "cache": cache_entries(),
        "options": [c.replace(" ", "\0").encode() + b"\0" for c in COMMANDS],
    }


def quoted(words):
    """As libFuzzer's dictionaries have them."""
    return "".join(f'"{w}"\n' for w in sorted(set(words)) if w and all(c.isalnum() or c in "_.-:/*" for c in w))


def onnx_words():
    for schema in onnx.defs.get_all_schemas():
        yield schema.name
        yield from schema.attributes
    yield from ("ai.onnx", "ai.onnx.ml", "pytorch", "location", "offset", "length", "weights.bin", "running_mean", "running_var")


def keys(value):
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from keys(below)
    elif isinstance(value, list):
        for below in value:
            yield from keys(below)
    elif isinstance(value, str):
        yield value


def config_words(ztrain):
    """The keys of config.resolved.json, which has all, and the values and keys of the configs here."""
    with tempfile.TemporaryDirectory() as folder:
        yield from keys(json.loads((small_run(ztrain, pathlib.Path(folder)) / "config.resolved.json").read_text()))
    for text in configs():
        yield from re.findall(r'"([^"\n]+)"', text.decode())


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    for target, contents in seeds(sys.argv[1]).items():
        folder = pathlib.Path(sys.argv[2]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            (folder / f"{number:04}").write_bytes(content)
        print(f"{target}: {number + 1}")
    here = pathlib.Path(__file__).parent
    (here / "onnx.dict").write_text(quoted(onnx_words()))
    (here / "config.dict").write_text(quoted(config_words(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
