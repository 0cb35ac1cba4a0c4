"""The ONNX standard's node tests, made once for all stages of tools/test.

onnx makes them anew in every process that collects them: it runs the Python of every example, windows of pools element by element. With ZT_NODE_CASES=FILE the first process keeps them in FILE and the others read it. The file holds for the
versions of onnx and numpy that wrote it.
"""
import fcntl
import os
import pathlib
import pickle
import warnings

import numpy as np
import onnx


def made_by():
    return onnx.__version__, np.__version__


def make():
    from onnx.backend.test.case.node import collect_testcases  # makes them when it is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def read(path):
    """None where the file is not there or is another version's."""
    try:
        versions, cases = pickle.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return cases if versions == made_by() else None


def collect():
    """Every node test, as onnx.backend.test.case.node.collect_testcases(None) lists them."""
    if "ZT_NODE_CASES" not in os.environ:
        return make()
    path = pathlib.Path(os.environ["ZT_NODE_CASES"])
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cases = read(path)
        if cases is None:
            cases = make()
            partial = path.with_suffix(".partial")
            partial.write_bytes(pickle.dumps((made_by(), cases)))
            partial.rename(path)
        return cases
