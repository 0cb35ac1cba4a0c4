/* Values whose size depends on the contents of others (NonZero, Compress, NonMaxSuppression) in a graph whose memory is
 * planned before it runs.
 *
 * Such a node, all nodes that read what it gives, and those behind them up to the values whose shape is fixed again (a
 * mean, a loss) become one node, ztrain.EagerRun, which holds them as a graph and runs it eagerly:
 *
 *     x -> NonZero -> i -> GatherND(f, i) -> v -> ReduceMean -> y        becomes        x, f -> EagerRun -> y
 *
 * The shapes that vary are found by inferring what follows twice: with the largest size that there can be (`bound` of
 * the op's row) and with one less. A value has a fixed shape where both give it the same. Contents that are known in
 * both and differ (the size itself, read by Shape) vary too. */
#ifndef ZT_GRAPH_PASSES_DATA_SIZES_H
#define ZT_GRAPH_PASSES_DATA_SIZES_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* Infers nodes `first` to the last one of a copy of the graph; rows with `bound` by that. */
struct zt_size_trial {
    void *with;
    bool (*infer)(void *with, struct zt_graph *g, int first, bool less, struct zt_err *err);
};

/* Encloses `node`, whose row has `bound`, with what follows from it: the nodes die and an EagerRun is appended, whose
 * outputs have their shapes. All nodes before `node` are inferred, and no later one. Fails where a result of the graph
 * itself varies, and at nodes that an EagerRun cannot hold: with a training form, with subgraphs, of random numbers. */
bool zt_data_sizes_enclose(struct zt_graph *g, int node, const struct zt_size_trial *trial, struct zt_err *err);

#endif
