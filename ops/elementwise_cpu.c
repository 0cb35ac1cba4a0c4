#include "ops/elementwise_cpu.h"

#include "device/threads.h"
#include "ops/elementwise_lanes.h"
#include "ops/shape.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 14 }; /* elements a thread takes at a time */

static const struct lane {
    const char *op;
    int inputs;
    const char *attr[2];
    float otherwise[2];
    bool keeps_zero;
} lanes[ZT_LANE_OPS] = {
#define LANE(id, NAME, INPUTS, U, U0, V, V0, ZERO, VALUE) [ZT_LANE_##id] = { NAME, INPUTS, { U, V }, { U0, V0 }, ZERO },
    ZT_ELEMENTWISE(LANE)
#undef LANE
};

/* ---- which loop, with which numbers ---- */

/* Bounds of Clip and ClipGrad, inputs from `first` on or attributes; false where they are not known yet. */
static bool bounds_known(const struct zt_graph *g, int node, int first, float bound[2]) {
    static const char *const attr[2] = { "min", "max" };
    bound[0] = -INFINITY;
    bound[1] = INFINITY;
    for (int i = 0; i < 2; i++) {
        const struct zt_value *v = zt_in(g, node, first + i);
        if (v && !v->data)
            return false;
        bound[i] = v ? *(const float *)v->data : zt_attr_float(&g->nodes[node], attr[i], bound[i]);
    }
    return true;
}

/* Pow and PowSlope: only the square, x^2 and 2x. */
static bool is_square(const struct zt_graph *g, int node) {
    const struct zt_value *e = zt_in(g, node, 1);
    return e->data && zt_shape_count(&e->shape) == 1 && zt_load_double(e->dtype, e->data, 0) == 2 &&
           zt_shape_equal(&zt_in(g, node, 0)->shape, &zt_out(g, node, 0)->shape);
}

/* The loop of a node, ZT_LANE_OPS where there is none, and its numbers. */
static enum zt_lane_op lane_of(const struct zt_graph *g, int node, float number[2]) {
    const struct zt_node *n = &g->nodes[node];
    int i = 0;
    while (i < ZT_LANE_OPS && strcmp(lanes[i].op, n->op->name) != 0)
        i++;
    if (i == ZT_LANE_OPS)
        return ZT_LANE_OPS;
    for (int k = 0; k < 2; k++)
        number[k] = lanes[i].attr[k] ? zt_attr_float(n, lanes[i].attr[k], lanes[i].otherwise[k]) : 0;
    bool of_tanh = strcmp(zt_attr_text(n, "approximate", "none"), "tanh") == 0;
    if (i == ZT_LANE_gelu && of_tanh)
        i = ZT_LANE_gelu_tanh;
    if (i == ZT_LANE_gelu_grad && of_tanh)
        i = ZT_LANE_gelu_tanh_grad;
    if ((i == ZT_LANE_clip || i == ZT_LANE_clip_grad) && !bounds_known(g, node, lanes[i].inputs, number))
        return ZT_LANE_OPS;
    if ((i == ZT_LANE_square || i == ZT_LANE_square_slope) && !is_square(g, node))
        return ZT_LANE_OPS;
    return (enum zt_lane_op)i;
}

bool zt_elementwise_supports(const struct zt_graph *g, int node) {
    float number[2];
    enum zt_lane_op op = lane_of(g, node, number);
    bool good = op != ZT_LANE_OPS;
    for (int i = 0; good && i < lanes[op].inputs; i++)
        good = zt_in(g, node, i)->dtype == ZT_FLOAT;
    return good;
}

/* ---- the walk ---- */

/* Neighbouring axes along which all tensors go on alike are one. Axis count - 1 is the innermost, where steps are 0
 * or 1. */
struct plan {
    enum zt_lane_op op;
    float number[2];
    int64_t elements; /* of the output, padding of blocked layouts included */
    int axes;
    int64_t dim[ZT_MAX_RANK], step[2][ZT_MAX_RANK];
};

static void plan_flat(struct plan *plan, int64_t elements) {
    plan->elements = elements;
    plan->axes = 1;
    plan->dim[0] = elements;
    plan->step[0][0] = plan->step[1][0] = 1;
}

