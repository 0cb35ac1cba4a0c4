/* conv_pad: zeros that a Pad adds around the planes of a convolution's input become the convolution's padding.
 * Exporters of frameworks whose padding depends on the stride (SAME) write them as a node. */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/conv/conv.h"
#include "ops/movement/slice.h"

/* The paddings of the convolution and of the Pad before it, in front of all axes and then behind; false where the Pad
 * changes samples or channels, takes elements away, or a window would lie in the padding alone. */
static bool sum_pads(const struct zt_match *m, int64_t pads[2 * ZT_WINDOW_AXES], int *axes) {
    int64_t front[ZT_MAX_RANK], behind[ZT_MAX_RANK];
    struct zt_conv conv;
    struct zt_err ignored = { 0 };
    if (!zt_pad_reads_zeros(m->g, zt_match_node(m, "pad")->index, front, behind) ||
        !zt_conv_read(m->g, m->root, &conv, &ignored) || front[0] || behind[0] || front[1] || behind[1])
        return false;
    const struct zt_window *w = &conv.window;
    *axes = w->axes;
    for (int k = 0; k < w->axes; k++) {
        const int64_t extent = (w->kernel[k] - 1) * w->dilation[k] + 1;
        pads[k] = w->pad[k] + front[2 + k];
        pads[w->axes + k] = w->pad_end[k] + behind[2 + k];
        if (front[2 + k] < 0 || behind[2 + k] < 0 || pads[k] >= extent || pads[w->axes + k] >= extent)
            return false;
    }
    return true;
}

static bool fuse_conv_pad(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    int64_t pads[2 * ZT_WINDOW_AXES];
    int axes;
    if (!zt_pattern_find(g, node, "Conv(pad = Pad(x, ...), w, ...)", &m) || !sum_pads(&m, pads, &axes))
        return false;
    const struct zt_node conv = *g->nodes[node];
    int in[3] = { zt_match_value(&m, "x"), conv.in[1], conv.in_count > 2 ? conv.in[2] : -1 };
    int made = zt_match_replace(&m, "Conv", in, in[2] >= 0 ? 3 : 2);
    for (int i = 0; i < conv.attr_count; i++)
        zt_node_set_attr(g, made, &conv.attr[i]);
    zt_node_set_text(g, made, "auto_pad", "NOTSET");
    zt_node_set_ints(g, made, "pads", pads, 2 * axes);
    return zt_match_done(&m, table, made, err);
}

const struct zt_pattern zt_pattern_conv_pad = { "conv_pad", ZT_FUSE_FORWARD, fuse_conv_pad };
