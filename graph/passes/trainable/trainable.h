/* What the exporter did to the parameters: which it merged, copied or lost. The verdict itself is zt_pass_trainable()
 * in graph/passes/passes.h. */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_TRAINABLE_H
#define ZT_GRAPH_PASSES_TRAINABLE_TRAINABLE_H

#include "graph/ir/graph.h"
#include "graph/onnx/onnx.h"

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

/* Two trained initializers of rank 2 or more with the same contents, or one the transpose of the other: perhaps a tied
 * weight that the exporter copied. Those that hold one number throughout are left out, since fresh tensors often do. */
enum { ZT_TIE_RANK = 4 }; /* of what may be the transpose of another */
struct zt_trainable_pair {
    int a, b;                  /* value ids, a < b */
    bool transposed;           /* b is the transpose of a, axis k of b being axis perm[k] of a; else equal */
    int64_t perm[ZT_TIE_RANK]; /* set where it is transposed */
};
/* Returns how many; the list is in the graph's arena. Of three that hold the same, the second pair begins with what the
 * first one ends with. */
int zt_trainable_pairs(const struct zt_graph *g, struct zt_trainable_pair **pairs);

/* Whether two initializers of one type hold the same, b as it is or, with perm, as the transpose of a. False where
 * contents are not read. */
bool zt_trainable_same(const struct zt_value *a, const struct zt_value *b, const int64_t *perm);
/* The exchange of axes, other than none, that makes b of a; false where there is none or contents are not read. */
bool zt_trainable_find_perm(const struct zt_value *a, const struct zt_value *b, int64_t *perm);

/* Copies of one parameter that the exporter left as two initializers, both with a verdict of trained: `b` was made by
 * it of `a` (it says so, or numbered b), or a is an embedding, read by Gather, and b what a product reads. Cheap:
 * tensors are compared only where shapes and roles fit. Returns how many; the list is in the graph's arena, sorted by
 * b, each b once. Of the pairs of zt_trainable_pairs these are the ones that are tied by default. */
int zt_trainable_copies(const struct zt_onnx *model, const struct zt_graph *g, struct zt_trainable_pair **pairs);

/* Trained initializers that both a Gather and a product read: embeddings tied to a head. Returns how many. */
int zt_trainable_shared(const struct zt_graph *g);

/* Trained initializers that are perhaps no parameters, and why; NULL: no doubt. For files that cannot say it: a table
 * of sinusoids, zeros added to the output or joined with parameters, numbers that scale an input. `marked`: the file
 * says what is a PARAMETER. */
const char *zt_trainable_doubt(const struct zt_graph *g, const struct zt_value *v, bool marked);

#endif
