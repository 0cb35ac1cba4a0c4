#!/usr/bin/env python3
"""What trains, and what the start says of it: names in ztrain.trainable, ties that inspect suggests, warnings, --strict.

    test_trainable.py ZTRAIN [TEST ...]
"""
import os
import re
import sys
import unittest

import test_cli
import test_jobs
from onnx_bytes import FLOAT, INT64, field, model, node, tensor, value_info
from test_jobs import attribute, initializers

W = [0.25, -0.5, 0.75, 0.5, 0.125, -0.25]
TURNED = [0.25, 0.5, -0.5, 0.125, 0.75, -0.25]


class Names(test_jobs.Job):
    """y = (x w) t + b: t is a scalar, which tells a parameter from a constant by the exporter alone."""

    def make(self, scalar, producer="pytorch", *nodes):
        nodes = [node("MatMul", ["x", "w"], ["h"], "product"), node("Mul", ["h", scalar], ["k"], "scale"),
                 node("Add", ["k", "b"], ["n"], "bias"), *nodes]
        nodes += [] if any(b"scores" in n for n in nodes) else [node("Identity", ["n"], ["scores"], "last")]
        self.write("m.onnx", model(
            nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
            [tensor([2, 3], W, FLOAT, "w"), tensor([3], [0.0, 0.25, -0.125], FLOAT, "b"), tensor([], [1.5], FLOAT, scalar),
             tensor([3], [0.0, 0.0, 0.0], FLOAT, "mean"), tensor([3], [1.0, 1.0, 1.0], FLOAT, "var"),
             tensor([2], [-1, 3], INT64, "shape")], producer=producer))

    def moved(self, name):
        before, after = (initializers((self.folder / f).read_bytes())[name] for f in ("m.onnx", "run/model.onnx"))
        return before != after

    def test_a_scalar_with_a_name_of_the_state_trains_in_torchscript_files_alone(self):
        for producer, name, trained in [("pytorch", "head.temperature", True), ("pytorch", "onnx::Mul_7", False),
                                        ("tf2onnx", "head.temperature", False)]:
            self.make(name, producer)
            done = self.train()
            self.assertEqual(self.moved(name), trained, (producer, name))
            self.assertIn("10 in 3 tensors" if trained else "9 in 2 tensors", done.stderr)

    def test_a_name_in_trainable_overrides_the_verdict(self):
        self.make("temperature", "tf2onnx")
        for names in [["*", "temperature"], ["temperature"]]:
            self.train({"trainable": names})
            self.assertTrue(self.moved("temperature"))
            self.assertEqual(self.moved("w"), "*" in names)
        for names in [["*"], ["temp*", "w"]]:  # a glob chooses among what the rules train
            self.train({"trainable": names})
            self.assertFalse(self.moved("temperature"))

    def test_a_numbered_weight_of_torchscript_is_matched_by_its_module(self):
        self.write("m.onnx", model(
            [node("MatMul", ["x", "onnx::MatMul_7"], ["h"], "/body/fc/MatMul"), node("Add", ["h", "body.fc.bias"], ["scores"], "/body/fc/Add")],
            [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
            [tensor([2, 3], W, FLOAT, "onnx::MatMul_7"), tensor([3], [0.0, 0.25, -0.125], FLOAT, "body.fc.bias")], producer="pytorch"))
        weight = "onnx::MatMul_7"
        for block, moves in [({}, True), ({"freeze": ["body.fc.w*"]}, False), ({"freeze": ["body.fc.b*"]}, True),
                             ({"trainable": ["*.bias"]}, False), ({"trainable": ["*.weight"]}, True),
                             ({"param_groups": [{"match": "body.fc.weight", "lr": 0}]}, False)]:
            done = self.train(block)
            self.assertEqual(self.moved(weight), moves, block)
            self.assertNotIn("no initializer of the model matches", done.stderr)
        self.train({"freeze": ["body.*"]}, code=3, says=["nothing to train"])

    def test_an_empty_list_matches_nothing(self):
        self.make("temperature")
        for block in [{"trainable": []}, {"freeze": ["*"]}]:
            self.train(block, code=3, says=['m.onnx: nothing to train: "loss" depends on no trained parameter'])

    def test_a_name_that_cannot_be_trained_is_refused_with_the_reason(self):
        self.make("t", "pytorch", node("BatchNormalization", ["n", "b", "b", "mean", "var"], ["m"], "norm"),
                  node("Reshape", ["m", "shape"], ["scores"], "last"))
        for name, words in [("nothing", 'the model has no initializer "nothing"'),
                            ("scores", 'the model has no initializer "scores"'),
                            ("mean", '"mean" cannot be trained: statistics or shape input of norm (BatchNormalization)'),
                            ("shape", '"shape" cannot be trained: of type int64')]:
            self.train({"trainable": ["*", name]}, code=2, says=["ztrain.trainable[1]: " + words])

    def test_a_numbered_scalar_is_a_warning_and_with_strict_an_error(self):
        self.make("onnx::Mul_7")
        words = "onnx::Mul_7: a scalar created by the exporter, possibly computed from a parameter, and fixed"
        self.assertRegex(self.train().stderr, "(?m)^  warning +" + re.escape(words))
        self.train(None, "--strict", code=3, says=["m.onnx: " + words])
        self.train({"trainable": ["*", "onnx::Mul_7"]}, "--strict")
        self.make("temperature")
        self.train(None, "--strict")

    def test_plan_and_evaluate_say_it_too(self):
        self.make("onnx::Mul_7")
        self.train({"data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz", "shuffle": False}})
        for command in ["plan", "evaluate"]:
            done = self.run_ztrain(command, "--model", self.folder / "m.onnx", "--config", self.folder / "c.json")
            self.assertIn("onnx::Mul_7: a scalar created by the exporter", done.stderr)


