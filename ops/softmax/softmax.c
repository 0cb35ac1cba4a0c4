/* Softmax     y = exp(x - max x) / sum exp(x - max x)        dx = y (dy - sum dy y)
 * LogSoftmax  y = x - max x - log sum exp(x - max x)         dx = dy - exp(y) sum dy
 * Hardmax     y = 1 at the first maximum, 0 elsewhere        no gradient
 *
 * ONNX opset 13 on: along one axis, the last by default; the gradients read dy and y, never x. Before 13 the input is
 * flattened to a matrix at `axis` (1 by default) and a slice is one of its rows; gradient nodes say so with attribute
 * `flat`. */
#include "ops/softmax/softmax.h"
#include "ops/softmax/kernels.h"

#include "ops/softmax/launch_softmax.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

static const struct zt_attr_spec softmax_attrs[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "axis", ZT_ATTR_INT }, { "flat", ZT_ATTR_INT }, { 0 } };

static bool softmax_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_axis_slices slices;
    return zt_softmax_read(g, node, &slices, err) && zt_infer_first(g, node, err);
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0), *y = zt_in(g, node, 1);
    if (!zt_shape_equal(&dy->shape, &y->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", dy->name, y->name);
    return softmax_infer(g, node, err);
}

/* ---- kernels: one function per slice ---- */

/* The slice in the first two inputs (dy, y of a gradient) and in the output. */
struct job {
    struct zt_axis_slice in, second, out;
};

static void softmax_slice(const struct job *j) {
    int64_t place;
    double block[ZT_ELEMENT_BLOCK], max = zt_row_max(&j->in, &place), sum = zt_row_sum_exp(&j->in, max);
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, block);
        for (int64_t i = 0; i < count; i++)
            block[i] = exp(block[i] - max) / sum;
        zt_row_store(&j->out, at, count, block);
    }
}

static void log_softmax_slice(const struct job *j) {
    int64_t place;
    double block[ZT_ELEMENT_BLOCK], max = zt_row_max(&j->in, &place), shift = log(zt_row_sum_exp(&j->in, max));
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, block);
        for (int64_t i = 0; i < count; i++)
            block[i] = block[i] - max - shift;
        zt_row_store(&j->out, at, count, block);
    }
}

static void hardmax_slice(const struct job *j) {
    int64_t place;
    double block[ZT_ELEMENT_BLOCK];
    zt_row_max(&j->in, &place);
    ZT_EACH_BLOCK(j->in.length, at, count) {
        for (int64_t i = 0; i < count; i++)
            block[i] = at + i == place;
        zt_row_store(&j->out, at, count, block);
    }
}

static void softmax_grad_slice(const struct job *j) {
    double dy[ZT_ELEMENT_BLOCK], y[ZT_ELEMENT_BLOCK], sum = 0;
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, dy);
        zt_row_load(&j->second, at, count, y);
        for (int64_t i = 0; i < count; i++)
            sum += dy[i] * y[i];
    }
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, dy);
        zt_row_load(&j->second, at, count, y);
        for (int64_t i = 0; i < count; i++)
            dy[i] = y[i] * (dy[i] - sum);
        zt_row_store(&j->out, at, count, dy);
    }
}

static void log_softmax_grad_slice(const struct job *j) {
    double dy[ZT_ELEMENT_BLOCK], y[ZT_ELEMENT_BLOCK], sum = 0;
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, dy);
        for (int64_t i = 0; i < count; i++)
            sum += dy[i];
    }
    ZT_EACH_BLOCK(j->in.length, at, count) {
        zt_row_load(&j->in, at, count, dy);
        zt_row_load(&j->second, at, count, y);
        for (int64_t i = 0; i < count; i++)
            dy[i] -= exp(y[i]) * sum;
        zt_row_store(&j->out, at, count, dy);
    }
}

struct walk {
    const struct zt_call *call;
    struct zt_axis_slices slices;
    void (*one)(const struct job *j);
};

static void run_slice(void *arg, int64_t i) {
    const struct walk *w = arg;
    struct zt_axis_slice slice = { w->call->in, zt_axis_slices_start(&w->slices, i), w->slices.inner,
                                   w->slices.length };
    struct job job = { slice, slice, slice };
    job.second.view = w->call->in_count > 1 ? &w->call->in[1] : NULL;
    job.out.view = w->call->out;
    w->one(&job);
}

static bool run_slices(const struct zt_call *call, void (*one)(const struct job *), struct zt_err *err) {
    struct walk w = { .call = call, .one = one };
    if (!zt_softmax_read(call->graph, zt_call_node(call), &w.slices, err))
        return false;
    int64_t count = w.slices.length ? w.slices.outer * w.slices.inner : 0;
    zt_parallel_for(zt_threads_worth(call->threads, 16.0 * (double)(count * w.slices.length)), count, run_slice, &w);
    return true;
}

