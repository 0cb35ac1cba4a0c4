/* The graph: nodes and values, addressed by index and allocated in one arena.
 *
 * Every value and every node has a fixed address until the graph is destroyed; only the arrays of pointers move when
 * they grow. A dead node keeps its memory after zt_graph_sort() has removed it.
 *
 * Nodes are in topological order: each value is written before it is read. Forward nodes, backward nodes, casts and
 * reorders are ordinary nodes; `phase` separates forward from backward. Names are those of the ONNX file. Weights are
 * not copied: `data` of an initializer points into the mapped model file.
 *
 * A pass rewrites a graph in three steps: it appends new nodes with the `place` of the node that they replace, marks
 * old nodes dead, and calls zt_graph_sort(). */
#ifndef ZT_GRAPH_IR_GRAPH_H
#define ZT_GRAPH_IR_GRAPH_H

#include "base/arena.h"
#include "base/backend.h"
#include "base/err.h"
#include "base/map.h"
#include "graph/ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_op;
struct zt_layout;
struct zt_graph;
struct zt_attrs;
struct zt_functions;
struct zt_list;

/* ONNX's AttributeProto.AttributeType numbers. */
enum zt_attr_type {
    ZT_ATTR_FLOAT = 1,
    ZT_ATTR_INT = 2,
    ZT_ATTR_STRING = 3,
    ZT_ATTR_TENSOR = 4,
    ZT_ATTR_GRAPH = 5,
    ZT_ATTR_FLOATS = 6,
    ZT_ATTR_INTS = 7,
    ZT_ATTR_STRINGS = 8,
    ZT_ATTR_OTHER = 9, /* sparse tensors, lists of types, tensors or graphs: not read; the file keeps them */
    ZT_ATTR_TYPE = 13, /* TYPE_PROTO: a type of a value */
    ZT_ATTR_NONE = 0,  /* a function parameter without a default */
};

/* A tensor with known contents, borrowed. */
struct zt_tensor {
    enum zt_dtype dtype;
    struct zt_shape shape;
    const void *data; /* row-major; NULL: no elements, or weights are absent (plan, inspect) */
};

struct zt_attr {
    const char *name;
    enum zt_attr_type type;
    float f;
    int64_t i;
    const char *s; /* 0-terminated */
    int count;     /* elements of `floats`, `ints` or `strings` */
    const float *floats;
    const int64_t *ints;
    const char *const *strings;
    struct zt_tensor tensor;
    const struct zt_list *list;   /* a type that is no tensor; NULL: a tensor of type tensor.dtype, or unsupported */
    const struct zt_graph *graph; /* a subgraph, see struct zt_graph: constant, lives as long as the model */
    const struct zt_attrs *bound; /* values for the `ref`s inside `graph`; NULL outside functions */
    const char *ref;              /* in a function body: the parameter that supplies the value; NULL: none */
};

/* The arguments of one function call. */
struct zt_attrs {
    const struct zt_attr *at;
    int count;
};

enum zt_phase { ZT_FORWARD, ZT_BACKWARD };

enum zt_origin {
    ZT_FROM_NODE,        /* an output of node `producer` */
    ZT_FROM_INPUT,       /* graph input, set for every micro-batch */
    ZT_FROM_INITIALIZER, /* in the model file */
    ZT_FROM_CONSTANT,    /* created by a pass; `data` is in the graph's arena */
    ZT_FROM_OUTSIDE,     /* in a subgraph: a captured value of the outer graph */
};

/* Bounds of the elements of a value, both included. */
struct zt_bounds {
    double low, high;
};

struct zt_value {
    int id;           /* position in the graph's `values` */
    const char *name; /* unique in the graph */
    enum zt_dtype dtype;
    struct zt_shape shape;              /* rank -1 before inference */
    const char *dim_param[ZT_MAX_RANK]; /* inputs: symbol of each dim of -1; NULL: anonymous */
    enum zt_origin origin;
    int producer;     /* node index, -1 where origin is not ZT_FROM_NODE; set by zt_graph_index */
    const void *data; /* contents of initializers, constants and folded nodes; NULL: known only at run time */
    bool trainable;   /* initializers: the value is trained; `why` has the reason (graph/passes/trainable/) */
    bool may_train;   /* initializers: float, with a differentiable path to the loss */
    bool unreached;   /* initializers: a parameter like those that train, without a differentiable path to the loss */
    const char *blocked_at; /* unreached initializers: name of a node without a gradient through which alone the loss
                               depends on it; NULL: it does not, or through a detach() */
    bool scale;             /* initializers: a scale of quantization, which trains only on request */
    bool statistic;         /* initializers: running mean or variance, which BatchNormalization updates */
    const char *why;        /* why the initializer is trained or not, for users */
    const char *frozen_of;  /* the frozen initializer of which this constant is a copy in another type; NULL: none */
    const char *copy_of;    /* parameter of another pipeline stage of which this is a copy; NULL: no copy */
    const char *torch_kind; /* PyTorch's InputSpec.kind metadata of this value, NULL: none */
    const char *torch_folded_from;  /* onnxscript's folded_from metadata, NULL: none */
    const char *const *sources;     /* zt_pass_find_sources(): parameters of the module that the exporter rearranged or
                                       joined into this initializer; ends with NULL; NULL: none is known */
    const struct zt_layout *layout; /* NULL: plain row-major */
    const struct zt_bounds
        *bounds; /* inputs of graphs inside: bounds of the contents (graph/passes/bounds.h); NULL: none */
    const struct zt_list *list; /* of a sequence or optional (list.h); NULL: a tensor, or not known yet */
    bool reached;               /* zt_pass_trainable(): a gradient of the loss reaches it */
};

