/* Cast, CastLike (by value) and BitCast (by bits). dx = dy cast back. To narrow floats attributes say how to round
 * (base/half.h); no gradient passes a type that has none. */
#include "ops/elementwise/pointwise.h"
#include "device/threads.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/element_blocks.h"

#include <string.h>

static bool set_dtype(struct zt_graph *g, int node, int64_t to, struct zt_err *err) {
    if (to < 0 || to >= ZT_DTYPES || !zt_dtype_bytes((enum zt_dtype)to))
        return zt_node_fail(g, node, err, "casts to type %s, which is not supported",
                            to < 0 || to > 64 ? "of an unknown number" : zt_dtype_name((enum zt_dtype)to));
    zt_set_out(g, node, 0, (enum zt_dtype)to, &zt_in(g, node, 0)->shape);
    return true;
}

/* The attributes saturate and round_mode; false for another round_mode. */
static bool read_rule(const struct zt_node *n, struct zt_narrow_rule *to) {
    static const char *const modes[] = { [ZT_E8M0_UP] = "up", [ZT_E8M0_DOWN] = "down", [ZT_E8M0_NEAREST] = "nearest" };
    const char *mode = zt_attr_text(n, "round_mode", "up");
    int i = 0;
    while (i <= ZT_E8M0_NEAREST && strcmp(mode, modes[i]) != 0)
        i++;
    *to = (struct zt_narrow_rule){ zt_attr_int(n, "saturate", 1) != 0, (enum zt_e8m0_rounding)i };
    return i <= ZT_E8M0_NEAREST;
}

static bool check_rule(const struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_narrow_rule rule;
    return read_rule(g->nodes[node], &rule) ||
           zt_node_fail(g, node, err, "attribute \"round_mode\" is \"%s\", wants up, down or nearest",
                        zt_attr_text(g->nodes[node], "round_mode", ""));
}

static bool cast_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return check_rule(g, node, err) && set_dtype(g, node, zt_attr_int(g->nodes[node], "to", 0), err);
}

static bool cast_like_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return check_rule(g, node, err) && set_dtype(g, node, zt_in(g, node, 1)->dtype, err);
}

enum { PART = 1 << 14 }; /* elements a thread takes at a time */

/* Stores a block: in narrow floats by the node's rule. */
static void store_block(const struct zt_call *call, int64_t at, int64_t n, const double *from) {
    const struct zt_view *y = &call->out[0];
    struct zt_narrow_rule rule;
    if (!zt_dtype_in(y->dtype, ZT_ANY_NARROW_FLOAT | ZT_BIT(ZT_FLOAT8E8M0))) {
        zt_store_block(y->dtype, y->data, at, 1, n, from);
        return;
    }
    read_rule(call->node, &rule);
    for (int64_t i = 0; i < n; i++)
        zt_store_narrow(y->dtype, y->data, at + i, from[i], rule);
}

/* float8e8m0 to float by its bits: compute threads flush the subnormal 2^-127 to 0. */
static void decode_powers(const uint8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = zt_e8m0_decode(from[i]);
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void cast_part(void *arg, int64_t part) {
    const struct zt_call *call = arg;
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    const unsigned whole = ZT_ANY_INT | ZT_ANY_NARROW_INT | ZT_BIT(ZT_BOOL);
    const bool ints = zt_dtype_in(x->dtype, whole) && zt_dtype_in(y->dtype, whole);
    const int64_t count = zt_shape_count(&y->shape), end = (part + 1) * PART < count ? (part + 1) * PART : count;
    double v[ZT_ELEMENT_BLOCK];
    int64_t w[ZT_ELEMENT_BLOCK];
    if (x->dtype == ZT_FLOAT8E8M0 && y->dtype == ZT_FLOAT) {
        decode_powers((const uint8_t *)x->data + part * PART, end - part * PART, (float *)y->data + part * PART);
        return;
    }
    for (int64_t at = part * PART; at < end; at += ZT_ELEMENT_BLOCK) {
        int64_t n = end - at < ZT_ELEMENT_BLOCK ? end - at : ZT_ELEMENT_BLOCK;
        if (ints) {
            zt_load_block_int(x->dtype, x->data, at, 1, n, w);
            zt_store_block_int(y->dtype, y->data, at, 1, n, w);
        } else {
            zt_load_block(x->dtype, x->data, at, 1, n, v);
            store_block(call, at, n, v);
        }
    }
}

static bool cast_run(const struct zt_call *call, struct zt_err *err) {
    if (call->in[0].dtype == call->out[0].dtype)
        return zt_run_copy(call, err);
    zt_parallel_for(call->threads, (zt_shape_count(&call->out[0].shape) + PART - 1) / PART, cast_part, (void *)call);
    return true;
}

static bool cast_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    zt_grad_give(b, node, 0, zt_emit_cast_like(b, dy, zt_grad_graph(b)->nodes[node]->in[0]));
    return true;
}

