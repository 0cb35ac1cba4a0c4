#!/usr/bin/env python3
"""Functions, If, Loop, Scan, sequences and onnxruntime's operators: what ztrain makes of them against onnxruntime and finite differences.

    check_lowered.py ZTRAIN [--only NAME]

Every model here is double, so that onnxruntime differentiates it numerically to 1e-7, but those of onnxruntime's operators, which take float. A model that is named in TRAINED is also
trained, as it stands and with everything written out by onnx's own inliner: the weights must be the same bits, and the file that
training leaves must differ from the one it was given in the weights alone. Needs numpy, onnx and onnxruntime.
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
import onnx.inliner
import onnx.parser
import onnx.reference
import onnxruntime
from onnx import numpy_helper

from microsoft_models import MICROSOFT, MICROSOFT_REFUSED, OPSETS, QONNX
from microsoft_quantized import QUANTIZED

onnxruntime.set_default_logger_severity(3)  # not the warnings about constants that no node reads

HEADER = '<ir_version: 10, opset_import: ["": 18, "my": 1, "other": 2, "ai.onnx.preview": 1, "ai.onnx.ml": 3, "com.microsoft": 1]>\n'
OTHER = 'opset_import: ["": 18, "my": 1, "other": 2]'

# name: (text, {input: shape}, {initializer: shape}); numbers are made from the names. A fourth entry is the same for a reference
# that does not take the model.
MODELS = {
    "function called twice": ("""
        m (double[2,3] x) => (double[2,3] y) { h = my.layer(x, w, b)  y = my.layer(h, v, c) }
        <domain: "my", %s> layer (x, w, b) => (y) { m = MatMul(x, w)  s = Add(m, b)  y = Tanh(s) }""",
        {"x": (2, 3)}, {"w": (3, 3), "b": (3,), "v": (3, 3), "c": (3,)}),
    "functions in functions with references": ("""
        m (double[2,3] x) => (double[2,3] y, double[2,3] z) { y = my.outer<factor = 3.0>(x, w, b)  z = my.outer(x, w, b) }
        <domain: "my", %s> outer <factor: float = 0.5> (x, w, b) => (y)
        { h = other.inner<scale: float = @factor>(x, w, b)  g = other.inner(x, w, b)  y = Mul(h, g) }
        <domain: "other", %s> inner <scale> (x, w, b) => (y)
        { y = Gemm<alpha: float = @scale, beta = 2.0>(x, w, b) }""",
        {"x": (2, 3)}, {"w": (3, 3), "b": (2, 3)}),
    "opset of the function": ("""
        m (double[2,3] x) => (double[2] y) { y = my.old(x) }
        <domain: "my", opset_import: ["": 12]> old (x) => (y) { y = ReduceSum<axes = [1], keepdims = 0>(x) }""",
        {"x": (2, 3)}, {}),
    "fewer inputs and outputs than the function has": ("""
        m (double[2,3] x) => (double[2,3] y, double[2,2] z) { y = my.f(x, w)  left, z = my.g(x) }
        <domain: "my", %s> f (x, w, b) => (y) { y = Gemm(x, w, b) }
        <domain: "my", %s> g (x) => (left, right) { left, right = Split<axis = 1>(x, parts)
          parts = Constant<value = int64[2] {1, 2}>() }""",
        {"x": (2, 3)}, {"w": (3, 3)}, """
        m (double[2,3] x) => (double[2,3] y, double[2,2] z) { y = MatMul(x, w)  parts = Constant<value = int64[2] {1, 2}>()
          left, z = Split<axis = 1>(x, parts) }"""),
    "Scaler of a column each": ("""
        m (double[2,3] x) => (double[2,3] y) { s = ai.onnx.ml.Scaler<offset = [0.5, -1.0, 0.25], scale = [2.0, 0.5, -4.0]>(x)
          d = Cast<to = 11>(s)  y = Tanh(d) }""", {"x": (2, 3)}, {}, """
        m (double[2,3] x) => (double[2,3] y) { o = Constant<value = double[3] {0.5, -1.0, 0.25}>()
          c = Constant<value = double[3] {2.0, 0.5, -4.0}>()  d = Sub(x, o)  s = Mul(d, c)  y = Tanh(s) }"""),
    "Scaler of integers by one number": ("""
        m (double[2,3] x) => (double[2,3] y) { i = Cast<to = 7>(x)  s = ai.onnx.ml.Scaler<offset = [1.5]>(i)  d = Cast<to = 11>(s)
          y = Mul(d, x) }""", {"x": (2, 3)}, {}, """
        m (double[2,3] x) => (double[2,3] y) { i = Cast<to = 7>(x)  f = Cast<to = 11>(i)  o = Constant<value = double {1.5}>()
          s = Sub(f, o)  y = Mul(s, x) }"""),
    "Range of com.microsoft": ("""
        m (double[2,3] x) => (double[2,3] y) { s = Shape(x)  i = Constant<value_int = 1>()  n = Gather(s, i)  o = Constant<value_int = 0>()
          r = com.microsoft.Range(o, n)  d = Cast<to = 11>(r)  f = Constant<value = double {0.5}>()  e = Constant<value = double {2.0}>()
          h = com.microsoft.Range(f, e, f)  t = Add(d, h)  y = Mul(x, t) }""", {"x": (2, 3)}, {}, """
        m (double[2,3] x) => (double[2,3] y) { t = Constant<value = double[3] {0.5, 2.0, 3.5}>()  y = Mul(x, t) }"""),
    "a value that is two outputs": ("m (double[2,3] x) => (double[2,3] y, double[2,3] y) { y = Tanh(x) }", {"x": (2, 3)}, {}),
    "function that hands out its inputs": ("""
        m (double[2,3] x) => (double[2,3] y) { a, b, c = my.f(x, w)  d = Add(a, b)  y = Mul(d, c) }
        <domain: "my", %s> f (x, w) => (x, y, y) { y = Mul(x, w) }""", {"x": (2, 3)}, {"w": (2, 3)}),
    "a function of an operator that is there": ("""
        m (double[2,3] x) => (double[2,3] y) { y = Tanh(x) }
        <domain: "", %s> Tanh (x) => (y) { h = Add(x, x)  s = Sigmoid(h)  t = Add(s, s)
          one = Constant<value = double {1.0}>()  y = Sub(t, one) }""", {"x": (2, 3)}, {}),
    "If inside a function": ("""
        m (double[2,3] x) => (double[2,3] y, double[2,3] z) { y = my.f<way = 1>(x, w)  z = my.f(x, w) }
        <domain: "my", %s> f <way: int = 0, by: float = 2.0> (x, w) => (y)
        { n = Constant<value_int: int = @way>()  c = Cast<to = 9>(n)  h = Mul(x, w)
          y = If(c) <then_branch = t () => (t) { k = Constant<value = double[3,3] {1,2,3,4,5,6,7,8,9}>()
                                                 t = Gemm<alpha: float = @by>(h, k) },
                     else_branch = e () => (e) { e = Add(h, x) }> }""", {"x": (2, 3)}, {"w": (2, 3)}),
    "If on a shape": ("""
        m (double[2,3] x) => (double y) { s = Shape(x)  i = Constant<value_int = 0>()  n = Gather(s, i)
          two = Constant<value_int = 2>()  c = Equal(n, two)
          y = If(c) <then_branch = t () => (a) { h = MatMul(x, w)  a = ReduceSumSquare<keepdims = 0>(h) },
                     else_branch = e () => (e) { e = other.Unsupported(x) }> }""",
        {"x": (2, 3)}, {"w": (3, 4)}, """
        m (double[2,3] x) => (double y) { h = MatMul(x, w)  y = ReduceSumSquare<keepdims = 0>(h) }"""),
    "If that hands out what is outside": ("""
        m (double[2,3] x, bool c) => (double[2,3] y, double[2,3] z) { h = Mul(x, w)
          y, z = If(c) <then_branch = t () => (h, x) { }, else_branch = e () => (n, n) { n = Neg(h) }> }""",
        {"x": (2, 3), "c": True}, {"w": (2, 3)}),
    "If in If on data": ("""
        m (double[2,3] x) => (double[2,3] y) { s = ReduceSum<keepdims = 0>(x)  zero = Constant<value = double {0.0}>()
          c = Greater(s, zero)  d = Less(s, zero)
          y = If(c) <then_branch = t () => (t) { t = If(d) <then_branch = tt () => (tt) { tt = Sin(x) },
                                                            else_branch = te () => (te) { te = Mul(x, w) }> },
                     else_branch = e () => (e2) { e2 = If(d) <then_branch = et () => (et) { k = Mul(x, w)  et = Tanh(k) },
                                                              else_branch = ee () => (ee) { ee = Cos(x) }> }> }""",
        {"x": (2, 3)}, {"w": (2, 3)}),
    "Loop of three iterations": ("""
        m (double[2,3] x) => (double[2,3] y, double[3,2,3] s) { n = Constant<value_int = 3>()
          y, s = Loop(n, , x) <body = b (int64 i, bool c, double[2,3] v) => (c, u, o)
            { h = MatMul(v, w)  u = Tanh(h)  f = Cast<to = 11>(i)  o = Mul(u, f) }> }""", {"x": (2, 3)}, {"w": (3, 3)}),
    "Loop while a sum is small": ("""
        m (double[3] x) => (double[3] y, int64 n, double[k] norms) { yes = Constant<value = bool {1}>()
          zero = Constant<value_int = 0>()  limit = Constant<value = double {9.0}>()
          y, n, norms = Loop(, yes, x, zero) <body = b (int64 i, bool c, double[3] v, int64 n) => (go, u, m, norm)
            { u = Mul(v, w)  norm = ReduceSumSquare<keepdims = 0>(u)  go = Less(norm, limit)
              one = Constant<value_int = 1>()  m = Add(n, one) }> }""", {"x": (3,)}, {"w": (3,)}),
    "Loop of no iteration": ("""
        m (double[2] x) => (double[2] y, double[0,2] s) { n = Constant<value_int = 0>()
          y, s = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u, u) { u = Mul(v, w) }> }""",
        {"x": (2,)}, {"w": (2,)}),
    "Loop of one iteration": ("""
        m (double[2] x) => (double[2] y, double[1,2] s) { n = Constant<value_int = 1>()
          y, s = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u, u) { u = Mul(v, w) }> }""",
        {"x": (2,)}, {"w": (2,)}),
    "Loop in Loop": ("""
        m (double[2] x) => (double[2] y) { n = Constant<value_int = 2>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u)
            { one = Constant<value_int = 1>()  k = Add(i, one)
              u = Loop(k, , v) <body = bb (int64 j, bool d, double[2] p) => (d, q) { q = Mul(p, w) }> }> }""",
        {"x": (2,)}, {"w": (2,)}),
    "function in a Loop": ("""
        m (double[2,3] x) => (double[2,3] y) { n = Constant<value_int = 2>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2,3] v) => (c, u) { u = my.layer(v, w) }> }
        <domain: "my", %s> layer (x, w) => (y) { m = MatMul(x, w)  y = Tanh(m) }""", {"x": (2, 3)}, {"w": (3, 3)}),
    "Scan": ("""
        m (double[2] h, double[4,2] x) => (double[2] y, double[4,2] s) {
          y, s = Scan<num_scan_inputs = 1, body = b (double[2] v, double[2] t) => (u, o)
            { p = Mul(v, w)  q = Add(p, t)  u = Tanh(q)  o = Mul(u, t) }>(h, x) }""",
        {"h": (2,), "x": (4, 2)}, {"w": (2,)}),
    "Scan backwards along another axis": ("""
        m (double[2] h, double[2,4] x) => (double[2] y, double[2,4] s) {
          y, s = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [-1],
                      scan_output_directions = [1], body = b (double[2] v, double[2] t) => (u, o)
            { p = Mul(v, w)  u = Add(p, t)  o = Sin(u) }>(h, x) }""",
        {"h": (2,), "x": (2, 4)}, {"w": (2,)}),
    # Large: these run as loops, others of one iteration as the next are written out.
    "Loop of 10,000 iterations": ("""
        m (double[2,3] x) => (double[2,3] y) { n = Constant<value_int = 10000>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2,3] v) => (c, u)
            { h = MatMul(v, w)  k = Add(h, b)  u = Tanh(k) }> }""", {"x": (2, 3)}, {"w": (3, 3), "b": (3,)}),
    "Loop of 2,000 iterations with everything": ("""
        m (double[2,3] x, double[2] z) => (double[2,3] y, double[2] q, int64 count, double[2000,2,3] s, int64[2000] p, double[2000,2] r) {
          n = Constant<value_int = 2000>()  yes = Constant<value = bool {1}>()  zero = Constant<value_int = 0>()
          scale = Exp(x)  t = Constant<value = double {0.001}>()
          y, q, count, s, p, r = Loop(n, yes, x, z, zero) <body = b (int64 i, bool c, double[2,3] v, double[2] o, int64 k)
              => (go, u, o2, k2, a, k, e)
            { h = MatMul(v, w)  f = Cast<to = 11>(i)  g = Mul(f, t)  j = Cos(g)  m1 = Mul(h, j)  m2 = Mul(scale, d)  m3 = Add(m1, m2)
              u = Tanh(m3)  a = Mul(u, u)  one = Constant<value_int = 1>()  k2 = Add(k, one)  go = Identity(c)
              o2 = Identity(o)  e = Mul(o, d2) }> }""",
        {"x": (2, 3), "z": (2,)}, {"w": (3, 3), "d": (3,), "d2": (2,)}),
    "large Scan": ("""
        m (double[2] h, double[1500,2] x) => (double[2] y, double[1500,2] s) {
          y, s = Scan<num_scan_inputs = 1, body = b (double[2] v, double[2] t) => (u, o)
            { p = Mul(v, w)  q = Add(p, t)  u = Tanh(q)  o = Mul(u, t) }>(h, x) }""",
        {"h": (2,), "x": (1500, 2)}, {"w": (2,)}),
    "large Scan backwards along other axes": ("""
        m (double[2] h, double[2,1300] x, double[1300] k) => (double[2] y, double[2,1300] s, double[1300,2] r) {
          y, s, r = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0], scan_output_axes = [-1, 0],
                      scan_output_directions = [1, 0], body = b (double[2] v, double[2] t, double kk) => (u, o, e)
            { p = Mul(v, w)  p2 = Mul(p, kk)  u0 = Add(p2, t)  u = Tanh(u0)  o = Sin(u)  e = Mul(t, w) }>(h, x, k) }""",
        {"h": (2,), "x": (2, 1300), "k": (1300,)}, {"w": (2,)}),
    "large Scan without states": ("""
        m (double[1500,3] x) => (double[1500,3] s) {
          s = Scan<num_scan_inputs = 1, body = b (double[3] t) => (o) { p = Mul(t, w)  q = Tanh(p)  o = Add(q, w) }>(x) }""",
        {"x": (1500, 3)}, {"w": (3,)}),
    "Loop in a large Loop": ("""
        m (double[2] x) => (double[2] y) { n = Constant<value_int = 900>()  m = Constant<value_int = 5>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u)
            { u0 = Loop(m, , v) <body = bb (int64 j, bool d, double[2] p) => (d, q) { q0 = Mul(p, w)  q = Sin(q0) }>
              u = Add(u0, x) }> }""",
        {"x": (2,)}, {"w": (2,)}),
    "large Loop in a large Loop": ("""
        m (double[2] x) => (double[2] y) { n = Constant<value_int = 30>()  m = Constant<value_int = 1500>()
          y = Loop(n, , x) <body = b (int64 i, bool c, double[2] v) => (c, u)
            { u0 = Loop(m, , v) <body = bb (int64 j, bool d, double[2] p) => (d, q) { q0 = Mul(p, w)  q1 = Sin(q0)  q = Add(q1, x) }>
              u = Mul(u0, g) }> }""",
        {"x": (2,)}, {"w": (2,), "g": (2,)}),
    "large Loop in an If, with a function": ("""
        m (double[2,3] x) => (double[2,3] y) { s = Shape(x)  i = Constant<value_int = 0>()  k = Gather(s, i)
          two = Constant<value_int = 2>()  c = Equal(k, two)  n = Constant<value_int = 2500>()
          y = If(c) <then_branch = t () => (a) {
              a = Loop(n, , x) <body = b (int64 i, bool c, double[2,3] v) => (c, u) { u = my.layer(v, w) }> },
            else_branch = e () => (e) { e = Neg(x) }> }
        <domain: "my", %s> layer (x, w) => (y) { m = MatMul(x, w)  y = Tanh(m) }""", {"x": (2, 3)}, {"w": (3, 3)}),
    "large Loop that hands on and swaps states": ("""
        m (double[2] x, double[2] z) => (double[2] y, double[2] q) { n = Constant<value_int = 2001>()
          y, q = Loop(n, , x, z) <body = b (int64 i, bool c, double[2] v, double[2] o) => (c, o, u)
            { h = Mul(v, w)  u = Tanh(h) }> }""", {"x": (2,), "z": (2,)}, {"w": (2,)}),
    "parts of a sequence": ("""
        m (double[3,7] x) => (double[3,3] y, double[3,1] z) { h = Mul(x, w)  three = Constant<value_int = 3>()
          s = SplitToSequence<axis = 1>(h, three)  zero = Constant<value_int = 0>()  a = SequenceAt(s, zero)
          one = Constant<value_int = 1>()  b = SequenceAt(s, one)  last = Constant<value_int = -1>()  c = SequenceAt(s, last)
          y = Mul(a, b)  z = Mul(c, c) }""", {"x": (3, 7)}, {"w": (3, 7)}),
    "parts of listed sizes, in a loop": ("""
        m (double[3,4] x) => (double[1,4] y) { sizes = Constant<value = int64[2] {1, 2}>()  s = SplitToSequence(x, sizes)
          one = Constant<value_int = 1>()  h = SequenceAt(s, one)  zero = Constant<value_int = 0>()  a = SequenceAt(s, zero)
          two = Constant<value_int = 2>()
          y = Loop(two, , a) <body = b (int64 i, bool c, double[1,4] v) => (c, u)
            { t = SplitToSequence<axis = 0, keepdims = 0>(h)  k = SequenceAt(t, i)  p = Mul(k, w)  u = Add(v, p) }> }""",
        {"x": (3, 4)}, {"w": (4,)}),
}

# What only `predict` takes: too many iterations to be written out, and data say how many.
PREDICTED = {
    "60,000 iterations while a sum is small": ("""
        m (double[3] x, bool[1] f) => (double[3] y, int64 n, double[k] norms) { yes = Constant<value = bool {1}>()
          zero = Constant<value_int = 0>()  limit = Constant<value = double {60000.0}>()  step = Constant<value = double {1.0}>()
          y, n, norms = Loop(, yes, x, zero) <body = b (int64 i, bool c, double[3] v, int64 n) => (go, u, m, norm)
            { a = Add(v, step)  u = Identity(a)  norm = ReduceMax<keepdims = 0>(u)  go = Less(norm, limit)
              one = Constant<value_int = 1>()  m = Add(n, one) }> }""", {"x": (3,), "f": (1,)}),
    "a state that grows in 2,500 iterations": ("""
        m (double[2] x, bool[1] f) => (double[k] y, double[2500] s) { n = Constant<value_int = 2500>()
          y, s = Loop(n, , x) <body = b (int64 i, bool c, double[n] v) => (c, u, o)
            { o = ReduceMean<keepdims = 0>(v)  a = Constant<value = int64[1] {0}>()  t = Unsqueeze(o, a)  r = Sin(t)  u = Concat<axis = 0>(v, r) }> }""",
        {"x": (2,), "f": (1,)}),
    "a Loop that leaves at once": ("""
        m (double[2] x, bool[1] f) => (double[2] y, double[k,2] s) { c = Squeeze(f)
          y, s = Loop(, c, x) <body = b (int64 i, bool c, double[2] v) => (c, u, u) { u = Sin(v) }> }""",
        {"x": (2,), "f": (1,)}),
    "a Loop in a Loop of data": ("""
        m (double[2] x, bool[1] f) => (double[2] y) { yes = Constant<value = bool {1}>()  limit = Constant<value = double {40.0}>()
          one = Constant<value = double {1.0}>()
          y = Loop(, yes, x) <body = b (int64 i, bool c, double[2] v) => (go, u)
            { w = Loop(, yes, v) <body = bb (int64 j, bool d, double[2] p) => (e, q)
                { q = Add(p, one)  r = ReduceMax<keepdims = 0>(q)  k = Cast<to = 11>(i)  top = Add(k, one)  e = Less(r, top) }>
              u = Identity(w)  h = ReduceMin<keepdims = 0>(u)  go = Less(h, limit) }> }""", {"x": (2,), "f": (1,)}),
}

# What must be refused, with words of the message. `train`: only training refuses it.
REFUSED = {
    "Scaler with too many numbers": ("""
        m (double[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler<offset = [1.0, 2.0, 3.0]>(x) }""",
        ["\"offset\" has 3 numbers, which do not fit the last axis"]),
    "a function that calls itself": ("""
        m (double[2] x) => (double[2] y) { y = my.f(x) }
        <domain: "my", %s> f (x) => (y) { y = my.f(x) }""", ["function my.f calls itself"]),
    "two functions that call each other": ("""
        m (double[2] x) => (double[2] y) { y = my.f(x) }
        <domain: "my", %s> f (x) => (y) { y = my.g(x) }
        <domain: "my", %s> g (x) => (y) { c = Constant<value = bool {1}>()
          y = If(c) <then_branch = t () => (t) { t = my.f(x) }, else_branch = e () => (e) { e = Neg(x) }> }""",
        ["function my.", "calls itself"]),
    "too many inputs": ("""
        m (double[2] x) => (double[2] y) { y = my.f(x, x) }
        <domain: "my", %s> f (x) => (y) { y = Neg(x) }""", ["1 inputs", "with 2 inputs"]),
    "an unknown parameter": ("""
        m (double[2] x) => (double[2] y) { y = my.f<beta = 1.0>(x) }
        <domain: "my", %s> f <alpha> (x) => (y) { y = Neg(x) }""", ["no parameter", "beta"]),
    "a parameter of another type": ("""
        m (double[2] x) => (double[2] y) { y = my.f<axis = 1.0>(x) }
        <domain: "my", %s> f <axis> (x) => (y) { y = Softmax<axis: int = @axis>(x) }""", ["another type", "axis"]),
    "an operator inside that is not there": ("""
        m (double[2] x) => (double[2] y) { y = my.f(x) }
        <domain: "my", %s> f (x) => (y) { y = Nothing(x) }""", ["operator ai.onnx.Nothing is not supported"]),
    "a position beyond the sequence": ("""
        m (double[2] x) => (double[1] y) { s = SplitToSequence(x)  i = Constant<value_int = 2>()  y = SequenceAt(s, i) }""",
        ["SequenceAt", "its position is 2 of a sequence of 2"]),
    "a loop without end": ("""
        m (double[2] x) => (double[2] y) { yes = Constant<value = bool {1}>()
          y = Loop(, yes, x) <body = b (int64 i, bool c, double[2] v) => (c, u) { u = Neg(v) }> }""",
        ["Loop", "does not end"]),
}

# Too large to be written out, and no loop of equal iterations: the message says why.
def large(body, more="", iterations=50000):
    return f"""m (double[2] x) => (double[n] y) {{ n = Constant<value_int = {iterations}>()  {more}
        y = Loop(n, , x) <body = b (int64 i, bool c, double[n] v) => (c, u) {{ {body} }}> }}"""


LIMIT = ["Loop", "50000 iterations", "the limit for nodes of subgraphs", "cannot run as a loop"]
REFUSED.update({
    "a large Loop whose state grows": (large("a = Neg(v)  b = Tanh(a)  u = Concat<axis = 0>(b, v)"),
                                       LIMIT + ["state 0 is double[2] before an iteration and double[4] after it"]),
    "a large Loop whose shapes depend on the iteration": (
        large("one = Constant<value = int64[1] {1}>()  s = Reshape(i, one)  r = Expand(v, s)  u = Slice(r, z, t)",
              "z = Constant<value = int64[1] {0}>()  t = Constant<value = int64[1] {2}>()"), LIMIT + ["Expand"]),
    "a large Loop that draws numbers": (large("r = RandomNormalLike(v)  s = Add(v, r)  u = Tanh(s)"), LIMIT + ["drawn"]),
    "Loops of too many iterations": (
        large("u = Loop(n, , v) <body = bb (int64 j, bool d, double[n] p) => (d, q) { q = Neg(p) }>", iterations=5000),
        ["Loop", "5000 iterations", "the limit of a loop"]),
})

TRAINED = ["large Loop in an If, with a function", "Loop of 10,000 iterations",
           "function called twice", "functions in functions with references", "If on a shape", "Loop of three iterations",
           "function in a Loop", "Scan backwards along another axis", "parts of a sequence"]

passed = failures = 0


# FlexAttention, whose graphs may read what is around them, and what it stands for.
HEADS = "double[2,4,3,5] q, double[2,2,6,5] k, double[2,2,6,7] v"
HEAD_SHAPES = {"q": (2, 4, 3, 5), "k": (2, 2, 6, 5), "v": (2, 2, 6, 7)}
EVERY_HEAD = """five = Constant<value = int64[5] {2, 2, 2, 6, 5}>()  seven = Constant<value = int64[5] {2, 2, 2, 6, 7}>()
          axis = Constant<value = int64[1] {2}>()  k4 = Constant<value = int64[4] {2, 4, 6, 5}>()
          v4 = Constant<value = int64[4] {2, 4, 6, 7}>()
          k1 = Unsqueeze(k, axis)  k2 = Expand(k1, five)  k3 = Reshape(k2, k4)  kt = Transpose<perm = [0, 1, 3, 2]>(k3)
          v1 = Unsqueeze(v, axis)  v2 = Expand(v1, seven)  v3 = Reshape(v2, v4)"""


def flex(graphs):
    return f"m ({HEADS}) => (double[2,4,3,7] y) {{ y = ai.onnx.preview.FlexAttention(q, k, v) <{graphs}> }}"


def written_out(scale, score_mod="s = Identity(x)", prob_mod="w = Identity(p)"):
    return f"""m ({HEADS}) => (double[2,4,3,7] y) {{ {EVERY_HEAD}
          by = Constant<value = double {{{scale}}}>()  qk = MatMul(q, kt)  x = Mul(qk, by)
          {score_mod}  p = Softmax<axis = -1>(s)  {prob_mod}  y = MatMul(w, v3) }}"""


ADD_BIAS, CAP = "t = Tanh(x)  s = Add(t, bias)", "r = Relu(p)  w = Mul(r, p)"
HIDE = """low = Constant<value = double {-inf}>()  n = Constant<value = int64 {6}>()  h = Constant<value = int64 {3}>()
          o = Constant<value = int64 {0}>()  e = Constant<value = int64 {1}>()  j = Range(o, n, e)  i = Range(o, h, e)
          last = Constant<value = int64[1] {1}>()  i1 = Unsqueeze(i, last)  see = LessOrEqual(j, i1)  s = Where(see, x, low)"""
MODELS.update({
    "FlexAttention without graphs": (flex("scale = 0.3"), HEAD_SHAPES, {}, written_out(0.3)),
    "FlexAttention with both graphs": (
        flex(f"score_mod = a (double[2,4,3,6] x) => (double[2,4,3,6] s) {{ {ADD_BIAS} }}, "
             f"prob_mod = b (double[2,4,3,6] p) => (double[2,4,3,6] w) {{ {CAP} }}"),
        HEAD_SHAPES, {"bias": (4, 3, 6)}, written_out(5 ** -0.5, ADD_BIAS, CAP)),
    "FlexAttention with a causal mask": (
        flex(f"score_mod = a (double[2,4,3,6] x) => (double[2,4,3,6] s) {{ {HIDE} }}"), HEAD_SHAPES, {},
        written_out(5 ** -0.5, HIDE)),
    "FlexAttention with weights that are changed": (
        flex(f"prob_mod = b (double[2,4,3,6] p) => (double[2,4,3,6] w) {{ {CAP} }}"), HEAD_SHAPES, {},
        written_out(5 ** -0.5, prob_mod=CAP)),
})


def small_flex(graphs, heads="2"):
    return f"""m (double[2] x) => (double[1,2,1,2] y) {{ shape = Constant<value = int64[4] {{1, {heads}, 1, 2}}>()
          two = Constant<value = int64[4] {{1, 2, 1, 2}}>()  q = Expand(x, shape)  k = Expand(x, two)
          y = ai.onnx.preview.FlexAttention(q, k, k) <{graphs}> }}"""


REFUSED.update({
    "FlexAttention whose graph changes the shape": (
        small_flex("score_mod = a (double[1,2,1,1] s) => (double[1,1,2,1] t) { t = Transpose<perm = [0, 2, 1, 3]>(s) }"),
        ["FlexAttention", "score_mod gives double [1, 1, 2, 1], wants double [1, 2, 1, 1]"]),
    "FlexAttention whose graph changes the type": (
        small_flex("prob_mod = b (double[1,2,1,1] p) => (float[1,2,1,1] w) { w = Cast<to = 1>(p) }"),
        ["FlexAttention", "prob_mod gives float"]),
    "FlexAttention whose graph has two inputs": (
        small_flex("prob_mod = b (double[1,2,1,1] p, double[1,2,1,1] z) => (double[1,2,1,1] w) { w = Add(p, z) }"),
        ["FlexAttention", "prob_mod has 2 inputs and 1 outputs, wants 1 and 1"]),
    "FlexAttention of no float type": (small_flex("softmax_precision = 7"), ["FlexAttention", "softmax_precision is 7"]),
    "FlexAttention with heads that do not fit": (small_flex("scale = 1.0", "3"), ["FlexAttention", "a part of the heads"]),
})


def report(name, problem):
    global passed, failures
    passed += not problem
    failures += bool(problem)
    print(f"FAIL {name}: {problem}" if problem else f"ok   {name}", flush=True)


def numbers(name, shape):
    if isinstance(shape, bool):
        return np.array(shape)
    return np.random.default_rng([ord(c) for c in name]).uniform(-1.2, 1.2, shape)


def parse(text, initializers=()):
    model = onnx.parser.parse_model(HEADER + text.replace("%s", OTHER))
    for name, shape in dict(initializers).items():
        model.graph.initializer.append(numpy_helper.from_array(numbers(name, shape), name))
    return model


def run_ztrain(ztrain, *arguments):
    done = subprocess.run([ztrain, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def reference_outputs(model, feed):
    """onnxruntime's, or onnx's own evaluator's where onnxruntime does not take the model, which may be a session already."""
    try:
        session = model if isinstance(model, onnxruntime.InferenceSession) else onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:  # its own classes share no other base
        session = onnx.reference.ReferenceEvaluator(model)
    return [np.asarray(y) for y in session.run(None, feed)]


def tensors_of(graph):
    """Float initializers of a graph and of the graphs inside it."""
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.DOUBLE:
            yield tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from tensors_of(attribute.g)


def looked_at(array):
    """Which elements are held against finite differences: of many, some."""
    return np.random.default_rng(array.size).permutation(array.size)[:24]


def derivative(loss, array):
    """Of the elements that are looked at."""
    slope, flat = [], array.reshape(-1)
    for i in looked_at(array):
        kept, step = flat[i], 1e-5
        flat[i] = kept + step
        up = loss()
        flat[i] = kept - step
        slope.append((up - loss()) / (2 * step))
        flat[i] = kept
    return np.array(slope)


def compare(name, have, want):
    if have.shape != want.shape or have.dtype != want.dtype:
        return f"{name} is {have.dtype}{have.shape}, wants {want.dtype}{want.shape}"
    if have.dtype in (np.uint8, np.int8):  # of quantization: one step
        return "" if np.max(np.abs(have.astype(int) - want), initial=0) <= 1 else f"{name} is {have.tolist()}, wants {want.tolist()}"
    worst = np.max(np.abs(have - want), initial=0) if have.dtype != bool else np.any(have != want)
    within = 2e-6 if have.dtype == np.float32 else 1e-6
    return "" if worst <= within * max(1, np.max(np.abs(want), initial=0)) else f"{name} is off by {worst:.2e}"


def compare_slope(name, have, loss, array):
    if have.shape != array.shape:
        return f"gradient of {name} has shape {have.shape}, wants {array.shape}"
    return compare(f"gradient of {name}", have.reshape(-1)[looked_at(array)], derivative(loss, array))


def check_gradients(ztrain, model, feed, folder, out):
    code, text = run_ztrain(ztrain, "grad", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", out)
    if code:
        return f"grad ended with {code}: {text.strip()}"
    params = dict(np.load(out / "grad_params.npz"))

    def loss():
        return sum(np.sum(y) for y in reference_outputs(model, feed) if y.dtype == np.float64)

    for i, value in enumerate(model.graph.input):
        if feed[value.name].dtype == np.float64:
            have = numpy_helper.to_array(onnx.load_tensor(out / f"grad_input_{i}.pb"))
            problem = compare_slope(value.name, have, loss, feed[value.name])
            if problem:
                return problem
    for tensor in tensors_of(model.graph):
        array = numpy_helper.to_array(tensor).copy()

        def moved():
            tensor.raw_data = array.tobytes()
            return loss()

        problem = compare_slope(tensor.name, params[tensor.name], moved, array)
        tensor.raw_data = array.tobytes()
        if problem:
            return problem
    return ""


def check(ztrain, model, reference, shapes, folder):
    """Outputs and gradients; '' or what is wrong."""
    feed = {name: numbers(name, shape) for name, shape in shapes.items()}
    return check_outputs(ztrain, model, reference, feed, folder) or check_gradients(ztrain, reference, feed, folder, folder / "grad")


def check_predicted(ztrain, text, shapes, folder):
    model, feed = parse(text), {name: numbers(name, shape) for name, shape in shapes.items()}
    feed["f"] = np.array([False])
    return check_outputs(ztrain, model, model, feed, folder)


def check_outputs(ztrain, model, reference, feed, folder):
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "in.npz", **feed)
    code, text = run_ztrain(ztrain, "predict", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "out")
    if code:
        return f"predict ended with {code}: {text.strip()}"
    have = np.load(folder / "out" / "outputs.npz")
    for value, want in zip(model.graph.output, reference_outputs(reference, feed)):
        problem = compare(value.name, have[value.name], want)
        if problem:
            return problem
    return ""


def session_of(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def check_microsoft(ztrain, text, inputs, folder, outputs=None, smooth=None):
    """Outputs beside onnxruntime's of the same file, or of `outputs`, in float, and the derivative by each input in one direction beside
    differences of these, or of those of `smooth`."""
    model, reference, slope = (parse(t) for t in (text, outputs or text, smooth or outputs or text))
    for m, t in ((model, text), (reference, outputs or text), (slope, smooth or outputs or text)):
        m.opset_import[0].version = 14 if "LayerNormalization<axis = 1" in t else OPSETS.get(t, 18)
    feed = {k: v if isinstance(v, np.ndarray) else numbers(k, v).astype(np.float32) for k, v in inputs.items()}
    problem = check_outputs(ztrain, model, session_of(reference), feed, folder)
    return problem or check_direction(ztrain, model, session_of(slope), feed, folder)


def check_direction(ztrain, model, session, feed, folder):
    code, said = run_ztrain(ztrain, "grad", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "grad")
    if code:
        return f"grad ended with {code}: {said.strip()}"
    for i, (name, value) in enumerate((v.name, feed[v.name]) for v in model.graph.input):
        if value.dtype != np.float32:
            continue
        direction = numbers(name + "'", value.shape)
        up, down = (sum(y.sum(dtype=np.float64) for y in session.run(None, feed | {name: (value + step * direction).astype(np.float32)}))
                    for step in (0.002, -0.002))
        have = np.sum(direction * numpy_helper.to_array(onnx.load_tensor(folder / "grad" / f"grad_input_{i}.pb")))
        if not abs(have - (up - down) / 0.004) <= 0.01 * max(1, abs(have)):
            return f"the derivative by {name} is {have}, by differences {(up - down) / 0.004}"
    return ""


def check_quantized(ztrain, text, inputs, folder, smooth=None):
    """The same of operators of integers, whose outputs may be a step of their scale apart; gradients where `smooth` has their derivatives."""
    if smooth:
        return check_microsoft(ztrain, text, inputs, folder, smooth=smooth)
    model = parse(text)
    feed = {k: v if isinstance(v, np.ndarray) else numbers(k, v).astype(np.float32) for k, v in inputs.items()}
    return check_outputs(ztrain, model, session_of(model), feed, folder)


# ---- training

def as_float(model):
    """The model in float with a batch of its first axis, and one scalar loss behind its first output."""
    text = model.SerializeToString()
    model = onnx.ModelProto.FromString(text)

    def change(graph):
        for tensor in graph.initializer:
            if tensor.data_type == onnx.TensorProto.DOUBLE:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        change_nodes(graph.node)

    def change_nodes(nodes):
        for node in nodes:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    change(attribute.g)
                if attribute.HasField("t") and attribute.t.data_type == onnx.TensorProto.DOUBLE:
                    attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float32)))
                if attribute.name == "to" and attribute.i == onnx.TensorProto.DOUBLE:
                    attribute.i = onnx.TensorProto.FLOAT

    change(model.graph)
    for function in model.functions:
        change_nodes(function.node)
    model.graph.node.append(onnx.helper.make_node("ReduceSumSquare", [model.graph.output[0].name], ["loss"], keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    model.producer_name, model.doc_string = "a test", "kept as it is"
    onnx.helper.set_model_props(model, {"key": "value"})
    return model


def without_weights(path):
    model = onnx.load(path)
    weights = [t.raw_data for t in tensors_of(model.graph)]
    for tensor in [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]:
        weights.append(tensor.raw_data)
        tensor.raw_data = b""
    return weights, model.SerializeToString()


def train(ztrain, model, shapes, folder, *options, freeze=()):
    """What training leaves: the losses and the path of the model, or None and the message."""
    folder.mkdir()
    onnx.save(model, folder / "m.onnx")
    batch = next(iter(shapes.values()))[0]
    np.savez(folder / "data.npz", **{name: numbers(name, shape).astype(np.float32) for name, shape in shapes.items()})
    config = {"train_batch_size": batch, "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
              "ztrain": {"data": {"format": "npz", "path": "data.npz", "shuffle": False}, "steps": 5, "freeze": list(freeze),
                         "loss": {"type": "output", "output": "loss"}}}
    (folder / "c.json").write_text(json.dumps(config))
    code, text = run_ztrain(ztrain, "--model", folder / "m.onnx", "--config", folder / "c.json", "--output", folder / "out", *options)
    if code:
        return None, f"training ended with {code}: {text.strip()}"
    rows = [json.loads(line) for line in open(folder / "out" / "metrics.jsonl")]
    return [row["loss"] for row in rows], folder / "out" / "model.onnx"


def check_training(ztrain, model, shapes, folder):
    model = as_float(model)
    losses, path = train(ztrain, model, shapes, folder / "as it stands")
    plain, other = train(ztrain, onnx.inliner.inline_local_functions(model), shapes, folder / "written out")
    if losses is None or plain is None:
        return path if losses is None else other
    if losses != plain or not losses[-1] < losses[0]:
        return f"the losses are {losses}, written out {plain}"
    before, after = without_weights(folder / "as it stands" / "m.onnx"), without_weights(path)
    if before[0] == after[0]:
        return "no weight has changed"
    if before[1] != after[1]:
        return "more than the weights has changed in the file"
    if after[0] != without_weights(other)[0]:
        return "the weights differ from those of the model written out"
    return ""


# ---- a loop that runs as one

def loop_in_parts(parts, iterations):
    """`iterations` iterations of one recurrence in so many Loops, one behind the other."""
    text = "h0 = MatMul(x, a)\n"
    for k in range(parts):
        text += f"""n{k} = Constant<value_int = {iterations // parts}>()
            h{k + 1} = Loop(n{k}, , h{k}) <body = b{k} (int64 i{k}, bool c{k}, double[n,4] v{k}) => (c{k}, u{k})
              {{ m{k} = MatMul(v{k}, w)  s{k} = Add(m{k}, h0)  u{k} = Tanh(s{k}) }}>\n"""
    return parse(f"m (double[n,3] x) => (double[n,4] y) {{ {text}  y = Identity(h{parts}) }}", {"a": (3, 4), "w": (4, 4)})


def plan_of(ztrain, folder):
    return subprocess.run([ztrain, "plan", "--model", folder / "m.onnx", "--config", folder / "c.json"],
                          capture_output=True, text=True, timeout=120).stdout


def check_running(ztrain, folder):
    """10,000 iterations in one Loop, which runs as one node, leave what ten Loops of 1,000 iterations written out leave."""
    folder.mkdir(exist_ok=True)
    shapes = {"x": (8, 3)}
    losses, path = train(ztrain, as_float(loop_in_parts(1, 10000)), shapes, folder / "loop")
    written, other = train(ztrain, as_float(loop_in_parts(10, 10000)), shapes, folder / "written")
    if losses is None or written is None:
        return path if losses is None else other
    plans = [plan_of(ztrain, folder / name) for name in ("loop", "written")]
    if "LoopRun " not in plans[0] or plans[0].count("Tanh") > 4 or "LoopRun" in plans[1] or plans[1].count("Tanh") < 10000:
        return "the plans are not those of a loop and of one written out"
    if not np.allclose(losses, written, rtol=1e-6, atol=0) or not losses[-1] < losses[0]:
        return f"the losses are {losses}, written out {written}"
    return "" if without_weights(path)[0] == without_weights(other)[0] else "the weights differ from those written out"


def check_memory(ztrain, folder):
    """A step keeps what the states of all iterations take, and nothing that grows with the nodes."""
    peak = {}
    for iterations in (10000, 40000):
        code, said = train(ztrain, as_float(loop_in_parts(1, iterations)), {"x": (8, 3)}, folder / str(iterations))
        if code is None:
            return said
        text = plan_of(ztrain, folder / str(iterations))
        peak[iterations] = int(re.search(r"^rank 0 +.* (\d+)$", text, re.M).group(1))
    states = 30000 * 8 * 4 * 4  # more iterations x samples x state x bytes
    return "" if peak[40000] - peak[10000] == states else f"the plan's bytes are {peak}"


def check_threads(ztrain, folder):
    """1 and 2 threads leave the same bits."""
    left = []
    for threads in (1, 2):
        losses, path = train(ztrain, as_float(loop_in_parts(1, 10000)), {"x": (8, 3)}, folder / str(threads), "--threads", threads)
        if losses is None:
            return path
        left.append((losses, without_weights(path)[0]))
    return "" if left[0] == left[1] else "1 and 2 threads differ"


# ---- a batch that the file fixes, in front of a Scan

def scan_model(batch, steps):
    """A Scan over so many steps behind a Reshape and a Transpose; `batch` a number, or "n" for any."""
    shape = -1 if batch == "n" else batch
    widen = "sx = Shape<end = 1>(x)  two = Constant<value = int64[1] {2}>()  hs = Concat<axis = 0>(sx, two)  h1 = Expand(h0, hs)"
    return parse(f"""
        m (double[{batch},{2 * steps}] x) => (double[{batch},2] y) {{
          shape = Constant<value = int64[3] {{{shape}, {steps}, 2}}>()  r = Reshape(x, shape)  t = Transpose<perm = [1, 0, 2]>(r)
          {widen if batch == "n" else ""}
          h, ys = Scan<num_scan_inputs = 1, body = step (double[k,2] before, double[k,2] xt) => (double[k,2] after, double[k,2] y)
            {{ m = Mul(xt, w)  s = Add(before, m)  after = Tanh(s)  y = Identity(after) }}>(h1, t)
          axis = Constant<value = int64[1] {{0}}>()  mean = ReduceMean<keepdims = 0>(ys, axis)  y = Add(h, mean) }}""", {"w": (2,)})


def check_rebound_scan(ztrain, batch, steps, folder):
    """A file that fixes a batch of 4 trains at `batch` as one that takes any."""
    feed = {"x": (batch, 2 * steps)}
    losses = []
    for fixed in (4, "n"):
        model = scan_model(fixed, steps)
        model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 2) if fixed == "n" else (4, 2)), "h0" if fixed == "n" else "h1"))
        model = as_float(model)
        got, message = train(ztrain, model, feed, folder / str(fixed), freeze=["h?"])
        if got is None:
            return message
        losses.append(got)
    same = losses[0] == losses[1] and losses[0][-1] < losses[0][0]
    return "" if same else f"the losses are {losses[0]}, of the file that takes any batch {losses[1]}"


