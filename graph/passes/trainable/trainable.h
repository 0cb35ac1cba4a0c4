/* Trainable parameters: which initializers train, and what the exporter did to them (merged, copied, folded). */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_TRAINABLE_H
#define ZT_GRAPH_PASSES_TRAINABLE_TRAINABLE_H

#include "graph/ir/graph.h"
#include "graph/onnx/onnx.h"

struct zt_op_table;

/* Decides which initializers train: sets `trainable`, `unreached`, `blocked_at`, `statistic` and `why` of every
 * initializer on which `loss` (-1: any graph output) depends, and `reached` of every value. trainable.c states the
 * rule. `model` identifies the exporter; NULL: unknown.
 */
void zt_pass_trainable(struct zt_graph *g, const struct zt_onnx *model, int loss);

/* PyTorch's TorchScript exporter stores one of several equal tensors and makes the others by Identity: in its files the
 * output of each Identity of an initializer becomes an initializer of the same contents and of its own. Elsewhere an
 * Identity is what it says, and its readers read the initializer. An Identity is recognised by its row: ZT_OP_VIEW, at
 * most one input, no attributes. The pass must run on the file's whole graph, before rows are resolved and unneeded
 * nodes are dropped: a copy that the loss does not need must not change with its source. */
void zt_pass_split_aliases(struct zt_graph *g, const struct zt_op_table *table, const struct zt_onnx *model);

/* A copy of a resolved graph with the nodes inside of its nodes in their place (zt_pass_open_bodies()), to look at the
 * readers of initializers, whose ids and contents are the same. In g's arena; destroy it first. NULL: there are no such
 * nodes, or more than 2048. */
struct zt_graph *zt_trainable_opened(const struct zt_graph *g);

/* Inserts ztrain.Detach, which has no gradient, at the traces of detach() and stop_gradient() that PyTorch's dynamo
 * exporter and jax2onnx leave, and at straight-through estimates z + (q - z) and (q + z) - z in TorchScript's files
 * (detached.c), also inside of nodes. Runs on the file's whole graph, before the other passes, and again after
 * zt_pass_lower() for what functions held. */
void zt_pass_detach(struct zt_graph *g, const struct zt_onnx *model);
/* Traced calls that read something detached at a place that is not known, or two values that the exporter merged into
 * one, and add them: gradients flow there. Returns the count; names are in the graph's arena. */
int zt_trainable_flows(const struct zt_onnx *model, const char ***names);
/* Other differences of the two values of a straight-through estimate in TorchScript's file: the losses of VQ-VAE's
 * codebook and commitment, where the codes are parameters, and what residual quantization leaves. Each detaches one of
 * the two; here gradients flow to both.
 * Returns the count; names are those of the nodes, in the graph's arena. */
int zt_trainable_undetached(const struct zt_onnx *model, const struct zt_graph *g, const char ***names);

/* Square roots, logarithms and quotients in dynamo's files without the tiny constant that PyTorch adds before them
 * (removed_sums.c). Returns the count; names are those of the nodes, in the graph's arena. */
int zt_trainable_removed_sums(const struct zt_onnx *model, const char ***names);

/* tf2onnx gives an LSTM its one bias twice, the second time as zeros: these stay. Runs before zt_pass_trainable(). */
void zt_pass_keep_one_bias(struct zt_graph *g, const struct zt_onnx *model);

/* Undoes what torch's dynamo exporter does to parameters of equal contents, which it merges into one initializer, and
 * to biases of zeros, which it removes: each gets an initializer of its own again, in the model's graph and in what is
 * written. A buffer or a constant that was merged with a parameter gets one too and does not train. The traced call
 * that the exporter keeps for each node says whose the tensor was; tied parameters are one in it and stay one. */
void zt_pass_split_merged(struct zt_onnx *model, const struct zt_op_table *table);

/* Sets `sources` of the initializers that PyTorch's exporters rearranged or joined from parameters: the name that the
 * parameter has in the module, or what TorchScript keeps of it ("fc.weight", read by "/fc/MatMul"). Strings are in the
 * graph's arena, clones share them. */
void zt_pass_find_sources(struct zt_onnx *model);
/* Whether one of the globs matches the initializer's own name, or each of its sources is matched by one. */
bool zt_parameter_fits(const struct zt_value *v, const char *const *globs, int count);

