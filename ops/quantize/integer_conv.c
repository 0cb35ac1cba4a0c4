/* ConvInteger  y = conv(x - x_zero, w - w_zero)                                              int32, wraps
 * QLinearConv  y = clip(round((conv(x - x_zero, w - w_zero) + b) x_scale w_scale / y_scale) + y_zero)
 *
 * Padding counts as x = x_zero. Scale and zero point of w: one number or a number for each output channel. No gradient.
 */
#include "ops/quantize/integer_cpu.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/requantize.h"

#include "device/threads.h"
#include "ops/conv/conv.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

struct operands {
    struct zt_quantized_in x, w;
    int bias; /* -1: none */
};
static const struct operands integer = { { 0, -1, 2 }, { 1, -1, 3 }, -1 };
static const struct operands quantized = { { 0, 1, 2 }, { 3, 4, 5 }, 8 };
enum { Y_SCALE = 6, Y_ZERO = 7 };

static const struct operands *operands_of(const struct zt_node *n) {
    return n->in_count > Y_ZERO ? &quantized : &integer;
}

static bool check_bias(const struct zt_graph *g, int node, const struct zt_conv *c, int bias, struct zt_err *err) {
    const struct zt_value *b = bias < 0 ? NULL : zt_in(g, node, bias);
    char text[ZT_SHAPE_TEXT];
    return !b || (b->shape.rank == 1 && b->shape.dim[0] == c->m) ||
           zt_node_fail(g, node, err, "bias \"%s\" has shape %s, wants [%lld]", b->name, zt_shape_text(&b->shape, text),
                        (long long)c->m);
}

/* Numbers of x have no axis, those of w lie along axis 0. */
static bool check_numbers(const struct zt_graph *g, int node, struct zt_quantized_in in, int axis, struct zt_err *err) {
    const struct zt_shape channels = { 1, { axis < 0 ? 1 : zt_in(g, node, in.at)->shape.dim[0] } };
    return zt_quantized_fits(g, node, in.zero, &channels, axis, err) &&
           (in.scale < 0 || zt_quantized_fits(g, node, in.scale, &channels, axis, err));
}

static bool read(const struct zt_graph *g, int node, const struct operands *o, struct zt_conv *to, struct zt_err *err) {
    return zt_conv_read_shapes(g, node, &zt_in(g, node, o->x.at)->shape, &zt_in(g, node, o->w.at)->shape, to, err) &&
           check_numbers(g, node, o->x, -1, err) && check_numbers(g, node, o->w, 0, err) &&
           check_bias(g, node, to, o->bias, err);
}

static bool infer(struct zt_graph *g, int node, const struct operands *o, enum zt_dtype dtype, struct zt_err *err) {
    struct zt_conv c;
    if (!read(g, node, o, &c, err))
        return false;
    struct zt_shape out = { c.window.axes + 2, { c.n, c.m } };
    for (int a = 0; a < c.window.axes; a++)
        out.dim[a + 2] = c.window.out[a];
    zt_set_out(g, node, 0, dtype, &out);
    return true;
}

static bool integer_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return infer(g, node, &integer, ZT_INT32, err);
}

/* A row has one set of types for the zero point of y and what follows it. */
static bool check_last_types(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *zero = zt_in(g, node, Y_ZERO), *bias = zt_in(g, node, quantized.bias);
    if (zero->dtype == ZT_INT32)
        return zt_node_fail(g, node, err, "\"%s\" has type int32, wants int8 or uint8", zero->name);
    return !bias || bias->dtype == ZT_INT32 ||
           zt_node_fail(g, node, err, "bias \"%s\" has type %s, wants int32", bias->name, zt_dtype_name(bias->dtype));
}

static bool quantized_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return check_last_types(g, node, err) && zt_quantized_out(g, node, Y_SCALE, Y_ZERO, err) &&
           infer(g, node, &quantized, zt_in(g, node, Y_ZERO)->dtype, err);
}

