/* ONNX function bodies: definitions of our own ops in standard operators, written as text. `ztrain grad --emit` uses
 * them as local functions of the file.
 *
 *     zt_function_body_names(b, "dy, y -> dx");
 *     zt_function_body_add(b, "dx = y * (dy - ReduceSum(dy * y, [%d]))", axis);
 *
 * A statement is `names = expression`. An expression consists of + - * / and parentheses; ONNX operators as calls, with
 * attributes in angle brackets: Conv<strides=[2, 2]>(x, w); `_` for an omitted input; lists of integers [1, 2] (1-D
 * int64); integers 3i (int64 scalars); and other numbers (scalars of the body's float type, `T` in attributes). Reshape
 * without attributes treats 0 as a length of 0 (allowzero). Attribute values are integers, 0.5, "text", lists of
 * integers, and names of types. A name may be assigned again; later statements use the new value.
 *
 * A body is generated for one node, so shapes, attributes and constant inputs are written as numbers. It computes in
 * float, or in double if an input is double. Half-precision inputs and outputs are cast at its boundary. */
#ifndef ZT_GRAPH_EXPORT_FUNCTION_BODY_H
#define ZT_GRAPH_EXPORT_FUNCTION_BODY_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/ir/graph.h"

enum { ZT_FUNCTION_BODY_OPSET = 18 }; /* bodies use operators of this opset */

struct zt_function_body_node {
    const char *op_type;
    const char **in, **out; /* "": omitted */
    int in_count, out_count;
    struct zt_attr *attr;
    int attr_count;
};

struct zt_function_body {
    struct zt_arena *arena; /* owns everything in the body */
    const struct zt_graph *g;
    int node;
    enum zt_dtype type;     /* the float type of the body: ZT_FLOAT or ZT_DOUBLE */
    const bool *read;       /* by value: a node or graph output reads it; other outputs are omitted */
    int *in_value;          /* by input: its value id */
    const char **in, **out; /* parameter names of the used inputs and the read outputs */
    int in_count, out_count;
    ZT_VEC(struct zt_function_body_node) nodes;
    int made;              /* counter for generated names */
    struct zt_map made_of; /* name in the text -> index in `names` */
    ZT_VEC(const char *) names;
    bool whole;          /* created by zt_function_body_again: outputs have their names already */
    const char *problem; /* the first syntax error, with its position; NULL: none */
};

/* Starts an empty body for `node` in `arena`; zt_function_body_finish() frees the memory outside the arena. */
void zt_function_body_start(struct zt_function_body *b, struct zt_arena *arena, const struct zt_graph *g, int node,
                            const bool *read);
void zt_function_body_finish(struct zt_function_body *b);
/* Ends the body: casts the outputs to their dtypes. False with an error: the text has a syntax error. */
bool zt_function_body_close(struct zt_function_body *b, struct zt_err *err);

/* ---- for the rows ---- */

/* Declares the parameter names of inputs and outputs, in order: "dy, x -> dx". Must be the first call. `_` is an input
 * that the body does not use. Names of inputs that the node omits are undefined. The body must assign every output for
 * which zt_function_body_wants() is true. */
void zt_function_body_names(struct zt_function_body *b, const char *names);
bool zt_function_body_wants(const struct zt_function_body *b, int out);
/* Appends statements, separated by `;`. */
void zt_function_body_add(struct zt_function_body *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Instead of names and statements: repeats the node as one node `op_type`, with the same inputs and attributes except
 * those listed in `without` (separated by spaces), and with additional inputs `more` (expressions separated by commas).
 * For old forms of an operator; nothing is cast. */
void zt_function_body_again(struct zt_function_body *b, const char *op_type, const char *without, const char *more);
/* Assign a constant to a name: a scalar of the float type, a tensor of the float type, a tensor of int64. */
void zt_function_body_number(struct zt_function_body *b, const char *name, double value);
void zt_function_body_doubles(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                              const double *values);
void zt_function_body_int64s(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                             const int64_t *values);
/* Text for statements, in the arena: a list such as "[1, 2]", the dims of a shape, an expression for 0..end-1, and
 * formatted text. */
const char *zt_function_body_list(struct zt_function_body *b, const int64_t *values, int count);
const char *zt_function_body_dims(struct zt_function_body *b, const struct zt_shape *shape);
const char *zt_function_body_range(struct zt_function_body *b, int64_t end);
const char *zt_function_body_text(struct zt_function_body *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