/* Parameters that PyTorch's signature lists but the file lacks, both as initializers and as sources of folded ones: the
 * exporter merged them with equal parameters or removed them. Not those that the network does not use, as far as the
 * file tells. Returns the count; names are in the graph's arena. */
int zt_trainable_missing(const struct zt_onnx *model, const char ***names);

/* Removes names of parameters that the network does not use, from a list of `count`. Returns how many are left. */
int zt_trainable_drop_unread(const struct zt_onnx *model, const char **names, int count);

/* All parameters that the signature lists, in its order. Returns the count; names are in the graph's arena. */
int zt_trainable_listed(const struct zt_onnx *model, const char ***names);

/* Layers into which the exporter folded a normalization. Such a layer trains as a plain layer with a bias; the batch
 * statistics cannot be restored. */
enum zt_trainable_folding { ZT_NOT_FOLDED, ZT_FOLDED_DYNAMO, ZT_FOLDED_TORCHSCRIPT, ZT_FOLDED_TENSORFLOW };
struct zt_trainable_fold {
    int node, weight, bias; /* ids in the model's graph; bias -1: none */
    enum zt_trainable_folding by;
};
/* Returns the count; the list is in the graph's arena. */
int zt_trainable_folds(const struct zt_onnx *model, struct zt_trainable_fold **folds);
/* Advice for the user: how to export the model with its normalizations. */
const char *zt_trainable_unfold(enum zt_trainable_folding by);

/* Initializers of `g` (the model's graph or a clone) that the file does not store: those of zt_pass_split_aliases(),
 * for zt_onnx_changes. Returns the count; names are in g's arena. */
int zt_trainable_aliases(const struct zt_onnx *model, const struct zt_graph *g, const char ***names);

/* Two trainable initializers of rank 2 or more with equal contents, or one the transpose of the other: possibly one
 * tied weight that the exporter copied. Constant-valued tensors are excluded, since new tensors often have equal
 * values. */
enum { ZT_TIE_RANK = 4 }; /* highest rank for which transposes are compared */
struct zt_trainable_pair {
    int a, b;                  /* value ids, a < b */
    bool transposed;           /* axis k of b is axis perm[k] of a; false: a equals b */
    int64_t perm[ZT_TIE_RANK]; /* set if transposed */
    bool apart;                /* of different modules: equal by chance, as copies of a layer are, or really tied */
};
/* Returns the count; the list is in the graph's arena. Three equal initializers x, y, z give the pairs (x, y), (y, z).
 */
int zt_trainable_pairs(const struct zt_graph *g, struct zt_trainable_pair **pairs);

/* Whether two initializers of one dtype have equal contents, b as it is or (perm not NULL) transposed. False if weights
 * are absent. */
bool zt_trainable_same(const struct zt_value *a, const struct zt_value *b, const int64_t *perm);
/* The same of b as it is or in another shape, which has more or fewer axes of one element. */
bool zt_trainable_is_reshaped(const struct zt_value *a, const struct zt_value *b);
/* Finds a permutation of axes, other than the identity, that makes b from a. False if there is none or weights are
 * absent. */
bool zt_trainable_find_perm(const struct zt_value *a, const struct zt_value *b, int64_t *perm);

/* Pairs that are tied by default, a subset of zt_trainable_pairs(): the exporter says or its numbering shows that b is
 * a copy of a, or a is an embedding (read by Gather) and b a matrix product's weight. b may be one that gets no
 * gradient. Those that are `apart` are not tied. Contents are compared only where shapes and roles match. Returns the
 * count; the list is in the graph's arena, sorted by b, each b once. */
int zt_trainable_copies(const struct zt_onnx *model, const struct zt_graph *g, struct zt_trainable_pair **pairs);

/* Trainable initializers of PyTorch's exporters and tf2onnx an eighth of whose sampled elements stands in another one,
 * too, or once more in the same (a == b), without being a copy of the whole: parts of one parameter that train
 * separately. One of the two was made by the exporter. Each pair once. Returns the count; the list is in the graph's
 * arena. */
struct zt_trainable_overlap {
    int a, b; /* value ids: a's elements stand in b */
};
int zt_trainable_overlaps(const struct zt_onnx *model, const struct zt_graph *g, struct zt_trainable_overlap **list);

/* Number of trainable initializers that both a Gather and a matrix product read: embeddings tied to an output layer. */
int zt_trainable_shared(const struct zt_graph *g);