/* A macro, as it defines a function. */
#define RUN(name, slice)                                                                                               \
    static bool name(const struct zt_call *call, struct zt_err *err) {                                                 \
        return run_slices(call, slice, err);                                                                           \
    }
RUN(softmax_ref, softmax_slice)
RUN(log_softmax_ref, log_softmax_slice)
RUN(hardmax_ref, hardmax_slice)
RUN(softmax_grad_ref, softmax_grad_slice)
RUN(log_softmax_grad_ref, log_softmax_grad_slice)

/* ---- gradient rules ---- */

static bool grad(struct zt_grad *b, int node, const char *op) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    bool flat = zt_softmax_is_flat(n);
    struct zt_attr attrs[] = { { .name = "flat", .type = ZT_ATTR_INT, .i = flat },
                               { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(n, "axis", flat ? 1 : -1) } };
    int in[2] = { zt_grad_out(b, node, 0), n->out[0] }, out;
    zt_emit_node(b, &(struct zt_emission){ op, "ztrain", in, 2, NULL, attrs, 2 }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

static bool softmax_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return grad(b, node, "SoftmaxGrad");
}

static bool log_softmax_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return grad(b, node, "LogSoftmaxGrad");
}

/* A struct zt_launch_softmax for other back ends. */
static bool softmax_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    static const struct {
        const char *name;
        enum zt_launch_softmax_rule rule;
    } rules[] = { { "Softmax", ZT_LAUNCH_SOFTMAX },
                  { "LogSoftmax", ZT_LAUNCH_LOG_SOFTMAX },
                  { "Hardmax", ZT_LAUNCH_HARDMAX },
                  { "SoftmaxGrad", ZT_LAUNCH_SOFTMAX_GRAD },
                  { "LogSoftmaxGrad", ZT_LAUNCH_LOG_SOFTMAX_GRAD } };
    struct zt_axis_slices slices;
    int i = 0;
    if (!zt_softmax_read(g, node, &slices, err))
        return false;
    while (strcmp(rules[i].name, g->nodes[node]->op->name) != 0)
        i++;
    *(struct zt_launch_softmax *)to = (struct zt_launch_softmax){
        .rule = rules[i].rule, .outer = slices.outer, .length = slices.length, .inner = slices.inner
    };
    return true;
}
#define ON_CUDA ZT_CUDA_AS(softmax, zt_cuda_floats, softmax_describe)

#define ROW                                                                                                            \
    .domain = "", .since = 1, ZT_ONE_OUT(1, 1), .in_types = { ZT_ANY_FLOAT }, .attrs = softmax_attrs,                  \
    .infer = softmax_infer
#define GRAD_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, ZT_ONE_OUT(2, 2), .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .same_type = 1 << 1, \
    .attrs = grad_attrs, .infer = grad_infer

const struct zt_op zt_op_softmax = {
    .name = "Softmax",
    ROW,
    .grad = softmax_grad,
    .body = zt_softmax_function_body,
    .redefined_in = 13,
    .kernel = { [ZT_REF] = { .run = softmax_ref }, [ZT_CPU] = ZT_ON_CPU(zt_softmax_cpu), [ZT_CUDA] = ON_CUDA },
};
const struct zt_op zt_op_log_softmax = {
    .name = "LogSoftmax",
    ROW,
    .grad = log_softmax_grad,
    .body = zt_softmax_function_body,
    .redefined_in = 13,
    .kernel = { [ZT_REF] = { .run = log_softmax_ref }, [ZT_CPU] = ZT_ON_CPU(zt_softmax_cpu), [ZT_CUDA] = ON_CUDA },
};
const struct zt_op zt_op_hardmax = {
    .name = "Hardmax",
    ROW,
    .body = zt_softmax_function_body,
    .redefined_in = 13,
    .kernel = { [ZT_REF] = { .run = hardmax_ref }, [ZT_CUDA] = ON_CUDA },
};
const struct zt_op zt_op_softmax_grad = {
    .name = "SoftmaxGrad",
    GRAD_ROW,
    .body = zt_softmax_grad_function_body,
    .kernel = { [ZT_REF] = { .run = softmax_grad_ref }, [ZT_CPU] = ZT_ON_CPU(zt_softmax_cpu), [ZT_CUDA] = ON_CUDA },
};
const struct zt_op zt_op_log_softmax_grad = {
    .name = "LogSoftmaxGrad",
    GRAD_ROW,
    .body = zt_log_softmax_grad_function_body,
    .kernel = { [ZT_REF] = { .run = log_softmax_grad_ref }, [ZT_CPU] = ZT_ON_CPU(zt_softmax_cpu), [ZT_CUDA] = ON_CUDA },
};
