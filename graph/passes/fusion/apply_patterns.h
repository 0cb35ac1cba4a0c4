/* Fusion: the table of patterns is applied to a graph. */
#ifndef ZT_GRAPH_PASSES_FUSION_APPLY_PATTERNS_H
#define ZT_GRAPH_PASSES_FUSION_APPLY_PATTERNS_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* `when` bit of patterns for the forward graph, before the gradient is built: several nodes become one standard op,
 * whose gradient is one node too; the second bit of those that help the CPU alone, which are applied within the stages
 * of a pipeline. The other bits are 1 << enum zt_backend: patterns for the training graph of a back
 * end that has a fast kernel for the fused node. */
enum { ZT_FUSE_FORWARD = 1 << ZT_BACKENDS, ZT_FUSE_FORWARD_CPU = 1 << (ZT_BACKENDS + 1) };

/* A fusion pattern: a row of the table. Results stay equal within rounding. */
struct zt_pattern {
    const char *name; /* one word, as config key ztrain.fuse has it */
    unsigned when;    /* graphs on which the pattern is tried, see ZT_FUSE_FORWARD */
    /* Rewrites the nodes of which `node` is the last one and returns true when they fit the pattern. */
    bool (*apply)(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err);
    /* In place of `apply`: a pattern of the training graph that depends on the back end. */
    bool (*apply_on)(struct zt_graph *g, const struct zt_op_table *table, int node, enum zt_backend on,
                     struct zt_err *err);
};

/* The patterns that a run may use: those whose name fits one of the globs. */
struct zt_fusion {
    const struct zt_pattern *const *patterns; /* NULL-terminated, in the order in which they are tried */
    const char *const *names;                 /* globs */
    int name_count;
};

/* Whether the pattern's name fits one of the globs. */
bool zt_fusion_allows(const struct zt_fusion *fusion, const struct zt_pattern *pattern);

struct zt_fuse_options {
    const struct zt_fusion *fusion;
    unsigned when;                        /* one bit: patterns with this bit are tried */
    const struct zt_train_options *train; /* new nodes take this training or evaluation form; NULL: none */
    int *counts;                          /* counts[i] grows by the number of matches of pattern i; NULL: not counted */
};
/* Applies every allowed pattern at every node, last nodes first. */
bool zt_pass_fuse(struct zt_graph *g, const struct zt_op_table *table, const struct zt_fuse_options *options,
                  struct zt_err *err);

#endif
