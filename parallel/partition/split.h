/* Which pipeline stage runs which node: contiguous ranges of the forward order, balanced by cost. */
#ifndef ZT_PARALLEL_PARTITION_SPLIT_H
#define ZT_PARALLEL_PARTITION_SPLIT_H

#include "graph/ir/graph.h"

/* Where a stage begins: so many nodes behind the begin of a layer, or with the next layer where this one has fewer. A
 * layer is what begins at a node that reads a parameter or a running statistic, itself or through nodes that depend on
 * parameters alone. */
struct zt_stage_bounds {
    int layer, nodes;
};

/* Where to cut: stage s begins at cuts[s]; cuts[stages] is the end, at the number of layers. Every stage has the begin
 * of a layer. `method` is pipeline.partition (reference/deepspeed.md section 5.3): every method but the last makes the
 * heaviest stage light, and they differ in what counts:
 *
 *     best            FLOPs plus the bytes written, so that nodes without arithmetic count
 *     profile         FLOPs alone
 *     parameters      trainable elements
 *     type:REGEX      1 a layer where operator, node name or a parameter's name matches (extended, any case), else 0
 *     uniform         equal numbers of layers; the first stages get what is over
 *
 * The first two cut before any node, where least travels among all cuts whose heaviest stage is at most a twentieth
 * above the lightest there is. The others cut before layers, as light as can be. Fails when there are more stages than
 * layers, when a pattern is none or fits nothing. */
bool zt_split_choose(const struct zt_graph *g, const char *method, int stages, struct zt_stage_bounds *cuts,
                     struct zt_err *err);

/* Sets `stage` of every node, all of the forward phase. All graphs of a model (other batch sizes, evaluation) must hold
 * a layer's weights on one stage, whatever their own costs; between two layers they may differ in nodes. A parameter
 * that several stages read stays that of the lowest; the readers on each other stage get a copy of it
 * (zt_value.copy_of), a value behind all others. Fails when the graph has other layers than `cuts` was chosen for, and
 * when two uses of one running statistic would be on different stages. */
bool zt_split_apply(struct zt_graph *g, int stages, const struct zt_stage_bounds *cuts, struct zt_err *err);

/* Mode dp: stage 1 is what depends on `inputs` (target and weights), the loss; stage 0 the model. Stage 1 may read no
 * parameter, and what it reads of stage 0 must have the batch, `rows`, as its first axis, so that replicas make their
 * rows of it. */
bool zt_split_loss(struct zt_graph *g, int64_t rows, const int *inputs, int input_count, struct zt_err *err);

#endif
