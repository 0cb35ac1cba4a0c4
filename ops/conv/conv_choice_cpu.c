/* Criteria by which the CPU kernel of a convolution is chosen: whether oneDNN takes it, its specification and layouts
 * (conv_cpu.h), the work that Winograd's filtering leaves of it, and whether it is faster in float. */
#include "ops/conv/axis_cpu.h"
#include "ops/conv/conv_cpu.h"
#include "ops/conv/group_cpu.h"
#include "ops/conv/kernels.h"
#include "ops/conv/lines_cpu.h"
#include "ops/conv/taps_cpu.h"
#include "ops/cpu/winograd/gradient.h"
#include "ops/cpu/winograd/winograd.h"
#include "ops/kernel/tile.h"

#include "graph/passes/fusion/fuse.h"

#include <string.h>

struct zt_batch_cut zt_conv_cut(const struct zt_conv *c, int64_t block) {
    return (struct zt_batch_cut){
        .axis = { [ZT_CONV_X] = 0, [ZT_CONV_W] = -1, [ZT_CONV_B] = -1, [ZT_CONV_Y] = 0, [4] = -1 },
        .total = c->n,
        .block = block
    };
}

bool zt_conv_fits(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    int64_t sizes[] = { c->n, c->c, c->m, w->in_elems, w->out_elems, w->kernel_elems };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return false;
    return w->axes <= 3;
}

bool zt_conv_safe_in_half(const struct zt_window *w) {
    if (w->axes > 2)
        return false;
    for (int a = 0; a < w->axes; a++) {
        int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1;
        if (w->pad[a] >= span || (w->out[a] - 1) * w->stride[a] - w->pad[a] >= w->in[a])
            return false;
    }
    return true;
}

bool zt_conv_types(const struct zt_graph *g, int node) {
    enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != dtype && zt_in(g, node, i)->dtype != ZT_UINT8)
            return false;
    return zt_dnnl_takes(dtype);
}

static struct zt_shape plane_shape(int64_t n, int64_t channels, const int64_t *plane, int axes) {
    struct zt_shape s = { axes + 2, { n, channels } };
    memcpy(s.dim + 2, plane, sizeof *plane * (size_t)axes);
    return s;
}

/* [m, c / groups, kernel], and [groups, m / groups, c / groups, kernel] for oneDNN. */
static struct zt_desc weight_desc(const struct zt_conv *c, enum zt_dtype dtype) {
    struct zt_desc d = { .dtype = dtype, .order = ZT_DESC_ANY, .opaque = true };
    if (c->groups > 1)
        d.dim[d.rank++] = c->groups;
    d.dim[d.rank++] = c->m / c->groups;
    d.dim[d.rank++] = c->c / c->groups;
    for (int a = 0; a < c->window.axes; a++)
        d.dim[d.rank++] = c->window.kernel[a];
    int64_t step = 1;
    for (int i = d.rank - 1; i >= 0; i--) {
        d.stride[i] = step;
        step *= d.dim[i];
    }
    return d;
}

struct zt_dnnl_spec zt_conv_spec(const struct zt_conv *c, enum zt_dtype dtype, bool bias) {
    const struct zt_window *w = &c->window;
    struct zt_dnnl_spec s = { .axes = w->axes };
    struct zt_shape x = plane_shape(c->n, c->c, w->in, w->axes), y = plane_shape(c->n, c->m, w->out, w->axes);
    s.slot[ZT_CONV_X] = zt_desc_any(dtype, &x);
    s.slot[ZT_CONV_Y] = zt_desc_any(dtype, &y);
    s.slot[ZT_CONV_W] = weight_desc(c, dtype);
    if (bias)
        s.slot[ZT_CONV_B] = (struct zt_desc){ .dtype = dtype, .rank = 1, .dim = { c->m }, .order = ZT_DESC_PLAIN };
    for (int a = 0; a < w->axes; a++) {
        s.stride[a] = w->stride[a];
        s.dilation[a] = w->dilation[a];
        s.pad[a] = w->pad[a];
        /* the padding that the last window covers: oneDNN refuses padding that no window reaches */
        s.pad_end[a] = (w->out[a] - 1) * w->stride[a] + (w->kernel[a] - 1) * w->dilation[a] + 1 - w->in[a] - w->pad[a];
    }
    return s;
}

