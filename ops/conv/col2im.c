/* Col2Im (opset 18 on): element (n, c, k, l) of x [batch, channels * kernel, blocks], k a place in the block and l a
 * block, is added to element  l stride - pad + k dilation  of plane (n, c) of the image, where that is inside. Its
 * gradient is ztrain.Im2Col, which reads where Col2Im adds. */
#include "ops/conv/columns.h"
#include "ops/conv/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/window.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"

#include <string.h>

/* An attribute that lists `count` integers of at least `least`, which is also the default. */
struct int_attr {
    const char *name;
    int count;
    int64_t least;
};

static bool read_list(const struct zt_graph *g, int node, struct int_attr attr, int64_t *to, struct zt_err *err) {
    int found;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, attr.name },
                     &(struct zt_int_list){ to, 2 * ZT_WINDOW_AXES, &found }, err))
        return false;
    for (int i = 0; found < 0 && i < attr.count; i++)
        to[i] = attr.least;
    if (found >= 0 && found != attr.count)
        return zt_node_fail(g, node, err, "attribute \"%s\" has %d numbers, not %d", attr.name, found, attr.count);
    for (int i = 0; i < attr.count; i++)
        if (to[i] < attr.least || to[i] > INT32_MAX)
            return zt_node_fail(g, node, err, "attribute \"%s\" holds %lld", attr.name, (long long)to[i]);
    return true;
}

static bool read_window(const struct zt_graph *g, int node, struct zt_window *w, struct zt_err *err) {
    int64_t pads[2 * ZT_WINDOW_AXES], strides[2 * ZT_WINDOW_AXES], dilations[2 * ZT_WINDOW_AXES];
    int kernel_axes;
    memset(w, 0, sizeof *w);
    if (!zt_known_ints(g, node, 1, &(struct zt_int_list){ w->in, ZT_WINDOW_AXES, &w->axes }, err) ||
        !zt_known_ints(g, node, 2, &(struct zt_int_list){ w->kernel, ZT_WINDOW_AXES, &kernel_axes }, err) ||
        !read_list(g, node, (struct int_attr){ "pads", 2 * w->axes, 0 }, pads, err) ||
        !read_list(g, node, (struct int_attr){ "strides", w->axes, 1 }, strides, err) ||
        !read_list(g, node, (struct int_attr){ "dilations", w->axes, 1 }, dilations, err))
        return false;
    if (w->axes < 1 || kernel_axes != w->axes)
        return zt_node_fail(g, node, err, "the image has %d axes and the block %d", w->axes, kernel_axes);
    w->in_elems = w->out_elems = w->kernel_elems = 1;
    for (int a = 0; a < w->axes; a++) {
        w->pad[a] = pads[a], w->stride[a] = strides[a], w->dilation[a] = dilations[a];
        if (w->in[a] < 1 || w->in[a] > INT32_MAX || w->kernel[a] < 1 || w->kernel[a] > INT32_MAX)
            return zt_node_fail(g, node, err, "axis %d of the image or of the block is not positive or too long", a);
        int64_t room = w->in[a] + pads[a] + pads[w->axes + a] - dilations[a] * (w->kernel[a] - 1) - 1;
        if (room < 0)
            return zt_node_fail(g, node, err, "axis %d: the block is larger than the padded image", a);
        w->out[a] = room / strides[a] + 1;
        if (!zt_ops_dim_product(g, node, w->in_elems, w->in[a], &w->in_elems, err) ||
            !zt_ops_dim_product(g, node, w->out_elems, w->out[a], &w->out_elems, err) ||
            !zt_ops_dim_product(g, node, w->kernel_elems, w->kernel[a], &w->kernel_elems, err))
            return false;
    }
    return true;
}

