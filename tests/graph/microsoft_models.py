"""Models of onnxruntime's operators for check_lowered.py."""
import numpy as np

# name: (text, {input: shape or array}, text for onnxruntime where it has no CPU kernel or refuses the form); floats, as onnxruntime has no
# kernels of double for most of these.
IDS = np.array([[0, 3, 1], [2, 2, 4]], np.int32)
EMBED = "int32[2,3] i, int32[2,3] j, float[5,4] w, float[7,4] p, float[3,4] t, float[4] g, float[4] b"
EMBED_INPUTS = {"i": IDS, "j": np.array([[0, 2, 1], [1, 1, 0]], np.int32), "w": (5, 4), "p": (7, 4), "t": (3, 4), "g": (4,), "b": (4,)}
ATTENTION = "m (float[2,3,4] x, float[4,12] w, float[12] b, int32[%s] k, float[2,2,3,3] a) => (float[2,3,4] y) { y = com.microsoft.Attention<num_heads = 2%s>(x, w, b, %s, , a) }"
ATTENTION_INPUTS = {"x": (2, 3, 4), "w": (4, 12), "b": (12,), "a": (2, 2, 3, 3)}
HEADS = "m (float[2,3,4] q, float[2,5,4] k, float[2,5,6] v, float[14] b, int32[%s] m) => (float[2,3,6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2%s>(q, k, v, b, m) }"
HEADS_INPUTS = {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 6), "b": (14,)}

ROTARY = "m (float[%s] x, int64[%s] p, float[7,%d] c, float[7,%d] s) => (float[%s] y) { y = com.microsoft.RotaryEmbedding%s(x, p, c, s) }"
PRESENT = """m (float[2,3,4] q, float[2,%d,4] k, float[2,%d,4] v, float[12] b, float[2,2,3,2] pk, float[2,2,3,2] pv, int32[2,%d] m) =>
    (float[2,3,4] y, float[2,2,n,2] nk, float[2,2,n,2] nv)
    { y, nk, nv = com.microsoft.MultiHeadAttention<num_heads = 2%s>(q, k, v, b, m, , pk, pv) }"""
GROUPS = "float[2,4,64] q, float[2,4,32] k, float[2,4,32] v"
GROUP_INPUTS = {"q": (2, 4, 64), "k": (2, 4, 32), "v": (2, 4, 32)}
CACHES = {"c": (8, 8), "s": (8, 8)}
LENGTHS = "n = Constant<value = int32[%d] {%s}>()  t = Constant<value = int32 {%d}>()"


def rotary(x, p, half, attributes=""):
    """Of positions p, an array; the caches are any numbers."""
    shape, positions = (",".join(map(str, s)) for s in (x, p.shape))
    return (ROTARY % (shape, positions, half, half, shape, attributes), {"x": x, "p": p, "c": (7, half), "s": (7, half)})


def with_past(rows, mask, attributes):
    """Three past keys and so many new ones."""
    return (PRESENT % (rows, rows, rows + 3, attributes),
            {"q": (2, 3, 4), "k": (2, rows, 4), "v": (2, rows, 4), "b": (12,), "pk": (2, 2, 3, 2), "pv": (2, 2, 3, 2), "m": mask})


def past_part(rows, length, attributes):
    """New rows behind the first `length` ones of 5 past rows, which the new ones fill; the present keys are 5 too, of which those in use are compared."""
    return (f"""m (float[2,{rows},4] q, float[2,{rows},4] k, float[2,{rows},4] v, float[2,2,5,2] pk, float[2,2,5,2] pv, int32[1] n) =>
        (float[2,{rows},4] y, float[2,2,{length + rows},2] sk, float[2,2,{length + rows},2] sv)
        {{ y, nk, nv = com.microsoft.MultiHeadAttention<num_heads = 2{attributes}>(q, k, v, , , , pk, pv, n)
          f = Constant<value = int64[1] {{0}}>()  t = Constant<value = int64[1] {{{length + rows}}}>()  a = Constant<value = int64[1] {{2}}>()
          sk = Slice(nk, f, t, a)  sv = Slice(nv, f, t, a) }}""",
            {"q": (2, rows, 4), "k": (2, rows, 4), "v": (2, rows, 4), "pk": (2, 2, 5, 2), "pv": (2, 2, 5, 2), "n": np.array([length], np.int32)})


def groups(attributes, more="", inputs="", lengths="3, 3", present=True, given=()):
    """A prompt of 4 rows of 4 heads in 2 groups."""
    outs, names = ("float[2,4,64] y, float[2,2,4,16] nk, float[2,2,4,16] nv", "y, nk, nv") if present else ("float[2,4,64] y", "y")
    return (f"m ({GROUPS}{more}) => ({outs}) {{ {LENGTHS % (2, lengths, 4)} "
            f"{names} = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2{attributes}>(q, k, v, , , n, t{inputs}) }}",
            GROUP_INPUTS | dict(given))


def buffer(last, total, attributes, more="", rows=1):
    """New rows of 2 samples behind the first ones of 5 past rows: present keys are as many as the larger of 5 and the total."""
    shape = f"float[2,2,{max(5, total)},16]"
    return (f"""m (float[2,{rows},64] q, float[2,{rows},32] k, float[2,{rows},32] v, float[2,2,5,16] pk, float[2,2,5,16] pv, float[8,8] c, float[8,8] s, float[4] z) =>
        (float[2,{rows},64] y, {shape} nk, {shape} nv) {{ {LENGTHS % (2, last, total)}
          y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2{attributes}>(q, k, v, pk, pv, n, t{more}) }}""",
            {"q": (2, rows, 64), "k": (2, rows, 32), "v": (2, rows, 32), "pk": (2, 2, 5, 16), "pv": (2, 2, 5, 16), "z": (4,)} | CACHES)


