/* The op contract: what a row of the table promises. One row implements one ONNX op over a range of opsets.
 *
 * A row holds everything the rest of the tree may ask about an op; nothing else knows its name. `infer` is called with
 * all input dtypes and shapes known (the graph is bound to a batch size first), so every output shape is known after
 * it, except where it depends on data: then it reads `data` of its inputs and fails when that is NULL. */
#ifndef ZT_GRAPH_IR_OP_H
#define ZT_GRAPH_IR_OP_H

#include "base/err.h"
#include "base/rng.h"
#include "graph/ir/graph.h"

struct zt_function_body;
struct zt_grad;
struct zt_device;
struct zt_expansion;

enum zt_backend { ZT_REF, ZT_CPU, ZT_CUDA, ZT_BACKENDS };

/* How a tensor lies in memory where it is not plain row-major (a vendor's blocked format). Owned by the graph's arena
 * or static. */
struct zt_layout {
    const char *name; /* as the vendor writes it: "nChw16c" */
    size_t bytes;     /* of storage, padding included */
    bool (*equal)(const struct zt_layout *a, const struct zt_layout *b);
    const void *descriptor; /* the vendor's */
};

/* A tensor as a kernel sees it. */
struct zt_view {
    enum zt_dtype dtype;
    struct zt_shape shape;
    void *data; /* NULL: omitted optional input or output */
    const struct zt_layout *layout;
};

/* The data-parallel ranks that a kernel may sum over: all of them run the node. sum adds in rank order; on return
 * `values` holds the sums on every rank. */
struct zt_group {
    void *with;
    bool (*sum)(void *with, double *values, int count, struct zt_err *err);
};

/* One execution of one node. in[i]/out[i] exist for i < in_count/out_count; nothing here is owned by the kernel. */
struct zt_call {
    const struct zt_graph *graph;
    const struct zt_node *node;
    const struct zt_view *in, *out;
    int in_count, out_count;
    void *state;     /* what prepare left, NULL without prepare */
    void *workspace; /* workspace_bytes of prepare, aligned to 64; contents undefined */
    int threads;     /* compute threads to use at most; the result must not depend on it */
    bool accumulate; /* out[0] += result; only asked of kernels whose prepare said can_accumulate */
    const struct zt_random *random;
    const struct zt_random *random_there; /* the same in the device's memory, NULL: not there */
    const struct zt_group *peers;         /* NULL: alone */
    struct zt_device *device;             /* CUDA: the stream to launch on; NULL on the host */
    struct zt_path *path; /* a kernel that runs another way than `prepare` said, because of where its tensors lie, says
                             so here; NULL: nobody asks */
};

/* Asked once per shape, before the memory plan. Arrays have the node's in_count/out_count entries. */
/* Which of its implementations a back end runs a node with, where it has several. Texts live in the graph's arena or
 * are constants. */
struct zt_path {
    const char *name; /* ZT_PATH_OWN or a library: "cuDNN", "cuBLASLt"; NULL: the back end has one implementation */
    const char *note; /* own kernel: why no library's was taken; library: what it leaves to other kernels, or NULL */
};
#define ZT_PATH_OWN "own kernel"

struct zt_prepare {
    struct zt_graph *graph; /* for its arena; the graph itself is not changed */
    int node;
    int threads;                        /* at most; chunks must not depend on it */
    const struct zt_layout **in_layout; /* in: as the producers give them; out: as this kernel wants them (NULL: plain).
                                           A reorder node is put between where they differ */
    const struct zt_layout **out_layout; /* out: how the kernel writes its outputs */
    size_t workspace_bytes;
    bool can_accumulate;
    /* out: tensors that may lie in another order of the back end than `prepare` chose, whatever the others do (a bit
     * each, none behind the 32nd). Where that saves a reorder node the kernel is prepared anew, `settled`. */
    unsigned free_in, free_out;
    bool settled; /* in: in_layout and out_layout are how all tensors lie; `prepare` leaves them */
    void *state;  /* freed by release */
    struct zt_device *device;
    struct zt_path path; /* out */
};

