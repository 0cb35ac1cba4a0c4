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

/* Every op with a vector loop: LANE(id, ONNX name or name of our own, inputs read, names and defaults of up to two
 * attributes, whether f(0, 0) = 0, value). The value is an expression of the vectors a and b and the numbers u and v.
 * Gradient ops read a = dy and b = x or y as the reference row does. Loops without a name are no op's (random.c). */
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
    LANE(relu, "Relu", 1, NULL, 0, NULL, 0, true, F(drop)(a <= 0, a))                                                  \
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
    LANE(clip, "Clip", 1, "min", -INFINITY, "max", INFINITY, false, F(clamp)(a, u, v))                                 \
    LANE(clip_grad, "ClipGrad", 2, "min", -INFINITY, "max", INFINITY, true, F(drop)((b < u) | (b > v), a))             \
    LANE(square, "Pow", 1, NULL, 0, NULL, 0, true, a *a)                                                               \
    LANE(square_slope, "PowSlope", 1, NULL, 0, NULL, 0, true, a + a)                                                   \
    LANE(pow, "Pow", 2, NULL, 0, NULL, 0, false, F(power)(a, b))                                                       \
    LANE(pow_slope, "PowSlope", 2, NULL, 0, NULL, 0, false, F(power_slope)(a, b))                                      \
    LANE(pow_log, "PowLog", 2, NULL, 0, NULL, 0, false, F(power_log)(a, b))                                            \
    LANE(fmod, "Mod", 2, NULL, 0, NULL, 0, false, F(remainder_of)(a, b))                                               \
    LANE(max, "Max", 2, NULL, 0, NULL, 0, true, F(choose)((a > b) | (a != a), a, b))                                   \
    LANE(min, "Min", 2, NULL, 0, NULL, 0, true, F(choose)((a < b) | (a != a), a, b))                                   \
    LANE(sum, "Sum", 2, NULL, 0, NULL, 0, true, a + b)                                                                 \
    LANE(mean, "Mean", 2, NULL, 0, NULL, 0, true, a + b)                                                               \
    LANE(prelu, "PRelu", 2, NULL, 0, NULL, 0, true, F(choose)(a < 0, a * b, a))                                        \
    LANE(neg_grad, "NegGrad", 1, NULL, 0, NULL, 0, true, -a)                                                           \
    LANE(log, "Log", 1, NULL, 0, NULL, 0, false, F(logarithm)(a))                                                      \
    LANE(log_grad, "LogGrad", 2, NULL, 0, NULL, 0, false, a / b)                                                       \
    LANE(sin, "Sin", 1, NULL, 0, NULL, 0, true, F(sine)(a))                                                            \
    LANE(sin_grad, "SinGrad", 2, NULL, 0, NULL, 0, true, a *F(cosine)(b))                                              \
    LANE(cos, "Cos", 1, NULL, 0, NULL, 0, false, F(cosine)(a))                                                         \
    LANE(cos_grad, "CosGrad", 2, NULL, 0, NULL, 0, true, -a *F(sine)(b))                                               \
    LANE(tan, "Tan", 1, NULL, 0, NULL, 0, true, F(tangent)(a))                                                         \
    LANE(tan_grad, "TanGrad", 2, NULL, 0, NULL, 0, true, a *(1 + b * b))                                               \
    LANE(asin, "Asin", 1, NULL, 0, NULL, 0, true, F(arc_sine)(a))                                                      \
    LANE(asin_grad, "AsinGrad", 2, NULL, 0, NULL, 0, true, a / F(root)((1 - b) * (1 + b)))                             \
    LANE(acos, "Acos", 1, NULL, 0, NULL, 0, false, F(arc_cosine)(a))                                                   \
    LANE(acos_grad, "AcosGrad", 2, NULL, 0, NULL, 0, true, -a / F(root)((1 - b) * (1 + b)))                            \
    LANE(atan, "Atan", 1, NULL, 0, NULL, 0, true, F(arc_tangent)(a))                                                   \
    LANE(atan_grad, "AtanGrad", 2, NULL, 0, NULL, 0, true, a / (1 + b * b))                                            \
    LANE(sinh, "Sinh", 1, NULL, 0, NULL, 0, true, F(hyperbolic_sine)(a))                                               \
    LANE(sinh_grad, "SinhGrad", 2, NULL, 0, NULL, 0, true, a *F(hyperbolic_cosine)(b))                                 \
    LANE(cosh, "Cosh", 1, NULL, 0, NULL, 0, false, F(hyperbolic_cosine)(a))                                            \
    LANE(cosh_grad, "CoshGrad", 2, NULL, 0, NULL, 0, true, a *F(hyperbolic_sine)(b))                                   \
    LANE(asinh, "Asinh", 1, NULL, 0, NULL, 0, true, F(area_sine)(a))                                                   \
    LANE(asinh_grad, "AsinhGrad", 2, NULL, 0, NULL, 0, true, a / F(root)(b * b + 1))                                   \
    LANE(acosh, "Acosh", 1, NULL, 0, NULL, 0, false, F(area_cosine)(a))                                                \
    LANE(acosh_grad, "AcoshGrad", 2, NULL, 0, NULL, 0, false, a / F(root)((b - 1) * (b + 1)))                          \
    LANE(atanh, "Atanh", 1, NULL, 0, NULL, 0, true, F(area_tangent)(a))                                                \
    LANE(atanh_grad, "AtanhGrad", 2, NULL, 0, NULL, 0, true, a / ((1 - b) * (1 + b)))                                  \
    LANE(celu, "Celu", 1, "alpha", 1, NULL, 0, true, F(choose)(a > 0, a, u * F(exponential_m1)(a / u)))                \
    LANE(celu_grad, "CeluGrad", 2, "alpha", 1, NULL, 0, true, F(choose)(b > 0, a, a * F(exponential)(b / u)))          \
    LANE(elu, "Elu", 1, "alpha", 1, NULL, 0, true, F(choose)(a > 0, a, u * F(exponential_m1)(a)))                      \
    LANE(elu_grad, "EluGrad", 2, "alpha", 1, NULL, 0, true, F(at_kink)(b, a, a * u * F(exponential)(b)))               \
    LANE(selu, "Selu", 1, "alpha", 1.67326324F, "gamma", 1.05070102F, true,                                            \
         F(choose)(a > 0, v * a, v * u * F(exponential_m1)(a)))                                                        \
    LANE(selu_grad, "SeluGrad", 2, "alpha", 1.67326324F, "gamma", 1.05070102F, true,                                   \
         F(at_kink)(b, a * v, a * v * u * F(exponential)(b)))                                                          \
    LANE(thresholded_relu, "ThresholdedRelu", 1, "alpha", 1, NULL, 0, false, F(drop)(a <= u, a))                       \
    LANE(thresholded_relu_grad, "ThresholdedReluGrad", 2, "alpha", 1, NULL, 0, true, F(choose)(b <= u, 0 * a, a))      \
    LANE(softplus, "Softplus", 1, NULL, 0, NULL, 0, false, F(soft_plus)(a))                                            \
    LANE(softplus_grad, "SoftplusGrad", 2, NULL, 0, NULL, 0, true, a *F(logistic)(b))                                  \
    LANE(softsign, "Softsign", 1, NULL, 0, NULL, 0, true, a / (1 + F(absolute)(a)))                                    \
    LANE(softsign_grad, "SoftsignGrad", 2, NULL, 0, NULL, 0, true, a / ((1 + F(absolute)(b)) * (1 + F(absolute)(b))))  \
    LANE(mish, "Mish", 1, NULL, 0, NULL, 0, true, a *F(mish_gate)(a))                                                  \
    LANE(mish_grad, "MishGrad", 2, NULL, 0, NULL, 0, true, a *F(mish_slope)(b))                                        \
    LANE(shrink, "Shrink", 1, "bias", 0, "lambd", 0.5F, false,                                                         \
         F(choose)(a < -v, a + u, F(choose)(a > v, a - u, F(choose)(a != a, a, F(all)(0)))))                           \
    LANE(shrink_grad, "ShrinkGrad", 2, "bias", 0, "lambd", 0.5F, true, F(choose)((b < -v) | (b > v), a, 0 * a))        \
    LANE(sign, "Sign", 1, NULL, 0, NULL, 0, true, F(sign_of)(a))                                                       \
    LANE(floor, "Floor", 1, NULL, 0, NULL, 0, true, F(floor_of)(a))                                                    \
    LANE(ceil, "Ceil", 1, NULL, 0, NULL, 0, true, F(ceil_of)(a))                                                       \
    LANE(round, "Round", 1, NULL, 0, NULL, 0, true, F(rounded)(a))                                                     \
    LANE(is_nan, "IsNaN", 1, NULL, 0, NULL, 0, true, F(one)(a != a))                                                   \
    LANE(is_inf, "IsInf", 1, NULL, 0, NULL, 0, true,                                                                   \
         F(choose)(a == INFINITY, F(all)(u), F(choose)(a == -INFINITY, F(all)(v), F(all)(0))))                         \
    LANE(equal, "Equal", 2, NULL, 0, NULL, 0, false, F(one)(a == b))                                                   \
    LANE(less, "Less", 2, NULL, 0, NULL, 0, false, F(one)(a < b))                                                      \
    LANE(less_or_equal, "LessOrEqual", 2, NULL, 0, NULL, 0, false, F(one)(a <= b))                                     \
    LANE(greater, "Greater", 2, NULL, 0, NULL, 0, false, F(one)(a > b))                                                \
    LANE(greater_or_equal, "GreaterOrEqual", 2, NULL, 0, NULL, 0, false, F(one)(a >= b))                               \
    LANE(normal_cos, "", 2, NULL, 0, NULL, 0, false, F(normal_radius)(a) * F(cosine)(b * 6.28318531F))                 \
    LANE(normal_sin, "", 2, NULL, 0, NULL, 0, false, F(normal_radius)(a) * F(sine)(b * 6.28318531F))                   \
    LANE(cast, "Cast", 1, NULL, 0, NULL, 0, true, a)                                                                   \
    LANE(cast_like, "CastLike", 1, NULL, 0, NULL, 0, true, a)

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
