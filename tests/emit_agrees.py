#!/usr/bin/env python3
"""Holds ztrain's gradients against another runtime: `ztrain grad --emit` writes the forward and backward graph,
onnxruntime runs it, and outputs and gradients must be those that ztrain wrote.

    tests/emit_agrees.py ZTRAIN CASE...                   these reference cases and the ONNX node tests that have a gradient
    tests/emit_agrees.py ZTRAIN --only '*conv*'           some of the node tests, by name

Every file also goes through onnx.checker with full shape inference. Where onnxruntime has no kernel for a type or form
(its message says so), onnx's reference evaluator runs the file instead and the test is counted as such. Random
operators draw other numbers in another runtime and are left out by name.

Prints a line for each that differs, then 'N passed, N failed'. Exits 1 if anything failed or fewer than --at-least passed.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime runs what it has of opsets after its last official one
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(3)  # not the warning about such an opset, of every file
SAMPLES = 2  # of a case's data, the last ones: with more some activation lies so near a kink that rounding decides; a model of fixed batch gets its own number
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# What onnxruntime says about a node that it does not run: no kernel for the types, an opset or an attribute that it does not know,
# time as the second axis of a recurrent node, a mask shorter than the keys.
LACKS_KERNEL = ("NOT_IMPLEMENTED", "ValidateOpsetForDomain", "Unrecognized attribute", "layout_ == 0 was false", "ComputeOutputShapeForAttention", "Type Error", "No Op registered")
# Tests whose forward values onnxruntime gives otherwise than the standard: its matrix for them is another.
RUNTIME_DIFFERS = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}


class NotSupported(Exception):
    """The model has an operator that `ztrain ops` does not list."""


def load_reference():
    spec = importlib.util.spec_from_file_location("reference_onnx_nodes", pathlib.Path(__file__).parent / "reference" / "onnx_nodes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------ what is run: model, inputs by name


def is_random(model):
    training = any(n.op_type == "Dropout" and len(n.input) > 2 for n in model.graph.node)
    return training or any(n.op_type in RANDOM for n in model.graph.node)


def node_tests(reference):
    tests, _ = reference.load_cases(None)
    for test in tests:
        if reference.differentiable_inputs(test):
            names = [v.name for v in test.model.graph.input]
            yield test.name, test.model, dict(zip(names, map(reference.to_array, test.data_sets[0][0])))


def case_inputs(model, data):
    stored = {t.name for t in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name in stored:
            continue
        dims = value.type.tensor_type.shape.dim
        count = dims[0].dim_value if dims and dims[0].HasField("dim_value") else SAMPLES
        found[value.name] = data[value.name][-count:]
    return found


def reference_cases(folders):
    """Each with the output that its loss reads as the only one."""
    for folder in folders:
        model = onnx.load(folder / "model.onnx")
        loss = json.loads((folder / "config.json").read_text())["ztrain"]["loss"]
        kept = [o for o in model.graph.output if o.name in (loss.get("logits"), loss.get("output"))]
        if kept:
            del model.graph.output[:]
            model.graph.output.extend(kept)
        with np.load(folder / "data.npz") as data:
            yield folder.name, model, case_inputs(model, data)


# ------------------------------------------------------------------ the two sides


def write_inputs(model, inputs, folder):
    for i, name in enumerate(v.name for v in model.graph.input if v.name in inputs):
        (folder / f"input_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(inputs[name]), name).SerializeToString())


def run_ztrain(ztrain, model, folder, seconds):
    command = [ztrain, "grad", "--model", folder / "model.onnx", "--inputs", folder, "--output", folder / "out",
               "--emit", folder / "gradient.onnx", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
    if done.returncode == 3 and re.search(r"operator \S+ is not supported", done.stderr):
        raise NotSupported
    if done.returncode:
        raise RuntimeError(f"ztrain: exit {done.returncode}: {(done.stderr.strip().splitlines() or ['silent'])[-1]}")


def ztrain_results(folder):
    found = {p.stem: numpy_helper.to_array(onnx.load_tensor(p)) for p in (folder / "out").glob("grad_input_*.pb")}
    with np.load(folder / "out" / "grad_params.npz") as params:
        found.update({f"grad:{name}": params[name] for name in params.files})
    return found


def run_runtime(name, path, feeds):
    """Outputs by name, and why onnxruntime did not give them, None where it did."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    try:
        if name in RUNTIME_DIFFERS:
            raise RuntimeError(f"{LACKS_KERNEL[0]}: it has other values than the standard")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds))), None
    except Exception as error:
        why = str(error).replace("\n", " ")
        if not any(mark in why for mark in LACKS_KERNEL):
            raise RuntimeError(f"onnxruntime: {why[:300]}") from None
    evaluator = ReferenceEvaluator(onnx.load(path))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return dict(zip(evaluator.output_names, evaluator.run(None, feeds))), why


