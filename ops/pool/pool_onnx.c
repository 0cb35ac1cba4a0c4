/* The gradients of the pools (formulas in pool.c). Planes stand one behind the other as samples of one channel. */
#include "ops/pool/kernels.h"
#include "ops/pool/pool.h"

/* "[first, second, plane ...]" */
static const char *plane(struct zt_function_body *b, int64_t first, int64_t second, const int64_t *dims, int axes) {
    struct zt_shape shape = { 2, { first, second } };
    for (int a = 0; a < axes; a++)
        shape.dim[shape.rank++] = dims[a];
    return zt_function_body_dims(b, &shape);
}

static int64_t covered(const struct zt_window *w, int a) {
    return (w->out[a] - 1) * w->stride[a] + (w->kernel[a] - 1) * w->dilation[a] + 1;
}

/* Returns the pads that extend a plane of `in` elements to the length of the windows, times sign. */
static const char *pads(struct zt_function_body *b, const struct zt_window *w, const int64_t *front, const int64_t *in,
                        int sign) {
    int64_t list[2 * ZT_MAX_RANK] = { 0 };
    for (int a = 0; a < w->axes; a++) {
        list[2 + a] = sign * front[a];
        list[4 + w->axes + a] = sign * (covered(w, a) - front[a] - in[a]);
    }
    return zt_function_body_list(b, list, 2 * (w->axes + 2));
}

static const char *geometry(struct zt_function_body *b, const struct zt_window *w) {
    return zt_function_body_text(b, "strides=%s, dilations=%s", zt_function_body_list(b, w->stride, w->axes),
                                 zt_function_body_list(b, w->dilation, w->axes));
}

/* dx[i] = sum of dy over the windows that cover i: dy convolved backwards with ones */
static void say_sum_back(struct zt_function_body *b, const struct zt_pool *p, const struct zt_graph *g, int node) {
    const struct zt_window *w = &p->window;
    zt_function_body_add(b, "each = Reshape(dy, %s)", plane(b, p->planes, 1, w->out, w->axes));
    zt_function_body_add(b, "full = ConvTranspose<%s>(each, Expand(1, %s))", geometry(b, w),
                         plane(b, 1, 1, w->kernel, w->axes));
    zt_function_body_add(b, "dx = Reshape(Pad(full, %s), %s)", pads(b, w, w->pad, w->in, -1),
                         zt_function_body_dims(b, &zt_out(g, node, 0)->shape));
}

bool zt_sum_pool_grad_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                    struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read_grad(g, node, &p, err))
        return false;
    zt_function_body_names(b, "dy -> dx");
    say_sum_back(b, &p, g, node);
    return true;
}

/* Returns the number of elements of a window that count: ones, where they count, summed over windows. */
bool zt_average_pool_grad_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                        struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read_grad(g, node, &p, err))
        return false;
    const struct zt_window *w = &p.window;
    int64_t counts[ZT_WINDOW_AXES], front[ZT_WINDOW_AXES];
    for (int a = 0; a < w->axes; a++) {
        counts[a] = w->in[a] + (p.count_include_pad ? w->pad[a] + w->pad_end[a] : 0);
        front[a] = p.count_include_pad ? 0 : w->pad[a];
    }
    zt_function_body_names(b, "dy -> dx");
    zt_function_body_add(b, "ones = Pad(Expand(1, %s), %s)", plane(b, 1, 1, counts, w->axes),
                         pads(b, w, front, counts, 1));
    zt_function_body_add(b, "dy = dy / Conv<%s>(ones, Expand(1, %s))", geometry(b, w),
                         plane(b, 1, 1, w->kernel, w->axes));
    say_sum_back(b, &p, g, node);
    return true;
}

/* ---- max: places in the plane from positions in the window, and back ---- */

/* origin_A: the first element of each result's window on axis A, to be broadcast over the plane of results */
static void say_origins(struct zt_function_body *b, const struct zt_window *w) {
    for (int a = 0; a < w->axes; a++) {
        struct zt_shape shape = { w->axes - a, { 0 } };
        int64_t *first = ZT_NEW_N(b->arena, int64_t, w->out[a]);
        for (int k = 0; k < shape.rank; k++)
            shape.dim[k] = k ? 1 : w->out[a];
        for (int64_t o = 0; o < w->out[a]; o++)
            first[o] = o * w->stride[a] - w->pad[a];
        zt_function_body_int64s(b, zt_function_body_text(b, "origin_%d", a), &shape, first);
    }
}

