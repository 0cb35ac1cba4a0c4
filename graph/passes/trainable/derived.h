/* Derived initializers: the exporter computed them from a parameter by constant folding. This pass computes them in the
 * graph again, so that the parameter is trained.
 *
 * Constant folding turns `y = x * exp(t)` into `y = x * e` with an initializer e. Training e instead of t gives another
 * result, since the gradient of t is e times that of e. The folding is reversed in these cases:
 *
 *     the file has the parameter    `mix` and `sub` = 1 - mix: the relation is derived from the numbers and checked for
 *                                   every element; the operation is taken from the name if possible
 *     the file lacks the parameter, `exp` folded from ['temperature']: an initializer "temperature" = log(exp) is
 * created and operations are invertible and trained elements are repeated         `expand` [4, 1, 32] of a class token:
 * a parameter of one vector, and a Gather (repeats.h) a transposed or equal copy    is tied to the parameter (tie.h)
 *
 * A product of two lost parameters (weight normalization) and a reduction (standardised weights) cannot be reversed. */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_DERIVED_H
#define ZT_GRAPH_PASSES_TRAINABLE_DERIVED_H

#include "graph/onnx/onnx.h"

struct zt_map;
struct zt_op_table;

enum { ZT_DERIVED_STEPS = 2 };

struct zt_derived {
    const char *name;      /* of the initializer in the file */
    const char *parameter; /* the parameter: an initializer of the file, or a new one */
    const void *made;      /* contents of a new parameter, with the dtype and (unless repeated) the shape of `name`;
                              NULL: the file has the parameter, or an earlier entry creates it */
    bool lost;             /* the file lacks the parameter */
    int steps;             /* number of operations */
    struct zt_derived_step {
        const struct zt_derived_op *op;
        double constant; /* second operand of a binary operation */
    } step[ZT_DERIVED_STEPS];
    struct zt_derived_repeated {
        const int64_t *index; /* position -> vector of the parameter; NULL: not repeated, see `step` */
        int64_t vectors;      /* of the parameter */
        int axis;             /* axis of the initializer along which the vectors are counted */
    } repeated;
};

/* Finds the derived initializers of a graph (of `model` or a clone) after zt_pass_trainable(). Returns the count; the
 * list and its contents are in `arena`. Without weights the count is 0. */
int zt_derived_find(const struct zt_onnx *model, const struct zt_graph *g, struct zt_arena *arena,
                    struct zt_derived **list);

/* Replaces the initializer of `d` by nodes that compute it from the parameter, and adds a lost parameter. Rows must be
 * resolved. The initializer is no longer trained. */
bool zt_derived_apply(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d,
                      struct zt_err *err);

/* Computes, in double precision, the contents of the initializer `v` from its parameter; both have dtype `dtype`. */
void zt_derived_compute(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype,
                        const void *parameter, void *to);

/* Computes the parameter, in double precision, from `count` elements of the initializer, those of another file of the
 * model. Returns false where the operations have no inverse. */
bool zt_derived_invert(const struct zt_derived *d, const float *made, int64_t count, float *parameter);

/* The parameter whose elements `v` repeats, or may repeat, so that the copies train separately; NULL: none. `listed`
 * comes from zt_torch_read_signature(). */
const char *zt_derived_apart(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed);

/* The relation for users: "exp(temperature)", "1 - mix", "vectors of class_token". */
const char *zt_derived_text(struct zt_arena *arena, const struct zt_derived *d);

#endif
