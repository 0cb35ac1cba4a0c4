"""Models of onnxruntime's operators of integers for check_lowered.py."""
import numpy as np

# name: (text, {input: shape or array}, text whose derivatives the gradients must have: rounding has derivative 1).
RANDOM = np.random.default_rng(7)
SCALES = """s = Constant<value = float {0.03}>()  t = Constant<value = float {0.011}>()  r = Constant<value = float {0.02}>()
    p = Constant<value = %s {%d}>()  o = Constant<value = %s {%d}>()  z = Constant<value = %s {%d}>()"""


def integers(dtype, *shape):
    low, high = (-128, 128) if dtype == np.int8 else (0, 256)
    return RANDOM.integers(low, high, shape).astype(dtype)


def scales(dtype, *zeros):
    """Scales s, t, r of two operands and a result, zero points p, o, z."""
    return SCALES % tuple(x for zero in zeros for x in (dtype, zero))


def unary(call, shape, result=None, dtype="uint8"):
    zeros = (131, 0, 40) if dtype == "uint8" else (-7, 0, 3)
    text = (f"m ({dtype}[{','.join(map(str, shape))}] x) => ({dtype}[{','.join(map(str, result or shape))}] y) "
            f"{{ {scales(dtype, *zeros)}  y = com.microsoft.{call} }}")
    return text, {"x": integers(np.dtype(dtype).type, *shape)}


def binary(operator, dtype, zeros, shapes=("2,3,4", "3,1")):
    a, b = (tuple(map(int, s.split(","))) for s in shapes)
    return (f"m ({dtype}[{shapes[0]}] a, {dtype}[{shapes[1]}] b) => ({dtype}[2,3,4] y) {{ {scales(dtype, *zeros)} "
            f"y = com.microsoft.{operator}(a, s, p, b, t, o, r, z) }}",
            {"a": integers(np.dtype(dtype).type, *a), "b": integers(np.dtype(dtype).type, *b)})


