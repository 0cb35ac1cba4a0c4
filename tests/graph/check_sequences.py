#!/usr/bin/env python3
"""Sequences and optionals inside graphs, and If with a condition that data decide, also in training.

    check_sequences.py ZTRAIN [--only NAME]

Models are double. Values and gradients of MODELS are held against onnxruntime as in check_lowered.py. Models of TRAINED are trained
in float with SGD, a few samples a step; losses and weights must be those of the same steps in float64, whose gradients are central
differences of the reference evaluator. REFUSED holds what must be refused and words of the message, by `predict`, `grad` or training.
Needs numpy, onnx and onnxruntime.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_lowered as lowered

# name: (text, {input: shape}, {initializer: shape})
MODELS = {
    "a sequence that is built, changed and joined": ("""
        m (double[2,3] x) => (double[k,3] y, int64 n) { a = Mul(x, w)  b = Neg(a)  c = Tanh(x)  s = SequenceConstruct(a, b)
          zero = Constant<value_int = 0>()  t = SequenceInsert(s, c, zero)  u = SequenceInsert(t, x)  last = Constant<value_int = -2>()
          v = SequenceErase(u, last)  y = ConcatFromSequence<axis = 0>(v)  n = SequenceLength(v) }""", {"x": (2, 3)}, {"w": (2, 3)}),
    "a sequence along a new last axis": ("""
        m (double[2,3] x) => (double[2,3,2] y) { a = Mul(x, w)  s = SequenceConstruct(x, a)
          y = ConcatFromSequence<axis = -1, new_axis = 1>(s) }""", {"x": (2, 3)}, {"w": (2, 3)}),
    "a sequence through Identity and If": ("""
        m (double[2] x) => (double[1] y, int64 n) { h = Mul(x, w)  s = SplitToSequence(h)  i = Constant<value_int = 0>()
          y = SequenceAt(s, i)  z = Identity(s)  c = Constant<value = bool {1}>()
          n = If(c) <then_branch = t () => (l) { j = Constant<value_int = 1>()  q = SequenceAt(z, j)  l = Size(q) },
                     else_branch = e () => (k) { k = Constant<value_int = 1>() }> }""", {"x": (2,)}, {"w": (2,)}),
    "a sequence that an If hands out": ("""
        m (double[2] x) => (double[k] y) { c = Constant<value = bool {0}>()
          s = If(c) <then_branch = t () => (p) { p = SequenceConstruct(x, x) },
                     else_branch = e () => (q) { h = Mul(x, w)  q = SequenceConstruct(h, x, h) }>
          y = ConcatFromSequence<axis = 0>(s) }""", {"x": (2,)}, {"w": (2,)}),
    "a sequence that a Loop fills": ("""
        m (double[2,3] x) => (double[4,2,3] y) { n = Constant<value_int = 4>()  empty = SequenceEmpty<dtype = 11>()
          v, s = Loop(n, , x, empty) <body = b (int64 i, bool c, double[2,3] v, seq(double) s) => (c, u, t)
            { h = MatMul(v, w)  u = Tanh(h)  t = SequenceInsert(s, u) }>
          y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }""", {"x": (2, 3)}, {"w": (3, 3)}),
    "tensors of two shapes in a sequence": ("""
        m (double[3,4] x) => (double[1] y) { sizes = Constant<value = int64[2] {1, 3}>()  h = Mul(x, w)  s = SplitToSequence<axis = 1>(h, sizes)
          zero = Constant<value_int = 0>()  one = Constant<value_int = 1>()  a = SequenceAt(s, zero)  b = SequenceAt(s, one)
          c = ReduceSumSquare(a)  d = ReduceSum(b)  e = Mul(c, d)  shape = Constant<value = int64[1] {1}>()  y = Reshape(e, shape) }""",
        {"x": (3, 4)}, {"w": (4,)}),
    "a large Loop that reads a sequence": ("""
        m (double[2] x) => (double[2] y) { n = Constant<value_int = 3000>()  a = Mul(x, w)  s = SequenceConstruct(a, x)
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u)
            { zero = Constant<value_int = 0>()  k = SequenceAt(s, zero)  p = Add(v, k)  u = Tanh(p) }> }""", {"x": (2,)}, {"w": (2,)}),
    "a Loop over the elements of a sequence": ("""
        m (double[5,2] x) => (double[2] y) { h = Mul(x, w)  s = SplitToSequence<axis = 0, keepdims = 0>(h)  n = SequenceLength(s)
          z = Constant<value = double[2] {0.5, 0.25}>()
          y = Loop(n, , z) <body = b (int64 i, bool c, double[2] v) => (c, u) { e = SequenceAt(s, i)  p = Add(v, e)  u = Sin(p) }> }""",
        {"x": (5, 2)}, {"w": (2,)}),
    "optionals": ("""
        m (double[2] x) => (double[2] y, bool a, bool b) { h = Mul(x, w)  o = Optional(h)  e = Optional<type: type_proto = double>()
          a = OptionalHasElement(o)  b = OptionalHasElement(e)  y = OptionalGetElement(o) }""", {"x": (2,)}, {"w": (2,)}, """
        m (double[2] x) => (double[2] y, bool a, bool b) { y = Mul(x, w)  a = Constant<value = bool {1}>()  b = Constant<value = bool {0}>() }"""),
    "an optional sequence": ("""
        m (double[2] x) => (double[4] y) { h = Mul(x, w)  s = SequenceConstruct(h, x)  o = Optional(s)  p = Identity(o)
          q = OptionalGetElement(p)  y = ConcatFromSequence<axis = 0>(q) }""", {"x": (2,)}, {"w": (2,)}, """
        m (double[2] x) => (double[4] y) { h = Mul(x, w)  y = Concat<axis = 0>(h, x) }"""),
    "SequenceMap over two sequences and a tensor": ("""
        m (double[4,3] x) => (double[4,3] y, double[4,3] z) { s = SplitToSequence(x)  h = Mul(x, w)  t = SplitToSequence(h)
          a, b = SequenceMap(s, t, c) <body = f (double[1,3] p, double[1,3] q, double[3] r) => (u, v)
            { k = Mul(p, r)  u = Add(k, q)  v = Mul(u, w) }>
          y = ConcatFromSequence<axis = 0>(a)  z = ConcatFromSequence<axis = 0>(b) }""", {"x": (4, 3)}, {"w": (3,), "c": (3,)}, """
        m (double[4,3] x) => (double[4,3] y, double[4,3] z) { h = Mul(x, w)  k = Mul(x, c)  y = Add(k, h)  z = Mul(y, w) }"""),
}

# A Loop with a condition, as the dynamo exporter writes nn.EmbeddingBag(num, 4, mode) of 3 indices a sample: bag k is the rows
# offsets[k] to offsets[k + 1] - 1 of the gathered table. With `offsets` these are an input of the model.
def embedding_bag(reduce, offsets=False, last=False):
    """`last`: with include_last_offset, of offsets that the model computes."""
    starts, given = ("", ", int64[n] starts") if offsets else ("starts = Range(zero, count, three)", "")
    ends = "bags = Size(starts)  offsets = Concat<axis = 0>(starts, size)"
    if last:
        starts = "first = Constant<value_int = 1>()  past = Add(count, first)  starts = Range(zero, past, three)"
        ends = "all_starts = Size(starts)  bags = Sub(all_starts, first)  offsets = Identity(starts)"
    return f"""
        m (int64[n,3] x{given}) => (double[n,2] y) {{ minus = Constant<value = int64[1] {{-1}}>()  flat = Reshape(x, minus)  rows = Gather(table, flat)
          size = Shape(flat)  count = Squeeze(size)  zero = Constant<value_int = 0>()  three = Constant<value_int = 3>()
          {starts}  {ends}
          empty = SequenceEmpty<dtype = 11>()  more = Less(zero, bags)
          last, seq = Loop(, more, zero, empty) <body = b (int64 i, bool c, int64 k, seq(double) s) => (go, k1, s1)
            {{ at = Reshape(k, minus)  one = Constant<value = int64[1] {{1}}>()  next = Add(at, one)  after = Add(next, one)
              from = Slice(offsets, at, next)  to = Slice(offsets, next, after)  same = Equal(from, to)
              row = If(same) <then_branch = t () => (zeros) {{ shape = Constant<value = int64[2] {{1, 4}}>()
                                                              none = Constant<value = double {{0.0}}>()  zeros = Expand(none, shape) }},
                              else_branch = e () => (bag) {{ part = Slice(rows, from, to)  axes = Constant<value = int64[1] {{0}}>()
                                                            bag = {reduce}(part, axes) }}>
              s1 = SequenceInsert(s, row)  step = Constant<value_int = 1>()  k1 = Add(k, step)  go = Less(k1, bags) }}>
          all = ConcatFromSequence<axis = 0>(seq)  y = MatMul(all, w) }}"""


# The same with padding_idx = 3: an inner Loop lists the indices of a bag that are not padding, so that the size of the list depends on data.
def padded_bag(reduce):
    return f"""
        m (int64[n,3] x) => (double[n,2] y) {{ minus = Constant<value = int64[1] {{-1}}>()  flat = Reshape(x, minus)  rows = Gather(table, flat)
          size = Shape(flat)  count = Squeeze(size)  zero = Constant<value_int = 0>()  three = Constant<value_int = 3>()  one = Constant<value_int = 1>()
          starts = Range(zero, count, three)  bags = Size(starts)  offsets = Concat<axis = 0>(starts, size)
          empty = SequenceEmpty<dtype = 11>()  more = Less(zero, bags)
          last, seq = Loop(, more, zero, empty) <body = b (int64 i, bool c, int64 k, seq(double) s) => (go, k1, s1)
            {{ from = Gather(offsets, k)  k1 = Add(k, one)  to = Gather(offsets, k1)  nothing = Shape<start = 0, end = 0>(flat)  some = Less(from, to)
              end, kept = Loop(, some, from, nothing) <body = d (int64 i2, bool c2, int64 j, int64[h] list) => (on, j1, longer)
                {{ id = Gather(flat, j)  is_padding = Equal(id, three)  is_none = Not(is_padding)
                  longer = If(is_none) <then_branch = t () => (more_of) {{ at = Reshape(j, minus)  more_of = Concat<axis = 0>(list, at) }},
                                        else_branch = e () => (same) {{ same = Identity(list) }}>
                  j1 = Add(j, one)  on = Less(j1, to) }}>
              length = Size(kept)  is_empty = Equal(length, zero)
              row = If(is_empty) <then_branch = tt () => (zeros) {{ shape = Constant<value = int64[2] {{1, 4}}>()
                                                                    none = Constant<value = double {{0.0}}>()  zeros = Expand(none, shape) }},
                                  else_branch = ee () => (bag) {{ part = Gather(rows, kept)  axes = Constant<value = int64[1] {{0}}>()
                                                                  bag = {reduce}(part, axes) }}>
              s1 = SequenceInsert(s, row)  go = Less(k1, bags) }}>
          all = ConcatFromSequence<axis = 0>(seq)  y = MatMul(all, w) }}"""


BAGS = """
    m (int64[n,3] x) => (double[n,2] y) { s = SplitToSequence<axis = 0, keepdims = 0>(x)
      t = SequenceMap(s, table) <body = f (int64[3] p, double[7,4] rows) => (q) { r = Gather(rows, p)  axes = Constant<value = int64[1] {0}>()
        q = ReduceSum<keepdims = 0>(r, axes) }>
      all = ConcatFromSequence<axis = 0, new_axis = 1>(t)  y = MatMul(all, w) }"""

# name: (text, {input: (shape of a sample, number of values, 0 for floats, or all values)}, {initializer: shape}, words of the plan)
OFFSETS = {"starts": ((), np.array([0, 2, 2, 0, 0, 7, 0, 4, 5, 0, 1, 9]))}  # of batches of 3, with empty bags
BAG = {"x": ((3,), 7)}, {"table": (7, 4), "w": (4, 2)}
PADDED = {"x": ((3,), np.array([[3, 1, 6], [3, 3, 3], [0, 2, 2], [5, 3, 3], [4, 4, 3], [6, 3, 6], [1, 0, 2], [2, 3, 1], [3, 3, 3], [0, 3, 5], [3, 6, 6], [4, 3, 2]]))}
ROW = {"x": ((3,), 0)}
DOUBLINGS = "  ".join(f"k{i + 1} = Add(k{i}, k{i})" for i in range(33))
TRAINED = {
    "EmbeddingBag, sum, as a Loop": (embedding_bag("ReduceSum"), *BAG, []),
    "EmbeddingBag, mean, as a Loop": (embedding_bag("ReduceMean"), *BAG, []),
    "EmbeddingBag, max, as a Loop": (embedding_bag("ReduceMax"), *BAG, []),
    "EmbeddingBag, mean, with the last offset": (embedding_bag("ReduceMean", last=True), *BAG, []),
    "EmbeddingBag, mean, with offsets": (embedding_bag("ReduceMean", True), BAG[0] | OFFSETS, BAG[1], ["IfRun", "IfRunGrad"]),
    "EmbeddingBag, sum, with padding": (padded_bag("ReduceSum"), PADDED, BAG[1], ["EagerRun", "EagerRunGrad"]),
    "EmbeddingBag, max, with padding": (padded_bag("ReduceMax"), PADDED, BAG[1], ["EagerRun"]),
    "EmbeddingBag as a SequenceMap": (BAGS, *BAG, []),
    "an If that data decide": ("""
        m (double[n,3] x) => (double[n,3] y) { m = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(m, zero)
          h = MatMul(x, a)
          y = If(c) <then_branch = t () => (p) { u = MatMul(h, w)  p = Tanh(u) }, else_branch = e () => (q) { q = Mul(h, v) }> }""",
        ROW, {"a": (3, 3), "w": (3, 3), "v": (3,)}, ["IfRun", "IfRunGrad"]),
    "an If of which a branch normalizes": ("""
        m (double[n,3] x) => (double[n,3] y) { m = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(m, zero)
          h = MatMul(x, a)
          y = If(c) <then_branch = t () => (p) { u = LayerNormalization(h, s)  p = MatMul(u, w) }, else_branch = e () => (q) { q = Mul(h, v) }> }""",
        ROW, {"a": (3, 3), "w": (3, 3), "v": (3,), "s": (3,)}, ["IfRun", "IfRunGrad"]),
    "an If with two outputs, one of which is captured": ("""
        m (double[n,3] x) => (double[n,3] y) { m = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(m, zero)
          h = MatMul(x, a)
          p, q = If(c) <then_branch = t () => (h, u) { u = Mul(h, w) }, else_branch = e () => (s, s) { r = Sin(h)  s = Mul(r, v) }>
          y = Add(p, q) }""", ROW, {"a": (3, 3), "w": (3,), "v": (3,)}, ["IfRun"]),
    "an If in an If that data decide": ("""
        m (double[n,3] x) => (double[n,3] y) { m = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(m, zero)
          k = ReduceMax<keepdims = 0>(x)  one = Constant<value = double {1.0}>()  d = Greater(k, one)
          y = If(c) <then_branch = t () => (t) { t = If(d) <then_branch = tt () => (tt) { tt = Mul(x, w) },
                                                            else_branch = te () => (te) { te = Mul(x, v) }> },
                     else_branch = e () => (e) { e0 = Mul(x, w)  e = Tanh(e0) }> }""", ROW, {"w": (3,), "v": (3,)}, ["IfRun"]),
    "an If that data decide in a large Loop": ("""
        m (double[n,3] x) => (double[n,3] y) { n = Constant<value_int = 1500>()  limit = Constant<value = double {0.5}>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[k,3] v) => (c, u)
            { h = ReduceMax<keepdims = 0>(v)  d = Greater(h, limit)
              u = If(d) <then_branch = t () => (p) { r = Mul(v, w)  p = Sin(r) }, else_branch = e () => (q) { s = Add(v, b)  q = Tanh(s) }> }> }""",
        ROW, {"w": (3,), "b": (3,)}, ["LoopRun"]),
    "an If of two shapes": ("""
        m (double[n,3] x) => (double y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  limit = Constant<value = double {1.2}>()  c = Greater(k, limit)
          s = If(c) <then_branch = t () => (p) { p = Identity(h) }, else_branch = e () => (q) { q = Concat<axis = 1>(h, x) }>
          m = ReduceMean<keepdims = 0>(s)  z = ReduceSum<keepdims = 0>(h)  y = Mul(m, z) }""", ROW, {"w": (3,)}, ["EagerRun"]),
    "a Loop that keeps what data choose, of a sequence from before it": ("""
        m (double[n,3] x) => (double[n,3] y) { h = Mul(x, w)  s = SequenceConstruct(h, x, h)  t = SequenceInsert(s, x)  n = Constant<value_int = 4>()
          none = Constant<value = double[0,3] {}>()  limit = Constant<value = double {0.1}>()
          rows = Loop(n, , none) <body = b (int64 i, bool c, double[k,3] v) => (c, u)
            { r = SequenceAt(t, i)  k = ReduceMean<keepdims = 0>(r)  d = Greater(k, limit)
              u = If(d) <then_branch = p () => (pp) { pp = Concat<axis = 0>(v, r) }, else_branch = q () => (qq) { qq = Identity(v) }> }>
          z = ReduceSumSquare<keepdims = 0>(rows)  y = Mul(h, z) }""", ROW, {"w": (3,)}, ["EagerRun"]),
    "a Loop that data halt, at most 6 times": ("""
        m (double[n,3] x) => (double[n,3] y) { h = MatMul(x, w)  limit = Constant<value = double {1.5}>()  six = Constant<value_int = 6>()
          one = Constant<value_int = 1>()  zero = Constant<value_int = 0>()  m = ReduceMax<keepdims = 0>(h)  c = Less(m, limit)
          y, k = Loop(, c, h, zero) <body = b (int64 i, bool c1, double[n,3] v, int64 k) => (go, u, k1)
            { r = Mul(v, g)  t = Sin(r)  u = Add(v, t)  k1 = Add(k, one)  top = ReduceMax<keepdims = 0>(u)  low = Less(top, limit)
              more = Less(k1, six)  go = And(low, more) }> }""", ROW, {"w": (3, 3), "g": (3,)}, ["EagerRun", "EagerRunGrad"]),
    "a Loop as long as data say, by way of more sums than can be followed one by one": ("""
        m (double[n,3] x) => (double[n,3] y) { h = Mul(x, w)  t = ReduceMax<keepdims = 0>(x)  k0 = Sigmoid(t)  """ + DOUBLINGS + """
          three = Constant<value = double {3.0}>()  least = Min(k33, three)  n = Cast<to = 7>(least)
          y = Loop(n, , h) <body = b (int64 i, bool c, double[n,3] v) => (c, u) { r = Mul(v, g)  u = Tanh(r) }> }""", ROW, {"w": (3,), "g": (3,)}, ["EagerRun"]),
    "a Loop as long as data say, of which each state is stacked": ("""
        m (double[n,3] x) => (double[n,3] y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  twice = Add(k, k)  n0 = Cast<to = 7>(twice)
          least = Constant<value_int = 1>()  most = Constant<value_int = 4>()  n = Clip(n0, least, most)
          v, all = Loop(n, , h) <body = b (int64 i, bool c, double[n,3] v) => (c, u, s) { r = Mul(v, g)  u = Tanh(r)  s = Identity(u) }>
          z = ReduceMean<keepdims = 0>(all)  l = Shape(all)  zero = Constant<value_int = 0>()  count = Gather(l, zero)  f = Cast<to = 11>(count)
          a = Mul(v, z)  y = Mul(a, f) }""", ROW, {"w": (3,), "g": (3,)}, ["EagerRun"]),
    "a Loop as long as data say, behind which the number of iterations is read": ("""
        m (double[n,3] x) => (double[n,3] y) { h = Mul(x, w)  k = ReduceMean<keepdims = 0>(x)  zero = Constant<value_int = 0>()  p = Constant<value = double {0.0}>()
          c = Constant<value = bool {1}>()  one = Constant<value_int = 1>()  five = Constant<value_int = 5>()
          v, n, odd, sum = Loop(five, c, h, zero, zero, k) <body = b (int64 i, bool c1, double[n,3] v, int64 n, int64 odd, double s) => (go, u, n1, even, s1)
            { r = Mul(v, g)  u = Sin(r)  n1 = Add(n, one)  even = Sub(one, odd)  t = ReduceMean<keepdims = 0>(u)  s1 = Add(s, t)  go = Greater(s1, p) }>
          f = Cast<to = 11>(n)  parity = Cast<to = 11>(odd)  q = Add(f, parity)  y = Mul(v, q) }""", ROW, {"w": (3,), "g": (3,)}, ["EagerRun"]),
    "a Loop that data halt in a Loop": ("""
        m (double[n,3] x) => (double[n,3] y) { h = Mul(x, w)  n = Constant<value_int = 3>()  limit = Constant<value = double {0.6}>()  c = Constant<value = bool {1}>()
          y = Loop(n, , h) <body = b (int64 i, bool ok, double[n,3] v) => (ok, u)
            { u = Loop(n, c, v) <body = bb (int64 j, bool c1, double[n,3] a) => (go, d)
                { r = Mul(a, g)  d = Tanh(r)  top = ReduceMax<keepdims = 0>(d)  go = Greater(top, limit) }> }> }""", ROW, {"w": (3,), "g": (3,)}, ["EagerRun"]),
    "an If of sequences inside a branch": ("""
        m (double[n,3] x) => (double[n,3] y) { m = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(m, zero)
          h = Mul(x, w)  s = SequenceConstruct(h, x)
          y = If(c) <then_branch = t () => (p) { i = Constant<value_int = 0>()  p = SequenceAt(s, i) },
                     else_branch = e () => (q) { k = ConcatFromSequence<axis = 1>(s)  two = Constant<value_int = 2>()
                                                 r, l = Split<axis = 1, num_outputs = 2>(k)  q = Mul(l, v) }> }""",
        ROW, {"w": (3,), "v": (3,)}, ["IfRun"]),
}

# name: (text, words, command)
REFUSED = {
    "a position that data decide, in training": ("""
        m (double[n,2] x) => (double[n,2] y) { h = Mul(x, w)  s = SequenceConstruct(h, x)  k = ReduceMax<keepdims = 0>(x)  i = Cast<to = 7>(k)
          y = SequenceAt(s, i) }""", ["SequenceAt", "its position", "depends on data", "in training"], "train"),
    "a length that data decide, in training": ("""
        m (double[n,2] x) => (double[n,2] y) { h = Mul(x, w)  empty = SequenceEmpty<dtype = 11>()  k = ReduceMax<keepdims = 0>(x)
          trips = Cast<to = 7>(k)
          s = Loop(trips, , empty) <body = b (int64 i, bool c, seq(double) s) => (c, t) { t = SequenceInsert(s, h) }>
          y = ConcatFromSequence<axis = 0>(s) }""", ["Loop", "its number of iterations depends on data", "bounds it to 4096"], "train"),
    "a sequence that an If of data hands out, in training": ("""
        m (double[n,2] x) => (double[n,2] y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()
          c = Greater(k, zero)
          s = If(c) <then_branch = t () => (p) { p = SequenceConstruct(h) }, else_branch = e () => (q) { q = SequenceConstruct(h, x) }>
          i = Constant<value_int = 0>()  y = SequenceAt(s, i) }""",
        ["If", "depends on data", "then_branch", "output 0 is a sequence"], "train"),
    "branches of two types, in training": ("""
        m (double[n,2] x) => (double y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()  c = Greater(k, zero)
          s = If(c) <then_branch = t () => (p) { p = Identity(h) }, else_branch = e () => (q) { q = Cast<to = 10>(h) }>
          z = CastLike(s, h)  y = ReduceSum<keepdims = 0>(z) }""", ["If", "depends on data", "float16", "else_branch", "output 0"], "train"),
    "a Loop as long as data say, in training": ("""
        m (double[n,2] x) => (double[n,2] y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  limit = Constant<value = double {9.0}>()  c = Greater(k, limit)
          y = Loop(, c, h) <body = b (int64 i, bool c1, double[n,2] v) => (go, u) { u = Mul(v, v)  s = ReduceMax<keepdims = 0>(u)  go = Greater(s, limit) }> }""",
                                                ["Loop", "its number of iterations depends on data", "bounds it to 4096", "hint: "], "train"),
    "a branch that draws numbers, in training": ("""
        m (double[n,2] x) => (double[n,2] y) { h = Mul(x, w)  k = ReduceMax<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()
          c = Greater(k, zero)
          y = If(c) <then_branch = t () => (p) { r = RandomNormalLike(h)  p = Add(h, r) }, else_branch = e () => (q) { q = Neg(h) }> }""",
        ["If", "then_branch", "drawn"], "train"),
    "a position in front of the sequence": ("""
        m (double[2] x) => (double[2] y) { s = SequenceConstruct(x, x)  i = Constant<value_int = -3>()  y = SequenceAt(s, i) }""",
        ["SequenceAt", "its position is -3 of a sequence of 2"], "predict"),
    "an insertion behind the end": ("""
        m (double[2] x) => (int64 y) { s = SequenceConstruct(x, x)  i = Constant<value_int = 3>()  t = SequenceInsert(s, x, i)
          y = SequenceLength(t) }""", ["SequenceInsert", "its position is 3 of a sequence of 2"], "predict"),
    "an element of an empty sequence": ("""
        m (double[2] x) => (int64 y) { s = SequenceEmpty()  t = SequenceErase(s)  y = SequenceLength(t) }""",
        ["SequenceErase", "its sequence is empty"], "predict"),
    "a position of two numbers": ("""
        m (double[2] x) => (double[2] y) { s = SequenceConstruct(x)  i = Constant<value = int64[2] {0, 0}>()  y = SequenceAt(s, i) }""",
        ["SequenceAt", "is not one integer"], "predict"),
    "tensors of two types": ("""
        m (double[2] x) => (int64 y) { k = Cast<to = 1>(x)  s = SequenceConstruct(x, k)  y = SequenceLength(s) }""",
        ["SequenceConstruct", "has type float", "of type double"], "predict"),
    "an insertion of another type": ("""
        m (double[2] x) => (int64 y) { s = SequenceEmpty()  t = SequenceInsert(s, x)  y = SequenceLength(t) }""",
        ["SequenceInsert", "has type double", "of type float"], "predict"),
    "an empty sequence joined": ("""
        m (double[2] x) => (double[2] y) { s = SequenceEmpty<dtype = 11>()  y = ConcatFromSequence<axis = 0>(s) }""",
        ["ConcatFromSequence", "is empty"], "predict"),
    "a type of sequence that there is not": ("""
        m (double[2] x) => (int64 y) { s = SequenceEmpty<dtype = 99>()  y = SequenceLength(s) }""", ["SequenceEmpty", "dtype is 99"], "predict"),
    "a new axis that there is not": ("""
        m (double[2] x) => (double[2] y) { s = SequenceConstruct(x)  y = ConcatFromSequence<axis = 2, new_axis = 1>(s) }""",
        ["ConcatFromSequence", "axis 2 is outside"], "predict"),
    "a sequence where a tensor is wanted": ("""
        m (double[2] x) => (double[2] y) { s = SequenceConstruct(x)  y = Tanh(s) }""", ["Tanh", "is a sequence of double", "does not accept"],
        "predict"),
    "a tensor where a sequence is wanted": ("""
        m (double[2] x) => (int64 y) { y = SequenceLength(x) }""", ["SequenceLength", "is not a sequence"], "predict"),
    "a sequence of sequences": ("""
        m (double[2] x) => (int64 y) { s = SequenceConstruct(x)  t = SequenceConstruct(s)  y = SequenceLength(t) }""",
        ["SequenceConstruct", "does not accept"], "predict"),
    "an optional of an optional": ("""
        m (double[2] x) => (bool y) { s = Optional(x)  t = Optional(s)  y = OptionalHasElement(t) }""",
        ["Optional", "its element is an optional"], "predict"),
    "an optional of nothing": ("""
        m (double[2] x) => (bool y) { t = Optional()  y = OptionalHasElement(t) }""", ["Optional", "neither an input nor"], "predict"),
    "the element of an empty optional": ("""
        m (double[2] x) => (double[2] y) { t = Optional<type: type_proto = double>()  y = OptionalGetElement(t) }""",
        ["OptionalGetElement", "has no element"], "predict"),
    "sequences of two lengths": ("""
        m (double[2] x) => (int64 y) { s = SequenceConstruct(x)  t = SequenceConstruct(x, x)
          u = SequenceMap(s, t) <body = f (double[2] p, double[2] q) => (r) { r = Add(p, q) }>  y = SequenceLength(u) }""",
        ["SequenceMap", "has 2 elements, the first one has 1"], "predict"),
    "a body of other inputs": ("""
        m (double[2] x) => (int64 y) { s = SequenceConstruct(x)
          u = SequenceMap(s) <body = f (double[2] p, double[2] q) => (r) { r = Add(p, q) }>  y = SequenceLength(u) }""",
        ["SequenceMap", "has 1 inputs and 1 outputs, its body has 2 and 1"], "predict"),
    "parts of a negative size": ("""
        m (double[2] x) => (int64 y) { k = Constant<value_int = -1>()  s = SplitToSequence(x, k)  y = SequenceLength(s) }""",
        ["SplitToSequence", "the size of its parts is -1"], "predict"),
    "many long lists": ("""
        m (double[2] x) => (int64 y) { n = Constant<value_int = 40000>()  empty = SequenceEmpty<dtype = 11>()
          zero = Constant<value_int = 0>()
          s = Loop(n, , empty) <body = b (int64 i, bool c, seq(double) s) => (c, t) { t = SequenceInsert(s, x, zero) }>
          y = SequenceLength(s) }""",
        ["SequenceInsert", "the limit"], "grad"),
}


# ---- training against float64

SAMPLES, BATCH, RATE = 12, 3, 0.05


def samples(inputs):
    rng = np.random.default_rng(5)
    return {name: values if isinstance(values, np.ndarray) else
            rng.integers(0, values, (SAMPLES, *shape)) if values else rng.uniform(-1.5, 1.5, (SAMPLES, *shape))
            for name, (shape, values) in inputs.items()}


def with_float_types(model):
    """as_float, also where an operator's attribute names the element type."""
    model = lowered.as_float(model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "dtype" and attribute.i == onnx.TensorProto.DOUBLE:
                attribute.i = onnx.TensorProto.FLOAT
    return model


def loss_of(model, feed):
    return float(np.sum(lowered.reference_outputs(model, feed)[0] ** 2))


def reference_run(model, feeds):
    """Losses and weights of SGD in float64."""
    losses, tensors = [], {t.name: t for t in model.graph.initializer}
    weights = {name: numpy_helper.to_array(t).copy() for name, t in tensors.items()}
    for first in range(0, SAMPLES, BATCH):
        feed = {name: array[first:first + BATCH] for name, array in feeds.items()}
        losses.append(loss_of(model, feed))
        slopes = {}
        for name, array in weights.items():
            slope = slopes[name] = np.zeros(array.size)
            for k in range(array.size):
                values = []
                for step in (1e-5, -1e-5):
                    moved = array.copy()
                    moved.reshape(-1)[k] += step
                    tensors[name].raw_data = moved.tobytes()
                    values.append(loss_of(model, feed))
                slope[k] = (values[0] - values[1]) / 2e-5
            tensors[name].raw_data = array.tobytes()
        for name, array in weights.items():
            array -= RATE * slopes[name].reshape(array.shape)
            tensors[name].raw_data = array.tobytes()
    return losses, weights


def write_run(model, feeds, folder):
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "data.npz", **{name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in feeds.items()})
    config = {"train_batch_size": BATCH, "optimizer": {"type": "SGD", "params": {"lr": RATE}},
              "ztrain": {"data": {"format": "npz", "path": "data.npz", "shuffle": False}, "epochs": 1,
                         "loss": {"type": "output", "output": "loss"}}}
    (folder / "c.json").write_text(json.dumps(config))
    return ["--model", folder / "m.onnx", "--config", folder / "c.json"]


