/* Elements combined into other positions with a reduction: the Scatter operators and the gradients of gathers. */
#ifndef ZT_OPS_MOVEMENT_COMBINE_H
#define ZT_OPS_MOVEMENT_COMBINE_H

#include "graph/ir/dtype.h"

enum zt_combine { ZT_COMBINE_REPLACE, ZT_COMBINE_ADD, ZT_COMBINE_MUL, ZT_COMBINE_MAX, ZT_COMBINE_MIN, ZT_COMBINES };

/* The reduction that an ONNX attribute names ("none", "add", ...); ZT_COMBINES: no such reduction. */
enum zt_combine zt_combine_named(const char *name);
/* A reduction `how` of elements of `from` into elements of `to`, both of `dtype`. */
struct zt_scatter_reduction {
    enum zt_combine how;
    enum zt_dtype dtype;
    void *to;
    const void *from;
};
/* to[i] = to[i] op from[j] */
void zt_combine_element(const struct zt_scatter_reduction *r, int64_t i, int64_t j);
/* The same for `count` neighbours from to[i] and from[j] on. */
void zt_combine_block(const struct zt_scatter_reduction *r, int64_t i, int64_t j, int64_t count);
/* to[at[k]] = to[at[k]] op from[j + k], in the order of k. */
void zt_combine_at(const struct zt_scatter_reduction *r, const int64_t *at, int64_t j, int64_t count);

#endif