struct zt_kernel {
    /* The kernel's position in the device module's array (device/module.h). NULL: a kernel of the program itself. */
    const int *module_kernel;
    /* Whether this back end takes the node with its dtypes, shapes and attributes. NULL: every node of the row. */
    bool (*supports)(const struct zt_graph *g, int node);
    /* Says of a node what kernels that lie elsewhere (device/module.h) read of it, in the struct of the row's family.
     * NULL: they read the node itself. */
    bool (*describe)(const struct zt_graph *g, int node, void *to, struct zt_err *err);
    /* NULL: plain layouts, no workspace, no state. Reference kernels are always given plain layouts. */
    bool (*prepare)(struct zt_prepare *p, struct zt_err *err);
    bool layouts; /* of kernels that lie elsewhere: prepare chooses among layouts, else all are plain */
    bool rows;    /* of such: among matrices with filled rows too (ops/kernel/layout.h), else none comes so */
    bool (*run)(const struct zt_call *call, struct zt_err *err); /* NULL: the row has no kernel of this back end */
    void (*release)(void *state);
};

/* Allowed attributes of a row; ends with a NULL name. */
struct zt_attr_spec {
    const char *name;
    enum zt_attr_type type;
    bool required;
    bool element_type; /* INT: a TensorProto.DataType, which the pass to float may change */
};

enum zt_op_flags {
    ZT_OP_SHAPE_ONLY = 1 << 0, /* result depends on the input's shape alone: folds when that is known (Shape, Size) */
    ZT_OP_RANDOM = 1 << 1,     /* never folded */
    ZT_OP_HALF = 1 << 2,       /* the half pass may run it in half precision (matrix products, elementwise) */
    ZT_OP_VARIADIC = 1 << 3,   /* any number of inputs from min_in on */
    ZT_OP_IN_PLACE = 1 << 4,   /* output 0 may share memory with an input of the same size that dies here (in_place) */
    ZT_OP_VIEW = 1 << 5, /* output 0 holds input 0's bytes unchanged in plain order (Reshape, Identity, Flatten ...):
                            the memory plan lets them share, the executor runs no kernel then */
    ZT_OP_CAST = 1 << 6, /* output 0 holds input 0's numbers, in another type where the attribute or input says so */
    ZT_OP_POINTWISE = 1 << 7, /* each element of the result is made of those in its place of the inputs, broadcast */
    ZT_OP_LIGHT = 1 << 8,     /* about one operation an element of the outputs, from at most as many of each input:
                                 its time is that of those bytes (the cost model) */
    ZT_OP_WINDOWS =
        1 << 9, /* a product over windows, as convolutions are: a machine does those at a rate of their own */
    ZT_OP_GROUP = 1 << 10, /* its kernels sum over the data ranks (zt_call.peers): the host takes part */
    ZT_OP_ONCE = 1 << 11,  /* it makes what the backward phase begins with: never made again there */
};

/* What a training form needs to know. */
struct zt_train_options {
    bool batch_norm_frozen;
    bool evaluation; /* the forms for evaluation: running statistics, nothing dropped, whatever the node was exported as
                      */
    bool sync;       /* BatchNormalization takes the statistics of all data-parallel ranks */
    bool padded;     /* rows may fill up a short batch: they count in no statistic */
    int row_weight;  /* of padded: value [samples], 0 for such rows */
};

struct zt_op {
    const char *name, *domain; /* domain "" for ai.onnx, "ztrain" for our own */
    int since, until;          /* opset range this row implements, inclusive; until 0: no end yet */
    int min_in, max_in, min_out, max_out;
    unsigned flags;
    int in_place; /* of ZT_OP_IN_PLACE: the input */
    /* Input types: allowed set per input (the last entry repeats for variadic); 0: any computed type. Inputs whose bit
     * is set in same_type must have input 0's dtype (bit i: input i). */
    unsigned in_types[8];
    unsigned same_type;
    const struct zt_attr_spec *attrs; /* NULL: none allowed */
    bool (*infer)(struct zt_graph *g, int node, struct zt_err *err);
    /* Appends nodes that compute gradients for the inputs zt_grad_wanted() says, and gives them with zt_grad_give().
     * NULL: the op has no derivative (integers, comparisons, shapes) and gradients stop here. */
    bool (*grad)(struct zt_grad *b, int node, struct zt_err *err);
    /* Inputs through which no gradient flows, a bit each (indices, shapes, running statistics). */
    unsigned no_grad_in;
    /* Constant inputs that an export may have worked out from its batch (graph/passes/rebind.h), a bit each: the
     * result's shape, which input 0, where it is another, is fitted to from the last axis on, or over whose elements it
     * is laid anew (ZT_OP_VIEW); and other numbers of which sizes of the result are made (repeats, limits). */
    unsigned shape_in, size_in;
    /* Inputs of which nothing but the type is read, a bit each: the second of CastLike. */
    unsigned type_in;
    /* Inputs that hold running statistics: initializers there are never trained, though a gradient exists (`ztrain
     * grad` gives it). */
    unsigned statistic_in;
    /* What stays in fp32 where the half pass runs the node in half precision (ZT_OP_HALF), a bit each: inputs, outputs
     * (statistics, masks, a loss). The last bit stands for all behind it. */
    unsigned full_in, full_out;
    /* Inputs that ask for the training form where they are true (Dropout's training_mode). */
    unsigned training_in;
    /* Turns the node into its training (or evaluation) form: BatchNormalization, Dropout. NULL: stays as it is. */
    bool (*train)(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err);
    /* Nodes with bodies: appends what the node stands for, once its inputs have data where that must be known, else
     * fails (graph/passes/lower.h). Such a row has neither infer, grad nor kernels: only its nodes' bodies are ever
     * run. */
    bool (*expand)(struct zt_expansion *x, struct zt_err *err);
    /* What the node is in standard operators (graph/export/function_body.h), for files that others read. Rows of ours
     * that gradient rules emit have one, and rows of forms that opset ZT_FUNCTION_BODY_OPSET does not have. NULL: none.
     */
    bool (*body)(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err);
    const void *detail; /* what the row's family keeps of it for its own kernels; NULL: nothing */
    int renewed; /* opset from which on the row's nodes mean something else than before (Softmax: 13); 0: never */
    double (*flops)(const struct zt_graph *g, int node); /* NULL: one per output element */
    struct zt_kernel kernel[ZT_BACKENDS];                /* [ZT_REF].run is mandatory without expand */
};