static bool bit_cast_infer(struct zt_graph *g, int node, struct zt_err *err) {
    if (!cast_infer(g, node, err))
        return false;
    enum zt_dtype from = zt_in(g, node, 0)->dtype, to = zt_out(g, node, 0)->dtype;
    if (zt_dtype_bits(from) != zt_dtype_bits(to))
        return zt_node_fail(g, node, err, "types %s and %s differ in size", zt_dtype_name(from), zt_dtype_name(to));
    return true;
}

static const struct zt_attr_spec bit_cast_attrs[] = { { "to", ZT_ATTR_INT, true }, { 0 } };
static const struct zt_attr_spec cast_attrs_6[] = { { "to", ZT_ATTR_INT, true, .element_type = true }, { 0 } };
static const struct zt_attr_spec cast_attrs_19[] = { { "to", ZT_ATTR_INT, true, .element_type = true },
                                                     { "saturate", ZT_ATTR_INT },
                                                     { "round_mode", ZT_ATTR_STRING },
                                                     { 0 } };
static const struct zt_attr_spec like_attrs_19[] = { { "saturate", ZT_ATTR_INT },
                                                     { "round_mode", ZT_ATTR_STRING },
                                                     { 0 } };

#define CAST_ROW(id, NAME, SINCE, UNTIL, COUNT, FLAGS, ATTRS, INFER)                                                   \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(COUNT, COUNT),                                                                                      \
        .flags = FLAGS,                                                                                                \
        .in_types = { ZT_ANY_STORED, ZT_ANY_STORED },                                                                  \
        .attrs = ATTRS,                                                                                                \
        .infer = INFER,                                                                                                \
        .grad = cast_grad,                                                                                             \
        .detail = ZT_ELEMENTWISE_LOOPS(cast, none),                                                                    \
        .no_grad_in = 1 << 1,                                                                                          \
        .type_in = 1 << 1,                                                                                             \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = cast_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },    \
    };

const struct zt_op zt_op_bit_cast = {
    .name = "BitCast",
    .domain = "",
    .since = 26,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_VIEW,
    .in_types = { ZT_ANY_STORED },
    .attrs = bit_cast_attrs,
    .infer = bit_cast_infer,
    .kernel = { [ZT_REF] = { .run = zt_run_copy } },
};
CAST_ROW(cast_6, "Cast", 6, 18, 1, ZT_OP_CAST | ZT_OP_POINTWISE | ZT_OP_LIGHT, cast_attrs_6, cast_infer)
CAST_ROW(cast, "Cast", 19, 0, 1, ZT_OP_CAST | ZT_OP_POINTWISE | ZT_OP_LIGHT, cast_attrs_19, cast_infer)
CAST_ROW(cast_like_15, "CastLike", 15, 18, 2, ZT_OP_CAST | ZT_OP_LIGHT, NULL, cast_like_infer)
CAST_ROW(cast_like, "CastLike", 19, 0, 2, ZT_OP_CAST | ZT_OP_LIGHT, like_attrs_19, cast_like_infer)
