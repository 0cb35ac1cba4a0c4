/* The geometry of quantization nodes, read from shapes and attributes (quantize.h). Needs no table of rows: the CUDA
 * module has it too. */
#include "ops/quantize/quantize.h"

#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

int zt_quantize_first(const struct zt_node *n) {
    return strcmp(n->op_type, "FakeQuantizeGrad") == 0;
}

static bool is_dequantize(const struct zt_node *n) {
    return strcmp(n->op_type, "DequantizeLinear") == 0;
}

/* The attribute with the type of q where there is no zero point. */
static const char *type_attribute(const struct zt_node *n) {
    return strcmp(n->domain, "ztrain") == 0 ? "type" : "output_dtype";
}

/* The type of q: of the zero point, of an attribute, or the type of a dequantized tensor. */
static enum zt_dtype type_of_q(const struct zt_graph *g, int node, int first) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *zero = zt_in(g, node, first + 2);
    if (is_dequantize(n))
        return zt_in(g, node, first)->dtype;
    const int64_t named = zt_attr_int(n, type_attribute(n), 0);
    return zero ? zero->dtype : named > 0 && named < ZT_DTYPES ? (enum zt_dtype)named : ZT_UINT8;
}

static bool fail_attribute(const struct zt_graph *g, int node, const char *name, int64_t value, struct zt_err *err) {
    return zt_node_fail(g, node, err, "attribute \"%s\" is type %lld (%s), which is not supported there", name,
                        (long long)value,
                        value >= 0 && value < 64 ? zt_dtype_name((enum zt_dtype)value) : "of an unknown number");
}

/* The types that may be divided in. */
enum { DIVIDES = ZT_ANY_FLOAT };

static bool read_types(const struct zt_graph *g, int node, int first, struct zt_quantize *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const enum zt_dtype scale = zt_in(g, node, first + 1)->dtype;
    const int64_t named = is_dequantize(n) ? 0 : zt_attr_int(n, type_attribute(n), 0);
    const int64_t precision = zt_attr_int(n, "precision", 0);
    const struct zt_value *zero = zt_in(g, node, first + 2);
    to->type = type_of_q(g, node, first);
    if (named && (int64_t)to->type != named)
        return zero ? zt_node_fail(g, node, err, "attribute \"%s\" and the zero point's type %s differ",
                                   type_attribute(n), zt_dtype_name(zero->dtype))
                    : fail_attribute(g, node, type_attribute(n), named, err);
    if (!zt_dtype_in(to->type, n->op->in_types[first + 2]))
        return fail_attribute(g, node, type_attribute(n), to->type, err);
    if (precision && !(precision > 0 && precision < ZT_DTYPES && zt_dtype_in((enum zt_dtype)precision, DIVIDES)))
        return fail_attribute(g, node, "precision", precision, err);
    to->saturate = zt_attr_int(n, "saturate", 1) != 0;
    /* Scales that are integers or powers of two have no precision of their own: an integer divides in double, as the
     * standard's reference does, a power of two in the type of x. */
    const enum zt_dtype x = zt_in(g, node, first)->dtype, other = zt_dtype_in(x, DIVIDES) ? x : ZT_FLOAT;
    to->precision = precision                     ? (enum zt_dtype)precision
                    : zt_dtype_in(scale, DIVIDES) ? scale
                    : scale == ZT_FLOAT8E8M0      ? other
                                                  : ZT_DOUBLE;
    to->precision = is_dequantize(n) ? ZT_UNDEFINED : to->precision;
    if (zero && zero->dtype != to->type)
        return zt_node_fail(g, node, err, "the zero point has type %s, wants %s", zt_dtype_name(zero->dtype),
                            zt_dtype_name(to->type));
    return true;
}

static void read_range(struct zt_quantize *to) {
    const int bits = zt_dtype_bits(to->type);
    to->integer = zt_dtype_in(to->type, ZT_ANY_INT | ZT_ANY_NARROW_INT);
    if (to->integer) {
        const bool has_sign = zt_dtype_in(to->type, ZT_ANY_SIGNED | ZT_BIT(ZT_INT4) | ZT_BIT(ZT_INT2));
        to->high = ldexp(1, bits - has_sign) - 1;
        to->low = has_sign ? -to->high - 1 : 0;
        return;
    }
    const struct zt_narrow f = zt_narrow_format(to->type);
    to->high = zt_float_of_bits(zt_narrow_decode(f, f.largest));
    to->low = -to->high;
}

/* Whether a tensor is one number: a scalar or [1]. */
static bool is_single(const struct zt_shape *s) {
    return s->rank == 0 || (s->rank == 1 && s->dim[0] == 1);
}

static bool fail_shape(const struct zt_graph *g, int node, const struct zt_shape *x, const struct zt_shape *s,
                       struct zt_err *err) {
    char a[ZT_SHAPE_TEXT], b[ZT_SHAPE_TEXT];
    return zt_node_fail(g, node, err,
                        "scale %s does not fit %s: wants one number, one for each index of the axis, or (block_size > "
                        "0) one for each block along the axis",
                        zt_shape_text(s, b), zt_shape_text(x, a));
}

static void read_axis(const struct zt_shape *x, int axis, struct zt_quantize *to) {
    to->outer = zt_dims(x, 0, axis);
    to->length = x->dim[axis];
    to->inner = zt_dims(x, axis + 1, x->rank);
    to->block = to->step = 1;
    to->scales = to->length;
}

