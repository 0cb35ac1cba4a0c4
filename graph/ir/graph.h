/* The graph: nodes and values by index, in one arena.
 *
 * Each value and each node is allocated once and never moves: a pointer to one stays valid, whatever is added, until
 * the graph is destroyed. Only the arrays of pointers move when they grow. A dead node keeps its memory after
 * zt_graph_sort() has dropped it.
 *
 * A graph is a value: passes take one and leave one that computes the same. Nodes stand in an order in which every
 * value is made before it is read. Forward, backward, casts and reorders are all ordinary nodes, told apart by `phase`.
 * Names are ONNX's. Weights are not copied in: `data` of an initializer points into the mapped model file.
 *
 * Rewriting: append the new nodes with the `place` of the node they stand for, mark the old ones dead, then
 * zt_graph_sort(). */
#ifndef ZT_GRAPH_IR_GRAPH_H
#define ZT_GRAPH_IR_GRAPH_H

#include "base/arena.h"
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
    ZT_ATTR_OTHER = 9, /* sparse tensors, types, lists of tensors or graphs: kept in the file, not read */
    ZT_ATTR_NONE = 0,  /* a function's parameter without a default */
};

/* A tensor with known contents, borrowed. */
struct zt_tensor {
    enum zt_dtype dtype;
    struct zt_shape shape;
    const void
        *data; /* row-major; NULL only when there are no elements or, with weights absent (plan, inspect), not read */
};

struct zt_attr {
    const char *name;
    enum zt_attr_type type;
    float f;
    int64_t i;
    const char *s; /* 0-terminated */
    int count;     /* of the list that is set */
    const float *floats;
    const int64_t *ints;
    const char *const *strings;
    struct zt_tensor tensor;
    const struct zt_graph *graph; /* a body, see struct zt_graph: never changed, lives as long as the model */
    const struct zt_attrs *bound; /* what `ref` stands for inside `graph`; NULL outside functions */
    const char *ref;              /* in a function's body: the parameter whose value this attribute takes; else NULL */
};

/* Values of a function's parameters, for one call of it. */
struct zt_attrs {
    const struct zt_attr *at;
    int count;
};

enum zt_phase { ZT_FORWARD, ZT_BACKWARD };

enum zt_origin {
    ZT_FROM_NODE,        /* output of node `producer` */
    ZT_FROM_INPUT,       /* graph input: fed for every micro-batch */
    ZT_FROM_INITIALIZER, /* in the model file */
    ZT_FROM_CONSTANT,    /* made by a pass; `data` in the graph's arena */
    ZT_FROM_OUTSIDE,     /* in a body: a value of the graph around it */
};

struct zt_value {
    int id;           /* position in the graph's `values` */
    const char *name; /* unique in the graph */
    enum zt_dtype dtype;
    struct zt_shape shape;              /* rank -1 before inference */
    const char *dim_param[ZT_MAX_RANK]; /* inputs: symbol of a dim of -1, NULL: anonymous */
    enum zt_origin origin;
    int producer;     /* node index, -1 where origin is not ZT_FROM_NODE; set by zt_graph_index */
    const void *data; /* contents where known before running: initializers, constants, folded nodes. NULL elsewhere */
    bool trainable;   /* initializers: the verdict (graph/passes/trainable/trainable.h); `why` is its reason in words */
    bool may_train;   /* initializers: float, and a differentiable path leads to the loss */
    bool statistic;   /* initializers that a training node updates (BatchNormalization mean and variance) */
    const char *why;
    const char *copy_of;    /* a parameter that another pipeline stage holds under this name too; NULL: no copy */
    const char *torch_kind; /* PyTorch's InputSpec.kind metadata of this value, NULL: none */
    const char *torch_folded_from;  /* onnxscript's folded_from metadata, NULL: none */
    const struct zt_layout *layout; /* NULL: plain row-major */
};

/* Whether a value's contents are settled before running: what trains or is written back is not. */
static inline bool zt_value_is_constant(const struct zt_value *v) {
    return v->data && !v->trainable && !v->statistic;
}

struct zt_node {
    int index; /* position in the graph's `nodes`; zt_graph_sort changes it */
    const char
        *name; /* as in the file, or made from op and output name where that is empty; backward nodes: "grad of NAME" */
    const char *op_type, *domain; /* domain "" for ai.onnx; "ztrain" for our own */
    const char *overload;         /* of the function it calls, NULL: none */
    int opset;                    /* version of its domain in the model; emitted nodes: ZT_OPSET */
    const struct zt_op *op;       /* row of the table, NULL: not resolved or not there */
    int *in, *out;                /* value ids; -1: omitted */
    int in_count, out_count;
    int captured; /* the last so many inputs are what its graph attributes take from outside, in the order of `attr` and
                     of each body's `captured` */
    struct zt_attr *attr;
    int attr_count;
    enum zt_phase phase;
    int stage;      /* pipeline stage, 0 without */
    int file_index; /* index among the file's nodes, that of the call for nodes of bodies; -1: made by a pass */
    int64_t place;  /* sort key, see zt_graph_sort */
    bool dead;      /* to be dropped by zt_graph_sort */
    int backend;    /* enum zt_backend, chosen by graph/assign */
};

/* After each run of the forward phase the new value is copied over the initializer (running statistics). */
struct zt_write_back {
    int initializer, value;
};

enum { ZT_OPSET = 26 }; /* opset of the nodes that passes emit: the newest whose forms the table has */

/* A model's graph; or a body: what an attribute of type graph or a model-local function holds. Bodies are as the file
 * has them, their nodes sorted but neither resolved nor inferred, and stay so: graph/passes/lower.h copies them into a
 * graph. Those of nodes that our own passes make are what their rows say (ops/elementwise/fuse_elementwise.c,
 * ops/control/loop_run.h). */
