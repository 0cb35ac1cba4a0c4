"""ONNX and NumPy files made by hand, with nothing but the standard library: just what the tests of the command line need."""
import io
import struct
import zipfile

FLOAT, INT64, BOOL, FLOAT16, DOUBLE = 1, 7, 9, 10, 11
CODE = {FLOAT: "f", INT64: "q", BOOL: "?", FLOAT16: "e", DOUBLE: "d"}
DESCR = {FLOAT: "<f4", INT64: "<i8", FLOAT16: "<f2", DOUBLE: "<f8"}


# ---- protobuf's wire format

def varint(number):
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """A field by the type of its value: integers as varint, floats as float, text and bytes with their length."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """(number, value) of every field of a message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length = number()
            yield key >> 3, data[at:at + length]
            at += length


# ---- tensors

def tensor(dims, values, dtype=FLOAT, name=""):
    body = b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name)
    return body + field(9, struct.pack(f"<{len(values)}{CODE[dtype]}", *values))


def external_tensor(dims, location, name, dtype=FLOAT):
    entry = field(1, "location") + field(2, location)
    return b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name) + field(13, entry) + field(14, 1)


def read_tensor(data):
    """(dims, dtype, values)."""
    dims, dtype, raw = [], None, b""
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            dims.append(value)
        elif number == 1:  # packed
            dims += list(value)
        elif number == 2:
            dtype = value
        elif number == 9:
            raw = value
    return dims, dtype, list(struct.unpack(f"<{len(raw) // struct.calcsize(CODE[dtype])}{CODE[dtype]}", raw))


# ---- models

def value_info(name, dims, dtype=FLOAT):
    """A dim may be a number or a symbol."""
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def sequence_info(name):
    return field(1, name) + field(2, field(4, field(1, field(1, field(1, FLOAT)))))


def node(op, inputs, outputs, name="", domain=""):
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    return out + field(3, name) + field(4, op) + field(7, domain)


def model(nodes, inputs, outputs, initializers=(), opset=17, producer="hand", domains=(), metadata=b""):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "tiny") + b"".join(field(5, t) for t in initializers)
    graph += b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs) + metadata
    return field(1, 8) + field(2, producer) + field(7, graph) + field(8, field(2, opset)) + b"".join(field(8, field(1, d) + field(2, 1)) for d in domains)


# ---- npz

def npy(dims, values, dtype=FLOAT):
    shape = "(" + "".join(f"{d}, " for d in dims) + ")"
    header = f"{{'descr': '{DESCR[dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
            struct.pack(f"<{len(values)}{CODE[dtype]}", *values))


def npz(arrays):
    """{name: (dims, values[, dtype])} as the bytes of a file."""
    to = io.BytesIO()
    with zipfile.ZipFile(to, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(name + ".npy", npy(*array))
    return to.getvalue()


def read_npz(path):
    """{name: (dims, values)} of a file of float arrays."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            header = eval(data[10:10 + struct.unpack("<H", data[8:10])[0]].decode())
            values = data[10 + struct.unpack("<H", data[8:10])[0]:]
            code = next(CODE[k] for k, d in DESCR.items() if d == header["descr"])
            found[name.removesuffix(".npy")] = (list(header["shape"]),
                                                list(struct.unpack(f"<{len(values) // struct.calcsize(code)}{code}", values)))
    return found
