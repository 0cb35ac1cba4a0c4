"""Models of onnxruntime's operators for check_lowered.py."""
import numpy as np

# name: (text, {input: shape or integers}); floats, as onnxruntime has no kernels of double for most of these.
IDS = np.array([[0, 3, 1], [2, 2, 4]], np.int32)
EMBED = "int32[2,3] i, int32[2,3] j, float[5,4] w, float[7,4] p, float[3,4] t, float[4] g, float[4] b"
EMBED_INPUTS = {"i": IDS, "j": np.array([[0, 2, 1], [1, 1, 0]], np.int32), "w": (5, 4), "p": (7, 4), "t": (3, 4), "g": (4,), "b": (4,)}
ATTENTION = "m (float[2,3,4] x, float[4,12] w, float[12] b, int32[%s] k, float[2,2,3,3] a) => (float[2,3,4] y) { y = com.microsoft.Attention<num_heads = 2%s>(x, w, b, %s, , a) }"
ATTENTION_INPUTS = {"x": (2, 3, 4), "w": (4, 12), "b": (12,), "a": (2, 2, 3, 3)}
HEADS = "m (float[2,3,4] q, float[2,5,4] k, float[2,5,6] v, float[14] b, int32[%s] m) => (float[2,3,6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2%s>(q, k, v, b, m) }"
HEADS_INPUTS = {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 6), "b": (14,)}


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
    "Attention with a mask of keys": (ATTENTION % ("2,3", "", "k"), ATTENTION_INPUTS | {"k": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    "Attention with a mask of lengths": (ATTENTION % ("2", ", scale = 0.3", "k"), ATTENTION_INPUTS | {"k": np.array([2, 3], np.int32)}),
    "Attention with a mask of rows": (ATTENTION % ("2,3,3", ", mask_filter_value = -2.0", "k"),
                                      ATTENTION_INPUTS | {"k": np.tril(np.ones((2, 3, 3), np.int32))}),
    "Attention of one direction": (ATTENTION % ("2", ", unidirectional = 1, qkv_hidden_sizes = [4, 4, 4]", ""), ATTENTION_INPUTS | {"k": np.array([2, 3], np.int32)}),
    "MultiHeadAttention": (HEADS % ("2,5", ", mask_filter_value = -3.0"), HEADS_INPUTS | {"m": np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)}),
}