/* Whether the contents are fixed before running. Trained initializers and statistics are not. */
static inline bool zt_value_is_constant(const struct zt_value *v) {
    return v->data && !v->trainable && !v->statistic;
}

/* Whether the value is a parameter of the model that does not train, or a converted copy of one. */
static inline bool zt_value_is_frozen(const struct zt_value *v) {
    return (v->origin == ZT_FROM_INITIALIZER || v->origin == ZT_FROM_CONSTANT) && v->may_train && !v->trainable;
}

struct zt_node {
    int index;                    /* position in the graph's `nodes`; zt_graph_sort changes it */
    const char *name;             /* as in the file, or made from op and output name; backward nodes: "grad of NAME" */
    const char *op_type, *domain; /* domain "" for ai.onnx; "ztrain" for our own */
    const char *overload;         /* of the called function; NULL: none */
    int opset;                    /* version of its domain in the model; ZT_OPSET for emitted nodes */
    const struct zt_op *op;       /* row of the op table; NULL: not resolved, or none */
    int *in, *out;                /* value ids; -1: omitted */
    int in_count, out_count;
    int captured; /* number of inputs at the end that hold the values captured by the subgraphs, in the order of `attr`
                     and of each subgraph's `captured` */
    struct zt_attr *attr;
    int attr_count;
    enum zt_phase phase;
    int stage;               /* pipeline stage */
    int file_index;          /* index among the file's nodes (of the call, for lowered nodes); -1: created by a pass */
    int64_t place;           /* sort key, see zt_graph_sort */
    bool dead;               /* zt_graph_sort removes the node */
    bool full;               /* computes in fp32 where others compute in a half type */
    enum zt_backend backend; /* set by zt_pass_assign */
    const char *torch_namespace; /* PyTorch's namespace metadata: ": Net/layer: Linear/linear: aten"; NULL: none */
    const char *torch_fx_node;   /* PyTorch's metadata of the traced call, with its arguments; NULL: none */
    const char *torch_rule;      /* the rule of onnxscript's rewriter that made the node; NULL: none */
    bool torch_in_source;        /* PyTorch's stack trace shows that the node is outside of blocks without gradients */
};

/* After each forward phase `value` is copied to `initializer` (running statistics). */
struct zt_write_back {
    int initializer, value;
};

enum { ZT_OPSET = 26 }; /* opset of nodes that passes emit: the newest one in the op table */

/* A model's graph, or a subgraph: the contents of a graph attribute or of a model-local function. The nodes of a
 * subgraph are sorted but neither resolved nor inferred; lowering copies them into a graph (graph/passes/lower.h). Two
 * ops of our own define the contents of their subgraphs themselves (ops/elementwise/fuse_elementwise.c,
 * ops/control/loop.h). */
struct zt_graph {
    struct zt_arena *arena;
    const char *name;
    struct zt_value **values;
    int value_count, value_room;
    struct zt_node **nodes;
    int node_count, node_room;
    int *inputs, *outputs; /* value ids in the file's order; initializers are no inputs */
    int input_count, output_count;
    struct zt_write_back *write_backs;
    int write_back_count, write_back_room;
    struct zt_map by_name; /* value name -> id */
    int64_t made;          /* counter for generated names */
    const int *captured;   /* subgraphs: their values of origin ZT_FROM_OUTSIDE */
    int captured_count;
    const struct zt_functions *functions; /* of the model; NULL: none */
    const struct zt_op_table *table;      /* of its nodes' rows (zt_op_resolve); NULL: no row is resolved */
    double lowered_nodes, lowered_bytes;  /* totals of lowered nodes (graph/passes/lower_count.h) */
    bool borrows_arena;
    struct zt_readers *readers; /* cache of zt_graph_users; zt_graph_index clears it */
};

/* Creates an empty graph, never NULL. `name` is copied. Destroy with zt_graph_destroy(). */
struct zt_graph *zt_graph_create(const char *name);
/* The same in an arena of the caller. */
struct zt_graph *zt_graph_create_in(struct zt_arena *arena, const char *name);
void zt_graph_destroy(struct zt_graph *graph);
/* Makes a graph of zt_graph_create_in() constant and frees all memory outside its arena. Afterwards the graph can be
 * read and cloned, but not extended, searched or destroyed; it is freed with its arena. */