/* axis_A = index A of the row-major index `flat` of a plane of `dims` */
static void say_split(struct zt_function_body *b, const int64_t *dims, int axes) {
    int64_t step = 1;
    for (int a = axes - 1; a >= 0; a--) {
        zt_function_body_add(b, "axis_%d = Mod(flat / %lldi, %lldi)", a, (long long)step, (long long)dims[a]);
        step *= dims[a];
    }
}

/* flat = the row-major index in a plane of `dims` of the indices axis_A */
static void say_join(struct zt_function_body *b, const int64_t *dims, int axes) {
    zt_function_body_add(b, "flat = axis_0");
    for (int a = 1; a < axes; a++)
        zt_function_body_add(b, "flat = flat * %lldi + axis_%d", (long long)dims[a], a);
}

bool zt_max_pool_train_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                     struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read(g, node, &p, err))
        return false;
    const struct zt_window *w = &p.window;
    int64_t both[2 * ZT_WINDOW_AXES];
    for (int a = 0; a < w->axes; a++) {
        both[a] = w->pad[a];
        both[w->axes + a] = w->pad_end[a];
    }
    zt_function_body_names(b, "x -> y, position");
    zt_function_body_add(b, "y, flat = MaxPool<kernel_shape=%s, pads=%s, ceil_mode=%d, %s>(x)",
                         zt_function_body_list(b, w->kernel, w->axes), zt_function_body_list(b, both, 2 * w->axes),
                         zt_attr_int(g->nodes[node], "ceil_mode", 0) != 0, geometry(b, w));
    say_origins(b, w);
    say_split(b, w->in, w->axes);
    for (int a = 0; a < w->axes; a++)
        zt_function_body_add(b, "axis_%d = (axis_%d - origin_%d) / %lldi", a, a, a, (long long)w->dilation[a]);
    say_join(b, w->kernel, w->axes);
    zt_function_body_add(b, "position = Cast<to=%s>(flat)", zt_dtype_name(zt_out(g, node, 1)->dtype));
    return true;
}

bool zt_max_pool_grad_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                    struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read_grad(g, node, &p, err))
        return false;
    const struct zt_window *w = &p.window;
    zt_function_body_names(b, "dy, position -> dx");
    zt_function_body_add(b, "flat = Cast<to=int64>(position)");
    say_origins(b, w);
    say_split(b, w->kernel, w->axes);
    for (int a = 0; a < w->axes; a++)
        zt_function_body_add(b, "axis_%d = origin_%d + axis_%d * %lldi", a, a, a, (long long)w->dilation[a]);
    say_join(b, w->in, w->axes);
    zt_function_body_add(b, "rows = [%lld, %lld]", (long long)p.planes, (long long)w->out_elems);
    zt_function_body_add(b, "none = Expand(0, [%lld, %lld])", (long long)p.planes, (long long)w->in_elems);
    zt_function_body_add(
        b, "dx = ScatterElements<axis=1, reduction=\"add\">(none, Reshape(flat, rows), Reshape(dy, rows))");
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_function_body_dims(b, &zt_out(g, node, 0)->shape));
    return true;
}

/* Places count in the plane that a pool with these windows had, which lies in a corner of dy's. */
ZT_FUNCTION_BODY(zt_max_unpool_grad_function_body) {
    (void)err;
    struct zt_shape inner = zt_out(g, node, 0)->shape;
    int axes, strides, pads;
    const int64_t *kernel = zt_attr_ints(g->nodes[node], "kernel_shape", &axes);
    const int64_t *stride = zt_attr_ints(g->nodes[node], "strides", &strides);
    const int64_t *pad = zt_attr_ints(g->nodes[node], "pads", &pads);
    int64_t zeros[ZT_MAX_RANK] = { 0 };
    for (int a = 0; a < axes; a++)
        inner.dim[2 + a] =
            (inner.dim[2 + a] - 1) * (stride ? stride[a] : 1) + kernel[a] - (pad ? pad[a] + pad[axes + a] : 0);
    zt_function_body_names(b, "dy, index -> dx");
    zt_function_body_add(b, "dx = Gather(Reshape(Slice(dy, %s, %s), [-1]), index)",
                         zt_function_body_list(b, zeros, inner.rank), zt_function_body_dims(b, &inner));
    return true;
}
