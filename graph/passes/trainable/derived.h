/* Initializers that an exporter computed from a parameter, and how to compute them again in the graph.
 *
 * Constant folding turns `y = x * exp(t)` into `y = x * e`, e an initializer. Training e as a parameter is another
 * training: the gradient of t is e times that of e. What can be told from the file is undone:
 *
 *     the parameter is there too    `mix` and `sub` = 1 - mix: the relation is found in the numbers and checked for
 *                                   every element; the operation comes from the name where it has one
 *     it is gone, alone, and        `exp` folded from ['temperature']: an initializer "temperature" of log(exp) is
 *     each operation has an inverse made, which trains in its place
 *     its elements stand        `expand` [4, 1, 32] of a class token: a parameter of one vector, and a Gather
 *     several times             (graph/passes/trainable/repeats.h)
 *     a transposed or equal copy    is the same parameter (graph/passes/tie.c)
 *
 * A product of two lost parameters (weight normalization), or a reduction (standardised weights), cannot be undone. */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_DERIVED_H
#define ZT_GRAPH_PASSES_TRAINABLE_DERIVED_H

#include "graph/onnx/onnx.h"

struct zt_map;
struct zt_op_table;

enum { ZT_DERIVED_STEPS = 2 };

struct zt_derived {
    const char *name;      /* of the initializer in the file */
    const char *parameter; /* it follows this one: an initializer of the file, or one that is made */
    const void *made;      /* contents of a parameter that is made, in the type and, but for repeated ones, the shape of
                              `name`; NULL: it is in the file, or an earlier row makes it */
    bool lost;             /* the file does not hold the parameter */
    int steps;             /* operations, first to last */
    struct zt_derived_step {
        const struct zt_derived_op *op;
        double constant; /* of an operation of two inputs */
    } step[ZT_DERIVED_STEPS];
    struct zt_derived_repeated {
        const int64_t *index; /* position -> vector of the parameter; NULL: nothing is repeated, and there are steps */
        int64_t vectors;      /* of the parameter */
        int axis;             /* of the initializer, along which its vectors lie */
    } repeated;
};

/* Finds them in a graph with verdicts and weights (of `model`, or a clone of its graph). Returns how many; the list and
 * what it points to are in `arena`. None where weights are absent. */
int zt_derived_find(const struct zt_onnx *model, const struct zt_graph *g, struct zt_arena *arena,
                    struct zt_derived **list);

/* Makes what reads row `d`'s initializer read nodes that compute it, and the parameter where it is lost. Rows are
 * resolved. The initializer itself is no longer trained. */
bool zt_derived_apply(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d,
                      struct zt_err *err);

/* Contents of the initializer `v` from those of its parameter, both of `dtype`, computed in double. */
void zt_derived_compute(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype,
                        const void *parameter, void *to);

/* Whether v has elements of a parameter several times, or may have, that train apart: the parameter's name, else NULL.
 * `listed`: zt_torch_read_signature. */
const char *zt_derived_apart(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed);

/* "exp(temperature)", "1 - mix", "vectors of class_token" */
const char *zt_derived_text(struct zt_arena *arena, const struct zt_derived *d);

#endif