class Ties(test_jobs.Job):
    """Three matrices of the same numbers: two of them equal, one the transpose, and a vector that the loss does not need."""

    def setUp(self):
        super().setUp()
        nodes = [node("MatMul", ["x", "a"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "c"], ["k"]),
                 node("MatMul", ["k", "b"], ["scores"]), node("MatMul", ["k", "d"], ["spare"])]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])],
                                   [value_info("scores", ["n", 3]), value_info("spare", ["n", 3])],
                                   [tensor([2, 3], W, FLOAT, "a"), tensor([2, 3], W, FLOAT, "b"),
                                    tensor([3, 2], TURNED, FLOAT, "c"), tensor([2, 3], W, FLOAT, "d")]))

    def suggested(self):
        """The groups that inspect prints, as ztrain.tie takes them."""
        said = self.run_ztrain("inspect", "--model", self.folder / "m.onnx").stdout
        lines = said.partition("equal initializers")[2].partition(":\n")[2].partition("\n\n")[0].splitlines()
        return [re.split(" = (?:transpose of )?", line.strip()) for line in lines]

    def test_what_inspect_suggests_is_taken(self):
        groups = self.suggested()
        self.assertEqual(sorted(groups[0]), ["a", "b", "c", "d"])
        self.assertEqual(len(groups), 1)
        for group in [groups[0], groups[0][::-1]]:  # also where the first is the one that the loss does not need
            self.train({"tie": [group], "loss": {"logits": "scores"}}, says=["6 in 1 tensors"])
            w = {n: v for n, (_, v) in initializers((self.folder / "run/model.onnx").read_bytes()).items()}
            self.assertNotEqual(w["a"], W)
            self.assertEqual(w["a"], w["b"])
            self.assertEqual(w["a"], w["d"])
            self.assertEqual(w["a"], [w["c"][c * 2 + r] for r in range(2) for c in range(3)])

    def test_a_vector_in_two_shapes_trains_as_one(self):
        nodes = [node("Mul", ["x", "v"], ["h"]), node("Tanh", ["h"], ["t"]), node("Mul", ["t", "row"], ["k"]), node("MatMul", ["k", "a"], ["scores"])]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2], [0.5, -0.25], FLOAT, "v"), tensor([1, 2], [0.5, -0.25], FLOAT, "row"), tensor([2, 3], W, FLOAT, "a")]))
        for group in [["v", "row"], ["row", "v"]]:
            self.train({"tie": [group]}, says=["8 in 2 tensors"])
            w = initializers((self.folder / "run/model.onnx").read_bytes())
            self.assertNotEqual(w["v"][1], [0.5, -0.25])
            self.assertEqual(w["v"][1], w["row"][1])

    def test_a_tie_of_nothing_that_trains_is_refused(self):
        self.train({"tie": [["d", "d"]], "loss": {"logits": "scores"}}, code=2, says=["ztrain.tie[0]"])