def integer_cache(last, total, kind, count):
    """A new row of 2 samples behind past rows of int8. Derivatives: behind these as floats, at the keys and values that rounding gives."""
    rows, random = max(5, total), np.random.default_rng(3)
    feed = {"q": random.normal(size=(2, 1, 64)).astype(np.float32), "k": random.normal(size=(2, 1, 32)).astype(np.float32),
            "v": random.normal(size=(2, 1, 32)).astype(np.float32), "pk": random.integers(-100, 100, (2, 2, 5, 16)).astype(np.int8),
            "pv": random.integers(-100, 100, (2, 2, 5, 16)).astype(np.int8)}
    head = f"""m (float[2,1,64] q, float[2,1,32] k, float[2,1,32] v, int8[2,2,5,16] pk, int8[2,2,5,16] pv) =>
        (float[2,1,64] y, float[2,2,{rows},16] nk, float[2,2,{rows},16] nv) {{ {LENGTHS % (2, last, total)} """
    kinds = f', k_quant_type = "{kind}", v_quant_type = "{kind}", kv_cache_bit_width = 8'
    call = "y, a, b = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2%s>(%s)  nk = Cast<to = 1>(%s)  nv = Cast<to = 1>(%s) }"
    scales = {name: 0.03 + 0.001 * (np.arange(count) * step % 11).astype(np.float32) for name, step in (("s", 3), ("u", 5))}
    text = head + "".join(f"{name} = Constant<value = float[{count}] {{{', '.join(map(str, v))}}}>()  " for name, v in scales.items())
    smooth = head
    for x, name in (("k", "s"), ("v", "u")):
        scale = np.broadcast_to(scales[name], 32)
        moved = (np.rint(feed[x] / scale) * scale - feed[x]).ravel()
        each = np.broadcast_to(scale.reshape(2, 1, 16), (2, 5, 16)).ravel()
        smooth += f"""d{x} = Constant<value = float[2,1,32] {{{', '.join(map(str, moved))}}}>()  r{x} = Add({x}, d{x})
            e{x} = Constant<value = float[2,5,16] {{{', '.join(map(str, each))}}}>()  i{x} = Cast<to = 1>(p{x})  f{x} = Mul(i{x}, e{x})  """
    return (text + call % (kinds, "q, k, v, pk, pv, n, t, , , , , , s, u", "a", "b"), feed, None,
            smooth + call % ("", "q, rk, rv, fk, fv, n, t", "pk", "pv"))


def fused_conv(activation, params="", added=""):
    return (f"m (float[2,3,5,5] x, float[4,3,3,3] w, float[4] b, float[2,4,3,3] z) => (float[2,4,3,3] y) "
            f"{{ c = com.microsoft.FusedConv<activation = \"{activation}\"{params}, pads = [1,1,1,1], strides = [2,2]>(x, w, b{added})  y = Add(c, z) }}",
            {"x": (2, 3, 5, 5), "w": (4, 3, 3, 3), "b": (4,), "z": (2, 4, 3, 3)})


