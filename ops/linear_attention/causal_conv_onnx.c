/* The ONNX function body of CausalConvWithState's gradient (formulas in causal_conv.c): z is the padded input, a
 * the convolution before the activation. */
#include "ops/linear_attention/causal_conv.h"
#include "ops/linear_attention/kernels.h"

/* z and a */
static void say_convolution(struct zt_function_body *b, const struct zt_launch_causal_conv *c) {
    const long long channels = c->channels, past = c->kernel - 1;
    if (zt_in(b->g, b->node, ZT_CAUSAL_PAST))
        zt_function_body_add(b, "z = Concat<axis=2>(past, x)");
    else
        zt_function_body_add(b, "z = Pad(x, [0, 0, %lld, 0, 0, 0])", past);
    zt_function_body_add(b, "a = Conv<group=%lld>(z, w%s)", channels,
                         zt_in(b->g, b->node, ZT_CAUSAL_BIAS) ? ", bias" : "");
}

/* dw adds up a convolution of each sample's z with its da. */
ZT_FUNCTION_BODY(zt_causal_conv_grad_function_body) {
    struct zt_launch_causal_conv c;
    if (!zt_causal_conv_read(g, node, &c, err))
        return false;
    const long long batch = c.batch, channels = c.channels, length = c.length, kernel = c.kernel, past = kernel - 1;
    zt_function_body_names(b, "x, w, bias, past, dy, dpresent -> dx, dw, dbias, dpast");
    say_convolution(b, &c);
    zt_function_body_add(b, zt_in(g, node, ZT_CAUSAL_DY) ? "da = dy" : "da = 0 * a");
    if (c.silu)
        zt_function_body_add(b, "s = Sigmoid(a); da = da * s * (1 + a * (1 - s))");
    zt_function_body_add(b, "dz = ConvTranspose<group=%lld>(da, w)", channels);
    if (zt_in(g, node, ZT_CAUSAL_DPRESENT))
        zt_function_body_add(b, "dz = dz + Pad(dpresent, [0, 0, %lld, 0, 0, 0])", length);
    zt_function_body_add(b, "dpast = Slice(dz, [0], [%lld], [2]); dx = Slice(dz, [%lld], [%lld], [2])", past, past,
                         past + length);
    zt_function_body_add(b, "dbias = ReduceSum<keepdims=0>(da, [0, 2])");
    zt_function_body_add(b,
                         "dw = Conv<group=%lld>(Reshape(z, [1, %lld, %lld]), Reshape(da, [%lld, 1, %lld]));"
                         "dw = Reshape(ReduceSum(Reshape(dw, [%lld, %lld, %lld]), [0]), [%lld, 1, %lld])",
                         batch * channels, batch * channels, past + length, batch * channels, length, batch, channels,
                         kernel, channels, kernel);
    return true;
}
