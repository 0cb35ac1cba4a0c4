/* Arithmetic of two broadcast inputs. Integers are exact and wrap as their type does; division by integer zero gives
 * zero. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/binary.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"

#include <math.h>

enum { PART = 1 << 14 }; /* elements a thread takes at a time */

struct job {
    const struct zt_call *call;
    const struct zt_binary_rule *rule;
    bool ints;
};

static void run_part(void *arg, int64_t part) {
    const struct job *job = arg;
    const struct zt_view *x = &job->call->in[0], *z = &job->call->in[1], *y = &job->call->out[0];
    const int64_t count = zt_shape_count(&y->shape), first = part * PART;
    struct zt_walk w;
    zt_walk_start(&w, &y->shape, 3);
    zt_walk_strides(&w, 0, &y->shape);
    zt_walk_strides(&w, 1, &x->shape);
    zt_walk_strides(&w, 2, &z->shape);
    zt_walk_part(&w, first, count - first < PART ? count - first : PART);
    while (zt_walk_next(&w)) {
        if (job->ints) {
            int64_t a[ZT_ELEMENT_BLOCK], b[ZT_ELEMENT_BLOCK];
            zt_load_block_int(x->dtype, x->data, w.offset[1], w.stride[1], w.count, a);
            zt_load_block_int(z->dtype, z->data, w.offset[2], w.stride[2], w.count, b);
            job->rule->f_int(w.count, x->dtype == ZT_UINT64, a, b, a);
            zt_store_block_int(y->dtype, y->data, w.offset[0], w.stride[0], w.count, a);
        } else {
            double a[ZT_ELEMENT_BLOCK], b[ZT_ELEMENT_BLOCK];
            zt_load_block(x->dtype, x->data, w.offset[1], w.stride[1], w.count, a);
            zt_load_block(z->dtype, z->data, w.offset[2], w.stride[2], w.count, b);
            job->rule->f(w.count, a, b, a);
            zt_store_block(y->dtype, y->data, w.offset[0], w.stride[0], w.count, a);
        }
    }
}

bool zt_binary_run(const struct zt_call *call, const struct zt_binary_rule *rule) {
    const unsigned whole = ZT_ANY_INT | ZT_BIT(ZT_BOOL);
    struct job job = { call, rule, false };
    job.ints = rule->f_int && zt_dtype_in(call->in[0].dtype, whole) && zt_dtype_in(call->in[1].dtype, whole);
    zt_parallel_for(call->threads, (zt_shape_count(&call->out[0].shape) + PART - 1) / PART, run_part, &job);
    return true;
}

/* ---- kernels ---- */

