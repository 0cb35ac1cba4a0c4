#include "ops/conv/conv_node_cpu.h"

#include "ops/kernel/tile.h"

#include <string.h>

static const int kind_of[] = {
    [ZT_CONV_TO_Y] = ZT_DNNL_CONV, [ZT_CONV_TO_X] = ZT_DNNL_CONV_INPUT, [ZT_CONV_TO_W] = ZT_DNNL_CONV_WEIGHT
};

const char *zt_conv_node_activation(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    return strcmp(n->op_type, "ConvRelu") == 0 ? "Relu" : zt_attr_text(n, "activation", NULL);
}

bool zt_conv_node_read(const struct zt_graph *g, int node, struct zt_conv_node *to, struct zt_err *err) {
    *to = (struct zt_conv_node){ .g = g, .index = node, .directions = zt_conv_directions(g->nodes[node]) };
    return to->directions->read(g, node, &to->conv, err);
}

const struct zt_value *zt_conv_node_added(const struct zt_conv_node *n) {
    return n->g->nodes[n->index]->in_count > ZT_CONV_ADDED ? zt_in(n->g, n->index, ZT_CONV_ADDED) : NULL;
}

int64_t zt_conv_node_block(const struct zt_conv_node *n) {
    const struct zt_conv *c = &n->conv;
    if (n->directions->direction == ZT_CONV_TO_W)
        return zt_batch_block_of(c->n, zt_min_int(zt_conv_pieces(c), ZT_BATCH_BLOCKS), 1);
    return zt_conv_node_activation(n->g, n->index) || zt_conv_node_added(n)
               ? zt_batch_block_for_cache(c->n, zt_conv_result_bytes(c, n->directions->direction))
               : zt_batch_block_of(c->n, ZT_BATCH_BLOCKS, 1);
}

bool zt_conv_node_has_bias(const struct zt_conv_node *n) {
    if (n->directions->direction == ZT_CONV_TO_W)
        return zt_out(n->g, n->index, 1) != NULL;
    return n->directions->direction == ZT_CONV_TO_Y && zt_in(n->g, n->index, 2) != NULL;
}

bool zt_conv_node_blocks(struct zt_batch_blocks *to, const struct zt_conv_node *n, int threads, struct zt_err *err) {
    const enum zt_conv_direction direction = n->directions->direction;
    struct zt_dnnl_spec spec = zt_conv_spec(&n->conv, zt_in(n->g, n->index, 0)->dtype, zt_conv_node_has_bias(n));
    spec.kind = kind_of[direction];
    if (direction == ZT_CONV_TO_W)
        spec.slot[ZT_CONV_W].dtype = spec.slot[ZT_CONV_B].dtype = ZT_FLOAT;
    const struct zt_batch_cut cut = zt_conv_cut(&n->conv, zt_conv_node_block(n));
    return zt_batch_blocks_make(to, &spec, &cut, threads, err);
}

/* Whether oneDNN has a kernel: on machines with bfloat16 instructions some convolutions have none. */
static bool exists(const struct zt_conv_node *n) {
    struct zt_batch_blocks blocks;
    struct zt_err err = { 0 };
    const bool made = zt_conv_node_blocks(&blocks, n, 1, &err);
    if (made)
        zt_batch_blocks_finish(&blocks);
    return made;
}

bool zt_conv_node_supports(const struct zt_graph *g, int node) {
    struct zt_conv_node n;
    struct zt_err err = { 0 };
    if (!zt_conv_types(g, node) || !zt_conv_node_read(g, node, &n, &err) || !zt_conv_fits(&n.conv))
        return false;
    const struct zt_window *w = &n.conv.window;
    for (int a = 0; a < w->axes; a++) /* output_padding may leave more of x unread than any convolution does */
        if (w->pad[a] < 0 || w->in[a] + w->pad[a] - (w->kernel[a] - 1) * w->dilation[a] - 1 >= w->out[a] * w->stride[a])
            return false;
    if (zt_conv_node_added(&n))
        return zt_in(g, node, 0)->dtype == ZT_FLOAT && n.conv.groups == 1;
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    return dtype == ZT_FLOAT || zt_conv_share(&n.conv, dtype, n.directions->direction) < 1 ||
           (zt_conv_safe_in_half(w) && exists(&n));
}