bool zt_conv_winograd(const struct zt_conv *c, enum zt_dtype dtype, struct zt_winograd_conv *to) {
    const struct zt_window *w = &c->window;
    if (w->axes != 2 || c->groups != 1 || (dtype != ZT_FLOAT && dtype != ZT_BFLOAT16))
        return false;
    const int64_t stride = w->stride[0], kernel = w->kernel[0], of_parts = dtype == ZT_FLOAT ? 6 : 3;
    if (stride > 2 || kernel < 3 || kernel > (stride == 1 ? of_parts : 4))
        return false;
    *to = (struct zt_winograd_conv){
        .samples = c->n, .channels = c->c, .results = c->m, .stride = (int)stride, .kernel = (int)kernel, .dtype = dtype
    };
    for (int a = 0; a < 2; a++) {
        if (w->kernel[a] != kernel || w->stride[a] != stride || w->dilation[a] != 1 || w->pad[a] < 0 ||
            w->pad[a] >= kernel)
            return false;
        to->in[a] = w->in[a];
        to->out[a] = w->out[a];
        to->pad[a] = w->pad[a];
    }
    return true;
}

/* One group; a kernel of one element, with stride 1 and without padding. */
static bool read_pointwise(const struct zt_conv *c, struct zt_pointwise *to) {
    const struct zt_window *w = &c->window;
    bool fits = c->groups == 1;
    for (int a = 0; a < w->axes; a++)
        fits = fits && w->kernel[a] == 1 && w->stride[a] == 1 && w->pad[a] == 0 && w->in[a] == w->out[a];
    *to = (struct zt_pointwise){ .samples = c->n, .places = w->out_elems, .channels = c->c, .results = c->m };
    return fits;
}

/* One group, and one to three axes; the places of pointwise results are a row. */
static bool read_taps(const struct zt_conv *c, struct zt_taps_conv *to) {
    *to = (struct zt_taps_conv){ .samples = c->n, .channels = c->c, .results = c->m };
    if (c->groups != 1 || c->window.axes > ZT_CONV_AXES + 1)
        return false;
    for (int a = 0; a <= ZT_CONV_AXES; a++) {
        const struct zt_conv_sizes s = zt_conv_sizes_of(&c->window, a - 1);
        to->in[a] = s.in;
        to->out[a] = s.out;
        to->kernel[a] = s.kernel;
        to->stride[a] = s.stride;
        to->dilation[a] = s.dilation;
        to->pad[a] = s.pad;
    }
    struct zt_pointwise pointwise;
    if (read_pointwise(c, &pointwise)) {
        to->in[0] = to->out[0] = to->in[1] = to->out[1] = 1;
        to->in[2] = to->out[2] = pointwise.places;
    }
    return true;
}

struct zt_planes_forms zt_conv_forms(const struct zt_conv *c, enum zt_dtype dtype) {
    struct zt_planes_forms forms = { .dtype = dtype };
    forms.is_winograd = zt_conv_winograd(c, dtype, &forms.winograd);
    forms.is_pointwise = read_pointwise(c, &forms.pointwise);
    forms.is_taps = dtype == ZT_FLOAT && read_taps(c, &forms.taps);
    return forms;
}

size_t zt_conv_result_bytes(const struct zt_conv *c, enum zt_conv_direction direction) {
    const bool to_x = direction == ZT_CONV_TO_X;
    const int64_t channels = to_x ? c->c : c->m, places = to_x ? c->window.in_elems : c->window.out_elems;
    return (size_t)((channels + 15) / 16 * 16 * places) * sizeof(float);
}

const struct zt_layout *zt_conv_layout(struct zt_arena *arena, const struct zt_batch_blocks *blocks, int slot,
                                       const struct zt_shape *shape) {
    struct zt_desc d = zt_dnnl_slot(blocks->whole, slot);
    return zt_desc_layout(arena, &d, shape);
}

/* ---- time and type ---- */

double zt_conv_share(const struct zt_conv *c, enum zt_dtype dtype, enum zt_conv_direction direction) {
    struct zt_winograd_wish wish = { .backward = direction == ZT_CONV_TO_X };
    if (!zt_conv_winograd(c, dtype, &wish.conv))
        return 1;
    if (direction == ZT_CONV_TO_W)
        return zt_winograd_gradient_share(&wish.conv);
    wish.rows = wish.backward ? wish.conv.in[0] : wish.conv.out[0];
    wish.columns = wish.backward ? wish.conv.in[1] : wish.conv.out[1];
    return zt_winograd_share(&wish);
}

