/* Sums over the pixels of a plane and maps of a plane, for batch normalisation; a part of lanes_body.h. Every lane is a
 * channel. Two accumulators take turns, so that rounding grows with half the plane. */

TARGET static void NAME(moments)(int64_t count, int64_t pixel, const float *x, float *mean, float *squares) {
    FLOATS even = { 0 }, odd = { 0 };
    for (int64_t i = 0; i + 1 < count; i += 2) {
        even += *(const FLOATS *)(x + i * pixel);
        odd += *(const FLOATS *)(x + (i + 1) * pixel);
    }
    if (count % 2)
        even += *(const FLOATS *)(x + (count - 1) * pixel);
    FLOATS m = (even + odd) / (float)count;
    even = odd = (FLOATS){ 0 };
    for (int64_t i = 0; i < count; i++) {
        FLOATS d = *(const FLOATS *)(x + i * pixel) - m;
        FLOATS next = odd + d * d;
        odd = even;
        even = next;
    }
    *(FLOATS *)mean = m;
    *(FLOATS *)squares = even + odd;
}

TARGET static void NAME(sums)(int64_t count, int64_t pixel, const float *dy, const float *x, const float *mean,
                              float *sum_dy, float *sum_dyx) {
    FLOATS m = *(const FLOATS *)mean, a = { 0 }, a_odd = { 0 }, b = { 0 }, b_odd = { 0 };
    for (int64_t i = 0; i < count; i++) {
        FLOATS g = *(const FLOATS *)(dy + i * pixel), next = a_odd + g;
        a_odd = a;
        a = next;
        next = b_odd + g * (*(const FLOATS *)(x + i * pixel) - m);
        b_odd = b;
        b = next;
    }
    *(FLOATS *)sum_dy = a + a_odd;
    *(FLOATS *)sum_dyx = b + b_odd;
}

TARGET static void NAME(normalise)(int64_t count, int64_t pixel, const float *x, const float *mean, const float *scale,
                                   const float *bias, float *y) {
    FLOATS m = *(const FLOATS *)mean, s = *(const FLOATS *)scale, b = *(const FLOATS *)bias;
    for (int64_t i = 0; i < count; i++)
        *(FLOATS *)(y + i * pixel) = (*(const FLOATS *)(x + i * pixel) - m) * s + b;
}

TARGET static void NAME(normalise_grad)(int64_t count, int64_t pixel, const float *dy, const float *x,
                                        const float *mean, const float *of_dy, const float *constant, const float *of_x,
                                        float *dx) {
    FLOATS m = *(const FLOATS *)mean, a = *(const FLOATS *)of_dy, b = *(const FLOATS *)constant,
           d = *(const FLOATS *)of_x;
    for (int64_t i = 0; i < count; i++)
        *(FLOATS *)(dx + i * pixel) =
            a * *(const FLOATS *)(dy + i * pixel) + b + d * (*(const FLOATS *)(x + i * pixel) - m);
}