/* One scale for each block of elements along the axis. */
static bool read_blocks(const struct zt_shape *x, const struct zt_shape *s, int axis, int64_t block,
                        struct zt_quantize *to) {
    read_axis(x, axis, to);
    to->block = block;
    const int64_t blocks = to->length / block + (to->length % block != 0);
    to->step = to->inner;
    to->inner_step = 1;
    to->outer_step = blocks * to->inner;
    to->scales = to->outer * to->outer_step;
    bool fits = s->rank == x->rank;
    for (int k = 0; fits && k < x->rank; k++)
        fits = s->dim[k] == (k == axis ? blocks : x->dim[k]);
    return fits;
}

static bool read_shapes(const struct zt_graph *g, int node, int first, struct zt_quantize *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, first)->shape, *s = &zt_in(g, node, first + 1)->shape;
    const int64_t block = zt_attr_int(n, "block_size", 0);
    int axis = 0;
    *to = (struct zt_quantize){ 0 };
    if (block < 0)
        return zt_node_fail(g, node, err, "block_size = %lld, wants 0 or more", (long long)block);
    if (!block && is_single(s)) {
        *to = (struct zt_quantize){ .outer = 1, .length = zt_shape_count(x), .inner = 1, .block = 1, .scales = 1 };
        return true;
    }
    if (x->rank == 0 || (!block && s->rank != 1))
        return fail_shape(g, node, x, s, err);
    /* A vector has one axis, whatever the attribute's default says. */
    if (x->rank > 1 && !zt_axis(g, node, zt_attr_int(n, "axis", 1), x->rank, &axis, err))
        return false;
    if (block)
        return read_blocks(x, s, axis, block, to) || fail_shape(g, node, x, s, err);
    read_axis(x, axis, to);
    return s->dim[0] == to->length || fail_shape(g, node, x, s, err);
}

bool zt_quantize_read(const struct zt_graph *g, int node, int first, struct zt_quantize *to, struct zt_err *err) {
    const struct zt_value *s = zt_in(g, node, first + 1), *zero = zt_in(g, node, first + 2);
    if (!read_shapes(g, node, first, to, err) || !read_types(g, node, first, to, err))
        return false;
    if (zero && !zt_shape_equal(&zero->shape, &s->shape) && !(is_single(&zero->shape) && is_single(&s->shape)))
        return zt_node_fail(g, node, err, "scale and zero point differ in shape");
    read_range(to);
    return true;
}

double zt_quantize_scale_factor(const struct zt_quantize *q) {
    const double count = (double)q->outer * (double)q->length * (double)q->inner / (double)(q->scales ? q->scales : 1);
    return count > 0 ? 1 / sqrt(count * q->high) : 0;
}

/* ---- runs ---- */

/* Kinds: one scale in all; adjacent scales along the last axis; one scale each. */
static bool is_whole(const struct zt_quantize *q) {
    return !q->step && !q->inner_step;
}
static bool is_vector(const struct zt_quantize *q) {
    return !is_whole(q) && q->inner == 1 && q->block == 1 && !q->inner_step;
}

int64_t zt_quantize_runs(const struct zt_quantize *q) {
    if (!(q->outer && q->length && q->inner))
        return 0;
    const int64_t blocks = q->length / q->block + (q->length % q->block != 0);
    return is_whole(q)                     ? 1
           : is_vector(q)                  ? q->outer
           : q->inner == 1 && q->block > 1 ? q->outer * blocks
                                           : q->outer * q->length;
}

struct zt_quantize_run zt_quantize_run_at(const struct zt_quantize *q, int64_t i) {
    const int64_t blocks = q->length / q->block + (q->length % q->block != 0);
    if (is_whole(q))
        return (struct zt_quantize_run){ 0, q->outer * q->length * q->inner, 0, 0 };
    if (is_vector(q))
        return (struct zt_quantize_run){ i * q->length, q->length, 0, 1 };
    if (q->inner == 1 && q->block > 1) {
        const int64_t first = i % blocks * q->block, rest = q->length - first;
        return (struct zt_quantize_run){ i / blocks * q->length + first, rest < q->block ? rest : q->block, i, 0 };
    }
    const int64_t o = i / q->length, k = i % q->length;
    return (struct zt_quantize_run){ i * q->inner, q->inner, o * q->outer_step + k / q->block * q->step,
                                     (int)q->inner_step };
}

struct zt_quantize_units zt_quantize_units_of(const struct zt_quantize *q) {
    struct zt_quantize_units u = { .q = q, .runs = zt_quantize_runs(q), .parts = 1, .group = 1 };
    if (!u.runs)
        return u;
    const int64_t length = zt_quantize_run_at(q, 0).count;
    u.parts = (length + ZT_QUANTIZE_PART - 1) / ZT_QUANTIZE_PART;
    u.group = u.parts > 1 || length > ZT_QUANTIZE_PART ? 1 : ZT_QUANTIZE_PART / length;
    u.units = u.parts > 1 ? u.runs * u.parts : (u.runs + u.group - 1) / u.group;
    return u;
}

int64_t zt_quantize_pieces(const struct zt_quantize_units *u, int64_t unit) {
    const int64_t rest = u->runs - unit * u->group;
    return u->parts > 1 ? 1 : rest < u->group ? rest : u->group;
}

struct zt_quantize_run zt_quantize_piece(const struct zt_quantize_units *u, int64_t unit, int64_t i) {
    if (u->parts == 1)
        return zt_quantize_run_at(u->q, unit * u->group + i);
    struct zt_quantize_run run = zt_quantize_run_at(u->q, unit / u->parts);
    const int64_t first = unit % u->parts * ZT_QUANTIZE_PART, rest = run.count - first;
    run.at += first;
    run.scale += first * run.step;
    run.count = rest < ZT_QUANTIZE_PART ? rest : ZT_QUANTIZE_PART;
    return run;
}