void zt_graph_settle(struct zt_graph *graph);
/* Copies nodes and values; tensor data stay shared, so the copy must not outlive the original. */
struct zt_graph *zt_graph_clone(const struct zt_graph *graph);
struct zt_graph *zt_graph_clone_in(struct zt_arena *arena, const struct zt_graph *graph);

/* Adds a value and returns its id. A number is appended to a name that is NULL or in use. Shape NULL: unknown. */
int zt_graph_add_value(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);
/* Copies all members except id and name. `from` may belong to another graph. */
void zt_value_copy(struct zt_value *to, const struct zt_value *from);
/* Adds a constant and returns its id. The data are copied into the arena. */
int zt_graph_add_constant(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape,
                          const void *data);
int zt_graph_add_ints(struct zt_graph *g, const char *name, const int64_t *values, int count); /* 1-D int64 */
int zt_graph_add_float(struct zt_graph *g, const char *name, enum zt_dtype dtype,
                       double value); /* scalar of a float type */
/* A node to add. */
struct zt_node_spec {
    const char *name, *op_type, *domain; /* name and domain may be NULL: "" */
    int opset;
    const int *in; /* value ids; -1: omitted */
    int in_count;
    const int *out; /* value ids; -1: omitted */
    int out_count;
};
/* Appends a node and returns its index. Its `place` is that of the last node plus one. Strings and ids are copied. */
int zt_graph_add_node(struct zt_graph *g, const struct zt_node_spec *spec);
/* Adds a copy of a resolved node with other inputs and outputs and with the phase, stage and place of node `at`. */
int zt_graph_copy_node(struct zt_graph *g, int node, int at, const int *in, const int *out);
/* Sets attributes of a node, replacing one of the same name. */
void zt_node_set_int(struct zt_graph *g, int node, const char *name, int64_t value);
void zt_node_set_float(struct zt_graph *g, int node, const char *name, float value);
void zt_node_set_text(struct zt_graph *g, int node, const char *name, const char *value);
void zt_node_set_ints(struct zt_graph *g, int node, const char *name, const int64_t *values, int count);
void zt_node_set_attr(struct zt_graph *g, int node,
                      const struct zt_attr *attr); /* shallow copy; contents in g's arena */

/* Registers a write-back: after each forward phase `value` is copied to `initializer`, which becomes a statistic. */
void zt_graph_add_write_back(struct zt_graph *g, int initializer, int value);

/* Copies unaligned initializers of the mapped file into the arena if kernels read them in place, that is, if a node
 * uses them and they are not trainable. */
void zt_graph_align_constants(struct zt_graph *g);

/* Value id by name; -1: none. */
int zt_graph_find(const struct zt_graph *g, const char *name);

/* Recomputes `producer` of all values. Fails if two nodes write one value, or a node writes an input or initializer. */
bool zt_graph_index(struct zt_graph *g, struct zt_err *err);
/* Removes dead nodes, sorts the others topologically (by phase, then place, where there is a choice) and indexes the
 * graph. Fails on a cycle, naming one of its nodes, and on a value without producer; the graph is then unchanged. */
bool zt_graph_sort(struct zt_graph *g, struct zt_err *err);
/* Number of inputs of live nodes that read `value`; *node (may be NULL) becomes one of the readers. Nodes added or
 * marked dead since the last zt_graph_index() or zt_graph_sort() are taken into account; changed inputs of older nodes
 * are not. */
int zt_graph_users(const struct zt_graph *g, int value, int *node);
/* For each value whether a live node reads it. The caller frees. */
bool *zt_graph_read(const struct zt_graph *g);
/* Whether the value is an output of the graph or is written back: a pass must then preserve it. */
bool zt_graph_is_output(const struct zt_graph *g, int value);
/* Removes every node on which no root depends, and sorts. Write-backs are roots too. */
bool zt_graph_prune(struct zt_graph *g, const int *roots, int root_count, struct zt_err *err);

/* Whether the node is the operator of the standard domain (ai.onnx) with this name. NULL is none. */
bool zt_node_is(const struct zt_node *node, const char *op_type);
/* Whether it is one of a list of such operators, which ends with NULL. */
bool zt_node_is_any(const struct zt_node *node, const char *const *op_types);

/* Attributes. zt_op_resolve() has checked their types. */
const struct zt_attr *zt_node_attr(const struct zt_node *node, const char *name); /* NULL: none */
int64_t zt_attr_int(const struct zt_node *node, const char *name, int64_t otherwise);
float zt_attr_float(const struct zt_node *node, const char *name, float otherwise);
const char *zt_attr_text(const struct zt_node *node, const char *name, const char *otherwise);
/* The list; *count becomes its length. NULL and 0 if the attribute is absent. */
const int64_t *zt_attr_ints(const struct zt_node *node, const char *name, int *count);
const float *zt_attr_floats(const struct zt_node *node, const char *name, int *count);

/* Reports "NODE (Op): ..." with exit code ZT_EXIT_MODEL; returns false. */
bool zt_node_fail(const struct zt_graph *g, int node, struct zt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
