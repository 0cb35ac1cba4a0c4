#!/usr/bin/env python3
"""Small files that stand for large graphs are refused before these are written out: in a second, in 200 MB.

    check_expansion.py ZTRAIN [--only NAME] [--table]

Every file in REFUSED has some kilobytes. `train`, `plan`, `predict` and `grad` must end with exit code 3 and name the node, what it
stands for and the limit; `inspect`, which runs nothing, must end with 0. The time is the processor's, so that a busy machine
changes nothing; sanitizers make both larger (--seconds, --mb). Needs numpy and onnx; exit status 77 (skipped)
without them.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnx.parser
    from onnx import numpy_helper
except ImportError as missing:
    print(f"SKIP {missing}")
    sys.exit(77)

HEADER = '<ir_version: 10, opset_import: ["": 18, "my": 1]>\n'
OPSET = 'opset_import: ["": 18, "my": 1]'
BODY = "(int64 i, bool c, float[n,3] v) => (c, u) { m = MatMul(v, w)  u = Tanh(m) }"


def loop(iterations):
    return f"h = Mul(x, b)  n = Constant<value_int = {iterations}>()  y = Loop(n, , h) <body = body {BODY}>"


def nested(iterations, levels):
    text = "m{0} = MatMul(v{0}, w)  u{0} = Tanh(m{0})".format(levels)
    for level in range(levels - 1, -1, -1):
        text = f"u{level} = Loop(n, , v{level}) <body = b{level} (int64 i{level}, bool c{level}, float[n,3] v{level + 1})"\
               f" => (c{level}, u{level + 1}) {{ {text} }}>"
    return f"n = Constant<value_int = {iterations}>()  v0 = Mul(x, b)  {text}  y = Identity(u0)"


def doubling(levels):
    text = f'<domain: "my", {OPSET}> f0 (x, w) => (y) {{ m = MatMul(x, w)  y = Tanh(m) }}\n'
    for k in range(1, levels + 1):
        text += f'<domain: "my", {OPSET}> f{k} (x, w) => (y) {{ a = my.f{k - 1}(x, w)  y = my.f{k - 1}(a, w) }}\n'
    return text


def chained_ifs(count):
    """If after If, the condition known."""
    text = "y0 = Mul(x, b)  yes = Constant<value = bool {1}>()\n"
    for k in range(count):
        text += f"y{k + 1} = If(yes) <then_branch = t{k} () => (a{k}) {{ a{k} = Mul(y{k}, b) }}," \
                f" else_branch = e{k} () => (z{k}) {{ z{k} = Neg(y{k}) }}>\n"
    return text + f"y = Identity(y{count})"


def doubling_ifs(levels):
    """Each branch enters a function that has the next If twice: 2^levels nodes out of some."""
    text = f'<domain: "my", {OPSET}> f0 (x, w, c) => (y) {{ m = MatMul(x, w)  y = Tanh(m) }}\n'
    for k in range(1, levels + 1):
        text += f'<domain: "my", {OPSET}> f{k} (x, w, c) => (y) {{ y = If(c) <then_branch = t () => (r)' \
                f" {{ a = my.f{k - 1}(x, w, c)  r = my.f{k - 1}(a, w, c) }}, else_branch = e () => (z) {{ z = Neg(x) }}> }}\n"
    return text


def graph(nodes):
    return f"m (float[n,3] x) => (float[n,3] y) {{ {nodes} }}\n"


SCAN = """h = Mul(x, b)  size = Constant<value = int64[1] {{{0}}}>()  zero = Constant<value = float[1] {{0.5}}>()
    long = Expand(zero, size)
    y = Scan<num_scan_inputs = 1, body = body (float[n,3] v, float t) => (u) {{ m = MatMul(v, w)  s = Mul(m, t)  u = Tanh(s) }}>(h, long)"""


def repeated(count, text):
    """y = x b mean(f0) mean(f1) ..: `text` makes f of constants."""
    lines = "size = Constant<value = int64[1] {16777215}>()  square = Constant<value = int64[2] {4000, 4000}>()" \
            "  row = Constant<value = int64[1] {4000}>()  one = Constant<value = float {1.0}>()  y0 = Mul(x, b)\n"
    for k in range(count):
        nodes = text.replace("e ", f"e{k} ").replace("(e,", f"(e{k},").replace(" e,", f" e{k},").replace(" e)", f" e{k})")
        lines += nodes.replace("f =", f"f{k} =") + f"  m{k} = ReduceMean<keepdims = 0>(f{k})  y{k + 1} = Mul(y{k}, m{k})\n"
    return lines + f"y = Identity(y{count})"



# name: text, words of the message
REFUSED = {
    "a Loop of 2^24 iterations": (graph(loop(2**24)), ["Loop", "16777216"]),
    "a Loop of 2^60 iterations": (graph(loop(2**60)), ["Loop", "1152921504606846976"]),
    "Loops of 1000 iterations, three deep": (graph(nested(1000, 3)), ["Loop", "1000"]),
    "Loops of 60 iterations, four deep": (graph(nested(60, 4)), ["Loop", "60"]),
    "functions that double": (graph("h = Mul(x, b)  y = my.f22(h, w)") + doubling(22), ["f22"]),
    "functions that double, 60 deep": (graph("h = Mul(x, b)  y = my.f60(h, w)") + doubling(60), ["f60"]),
    "functions that double in a Loop": (
        graph("h = Mul(x, b)  n = Constant<value_int = 1000>()  y = Loop(n, , h) <body = body (int64 i, bool c, float[n,3] v)"
              " => (c, u) { u = my.f14(v, w) }>") + doubling(14), ["Loop"]),
    "Ifs that double": (graph("h = Mul(x, b)  c = Constant<value = bool {1}>()  y = my.f24(h, w, c)") + doubling_ifs(24), ["If"]),
    "a Scan over 2^22 slices": (graph(SCAN.format(2**22)), ["Scan", "4194304"]),
}
# What asks for no more than a run may use is not refused, and takes no longer to look at.
ACCEPTED = {
    "3,000 Ifs in a row": graph(chained_ifs(3000)),
    "16 Loops of 5,000 iterations, by functions that double": graph("h = Mul(x, b)  y = my.g4(h, w)") +
        f'<domain: "my", {OPSET}> g0 (x, w) => (y) {{ n = Constant<value_int = 5000>()  y = Loop(n, , x) <body = body'
        f" (int64 i, bool c, float[n,3] v) => (c, u) {{ m = MatMul(v, w)  u = Tanh(m) }}> }}\n" +
        "".join(f'<domain: "my", {OPSET}> g{k} (x, w) => (y) {{ a = my.g{k - 1}(x, w)  y = my.g{k - 1}(a, w) }}\n'
                for k in range(1, 5)),
    "a constant of 64 MB made of a number": graph(repeated(1, "f = Expand(one, size)")),
}
# Folding is for shapes and small constants: the rest is left to a run, which these commands are not.
PLANNED = {
    "40 constants of 64 MB": graph(repeated(40, "f = Expand(one, size)")),
    "a product of constants, 1.3e11 operations": graph(repeated(1, "e = Expand(one, square)  f = MatMul(e, e)")),
    "a contraction of constants, 2.6e14 operations": graph(repeated(1, 'e = Expand(one, row)  f = Einsum<equation = "i,j,k,l->">(e, e, e, e)')),
}


def numbers(name, shape):
    return np.random.default_rng([ord(c) for c in name]).uniform(-0.5, 0.5, shape).astype(np.float32)


def build(text, folder):
    model = onnx.parser.parse_model(HEADER + text)
    for name, shape in {"w": (3, 3), "b": (3,)}.items():
        model.graph.initializer.append(numpy_helper.from_array(numbers(name, shape), name))
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "in.npz", x=numbers("x", (4, 3)), y=numbers("y", (4, 3)))
    config = {"train_batch_size": 4, "optimizer": {"type": "SGD", "params": {"lr": 0.001}},
              "ztrain": {"data": {"format": "npz", "path": "in.npz"}, "steps": 1, "loss": {"type": "mse", "target": "y"}}}
    (folder / "c.json").write_text(json.dumps(config))


COMMANDS = {
    "train": ["--model", "m.onnx", "--config", "c.json", "--output", "out", "--overwrite"],
    "plan": ["plan", "--model", "m.onnx", "--config", "c.json"],
    "predict": ["predict", "--model", "m.onnx", "--inputs", "in.npz", "--output", "p"],
    "grad": ["grad", "--model", "m.onnx", "--inputs", "in.npz", "--output", "g"],
    "inspect": ["inspect", "--model", "m.onnx"],
}


def run(ztrain, command, folder):
    """Exit code, what it said, processor seconds and MB at most resident."""
    with open(folder / "said", "w+b") as said:
        pid = os.fork()
        if not pid:
            os.chdir(folder)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(said.fileno(), 2)
            os.execv(ztrain, [ztrain, *COMMANDS[command]])
        _, status, used = os.wait4(pid, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def problem_of(command, words, done, options):
    code, said, seconds, mb = done
    wanted = 0 if words is None or command == "inspect" else 3
    if code != wanted:
        return f"ended with {code}: {said.strip()[-300:]}"
    missing = [w for w in (words or []) + ["limit"] * bool(words) if wanted and w not in said]
    if missing:
        return f"the message lacks {missing}: {said.strip()}"
    if seconds > options.seconds or mb > options.mb:
        return f"took {seconds:.2f} s and {mb:.0f} MB"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--table", action="store_true", help="print time, memory and message of every run")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--mb", type=float, default=200)
    options = parser.parse_args()
    ztrain, passed, failed = str(pathlib.Path(options.ztrain).resolve()), 0, 0
    every, looking = list(COMMANDS), ["plan", "inspect"]
    cases = [(name, text, words, every) for name, (text, words) in REFUSED.items()]
    cases += [(name, text, None, every) for name, text in ACCEPTED.items()] + [(name, text, None, looking) for name, text in PLANNED.items()]
    for name, text, words, commands in cases:
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            build(text, folder)
            for command in commands:
                done = run(ztrain, command, folder)
                problem = problem_of(command, words, done, options)
                passed, failed = passed + (not problem), failed + bool(problem)
                print(f"FAIL {name}, {command}: {problem}" if problem else f"ok   {name}, {command}", flush=True)
                if options.table:
                    size = (folder / "m.onnx").stat().st_size
                    print(f"     {size} bytes: exit {done[0]}, {done[2]:.2f} s, {done[3]:.0f} MB: {done[1].strip()[-250:]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
