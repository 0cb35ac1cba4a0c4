/* RotaryEmbedding: the geometry of a node, read from its shapes and attributes. Its kernels use it. */
#ifndef ZT_OPS_ATTENTION_ROTARY_H
#define ZT_OPS_ATTENTION_ROTARY_H

#include "ops/attention/launch_rotary.h"
#include "ops/kernel/shape.h"

enum { ZT_ROTARY_X, ZT_ROTARY_COS, ZT_ROTARY_SIN, ZT_ROTARY_POSITION, ZT_ROTARY_DY };

/* An error that names the shape of input `in` and the one that is wanted; returns false. */
bool zt_rotary_shape_fail(const struct zt_graph *g, int node, int in, const char *wanted, struct zt_err *err);
/* Also for the gradient row of the caches. */
bool zt_rotary_read(const struct zt_graph *g, int node, struct zt_launch_rotary *to, struct zt_err *err);
/* The first element of the cache row of position (b, s). Fails where the position is outside the cache. */
bool zt_rotary_angle(const struct zt_call *call, const struct zt_launch_rotary *r, int64_t b, int64_t s, int64_t *to,
                     struct zt_err *err);

#endif
