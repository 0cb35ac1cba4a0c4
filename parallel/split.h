/* Which pipeline stage runs which node: contiguous ranges of the forward order, balanced by cost. */
#ifndef ZT_PARALLEL_SPLIT_H
#define ZT_PARALLEL_SPLIT_H

#include "graph/graph.h"

/* Where to cut: first[s] is the first layer of stage s, first[stages] the number of layers. A layer is what begins at a
 * node with parameters. `method` is pipeline.partition (reference/deepspeed.md section 5.3): every method but one makes
 * the heaviest stage as light as it can be, and they differ in what a layer weighs:
 *
 *     best            FLOPs plus the bytes it writes, so that nodes without arithmetic count
 *     profile         FLOPs alone
 *     parameters      trainable elements
 *     type:REGEX      1 where operator, node name or a parameter's name matches (extended, any case), else 0
 *     uniform         equal numbers of layers; the first stages get what is over
 *
 * Fails when there are more stages than layers, when a pattern is none or fits nothing. */
bool zt_split_choose(const struct zt_graph *g, const char *method, int stages, int *first, struct zt_err *err);

/* Sets `stage` of every forward node. All graphs of a model (other batch sizes, evaluation) must be cut alike, whatever
 * their own costs, since a rank holds the weights of its layers. A parameter that several stages read stays that of the
 * lowest; the readers on each other stage get a copy of it (zt_value.copy_of), a value behind all others. Fails when
 * the graph has other layers than `first` was chosen for, and when two uses of one running statistic would be on
 * different stages. */
bool zt_split_apply(struct zt_graph *g, int stages, const int *first, struct zt_err *err);

/* Mode dp: stage 1 is what depends on `inputs` (target and weights), the loss; stage 0 the model. Stage 1 may read no
 * parameter, and what it reads of stage 0 must have the batch, `rows`, as its first axis, so that replicas make their
 * rows of it. */
bool zt_split_loss(struct zt_graph *g, int64_t rows, const int *inputs, int input_count, struct zt_err *err);

#endif
