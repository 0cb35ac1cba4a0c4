/* Pipeline partitioning: assigns contiguous ranges of the forward order to stages, balanced by cost. */
#ifndef ZT_PARALLEL_PARTITION_SPLIT_H
#define ZT_PARALLEL_PARTITION_SPLIT_H

#include "graph/ir/graph.h"

/* The start of a stage: `nodes` nodes after the start of layer `layer`, or at the next layer if the layer has fewer
 * nodes. A layer starts at each node that reads a parameter or a running statistic, directly or through nodes that
 * depend on parameters alone. */
struct zt_stage_bounds {
    int layer, nodes;
};

/* Chooses the stage bounds: stage s starts at bounds[s], and bounds[stages] is the end. Every stage contains the start
 * of a layer. `method` is the config value pipeline.partition. All methods except the last minimise the cost of the
 * most expensive stage; they differ in the cost:
 *
 *     best            work (zt_op_work) plus bytes written, which includes nodes without arithmetic
 *     profile         work
 *     parameters      trainable elements
 *     type:REGEX      1 per layer whose operator, node name or parameter name matches (extended regex, any case)
 *     uniform         equal numbers of layers; the first stages get the remainder
 *
 * The first two may start a stage at any node: of all bounds whose most expensive stage is within 5 % of the minimum,
 * they take those with the smallest boundary tensors. The others start stages at layers. Fails if there are more stages
 * than layers, or if REGEX is invalid or matches nothing. */
bool zt_split_choose(const struct zt_graph *g, const char *method, int stages, struct zt_stage_bounds *bounds,
                     struct zt_err *err);

/* Sets `stage` of every node; all nodes are forward nodes. All graphs of a model (other batch sizes, evaluation) use
 * the same bounds, so that a layer's weights are on the same stage; between two layers the graphs may have different
 * nodes. A parameter that several stages read belongs to the lowest one; each other stage gets a copy
 * (zt_value.copy_of), a value at the end. Fails if the graph's layers differ from those for which `bounds` was chosen,
 * and if two uses of one running statistic are on different stages. */
bool zt_split_apply(struct zt_graph *g, int stages, const struct zt_stage_bounds *bounds, struct zt_err *err);

/* Returns the names of the layers in order, allocated in `arena`: the name of the node that starts the layer, or its
 * operator if it has no name. All nodes are forward nodes. */
const char **zt_split_layers(const struct zt_graph *g, struct zt_arena *arena);

/* Mode dp: stage 1 is the loss, the nodes that depend on `inputs` (target and weights); stage 0 is the model. Stage 1
 * must not read parameters. Values that it reads from stage 0 must have the batch, `rows`, as their first axis, so that
 * each replica computes its rows. */
bool zt_split_loss(struct zt_graph *g, int64_t rows, const int *inputs, int input_count, struct zt_err *err);

#endif
