#include "ops/movement/join_ranges.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/strided_copies.h"
#include "ops/movement/kernels.h"

#include <string.h>

static const struct zt_attr_spec attrs[] = { { "inputs", ZT_ATTR_INTS, true },
                                             { "starts", ZT_ATTR_INTS, true },
                                             { "counts", ZT_ATTR_INTS, true },
                                             { "shape", ZT_ATTR_INTS, true },
                                             { 0 } };

static bool read_list(const struct zt_node *n, const char *name, int64_t *to, int *count) {
    const int64_t *list = zt_attr_ints(n, name, count);
    if (!list || *count > ZT_MOST_RANGES)
        return false;
    memcpy(to, list, (size_t)*count * sizeof *to);
    return true;
}

static bool read(const struct zt_graph *g, int node, struct zt_ranges *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    int starts, counts;
    bool fits = read_list(n, "inputs", to->input, &to->count) && read_list(n, "starts", to->start, &starts) &&
                read_list(n, "counts", to->size, &counts) && starts == to->count && counts == to->count;
    for (int i = 0; fits && i < to->count; i++) {
        const struct zt_value *x =
            to->input[i] >= 0 && to->input[i] < n->in_count ? zt_in(g, node, (int)to->input[i]) : NULL;
        fits = x && x->dtype == zt_in(g, node, 0)->dtype && to->start[i] >= 0 && to->size[i] >= 0 &&
               to->start[i] <= zt_shape_count(&x->shape) - to->size[i];
    }
    return fits || zt_node_fail(g, node, err, "has ranges that its inputs do not have");
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_ranges r;
    struct zt_shape y = { 0 };
    int64_t count = 0;
    const int64_t *shape = zt_attr_ints(g->nodes[node], "shape", &y.rank);
    if (!read(g, node, &r, err))
        return false;
    for (int i = 0; i < r.count; i++)
        count += r.size[i];
    if (y.rank > ZT_MAX_RANK)
        return zt_node_fail(g, node, err, "has %d axes", y.rank);
    memcpy(y.dim, shape, (size_t)y.rank * sizeof *shape);
    if (zt_shape_count(&y) != count)
        return zt_node_fail(g, node, err, "has ranges of %lld elements", (long long)count);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &y);
    return true;
}

static bool moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg, struct zt_err *err) {
    struct zt_ranges r;
    int64_t at = 0;
    if (!read(g, node, &r, err))
        return false;
    for (int i = 0; i < r.count; at += r.size[i++]) {
        struct zt_strided_copy move = { .in = (int)r.input[i],
                                        .shape = { 1, { r.size[i] } },
                                        .from = r.start[i],
                                        .to = at,
                                        .from_step = { 1 },
                                        .to_step = { 1 } };
        take(arg, &move);
    }
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    return zt_strided_copies_run(call, moves, err);
}

const struct zt_op zt_op_join_ranges = {
    .name = "JoinRanges",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_VARIADIC | ZT_OP_LIGHT,
    .attrs = attrs,
    .infer = infer,
    .kernel = { [ZT_REF] = { .run = run }, [ZT_CPU] = { .run = run } },
};
