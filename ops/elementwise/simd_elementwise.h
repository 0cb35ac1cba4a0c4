/* The vector loops of elementwise_cpu.c, compiled for several instruction sets and chosen by CPUID. */
#ifndef ZT_OPS_ELEMENTWISE_SIMD_ELEMENTWISE_H
#define ZT_OPS_ELEMENTWISE_SIMD_ELEMENTWISE_H

#include "graph/ir/dtype.h"

#include <stdint.h>

/* y[i] = f(a[i * a_step], b[i * b_step]), i < n; steps are 0 or 1, b is read by ops of two inputs only. u, v:
 * attributes. */
struct zt_simd_span {
    const float *a, *b;
    float *y;
    int64_t n;
    int a_step, b_step;
    float u, v;
};
typedef void zt_simd_function(const struct zt_simd_span *s);

/* Every op with a vector loop: SIMD_OP(id, ONNX name or name of our own, inputs read, names and defaults of up to two
 * attributes, whether f(0, 0) = 0, value). The value is an expression of the vectors a and b and the numbers u and v.
 * Gradient ops read a = dy and b = x or y as the reference row does. Loops without a name are no op's (random.c). */
#define ZT_ELEMENTWISE(SIMD_OP)                                                                                        \
    SIMD_OP(add, "Add", 2, NULL, 0, NULL, 0, true, a + b)                                                              \
    SIMD_OP(sub, "Sub", 2, NULL, 0, NULL, 0, true, a - b)                                                              \
    SIMD_OP(mul, "Mul", 2, NULL, 0, NULL, 0, true, a *b)                                                               \
    SIMD_OP(div, "Div", 2, NULL, 0, NULL, 0, false, a / b)                                                             \
    SIMD_OP(abs, "Abs", 1, NULL, 0, NULL, 0, true, F(absolute)(a))                                                     \
    SIMD_OP(abs_grad, "AbsGrad", 2, NULL, 0, NULL, 0, true, F(sign_of)(b) * a)                                         \
    SIMD_OP(neg, "Neg", 1, NULL, 0, NULL, 0, true, -a)                                                                 \
    SIMD_OP(reciprocal, "Reciprocal", 1, NULL, 0, NULL, 0, false, 1 / a)                                               \
    SIMD_OP(reciprocal_grad, "ReciprocalGrad", 2, NULL, 0, NULL, 0, true, -a *b *b)                                    \
    SIMD_OP(sqrt, "Sqrt", 1, NULL, 0, NULL, 0, true, F(root)(a))                                                       \
    SIMD_OP(sqrt_grad, "SqrtGrad", 2, NULL, 0, NULL, 0, false, a / (b + b))                                            \
    SIMD_OP(exp, "Exp", 1, NULL, 0, NULL, 0, false, F(exponential)(a))                                                 \
    SIMD_OP(exp_grad, "ExpGrad", 2, NULL, 0, NULL, 0, true, a *b)                                                      \
    SIMD_OP(relu, "Relu", 1, NULL, 0, NULL, 0, true, F(drop)(a <= 0, a))                                               \
    SIMD_OP(relu_grad, "ReluGrad", 2, NULL, 0, NULL, 0, true, F(drop)(b <= 0, a))                                      \
    SIMD_OP(leaky_relu, "LeakyRelu", 1, "alpha", 0.01F, NULL, 0, true, F(choose)(a < 0, a * u, a))                     \
    SIMD_OP(leaky_relu_grad, "LeakyReluGrad", 2, "alpha", 0.01F, NULL, 0, true,                                        \
            a *F(choose)(b > 0, F(all)(1), F(choose)(b < 0, F(all)(u), F(all)((1 + u) / 2))))                          \
    SIMD_OP(sigmoid, "Sigmoid", 1, NULL, 0, NULL, 0, false, F(logistic)(a))                                            \
    SIMD_OP(sigmoid_grad, "SigmoidGrad", 2, NULL, 0, NULL, 0, true, a *b *(1 - b))                                     \
    SIMD_OP(tanh, "Tanh", 1, NULL, 0, NULL, 0, true, F(hyperbolic_tangent)(a))                                         \
    SIMD_OP(tanh_grad, "TanhGrad", 2, NULL, 0, NULL, 0, true, a *(1 - b * b))                                          \
    SIMD_OP(erf, "Erf", 1, NULL, 0, NULL, 0, true, F(error_function)(a))                                               \
    SIMD_OP(erf_grad, "ErfGrad", 2, NULL, 0, NULL, 0, true, a *(1.1283791671F * F(exponential)(-b * b)))               \
    SIMD_OP(hard_sigmoid, "HardSigmoid", 1, "alpha", 0.2F, "beta", 0.5F, false, F(clamp)(a * u + v, 0, 1))             \
    SIMD_OP(hard_sigmoid_grad, "HardSigmoidGrad", 2, "alpha", 0.2F, "beta", 0.5F, true,                                \
            F(choose)((b > 0) & (b < 1), a * u, a * 0))                                                                \
    SIMD_OP(hard_swish, "HardSwish", 1, NULL, 0, NULL, 0, true, a *F(clamp)(a * (1.0F / 6) + 0.5F, 0, 1))              \
    SIMD_OP(hard_swish_grad, "HardSwishGrad", 2, NULL, 0, NULL, 0, true,                                               \
            a *F(choose)(b <= -3, F(all)(0), F(choose)(b >= 3, F(all)(1), b * (1.0F / 3) + 0.5F)))                     \
    SIMD_OP(swish, "Swish", 1, "alpha", 1, NULL, 0, true, a *F(logistic)(a * u))                                       \
    SIMD_OP(swish_grad, "SwishGrad", 2, "alpha", 1, NULL, 0, true, a *F(swish_slope)(b, u))                            \
    SIMD_OP(swiglu, "SwiGLU", 2, "alpha", 1, NULL, 0, true, a *F(logistic)(a * u) * b)                                 \
    SIMD_OP(gelu, "Gelu", 1, NULL, 0, NULL, 0, true, a *F(normal_cdf)(a))                                              \
    SIMD_OP(gelu_grad, "GeluGrad", 2, NULL, 0, NULL, 0, true,                                                          \
            a *(F(normal_cdf)(b) + b * 0.3989422804F * F(exponential)(b * b * -0.5F)))                                 \
    SIMD_OP(gelu_tanh, "Gelu", 1, NULL, 0, NULL, 0, true,                                                              \
            a * 0.5F * (1 + F(hyperbolic_tangent)(0.7978845608F * (a + 0.044715F * a * a * a))))                       \
    SIMD_OP(gelu_tanh_grad, "GeluGrad", 2, NULL, 0, NULL, 0, true, a *F(gelu_tanh_slope)(b))                           \
    SIMD_OP(clip, "Clip", 1, "min", -INFINITY, "max", INFINITY, false, F(clamp)(a, u, v))                              \
    SIMD_OP(clip_grad, "ClipGrad", 2, "min", -INFINITY, "max", INFINITY, true, F(drop)((b < u) | (b > v), a))          \
    SIMD_OP(square, "Pow", 1, NULL, 0, NULL, 0, true, a *a)                                                            \
    SIMD_OP(square_slope, "PowSlope", 1, NULL, 0, NULL, 0, true, a + a)                                                \
    SIMD_OP(pow, "Pow", 2, NULL, 0, NULL, 0, false, F(power)(a, b))                                                    \
    SIMD_OP(pow_slope, "PowSlope", 2, NULL, 0, NULL, 0, false, F(power_slope)(a, b))                                   \
    SIMD_OP(pow_log, "PowLog", 2, NULL, 0, NULL, 0, false, F(power_log)(a, b))                                         \
    SIMD_OP(fmod, "Mod", 2, NULL, 0, NULL, 0, false, F(remainder_of)(a, b))                                            \
    SIMD_OP(max, "Max", 2, NULL, 0, NULL, 0, true, F(choose)((a > b) | (a != a), a, b))                                \
    SIMD_OP(min, "Min", 2, NULL, 0, NULL, 0, true, F(choose)((a < b) | (a != a), a, b))                                \
    SIMD_OP(sum, "Sum", 2, NULL, 0, NULL, 0, true, a + b)                                                              \
    SIMD_OP(mean, "Mean", 2, NULL, 0, NULL, 0, true, a + b)                                                            \
    SIMD_OP(prelu, "PRelu", 2, NULL, 0, NULL, 0, true, F(choose)(a < 0, a * b, a))                                     \
    SIMD_OP(neg_grad, "NegGrad", 1, NULL, 0, NULL, 0, true, -a)                                                        \
    SIMD_OP(log, "Log", 1, NULL, 0, NULL, 0, false, F(logarithm)(a))                                                   \
    SIMD_OP(log_grad, "LogGrad", 2, NULL, 0, NULL, 0, false, a / b)                                                    \
    SIMD_OP(sin, "Sin", 1, NULL, 0, NULL, 0, true, F(sine)(a))                                                         \
    SIMD_OP(sin_grad, "SinGrad", 2, NULL, 0, NULL, 0, true, a *F(cosine)(b))                                           \
    SIMD_OP(cos, "Cos", 1, NULL, 0, NULL, 0, false, F(cosine)(a))                                                      \
    SIMD_OP(cos_grad, "CosGrad", 2, NULL, 0, NULL, 0, true, -a *F(sine)(b))                                            \
    SIMD_OP(tan, "Tan", 1, NULL, 0, NULL, 0, true, F(tangent)(a))                                                      \
    SIMD_OP(tan_grad, "TanGrad", 2, NULL, 0, NULL, 0, true, a *(1 + b * b))                                            \
    SIMD_OP(asin, "Asin", 1, NULL, 0, NULL, 0, true, F(arc_sine)(a))                                                   \
    SIMD_OP(asin_grad, "AsinGrad", 2, NULL, 0, NULL, 0, true, a / F(root)((1 - b) * (1 + b)))                          \
    SIMD_OP(acos, "Acos", 1, NULL, 0, NULL, 0, false, F(arc_cosine)(a))                                                \
    SIMD_OP(acos_grad, "AcosGrad", 2, NULL, 0, NULL, 0, true, -a / F(root)((1 - b) * (1 + b)))                         \
    SIMD_OP(atan, "Atan", 1, NULL, 0, NULL, 0, true, F(arc_tangent)(a))                                                \
    SIMD_OP(atan_grad, "AtanGrad", 2, NULL, 0, NULL, 0, true, a / (1 + b * b))                                         \
    SIMD_OP(sinh, "Sinh", 1, NULL, 0, NULL, 0, true, F(hyperbolic_sine)(a))                                            \
    SIMD_OP(sinh_grad, "SinhGrad", 2, NULL, 0, NULL, 0, true, a *F(hyperbolic_cosine)(b))                              \
    SIMD_OP(cosh, "Cosh", 1, NULL, 0, NULL, 0, false, F(hyperbolic_cosine)(a))                                         \
    SIMD_OP(cosh_grad, "CoshGrad", 2, NULL, 0, NULL, 0, true, a *F(hyperbolic_sine)(b))                                \
    SIMD_OP(asinh, "Asinh", 1, NULL, 0, NULL, 0, true, F(area_sine)(a))                                                \
    SIMD_OP(asinh_grad, "AsinhGrad", 2, NULL, 0, NULL, 0, true, a / F(root)(b * b + 1))                                \
    SIMD_OP(acosh, "Acosh", 1, NULL, 0, NULL, 0, false, F(area_cosine)(a))                                             \
    SIMD_OP(acosh_grad, "AcoshGrad", 2, NULL, 0, NULL, 0, false, a / F(root)((b - 1) * (b + 1)))                       \
    SIMD_OP(atanh, "Atanh", 1, NULL, 0, NULL, 0, true, F(area_tangent)(a))                                             \
    SIMD_OP(atanh_grad, "AtanhGrad", 2, NULL, 0, NULL, 0, true, a / ((1 - b) * (1 + b)))                               \
    SIMD_OP(celu, "Celu", 1, "alpha", 1, NULL, 0, true, F(choose)(a > 0, a, u * F(exponential_m1)(a / u)))             \
    SIMD_OP(celu_grad, "CeluGrad", 2, "alpha", 1, NULL, 0, true, F(choose)(b > 0, a, a * F(exponential)(b / u)))       \
    SIMD_OP(elu, "Elu", 1, "alpha", 1, NULL, 0, true, F(choose)(a > 0, a, u * F(exponential_m1)(a)))                   \
    SIMD_OP(elu_grad, "EluGrad", 2, "alpha", 1, NULL, 0, true, F(at_kink)(b, a, a * u * F(exponential)(b)))            \
    SIMD_OP(selu, "Selu", 1, "alpha", 1.67326324F, "gamma", 1.05070102F, true,                                         \
            F(choose)(a > 0, v * a, v * u * F(exponential_m1)(a)))                                                     \
    SIMD_OP(selu_grad, "SeluGrad", 2, "alpha", 1.67326324F, "gamma", 1.05070102F, true,                                \
            F(at_kink)(b, a * v, a * v * u * F(exponential)(b)))                                                       \
    SIMD_OP(thresholded_relu, "ThresholdedRelu", 1, "alpha", 1, NULL, 0, false, F(drop)(a <= u, a))                    \
    SIMD_OP(thresholded_relu_grad, "ThresholdedReluGrad", 2, "alpha", 1, NULL, 0, true, F(choose)(b <= u, 0 * a, a))   \
    SIMD_OP(softplus, "Softplus", 1, NULL, 0, NULL, 0, false, F(soft_plus)(a))                                         \
    SIMD_OP(softplus_grad, "SoftplusGrad", 2, NULL, 0, NULL, 0, true, a *F(logistic)(b))                               \
    SIMD_OP(softsign, "Softsign", 1, NULL, 0, NULL, 0, true, a / (1 + F(absolute)(a)))                                 \
    SIMD_OP(softsign_grad, "SoftsignGrad", 2, NULL, 0, NULL, 0, true,                                                  \
            a / ((1 + F(absolute)(b)) * (1 + F(absolute)(b))))                                                         \
    SIMD_OP(mish, "Mish", 1, NULL, 0, NULL, 0, true, a *F(mish_gate)(a))                                               \
    SIMD_OP(mish_grad, "MishGrad", 2, NULL, 0, NULL, 0, true, a *F(mish_slope)(b))                                     \
    SIMD_OP(shrink, "Shrink", 1, "bias", 0, "lambd", 0.5F, false,                                                      \
            F(choose)(a < -v, a + u, F(choose)(a > v, a - u, F(choose)(a != a, a, F(all)(0)))))                        \
    SIMD_OP(shrink_grad, "ShrinkGrad", 2, "bias", 0, "lambd", 0.5F, true, F(choose)((b < -v) | (b > v), a, 0 * a))     \
    SIMD_OP(sign, "Sign", 1, NULL, 0, NULL, 0, true, F(sign_of)(a))                                                    \
    SIMD_OP(floor, "Floor", 1, NULL, 0, NULL, 0, true, F(floor_of)(a))                                                 \
    SIMD_OP(ceil, "Ceil", 1, NULL, 0, NULL, 0, true, F(ceil_of)(a))                                                    \
    SIMD_OP(round, "Round", 1, NULL, 0, NULL, 0, true, F(rounded)(a))                                                  \
    SIMD_OP(is_nan, "IsNaN", 1, NULL, 0, NULL, 0, true, F(one)(a != a))                                                \
    SIMD_OP(is_inf, "IsInf", 1, NULL, 0, NULL, 0, true,                                                                \
            F(choose)(a == INFINITY, F(all)(u), F(choose)(a == -INFINITY, F(all)(v), F(all)(0))))                      \
    SIMD_OP(equal, "Equal", 2, NULL, 0, NULL, 0, false, F(one)(a == b))                                                \
    SIMD_OP(less, "Less", 2, NULL, 0, NULL, 0, false, F(one)(a < b))                                                   \
    SIMD_OP(less_or_equal, "LessOrEqual", 2, NULL, 0, NULL, 0, false, F(one)(a <= b))                                  \
    SIMD_OP(greater, "Greater", 2, NULL, 0, NULL, 0, false, F(one)(a > b))                                             \
    SIMD_OP(greater_or_equal, "GreaterOrEqual", 2, NULL, 0, NULL, 0, false, F(one)(a >= b))                            \
    SIMD_OP(normal_cos, "", 2, NULL, 0, NULL, 0, false, F(normal_radius)(a) * F(cosine)(b * 6.28318531F))              \
    SIMD_OP(normal_sin, "", 2, NULL, 0, NULL, 0, false, F(normal_radius)(a) * F(sine)(b * 6.28318531F))                \
    SIMD_OP(cast, "Cast", 1, NULL, 0, NULL, 0, true, a)                                                                \
    SIMD_OP(cast_like, "CastLike", 1, NULL, 0, NULL, 0, true, a)

enum zt_simd_op {
#define ZT_SIMD_NAME(id, ...) ZT_SIMD_##id,
    ZT_ELEMENTWISE(ZT_SIMD_NAME)
#undef ZT_SIMD_NAME
        ZT_SIMD_OPS
};

/* Elements of a half type, bool or an integer of 8 or 16 bits as floats and back; integers are only read. To half types
 * they are rounded to even; bool is 1 for what is not 0. */
void zt_simd_load(enum zt_dtype dtype, const void *from, int64_t n, float *to);
void zt_simd_store(enum zt_dtype dtype, const float *from, int64_t n, void *to);

/* The loops for this machine, by op. */
zt_simd_function *const *zt_simd_functions(void);

#endif