/* ---- reference kernels; workspace: x, w, bias and the sums as doubles ---- */

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    const struct operands *o = operands_of(p->graph->nodes[p->node]);
    const struct zt_shape *w = &zt_in(p->graph, p->node, o->w.at)->shape;
    p->workspace_bytes =
        sizeof(double) * (size_t)(zt_shape_count(&zt_in(p->graph, p->node, o->x.at)->shape) + zt_shape_count(w) +
                                  w->dim[0] + zt_shape_count(&zt_out(p->graph, p->node, 0)->shape));
    return true;
}

/* Returns the sums with the bias. */
static double *convolve(const struct zt_call *call, const struct operands *o, struct zt_conv *c, struct zt_err *err) {
    const struct zt_view *x = &call->in[o->x.at], *w = &call->in[o->w.at];
    const struct zt_view *b = o->bias >= 0 && o->bias < call->in_count ? &call->in[o->bias] : NULL;
    double *from = call->workspace, *weight = from + zt_shape_count(&x->shape);
    double *bias = weight + zt_shape_count(&w->shape), *sum = bias + w->shape.dim[0];
    if (!read(call->graph, zt_call_node(call), o, c, err))
        return NULL;
    zt_quantized_center(call, o->x, -1, from);
    zt_quantized_center(call, o->w, 0, weight);
    for (int64_t m = 0; b && b->data && m < c->m; m++)
        bias[m] = zt_load_double(b->dtype, b->data, m);
    zt_conv_forward(&(struct zt_conv_job){ .conv = *c,
                                           .dtype = ZT_DOUBLE,
                                           .from = from,
                                           .weight = weight,
                                           .bias = b && b->data ? bias : NULL,
                                           .to_dtype = ZT_DOUBLE,
                                           .to = sum,
                                           .threads = call->threads });
    return sum;
}

static bool integer_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv c;
    const double *sum = convolve(call, &integer, &c, err);
    if (sum)
        zt_store_wrapped(call, sum);
    return sum != NULL;
}

static bool quantized_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv c;
    const double *sum = convolve(call, &quantized, &c, err);
    const struct zt_requantize r = { call, { quantized.x.scale, quantized.w.scale }, Y_SCALE, Y_ZERO };
    const bool by_channel = zt_shape_count(&call->in[quantized.w.scale].shape) > 1;
    const int64_t count = sum ? zt_shape_count(&call->out[0].shape) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at[2] = { 0, by_channel ? i / c.window.out_elems % c.m : 0 };
        zt_requantize(&r, sum[i], at, i);
    }
    return sum != NULL;
}

/* ---- CPU kernels (integer_cpu.h): weight [m, depth] times columns [depth, block of a plane of y] of x ---- */

enum { COLUMNS = 256 }; /* of a block */

struct conv_state {
    struct zt_conv conv;
    int64_t m, depth, block;            /* of a group; columns of a block */
    size_t x, w, zeros;                 /* parts of the workspace */
    size_t scratch, scratch_bytes;      /* of the first thread; of each */
    size_t columns, part, sum, gemm_at; /* in a thread's scratch */
};

static bool takes_cpu(const struct zt_graph *g, int node) {
    const struct operands *o = operands_of(g->nodes[node]);
    struct zt_err none = { 0 };
    struct zt_conv c;
    if (!zt_integer_cpu_takes(g, node, o->x) || !zt_integer_cpu_takes(g, node, o->w) || !read(g, node, o, &c, &none))
        return false;
    const int64_t depth = c.c / c.groups * c.window.kernel_elems;
    return c.n > 0 && c.m > 0 && depth > 0 && c.window.out_elems > 0 &&
           depth <= (o == &integer ? INT32_MAX : ZT_INTEGER_MOST);
}

static struct zt_simd_gemm gemm_of(const struct conv_state *s, int64_t columns, int64_t depth) {
    return (struct zt_simd_gemm){ .count = 1,
                                  .m = s->m,
                                  .n = columns,
                                  .k = depth,
                                  .a_row = s->depth,
                                  .a_col = 1,
                                  .b_row = columns,
                                  .b_col = 1,
                                  .y_row = columns,
                                  .alpha = 1 };
}

