/* Elementwise over n floats that lie side by side, a part of lanes_body.h. The last few elements go through a vector on the stack, so that
 * an element's result does not depend on where it stands. */

#define FLAT(id, F)                                                                                                    \
    TARGET static void NAME(id)(int64_t n, const float *x, const float *z, float *y) {                                 \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) {                                                                           \
            FLOATS a = *(const FLOATS *)(x + i), b = *(const FLOATS *)(z + i);                                         \
            *(FLOATS *)(y + i) = F;                                                                                    \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            FLOATS a = { 0 }, b = { 0 }, to;                                                                           \
            memcpy(&a, x + i, (size_t)(n - i) * sizeof *x);                                                            \
            memcpy(&b, z + i, (size_t)(n - i) * sizeof *z);                                                            \
            to = F;                                                                                                    \
            memcpy(y + i, &to, (size_t)(n - i) * sizeof *y);                                                           \
        }                                                                                                              \
    }

FLAT(add, a + b)
FLAT(sub, a - b)
FLAT(mul, a *b)
/* a where b is not <= 0: ReLU with z = x, its gradient with x = dy and z = y; NaN flows */
FLAT(where_positive, (FLOATS)((INTS)a & ~(INTS)(b <= (FLOATS){ 0 })))

#undef FLAT
