#!/usr/bin/env python3
"""Rewrites every reference model with its trained weights and lets the reference's own judge look at the result.

    check_rewrite.py REWRITE_MODEL tests/reference

REWRITE_MODEL is tests/graph/rewrite_model.c, built. Needs numpy and onnx; exit status 77 (skipped) without them.
"""
import pathlib
import subprocess
import sys
import tempfile


def skip(why):
    print(f"SKIP {why}")
    sys.exit(77)


def payloads(model, names, final, folder, onnx):
    """Writes payload_N.pb for every name; a bfloat16 or other odd type keeps its own."""
    types = {i.name: i.data_type for i in model.graph.initializer}
    for n, name in enumerate(names):
        tensor = onnx.numpy_helper.from_array(final[name], name)
        if name in types and types[name] != tensor.data_type:
            raise SystemExit(f"final.npz has another type than the model for {name}")
        (folder / f"payload_{n}.pb").write_bytes(tensor.SerializeToString())


def externalise(case, folder, onnx):
    """The same model with every initializer outside."""
    model = onnx.load(str(case / "model.onnx"))
    onnx.save(model, str(folder / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return folder / "model.onnx"


def check(case, program, judge, np, onnx, outside):
    exp = judge.load_json(str(case / "expected.json"))
    names = exp["trainable"] + exp["batch_norm_statistics"]
    final = {k: v for k, v in np.load(case / "final.npz").items() if k in names}
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        (tmp / "in").mkdir()
        (tmp / "out").mkdir()
        source = externalise(case, tmp / "in", onnx) if outside else case / "model.onnx"
        old = onnx.load(str(source))
        payloads(old, sorted(final), final, tmp, onnx)
        subprocess.run([program, source, tmp / "out" / "model.onnx", tmp], check=True)
        new = judge.load_model(str(tmp / "out" / "model.onnx"))
        for m in (old, new):  # where the bytes are is not what is compared
            for i in m.graph.initializer:
                i.ClearField("data_location")
        _, tnew = judge.check_graph(old, new, set(names))
        onnx.checker.check_model(str(tmp / "out" / "model.onnx"))
        for name in final:
            if tnew[name].tobytes() != final[name].tobytes():
                raise judge.Fail(f"{name} does not have its new contents")


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    program, reference = sys.argv[1], pathlib.Path(sys.argv[2])
    try:
        import numpy as np
        import onnx
    except ImportError as e:
        skip(f"{e.name} is not installed")
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(reference))
    import check_case as judge
    failed = 0
    for case in sorted((reference / "cases").iterdir()):
        for outside in (False, True):
            try:
                check(case, program, judge, np, onnx, outside)
            except (judge.Fail, subprocess.CalledProcessError, onnx.checker.ValidationError) as e:
                failed += 1
                print(f"FAIL {case.name}{' (external data)' if outside else ''}: {e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
