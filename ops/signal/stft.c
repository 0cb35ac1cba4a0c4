/* STFT (opset 17): y[b, f] = DFT over n < N of x[b, f step + n] window[n], for frames f (formulas of the transform:
 * dft_plan.h). PyTorch's exporter writes real signals without the last axis, as [B, T].
 *
 * With G[b, f, n] the gradient of the transform's input (dft_gradient.c):
 *
 *     dx[b, t]   = sum over the f and n with f step + n = t of G[b, f, n] window[n]            Col2Im
 *     dwindow[n] = sum over b and f of G[b, f, n] x[b, f step + n], both parts of complex x    Im2Col */
#include "ops/signal/dft.h"
#include "ops/signal/dft_gradient.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

static bool stft_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_stft_frames f;
    struct zt_dft d;
    if (!zt_stft_read(g, node, &d, err) || !zt_stft_frames(g, node, &f, err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &(struct zt_shape){ 4, { x->shape.dim[0], f.count, d.writes, 2 } });
    return true;
}

/* ---- gradient ---- */

/* Col2Im and Im2Col of frames of a signal of length T. */
struct columns {
    int image, block; /* [T], [N] */
    struct zt_attr strides;
};
static struct columns columns_of(struct zt_grad *b, const struct zt_dft *d, int64_t signal, int64_t step) {
    struct columns c = { zt_emit_ints(b, &signal, 1), zt_emit_ints(b, &d->length, 1) };
    /* a step beyond the end is that of one frame */
    const int64_t stride = zt_min_int(step, signal);
    c.strides = (struct zt_attr){ .name = "strides",
                                  .type = ZT_ATTR_INTS,
                                  .ints = zt_arena_copy(zt_grad_graph(b)->arena, &stride, sizeof stride),
                                  .count = 1 };
    return c;
}

static int emit_columns(struct zt_grad *b, const char *op, const char *domain, int in, const struct columns *c) {
    int out, ins[] = { in, c->image, c->block };
    zt_emit_node(b, &(struct zt_emission){ op, domain, ins, 3, NULL, &c->strides, 1 }, &out, 1);
    return out;
}

static int emit_reshape(struct zt_grad *b, int value, const int64_t *dims, int rank) {
    return ZT_EMIT(b, "Reshape", value, zt_emit_ints(b, dims, rank));
}

static const int64_t last_two[] = { 0, 2, 1 };

/* dx, of the shape of x, from G [B, C, N, F] */
static int emit_signal_gradient(struct zt_grad *b, const struct zt_dft *d, int g, int x, int window,
                                const struct columns *c) {
    if (window >= 0)
        g = ZT_EMIT(b, "Mul", g, emit_reshape(b, window, (int64_t[]){ d->length, 1 }, 2));
    if (g < 0)
        return g;
    const int64_t *dim = zt_grad_graph(b)->values[g]->shape.dim;
    const int folded = emit_reshape(b, g, (int64_t[]){ dim[0], dim[1] * dim[2], dim[3] }, 3);
    const int dx = zt_emit_transpose(b, emit_columns(b, "Col2Im", "", folded, c), last_two, 3);
    const bool two = dx >= 0 && zt_grad_graph(b)->values[x]->shape.rank == 2;
    return two ? zt_emit_reshape_like(b, dx, x) : dx;
}

/* dwindow [N] from G [B, C, N, F] and x [B, T, C] or [B, T] */
static int emit_window_gradient(struct zt_grad *b, int g, int x, const struct columns *c) {
    const struct zt_shape *shape = &zt_grad_graph(b)->values[x]->shape;
    const int signal = shape->rank == 3 ? x : emit_reshape(b, x, (int64_t[]){ shape->dim[0], shape->dim[1], 1 }, 3);
    if (signal < 0)
        return signal;
    const int frames = emit_columns(b, "Im2Col", "ztrain", zt_emit_transpose(b, signal, last_two, 3), c);
    if (frames < 0)
        return frames;
    const int product = ZT_EMIT(b, "Mul", g, zt_emit_reshape_like(b, frames, g));
    const struct zt_attr keepdims = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    int out, in[] = { product, zt_emit_ints(b, (int64_t[]){ 0, 1, 3 }, 3) };
    zt_emit_node(b, &(struct zt_emission){ "ReduceSum", "", in, 2, NULL, &keepdims, 1 }, &out, 1);
    return out;
}

static bool stft_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_graph *graph = zt_grad_graph(b);
    const struct zt_node *n = graph->nodes[node];
    const int64_t signal = zt_in(graph, node, 0)->shape.dim[1];
    const int window = n->in_count > 2 ? n->in[2] : -1;
    struct zt_stft_frames f;
    struct zt_dft d;
    if (!zt_stft_read(graph, node, &d, err) || !zt_stft_frames(graph, node, &f, err))
        return false;
    const int each = zt_dft_emit_gradient(b, &d, zt_grad_out(b, node, 0), 2);
    if (each < 0)
        return true;
    const int g = zt_emit_transpose(b, each, (const int64_t[]){ 0, 3, 2, 1 }, 4);
    const struct columns columns = columns_of(b, &d, signal, f.step);
    if (g >= 0 && zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, emit_signal_gradient(b, &d, g, n->in[0], window, &columns));
    if (g >= 0 && zt_grad_wanted(b, node, 2))
        zt_grad_give(b, node, 2, emit_window_gradient(b, g, n->in[0], &columns));
    return true;
}

static const struct zt_dft_row detail = { zt_stft_read };
static const struct zt_attr_spec attrs[] = { { "onesided", ZT_ATTR_INT }, { 0 } };
#define LENGTH (ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64))

const struct zt_op zt_op_stft = {
    .name = "STFT",
    .domain = "",
    .since = 17,
    ZT_ONE_OUT(2, 4),
    .in_types = { ZT_ANY_FLOAT, LENGTH, ZT_ANY_FLOAT, LENGTH },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = stft_infer,
    .grad = stft_grad,
    .no_grad_in = 1 << 1 | 1 << 3,
    .shape_in = 1 << 1 | 1 << 3,
    .flops = zt_dft_flops,
    .detail = &detail,
    .kernel = { [ZT_REF] = { .prepare = zt_dft_ref_prepare, .run = zt_dft_ref, .release = zt_dft_ref_release },
                [ZT_CPU] = ZT_ON_CPU(zt_dft_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(dft, zt_cuda_float_data, zt_dft_describe) },
};