static void plan_broadcast(struct plan *plan, const struct zt_shape *y, const struct zt_shape *a,
                           const struct zt_shape *b) {
    int64_t step[2][ZT_MAX_RANK];
    zt_broadcast_steps(y, a, step[0]);
    zt_broadcast_steps(y, b, step[1]);
    plan->elements = zt_shape_count(y);
    plan->axes = 0;
    for (int k = 0; k < y->rank; k++) {
        int last = plan->axes - 1;
        if (y->dim[k] == 1)
            continue;
        if (last >= 0 && plan->step[0][last] == y->dim[k] * step[0][k] &&
            plan->step[1][last] == y->dim[k] * step[1][k]) {
            plan->dim[last] *= y->dim[k];
        } else {
            last = plan->axes++;
            plan->dim[last] = y->dim[k];
        }
        plan->step[0][last] = step[0][k];
        plan->step[1][last] = step[1][k];
    }
    if (plan->axes == 0)
        plan_flat(plan, 1);
}

/* The layout all tensors share: that of the first blocked input, where shapes agree and what padding holds stays zero.
 */
static const struct zt_layout *common_layout(const struct zt_prepare *p, const struct plan *plan) {
    const struct zt_layout *layout = NULL;
    const struct zt_shape *y = &zt_out(p->graph, p->node, 0)->shape;
    for (int i = 0; i < lanes[plan->op].inputs; i++) {
        if (!zt_shape_equal(&zt_in(p->graph, p->node, i)->shape, y))
            return NULL;
        if (!layout)
            layout = p->in_layout[i];
    }
    bool padded = layout && (int64_t)layout->bytes != 4 * zt_shape_count(y);
    return padded && !lanes[plan->op].keeps_zero ? NULL : layout;
}

bool zt_elementwise_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    struct plan *plan = ZT_NEW(p->graph->arena, struct plan);
    plan->op = lane_of(p->graph, p->node, plan->number);
    const int inputs = lanes[plan->op].inputs;
    const struct zt_layout *layout = common_layout(p, plan);
    for (int i = 0; i < p->graph->nodes[p->node].in_count; i++)
        p->in_layout[i] = i < inputs ? layout : NULL;
    p->out_layout[0] = layout;
    if (layout)
        plan_flat(plan, (int64_t)(layout->bytes / sizeof(float)));
    else
        plan_broadcast(plan, &zt_out(p->graph, p->node, 0)->shape, &zt_in(p->graph, p->node, 0)->shape,
                       &zt_in(p->graph, p->node, inputs - 1)->shape);
    p->state = plan;
    return true;
}

struct job {
    const struct plan *plan;
    const float *a, *b;
    float *y;
    zt_lane_function *function;
};

/* Elements [chunk * CHUNK, ...) in runs along the innermost axis. */
static void run_chunk(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    int64_t at = chunk * CHUNK, end = at + CHUNK < plan->elements ? at + CHUNK : plan->elements;
    while (at < end) {
        int64_t rest = at, offset[2] = { 0, 0 }, inside = at % plan->dim[last];
        for (int k = last; k >= 0; rest /= plan->dim[k--])
            for (int i = 0; i < 2; i++)
                offset[i] += rest % plan->dim[k] * plan->step[i][k];
        struct zt_lane_span span = { .a = job->a + offset[0],
                                     .b = job->b + offset[1],
                                     .y = job->y + at,
                                     .n = plan->dim[last] - inside < end - at ? plan->dim[last] - inside : end - at,
                                     .a_step = plan->step[0][last] != 0,
                                     .b_step = plan->step[1][last] != 0,
                                     .u = plan->number[0],
                                     .v = plan->number[1] };
        job->function(&span);
        at += span.n;
    }
}

bool zt_elementwise_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    struct job job = { .plan = plan,
                       .a = call->in[0].data,
                       .b = call->in[lanes[plan->op].inputs - 1].data,
                       .y = call->out[0].data,
                       .function = zt_lane_functions()[plan->op] };
    zt_parallel_for(call->threads, (plan->elements + CHUNK - 1) / CHUNK, run_chunk, &job);
    return true;
}