class Numbers(test_jobs.Job):
    """A loss of the mean over a batch of 4, as a sum and a quotient: by 4, by one less, of another number, and with a free batch."""

    def warned(self, batch, divisor):
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("ReduceSum", ["h", "axis"], ["sum"]) + attribute("keepdims", 0), node("Div", ["sum", "divisor"], ["mean"]), node("Mul", ["mean", "mean"], ["square"]),
                 node("ReduceSum", ["square"], ["loss"]) + attribute("keepdims", 0)]
        self.data(target=None)
        self.write("m.onnx", model(nodes, [value_info("x", [batch, 2])], [value_info("loss", [])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([1], [0], INT64, "axis"), tensor([], [divisor], FLOAT, "divisor")]))
        words = "by a number that may be the exported batch of 4 (or one less), which stays as it is"
        return words in self.train({"loss": {"type": "output", "output": "loss"}}, train_batch_size=6).stderr

    def test_a_number_that_may_be_the_exported_batch_is_told_at_another_batch(self):
        for batch, divisor, told in [(4, 4.0, True), (4, 3.0, True), (4, 5.0, False), (6, 6.0, False), ("n", 4.0, False)]:
            self.assertEqual(self.warned(batch, divisor), told, (batch, divisor))


class Computed(test_jobs.Job):
    """What TorchScript's exporter folded into the weight of a product."""

    def make(self, product, weight, name="onnx::Gemm_7", shape=(2, 3)):
        self.write("m.onnx", model([product, node("Add", ["h", "b"], ["scores"])], [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor(list(shape), weight, FLOAT, name), tensor([3], [0.0, 0.25, -0.125], FLOAT, "b")], producer="pytorch"))

    def is_guessed(self):
        return "onnx::Gemm_7: created by the exporter, possibly computed from a parameter" in self.train().stderr

    def test_a_transposed_weight_is_no_guess_but_one_that_the_product_transposes(self):
        turn = attribute("transB", 1)
        for product, weight, name, shape, guessed in [
                (node("MatMul", ["x", "onnx::Gemm_7"], ["h"]), W, "onnx::Gemm_7", (2, 3), False),
                (node("Gemm", ["x", "onnx::Gemm_7"], ["h"]) + turn, TURNED, "onnx::Gemm_7", (3, 2), True),
                (node("Gemm", ["x", "fc.weight"], ["h"]) + turn, TURNED, "fc.weight", (3, 2), False)]:
            self.make(product, weight, name, shape)
            self.assertEqual(self.is_guessed(), guessed, (product, name))

    def test_zeros_that_a_mask_leaves_are_a_guess(self):
        product = node("MatMul", ["x", "onnx::Gemm_7"], ["h"])
        for weight, guessed in [([0.25, 0.0, 0.75, 0.5, 0.125, 0.0], True),
                                ([0.25, 0.0, 0.75, 0.5, 0.0, -0.25], False),  # the vector of padding, transposed
                                ([0.0, 0.0, 0.0, 0.5, 0.125, -0.25], False)]:
            self.make(product, weight)
            self.assertEqual(self.is_guessed(), guessed, weight)