static int64_t divide(int64_t a, int64_t b, bool u) {
    if (b == 0)
        return 0;
    if (u)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t remainder_of(int64_t a, int64_t b, bool u) {
    if (b == 0 || b == -1)
        return u && b == -1 && a != -1 ? a : 0;
    return u ? (int64_t)((uint64_t)a % (uint64_t)b) : a % b;
}

/* a mod b with the sign of b */
static int64_t floored_mod(int64_t a, int64_t b, bool u) {
    int64_t r = remainder_of(a, b, u);
    return !u && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double floored_fmod(double a, double b) {
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static int64_t power(int64_t a, int64_t e) {
    if (e < 0)
        return a == 1 ? 1 : a == -1 ? (e % 2 ? -1 : 1) : 0;
    uint64_t y = 1, factor = (uint64_t)a;
    for (; e; e >>= 1, factor *= factor)
        y *= e & 1 ? factor : 1;
    return (int64_t)y;
}

BINARY_LOOP(add_f, a + b)
BINARY_INT_LOOP(add_i, (int64_t)((uint64_t)a + (uint64_t)b))
BINARY_LOOP(sub_f, a - b)
BINARY_INT_LOOP(sub_i, (int64_t)((uint64_t)a - (uint64_t)b))
BINARY_LOOP(mul_f, a *b)
BINARY_INT_LOOP(mul_i, (int64_t)((uint64_t)a *(uint64_t)b))
BINARY_LOOP(div_f, a / b)
BINARY_INT_LOOP(div_i, divide(a, b, u))
BINARY_LOOP(pow_f, pow(a, b))
BINARY_INT_LOOP(pow_i, power(a, b))
BINARY_LOOP(mod_f, floored_fmod(a, b))
BINARY_INT_LOOP(mod_i, floored_mod(a, b, u))
BINARY_LOOP(fmod_f, fmod(a, b))
BINARY_INT_LOOP(fmod_i, remainder_of(a, b, u))
BINARY_LOOP(prelu_f, a < 0 ? a * b : a)
BINARY_INT_LOOP(prelu_i, a < 0 && !u ? (int64_t)((uint64_t)a * (uint64_t)b) : a)
BINARY_LOOP(pow_slope_f, b == 0 ? 0 : b * pow(a, b - 1))
BINARY_LOOP(pow_log_f, a == 0 && b >= 0 ? 0 : pow(a, b) * log(a))

static const struct zt_binary_rule add_rule = { add_f, add_i }, sub_rule = { sub_f, sub_i },
                                   mul_rule = { mul_f, mul_i }, div_rule = { div_f, div_i },
                                   pow_rule = { pow_f, pow_i }, prelu_rule = { prelu_f, prelu_i },
                                   pow_slope_rule = { pow_slope_f, NULL }, pow_log_rule = { pow_log_f, NULL };
static const struct zt_binary_rule mod_rules[2] = { { mod_f, mod_i }, { fmod_f, fmod_i } };

/* ---- gradients; they are summed over broadcast axes ---- */

static int in_id(struct zt_grad *b, int node, int i) {
    return zt_grad_graph(b)->nodes[node]->in[i];
}

/* Gives `gradient`, of the shape of the output, to input i. */
static void give(struct zt_grad *b, int node, int i, int gradient) {
    int x = in_id(b, node, i);
    zt_grad_give(b, node, i, zt_emit_cast_like(b, zt_grad_unbroadcast(b, gradient, x), x));
}

/* y = x + z    dx = dy    dz = dy */
static bool add_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, i))
            give(b, node, i, zt_grad_out(b, node, 0));
    return true;
}

/* y = x - z    dx = dy    dz = -dy */
static bool sub_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    if (zt_grad_wanted(b, node, 0))
        give(b, node, 0, dy);
    if (zt_grad_wanted(b, node, 1))
        zt_grad_give(b, node, 1, ZT_EMIT(b, "Neg", zt_grad_unbroadcast(b, dy, in_id(b, node, 1))));
    return true;
}

/* y = x z    dx = dy z    dz = dy x */
static bool mul_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, i))
            give(b, node, i, ZT_EMIT(b, "Mul", zt_grad_out(b, node, 0), in_id(b, node, 1 - i)));
    return true;
}

/* y = x / z    dx = dy / z    dz = -(dy / z) y */
static bool div_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int quotient = ZT_EMIT(b, "Div", zt_grad_out(b, node, 0), in_id(b, node, 1));
    if (zt_grad_wanted(b, node, 0))
        give(b, node, 0, quotient);
    if (zt_grad_wanted(b, node, 1)) {
        int dz = ZT_EMIT(b, "Mul", quotient, zt_grad_graph(b)->nodes[node]->out[0]);
        zt_grad_give(b, node, 1, ZT_EMIT(b, "Neg", zt_grad_unbroadcast(b, dz, in_id(b, node, 1))));
    }
    return true;
}

/* y = x^e    dx = dy e x^(e-1)    de = dy x^e log x (0 where x is 0 and e is not negative) */
static bool pow_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    static const char *const factor[2] = { "PowSlope", "PowLog" };
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, i)) {
            int slope = ZT_EMIT_OWN(b, factor[i], in_id(b, node, 0), in_id(b, node, 1));
            give(b, node, i, ZT_EMIT(b, "Mul", zt_grad_out(b, node, 0), slope));
        }
    return true;
}