MICROSOFT = {
    "Gelu": ("m (float[3,4] x) => (float[3,4] y) { y = com.microsoft.Gelu(x) }", {"x": (3, 4)}),
    "BiasGelu": ("m (float[3,4] x, float[4] b) => (float[3,4] y) { y = com.microsoft.BiasGelu(x, b) }", {"x": (3, 4), "b": (4,)}),
    "FastGelu": ("m (float[3,4] x, float[4] b) => (float[3,4] y) { h = com.microsoft.FastGelu(x, b)  y = com.microsoft.FastGelu(h) }", {"x": (3, 4), "b": (4,)}),
    "QuickGelu": ("m (float[3,4] x) => (float[3,4] y) { h = com.microsoft.QuickGelu(x)  y = com.microsoft.QuickGelu<alpha = 0.5>(h) }", {"x": (3, 4)}),
    "FusedConv of Relu with a sum": fused_conv("Relu", added=", z"),
    "FusedConv of LeakyRelu": fused_conv("LeakyRelu", ", activation_params = [0.3]"),
    "FusedConv of Clip": fused_conv("Clip", ", activation_params = [-0.5, 1.0]"),
    "FusedConv of HardSigmoid": fused_conv("HardSigmoid", ", activation_params = [0.3, 0.4]"),
    "FusedGemm of Selu": ("""m (float[4,3] a, float[4,5] b) => (float[3,5] y)
        { y = com.microsoft.FusedGemm<transA = 1, activation = "Selu", activation_alpha = 1.5, activation_gamma = 0.75>(a, b) }""",
                          {"a": (4, 3), "b": (4, 5)}),
    "FusedGemm": ("""m (float[4,3] a, float[4,5] b, float[5] c) => (float[3,5] y)
        { y = com.microsoft.FusedGemm<transA = 1, alpha = 0.5, beta = 2.0, activation = "LeakyRelu", activation_alpha = 0.2>(a, b, c) }""",
                  {"a": (4, 3), "b": (4, 5), "c": (5,)}),
    "FusedMatMul": ("""m (float[2,4,3] a, float[2,5,4] b, float[3,2,5] c) => (float[2,3,3] y)
        { h = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = 0.5>(a, b)
          y = com.microsoft.FusedMatMul<transB = 1, transBatchB = 1>(h, c) }""", {"a": (2, 4, 3), "b": (2, 5, 4), "c": (3, 2, 5)}),
    "SimplifiedLayerNormalization": ("""m (float[2,3,4] x, float[4] g) => (float[2,3,4] y)
        { y = SimplifiedLayerNormalization<axis = -1, epsilon = 0.001, stash_type = 1>(x, g) }""", {"x": (2, 3, 4), "g": (4,)}),
    "LayerNormalization of opset 14": ("""m (float[2,3,4] x, float[4] g, float[4] b) => (float[2,3,4] y)
        { s = Constant<value = int64[2] {3, 4}>()  h = Expand(g, s)  k = Expand(b, s)  y = LayerNormalization<axis = 1, epsilon = 0.001>(x, h, k) }""",
                                       {"x": (2, 3, 4), "g": (4,), "b": (4,)}),
    "SkipLayerNormalization": ("""m (float[2,3,4] x, float[2,3,4] s, float[4] g, float[4] b, float[4] c) => (float[2,3,4] y)
        { h, , , k = com.microsoft.SkipLayerNormalization<epsilon = 0.001>(x, s, g, b, c)
          i, , , n = com.microsoft.SkipLayerNormalization(h, k, g, b)  y = Add(i, n) }""", {"x": (2, 3, 4), "s": (2, 3, 4), "g": (4,), "b": (4,), "c": (4,)}),
    "SkipSimplifiedLayerNormalization": ("""m (float[2,3,4] x, float[2,3,4] s, float[4] g, float[4] b) => (float[2,3,4] y)
        { h, , , k = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.001>(x, s, g, b)  y = Mul(h, k) }""",
                                         {"x": (2, 3, 4), "s": (2, 3, 4), "g": (4,), "b": (4,)}),
    "EmbedLayerNormalization": (f"""m ({EMBED}, int32[2,3] k) => (float[2,3,4] y)
        {{ h, n, s = com.microsoft.EmbedLayerNormalization<epsilon = 0.001>(i, j, w, p, t, g, b, k)  c = Cast<to = 1>(n)
          a = Constant<value = int64[2] {{1, 2}}>()  u = Unsqueeze(c, a)  v = Mul(s, u)  y = Add(h, v) }}""",
                                EMBED_INPUTS | {"k": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    "EmbedLayerNormalization without segments": ("""m (int32[2,3] i, float[5,4] w, float[7,4] p, float[4] g, float[4] b, int32[2,3] n) => (float[2,3,4] y)
        { y, k = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b, i, n) }""",
                                                 {k: v for k, v in EMBED_INPUTS.items() if k not in "jt"} | {"n": np.array([[6, 0, 1], [1, 2, 2]], np.int32)}),
    "EmbedLayerNormalization without a mask": ("""m (int32[2,3] i, float[5,4] w, float[7,4] p, float[4] g, float[4] b) => (float[2,3,4] y, int32[2] k)
        { y, k = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b) }""", {k: v for k, v in EMBED_INPUTS.items() if k not in "jt"}),
    "Attention with a mask of keys": (ATTENTION % ("2,3", "", "k"), ATTENTION_INPUTS | {"k": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    "Attention with a mask of lengths": (ATTENTION % ("2", ", scale = 0.3", "k"), ATTENTION_INPUTS | {"k": np.array([2, 3], np.int32)}),
    "Attention with a mask of rows": (ATTENTION % ("2,3,3", ", mask_filter_value = -2.0", "k"),
                                      ATTENTION_INPUTS | {"k": np.tril(np.ones((2, 3, 3), np.int32))}),
    "Attention of one direction": (ATTENTION % ("2", ", unidirectional = 1, qkv_hidden_sizes = [4, 4, 4]", ""), ATTENTION_INPUTS | {"k": np.array([2, 3], np.int32)}),
    "MultiHeadAttention": (HEADS % ("2,5", ", mask_filter_value = -3.0"), HEADS_INPUTS | {"m": np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)}),
    "MultiHeadAttention of a mask of lengths and offsets": (HEADS % ("8", ""), HEADS_INPUTS | {"m": np.array([4, 5, 0, 3, 6, 0, 4, 9], np.int32)}),
    "Attention of a mask of ends and starts": (ATTENTION % ("4", "", "k"), ATTENTION_INPUTS | {"k": np.array([2, 3, 0, 1], np.int32)}),
    "Attention of a mask of lengths and offsets": (ATTENTION % ("8", "", "k"), ATTENTION_INPUTS | {"k": np.array([2, 3, 0, 3, 6, 0, 3, 6], np.int32)}),
    "MultiHeadAttention with past keys": with_past(5, np.array([[1, 1, 0, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]], np.int32), ""),
    "MultiHeadAttention of one direction with past keys": with_past(3, np.array([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]], np.int32), ", unidirectional = 1"),
    "MultiHeadAttention with a part of the past": past_part(1, 3, ""),
    "MultiHeadAttention of both directions with a part of the past": past_part(2, 2, ""),
    "MultiHeadAttention of one direction with a part of the past": past_part(2, 3, ", unidirectional = 1"),
    "MultiHeadAttention of keys by head": ("""m (float[2,3,4] q, float[2,2,5,2] k, float[2,2,5,2] v, float[12] b) => (float[2,3,4] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, b) }""", {"q": (2, 3, 4), "k": (2, 2, 5, 2), "v": (2, 2, 5, 2), "b": (12,)}),
    "MultiHeadAttention of packed keys": ("""m (float[2,3,4] q, float[2,5,2,2,2] k, float[12] b) => (float[2,3,4] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, , b) }""", {"q": (2, 3, 4), "k": (2, 5, 2, 2, 2), "b": (12,)},
        """m (float[2,3,4] q, float[2,5,2,2,2] k, float[12] b) => (float[2,3,4] y)
        { s = Constant<value = int64[3] {2, 5, 4}>()  k0, v0 = Split<axis = 3, num_outputs = 2>(k)  k1 = Reshape(k0, s)  v1 = Reshape(v0, s)
          y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k1, v1, b) }"""),
    "MultiHeadAttention of packed queries": ("""m (float[2,3,2,3,2] q, int32[2,3] m) => (float[2,3,4] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.4>(q, , , , m) }""",
        {"q": (2, 3, 2, 3, 2), "m": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}, """m (float[2,3,2,3,2] q, int32[2,3] m) => (float[2,3,4] y)
        { s = Constant<value = int64[3] {2, 3, 4}>()  q0, k0, v0 = Split<axis = 3, num_outputs = 3>(q)  q1 = Reshape(q0, s)
          k1 = Reshape(k0, s)  v1 = Reshape(v0, s)  y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.4>(q1, k1, v1, , m) }"""),
    "Attention with past keys": ("""m (float[2,3,4] x, float[4,12] w, float[12] b, float[2,2,2,5,2] p) =>
        (float[2,3,4] y, float[2,2,2,8,2] n) { y, n = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, w, b, , p) }""",
                                 {"x": (2, 3, 4), "w": (4, 12), "b": (12,), "p": (2, 2, 2, 5, 2)}),
    "Attention with no past keys yet": ("""m (float[2,3,4] x, float[4,12] w, float[12] b) => (float[2,3,4] y, float[2,2,2,3,2] n)
        { p = Constant<value = float[2,2,2,0,2] {}>()  y, n = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, w, b, , p) }""",
                                        {"x": (2, 3, 4), "w": (4, 12), "b": (12,)}),
    "RotaryEmbedding": rotary((2, 3, 8), np.array([[3, 0, 6], [1, 2, 2]]), 2),
    "RotaryEmbedding from one position on": rotary((2, 3, 8), np.array([2]), 2, "<interleaved = 1>"),
    "RotaryEmbedding by head": rotary((2, 3, 4, 6), np.array([[3, 0, 6, 1], [1, 2, 2, 0]]), 3),
    "RotaryEmbedding of some columns": rotary((2, 3, 16), np.array([[3, 0, 6], [1, 2, 2]]), 2, "<num_heads = 2, rotary_embedding_dim = 4>"),
    "RotaryEmbedding of some columns by head": rotary((2, 2, 3, 8), np.array([3]), 2, "<num_heads = 2, rotary_embedding_dim = 4>"),
    "GroupQueryAttention": groups(""),
    "GroupQueryAttention with padding": groups(", scale = 0.3", lengths="1, 3"),
    "GroupQueryAttention of both directions": groups(", causal = 0", lengths="2, 3", present=False),
    "GroupQueryAttention of a window": groups(", local_window_size = 2"),
    "GroupQueryAttention with a cap and a bias": groups(", softcap = 0.7", ", float[1,4,4,4] a", ", , , , a", given={"a": (1, 4, 4, 4)}),
    "GroupQueryAttention with sinks": groups(", local_window_size = 3, softcap = 0.7", ", float[4] z, float[2,1,4,4] a", ", , , , a, z",
                                             given={"z": (4,), "a": (2, 1, 4, 4)}),
    "GroupQueryAttention of a smooth softmax": groups(", smooth_softmax = 1", lengths="2, 3"),
    "GroupQueryAttention that rotates": groups(", do_rotary = 1, rotary_interleaved = 1", ", float[8,8] c, float[8,8] s", ", c, s", given=CACHES),
    "GroupQueryAttention that rotates from a position on": groups(", do_rotary = 1", ", float[8,8] c, float[8,8] s, int64[2,4] p", ", c, s, p",
                                                                  given=CACHES | {"p": np.array([[2, 3, 4, 5], [0, 1, 2, 3]])}),
    "GroupQueryAttention of packed queries": (f"""m (float[2,4,128] q, float[8,8] c, float[8,8] s, int32[2] n) => (float[2,4,64] y, float[2,2,4,16] k, float[2,2,4,16] v)
        {{ t = Constant<value = int32 {{4}}>()
          y, k, v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>(q, , , , , n, t, c, s) }}""",
                                              {"q": (2, 4, 128), "n": np.array([3, 1], np.int32)} | CACHES),
    "GroupQueryAttention with past keys": (f"""m (float[1,2,64] q, float[1,2,32] k, float[1,2,32] v, float[1,2,3,16] pk, float[1,2,3,16] pv, float[8,8] c, float[8,8] s) =>
        (float[1,2,64] y, float[1,2,5,16] nk, float[1,2,5,16] nv) {{ {LENGTHS % (1, "4", 5)}
          y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1, local_window_size = 3>(q, k, v, pk, pv, n, t, c, s) }}""",
                                           {"q": (1, 2, 64), "k": (1, 2, 32), "v": (1, 2, 32), "pk": (1, 2, 3, 16), "pv": (1, 2, 3, 16)} | CACHES),
    "GroupQueryAttention with a part of the past": buffer("5, 3", 6, ", local_window_size = 3, softcap = 0.7"),
    "GroupQueryAttention with a part of a large past": buffer("3, 1", 4, ", do_rotary = 1", ", c, s"),
    "GroupQueryAttention with a part of the past and sinks": buffer("4, 3", 5, "", ", , , , , z"),
    "GroupQueryAttention of a prompt into a buffer": buffer("1, 1", 2, ", do_rotary = 1", ", c, s", rows=2),
    "GroupQueryAttention with past keys of int8": integer_cache("5, 5", 6, "PER_TENSOR", 1),
    "GroupQueryAttention with a part of past keys of int8, by channel": integer_cache("4, 2", 5, "PER_CHANNEL", 32),
    "BiasSoftmax": ("""m (float[2,3,4,5] x, float[2,1,1,5] b) => (float[2,3,4,5] y)
        { y = com.microsoft.BiasSoftmax<axis = 3, is_inner_broadcast = 1>(x, b) }""", {"x": (2, 3, 4, 5), "b": (2, 1, 1, 5)},
                    "m (float[2,3,4,5] x, float[2,1,1,5] b) => (float[2,3,4,5] y) { s = Add(x, b)  y = Softmax<axis = 3>(s) }"),
    "BiasSoftmax of two axes": ("""m (float[2,3,4,5] x, float[4,5] b) => (float[2,3,4,5] y)
        { y = com.microsoft.BiasSoftmax<axis = -2, is_inner_broadcast = 0>(x, b) }""", {"x": (2, 3, 4, 5), "b": (4, 5)},
                                """m (float[2,3,4,5] x, float[4,5] b) => (float[2,3,4,5] y) { s = Add(x, b)  r = Constant<value = int64[2] {6, 20}>()
        t = Shape(x)  u = Reshape(s, r)  v = Softmax<axis = 1>(u)  y = Reshape(v, t) }"""),
    "BiasSplitGelu": ("m (float[2,3,8] x, float[8] b) => (float[2,3,4] y) { y = com.microsoft.BiasSplitGelu(x, b) }", {"x": (2, 3, 8), "b": (8,)},
                      """m (float[2,3,8] x, float[8] b) => (float[2,3,4] y) { s = Add(x, b)  l, r = Split<axis = -1, num_outputs = 2>(s)
        g = com.microsoft.Gelu(r)  y = Mul(l, g) }"""),
}


# QONNX's Quant beside its formula, and derivatives beside those of the limits alone: name: (text, inputs, formula, smooth formula).
LIMITS = """s = Constant<value = float[%s] {%s}>()  l = Constant<value = float {%g}>()  h = Constant<value = float {%g}>()  z = Constant<value = float {%g}>()
    a = Mul(s, l)  b = Mul(s, h)  c = Max(x, a)  d = Min(c, b)"""


def quant(domain, scales, limits, bits, zero="0", attributes=""):
    """Limits of x / scale: those of the integers less the zero point."""
    shape = "3,1,1" if "," in scales else "1"
    head = "m (float[2,3,4,5] x) => (float[2,3,4,5] y) { " + LIMITS % (shape, scales, *limits, float(zero))
    return (head + f"""  n = Constant<value = float {{{bits}}}>()  y = {domain}.Quant{attributes}(x, s, z, n) }}""", {"x": (2, 3, 4, 5)},
            head + "  e = Div(d, s)  r = Round(e)  y = Mul(r, s) }", head + "  y = Identity(d) }")


QONNX = {
    "Quant of 4 bits": quant("onnx.brevitas", "0.2", (-8, 7), 4),
    "Quant of 3 bits, narrow, by channel": quant("qonnx.custom_op.general", "0.3, 0.1, 0.45", (-3, 3), 3, "0", "<narrow = 1, signed = 1>"),
    "Quant of 5 bits without sign": quant("finn.custom_op.general", "0.06", (-4, 27), 5, "4", '<signed = 0, rounding_mode = "ROUND">'),
    "Quant of 8 bits": quant("onnx.brevitas", "0.01", (-128, 127), 8),
    "Quant of 12 bits": quant("onnx.brevitas", "0.001", (-2048, 2047), 12),
}
LAST = "m (float[2,5,6,3] x, float[4,%s] w, float[4] b) => (float[2,n,m,4] y) { %s }"
LAST_INPUTS = {"x": (2, 5, 6, 3), "b": (4,)}
BACK = "t = Transpose<perm = [0,3,1,2]>(x)  %s  y = Transpose<perm = [0,2,3,1]>(%s)"
MICROSOFT |= {
    "channels last": (LAST % ("3,3,2", """c = com.ms.internal.nhwc.Conv<pads = [1,1,1,0]>(x, w, b)  d = com.ms.internal.nhwc.MaxPool<kernel_shape = [2,2]>(c)
        e = com.ms.internal.nhwc.AveragePool<kernel_shape = [2,1]>(d)  f = com.ms.internal.nhwc.GlobalAveragePool(e)
        g = com.ms.internal.nhwc.GlobalMaxPool(e)  h = Add(f, g)  y = Mul(e, h)"""), LAST_INPUTS | {"w": (4, 3, 3, 2)},
                      LAST % ("3,3,2", BACK % ("""c = Conv<pads = [1,1,1,0]>(t, w, b)  d = MaxPool<kernel_shape = [2,2]>(c)
        e = AveragePool<kernel_shape = [2,1]>(d)  f = GlobalAveragePool(e)  g = GlobalMaxPool(e)  h = Add(f, g)  p = Mul(e, h)""", "p"))),
    "channels last in QONNX": (LAST % ("3,2,3", """c = qonnx.custom_op.channels_last.Conv<strides = [2,1]>(x, w, b)
        y = qonnx.custom_op.channels_last.MaxPool<kernel_shape = [2,2]>(c)"""), LAST_INPUTS | {"w": (4, 3, 2, 3)},
                               LAST % ("3,2,3", BACK % ("v = Transpose<perm = [0,3,1,2]>(w)  c = Conv<strides = [2,1]>(t, v, b)  d = MaxPool<kernel_shape = [2,2]>(c)", "d"))),
}

# ONNX's experimental operators, in opset 9.
IMAGE = {"x": (2, 3, 5, 6)}
EXPERIMENTAL_MODELS = {
    "Affine": ("m (float[3,4] x) => (float[3,4] y) { y = Affine<alpha = 0.5, beta = -1.5>(x) }", {"x": (3, 4)}),
    "Crop": ("m (float[2,3,5,6] x) => (float[2,3,2,2] y) { y = Crop<border = [1, 2, 3, 1]>(x) }", IMAGE),
    "Crop to a size": ("m (float[2,3,5,6] x) => (float[2,3,3,4] y) { y = Crop<border = [2, 1, 0, 0], scale = [3, 4]>(x) }", IMAGE),
    "ImageScaler": ("m (float[2,3,5,6] x) => (float[2,3,5,6] y) { y = ImageScaler<bias = [0.5, -1.0, 2.0], scale = 0.25>(x) }", IMAGE),
    "ParametricSoftplus": ("m (float[3,4] x) => (float[3,4] y) { y = ParametricSoftplus<alpha = 0.5, beta = 2.0>(x) }", {"x": (3, 4)}),
    "ScaledTanh": ("m (float[3,4] x) => (float[3,4] y) { y = ScaledTanh<alpha = 1.5, beta = 0.5>(x) }", {"x": (3, 4)}),
    "ThresholdedRelu of opset 9": ("m (float[3,4] x) => (float[3,4] y) { y = ThresholdedRelu<alpha = 0.5>(x) }", {"x": (3, 4)}),
    "DynamicSlice": ("""m (float[5,6] x) => (float[2,6] y) { f = Constant<value = int64[1] {1}>()  t = Constant<value = int64[1] {3}>()
        a = Constant<value = int64[1] {0}>()  y = DynamicSlice(x, f, t, a) }""", {"x": (5, 6)}),
}
MICROSOFT |= EXPERIMENTAL_MODELS

# Operators of TensorFlow, as tf2onnx leaves them.
EXPONENTIAL = "m (float[3,4] x) => (float[3,4] y) { %s }"
TENSORFLOW = {
    "Erfc of TensorFlow": (EXPONENTIAL % "y = Erfc(x)", {"x": (3, 4)}, EXPONENTIAL % "o = Constant<value = float {1.0}>()  e = Erf(x)  y = Sub(o, e)"),
    "Expm1 of TensorFlow": (EXPONENTIAL % "y = Expm1(x)", {"x": (3, 4)}, EXPONENTIAL % "o = Constant<value = float {1.0}>()  e = Exp(x)  y = Sub(e, o)"),
    "Log1p of TensorFlow": (EXPONENTIAL % "s = Mul(x, x)  y = Log1p(s)", {"x": (3, 4)}, EXPONENTIAL % "o = Constant<value = float {1.0}>()  s = Mul(x, x)  e = Add(s, o)  y = Log(e)"),
}
MICROSOFT |= TENSORFLOW

# Forms before opset 7: name: (opset, text, inputs, the same in opset 18).
X = {"x": (2, 3, 4, 5)}


def form(opset, inputs, nodes, plain, shapes, result="2,3,4,5"):
    head = f"m ({inputs}) => (float[{result}] y) {{ %s }}"
    return opset, head % nodes, shapes, head % plain


def of_x(opset, nodes, plain, result="2,3,4,5"):
    return form(opset, "float[2,3,4,5] x", nodes, plain, X, result)


FIRST_FORMS = {
    "Add and Mul along an axis": form(6, "float[2,3,4,5] x, float[3] b, float[3,4] c", "h = Add<broadcast = 1, axis = 1>(x, b)  y = Mul<broadcast = 1, axis = 1>(h, c)",
                                      """t = Constant<value = int64[2] {1, 2}>()  u = Constant<value = int64[1] {2}>()  b1 = Unsqueeze(b, t)  c1 = Unsqueeze(c, u)
                                         h = Add(x, b1)  y = Mul(h, c1)""", X | {"b": (3,), "c": (3, 4)}),
    "Sub and Div of the last axes": form(6, "float[2,3,4,5] x, float[4,5] b, float[1] c",
                                         "h = Sub<broadcast = 1>(x, b)  k = Constant<value = float[5] {1, 2, 3, 4, 5}>()  d = Div<broadcast = 1, axis = 3>(h, k)  y = Mul<broadcast = 1, axis = 0>(d, c)",
                                         "h = Sub(x, b)  k = Constant<value = float[5] {1, 2, 3, 4, 5}>()  d = Div(h, k)  y = Mul(d, c)", X | {"b": (4, 5), "c": (1,)}),
    "Pow, Greater and Xor": form(6, "float[2,3,4,5] x, float[3] b", """e = Constant<value = float[1] {2}>()  p = Pow<broadcast = 1>(x, e)  g = Greater<broadcast = 1, axis = 1>(x, b)
        i = Less<broadcast = 1, axis = 1>(p, b)  o = Xor(g, i)  f = Cast<to = 1>(o)  y = Add(p, f)""",
                                 """e = Constant<value = float[1] {2}>()  t = Constant<value = int64[2] {1, 2}>()  c = Unsqueeze(b, t)  p = Pow(x, e)  g = Greater(x, c)
        i = Less(p, c)  o = Xor(g, i)  f = Cast<to = 1>(o)  y = Add(p, f)""", X | {"b": (3,)}),
    "PRelu and Gemm": form(6, "float[2,3,4,5] x, float[3] s, float[60,4] w, float[4] b", """p = PRelu(x, s)  f = Flatten(p)  y = Gemm<broadcast = 1, alpha = 0.5>(f, w, b)""",
                           """t = Constant<value = int64[2] {1, 2}>()  u = Unsqueeze(s, t)  p = PRelu(x, u)  f = Flatten(p)  y = Gemm<alpha = 0.5>(f, w, b)""",
                           X | {"s": (3,), "w": (60, 4), "b": (4,)}, "2,4"),
    "BatchNormalization and Dropout": form(6, "float[2,3,4,5] x, float[3] s, float[3] b, float[3] m", """v = Abs(s)  n = BatchNormalization<is_test = 1, epsilon = 0.01>(x, s, b, m, v)
        y, k = Dropout<is_test = 1>(n)""", "v = Abs(s)  y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v)", X | {"s": (3,), "b": (3,), "m": (3,)}),
    "BatchNormalization that trains": form(6, "float[2,3,4,5] x, float[3] s, float[3] b, float[3] m", "v = Abs(s)  y = BatchNormalization(x, s, b, m, v)",
                                           """v = Abs(s)  a = Constant<value = int64[3] {0, 2, 3}>()  t = Constant<value = int64[2] {1, 2}>()  z = ReduceMean(x, a)  c = Sub(x, z)  q = Mul(c, c)
        r = ReduceMean(q, a)  e = Constant<value = float {0.00001}>()  i = Add(r, e)  j = Sqrt(i)  d = Div(c, j)  s1 = Unsqueeze(s, t)  b1 = Unsqueeze(b, t)
        f = Mul(d, s1)  g = Add(f, b1)  o = Constant<value = float {0.0}>()  h = Mul(m, o)  h1 = Unsqueeze(h, t)  y = Add(g, h1)""",
                                           X | {"s": (3,), "b": (3,), "m": (3,)}),
    "consumed inputs": of_x(5, """a = Tanh<consumed_inputs = [0]>(x)  b = Elu<alpha = 0.5, consumed_inputs = [0]>(a)  c = HardSigmoid<alpha = 0.3, beta = 0.4>(b)  d = Sum<consumed_inputs = [0, 0, 0]>(a, b, c)
        e = Exp<consumed_inputs = [0]>(d)  f = Max(d, e)  y = Sigmoid(f)""",
                            "a = Tanh(x)  b = Elu<alpha = 0.5>(a)  c = HardSigmoid<alpha = 0.3, beta = 0.4>(b)  d = Sum(a, b, c)  e = Exp(d)  f = Max(d, e)  y = Sigmoid(f)"),
    "Clip, Cast and InstanceNormalization": form(5, "float[2,3,4,5] x, float[3] s, float[3] b", """n = InstanceNormalization<consumed_inputs = [0, 0, 0], epsilon = 0.01>(x, s, b)
        c = Clip<min = -0.5>(n)  d = Clip<min = -1.0, max = 0.75>(c)  e = Cast<to = "DOUBLE">(d)  y = Cast<to = "FLOAT">(e)""",
                                                 """n = InstanceNormalization<epsilon = 0.01>(x, s, b)  l = Constant<value = float {-0.5}>()  h = Constant<value = float {0.75}>()  y = Clip(n, l, h)""",
                                                 X | {"s": (3,), "b": (3,)}),
    "Reshape, Concat and Pad": of_x(1, """r = Reshape<shape = [0, -1, 5]>(x)  p = Pad<paddings = [0, 0, 1, 0, 0, 2], value = 0.5>(r)  y = Concat(p, p)""",
                                    """s = Constant<value = int64[3] {0, -1, 5}>()  r = Reshape(x, s)  q = Constant<value = int64[6] {0, 0, 1, 0, 0, 2}>()  v = Constant<value = float {0.5}>()
        p = Pad(r, q, v)  y = Concat<axis = 1>(p, p)""", "2,24,8"),
    "Split and Upsample": of_x(1, """a, b = Split<axis = 3, split = [2, 3]>(x)  c, d = Split<axis = 1, split = [1, 2]>(b)  e, f = Split<axis = 2>(c)
        u = Upsample<height_scale = 2.0, width_scale = 1.0>(e)  v = Upsample<height_scale = 2.0, width_scale = 1.0, mode = "bilinear">(f)  y = Concat<axis = 1>(u, v)""",
                               """k = Constant<value = int64[2] {2, 3}>()  o = Constant<value = int64[2] {1, 2}>()  a, b = Split<axis = 3>(x, k)  c, d = Split<axis = 1>(b, o)
        e, f = Split<axis = 2, num_outputs = 2>(c)  r = Constant<value = float[4] {1.0, 1.0, 2.0, 1.0}>()
        u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(e, , r)
        v = Resize<mode = "linear", coordinate_transformation_mode = "asymmetric">(f, , r)  y = Concat<axis = 1>(u, v)""", "2,2,4,3"),
    "LpPool": of_x(1, "a = LpPool<kernel_shape = [2, 2], p = 3.0>(x)  y = Concat(a, a)", "a = LpPool<kernel_shape = [2, 2], p = 3>(x)  y = Concat<axis = 1>(a, a)", "2,6,3,4"),
    "GlobalLpPool": of_x(1, "y = GlobalLpPool<p = 1.0>(x)", "y = GlobalLpPool<p = 1>(x)", "2,3,1,1"),
    "LSTM and GRU": form(6, "float[4,2,3] x, float[1,8,3] w, float[1,8,2] r, float[1,6,2] v, float[1,6,2] q", """h, l = LSTM<hidden_size = 2, output_sequence = 1>(x, w, r)  a = Constant<value = int64[1] {1}>()
        s = Squeeze<axes = [1]>(h)  k, y = GRU<hidden_size = 2, linear_before_reset = 1, output_sequence = 1>(s, v, q)""",
                         """h, l = LSTM<hidden_size = 2>(x, w, r)  a = Constant<value = int64[1] {1}>()  s = Squeeze(h, a)  k, y = GRU<hidden_size = 2, linear_before_reset = 1>(s, v, q)""",
                         {"x": (4, 2, 3), "w": (1, 8, 3), "r": (1, 8, 2), "v": (1, 6, 2), "q": (1, 6, 2)}, "1,2,2"),
}
MICROSOFT |= {f"{name} before opset 7": model for name, (_, *model) in FIRST_FORMS.items()}
OPSETS = {text: 9 for text, _ in EXPERIMENTAL_MODELS.values()} | {text: opset for opset, text, *_ in FIRST_FORMS.values()}

# name: (text, words of the message)
MICROSOFT_REFUSED = {
    "FusedGemm of another activation": ("""m (double[2] x) => (double[1,1] y) { s = Constant<value = int64[2] {1, 2}>()  u = Reshape(x, s)
        y = com.microsoft.FusedGemm<transB = 1, activation = "Mish">(u, u) }""", ["(FusedGemm)", 'activation "Mish" is not supported']),
    "MultiHeadAttention of queries alone": ("""m (double[2] x) => (double[1,1,2] y) { s = Constant<value = int64[3] {1, 1, 2}>()
        u = Reshape(x, s)  y = com.microsoft.MultiHeadAttention<num_heads = 2>(u) }""",
                                            ["(MultiHeadAttention)", "queries, keys and values of these shapes are not supported"]),
    "MultiHeadAttention of one direction across": ("""m (double[2] x) => (double[1,1,2] y) { s = Constant<value = int64[3] {1, 1, 2}>()
        t = Constant<value = int64[3] {1, 2, 2}>()  u = Reshape(x, s)  v = Expand(u, t)
        y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(u, v, v) }""",
                                                   ["(MultiHeadAttention)", "one direction with 2 keys of 1 queries"]),
    "GroupQueryAttention of more keys than there are": ("""m (double[2] x) => (double[1,1,2] y) { s = Constant<value = int64[3] {1, 1, 2}>()
        t = Constant<value = int64[4] {1, 1, 1, 2}>()  u = Reshape(x, s)  p = Reshape(x, t)  n = Constant<value = int32[1] {2}>()  m = Constant<value = int32 {3}>()
        y = com.microsoft.GroupQueryAttention<num_heads = 1, kv_num_heads = 1>(u, u, u, p, p, n, m) }""",
                                                       ["(GroupQueryAttention)", "total_sequence_length is 3, of 1 past and 1 new rows"]),
    "GroupQueryAttention with a cache of 4 bits": ("""m (double[2] x) => (double[1,1,2] y) { s = Constant<value = int64[3] {1, 1, 2}>()
        u = Reshape(x, s)  n = Constant<value = int32[1] {0}>()  m = Constant<value = int32 {1}>()
        y = com.microsoft.GroupQueryAttention<num_heads = 1, kv_num_heads = 1, k_quant_type = "PER_TENSOR", kv_cache_bit_width = 4>(u, u, u, , , n, m) }""",
                                                   ["(GroupQueryAttention)", "kv_cache_bit_width is 4"]),
    "Quant of half numbers of bits": ("""m (double[2] x) => (float[2] y) { u = Cast<to = 1>(x)  s = Constant<value = float {0.5}>()  z = Constant<value = float {0.0}>()
        n = Constant<value = float {2.5}>()  y = onnx.brevitas.Quant(u, s, z, n) }""", ["(Quant)", "is no constant of 2 to 16"]),
    "Quant rounded down": ("""m (double[2] x) => (float[2] y) { u = Cast<to = 1>(x)  s = Constant<value = float {0.5}>()  z = Constant<value = float {0.0}>()
        n = Constant<value = float {4.0}>()  y = onnx.brevitas.Quant<rounding_mode = "FLOOR">(u, s, z, n) }""", ["(Quant)", 'rounding_mode "FLOOR"']),
    "an operator of onnxruntime": ("m (double[2] x) => (double[2] y) { y = com.microsoft.Inverse(x) }", ["com.microsoft.Inverse of onnxruntime"]),
    "MatMulNBits of 3 bits": ("""m (double[2] x) => (double[2,1] y) { b = Constant<value = uint8[1,1,6] {1, 2, 3, 4, 5, 6}>()  s = Constant<value = double[1,1] {1.0}>()
        t = Constant<value = int64[2] {2, 16}>()  v = Constant<value = int64[2] {2, 1}>()  u = Reshape(x, v)  w = Expand(u, t)
        y = com.microsoft.MatMulNBits<K = 16, N = 1, bits = 3, block_size = 16>(w, b, s) }""", ["(MatMulNBits)", "weights of 3 bits are not supported"]),
    "MatMulNBits with groups": ("""m (double[2] x) => (double[2,1] y) { b = Constant<value = uint8[1,1,8] {1, 2, 3, 4, 5, 6, 7, 8}>()  s = Constant<value = double[1,1] {1.0}>()
        g = Constant<value = int32[1] {0}>()  t = Constant<value = int64[2] {2, 16}>()  v = Constant<value = int64[2] {2, 1}>()  u = Reshape(x, v)  w = Expand(u, t)
        y = com.microsoft.MatMulNBits<K = 16, N = 1, block_size = 16>(w, b, s, , g) }""", ["(MatMulNBits)", "input 4 (of groups) is not supported"]),
}