double zt_conv_cpu_share(const struct zt_graph *g, int node) {
    const struct zt_conv_directions *d = zt_conv_directions(g->nodes[node]);
    struct zt_conv c;
    struct zt_err err = { 0 };
    return d->read(g, node, &c, &err) ? zt_conv_share(&c, zt_in(g, node, 0)->dtype, d->direction) : 1;
}

/* The max pool behind the convolution and a ReLU, or of a gradient the one before them; -1: none. */
static int pool_beside(const struct zt_graph *g, int node) {
    if (zt_conv_directions(g->nodes[node])->direction != ZT_CONV_TO_Y) {
        const int relu = zt_fuse_producer(g, node, 1, "ReluGrad", false);
        return relu < 0 ? -1 : zt_fuse_producer(g, relu, 0, "MaxPoolGrad", false);
    }
    const int relu = zt_fuse_reader(g, g->nodes[node]->out[0], 0, "Relu");
    if (relu < 0)
        return -1;
    const int pool = zt_fuse_reader(g, g->nodes[relu]->out[0], 0, "MaxPoolTrain");
    return pool < 0 ? zt_fuse_reader(g, g->nodes[relu]->out[0], 0, "MaxPool") : pool;
}

static bool is_pair(const struct zt_node *node, const char *attr) {
    const struct zt_attr *a = zt_node_attr(node, attr);
    return a && a->count == 2 && a->ints[0] == 2 && a->ints[1] == 2;
}

/* A first layer with a 2 x 2 pool behind it, for which there are kernels of fp32 (ops/fusion/few_channels_cpu.h). */
static bool is_first_with_pool(const struct zt_graph *g, int node, const struct zt_conv *c) {
    const int pool = pool_beside(g, node);
    return pool >= 0 && c->c < 16 && is_pair(g->nodes[pool], "kernel_shape") && is_pair(g->nodes[pool], "strides");
}

static int64_t columns_of(const struct zt_conv *c) {
    return c->window.axes > 0 ? c->window.kernel[c->window.axes - 1] : 1;
}

/* Weight gradients for which oneDNN 2.6 takes longer in bfloat16, many times at worst: depthwise ones above 3 x 3, and
 * those of few input channels beside result channels that leave a vector part empty, or of long rows of the kernel. */
static bool is_slow_gradient(const struct zt_conv *c) {
    enum { VECTOR = 16, LONG = 15 };
    if (c->groups == c->c && c->c > 1)
        return zt_max_int(c->window.kernel[0], c->window.axes > 1 ? c->window.kernel[1] : 1) > 3;
    return c->c / c->groups < VECTOR && (c->m / c->groups % VECTOR != 0 || columns_of(c) >= LONG);
}

/* Over time, where whole tiles of oneDNN's results have taps in the padding. */
static bool is_far(const struct zt_conv *c) {
    enum { TILE = 16 };
    return c->window.axes == 1 && c->groups == 1 && c->window.dilation[0] > 1 && c->window.pad[0] >= TILE;
}

/* Whether our own kernels, which are of float, are faster than oneDNN's in bfloat16: few channels, groups that fill no
 * vectors, long kernels, taps that reach far into the padding, and weights whose gradients oneDNN adds up from large
 * parts. */
static bool has_faster_float(const struct zt_conv *c, enum zt_conv_direction direction) {
    const int64_t large = INT64_C(1) << 21;
    if (zt_lines_fits(c, direction) && !zt_conv_group_fits(c))
        return true;
    if (direction != ZT_CONV_TO_W)
        return zt_taps_is_few(c, direction) || (direction == ZT_CONV_TO_Y && is_far(c));
    return c->m * c->c * c->window.kernel_elems >= large && zt_conv_share(c, ZT_FLOAT, direction) < 1 &&
           zt_conv_share(c, ZT_BFLOAT16, direction) == 1;
}

/* Also those of three axes, which are not safe in bfloat16: what stands around them stays in float. */
static bool is_slow_in_half(const struct zt_graph *g, int node) {
    const struct zt_conv_directions *d = zt_conv_directions(g->nodes[node]);
    struct zt_conv c;
    struct zt_err err = { 0 };
    if (!d->read(g, node, &c, &err))
        return false;
    return c.window.axes > 2 || is_first_with_pool(g, node, &c) || has_faster_float(&c, d->direction) ||
           (d->direction == ZT_CONV_TO_W && is_slow_gradient(&c));
}

bool zt_conv_cpu_prefers_float(const struct zt_graph *g, int node) {
    return zt_cpu_lacks_bf16(g, node) || is_slow_in_half(g, node);
}