def check_trained(ztrain, text, inputs, initializers, words, folder):
    model, feeds = lowered.parse(text, initializers), samples(inputs)
    options = write_run(with_float_types(model), feeds, folder)
    for threads in (1, 2):
        code, said = lowered.run_ztrain(ztrain, *options, "--output", folder / f"out{threads}", "--threads", threads)
        if code:
            return f"training ended with {code}: {said.strip()}"
    rows = [json.loads(line) for line in open(folder / "out1" / "metrics.jsonl")]
    have = [row["loss"] for row in rows if "lr" in row]
    losses, weights = reference_run(model, feeds)
    if not np.allclose(have, losses, rtol=2e-5, atol=1e-6):
        return f"the losses are {have}, in float64 {losses}"
    trained = {t.name: numpy_helper.to_array(t) for t in onnx.load(folder / "out1" / "model.onnx").graph.initializer}
    for name, array in weights.items():
        if np.max(np.abs(trained[name] - array)) > 2e-5 * max(1, np.max(np.abs(array))):
            return f"{name} is off by {np.max(np.abs(trained[name] - array)):.2e} after {len(have)} steps"
    if (folder / "out1" / "model.onnx").read_bytes() != (folder / "out2" / "model.onnx").read_bytes():
        return "1 and 2 threads differ"
    plan = subprocess.run([ztrain, "plan", *map(str, options)], capture_output=True, text=True, timeout=120)
    missing = [w for w in words if not re.search(rf"\b{w}\b", plan.stdout)]
    return f"the plan has no {missing}" if plan.returncode or missing else ""


