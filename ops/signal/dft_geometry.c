#include "ops/signal/dft.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>

/* Whether the last axis holds real (1) or complex (2) numbers. */
static bool read_parts(const struct zt_graph *g, int node, bool *real, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    const int64_t parts = x->shape.rank > 1 ? x->shape.dim[x->shape.rank - 1] : 0;
    if (parts != 1 && parts != 2)
        return zt_node_fail(g, node, err, "\"%s\" is not [..., 1] (real) or [..., 2] (complex)", x->name);
    *real = parts == 1;
    return true;
}

/* A scalar input, or a tensor of one number; `otherwise` where it is omitted. */
static bool read_scalar(const struct zt_graph *g, int node, int in, int64_t otherwise, int64_t *to,
                        struct zt_err *err) {
    int count;
    *to = otherwise;
    if (!zt_known_ints(g, node, in, &(struct zt_int_list){ to, 1, &count }, err))
        return false;
    return count != 0 || zt_node_fail(g, node, err, "input \"%s\" has no element", zt_in(g, node, in)->name);
}

static bool read_flag(const struct zt_graph *g, int node, const char *name, bool otherwise, bool *to,
                      struct zt_err *err) {
    const int64_t flag = zt_attr_int(g->nodes[node], name, otherwise);
    *to = flag != 0;
    return flag == 0 || flag == 1 ||
           zt_node_fail(g, node, err, "attribute \"%s\" is %lld, not 0 or 1", name, (long long)flag);
}

bool zt_dft_axis(const struct zt_graph *g, int node, int *axis, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const int rank = zt_in(g, node, 0)->shape.rank;
    int64_t at = zt_attr_int(n, "axis", n->op->since < 20 ? 1 : -2);
    if (!read_scalar(g, node, 2, at, &at, err) || !zt_axis(g, node, at, rank, axis, err))
        return false;
    return *axis < rank - 1 ||
           zt_node_fail(g, node, err, "axis %lld holds the real and imaginary parts, which are not transformed",
                        (long long)at);
}

/* The length N of a DFT whose axis has `size` elements. */
static bool read_length(const struct zt_graph *g, int node, int64_t size, struct zt_dft *d, struct zt_err *err) {
    const int64_t usual = d->inverse && d->onesided ? 2 * (size - 1) : size;
    if (!read_scalar(g, node, 1, usual, &d->length, err))
        return false;
    return (d->length > 0 && d->length <= INT64_C(1) << 40) ||
           zt_node_fail(g, node, err, "the transform has length %lld", (long long)d->length);
}

static int64_t half_of(int64_t length) {
    return length / 2 + 1;
}

bool zt_dft_read(const struct zt_graph *g, int node, struct zt_dft *d, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int axis;
    *d = (struct zt_dft){ 0 };
    if (!read_parts(g, node, &d->in.real, err) || !zt_dft_axis(g, node, &axis, err) ||
        !read_flag(g, node, "inverse", false, &d->inverse, err) ||
        !read_flag(g, node, "onesided", false, &d->onesided, err) || !read_length(g, node, x->dim[axis], d, err))
        return false;
    if (d->onesided && d->in.real == d->inverse)
        return zt_node_fail(g, node, err,
                            d->inverse ? "a onesided inverse transform of real numbers is not defined"
                                       : "a onesided transform of complex numbers is not defined");
    d->out.real = d->inverse && d->onesided;
    d->writes = d->onesided && !d->inverse ? half_of(d->length) : d->length;
    d->reads = zt_min_int(x->dim[axis], d->out.real ? half_of(d->length) : d->length);
    const int64_t outer = zt_dims(x, 0, axis), inner = zt_dims(x, axis + 1, x->rank - 1);
    const int64_t in = d->in.real ? 1 : 2, out = d->out.real ? 1 : 2;
    int64_t stride;
    if (!zt_ops_dim_product(g, node, d->writes, inner * out, &stride, err))
        return false;
    d->slices = outer * inner;
    d->in = (struct zt_dft_places){ inner, x->dim[axis] * inner * in, in, inner * in, d->in.real };
    d->out = (struct zt_dft_places){ inner, stride, out, inner * out, d->out.real };
    return true;
}