static bool col2im_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_window w;
    const struct zt_value *x = zt_in(g, node, 0);
    if (!read_window(g, node, &w, err))
        return false;
    if (x->shape.rank != 3 || x->shape.dim[1] % w.kernel_elems != 0 || x->shape.dim[2] != w.out_elems)
        return zt_node_fail(g, node, err, "\"%s\" is not [batch, channels * %lld, %lld]", x->name,
                            (long long)w.kernel_elems, (long long)w.out_elems);
    struct zt_shape shape = { w.axes + 2, { x->shape.dim[0], x->shape.dim[1] / w.kernel_elems } };
    memcpy(shape.dim + 2, w.in, sizeof *w.in * (size_t)w.axes);
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool im2col_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_window w;
    const struct zt_value *x = zt_in(g, node, 0);
    if (!read_window(g, node, &w, err))
        return false;
    if (x->shape.rank != w.axes + 2 || memcmp(x->shape.dim + 2, w.in, sizeof *w.in * (size_t)w.axes) != 0)
        return zt_node_fail(g, node, err, "\"%s\" is not [batch, channels, image]", x->name);
    struct zt_shape shape = { 3, { x->shape.dim[0], 0, w.out_elems } };
    if (!zt_ops_dim_product(g, node, x->shape.dim[1], w.kernel_elems, &shape.dim[1], err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* Row-major index `row` of the axes before the last. */
static void outer_of(const struct zt_window *w, const int64_t *dim, int64_t row, int64_t *outer) {
    zt_window_split(row, dim, w->axes - 1, outer);
    outer[w->axes - 1] = 0;
}

/* Computes elements [from, from + count) of a row of an image: sums over the blocks, in double; sums of integers wrap
 * as their type does. */
static void gather_block(const struct zt_call *call, const struct zt_window *w, int64_t plane, int64_t row,
                         int64_t from, int64_t count) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    const bool integers = zt_dtype_in(x->dtype, ZT_ANY_INT);
    int64_t outer[ZT_WINDOW_AXES], place[ZT_WINDOW_AXES], whole[ZT_ELEMENT_BLOCK] = { 0 }, word[ZT_ELEMENT_BLOCK];
    double sum[ZT_ELEMENT_BLOCK] = { 0 }, v[ZT_ELEMENT_BLOCK];
    outer_of(w, w->in, row, outer);
    for (int64_t k = 0; k < w->kernel_elems; k++) {
        struct zt_stretch s;
        zt_window_split(k, w->kernel, w->axes, place);
        zt_window_stretch_back(w, outer, place, from, count, &s);
        const int64_t at = (plane * w->kernel_elems + k) * w->out_elems + s.partner, first = s.first - from;
        if (s.count == 0)
            continue;
        if (integers)
            zt_load_block_int(x->dtype, x->data, at, s.stride, s.count, word);
        else
            zt_load_block(x->dtype, x->data, at, s.stride, s.count, v);
        for (int64_t i = 0; i < s.count && integers; i++)
            whole[first + i * s.step] = (int64_t)((uint64_t)whole[first + i * s.step] + (uint64_t)word[i]);
        for (int64_t i = 0; i < s.count && !integers; i++)
            sum[first + i * s.step] += v[i];
    }
    const int64_t to = plane * w->in_elems + row * w->in[w->axes - 1] + from;
    if (integers)
        zt_store_block_int(y->dtype, y->data, to, 1, count, whole);
    else
        zt_store_block(y->dtype, y->data, to, 1, count, sum);
}

struct job {
    const struct zt_call *call;
    struct zt_window w;
};

static void gather_row(void *arg, int64_t n) {
    const struct job *j = arg;
    const int64_t width = j->w.in[j->w.axes - 1], rows = j->w.in_elems / width;
    for (int64_t at = 0; at < width; at += ZT_ELEMENT_BLOCK)
        gather_block(j->call, &j->w, n / rows, n % rows, at,
                     width - at < ZT_ELEMENT_BLOCK ? width - at : ZT_ELEMENT_BLOCK);
}

static bool col2im_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!read_window(call->graph, zt_call_node(call), &j.w, err))
        return false;
    const int64_t count = zt_shape_count(&call->out[0].shape);
    zt_parallel_for(zt_threads_worth(call->threads, (double)count * (double)j.w.kernel_elems),
                    count / j.w.in[j.w.axes - 1], gather_row, &j);
    return true;
}