# ---- what is refused

def check_refused(ztrain, text, words, command, folder):
    if command == "train":
        model = with_float_types(lowered.parse(text, {"w": (2,)}))
        options = [*write_run(model, {"x": np.ones((SAMPLES, 2))}, folder)]
    else:
        onnx.save(lowered.parse(text), folder / "m.onnx")
        np.savez(folder / "in.npz", x=lowered.numbers("x", (2,)))
        options = [command, "--model", folder / "m.onnx", "--inputs", folder / "in.npz"]
    code, said = lowered.run_ztrain(ztrain, *options, "--output", folder / "out")
    missing = [w for w in words if w not in said]
    return f"ended with {code}: {said.strip()}" if code != 3 or missing else ""


# ---- files of values

SEQUENCE_IN = """m (seq(float) x) => (seq(float) y) { y = Identity(x) }"""
OPTIONAL_IN = """m (optional(seq(float)) x) => (bool y) { y = OptionalHasElement(x) }"""


def put(field, payload):
    """A field of bytes on the wire."""
    length = b""
    n = len(payload)
    while n >= 128:
        length += bytes([n & 127 | 128])
        n >>= 7
    return bytes([field << 3 | 2]) + length + bytes([n]) + payload


FLOATS = numpy_helper.from_array(np.array([1, 2], np.float32)).SerializeToString()
INTEGERS = numpy_helper.from_array(np.array([1, 2], np.int64)).SerializeToString()
TENSORS, SEQUENCES = b"\x10\x01", b"\x10\x03"
DEEP = b""
for _ in range(200):
    DEEP = SEQUENCES + put(5, DEEP)