struct zt_graph {
    struct zt_arena *arena;
    const char *name;
    struct zt_value **values;
    int value_count, value_room;
    struct zt_node **nodes;
    int node_count, node_room;
    int *inputs, *outputs; /* value ids in the file's order; inputs without initializers */
    int input_count, output_count;
    struct zt_write_back *write_backs;
    int write_back_count, write_back_room;
    struct zt_map by_name; /* value name -> id */
    int64_t made;          /* numbers for made names */
    const int *captured;   /* bodies: their values of origin ZT_FROM_OUTSIDE */
    int captured_count;
    const struct zt_functions *functions; /* of the model, NULL: none */
    const struct zt_op_table *table;      /* of the rows of its nodes (zt_op_resolve), NULL: none is resolved */
    double lowered_nodes, lowered_bytes;  /* what copies of bodies took so far (graph/passes/lower_count.h) */
    bool borrows_arena;
    struct zt_readers
        *readers; /* who reads what, filled by zt_graph_users as it is asked, forgotten by zt_graph_index */
};

struct zt_graph *zt_graph_create(const char *name);
struct zt_graph *zt_graph_create_in(struct zt_arena *arena, const char *name); /* the arena stays the caller's */
void zt_graph_destroy(struct zt_graph *graph);
/* For a graph in an arena that does not change any more: what changing takes is given back, and it goes with its arena.
 * It can be read and cloned, not extended, searched or destroyed. */
void zt_graph_settle(struct zt_graph *graph);
/* A deep copy of the structure; tensor data stay shared, so the copy must not outlive the original. */
struct zt_graph *zt_graph_clone(const struct zt_graph *graph);
struct zt_graph *zt_graph_clone_in(struct zt_arena *arena, const struct zt_graph *graph);

/* Adds a value and returns its id. A name that is taken or NULL gets a number behind it. Shape NULL: unknown. */
int zt_graph_add_value(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);
/* Makes `to` what `from` is, of this graph or another, but for its id and name. */
void zt_value_copy(struct zt_value *to, const struct zt_value *from);
/* Adds a constant whose data are copied into the arena. */
int zt_graph_add_constant(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape,
                          const void *data);
int zt_graph_add_ints(struct zt_graph *g, const char *name, const int64_t *values, int count); /* 1-D int64 */
int zt_graph_add_float(struct zt_graph *g, const char *name, enum zt_dtype dtype,
                       double value); /* scalar of a float type */
/* Adds a node at the end (ids are copied) and returns its index. Its place is the last node's plus one. */
int zt_graph_add_node(struct zt_graph *g, const char *name, const char *op_type, const char *domain, int opset,
                      const int *in, int in_count, const int *out, int out_count);
/* Adds a node of this graph once more, resolved as it is, on as many other values, standing where node `at` does. */
int zt_graph_copy_node(struct zt_graph *g, int node, int at, const int *in, const int *out);
/* Sets attributes of a node, replacing one of the same name. */
void zt_node_set_int(struct zt_graph *g, int node, const char *name, int64_t value);
void zt_node_set_float(struct zt_graph *g, int node, const char *name, float value);
void zt_node_set_text(struct zt_graph *g, int node, const char *name, const char *value);
void zt_node_set_ints(struct zt_graph *g, int node, const char *name, const int64_t *values, int count);
void zt_node_set_attr(struct zt_graph *g, int node,
                      const struct zt_attr *attr); /* shallow copy; contents in g's arena */

/* After each forward pass `value` is copied over `initializer`, which becomes a statistic. */
void zt_graph_add_write_back(struct zt_graph *g, int initializer, int value);

/* Initializers may lie unaligned in the mapped file; those that kernels read in place (used by a node, not `trainable`)
 * are copied to the arena where they do. */
void zt_graph_align_constants(struct zt_graph *g);

/* Value id by name, -1 where there is none. */
int zt_graph_find(const struct zt_graph *g, const char *name);

/* Recomputes producers. Fails when two nodes write one value, or a node writes an input or initializer. */
bool zt_graph_index(struct zt_graph *g, struct zt_err *err);
/* Drops dead nodes and brings the rest into an order by (phase, place) in which producers stand first; indexes. Fails
 * on a cycle, naming a node on it, and on a value that nothing makes; the graph is then as it was. */
bool zt_graph_sort(struct zt_graph *g, struct zt_err *err);
/* Number of node inputs (of nodes not dead) that read `value`, and one of the readers in *node (may be NULL). Nodes may
 * have been added or marked dead since the last zt_graph_index or _sort; whoever gives an old node other inputs indexes
 * first. */
int zt_graph_users(const struct zt_graph *g, int value, int *node);
/* Marks dead every node that no root needs. Write-backs are roots too. Then sorts. */
bool zt_graph_prune(struct zt_graph *g, const int *roots, int root_count, struct zt_err *err);

/* Attributes; the types were checked against the op's row when the node was resolved. */
const struct zt_attr *zt_node_attr(const struct zt_node *node, const char *name); /* NULL: absent */
int64_t zt_attr_int(const struct zt_node *node, const char *name, int64_t otherwise);
float zt_attr_float(const struct zt_node *node, const char *name, float otherwise);
const char *zt_attr_text(const struct zt_node *node, const char *name, const char *otherwise);
/* The list and its length in *count; NULL and 0 where absent. */
const int64_t *zt_attr_ints(const struct zt_node *node, const char *name, int *count);
const float *zt_attr_floats(const struct zt_node *node, const char *name, int *count);

/* Reports "NODE (Op): ..." with exit code ZT_EXIT_MODEL; returns false. */
bool zt_node_fail(const struct zt_graph *g, int node, struct zt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