/* ---- rows as a set: the table lives in ops/table.c and is handed in, so that the graph knows no op by name ---- */

struct zt_op_table {
    const struct zt_op *const *const *families; /* arrays of rows; the list and each array are NULL-terminated */
};
/* Goes through all rows; start with { 0 }. */
struct zt_op_cursor {
    int family, row;
};
/* The next row, NULL after the last one. */
const struct zt_op *zt_op_next(const struct zt_op_table *table, struct zt_op_cursor *at);

/* The row for (domain, name, opset), NULL where there is none. */
const struct zt_op *zt_op_find(const struct zt_op_table *table, const char *domain, const char *name, int opset);
/* Whether nodes of the row can only be copies: one input, no attributes, the bytes handed on (Identity). */
bool zt_op_copies(const struct zt_op *op);
/* Sets node->op and the graph's table, and checks counts and attributes against the row. A missing row: an error that
 * names node and op. */
bool zt_op_resolve(const struct zt_op_table *table, struct zt_graph *g, int node, struct zt_err *err);
/* Checks dtypes of the inputs against the row, and that their sizes are within reason. */
bool zt_op_check_inputs(const struct zt_graph *g, int node, struct zt_err *err);
/* The same, then runs the row's infer. Every input must have dtype and shape. */
bool zt_op_infer(struct zt_graph *g, int node, struct zt_err *err);
double zt_op_flops(const struct zt_graph *g, int node);
/* Whether a node hands on its first input's elements in whatever type they have: a view, and no BitCast. */
bool zt_op_is_view(const struct zt_node *n);
/* Whether the back end has a kernel that takes the node as it stands. */
bool zt_op_takes(const struct zt_graph *g, int node, enum zt_backend backend);
/* By value: whether it is a parameter or made of parameters and constants alone, so that it stays the same until the
 * next update. Nodes must be resolved and sorted. Free with free(). */
bool *zt_graph_from_params(const struct zt_graph *g);

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
/* The input on which output 0 may lie, a value, -1: none. */
int zt_op_in_place(const struct zt_node *n);
/* What the value takes in memory, in its layout; 0 of an omitted one (NULL). Its shape must be known. */
int64_t zt_value_bytes(const struct zt_value *v);
/* What a tensor takes where it lies, in its layout. */
size_t zt_view_bytes(const struct zt_view *v);
/* Sets dtype and shape of output i; harmless where the output is omitted. */
void zt_set_out(struct zt_graph *g, int node, int i, enum zt_dtype dtype, const struct zt_shape *shape);
/* Numpy broadcasting of two shapes; fails naming both. */
bool zt_broadcast(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                  struct zt_shape *to, struct zt_err *err);
/* Axis in -rank..rank-1 made 0..rank-1; fails naming it. */
bool zt_axis(const struct zt_graph *g, int node, int64_t axis, int rank, int *to, struct zt_err *err);
/* The integers of input i, which must be known now (constant, or eager run): at most `room` of them to `to`. An omitted
 * input gives *count -1. Fails "... depends on data" where they are not known. */
bool zt_known_ints(const struct zt_graph *g, int node, int i, int64_t *to, int room, int *count, struct zt_err *err);

#endif