/* N: that of the window, or `frame_length`, which must be equal where both are there, or that of the signal. */
static bool read_frame_length(const struct zt_graph *g, int node, int64_t signal, struct zt_dft *d,
                              struct zt_err *err) {
    const struct zt_value *window = zt_in(g, node, 2);
    if (window && window->shape.rank != 1)
        return zt_node_fail(g, node, err, "the window \"%s\" is not a vector", window->name);
    if (!read_scalar(g, node, 3, window ? window->shape.dim[0] : signal, &d->length, err))
        return false;
    if (window && window->shape.dim[0] != d->length)
        return zt_node_fail(g, node, err, "the window has %lld numbers, a frame %lld", (long long)window->shape.dim[0],
                            (long long)d->length);
    if (d->length < 1 || d->length > signal)
        return zt_node_fail(g, node, err, "a frame of %lld in a signal of %lld", (long long)d->length,
                            (long long)signal);
    d->window = window ? 2 : 0;
    return true;
}

static bool read_frames(const struct zt_graph *g, int node, struct zt_dft *d, struct zt_stft_frames *f,
                        struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    *d = (struct zt_dft){ 0 };
    if (x->shape.rank != 2 && x->shape.rank != 3)
        return zt_node_fail(g, node, err, "the signal \"%s\" has rank %d, not 2 or 3", x->name, x->shape.rank);
    d->in.real = x->shape.rank == 2;
    if ((x->shape.rank == 3 && !read_parts(g, node, &d->in.real, err)) ||
        !read_flag(g, node, "onesided", true, &d->onesided, err) || !read_scalar(g, node, 1, 1, &f->step, err) ||
        !read_frame_length(g, node, x->shape.dim[1], d, err))
        return false;
    if (f->step < 1)
        return zt_node_fail(g, node, err, "frames are %lld apart", (long long)f->step);
    if (d->onesided && !d->in.real)
        return zt_node_fail(g, node, err, "a onesided transform of complex numbers is not defined");
    f->count = (x->shape.dim[1] - d->length) / f->step + 1;
    return true;
}

bool zt_stft_frames(const struct zt_graph *g, int node, struct zt_stft_frames *to, struct zt_err *err) {
    struct zt_dft d;
    return read_frames(g, node, &d, to, err);
}

bool zt_stft_read(const struct zt_graph *g, int node, struct zt_dft *d, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_stft_frames f;
    if (!read_frames(g, node, d, &f, err))
        return false;
    const int64_t in = d->in.real ? 1 : 2;
    d->reads = d->length;
    d->writes = d->onesided ? half_of(d->length) : d->length;
    if (!zt_ops_dim_product(g, node, x->dim[0], f.count, &d->slices, err))
        return false;
    /* the product of frames and step is at most the length of the signal */
    d->in = (struct zt_dft_places){ f.count, x->dim[1] * in, f.count > 1 ? f.step * in : in, in, d->in.real };
    d->out = (struct zt_dft_places){ f.count, f.count * d->writes * 2, d->writes * 2, 2, false };
    return true;
}

/* 5 N log2 N, as for a transform of complex numbers; real numbers on one side need half of it. */
double zt_dft_flops(const struct zt_graph *g, int node) {
    struct zt_dft d;
    struct zt_err err = { 0 };
    if (!zt_dft_of(g, node, &d, &err))
        return 0;
    const double n = (double)d.length, parts = d.in.real || d.out.real ? 1 : 2;
    return 2.5 * parts * n * log2(n > 1 ? n : 2) * (double)d.slices;
}

bool zt_dft_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_dft_of(g, node, to, err);
}