def cotangents(model, rng):
    """Random ones for the float outputs, by name."""
    for value in model.graph.input:
        if value.name.startswith("grad_output_"):
            kind = value.type.tensor_type
            shape = [d.dim_value for d in kind.shape.dim]
            yield value.name, rng.standard_normal(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


def tolerance(array):
    kind = str(array.dtype)
    return {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-5}.get(kind, 2e-4)


def difference(got, want):
    """None where they agree: an element's error is held against the largest of its tensor."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, ztrain has {want.dtype}{list(want.shape)}"
    allowed = tolerance(want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    finite = want[np.isfinite(want)]
    scale = np.abs(finite).max() if finite.size else 1.0
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= allowed * (np.abs(want) + scale) / 2 + 1e-6
    if (same | near).all():
        return None
    return f"{int((~(same | near)).sum())} of {want.size} elements differ, by {np.nanmax(np.abs(got - want)):.3g} of {scale:.3g}"


def check_model(gradient_graph, model):
    """With full shape inference, unless onnx fails at that already with the model (MeanVarianceNormalization in onnx 1.23)."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.shape_inference.InferenceError:
        onnx.checker.check_model(gradient_graph)
    else:
        onnx.checker.check_model(gradient_graph, full_check=True)


def check(ztrain, name, model, inputs, seconds):
    """None, or what is wrong; and why onnxruntime could not say, where it could not."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        onnx.save(model, folder / "model.onnx")
        write_inputs(model, inputs, folder)
        run_ztrain(ztrain, model, folder, seconds)
        # The first run tells the shapes of the outputs.
        given = dict(cotangents(onnx.load(folder / "gradient.onnx"), np.random.default_rng(7)))
        for output, numbers in given.items():
            (folder / f"{output}.pb").write_bytes(numpy_helper.from_array(numbers, output).SerializeToString())
        run_ztrain(ztrain, model, folder, seconds)
        gradient_graph = onnx.load(folder / "gradient.onnx")
        feeds = {**inputs, **given}
        check_model(gradient_graph, model)
        results, lacking = run_runtime(name, folder / "gradient.onnx", {k: np.asarray(v) for k, v in feeds.items()})
        for output, want in ztrain_results(folder).items():
            problem = difference(np.asarray(results[output]), want)
            if problem:
                return f"{output}: {problem}", lacking
        return None, lacking


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("cases", type=pathlib.Path, nargs="*")
    parser.add_argument("--only", default="*", help="shell pattern on the name of a case or node test")
    parser.add_argument("--at-least", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--verbose", action="store_true", help="say why onnxruntime could not run what it could not")
    return parser.parse_args()


def main():
    options = arguments()
    tests = [*reference_cases(options.cases), *node_tests(load_reference())]
    tests = [t for t in tests if fnmatch.fnmatch(t[0], options.only)]

    def one(test):
        try:
            return ("random", None) if is_random(test[1]) else check(options.ztrain, *test, options.seconds)
        except NotSupported:
            return "not supported", None
        except Exception as error:
            return f"{error}".replace("\n", " ")[:400], None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, tests))
    counts = collections.Counter()
    for (name, _, _), (problem, lacking) in zip(tests, results):
        kind = problem if problem in ("random", "not supported") else "failed" if problem else "evaluator" if lacking else "passed"
        counts[kind] += 1
        if kind == "failed":
            print(f"FAIL {name}: {problem}")
        elif kind == "random":
            print(f"random operators, not compared: {name}")
        elif kind == "evaluator":
            print(f"onnxruntime lacks a kernel, the reference evaluator agrees: {name}" + (f": {lacking[:160]}" if options.verbose else ""))
    print(f"{counts['passed']} agree with onnxruntime, {counts['evaluator']} with the reference evaluator alone, {counts['random']} are random, "
          f"{counts['not supported']} have operators that ztrain does not")
    passed = counts["passed"] + counts["evaluator"]
    print(f"{passed} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or passed < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