/* Row r of y: the elements of a plane at position r modulo the block's size in every block, 0 outside the plane. */
static void im2col_row(const struct zt_call *call, const struct zt_window *w, int64_t r) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    const size_t bytes = zt_dtype_bytes(x->dtype);
    const int64_t plane = r / w->kernel_elems * w->in_elems, width = w->out[w->axes - 1];
    int64_t k[ZT_WINDOW_AXES], outer[ZT_WINDOW_AXES];
    char *to = zt_element(y->data, bytes, r * w->out_elems);
    memset(to, 0, bytes * (size_t)w->out_elems);
    zt_window_split(r % w->kernel_elems, w->kernel, w->axes, k);
    for (int64_t row = 0; row < w->out_elems / width; row++, to += bytes * (size_t)width) {
        struct zt_stretch s;
        outer_of(w, w->out, row, outer);
        zt_window_stretch(w, outer, k, 0, width, &s);
        const char *from = zt_element(x->data, bytes, plane + s.partner);
        if (s.stride == 1)
            memcpy(to + (size_t)s.first * bytes, from, bytes * (size_t)s.count);
        else
            for (int64_t i = 0; i < s.count; i++)
                memcpy(to + (size_t)(s.first + i) * bytes, from + (size_t)(i * s.stride) * bytes, bytes);
    }
}

static void run_im2col_row(void *arg, int64_t r) {
    const struct job *j = arg;
    im2col_row(j->call, &j->w, r);
}

static bool im2col_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!read_window(call->graph, zt_call_node(call), &j.w, err))
        return false;
    const int64_t count = zt_shape_count(&call->out[0].shape);
    zt_parallel_for(zt_threads_worth(call->threads, (double)count), count / j.w.out_elems, run_im2col_row, &j);
    return true;
}

/* ---- CPU kernels of floats; workspace: where each place in the block meets the image ---- */

struct planes {
    const struct zt_call *call;
    struct zt_window w;
    int64_t rows;                 /* of blocks: all axes of a plane but the last */
    const struct zt_stretch *row; /* [place in the block][row]; partners lie in the image's plane */
};

static bool takes_cpu(const struct zt_graph *g, int node) {
    return zt_in(g, node, 0)->dtype == ZT_FLOAT;
}

static bool prepare_cpu(struct zt_prepare *p, struct zt_err *err) {
    struct zt_window w;
    zt_layout_plain(p);
    if (!read_window(p->graph, p->node, &w, err))
        return false;
    p->workspace_bytes = sizeof(struct zt_stretch) * (size_t)(w.out_elems / w.out[w.axes - 1] * w.kernel_elems);
    return true;
}

static bool run_planes(const struct zt_call *call, void (*each)(void *planes, int64_t n), struct zt_err *err) {
    struct zt_stretch *row = call->workspace;
    struct planes p = { .call = call, .row = row };
    int64_t place[ZT_WINDOW_AXES], outer[ZT_WINDOW_AXES];
    if (!read_window(call->graph, zt_call_node(call), &p.w, err))
        return false;
    const int64_t width = p.w.out[p.w.axes - 1];
    p.rows = p.w.out_elems / width;
    for (int64_t i = 0; i < p.rows * p.w.kernel_elems; i++) {
        zt_window_split(i / p.rows, p.w.kernel, p.w.axes, place);
        outer_of(&p.w, p.w.out, i % p.rows, outer);
        zt_window_stretch(&p.w, outer, place, 0, width, &row[i]);
    }
    const struct zt_shape *in = &call->in[0].shape, *out = &call->out[0].shape;
    const double work = (double)zt_shape_count(in) + (double)zt_shape_count(out);
    zt_parallel_for(zt_threads_worth(call->threads, work), out->dim[0] * out->dim[1], each, &p);
    return true;
}