/* y = x mod z    dx = dy    dz = -dy (x - y) / z, the whole number of times z went in */
static bool mod_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    if (zt_grad_wanted(b, node, 0))
        give(b, node, 0, dy);
    if (zt_grad_wanted(b, node, 1)) {
        int rest = ZT_EMIT(b, "Sub", zt_grad_graph(b)->nodes[node]->out[0], in_id(b, node, 0));
        give(b, node, 1, ZT_EMIT(b, "Mul", dy, ZT_EMIT(b, "Div", rest, in_id(b, node, 1))));
    }
    return true;
}

/* y = x, or s x where x < 0    dx = dy, or s dy where x <= 0, as in PyTorch    ds = dy min(x, 0) */
static bool prelu_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), x = in_id(b, node, 0);
    int zero = zt_emit_float(b, zt_grad_graph(b)->values[x]->dtype, 0);
    if (zt_grad_wanted(b, node, 0)) {
        int scaled = ZT_EMIT(b, "Mul", dy, in_id(b, node, 1));
        give(b, node, 0, ZT_EMIT(b, "Where", ZT_EMIT(b, "LessOrEqual", x, zero), scaled, dy));
    }
    if (zt_grad_wanted(b, node, 1))
        give(b, node, 1, ZT_EMIT(b, "Mul", dy, ZT_EMIT(b, "Min", x, zero)));
    return true;
}

/* The slope is broadcast to x, never x to the slope. */
static bool prelu_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!zt_infer_broadcast(g, node, err))
        return false;
    if (!zt_shape_equal(&zt_in(g, node, 0)->shape, &zt_out(g, node, 0)->shape))
        return zt_node_fail(g, node, err, "the slope does not broadcast to the input");
    return true;
}

/* ---- rows ---- */

enum { HALF = ZT_OP_HALF | ZT_OP_IN_PLACE | ZT_OP_LIGHT };

BINARY_ROW(add, "Add", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast, add_grad, HALF, add, add)
BINARY_ROW(div, "Div", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast, div_grad, HALF, div, div)
BINARY_ROW(mul, "Mul", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast, mul_grad, HALF, mul, mul)
BINARY_ROW(pow, "Pow", "", 7, ZT_ANY_NUMBER, 0, zt_infer_broadcast, pow_grad, ZT_OP_IN_PLACE, pow, none)
BINARY_ROW(pow_log, "PowLog", "ztrain", 1, ZT_ANY_NUMBER, 0, zt_infer_broadcast, NULL, ZT_OP_IN_PLACE, pow_log, none,
           .body = zt_pow_log_function_body, )
BINARY_ROW(pow_slope, "PowSlope", "ztrain", 1, ZT_ANY_NUMBER, 0, zt_infer_broadcast, NULL, ZT_OP_IN_PLACE, pow_slope,
           none, .body = zt_pow_slope_function_body, )
BINARY_ROW(prelu, "PRelu", "", 7, ZT_ANY_NUMBER, 2, prelu_infer, prelu_grad, HALF, prelu, none)
BINARY_ROW(sub, "Sub", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast, sub_grad, HALF, sub, sub)

static bool mod_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return zt_binary_run(call, &mod_rules[zt_attr_int(call->node, "fmod", 0) != 0]);
}

static const struct zt_attr_spec with_fmod[] = { { "fmod", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_mod = {
    .name = "Mod",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_IN_PLACE,
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .same_type = 1 << 1,
    .attrs = with_fmod,
    .infer = zt_infer_broadcast,
    .grad = mod_grad,
    .detail = ZT_ELEMENTWISE_LOOPS(fmod, mod),
    .kernel = { [ZT_REF] = { .run = mod_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
