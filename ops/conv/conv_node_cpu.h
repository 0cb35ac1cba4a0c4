/* Nodes of convolutions as conv_cpu.c reads them, and their division into blocks of the batch. */
#ifndef ZT_OPS_CONV_CONV_NODE_CPU_H
#define ZT_OPS_CONV_CONV_NODE_CPU_H

#include "ops/conv/conv_cpu.h"

/* A node of a convolution and its geometry. */
struct zt_conv_node {
    const struct zt_graph *g;
    int index;
    const struct zt_conv_directions *directions;
    struct zt_conv conv;
};
bool zt_conv_node_read(const struct zt_graph *g, int node, struct zt_conv_node *to, struct zt_err *err);
/* Whether the CPU has a kernel for the node. */
bool zt_conv_node_supports(const struct zt_graph *g, int node);

/* The activation after a convolution, NULL: none. */
const char *zt_conv_node_activation(const struct zt_graph *g, int node);
/* The tensor that is added to the result; NULL: none. */
const struct zt_value *zt_conv_node_added(const struct zt_conv_node *n);
/* Whether y has a bias, or the node computes the gradient of one. */
bool zt_conv_node_has_bias(const struct zt_conv_node *n);
/* Samples of a block. */
int64_t zt_conv_node_block(const struct zt_conv_node *n);
/* oneDNN's primitives of the blocks. Free with zt_batch_blocks_finish. */
bool zt_conv_node_blocks(struct zt_batch_blocks *to, const struct zt_conv_node *n, int threads, struct zt_err *err);

#endif