/* A plane of the image: the places in the block one after the other. */
static void add_plane(void *arg, int64_t plane) {
    const struct planes *s = arg;
    const struct zt_call *call = s->call;
    const int64_t width = s->w.out[s->w.axes - 1];
    const float *from = (const float *)call->in[0].data + plane * s->w.kernel_elems * s->w.out_elems;
    float *image = (float *)call->out[0].data + plane * s->w.in_elems;
    memset(image, 0, (size_t)s->w.in_elems * sizeof *image);
    for (int64_t i = 0; i < s->rows * s->w.kernel_elems; i++) {
        const struct zt_stretch *t = &s->row[i];
        const float *restrict x = from + i * width + t->first;
        float *restrict y = image + t->partner;
        for (int64_t k = 0; k < t->count && t->stride == 1; k++)
            y[k] += x[k];
        for (int64_t k = 0; k < t->count && t->stride != 1; k++)
            y[k * t->stride] += x[k];
    }
}

static bool col2im_cpu(const struct zt_call *call, struct zt_err *err) {
    return run_planes(call, add_plane, err);
}

/* All blocks' elements of one place in the block, of one plane. */
static void copy_place(void *arg, int64_t n) {
    const struct planes *s = arg;
    const struct zt_call *call = s->call;
    const int64_t width = s->w.out[s->w.axes - 1], place = n % s->w.kernel_elems;
    const float *image = (const float *)call->in[0].data + n / s->w.kernel_elems * s->w.in_elems;
    float *to = (float *)call->out[0].data + n * s->w.out_elems;
    for (int64_t row = 0; row < s->rows; row++, to += width) {
        const struct zt_stretch *t = &s->row[place * s->rows + row];
        const float *restrict x = image + t->partner;
        float *restrict y = to + t->first;
        if (t->count < width)
            memset(to, 0, (size_t)width * sizeof *to);
        for (int64_t k = 0; k < t->count && t->stride == 1; k++)
            y[k] = x[k];
        for (int64_t k = 0; k < t->count && t->stride != 1; k++)
            y[k] = x[k * t->stride];
    }
}

static bool im2col_cpu(const struct zt_call *call, struct zt_err *err) {
    return run_planes(call, copy_place, err);
}

/* A struct zt_columns for other back ends, of either row: the image is the result, or the input. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_value *image = g->nodes[node]->domain[0] ? zt_in(g, node, 0) : zt_out(g, node, 0);
    struct zt_columns *c = to;
    c->planes = image->shape.dim[0] * image->shape.dim[1];
    return read_window(g, node, &c->window, err);
}

static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_columns c;
    struct zt_err err = { 0 };
    return zt_cuda_float_data(g, node) && describe(g, node, &c, &err) && c.window.axes <= 3;
}

static bool col2im_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[] = { zt_grad_out(b, node, 0), n->in[1], n->in[2] }, out;
    zt_emit_node(b, &(struct zt_emission){ "Im2Col", "ztrain", in, 3, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "dilations", ZT_ATTR_INTS }, { "pads", ZT_ATTR_INTS }, { "strides", ZT_ATTR_INTS }, { 0 }
};

const struct zt_op zt_op_col2im = {
    .name = "Col2Im",
    .domain = "",
    .since = 18,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_NUMBER, 1 << ZT_INT64, 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = col2im_infer,
    .grad = col2im_grad,
    .no_grad_in = 0x6,
    .kernel = { [ZT_REF] = { .run = col2im_run },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = col2im_cpu },
                [ZT_CUDA] = ZT_CUDA_AS(col2im, takes_cuda, describe) },
};
const struct zt_op zt_op_im2col = {
    .name = "Im2Col",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_NUMBER, 1 << ZT_INT64, 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = im2col_infer,
    .body = zt_im2col_function_body,
    .kernel = { [ZT_REF] = { .run = im2col_run },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = im2col_cpu },
                [ZT_CUDA] = ZT_CUDA_AS(im2col, takes_cuda, describe) },
};