# name: (model, bytes of input_0.pb, words)
FILES = {
    "a tensor in place of a sequence": (SEQUENCE_IN, FLOATS, ["input_0.pb"]),
    "a sequence of integers": (SEQUENCE_IN, TENSORS + put(3, FLOATS) + put(3, INTEGERS), ["tensor 1 has type int64", "wants float"]),
    "a sequence of sequences in a file": (SEQUENCE_IN, b"\x10\x03" + put(5, TENSORS + put(3, FLOATS)), ["other elements than tensors"]),
    "a tensor of a sequence that is cut off": (SEQUENCE_IN, TENSORS + put(3, FLOATS)[:-3], ["input_0.pb"]),
    "a tensor of a sequence with too few bytes": (SEQUENCE_IN, TENSORS + put(3, b"\x08\x05" + FLOATS[2:]), ["tensor \"0\"", "wants 20"]),
    "a file nested too deep": (SEQUENCE_IN, DEEP, ["nested too deep"]),
    "an optional without the element that it names": (OPTIONAL_IN, SEQUENCES, ["another element or none"]),
    "an optional of a tensor": (OPTIONAL_IN, TENSORS + put(3, FLOATS), ["element type 1", "wants 3"]),
    "an optional of type 9": (OPTIONAL_IN, b"\x10\x09", ["element type 9"]),
    "an optional of two sequences": (OPTIONAL_IN, SEQUENCES + 2 * put(5, TENSORS + put(3, FLOATS)), ["second time"]),
}


