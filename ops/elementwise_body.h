/* The body of elementwise_lanes.c, included once for each TARGET (an attribute that names instruction sets); NAME(id)
 * makes the names of this one. Vectors are the compiler's; a call may not pass them, so helpers are inlined. */

typedef float NAME(floats) __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(64), aligned(4), may_alias));
#define FLOATS NAME(floats)
#define INTS   NAME(ints)
#define F(id)  NAME(id)
#define INLINE TARGET static inline __attribute__((always_inline))

INLINE FLOATS F(all)(float x) {
    return (FLOATS){ 0 } + x;
}
INLINE FLOATS F(choose)(INTS mask, FLOATS yes, FLOATS no) {
    return (FLOATS)((mask & (INTS)yes) | (~mask & (INTS)no));
}
/* 0 where the mask is set */
INLINE FLOATS F(drop)(INTS mask, FLOATS x) {
    return (FLOATS)(~mask & (INTS)x);
}
INLINE FLOATS F(absolute)(FLOATS x) {
    return (FLOATS)((INTS)x & 0x7fffffff);
}
/* `x` with the sign of `s` */
INLINE FLOATS F(signed_as)(FLOATS x, FLOATS s) {
    return (FLOATS)((INTS)x | ((INTS)s & INT32_MIN));
}
/* -1, 0, 1; NaN stays */
INLINE FLOATS F(sign_of)(FLOATS x) {
    return F(choose)(x > 0, F(all)(1), F(choose)(x < 0, F(all)(-1), x));
}
/* NaN stays */
INLINE FLOATS F(clamp)(FLOATS x, float low, float high) {
    x = F(choose)(x < low, F(all)(low), x);
    return F(choose)(x > high, F(all)(high), x);
}
INLINE FLOATS F(root)(FLOATS x) {
    for (int i = 0; i < 16; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
}

/* exp(x) = 2^k exp(r), r = x - k ln 2 in two parts so that it is exact, |r| <= ln 2 / 2; exp(r) = 1 + r + r^2 q(r) with
 * q fitted (relative error 3e-9). Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits. 2^k is applied
 * in two halves, so that results may be infinite or zero. */
INLINE FLOATS F(exponential)(FLOATS x) {
    const float shift = 12582912;
    x = F(clamp)(x, -104, 89);
    FLOATS shifted = x * 1.44269504F + shift, k = shifted - shift;
    INTS whole = (INTS)shifted - 0x4b400000, half = whole >> 1;
    FLOATS r = x - k * 0.693359375F + k * 2.12194440e-4F;
    FLOATS q = F(all)(0.00139505F);
    q = q * r + 0.00836889F;
    q = q * r + 0.04166621F;
    q = q * r + 0.16666519F;
    q = q * r + 0.50000001F;
    FLOATS e = 1 + (r + r * r * q);
    return e * (FLOATS)((half + 127) << 23) * (FLOATS)((whole - half + 127) << 23);
}

INLINE FLOATS F(logistic)(FLOATS x) {
    return 1 / (1 + F(exponential)(-x));
}

/* Up to 0.65 an odd polynomial (fitted, relative error 6e-9); above it 1 - 2 / (exp 2|x| + 1). */
INLINE FLOATS F(hyperbolic_tangent)(FLOATS x) {
    FLOATS m = F(absolute)(x), z = x * x, q = F(all)(-0.00552863F);
    q = q * z + 0.02048332F;
    q = q * z - 0.05369297F;
    q = q * z + 0.133309F;
    q = q * z - 0.33333263F;
    FLOATS far = 1 - 2 / (F(exponential)(m + m) + 1);
    return F(choose)(m > 0.65F, F(signed_as)(far, x), x + x * z * q);
}

/* erfc(m) exp(m^2) for m >= 0: t q(t), t = 1 / (1 + m / 3), q fitted (relative error 4e-9) */
INLINE FLOATS F(scaled_erfc)(FLOATS m) {
    FLOATS t = 1 / (1 + m * (1.0F / 3)), q = F(all)(0.053711494F);
    q = q * t - 0.28125367F;
    q = q * t + 0.510077776F;
    q = q * t - 0.406879706F;
    q = q * t + 0.37485818F;
    q = q * t + 0.013559428F;
    q = q * t + 0.18674505F;
    q = q * t + 0.172594725F;
    q = q * t + 0.188543514F;
    q = q * t + 0.188043206F;
    return t * q;
}

/* Up to 1 an odd polynomial (fitted, error 1e-9); above it 1 - erfc. */
INLINE FLOATS F(error_function)(FLOATS x) {
    FLOATS m = F(absolute)(x), z = x * x, q = F(all)(7.88912282e-05F);
    q = q * z - 8.02084226e-04F;
    q = q * z + 5.18953545e-03F;
    q = q * z - 2.68544446e-02F;
    q = q * z + 1.12836002e-01F;
    q = q * z - 3.76126271e-01F;
    q = q * z + 1.12837917F;
    FLOATS far = 1 - F(scaled_erfc)(m) * F(exponential)(-z);
    return F(choose)(m > 1, F(signed_as)(far, x), x * q);
}

/* erfc(-x / sqrt 2) / 2, without cancellation in the lower tail */
INLINE FLOATS F(normal_cdf)(FLOATS x) {
    FLOATS m = F(absolute)(x) * 0.70710678F;
    FLOATS tail = 0.5F * F(scaled_erfc)(m) * F(exponential)(x * x * -0.5F);
    return F(choose)(x > 0, 1 - tail, tail);
}

INLINE FLOATS F(swish_slope)(FLOATS x, float alpha) {
    FLOATS s = F(logistic)(x * alpha);
    return s + x * alpha * s * (1 - s);
}

INLINE FLOATS F(gelu_tanh_slope)(FLOATS x) {
    const float c = 0.7978845608F, k = 0.044715F;
    FLOATS t = F(hyperbolic_tangent)(c * (x + k * x * x * x));
    return (1 + t) * 0.5F + x * (1 - t * t) * c * (1 + 3 * k * x * x) * 0.5F;
}

/* Whole vectors, then the rest through a vector on the stack. */
#define LOOP(id, NAME_, INPUTS, U, U0, V, V0, ZERO, VALUE)                                                             \
    TARGET static void F(id##_loop)(const struct zt_lane_span *s) {                                                    \
        const float u = s->u, v = s->v;                                                                                \
        float rest[2][16] = { { 0 } };                                                                                 \
        (void)u, (void)v;                                                                                              \
        for (int64_t i = 0; i < s->n; i += 16) {                                                                       \
            const int64_t left = s->n - i;                                                                             \
            const float *pa = s->a + i * s->a_step, *pb = s->b + i * s->b_step;                                        \
            if (left < 16) {                                                                                           \
                for (int64_t k = 0; k < left; k++) {                                                                   \
                    rest[0][k] = pa[k * s->a_step];                                                                    \
                    rest[1][k] = INPUTS > 1 ? pb[k * s->b_step] : 0;                                                   \
                }                                                                                                      \
                pa = rest[0];                                                                                          \
                pb = rest[1];                                                                                          \
            }                                                                                                          \
            const FLOATS a = s->a_step || left < 16 ? *(const FLOATS *)pa : F(all)(*pa);                               \
            const FLOATS b = INPUTS < 2 ? F(all)(0) : s->b_step || left < 16 ? *(const FLOATS *)pb : F(all)(*pb);      \
            (void)b;                                                                                                   \
            if (left < 16) {                                                                                           \
                *(FLOATS *)rest[0] = VALUE;                                                                            \
                for (int64_t k = 0; k < left; k++)                                                                     \
                    s->y[i + k] = rest[0][k];                                                                          \
            } else {                                                                                                   \
                *(FLOATS *)(s->y + i) = VALUE;                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }
ZT_ELEMENTWISE(LOOP)

#define ADDRESS(id, ...) [ZT_LANE_##id] = F(id##_loop),
static zt_lane_function *const F(functions)[ZT_LANE_OPS] = { ZT_ELEMENTWISE(ADDRESS) };

#undef ADDRESS
#undef LOOP
#undef INLINE
#undef F
#undef INTS
#undef FLOATS
#undef NAME
#undef TARGET
