/* The vector loops of elementwise_cpu.c, compiled for several instruction sets and chosen by CPUID. */
#ifndef ZT_OPS_ELEMENTWISE_LANES_H
#define ZT_OPS_ELEMENTWISE_LANES_H

#include <stdint.h>

/* y[i] = f(a[i * a_step], b[i * b_step]), i < n; steps are 0 or 1, b is read by ops of two inputs only. u, v:
 * attributes. */
struct zt_lane_span {
    const float *a, *b;
    float *y;
    int64_t n;
    int a_step, b_step;
    float u, v;
};
typedef void zt_lane_function(const struct zt_lane_span *s);

/* Every op with a vector loop: LANE(id, ONNX name or name of our own, inputs read, names and defaults of up to two
 * attributes, whether f(0, 0) = 0, value). The value is an expression of the vectors a and b and the numbers u and v.
 * Gradient ops read a = dy and b = x or y as the reference row does. */
#define ZT_ELEMENTWISE(LANE)                                                                                           \
    LANE(add, "Add", 2, NULL, 0, NULL, 0, true, a + b)                                                                 \
    LANE(sub, "Sub", 2, NULL, 0, NULL, 0, true, a - b)                                                                 \
    LANE(mul, "Mul", 2, NULL, 0, NULL, 0, true, a *b)                                                                  \
    LANE(div, "Div", 2, NULL, 0, NULL, 0, false, a / b)                                                                \
    LANE(abs, "Abs", 1, NULL, 0, NULL, 0, true, F(absolute)(a))                                                        \
    LANE(abs_grad, "AbsGrad", 2, NULL, 0, NULL, 0, true, F(sign_of)(b) * a)                                            \
    LANE(neg, "Neg", 1, NULL, 0, NULL, 0, true, -a)                                                                    \
    LANE(reciprocal, "Reciprocal", 1, NULL, 0, NULL, 0, false, 1 / a)                                                  \
    LANE(reciprocal_grad, "ReciprocalGrad", 2, NULL, 0, NULL, 0, true, -a *b *b)                                       \
    LANE(sqrt, "Sqrt", 1, NULL, 0, NULL, 0, true, F(root)(a))                                                          \
    LANE(sqrt_grad, "SqrtGrad", 2, NULL, 0, NULL, 0, false, a / (b + b))                                               \
    LANE(exp, "Exp", 1, NULL, 0, NULL, 0, false, F(exponential)(a))                                                    \
    LANE(exp_grad, "ExpGrad", 2, NULL, 0, NULL, 0, true, a *b)                                                         \
    LANE(relu, "Relu", 1, NULL, 0, NULL, 0, true, F(choose)(a <= 0, a * 0, a))                                         \
    LANE(relu_grad, "ReluGrad", 2, NULL, 0, NULL, 0, true, F(drop)(b <= 0, a))                                         \
    LANE(leaky_relu, "LeakyRelu", 1, "alpha", 0.01F, NULL, 0, true, F(choose)(a < 0, a * u, a))                        \
    LANE(leaky_relu_grad, "LeakyReluGrad", 2, "alpha", 0.01F, NULL, 0, true,                                           \
         a *F(choose)(b > 0, F(all)(1), F(choose)(b < 0, F(all)(u), F(all)((1 + u) / 2))))                             \
    LANE(sigmoid, "Sigmoid", 1, NULL, 0, NULL, 0, false, F(logistic)(a))                                               \
    LANE(sigmoid_grad, "SigmoidGrad", 2, NULL, 0, NULL, 0, true, a *b *(1 - b))                                        \
    LANE(tanh, "Tanh", 1, NULL, 0, NULL, 0, true, F(hyperbolic_tangent)(a))                                            \
    LANE(tanh_grad, "TanhGrad", 2, NULL, 0, NULL, 0, true, a *(1 - b * b))                                             \
    LANE(erf, "Erf", 1, NULL, 0, NULL, 0, true, F(error_function)(a))                                                  \
    LANE(erf_grad, "ErfGrad", 2, NULL, 0, NULL, 0, true, a *(1.1283791671F * F(exponential)(-b * b)))                  \
    LANE(hard_sigmoid, "HardSigmoid", 1, "alpha", 0.2F, "beta", 0.5F, false, F(clamp)(a * u + v, 0, 1))                \
    LANE(hard_sigmoid_grad, "HardSigmoidGrad", 2, "alpha", 0.2F, "beta", 0.5F, true,                                   \
         F(choose)((b > 0) & (b < 1), a * u, a * 0))                                                                   \
    LANE(hard_swish, "HardSwish", 1, NULL, 0, NULL, 0, true, a *F(clamp)(a * (1.0F / 6) + 0.5F, 0, 1))                 \
    LANE(hard_swish_grad, "HardSwishGrad", 2, NULL, 0, NULL, 0, true,                                                  \
         a *F(choose)(b <= -3, F(all)(0), F(choose)(b >= 3, F(all)(1), b * (1.0F / 3) + 0.5F)))                        \
    LANE(swish, "Swish", 1, "alpha", 1, NULL, 0, true, a *F(logistic)(a * u))                                          \
    LANE(swish_grad, "SwishGrad", 2, "alpha", 1, NULL, 0, true, a *F(swish_slope)(b, u))                               \
    LANE(swiglu, "SwiGLU", 2, "alpha", 1, NULL, 0, true, a *F(logistic)(a * u) * b)                                    \
    LANE(gelu, "Gelu", 1, NULL, 0, NULL, 0, true, a *F(normal_cdf)(a))                                                 \
    LANE(gelu_grad, "GeluGrad", 2, NULL, 0, NULL, 0, true,                                                             \
         a *(F(normal_cdf)(b) + b * 0.3989422804F * F(exponential)(b * b * -0.5F)))                                    \
    LANE(gelu_tanh, "Gelu", 1, NULL, 0, NULL, 0, true,                                                                 \
         a * 0.5F * (1 + F(hyperbolic_tangent)(0.7978845608F * (a + 0.044715F * a * a * a))))                          \
    LANE(gelu_tanh_grad, "GeluGrad", 2, NULL, 0, NULL, 0, true, a *F(gelu_tanh_slope)(b))                              \
    LANE(clip, "Clip", 1, NULL, 0, NULL, 0, false, F(clamp)(a, u, v))                                                  \
    LANE(clip_grad, "ClipGrad", 2, NULL, 0, NULL, 0, true, F(drop)((b < u) | (b > v), a))                              \
    LANE(square, "Pow", 1, NULL, 0, NULL, 0, true, a *a)                                                               \
    LANE(square_slope, "PowSlope", 1, NULL, 0, NULL, 0, true, a + a)

enum zt_lane_op {
#define ZT_LANE_NAME(id, ...) ZT_LANE_##id,
    ZT_ELEMENTWISE(ZT_LANE_NAME)
#undef ZT_LANE_NAME
        ZT_LANE_OPS
};

/* The loops for this machine, by op. */
zt_lane_function *const *zt_lane_functions(void);

#endif