def check_file(ztrain, text, contents, words, folder):
    onnx.save(lowered.parse(text), folder / "m.onnx")
    (folder / "in").mkdir()
    (folder / "in" / "input_0.pb").write_bytes(contents)
    code, said = lowered.run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in", "--output", folder / "out")
    missing = [w for w in words if w not in said]
    return f"ended with {code}: {said.strip()}" if code != 4 or missing else ""


def check_arrays(ztrain, folder):
    """A file of arrays cannot hold a sequence; outputs.npz has its tensors by number."""
    onnx.save(lowered.parse(SEQUENCE_IN), folder / "m.onnx")
    np.savez(folder / "in.npz", x=np.ones(2, np.float32))
    code, said = lowered.run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "out")
    if code != 4 or "is a sequence of float" not in said or "input_0.pb" not in said:
        return f"ended with {code}: {said.strip()}"
    (folder / "in").mkdir()
    (folder / "in" / "input_0.pb").write_bytes(TENSORS + put(3, FLOATS) + put(3, FLOATS))
    code, said = lowered.run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in", "--output", folder / "out")
    have = {} if code else dict(np.load(folder / "out" / "outputs.npz"))
    return said if code or sorted(have) != ["y.0", "y.1"] or not np.array_equal(have["y.1"], np.array([1, 2], np.float32)) else ""


