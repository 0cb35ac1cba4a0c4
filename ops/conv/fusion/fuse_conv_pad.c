/* conv_pad: zeros that a Pad puts around the planes of a convolution's input become padding of the convolution:
 *
 *     Conv(Pad(x, front, behind), w[, b])   ->   Conv(x, w[, b]), pads + front, + behind
 *
 * Networks that pad as TensorFlow does are exported so, also where all of these numbers are 0. */
#include "graph/passes/fusion/fuse.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/conv/conv.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* The numbers in front of and behind each axis: 0 of the first two, none negative. */
static bool read_pads(const struct zt_graph *g, int pad, int rank, int64_t pads[2 * ZT_MAX_RANK]) {
    struct zt_err err = { 0 };
    int count;
    const bool is_known = zt_ops_ints(g, pad, (struct zt_int_source){ 1, "pads" },
                                      &(struct zt_int_list){ pads, 2 * ZT_MAX_RANK, &count }, &err);
    bool fits = is_known && count == 2 * rank;
    for (int i = 0; fits && i < count; i++)
        fits = pads[i] >= 0 && (i % rank >= 2 || pads[i] == 0);
    return fits;
}

/* Of all axes, by zeros. */
static bool is_plain(const struct zt_graph *g, int pad) {
    const struct zt_node *n = g->nodes[pad];
    double fill = zt_attr_float(n, "value", 0);
    const bool is_known = !zt_in(g, pad, 2) || zt_pattern_constant(g, n->in[2], &fill);
    return zt_node_is(n, "Pad") && strcmp(zt_attr_text(n, "mode", "constant"), "constant") == 0 && is_known &&
           fill == 0 && !zt_in(g, pad, 3);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node n = *g->nodes[node];
    const int pad = zt_node_is(&n, "Conv") ? zt_fuse_producer(g, node, 0, "Pad", false) : -1;
    int64_t around[2 * ZT_MAX_RANK], pads[2 * ZT_WINDOW_AXES];
    struct zt_conv c;
    if (pad < 0 || !is_plain(g, pad) || !read_pads(g, pad, zt_in(g, node, 0)->shape.rank, around) ||
        !zt_conv_read(g, node, &c, err))
        return false;
    const int axes = c.window.axes;
    for (int a = 0; a < axes; a++) {
        pads[a] = c.window.pad[a] + around[2 + a];
        pads[axes + a] = c.window.pad_end[a] + around[axes + 4 + a];
    }
    const int in[3] = { g->nodes[pad]->in[0], n.in[1], n.in_count > 2 ? n.in[2] : -1 };
    g->nodes[node]->dead = true;
    const int made = zt_fuse_add(
        g, &n, &(struct zt_node_spec){ n.name, n.op_type, n.domain, n.opset, in, n.in_count, n.out, n.out_count });
    for (int i = 0; i < n.attr_count; i++)
        zt_node_set_attr(g, made, &n.attr[i]);
    zt_node_set_text(g, made, "auto_pad", "NOTSET");
    zt_node_set_ints(g, made, "pads", pads, 2 * axes);
    zt_fuse_drop(g, n.in[0]);
    return zt_fuse_settle(g, table, made, err);
}

const struct zt_pattern zt_pattern_conv_pad = { "conv_pad", ZT_FUSE_FORWARD, apply };
