/* Reshape(Transpose(Reshape(x))) -> ShuffleChannels(x) on the CPU, where the first Reshape divides the channels of x,
 * [n, g, c / g, ...], the Transpose exchanges both parts, and the last one has the shape of x: without leaving blocks
 * of channels, and in one pass. The gradient is of the same form.
 *
 * ztrain.ShuffleChannels(x) -> y: channel i * groups + j of y is channel j * (channels / groups) + i of x, [n,
 * channels,
 * ...] (Zhang et al., "ShuffleNet", 2017). */
#include "graph/passes/fusion/fuse.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/shape.h"
#include "ops/movement/kernels.h"
#include "ops/movement/simd/gather_lanes.h"
#include "ops/movement/transpose.h"

#include "device/threads.h"

static const struct zt_attr_spec attrs[] = { { "groups", ZT_ATTR_INT, true }, { 0 } };

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    const int64_t groups = zt_attr_int(g->nodes[node], "groups", 1);
    if (x->shape.rank < 2 || groups < 1 || x->shape.dim[1] % groups)
        return zt_node_fail(g, node, err, "has %lld groups of channels", (long long)groups);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

struct job {
    struct zt_planes planes;
    int64_t groups;
    size_t bytes; /* of an element */
    const char *x;
    char *y;
};

/* Where a group of channels is one channel, that of a plain tensor, pixels are adjacent. */
static void copy_group(void *arg, int64_t index) {
    const struct job *j = arg;
    const struct zt_planes *p = &j->planes;
    const int64_t sample = index / p->groups, group = index % p->groups;
    const int64_t first = group * p->vector, each = p->channels / j->groups;
    struct zt_lanes lanes = { .used = (int)(p->channels - first < p->vector ? p->channels - first : p->vector),
                              .vector = p->vector,
                              .pixels = p->pixels,
                              .step = p->pixel,
                              .bytes = j->bytes,
                              .to = zt_element(j->y, j->bytes, sample * p->sample + group * p->group) };
    for (int l = 0; l < lanes.used; l++) {
        const int64_t from = (first + l) % j->groups * each + (first + l) / j->groups;
        lanes.plane[l] = zt_element(j->x, j->bytes, sample * p->sample + from / p->vector * p->group);
        lanes.lane[l] = (int)(from % p->vector);
    }
    zt_gather_lanes(&lanes);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job j = { .groups = zt_attr_int(call->node, "groups", 1),
                     .bytes = zt_dtype_bytes(call->in[0].dtype),
                     .x = call->in[0].data,
                     .y = call->out[0].data };
    zt_planes_of(call->in[0].layout, &call->in[0].shape, &j.planes);
    zt_parallel_for(call->threads, j.planes.samples * j.planes.groups, copy_group, &j);
    return true;
}

/* The layout of x, whichever it is: a vendor's own is none of activations. */
static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    int block;
    (void)err;
    if (zt_layout_order(p->in_layout[0], &block) == ZT_ORDER_VENDOR)
        p->in_layout[0] = NULL;
    p->out_layout[0] = p->in_layout[0];
    return true;
}

const struct zt_op zt_op_shuffle_channels = {
    .name = "ShuffleChannels",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT,
    .attrs = attrs,
    .infer = infer,
    .kernel = { [ZT_REF] = { .run = run }, [ZT_CPU] = { .prepare = prepare, .run = run } },
};

/* ---- the pattern ---- */

/* The number of groups that the Transpose of `from`, a value with the elements of x in order, exchanges; 0: it does
 * something else. */
static int64_t groups_of(const struct zt_graph *g, int transpose, const struct zt_shape *x) {
    const struct zt_shape *s = &zt_in(g, transpose, 0)->shape;
    struct zt_err ignored = { 0 };
    int perm[ZT_MAX_RANK];
    if (s->rank != x->rank + 1 || x->rank < 3 || s->dim[0] != x->dim[0] || s->dim[1] * s->dim[2] != x->dim[1] ||
        !zt_transpose_perm(g, transpose, s->rank, perm, &ignored))
        return 0;
    for (int k = 0; k < s->rank; k++)
        if (perm[k] != (k == 1 ? 2 : k == 2 ? 1 : k) || (k > 2 && s->dim[k] != x->dim[k - 1]))
            return 0;
    return s->dim[1];
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node n = *g->nodes[node];
    const int transpose = zt_op_is_view(&n) ? zt_fuse_producer(g, node, 0, "Transpose", true) : -1;
    const int first = transpose >= 0 ? zt_fuse_producer(g, transpose, 0, NULL, true) : -1;
    if (first < 0 || !zt_op_is_view(g->nodes[first]))
        return false;
    const int from = g->nodes[transpose]->in[0];
    const struct zt_shape *x = &zt_in(g, first, 0)->shape;
    const int64_t groups = zt_shape_equal(x, &zt_out(g, node, 0)->shape) ? groups_of(g, transpose, x) : 0;
    if (groups <= 1)
        return false;
    const struct zt_attr attr = { .name = "groups", .type = ZT_ATTR_INT, .i = groups };
    const struct zt_node like = { .name = n.name,
                                  .attr = zt_arena_copy(g->arena, &attr, sizeof attr),
                                  .attr_count = 1 };
    if (!zt_fuse_replace(g, table, node,
                         &(struct zt_fused_node){ "ShuffleChannels", &g->nodes[first]->in[0], 1, NULL, 0, &like }, err))
        return false;
    g->nodes[transpose]->dead = true;
    zt_fuse_drop(g, from);
    return true;
}

const struct zt_pattern zt_pattern_shuffle_channels = { "shuffle_channels", 1 << ZT_CPU, apply };
