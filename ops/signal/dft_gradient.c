/* A transform is linear, and its gradient is the transposed transform. With D[k, n] = e^(-2 pi i k n / N), seen as a
 * map of pairs of real numbers, the transpose of D is its conjugate, which is N times the inverse transform:
 *
 *     forward             dx = N inverse(dy)
 *     forward, onesided   dx[n] = sum over k <= N / 2 of Re(dy[k] e^(2 pi i k n / N)),
 *                         which is the onesided inverse transform of N / w[k] dy[k]
 *     inverse             dx = 1 / N forward(dy)
 *     inverse, onesided   dx[k] = w[k] / N times the onesided forward transform of dy
 *
 * Of real x the gradient is the real part. Elements that the transform does not read have gradient 0, and those it adds
 * as zeros have none. */
#include "ops/signal/dft_gradient.h"

#include "ops/kernel/shape.h"

static int emit_scalar(struct zt_grad *b, int64_t value) {
    return zt_graph_add_constant(zt_grad_graph(b), NULL, ZT_INT64, &(struct zt_shape){ .rank = 0 }, &value);
}

int zt_dft_emit_sized(struct zt_grad *b, int value, int axis, int64_t size) {
    const struct zt_shape shape = zt_grad_graph(b)->values[value]->shape;
    int64_t pads[2 * ZT_MAX_RANK] = { 0 };
    if (shape.dim[axis] == size)
        return value;
    if (shape.dim[axis] > size)
        return ZT_EMIT(b, "Slice", value, zt_emit_ints(b, &(int64_t){ 0 }, 1), zt_emit_ints(b, &size, 1),
                       zt_emit_ints(b, &(int64_t){ axis }, 1));
    pads[shape.rank + axis] = size - shape.dim[axis];
    return ZT_EMIT(b, "Pad", value, zt_emit_ints(b, pads, 2 * shape.rank));
}

/* Emits the factors of element k on the side with w[k]: N / w[k] or w[k] / N; without w N or 1 / N. The spectrum's
 * shape is that of the factors but for other axes than `axis`, of length 1, and, so that equal factors are adjacent,
 * the last one. */
static int emit_factors(struct zt_grad *b, const struct zt_dft *d, const struct zt_value *dy, int axis) {
    struct zt_graph *g = zt_grad_graph(b);
    const double n = (double)d->length;
    const int rank = dy->shape.rank;
    if (!d->onesided)
        return zt_emit_float(b, dy->dtype, d->inverse ? 1 / n : n);
    struct zt_shape shape = { .rank = rank };
    for (int i = 0; i < rank; i++)
        shape.dim[i] = 1;
    const int64_t count = shape.dim[axis] = d->length / 2 + 1, parts = axis == rank - 2 ? 2 : 1;
    shape.dim[rank - 1] = parts;
    void *factors = zt_arena_alloc(g->arena, (size_t)(count * parts) * zt_dtype_bytes(dy->dtype));
    for (int64_t k = 0; k < count * parts; k++) {
        const double w = zt_dft_weight(d->length, k / parts);
        zt_store_double(dy->dtype, factors, k, d->inverse ? w / n : n / w);
    }
    return zt_graph_add_constant(g, NULL, dy->dtype, &shape, factors);
}

int zt_dft_emit_gradient(struct zt_grad *b, const struct zt_dft *d, int dy, int axis) {
    struct zt_graph *g = zt_grad_graph(b);
    const struct zt_shape shape = g->values[dy]->shape;
    const int factors = emit_factors(b, d, g->values[dy], axis);
    const struct zt_attr attrs[] = { { .name = "inverse", .type = ZT_ATTR_INT, .i = !d->inverse },
                                     { .name = "onesided", .type = ZT_ATTR_INT, .i = d->onesided } };
    int out,
        in[] = { d->inverse ? dy : ZT_EMIT(b, "Mul", dy, factors), emit_scalar(b, d->length), emit_scalar(b, axis) };
    zt_emit_node(b, &(struct zt_emission){ "DFT", "", in, 3, NULL, attrs, 2 }, &out, 1);
    if (d->inverse)
        out = ZT_EMIT(b, "Mul", out, factors);
    return out < 0 || !d->in.real ? out : zt_dft_emit_sized(b, out, shape.rank - 1, 1);
}