# ---- what is refused

def check_refused(ztrain, text, words, folder):
    """By `grad`, which keeps all iterations: `predict` may run some of these one by one."""
    onnx.save(parse(text), folder / "m.onnx")
    np.savez(folder / "in.npz", x=numbers("x", (2,)))
    code, said = run_ztrain(ztrain, "grad", "--model", folder / "m.onnx", "--inputs", folder / "in.npz", "--output", folder / "out")
    missing = [w for w in words if w not in said]
    return f"ended with {code}: {said.strip()}" if code != 3 or missing else ""


def bomb(levels):
    """Each function calls the next twice: 2^levels nodes."""
    text = "m (double[2] x) => (double[2] y) { y = my.f0(x) }\n"
    for i in range(levels):
        text += f'<domain: "my", %s> f{i} (x) => (y) {{ a = my.f{i + 1}(x)  y = my.f{i + 1}(a) }}\n'
    return text + f'<domain: "my", %s> f{levels} (x) => (y) {{ y = Neg(x) }}\n'


def chain(levels):
    text = "m (double[2] x) => (double[2] y) { y = my.f0(x) }\n"
    for i in range(levels):
        text += f'<domain: "my", %s> f{i} (x) => (y) {{ y = my.f{i + 1}(x) }}\n'
    return text + f'<domain: "my", %s> f{levels} (x) => (y) {{ y = Neg(x) }}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ztrain")
    parser.add_argument("--only", default="", help="names that contain this")
    options = parser.parse_args()
    refused = REFUSED | MICROSOFT_REFUSED
    refused["a bomb of functions"] = (bomb(40), ["expands to 1099511627776 nodes", "the limit"])
    refused["a long chain of functions"] = (chain(150), ["more than 100 deep"])
    with tempfile.TemporaryDirectory() as scratch:
        def folder():
            folder.count += 1
            path = pathlib.Path(scratch) / str(folder.count)
            path.mkdir()
            return path
        folder.count = 0
        for name, (text, shapes, initializers, *plain) in MODELS.items():
            if options.only in name:
                model = parse(text, initializers)
                reference = parse(plain[0], initializers) if plain else model
                report(name, check(options.ztrain, model, reference, shapes, folder()))
                if name in TRAINED:
                    report(f"{name}, trained", check_training(options.ztrain, model, shapes, folder()))
        for name, (text, shapes) in PREDICTED.items():
            if options.only in name:
                report(name, check_predicted(options.ztrain, text, shapes, folder()))
        for name, (text, inputs, *outputs) in (MICROSOFT | QONNX).items():
            if options.only in f"com.microsoft {name}":
                report(f"com.microsoft {name}", check_microsoft(options.ztrain, text, inputs, folder(), *outputs))
        for name, (text, inputs, *smooth) in QUANTIZED.items():
            if options.only in f"com.microsoft {name}":
                report(f"com.microsoft {name}", check_quantized(options.ztrain, text, inputs, folder(), *smooth))
        for name, check_loop in {"10,000 iterations in one Loop and in ten": check_running, "memory of a Loop that runs": check_memory,
                                 "threads of a Loop that runs": check_threads}.items():
            if options.only in name:
                report(name, check_loop(options.ztrain, folder()))
        for batch, steps in ((4, 3), (6, 3), (8, 3), (4, 1500), (8, 1000)):
            if options.only in "a Scan behind a batch that the file fixes":
                report(f"a Scan of {steps} steps behind a batch that the file fixes, at {batch}",
                       check_rebound_scan(options.ztrain, batch, steps, folder()))
        for name, (text, words) in refused.items():
            if options.only in name:
                report(name, check_refused(options.ztrain, text, words, folder()))
    print(f"{passed} passed, {failures} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
