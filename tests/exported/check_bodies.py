#!/usr/bin/env python3
"""The files of this folder with their nodes moved into functions, an If or a Loop: right, or told, as check.py has it.

    check_bodies.py ZTRAIN [--only NAME]

What the exporter's traces tell is restored there, too, or the start warns. MISSED is what is neither. Needs onnx.
"""
import argparse
import copy
import json
import pathlib
import shutil
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

import check

MERGED = {"equal_buffer", "equal_numbers"}  # what was merged with a parameter gets no tensor of its own there
BLOCKED = {"signs_by_mode"}                # what a node without gradient stops there is not told
MISSED = {
    "function": {"equal_numbers"},
    "loop": MERGED | BLOCKED | {"output_bias"},  # zeros added to the output, which leaves the Loop by an axis more
    # Both branches read what is doubted where one node reads it.
    "if": MERGED | BLOCKED | {"output_bias", "joined_bias", "computed", "attention_scale"},
}


def constant(name, dtype, shape, values):
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, dtype, shape, values))


def read_inside(nodes):
    """What the nodes read and do not make, in order."""
    made = {name for node in nodes for name in node.output}
    return list(dict.fromkeys(name for node in nodes for name in node.input if name and name not in made))


def put_in_function(model, nodes):
    """The first half of the nodes."""
    half = len(nodes) // 2 or 1
    inside, rest = nodes[:half], nodes[half:]
    wanted = {name for node in rest for name in node.input} | {output.name for output in model.graph.output}
    given = [name for node in inside for name in node.output if name in wanted]
    taken = read_inside(inside)
    model.functions.append(helper.make_function("local", "Part", taken, given, inside, list(model.opset_import)))
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.ir_version = max(model.ir_version, 8)
    return [helper.make_node("Part", taken, given, domain="local", name="part"), *rest]


def outputs_of(model):
    return [helper.make_tensor_value_info(o.name, o.type.tensor_type.elem_type, None) for o in model.graph.output]


def put_in_if(model, nodes):
    def branch(suffix):
        given = {output.name for output in model.graph.output}
        inside = [copy.deepcopy(node) for node in nodes]
        for node in inside:
            node.input[:] = [name + suffix if name in given else name for name in node.input]
            node.output[:] = [name + suffix if name in given else name for name in node.output]
        outputs = [helper.make_tensor_value_info(o.name + suffix, o.type.tensor_type.elem_type, None) for o in model.graph.output]
        return helper.make_graph(inside, "branch", [], outputs)
    return [constant("taken", TensorProto.BOOL, [], [True]),
            helper.make_node("If", ["taken"], [o.name for o in model.graph.output], then_branch=branch("_1"), else_branch=branch("_2"))]


def put_in_loop(model, nodes):
    inputs = [helper.make_tensor_value_info("turn", TensorProto.INT64, []), helper.make_tensor_value_info("before", TensorProto.BOOL, [])]
    body = helper.make_graph([*nodes, helper.make_node("Identity", ["before"], ["after"])], "body", inputs,
                             [helper.make_tensor_value_info("after", TensorProto.BOOL, []), *outputs_of(model)])
    turns = [constant("turns", TensorProto.INT64, [], [1]), constant("goes_on", TensorProto.BOOL, [], [True]),
             constant("axis", TensorProto.INT64, [1], [0])]
    loop = helper.make_node("Loop", ["turns", "goes_on"], [f"all {o.name}" for o in model.graph.output], body=body)
    return [*turns, loop, *(helper.make_node("Squeeze", [f"all {o.name}", "axis"], [o.name]) for o in model.graph.output)]


WAYS = {"function": put_in_function, "if": put_in_if, "loop": put_in_loop}


def rewrite(source, way, target):
    """False where the file has such nodes already, or an opset without the axis of Squeeze as an input."""
    model = onnx.load(source)
    nodes = list(model.graph.node)
    if any(a.type in (a.GRAPH, a.GRAPHS) for node in nodes for a in node.attribute) or model.functions or model.opset_import[0].version < 13:
        return False
    moved = WAYS[way](model, [copy.deepcopy(node) for node in nodes])
    del model.graph.node[:]
    model.graph.node.extend(moved)
    onnx.save(model, target)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="", help="networks that contain this")
    options = parser.parse_args()
    ztrain, count, wrong = pathlib.Path(options.ztrain).resolve(), 0, 0
    for path in sorted(pathlib.Path(__file__).parent.resolve().rglob("*.json")):
        case = json.loads(path.read_text())
        for made in case["exports"].values():
            for way in WAYS:
                if options.only not in path.stem or "model" not in made:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    folder = pathlib.Path(folder)
                    shutil.copy(path.parent / case["config"]["ztrain"]["data"]["path"], folder)
                    if not rewrite(path.parent / made["model"], way, folder / "m.onnx"):
                        continue
                    verdict, _, _, said = check.judge(ztrain, folder, case, "m.onnx")
                missed = path.stem in MISSED[way]
                count, fault = count + 1, not missed and (verdict == "wrong" or any(line.startswith("ztrain: error") for line in said))
                wrong += fault
                if fault or missed:
                    print(f"{'FAILED' if fault else 'missed':7}{made['model']} in a {way}: {verdict} {'; '.join(said)}")
    print(f"{count - wrong} passed, {wrong} failed")
    sys.exit(1 if wrong or not count else 0)


if __name__ == "__main__":
    main()
