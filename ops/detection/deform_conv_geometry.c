/* The geometry of DeformConv nodes and the positions that they sample (deform_conv.h). */
#include "ops/detection/deform_conv.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

/* Whether a tensor is [n, channels, results]. */
static bool check_taps(const struct zt_graph *g, int node, int in, int64_t channels, const struct zt_deform_conv *d,
                       struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    const struct zt_window *w = &d->conv.window;
    struct zt_shape want = { w->axes + 2, { d->conv.n, channels } };
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    memcpy(want.dim + 2, w->out, sizeof *w->out * (size_t)w->axes);
    if (zt_shape_equal(&v->shape, &want))
        return true;
    return zt_node_fail(g, node, err, "\"%s\" has shape %s, wants %s", v->name, zt_shape_text(&v->shape, s),
                        zt_shape_text(&want, t));
}

/* offset and mask; d->conv is known. */
static bool read_taps(const struct zt_graph *g, int node, struct zt_deform_conv *d, struct zt_err *err) {
    const struct zt_deform_inputs *in = zt_deform_inputs(g->nodes[node]);
    const struct zt_window *w = &d->conv.window;
    int64_t taps, moves;
    d->offset_groups = zt_attr_int(g->nodes[node], "offset_group", 1);
    if (d->offset_groups < 1 || d->conv.c % d->offset_groups)
        return zt_node_fail(g, node, err, "offset_group = %lld does not divide %lld channels",
                            (long long)d->offset_groups, (long long)d->conv.c);
    d->masked = zt_in(g, node, in->mask) != NULL;
    return zt_ops_dim_product(g, node, d->offset_groups, w->kernel_elems, &taps, err) &&
           zt_ops_dim_product(g, node, taps, w->axes, &moves, err) && check_taps(g, node, in->offset, moves, d, err) &&
           (!d->masked || check_taps(g, node, in->mask, taps, d, err));
}

static bool check_dy(const struct zt_graph *g, int node, const struct zt_deform_conv *d, struct zt_err *err) {
    return check_taps(g, node, zt_deform_inputs(g->nodes[node])->dy, d->conv.m, d, err);
}

bool zt_deform_conv_read(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err) {
    const struct zt_value *bias = zt_in(g, node, 3);
    char s[ZT_SHAPE_TEXT];
    if (!zt_conv_read(g, node, &to->conv, err) || !read_taps(g, node, to, err))
        return false;
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != to->conv.m))
        return zt_node_fail(g, node, err, "bias \"%s\" has shape %s, wants [%lld]", bias->name,
                            zt_shape_text(&bias->shape, s), (long long)to->conv.m);
    return true;
}

bool zt_deform_conv_grad_input_read(const struct zt_graph *g, int node, struct zt_deform_conv *to, struct zt_err *err) {
    return zt_conv_read(g, node, &to->conv, err) && read_taps(g, node, to, err) && check_dy(g, node, to, err);
}

bool zt_deform_conv_grad_weight_read(const struct zt_graph *g, int node, struct zt_deform_conv *to,
                                     struct zt_err *err) {
    return zt_conv_grad_weight_read(g, node, &to->conv, err) && read_taps(g, node, to, err);
}

const struct zt_deform_inputs *zt_deform_inputs(const struct zt_node *n) {
    static const struct zt_deform_inputs forward = { zt_deform_conv_read, 0, 1, 2, 4, 3, -1 };
    static const struct zt_deform_inputs input = { zt_deform_conv_grad_input_read, 0, 1, 2, 4, -1, 3 };
    static const struct zt_deform_inputs weight = { zt_deform_conv_grad_weight_read, 0, -1, 2, 3, -1, 1 };
    return strcmp(n->op_type, "DeformConv") == 0            ? &forward
           : strcmp(n->op_type, "DeformConvGradInput") == 0 ? &input
                                                            : &weight;
}

/* ---- positions ---- */

/* Offsets from 2^40 on lead outside of any image. */
static const double most_offset = 1099511627776.0;

void zt_deform_position(const struct zt_deform_conv *d, const struct zt_view *offset, const int64_t at[3],
                        struct zt_deform_position *to) {
    const struct zt_window *w = &d->conv.window;
    const int64_t n = at[0], tap = at[1], place = at[2], taps = d->offset_groups * w->kernel_elems;
    int64_t k[ZT_WINDOW_AXES], o[ZT_WINDOW_AXES];
    zt_window_split(tap % w->kernel_elems, w->kernel, w->axes, k);
    zt_window_split(place, w->out, w->axes, o);
    for (int a = 0; a < w->axes; a++) {
        const int64_t element = ((n * taps + tap) * w->axes + a) * w->out_elems + place;
        const double move = zt_load_double(offset->dtype, offset->data, element), whole = floor(move);
        to->part[a] = move - whole;
        if (isnan(move))
            to->low[a] = 0;
        else if (fabs(move) < most_offset)
            to->low[a] = o[a] * w->stride[a] - w->pad[a] + k[a] * w->dilation[a] + (int64_t)whole;
        else
            to->low[a] = -2, to->part[a] = 0;
    }
}

int64_t zt_deform_pixel(const struct zt_deform_conv *d, const struct zt_deform_position *p, int corner) {
    const struct zt_window *w = &d->conv.window;
    int64_t pixel = 0;
    for (int a = 0; a < w->axes; a++) {
        const int64_t i = p->low[a] + (corner >> a & 1);
        if (i < 0 || i >= w->in[a])
            return -1;
        pixel = pixel * w->in[a] + i;
    }
    return pixel;
}
