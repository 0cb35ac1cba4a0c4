/* The op contract: a row of the op table. One row implements one ONNX op for a range of opsets.
 *
 * A row holds every fact about an op; no other code knows the op's name. An op needs `name`, `since`, `infer` and a
 * reference kernel; all other fields have a default that zero-initialisation gives. Dtypes and shapes of all inputs are
 * known when `infer` is called, since the graph is bound to a batch size first. */
#ifndef ZT_GRAPH_IR_OP_H
#define ZT_GRAPH_IR_OP_H

#include "base/err.h"
#include "graph/ir/graph.h"
#include "graph/ir/kernel.h"

struct zt_function_body;
struct zt_grad;
struct zt_expansion;
struct zt_low_rank_row;

/* An attribute that a row allows. Lists of these end with a NULL name. */
struct zt_attr_spec {
    const char *name;
    enum zt_attr_type type;
    bool required;
    bool element_type; /* INT: the value is a TensorProto.DataType, which zt_pass_to_float may change */
};

enum zt_op_flags {
    ZT_OP_SHAPE_ONLY = 1 << 0, /* the result depends only on the input's shape (Shape, Size) */
    ZT_OP_RANDOM = 1 << 1,     /* draws random numbers; never folded */
    ZT_OP_HALF = 1 << 2,       /* may run in half precision (matrix products, elementwise) */
    ZT_OP_VARIADIC = 1 << 3,   /* accepts any number of inputs from min_in on */
    ZT_OP_IN_PLACE = 1 << 4,   /* output 0 may reuse the memory of input `in_place` if sizes are equal and this is the
                                  input's last use */
    ZT_OP_VIEW = 1 << 5,       /* output 0 has the bytes of input 0 in plain order (Reshape, Identity, Flatten); it
                                  shares the memory and needs no kernel when input 0 is plain */
    ZT_OP_CAST = 1 << 6,       /* output 0 has the values of input 0, possibly in another dtype */
    ZT_OP_POINTWISE = 1 << 7,  /* each output element depends on the input elements at its position, with broadcast */
    ZT_OP_LIGHT = 1 << 8,      /* about one operation per output element: the cost model counts only its bytes */
    ZT_OP_WINDOWS = 1 << 9,    /* a product over windows (convolution), which has its own rate in the cost model */
    ZT_OP_GROUP = 1 << 10,     /* kernels sum over the data-parallel ranks (zt_call.group) on the host */
    ZT_OP_NO_RECOMPUTE = 1 << 11, /* never recomputed in the backward phase (losses, which backward starts from) */
    ZT_OP_SUMS = 1 << 12,         /* `flops` counts additions, no multiply-accumulates (reductions) */
    ZT_OP_PRODUCT = 1 << 13, /* a product of matrices: input 1 is [..., K, N], with the attribute transB [..., N, K] */
    ZT_OP_LISTS = 1 << 14,   /* takes sequences and optionals (list.h), captured ones included; needs `expand` */
    ZT_OP_PASSES_HALF = 1 << 15,     /* computes in fp32 whatever the type of its activations, which are the inputs and
                                        outputs that are not in full_in and full_out, and rounds once */
    ZT_OP_BFLOAT_PRODUCTS = 1 << 16, /* with the attribute bfloat_products, which the half pass sets for the CPU,
                                        products round their factors to bfloat16; tensors stay fp32 */
    ZT_OP_GROUP_CHANNELS = 1 << 17,  /* the axis that `channel_axis` names has the channels of one group */
    ZT_OP_REORDER = 1 << 18,         /* output 0 has the values of input 0 in another memory layout */
    ZT_OP_SHARES = 1 << 19, /* outputs are shares of an axis of input 0: they vary where its length does, also if the
                               next smaller length gives some of them the same size (Split); needs `bound` */
    ZT_OP_TRAINS_OTHERWISE = 1 << 20, /* the training form computes something else than the op (BatchNormalization,
                                         Dropout); that of other ops only keeps what their gradient reads */
    ZT_OP_JOINS = 1 << 21, /* may join what a node of shares shared out: `bound`, which follows `infer` where sizes are
                              bounds, says how long all parts together are (Concat) */
};

/* Options of training and evaluation forms. */
struct zt_train_options {
    bool batch_norm_frozen; /* BatchNormalization uses running statistics in training */
    bool evaluation;        /* requests evaluation forms: running statistics, no dropout */
    bool sync;              /* BatchNormalization uses the statistics of all data-parallel ranks */
    bool padded;            /* a short batch may be padded with rows that statistics must ignore */
    int row_weight;         /* with `padded`: value of shape [samples], 0 for padding rows */
};

