/* Max pooling, a part of lanes_body.h. */

/* One result. `x` is where position 0 lies; row and pixel are elements between neighbours of the window. */
TARGET static inline __attribute__((always_inline)) void NAME(max_of)(const float *x, int64_t row, int64_t pixel,
                                                                      int64_t width, const struct reach *ry,
                                                                      const struct reach *rx, float *y,
                                                                      uint8_t *position) {
    FLOATS best = *(const FLOATS *)(x + ry->first * row + rx->first * pixel);
    INTS at = (INTS){ 0 } + (int32_t)(ry->first * width + rx->first);
    for (int64_t ky = ry->first; ky < ry->end; ky++)
        for (int64_t kx = rx->first; kx < rx->end; kx++) {
            FLOATS v = *(const FLOATS *)(x + ky * row + kx * pixel);
            INTS take = ~(INTS)(v <= best) & (INTS)(best == best);
            best = (FLOATS)((take & (INTS)v) | (~take & (INTS)best));
            at = (at & ~take) | (take & (int32_t)(ky * width + kx));
        }
    *(FLOATS *)y = best;
    if (position)
        *(BYTES *)position = __builtin_convertvector(at, BYTES);
}

TARGET static void NAME(max_2x2)(const struct zt_lane_pool *p, const float *x, float *y, uint8_t *position) {
    static const struct reach whole = { 0, 2, 0 };
    int64_t pixel = p->pixel, row = p->in[ZT_X] * pixel;
    for (int64_t oy = 0; oy < p->out[ZT_Y]; oy++)
        for (int64_t ox = 0; ox < p->out[ZT_X]; ox++) {
            int64_t o = (oy * p->out[ZT_X] + ox) * pixel;
            NAME(max_of)
            (x + 2 * oy * row + 2 * ox * pixel, row, pixel, 2, &whole, &whole, y + o, position ? position + o : NULL);
        }
}

TARGET static void NAME(max)(const struct zt_lane_pool *p, const float *x, float *y, uint8_t *position) {
    if (is_dense_2x2(p)) {
        NAME(max_2x2)(p, x, y, position);
        return;
    }
    int64_t pixel = p->pixel, row = p->in[ZT_X] * pixel;
    for (int64_t oy = 0; oy < p->out[ZT_Y]; oy++) {
        struct reach ry = reach_of(p, ZT_Y, oy);
        for (int64_t ox = 0; ox < p->out[ZT_X]; ox++) {
            struct reach rx = reach_of(p, ZT_X, ox);
            int64_t o = (oy * p->out[ZT_X] + ox) * pixel;
            if (ry.first >= ry.end || rx.first >= rx.end) { /* nothing but padding */
                *(FLOATS *)(y + o) = (FLOATS){ 0 } - __builtin_inff();
                if (position)
                    *(BYTES *)(position + o) = (BYTES){ 0 };
                continue;
            }
            NAME(max_of)
            (x + ry.start * row + rx.start * pixel, row * p->dilation[ZT_Y], pixel * p->dilation[ZT_X], p->kernel[ZT_X],
             &ry, &rx, y + o, position ? position + o : NULL);
        }
    }
}

/* dy where relu let it through, and the positions, of the result at element o. */
TARGET static inline __attribute__((always_inline)) void
NAME(load)(const float *dy, const float *relu, const uint8_t *position, int64_t o, INTS *d, INTS *at) {
    *d = *(const INTS *)(dy + o);
    if (relu)
        *d &= ~(INTS)(*(const FLOATS *)(relu + o) <= (FLOATS){ 0 });
    *at = __builtin_convertvector(*(const BYTES *)(position + o), INTS);
}

TARGET static void NAME(clear)(float *dx, int64_t pixel, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        *(FLOATS *)(dx + i * pixel) = (FLOATS){ 0 };
}

TARGET static void NAME(grad_2x2)(const struct zt_lane_pool *p, const float *dy, const float *relu,
                                  const uint8_t *position, float *dx) {
    int64_t pixel = p->pixel, row = p->in[ZT_X] * pixel;
    for (int64_t oy = 0; oy < p->out[ZT_Y]; oy++) {
        float *to = dx + 2 * oy * row;
        for (int64_t ox = 0; ox < p->out[ZT_X]; ox++, to += 2 * pixel) {
            INTS d, at;
            NAME(load)(dy, relu, position, (oy * p->out[ZT_X] + ox) * pixel, &d, &at);
            *(INTS *)to = d & (INTS)(at == 0);
            *(INTS *)(to + pixel) = d & (INTS)(at == 1);
            *(INTS *)(to + row) = d & (INTS)(at == 2);
            *(INTS *)(to + row + pixel) = d & (INTS)(at == 3);
        }
        int64_t rest = p->in[ZT_X] - 2 * p->out[ZT_X];
        NAME(clear)(to, pixel, rest);
        NAME(clear)(to + row, pixel, rest);
    }
    NAME(clear)(dx + 2 * p->out[ZT_Y] * row, pixel, (p->in[ZT_Y] - 2 * p->out[ZT_Y]) * p->in[ZT_X]);
}

TARGET static void NAME(max_grad)(const struct zt_lane_pool *p, const float *dy, const float *relu,
                                  const uint8_t *position, float *dx) {
    if (is_dense_2x2(p)) {
        NAME(grad_2x2)(p, dy, relu, position, dx);
        return;
    }
    int64_t pixel = p->pixel, row = p->in[ZT_X] * pixel;
    NAME(clear)(dx, pixel, p->in[ZT_Y] * p->in[ZT_X]);
    for (int64_t oy = 0; oy < p->out[ZT_Y]; oy++) {
        struct reach ry = reach_of(p, ZT_Y, oy);
        for (int64_t ox = 0; ox < p->out[ZT_X]; ox++) {
            struct reach rx = reach_of(p, ZT_X, ox);
            INTS d, at;
            NAME(load)(dy, relu, position, (oy * p->out[ZT_X] + ox) * pixel, &d, &at);
            for (int64_t ky = ry.first; ky < ry.end; ky++)
                for (int64_t kx = rx.first; kx < rx.end; kx++) {
                    FLOATS *to = (FLOATS *)(dx + (ry.start + ky * p->dilation[ZT_Y]) * row +
                                            (rx.start + kx * p->dilation[ZT_X]) * pixel);
                    *to += (FLOATS)(d & (INTS)(at == (int32_t)(ky * p->kernel[ZT_X] + kx)));
                }
        }
    }
}