static bool prepare_cpu(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct operands *o = operands_of(g->nodes[p->node]);
    struct zt_conv c;
    if (!read(g, p->node, o, &c, err))
        return false;
    struct conv_state *s = p->state = zt_calloc(1, sizeof *s);
    const int64_t x_zeros = zt_integer_zeros(g, p->node, o->x), w_zeros = zt_integer_zeros(g, p->node, o->w);
    size_t *bytes = &p->workspace_bytes;
    zt_layout_plain(p);
    s->conv = c;
    s->m = c.m / c.groups;
    s->depth = c.c / c.groups * c.window.kernel_elems;
    s->block = c.window.out_elems < COLUMNS ? c.window.out_elems : COLUMNS;
    s->x = zt_integer_part(bytes, zt_shape_count(&zt_in(g, p->node, o->x.at)->shape));
    s->w = zt_integer_part(bytes, zt_shape_count(&zt_in(g, p->node, o->w.at)->shape));
    s->zeros = zt_integer_part(bytes, x_zeros > w_zeros ? x_zeros : w_zeros);
    const int64_t slice = s->depth < ZT_INTEGER_DEPTH ? s->depth : ZT_INTEGER_DEPTH;
    const struct zt_simd_gemm gemm = gemm_of(s, s->block, slice);
    s->columns = zt_integer_part(&s->scratch_bytes, slice * s->block);
    s->part = zt_integer_part(&s->scratch_bytes, s->m * s->block);
    s->sum = zt_integer_part(&s->scratch_bytes, s->m * s->block);
    s->gemm_at = s->scratch_bytes;
    s->scratch_bytes += (zt_simd_gemm_bytes(zt_simd_gemm_best(), &gemm, 1) + 63) / 64 * 64;
    s->scratch = *bytes;
    *bytes += s->scratch_bytes * (size_t)(p->threads > 0 ? p->threads : 1);
    return true;
}

struct conv_run {
    const struct zt_call *call;
    const struct conv_state *s;
    float *x, *w;
    bool rounds;
};

/* The `count` elements of x that window position `position` of results `first`.. of a plane covers; 0 for padding. */
static void read_columns(const struct zt_window *w, const float *x, int64_t position, int64_t first, int64_t count,
                         float *to) {
    const int64_t width = w->out[w->axes - 1];
    int64_t place[ZT_WINDOW_AXES], outer[ZT_WINDOW_AXES] = { 0 };
    zt_window_split(position, w->kernel, w->axes, place);
    memset(to, 0, (size_t)count * sizeof *to);
    for (int64_t at = first, length; at < first + count; at += length, to += length) {
        const int64_t from = at % width, left = first + count - at;
        struct zt_stretch s;
        length = width - from < left ? width - from : left;
        zt_window_split(at / width, w->out, w->axes - 1, outer);
        zt_window_stretch(w, outer, place, from, length, &s);
        for (int64_t i = 0; i < s.count; i++)
            to[s.first - from + i * s.step] = x[s.partner + i * s.stride];
    }
}

/* The sums of a block: `plane` counts groups of all samples. */
static int32_t *sum_block(const struct conv_run *r, int64_t plane, int64_t first, int64_t count) {
    const struct conv_state *s = r->s;
    const struct zt_window *w = &s->conv.window;
    char *scratch = (char *)r->call->workspace + s->scratch + s->scratch_bytes * (size_t)zt_parallel_thread();
    float *columns = (float *)(scratch + s->columns), *part = (float *)(scratch + s->part);
    int32_t *sum = (int32_t *)(scratch + s->sum);
    const float *x = r->x + plane * (s->conv.c / s->conv.groups) * w->in_elems;
    const float *weight = r->w + plane % s->conv.groups * s->m * s->depth;
    for (int64_t k = 0; k < s->depth; k += ZT_INTEGER_DEPTH) {
        const int64_t depth = s->depth - k < ZT_INTEGER_DEPTH ? s->depth - k : ZT_INTEGER_DEPTH;
        const struct zt_simd_gemm gemm = gemm_of(s, count, depth);
        for (int64_t i = 0; i < depth; i++)
            read_columns(w, x + (k + i) / w->kernel_elems * w->in_elems, (k + i) % w->kernel_elems, first, count,
                         columns + i * count);
        zt_simd_gemm_run(zt_simd_gemm_best(), &gemm,
                         &(struct zt_simd_gemm_operands){ .a = weight + k, .b = columns, .y = part },
                         scratch + s->gemm_at, 1);
        zt_integer_add(part, s->m * count, k == 0, sum);
    }
    return sum;
}