def bits(n, k, size, count, zeros="", bias="", batch="2,3"):
    """A product with n x k weights of `count` bits; zeros "bytes", "floats", or none."""
    blocks = -(-k // size)
    names = [f"float[{batch},{k}] a", f"uint8[{n},{blocks},{size * count // 8}] b", f"float[{n},{blocks}] s"]
    feed = {"a": (2, 3, k), "b": integers(np.uint8, n, blocks, size * count // 8), "s": (n, blocks)}
    if zeros:
        each = -(-blocks * count // 8) if zeros == "bytes" else blocks
        names.append(f"{'uint8' if zeros == 'bytes' else 'float'}[{n},{each}] z")
        feed["z"] = integers(np.uint8, n, each) if zeros == "bytes" else (n, each)
    if bias:
        names.append(f"float[{n}] c")
        feed["c"] = (n,)
    inputs = f"a, b, s, {'z' if zeros else ''}" + (", , c" if bias else "")
    return (f"m ({', '.join(names)}) => (float[{batch},{n}] y) "
            f"{{ y = com.microsoft.MatMulNBits<K = {k}, N = {n}, bits = {count}, block_size = {size}>({inputs.rstrip(', ')}) }}", feed)


LINEAR = """m (float[3,4] x) => (float[3,4] y) { s = Constant<value = float[4] {0.1, 0.02, 0.05, 0.2}>()  z = Constant<value = int8[4] {1, 0, -3, 4}>()
    q = com.microsoft.QuantizeLinear<axis = 1>(x, s, z)  y = com.microsoft.DequantizeLinear<axis = 1>(q, s, z) }"""
B = """s = Constant<value = float[3] {0.1, 0.02, 0.05}>()  z = Constant<value = uint8[3] {120, 130, 3}>()
    b = Constant<value = uint8[4,3] {1, 240, 9, 130, 120, 7, 0, 255, 4, 31, 128, 2}>()"""
QUANTIZED = {
    "QLinearAdd": binary("QLinearAdd", "uint8", (131, 7, 120)),
    "QLinearAdd of signed bytes": binary("QLinearAdd", "int8", (-3, 7, 12), ("2,1,4", "3,1")),
    "QLinearMul": binary("QLinearMul", "uint8", (131, 7, 120)),
    "QLinearMul of signed bytes": binary("QLinearMul", "int8", (-3, 7, 12)),
    "QLinearSigmoid": unary("QLinearSigmoid(x, s, p, t, z)", (3, 8)),
    "QLinearSigmoid without a zero point": unary("QLinearSigmoid(x, s, , t, z)", (3, 8), dtype="int8"),
    "QLinearLeakyRelu": unary("QLinearLeakyRelu<alpha = 0.2>(x, s, p, t, z)", (3, 8)),
    "QLinearSoftmax": unary("QLinearSoftmax<opset = 13>(x, s, p, t, z)", (3, 4, 5)),
    "QLinearSoftmax of an axis": unary("QLinearSoftmax<opset = 13, axis = 1>(x, s, p, t, z)", (3, 4, 5), dtype="int8"),
    "QLinearSoftmax of opset 12": unary("QLinearSoftmax<opset = 12, axis = 1>(x, s, p, t, z)", (3, 4, 5)),
    "QLinearSoftmax of opset 12 along the last axis": unary("QLinearSoftmax<opset = 12>(x, s, p, t, z)", (3, 4, 5)),
    "QLinearAveragePool": unary("QLinearAveragePool<kernel_shape = [3, 2], pads = [1, 0, 1, 0], strides = [2, 1]>(x, s, p, r, z)", (2, 3, 5, 6), (2, 3, 3, 5)),
    "QLinearAveragePool of channels last": unary("QLinearAveragePool<kernel_shape = [2, 2], channels_last = 1, count_include_pad = 1, pads = [1, 1, 0, 0]>"
                                                 "(x, s, p, r, z)", (2, 5, 6, 3), (2, 5, 6, 3), "int8"),
    "QLinearGlobalAveragePool": unary("QLinearGlobalAveragePool(x, s, p, r, z)", (2, 3, 5, 6), (2, 3, 1, 1)),
    "QLinearGlobalAveragePool of channels last": unary("QLinearGlobalAveragePool<channels_last = 1>(x, s, p, r, z)", (2, 5, 6, 3), (2, 1, 1, 3)),
    "QLinearConv of channels last": ("m (uint8[2,5,6,4] x, uint8[6,2,3,3] w, int32[6] b) => (uint8[2,3,3,6] y) { " + scales("uint8", 131, 120, 120) + """
        y = com.microsoft.QLinearConv<channels_last = 1, group = 2, pads = [1, 1, 1, 1], strides = [2, 2]>(x, s, p, w, t, o, r, z, b) }""",
                                     {"x": integers(np.uint8, 2, 5, 6, 4), "w": integers(np.uint8, 6, 2, 3, 3), "b": np.arange(-300, 300, 100, np.int32)}),
    "NhwcMaxPool": ("m (uint8[2,5,6,3] x) => (uint8[2,3,6,3] y) { y = com.microsoft.NhwcMaxPool<kernel_shape = [3, 1], pads = [1, 0, 1, 0], strides = [2, 1]>(x) }",
                    {"x": integers(np.uint8, 2, 5, 6, 3)}),
    "QLinearConcat": ("m (uint8[2,3] a, uint8[2,4] b) => (uint8[2,7] y) { " + scales("uint8", 131, 7, 120) +
                      " y = com.microsoft.QLinearConcat<axis = 1>(r, z, a, s, p, b, t, o) }", {"a": integers(np.uint8, 2, 3), "b": integers(np.uint8, 2, 4)}),
    "QLinearWhere": ("m (bool[3,1] c, uint8[2,3,4] a, uint8[4] b) => (uint8[2,3,4] y) { " + scales("uint8", 131, 7, 120) +
                     " y = com.microsoft.QLinearWhere(c, a, s, p, b, t, o, r, z) }",
                     {"c": np.array([[True], [False], [True]]), "a": integers(np.uint8, 2, 3, 4), "b": integers(np.uint8, 4)}),
    "QuantizeLinear and DequantizeLinear": (LINEAR, {"x": (3, 4)}, "m (float[3,4] x) => (float[3,4] y) { y = Identity(x) }"),
    "QuantizeLinear without a zero point": ("""m (float[3,4] x) => (uint8[3,4] y) { s = Constant<value = float {0.1}>()
        y = com.microsoft.QuantizeLinear(x, s) }""", {"x": (3, 4)}),
    "a row of quantized operators": ("m (float[3,4] a, float[4] b) => (float[3,4] y) { " + scales("uint8", 128, 120, 130) + """
        f = QuantizeLinear(a, s, p)  g = QuantizeLinear(b, t, o)  h = com.microsoft.QLinearAdd(f, s, p, g, t, o, r, z)
        u = Constant<value = float {0.05}>()  v = Constant<value = uint8 {3}>()
        i = com.microsoft.QLinearMul(h, r, z, h, r, z, u, v)  y = DequantizeLinear(i, u, v) }""", {"a": (3, 4), "b": (4,)},
                                     "m (float[3,4] a, float[4] b) => (float[3,4] y) { h = Add(a, b)  y = Mul(h, h) }"),
    "DynamicQuantizeMatMul": ("m (float[2,5,4] a, float[3] c) => (float[2,5,3] y) { " + B + " y = com.microsoft.DynamicQuantizeMatMul(a, b, s, z, c) }",
                              {"a": (2, 5, 4), "c": (3,)}, "m (float[2,5,4] a, float[3] c) => (float[2,5,3] y) { " + B +
                              " f = Cast<to = 1>(b)  g = Cast<to = 1>(z)  h = Sub(f, g)  d = Mul(h, s)  e = MatMul(a, d)  y = Add(e, c) }"),
    "MatMulIntegerToFloat": ("m (uint8[2,5,4] a, float[3] c) => (float[2,5,3] y) { " + B + """ p = Constant<value = float {0.03}>()
        o = Constant<value = uint8 {7}>()  y = com.microsoft.MatMulIntegerToFloat(a, b, p, s, o, z, c) }""",
                             {"a": integers(np.uint8, 2, 5, 4), "c": (3,)}),
    "QGemm": ("m (uint8[4,5] a, int32[3] c) => (uint8[5,3] y) { " + B + """ p = Constant<value = float {0.01}>()  o = Constant<value = uint8 {7}>()
        t = Constant<value = float {0.8}>()  y = com.microsoft.QGemm<transA = 1, alpha = 0.5>(a, p, o, b, s, z, c, t, o) }""",
              {"a": integers(np.uint8, 4, 5), "c": np.array([900, -100, 40], np.int32)}),
    "QGemm to floats": ("m (uint8[5,3] a, uint8[4,3] b, int32[1,4] c) => (float[5,4] y) { " + scales("uint8", 131, 7, 120) +
                        " y = com.microsoft.QGemm<transB = 1>(a, s, p, b, t, o, c) }",
                        {"a": integers(np.uint8, 5, 3), "b": integers(np.uint8, 4, 3), "c": np.array([[900, -100, 40, 3]], np.int32)}),
    "QAttention": ("""m (uint8[2,3,4] x, uint8[4,12] w, float[12] b, int32[2] k, float[2,2,2,5,2] q) => (float[2,3,4] y, float[2,2,2,8,2] n) {
        s = Constant<value = float {0.01}>()  t = Constant<value = float {0.02}>()  o = Constant<value = uint8 {120}>()
        y, n = com.microsoft.QAttention<num_heads = 2, unidirectional = 1>(x, w, b, s, t, k, o, o, q) }""",
                   {"x": integers(np.uint8, 2, 3, 4), "w": integers(np.uint8, 4, 12), "b": (12,), "k": np.array([7, 8], np.int32), "q": (2, 2, 2, 5, 2)}),
    "QAttention of columns": ("""m (uint8[2,3,4] x, int8[4,12] w, float[12] b, float[12] t, int32[2,3] k) => (float[2,3,4] y) {
        s = Constant<value = float {0.01}>()  y = com.microsoft.QAttention<num_heads = 2>(x, w, b, s, t, k) }""",
                              {"x": integers(np.uint8, 2, 3, 4), "w": integers(np.int8, 4, 12), "b": (12,), "t": np.linspace(0.01, 0.03, 12, dtype=np.float32),
                               "k": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    "MatMulNBits": bits(4, 32, 16, 4, "bytes", "bias"),
    "MatMulNBits of an odd block": bits(3, 40, 16, 4, "bytes"),
    "MatMulNBits without zero points": bits(3, 40, 32, 4),
    "MatMulNBits of numbers as zero points": bits(3, 32, 16, 4, "floats"),
    "MatMulNBits of 8 bits": bits(3, 48, 16, 8, "bytes"),
    "MatMulNBits of 2 bits": bits(3, 80, 16, 2, "bytes"),
    "GatherBlockQuantized": ("m (uint8[6,16] d, int64[2,3] i, float[6,2] s, uint8[6,1] z) => (float[2,3,32] y) "
                             "{ y = com.microsoft.GatherBlockQuantized<block_size = 16, quantize_axis = 1, bits = 4>(d, i, s, z) }",
                             {"d": integers(np.uint8, 6, 16), "i": np.array([[5, 0, 1], [2, 2, 4]]), "s": (6, 2), "z": integers(np.uint8, 6, 1)}),
    "GatherBlockQuantized without zero points": ("m (uint8[6,16] d, int32[3] i, float[6,1] s) => (float[3,16] y) "
                                                 "{ y = com.microsoft.GatherBlockQuantized<block_size = 16, bits = 8>(d, i, s) }",
                                                 {"d": integers(np.uint8, 6, 16), "i": np.array([5, 0, 1], np.int32), "s": (6, 1)}),
}
