/* What the exporter did to the parameters: which it merged, copied or lost. The verdict itself is zt_pass_trainable()
 * in graph/passes.h. */
#ifndef ZT_GRAPH_TRAINABLE_H
#define ZT_GRAPH_TRAINABLE_H

#include "graph/graph.h"
#include "graph/onnx.h"

/* Parameters that PyTorch's signature lists but no initializer holds, neither under its name nor folded into another:
 * the exporter merged them with an equal one, or folded them away. Returns how many; names in the graph's arena. */
int zt_trainable_missing(const struct zt_onnx *model, const char ***names);

/* All parameters that it lists, in its order. */
int zt_trainable_listed(const struct zt_onnx *model, const char ***names);

/* Layers into which the exporter multiplied a normalization: they train as plain layers with a bias, and its batch
 * statistics cannot come back. */
enum zt_trainable_folding { ZT_NOT_FOLDED, ZT_FOLDED_DYNAMO, ZT_FOLDED_TORCHSCRIPT, ZT_FOLDED_TENSORFLOW };
struct zt_trainable_fold {
    int node, weight, bias; /* of the model's graph; bias -1: none */
    enum zt_trainable_folding by;
};
/* Returns how many; the list is in the graph's arena. */
int zt_trainable_folds(const struct zt_onnx *model, struct zt_trainable_fold **folds);
/* How to export so that the normalization stays. */
const char *zt_trainable_unfold(enum zt_trainable_folding by);

/* Initializers of `g` (the model's graph or a clone) that the file does not store: what zt_pass_split_aliases() made,
 * for zt_onnx_changes. Returns how many; names in g's arena. */
int zt_trainable_aliases(const struct zt_onnx *model, const struct zt_graph *g, const char ***names);

/* Two float initializers of rank 2 or more with the same contents, or one the transpose of the other: perhaps a tied
 * weight that the exporter copied. Those that hold one number throughout are left out, since fresh tensors often do. */
struct zt_trainable_pair {
    int a, b; /* value ids, a < b */
    bool transposed;
};
/* Returns how many; the list is in the graph's arena. */
int zt_trainable_pairs(const struct zt_graph *g, struct zt_trainable_pair **pairs);

/* Whether two initializers of one type hold the same, b as it is or transposed (rank 2). False where contents are not
 * read. */
bool zt_trainable_same(const struct zt_value *a, const struct zt_value *b, bool transposed);

#endif