struct zt_op {
    const char *name, *domain; /* domain "" for ai.onnx, "ztrain" for our own */
    int since, until;          /* first and last opset that this row implements; until 0: no last one */
    int min_in, max_in, min_out, max_out;
    unsigned flags;
    int in_place;         /* the input whose memory output 0 may reuse (ZT_OP_IN_PLACE) */
    unsigned in_types[8]; /* allowed dtypes per input (ZT_BIT masks); the last entry repeats; 0: ZT_ANY_TYPE */
    unsigned same_type;   /* inputs that must have the dtype of input 0 (bitmask) */
    const struct zt_attr_spec *attrs; /* allowed attributes; NULL: none */
    /* Sets dtype and shape of every output. Reads `data` of constant inputs where a shape depends on contents, and
     * fails if `data` is NULL. */
    bool (*infer)(struct zt_graph *g, int node, struct zt_err *err);
    /* Rows whose output shapes depend on the contents of inputs: sets the largest shapes that there can be, from the
     * inputs' shapes and the contents that are known; `less`: with one element less along the axis that varies, where
     * there is one. Also called where the contents are known (ZT_OP_SHARES, ZT_OP_JOINS; graph/passes/data_sizes.h).
     * NULL: shapes depend on shapes and constants. */
    bool (*bound)(struct zt_graph *g, int node, bool less, struct zt_err *err);
    /* Emits nodes that compute the gradients of the inputs for which zt_grad_wanted() is true, and passes them to
     * zt_grad_give(). NULL: not differentiable (integers, comparisons, shapes); gradients stop here. */
    bool (*grad)(struct zt_grad *b, int node, struct zt_err *err);
    unsigned no_grad_in;   /* inputs without gradient: indices, shapes, running statistics (bitmask) */
    unsigned shape_in;     /* constant inputs that determine the output shape (bitmask) */
    unsigned size_in;      /* constant inputs from which output sizes are computed: repeats, limits (bitmask) */
    unsigned type_in;      /* inputs of which only the dtype is read: the second input of CastLike (bitmask) */
    unsigned scale_in;     /* inputs with scales of quantization: their initializers train only on request (bitmask) */
    unsigned statistic_in; /* inputs with running statistics: their initializers are never trained (bitmask) */
    unsigned slice_in;     /* inputs of indices, each of which selects a slice of input 0 along attribute `axis`
                              (bitmask) */
    unsigned full_in;      /* inputs that stay fp32 in half precision, bit 31: all further inputs (bitmask) */
    unsigned full_out;     /* outputs that stay fp32 in half precision: statistics, masks, losses (bitmask) */
    unsigned training_in;  /* inputs that request the training form when true: Dropout's training_mode (bitmask) */
    /* Converts the node to its training or evaluation form (BatchNormalization, Dropout). NULL: it has only one form.
     */
    bool (*train)(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err);
    /* Called when the node has been resolved, after its producers, and again before inference, when producers with
     * `expand` are expanded; may turn it and a producer into one node that has a gradient where the two have none
     * (DequantizeLinear of a QuantizeLinear). Dtypes and shapes need not be known. NULL: never. */
    void (*join)(struct zt_graph *g, int node);
    /* Nodes with subgraphs (If, Loop, Scan): appends the nodes that replace this node, or fails if a needed input is
     * not constant (graph/passes/lower.h). So do the nodes that make or read sequences and optionals. A row with
     * `expand` has no `infer`, `grad` or kernels, except rows that are expanded only where zt_op_expands() says so. */
    bool (*expand)(struct zt_expansion *x, struct zt_err *err);
    /* Writes the ONNX function body of the node: its definition in standard operators (graph/export/function_body.h).
     * Needed for rows of our own that gradient rules emit, and for old forms that opset ZT_FUNCTION_BODY_OPSET lacks.
     * NULL: none. */
    bool (*body)(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err);
    /* Products with a weight: the axis of input `in`, of rank `rank`, along which the output channels lie; -1: this
     * input cannot be a weight. Reads attributes alone, so that nodes of a file need not be resolved. NULL: other ops.
     */
    int (*channel_axis)(const struct zt_node *n, int in, int rank);
    /* Rows that only permute axes: the axis of input 0, of rank `rank`, that is axis `axis` of output 0; -1: the
     * attributes do not say. Reads attributes alone. NULL: other ops. */
    int (*axis_before)(const struct zt_node *n, int rank, int axis);
    const struct zt_low_rank_row
        *low_rank;      /* low-rank changes of weights (graph/passes/low_rank/low_rank.h); NULL: none */
    const void *detail; /* kept by the row's family for its kernels; NULL: nothing */
    int redefined_in;   /* opset that changed the meaning of the op (Softmax: 13); 0: none */
    double (*flops)(const struct zt_graph *g, int node); /* of products and sums; NULL: as `flops_each` says */
    double flops_each;                    /* FLOPs per element of input 0 (norms, pooling); 0: one per output element */
    struct zt_kernel kernel[ZT_BACKENDS]; /* [ZT_REF].run is required unless the row has `expand` */
};

/* ---- the op table: defined in ops/table.c and passed in, so that the graph knows no op by name ---- */

struct zt_op_table {
    const struct zt_op *const *const *families; /* arrays of rows; the list and each array are NULL-terminated */
};
/* Goes through all rows; start with { 0 }. */
struct zt_op_cursor {
    int family, row;
};
/* The next row, NULL after the last one. */
const struct zt_op *zt_op_next(const struct zt_op_table *table, struct zt_op_cursor *at);