class Adapted(test_jobs.Job):
    """y = x w + b + (x p) q / 2: whoever trains w has no use for p and q."""

    def make(self, between=(), bias=False, source="x"):
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["k"]), node("Tanh", ["x"], ["other"]),
                 node("MatMul", [source, "p"], ["d"]), *between, node("MatMul", ["u" if between else "d", "q"], ["e"]),
                 node("Mul", ["e", "half"], ["f"]), node("Add", ["f", "b"], ["g"]), node("Add", ["k", "g" if bias else "f"], ["scores"])]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([3], [0.0, 0.25, -0.125], FLOAT, "b"), tensor([], [0.5], FLOAT, "half"),
                                    tensor([2, 1], [0.5, -0.25], FLOAT, "p"), tensor([1, 3], [0.5, 0.25, 0.75], FLOAT, "q")]))

    def doubted(self, **block):
        return re.findall(r"(?m)^  warning +(\w+) \(beside a product of low rank", self.train(block).stderr)

    def test_the_weight_beside_a_product_of_low_rank_is_doubted(self):
        self.make()
        self.assertEqual(self.doubted(), ["w"])
        for block in [{"freeze": ["w"]}, {"trainable": ["*", "w"]}, {"trainable": ["p", "q"]}]:
            self.assertEqual(self.doubted(**block), [], block)

    def test_what_is_bent_between_or_shifted_or_reads_another_value_is_a_layer(self):
        for difference in [{"between": [node("Tanh", ["d"], ["u"])]}, {"bias": True}, {"source": "other"}]:
            self.make(**difference)
            self.assertEqual(self.doubted(), [], difference)


class Blocks(test_jobs.Job):
    """A file of dynamo's: y = x w + b, where w is read outside of its module."""

    def make(self, trace):
        def metadata(number, **entries):
            return b"".join(field(number, field(1, key) + field(2, value)) for key, value in entries.items())
        product = node("MatMul", ["x", "body.0.w"], ["h"]) + metadata(
            9, **{"namespace": ": Net/matmul: aten.matmul.default"} | ({"pkg.torch.onnx.stack_trace": trace} if trace else {}))
        signature = {"pkg.torch.export.ExportedProgram.graph_signature": "p_w: PARAMETER target='body.0.w'\np_b: PARAMETER target='b'\n"}
        self.write("m.onnx", model([product, node("Add", ["h", "b"], ["scores"])], [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 3], W, FLOAT, "body.0.w"), tensor([3], [0.0, 0.25, -0.125], FLOAT, "b")], producer="pytorch 2.15.0",
                                   metadata=metadata(16, **signature)))

    def test_a_trace_of_source_lines_tells_that_no_block_holds_a_node(self):
        for trace, doubted in [(None, True), ('File "<eval_with_key>.36", line 5, in forward\n    linear = 0', True),
                               ('File "/net.py", line 7, in forward\n    h = self.body[0].forward(x)', False)]:
            self.make(trace)
            self.assertEqual("read outside of its module" in self.train().stderr, doubted, trace)


class Scales(test_jobs.Job):
    """y = softmax(s x q (x k)^T) x v."""

    def make(self, scale):
        nodes = [node("MatMul", ["x", "q"], ["a"]), node("MatMul", ["x", "k"], ["b"]), node("Transpose", ["b"], ["c"]), node("MatMul", ["a", "c"], ["d"]),
                 node("Mul", ["d", "s"], ["e"]), node("Softmax", ["e"], ["f"]), node("MatMul", ["x", "v"], ["g"]), node("MatMul", ["f", "g"], ["scores"])]
        turned = [0.5, -0.25, 0.125, 0.75, -0.5, 0.25, 0.375, -0.125]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 4], turned, FLOAT, "q"), tensor([2, 4], turned[::-1], FLOAT, "k"), tensor([2, 3], W, FLOAT, "v"),
                                    tensor([1], [scale], FLOAT, "s")], producer="pytorch"))

    def test_one_over_the_root_of_a_size_is_doubted_and_another_number_is_learned(self):
        for scale, doubted in [(0.5, True), (0.1, False), (0.4, False)]:  # sizes of 4, 100 and none
            self.make(scale)
            self.assertEqual("an attention's scale of 1 / sqrt(n)" in self.train().stderr, doubted, scale)