static void run_block(void *arg, int64_t block) {
    const struct conv_run *r = arg;
    const struct conv_state *s = r->s;
    const int64_t elements = s->conv.window.out_elems, blocks = (elements + s->block - 1) / s->block;
    const int64_t plane = block / blocks, first = block % blocks * s->block;
    const int64_t count = elements - first < s->block ? elements - first : s->block;
    const int32_t *sum = sum_block(r, plane, first, count);
    const struct zt_view *bias = r->rounds && quantized.bias < r->call->in_count ? &r->call->in[quantized.bias] : NULL;
    for (int64_t i = 0; i < s->m; i++) {
        const int64_t to = (plane * s->m + i) * elements + first, m = plane % s->conv.groups * s->m + i;
        const struct zt_requantize rounding = { r->call,
                                                { quantized.x.scale, quantized.w.scale },
                                                Y_SCALE,
                                                Y_ZERO,
                                                bias && bias->data ? ((const int32_t *)bias->data)[m] : 0 };
        if (!r->rounds) {
            memcpy((int32_t *)r->call->out[0].data + to, sum + i * count, (size_t)count * sizeof *sum);
            continue;
        }
        const bool by_channel = zt_shape_count(&r->call->in[quantized.w.scale].shape) > 1;
        zt_requantize_row(&rounding, sum + i * count, count, (const int64_t[2]){ 0, by_channel ? m : 0 },
                          (const int64_t[2]){ 0, 0 }, to);
    }
}

static bool run_cpu(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct conv_state *s = call->state;
    const struct operands *o = operands_of(call->node);
    char *at = call->workspace;
    struct conv_run r = { call, s, (float *)(at + s->x), (float *)(at + s->w), o == &quantized };
    zt_integer_center(call, o->x, -1, (float *)(at + s->zeros), r.x);
    zt_integer_center(call, o->w, 0, (float *)(at + s->zeros), r.w);
    const int64_t blocks = (s->conv.window.out_elems + s->block - 1) / s->block;
    zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&call->out[0].shape) * (double)s->depth),
                    s->conv.n * s->conv.groups * blocks, run_block, &r);
    return true;
}

/* ---- rows ---- */

enum { BYTES = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8), SCALE = ZT_BIT(ZT_FLOAT) };

static const struct zt_attr_spec attrs[] = { { "auto_pad", ZT_ATTR_STRING },
                                             { "dilations", ZT_ATTR_INTS },
                                             { "group", ZT_ATTR_INT },
                                             { "kernel_shape", ZT_ATTR_INTS },
                                             { "pads", ZT_ATTR_INTS },
                                             { "strides", ZT_ATTR_INTS },
                                             { 0 } };

const struct zt_op zt_op_conv_integer = {
    .name = "ConvInteger",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 4),
    .flags = ZT_OP_WINDOWS,
    .in_types = { BYTES, BYTES, BYTES, BYTES },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = integer_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = integer_ref },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = run_cpu, .release = free } },
};

const struct zt_op zt_op_qlinear_conv = {
    .name = "QLinearConv",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(8, 9),
    .flags = ZT_OP_WINDOWS,
    .in_types = { BYTES, SCALE, BYTES, BYTES, SCALE, BYTES, SCALE, BYTES | ZT_BIT(ZT_INT32) },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = quantized_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = quantized_ref },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = run_cpu, .release = free } },
};
