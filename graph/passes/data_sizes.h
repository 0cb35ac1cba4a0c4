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
 * both and differ (the size itself, read by Shape) vary too. So does every part of a Split into equal parts of an axis
 * that varies, also where one less takes nothing from that part: where a node of shares (ZT_OP_SHARES) reads what
 * varies and gives the same, the trial with less takes what its `bound` says. Parts whose sizes the step computes may
 * each be the whole axis; a Concat of what was made of all of them (ZT_OP_JOINS) is as long as the axis. */
#ifndef ZT_GRAPH_PASSES_DATA_SIZES_H
#define ZT_GRAPH_PASSES_DATA_SIZES_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* Infers nodes `first` to the last one of a copy of the graph; rows with `bound` by that. `most`: NULL for the largest
 * sizes, for one less the copy with the largest. */
struct zt_size_trial {
    void *with;
    bool (*infer)(void *with, struct zt_graph *g, int first, const struct zt_graph *most, struct zt_err *err);
};

/* Whether trials found the same contents, or none, and whether they found the same value. */
bool zt_data_sizes_same_contents(const struct zt_value *a, const struct zt_value *b);
bool zt_data_sizes_same(const struct zt_value *a, const struct zt_value *b);

/* Encloses `node`, whose row has `bound` or that holds graphs in which sizes vary (an If on data whose branches give
 * other sizes, in a Loop), with what follows from it: the nodes die and an EagerRun is appended, whose outputs have
 * their shapes. Later nodes whose sizes vary, which the same trial shows, are enclosed too, those that share no varying
 * size with others in an EagerRun of their own. All nodes before `node` are inferred, and no later one. Fails where a
 * result of the graph itself varies, and at nodes that an EagerRun cannot hold: with running statistics, of random
 * numbers. Nodes that hold graphs, and sequences, are kept as they are: each run expands them. A node whose bounds do
 * not vary has another fault, which its rule reports. */
bool zt_data_sizes_enclose(struct zt_graph *g, int node, const struct zt_size_trial *trial, struct zt_err *err);

#endif