class Frequencies(test_jobs.Job):
    """y = [sin(2 x f), cos(2 x f)] w: Fourier features, whose frequencies may be drawn once."""

    def doubted(self, other="Cos", **block):
        nodes = [node("Mul", ["x", "f"], ["p"]), node("Mul", ["p", "two"], ["q"]), node("Sin", ["q"], ["sin"]), node(other, ["q"], ["cos"]),
                 node("Add", ["sin", "cos"], ["h"]), node("MatMul", ["h", "w"], ["scores"])]
        self.write("m.onnx", model(nodes, [value_info("x", ["n", 2])], [value_info("scores", ["n", 3])],
                                   [tensor([2, 3], W, FLOAT, "w"), tensor([], [2.0], FLOAT, "two"), tensor([2], [0.7, 1.9], FLOAT, "f")]))
        return "f (frequencies of sines and cosines)" in self.train(block).stderr

    def test_frequencies_of_sines_and_cosines_are_doubted(self):
        self.assertTrue(self.doubted())
        self.assertFalse(self.doubted(freeze=["f"]))
        self.assertFalse(self.doubted(trainable=["*", "f"]))
        self.assertFalse(self.doubted(other="Tanh"))  # an activation


class Untranslated(test_jobs.Job):
    def test_an_operator_of_tensorflow_is_told_as_what_it_is(self):
        for producer in ["tf2onnx", "another"]:
            self.write("m.onnx", model([node("MatMul", ["x", "w"], ["h"]), node("Betainc", ["h"], ["scores"])], [value_info("x", ["n", 2])],
                                       [value_info("scores", ["n", 3])], [tensor([2, 3], W, FLOAT, "w")], producer=producer))
            said = self.train(code=3, says=["operator ai.onnx.Betainc is not supported"])
            self.assertEqual("tf2onnx leaves operators of TensorFlow" in said, producer == "tf2onnx")


class Copies(test_jobs.Job):
    """An embedding and a head that holds its transpose."""

    def setUp(self):
        super().setUp()
        e = [0.5, -0.25, 0.75, 0.25, 0.125, -0.5]
        self.write("m.onnx", model(
            [node("Gather", ["e", "ids"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "head"], ["scores"])],
            [value_info("ids", ["n"], INT64)], [value_info("scores", ["n", 3])],
            [tensor([3, 2], e, FLOAT, "e"), tensor([2, 3], [e[2 * c + r] for r in range(2) for c in range(3)], FLOAT, "head")]))
        self.data(x=None, ids=([12], [i * 7 % 3 for i in range(12)], INT64))

    def test_copies_that_read_as_embedding_and_head_train_as_one(self):
        done = self.train()
        self.assertRegex(done.stderr, r"(?m)^  parameters +head = transpose of e: copies .*ztrain\.tie_equal: false")
        self.assertIn("6 in 1 tensors", done.stderr)
        tied = self.losses()
        self.train({"tie": [["e", "head"]]}, says=["6 in 1 tensors"])
        self.assertEqual(self.losses(), tied)
        done = self.train({"tie_equal": False}, says=["12 in 2 tensors"])
        self.assertNotIn("copies", done.stderr)
        self.assertNotEqual(self.losses(), tied)
        self.train({}, "--strict")  # what was put right is no warning


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