/* "mean of a normalization" or "variance ...", where plain operators show an initializer to be one; NULL: none. */
const char *zt_trainable_statistic(const struct zt_graph *g, const struct zt_value *v);

/* Returns the kind of contents that neither training nor random initialization produces, as buffers have; NULL: other
 * contents. The kinds: sinusoids, whole numbers, a window or filter that is the same read backwards, and where the file
 * does not mark the initializer as a PARAMETER, masks, evenly spaced numbers, powers of a number. */
const char *zt_trainable_table(const struct zt_value *v, bool marked);

/* Whether a node holds a float tensor with a dimension, as a Constant does: some exporters put weights there, where
 * they do not train. */
bool zt_trainable_is_held(const struct zt_node *node);

/* Whether the name is that of a singular vector of torch.nn.utils.spectral_norm, "conv.weight_u" beside
 * "conv.weight_orig", or of torch.nn.utils.parametrizations.spectral_norm, "conv.parametrizations.weight.0._u": a
 * buffer, which PyTorch's training iterates and a file keeps. */
bool zt_trainable_is_singular(const struct zt_graph *g, const struct zt_value *v);

/* Whether the name is Paddle's for a tensor that is no parameter: a buffer, or computed from parameters. */
bool zt_trainable_is_no_parameter(const char *name);

/* Whether onnxruntime's optimizer rewrote the file of an exporter whose parameters are told by names and metadata: it
 * imports all domains that it knows. The optimizer drops metadata, computes with parameters and merges equal ones. */
bool zt_trainable_is_optimized(const struct zt_onnx *model);

/* Whether tf2onnx wrote the file. */
bool zt_trainable_is_tensorflow(const struct zt_onnx *model);

/* Whether tf2onnx named the initializer by the operation with which it computed it from variables. */
bool zt_trainable_is_computed(const struct zt_onnx *model, const struct zt_value *v);

/* The row of `table` that gets no gradient through a lookup, a Gather along its first axis, in a file of PyTorch: what
 * the traced call says, and without one the only row of zeros; -1: none. */
int64_t zt_trainable_padding(const struct zt_onnx *model, const struct zt_node *lookup, const struct zt_value *table);

/* Whether the weight's product is added to one of low rank of the same input, x W + s (x A) B, as LoRA adapts a weight
 * that is fixed. */
bool zt_trainable_is_adapted(const struct zt_graph *g, const struct zt_value *v);

/* Whether dynamo's file shows the parameter read outside of its module, as in torch.no_grad(). `g`: the model's graph
 * or what is needed of it, with functions lowered. After zt_pass_find_sources(). */
bool zt_trainable_is_unscoped(const struct zt_onnx *model, const struct zt_graph *g, const struct zt_value *v);

/* Nodes of `g`, of dynamo's file, that read a parameter outside of its module, which a node of the same operator reads
 * inside, too: the same layers in torch.no_grad() (unscoped.c). `g`: what the loss needs of the model's graph, after
 * zt_pass_trainable(); nodes from which no gradient of it comes are not among them. After zt_pass_find_sources().
 * Returns the count; names are those of the nodes, in the graph's arena. */
int zt_trainable_read_again(const struct zt_onnx *model, const struct zt_graph *g, const char ***names);

/* Whether zeros are spread in a matrix as a product with a mask leaves them: 2 % or more of it, not whole rows or
 * columns. */
bool zt_trainable_is_masked(const struct zt_value *v);
/* Whether the rows or the columns of a matrix are positive and sum to 1, as a softmax leaves them. */
bool zt_trainable_is_softmax(const struct zt_value *v);
/* Whether the elements are different numbers below 10 of at most three digits behind the point, not all of them
 * multiples of 1/8: somebody wrote them. */
bool zt_trainable_is_decimals(const struct zt_value *v);

/* The reason why a trainable initializer may be no parameter; NULL: no doubt. Its contents (above), and where the file
 * does not list parameters: zeros added to the output or concatenated with parameters, numbers that scale an input, one
 * number that is no part of a layer, what the exporter computed. From every writer: a weight beside LoRA's product,
 * frequencies of sines and cosines, an attention's scale. `model` identifies the exporter; NULL: unknown. */
const char *zt_trainable_doubt(const struct zt_graph *g, const struct zt_value *v, const struct zt_onnx *model);

#endif