def check_inspected(ztrain, folder):
    onnx.save(lowered.parse("""m (seq(float) x, optional(int64) o) => (optional(seq(float)) y) { y = Optional(x) }"""), folder / "m.onnx")
    done = subprocess.run([ztrain, "inspect", "--model", folder / "m.onnx"], capture_output=True, text=True, timeout=60)
    wanted = ["sequence of float", "optional of int64", "optional sequence of float"]
    return "" if done.returncode == 0 and all(w in done.stdout for w in wanted) else done.stdout + done.stderr


def check_eager(ztrain, folder):
    """A sequence that grows while data say so, which only `predict` takes; a tensor state is put into it, and it is read and cut."""
    text = """m (double[2] x) => (seq(double) y, double[2] z, int64 n) { yes = Constant<value = bool {1}>()  s0 = SequenceConstruct(x)
        y, z, last = Loop(, yes, s0, x, x) <body = b (int64 i, bool c, seq(double) s, double[2] v, double[2] old) => (go, t, u, v)
          { two = Constant<value = double {1.5}>()  zero = Constant<value_int = 0>()  first = SequenceAt(s, zero)  u0 = Mul(v, two)
            u = Add(u0, first)  k = SequenceInsert(s, v)  k2 = SequenceInsert(k, old, zero)  t = SequenceErase(k2, zero)
            top = ReduceMax<keepdims = 0>(u)  limit = Constant<value = double {1000.0}>()  go = Less(top, limit) }>
        n = SequenceLength(y) }"""
    model, x = lowered.parse(text), np.array([1.0, 0.5])
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "in.npz", x=x)
    code, said = lowered.run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "out")
    if code:
        return said
    want, v = [x], x
    while True:
        u = 1.5 * v + want[0]
        want.append(v)
        v = u
        if np.max(u) >= 1000:
            break
    have = dict(np.load(folder / "out" / "outputs.npz"))
    same = have["n"] == len(want) and all(np.array_equal(have[f"y.{i}"], w) for i, w in enumerate(want)) and np.array_equal(have["z"], v)
    return "" if same else f"{have}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="", help="names that contain this")
    options = parser.parse_args()
    checks = {name: (lowered.check, lowered.parse(text, initializers), lowered.parse(plain[0] if plain else text, initializers), shapes)
              for name, (text, shapes, initializers, *plain) in MODELS.items()}
    checks.update({f"{name}, trained": (check_trained, *row) for name, row in TRAINED.items()})
    checks.update({f"refused: {name}": (check_refused, *row) for name, row in REFUSED.items()})
    checks.update({f"refused: {name}": (check_file, *row) for name, row in FILES.items()})
    checks.update({"sequences and files of arrays": (check_arrays,), "sequences in `ztrain inspect`": (check_inspected,),
                   "a sequence that grows while data say so": (check_eager,)})
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, (check, *arguments)) in enumerate(checks.items()):
            folder = pathlib.Path(scratch) / str(number)
            folder.mkdir()
            if options.only in name:
                lowered.report(name, check(options.ztrain, *arguments, folder))
    print(f"{lowered.passed} passed, {lowered.failures} failed")
    return 1 if lowered.failures or not lowered.passed else 0


if __name__ == "__main__":
    sys.exit(main())
