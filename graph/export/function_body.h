/* What an operator means in standard operators, as text: the body of the ONNX function that stands for a node of ours
 * in a file (`ztrain grad --emit`).
 *
 *     zt_function_body_names(b, "dy, y -> dx");
 *     zt_function_body_add(b, "dx = y * (dy - ReduceSum(dy * y, [%d]))", axis);
 *
 * A statement is `names = expression`. An expression has + - * / and parentheses, ONNX operators as calls with their
 * attributes in angle brackets, Conv<strides=[2, 2]>(x, w), an omitted input as `_`, lists of integers [1, 2] (1-D
 * int64), whole numbers 3i (int64 scalars) and other numbers (scalars of the body's float type, `T` in attributes).
 * Reshape without attributes takes 0 for a length of 0. Attribute values are whole numbers, 0.5, "text", lists of whole
 * numbers, and names of types. A name may be given again: what follows reads the new one.
 *
 * A body is made for one node: shapes, attributes and constant inputs are known and are written as numbers. It is
 * computed in float, or in double where an input is double: half inputs and outputs are cast at its edges. */
#ifndef ZT_GRAPH_EXPORT_FUNCTION_BODY_H
#define ZT_GRAPH_EXPORT_FUNCTION_BODY_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/ir/graph.h"

enum { ZT_FUNCTION_BODY_OPSET = 18 }; /* bodies use forms that stand from here on */

struct zt_function_body_node {
    const char *op_type;
    const char **in, **out; /* "": omitted */
    int in_count, out_count;
    struct zt_attr *attr;
    int attr_count;
};

struct zt_function_body {
    struct zt_arena *arena; /* everything in the body */
    const struct zt_graph *g;
    int node;
    enum zt_dtype type;     /* what it is computed in: ZT_FLOAT or ZT_DOUBLE */
    const bool *read;       /* by value: somebody reads it. Other outputs are not given */
    int *in_value;          /* which value each input is */
    const char **in, **out; /* names outside: inputs that the body has a use for, outputs that are read */
    int in_count, out_count;
    ZT_VEC(struct zt_function_body_node) nodes;
    int made;              /* numbers for made names */
    struct zt_map made_of; /* name as written -> index in names */
    ZT_VEC(const char *) names;
    bool whole;          /* made by zt_function_body_again: outputs have their names */
    const char *problem; /* the first statement that could not be read, with why; NULL: none */
};

/* A body for `node`, empty. Everything lives in the arena; finish frees the rest. */
void zt_function_body_start(struct zt_function_body *b, struct zt_arena *arena, const struct zt_graph *g, int node,
                            const bool *read);
void zt_function_body_finish(struct zt_function_body *b);
/* Casts the outputs to their types; false: the text is wrong, `err` says where. */
bool zt_function_body_close(struct zt_function_body *b, struct zt_err *err);

/* ---- for the rows ---- */

/* Names the node's inputs and outputs, in order: "dy, x -> dx". First of all. Inputs that the node omits have no name
 * then; `_` stands for one that the body has no use for, which is not handed in. Outputs that zt_function_body_wants()
 * says are defined by the end. */
void zt_function_body_names(struct zt_function_body *b, const char *names);
bool zt_function_body_wants(const struct zt_function_body *b, int out);
/* One or more statements, separated by `;`. */
void zt_function_body_add(struct zt_function_body *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Instead of both: the node once more, as `op_type` with its inputs and attributes, but without the attributes named in
 * `without` (separated by spaces), and with further inputs, `more` (expressions separated by commas). For old forms of
 * an operator; nothing is cast. */
void zt_function_body_again(struct zt_function_body *b, const char *op_type, const char *without, const char *more);
/* Defines a name as a number of the float type, as a tensor of it, or as a tensor of int64. */
void zt_function_body_number(struct zt_function_body *b, const char *name, double value);
void zt_function_body_doubles(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                              const double *values);
void zt_function_body_int64s(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                             const int64_t *values);
/* "[1, 2]" for a statement; a shape's dims; and what makes 0, 1, ... below end. */
const char *zt_function_body_list(struct zt_function_body *b, const int64_t *values, int count);
const char *zt_function_body_dims(struct zt_function_body *b, const struct zt_shape *shape);
const char *zt_function_body_range(struct zt_function_body *b, int64_t end);
const char *zt_function_body_text(struct zt_function_body *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
