/* Weight normalization (https://arxiv.org/abs/1602.07868) of tensors that a file has in place of the weight:
 *
 *     w = g v / |v|        |v| over the axes in which g has one element: PyTorch's weight_norm(dim=0) gives g [O, 1, 1]
 * of v [O, I, K], dim=None one element
 */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_WEIGHT_NORM_H
#define ZT_GRAPH_PASSES_TRAINABLE_WEIGHT_NORM_H

#include "graph/ir/dtype.h"

struct zt_arena;

/* Whether g may be the lengths of v: one element, or the same rank with the dims of v or 1. */
bool zt_weight_norm_fits(const struct zt_shape *g, const struct zt_shape *v);
/* Computes w, of v's shape, in double precision. */
void zt_weight_norm(const struct zt_shape *g_shape, const float *g, const struct zt_shape *v_shape, const float *v,
                    float *w);

/* The names under which PyTorch stores g and v of the weight `name`: {"conv.weight_g", "conv.weight_v"} of
 * torch.nn.utils.weight_norm, {"conv.parametrizations.weight.original0", "...original1"} of its parametrization. i: 0
 * or 1. In `arena`. */
enum { ZT_WEIGHT_NORM_FORMS = 2 };
const char *zt_weight_norm_name(struct zt_arena *arena, const char *name, int form, int i);
/* The weight's name where `name` is that of a g in one of the forms; NULL: it is not. */
const char *zt_weight_norm_of(struct zt_arena *arena, const char *name);

#endif
