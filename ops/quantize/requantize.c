#include "ops/quantize/requantize.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

static bool is_single(const struct zt_shape *s) {
    return zt_shape_count(s) == 1;
}

/* A vector along `axis`, where broadcasting would lay it along the last one. */
static bool is_vector(const struct zt_shape *s, const struct zt_shape *of, int axis) {
    return s->rank == 1 && axis >= 0 && axis < of->rank && s->dim[0] == of->dim[axis];
}

bool zt_quantized_fits(const struct zt_graph *g, int node, int in, const struct zt_shape *of, int axis,
                       struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (!v || is_single(&v->shape) || is_vector(&v->shape, of, axis))
        return true;
    bool fits = v->shape.rank == of->rank && axis >= 0;
    for (int k = 0; fits && k < of->rank; k++) /* nothing along the axis that a product sums over */
        fits = v->shape.dim[k] == 1 || (v->shape.dim[k] == of->dim[k] && (k == axis || k < of->rank - 2));
    return fits || zt_node_fail(g, node, err, "input \"%s\" of shape %s is neither one number nor a number a row of %s",
                                v->name, zt_shape_text(&v->shape, s), zt_shape_text(of, t));
}

void zt_quantized_steps(const struct zt_view *v, const struct zt_shape *of, int axis, int64_t step[ZT_MAX_RANK]) {
    memset(step, 0, ZT_MAX_RANK * sizeof *step);
    if (!v || !v->data || is_single(&v->shape))
        return;
    if (is_vector(&v->shape, of, axis))
        step[axis] = 1;
    else
        zt_broadcast_steps(of, &v->shape, step);
}

static const struct zt_view *view_of(const struct zt_call *call, int in) {
    return in >= 0 && in < call->in_count && call->in[in].data ? &call->in[in] : NULL;
}

void zt_quantized_center(const struct zt_call *call, struct zt_quantized_in in, int axis, double *to) {
    const struct zt_view *x = &call->in[in.at], *zero = view_of(call, in.zero);
    const int64_t count = zt_shape_count(&x->shape);
    int64_t step[ZT_MAX_RANK], index[ZT_MAX_RANK] = { 0 };
    zt_load_block(x->dtype, x->data, 0, 1, count, to);
    if (!zero || !count)
        return;
    zt_quantized_steps(zero, &x->shape, axis, step);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (int k = 0; k < x->shape.rank; k++)
            at += index[k] * step[k];
        to[i] -= zt_load_double(zero->dtype, zero->data, at);
        zt_next_index(&x->shape, index);
    }
}

bool zt_quantized_out(const struct zt_graph *g, int node, int scale, int zero, struct zt_err *err) {
    const int in[2] = { scale, zero };
    for (int i = 0; i < 2; i++)
        if (!is_single(&zt_in(g, node, in[i])->shape))
            return zt_node_fail(g, node, err, "input \"%s\" has %lld elements, wants 1", zt_in(g, node, in[i])->name,
                                (long long)zt_shape_count(&zt_in(g, node, in[i])->shape));
    return true;
}

/* Rounded to the type of the scales. */
static double rounded(enum zt_dtype dtype, double x) {
    double to = 0;
    zt_store_double(dtype, &to, 0, x);
    return zt_load_double(dtype, &to, 0);
}

static double factor_of(const struct zt_requantize *r, int64_t a_at, int64_t b_at) {
    const struct zt_view *in = r->call->in, *a = &in[r->scales[0]], *b = &in[r->scales[1]];
    const enum zt_dtype type = a->dtype;
    const double product = rounded(type, zt_load_double(type, a->data, a_at) * zt_load_double(type, b->data, b_at));
    return rounded(type, product / zt_load_double(type, in[r->out_scale].data, 0));
}

void zt_requantize(const struct zt_requantize *r, double sum, const int64_t at[2], int64_t index) {
    const struct zt_view *in = r->call->in, *y = &r->call->out[0];
    const double zero = zt_load_double(in[r->out_zero].dtype, in[r->out_zero].data, 0);
    const double v = (sum + r->added) * factor_of(r, at[0], at[1]);
    if (!zt_dtype_in(y->dtype, ZT_ANY_INT)) {
        zt_store_double(y->dtype, y->data, index, zero != 0 ? v + zero : v);
        return;
    }
    const double low = y->dtype == ZT_INT8 ? -128 : 0, high = low + 255, q = rint(v) + zero;
    zt_store_int(y->dtype, y->data, index, (int64_t)(!(q > low) ? low : q < high ? q : high));
}

/* What a row has in common: the factors are one number (step 0) or one a sum. */
struct row {
    double added, zero, low;
    const double *factor;
    int step;
};

/* Adding 1.5 * 2^52 rounds to a whole number, ties to even, of numbers that are small enough; results beyond 2^20 are
 * at an end of the range, NaN is at the lower one. */
static void round_row(const struct row *row, const int32_t *sum, int64_t count, uint8_t *y) {
    const double shift = 6755399441055744.0, most = 1048576, high = row->low + 255;
    for (int64_t i = 0; i < count; i++) {
        double v = ((double)sum[i] + row->added) * row->factor[row->step ? i : 0];
        v = v > -most ? v : -most;
        v = v < most ? v : most;
        double q = (v + shift) - shift + row->zero;
        q = q > row->low ? q : row->low;
        q = q < high ? q : high;
        y[i] = (uint8_t)(int32_t)q;
    }
}

void zt_requantize_row(const struct zt_requantize *r, const int32_t *sum, int64_t count, const int64_t at[2],
                       const int64_t step[2], int64_t index) {
    const struct zt_view *zero = &r->call->in[r->out_zero], *y = &r->call->out[0];
    const bool one = !step[0] && !step[1];
    const struct zt_view *in = r->call->in;
    const float *a = (const float *)in[r->scales[0]].data + at[0], *b = (const float *)in[r->scales[1]].data + at[1];
    const float y_scale = *(const float *)in[r->out_scale].data;
    double factor[ZT_ELEMENT_BLOCK] = { *a * *b / y_scale };
    const struct row row = { .added = r->added,
                             .zero = zt_load_double(zero->dtype, zero->data, 0),
                             .low = y->dtype == ZT_INT8 ? -128 : 0,
                             .factor = factor,
                             .step = !one };
    for (int64_t i = 0; i < count; i += ZT_ELEMENT_BLOCK) {
        const int64_t n = count - i < ZT_ELEMENT_BLOCK ? count - i : ZT_ELEMENT_BLOCK;
        for (int64_t k = 0; k < n && !one; k++)
            factor[k] = a[(i + k) * step[0]] * b[(i + k) * step[1]] / y_scale;
        round_row(&row, sum + i, n, zt_element(y->data, 1, index + i));
    }
}

void zt_store_wrapped(const struct zt_call *call, const double *sum) {
    const int64_t count = zt_shape_count(&call->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)call->out[0].data)[i] = (int32_t)(uint32_t)(uint64_t)(int64_t)sum[i];
}