/* The row for (domain, name, opset); NULL: none. Opset 0, a domain that the file does not import: the newest row. */
const struct zt_op *zt_op_find(const struct zt_op_table *table, const char *domain, const char *name, int opset);
/* The row of a node that need not be resolved; NULL: none. */
const struct zt_op *zt_op_of(const struct zt_op_table *table, const struct zt_node *n);
/* Whether the row is a product with a weight that has all output channels on one axis: not one for each group. */
bool zt_op_has_channels(const struct zt_op *op);
/* Whether gradients flow through the op: by its rule, or through the nodes that it is replaced by. */
bool zt_op_has_gradient(const struct zt_op *op);
/* Whether a mask over inputs or outputs has number i; its last bit stands for all further ones. */
static inline bool zt_op_mask_has(unsigned mask, int i) {
    return mask >> (i < 31 ? i : 31) & 1;
}
/* Whether the op only copies: a view with one input and no attributes (Identity). */
bool zt_op_copies(const struct zt_op *op);
/* Sets node->op and the graph's table, and checks the numbers of inputs and outputs and the attributes against the row.
 * Without a row, the error names node and op. */
bool zt_op_resolve(const struct zt_op_table *table, struct zt_graph *g, int node, struct zt_err *err);
/* Calls the row's `join`. */
static inline void zt_op_join(struct zt_graph *g, int node) {
    if (g->nodes[node]->op->join)
        g->nodes[node]->op->join(g, node);
}
/* Whether the node is to be expanded: its row has `expand`, and no `infer` or an input that is a list. */
bool zt_op_expands(const struct zt_graph *g, int node);
/* Checks the dtypes of the inputs against the row, and their sizes against the limit. */
bool zt_op_check_inputs(const struct zt_graph *g, int node, struct zt_err *err);
/* zt_op_check_inputs(), then the row's infer. Every input must have dtype and shape. */
bool zt_op_infer(struct zt_graph *g, int node, struct zt_err *err);
/* FLOPs of one execution of the node, as DeepSpeed's profiler counts them where it has the operator. */
double zt_op_flops(const struct zt_graph *g, int node);
/* Work of one execution in the units of the cost model's rates (struct zt_machine): FLOPs of products and sums, output
 * elements of all other operators, 0 of views. */
double zt_op_work(const struct zt_graph *g, int node);
/* Multiply-accumulates of one execution of the node: half of its FLOPs if it is a product, otherwise 0. */
double zt_op_macs(const struct zt_graph *g, int node);
/* Whether output 0 has the elements of input 0 for every dtype: a view other than BitCast. */
bool zt_op_is_view(const struct zt_node *n);
/* Whether the back end has a kernel that supports the node. */
bool zt_op_takes(const struct zt_graph *g, int node, enum zt_backend backend);
/* By value: whether the value depends on parameters and constants alone, and so changes only in an update. Nodes must
 * be resolved and sorted. Free with free(). */
bool *zt_graph_from_params(const struct zt_graph *g);
bool zt_value_from_params(const struct zt_graph *g, int value); /* of one value; walks over the graph too */

/* ---- helpers for infer and kernels ---- */

/* Input i of a node, NULL where omitted. */
static inline struct zt_value *zt_in(const struct zt_graph *g, int node, int i) {
    const struct zt_node *n = g->nodes[node];
    return i < n->in_count && n->in[i] >= 0 ? g->values[n->in[i]] : NULL;
}
static inline struct zt_value *zt_out(const struct zt_graph *g, int node, int i) {
    const struct zt_node *n = g->nodes[node];
    return i < n->out_count && n->out[i] >= 0 ? g->values[n->out[i]] : NULL;
}
/* The value whose memory output 0 may reuse (ZT_OP_IN_PLACE); -1: none. */
int zt_op_in_place(const struct zt_node *n);
/* Size of the value in memory, in its layout; 0 for NULL. The shape must be known. */
int64_t zt_value_bytes(const struct zt_value *v);
/* Size of the tensor in memory, in its layout. */
size_t zt_view_bytes(const struct zt_view *v);
/* Sets dtype and shape of output i; does nothing if the output is omitted. */
void zt_set_out(struct zt_graph *g, int node, int i, enum zt_dtype dtype, const struct zt_shape *shape);
/* The shape to which a and b broadcast, by NumPy's rules. The error names both shapes. */
bool zt_broadcast(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                  struct zt_shape *to, struct zt_err *err);
/* Maps an axis in -rank..rank-1 to 0..rank-1. The error names the axis. */
bool zt_axis(const struct zt_graph *g, int node, int64_t axis, int rank, int *to, struct zt_err *err);
/* Reads the integers of input i. Fails if they are not known (neither constant nor computed by an eager run), or if
 * there are more than `room`. */
struct zt_int_list {
    int64_t *at; /* room for `room` numbers */
    int room;
    int *count; /* set to the number of integers; -1 for an omitted input */
};
bool zt_known_ints(const struct zt_graph *g, int node, int i, const struct zt_int_list *to, struct zt_err *err);

#endif
