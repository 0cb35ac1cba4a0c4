/* y[output term] = sum over the labels not in it of the product of the operands         ONNX Einsum, opset 12 on
 *
 * Example "bij,bjk->bik": labels b, i, k are the result's, j is summed. Every tensor is a step a label (0 where it
 * lacks the label or is stretched along it; the sum of two strides where a label is repeated, which walks the
 * diagonal), so one contraction serves all:
 *
 *     dx_n = sum over the labels that x_n lacks of dy times the other operands
 *
 * with dy as an operand and x_n as the result: ztrain.EinsumGrad(dy, x_0, x_1, ...; operand = n). Off the diagonals of
 * x_n the gradient is 0. */
#include "ops/matmul/einsum.h"

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/function_bodies.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    LETTERS = ZT_EINSUM_LETTERS,
    LABELS = ZT_EINSUM_LABELS,
    OPERANDS = ZT_EINSUM_OPERANDS,
    RESULT = OPERANDS,
    DOTS = -1
};

static const struct zt_attr_spec attrs[] = { { "equation", ZT_ATTR_STRING, true }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "equation", ZT_ATTR_STRING, true },
                                                  { "operand", ZT_ATTR_INT, true },
                                                  { 0 } };

/* The labels of one tensor, an axis each. */
struct term {
    int count, label[ZT_MAX_RANK];
};

struct equation {
    int operands;
    struct term term[OPERANDS + 1]; /* the output's at RESULT */
    int64_t dim[LABELS];            /* 0: label not used (an axis of size 0 has -1) */
    struct zt_shape out;
};

/* ---- reading an equation ---- */

static bool fail_equation(const struct zt_graph *g, int node, const char *text, const char *why, struct zt_err *err) {
    return zt_node_fail(g, node, err, "equation \"%s\": %s", text, why);
}

/* Letters in ASCII order, so that the implicit output is in order of label. */
static int label_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -2;
}

/* One term of `text` up to a comma, an arrow or the end: letters and DOTS. NULL where it is not one; else what follows.
 */
static const char *read_term(const char *text, struct term *to) {
    for (to->count = 0; *text && *text != ',' && *text != '-'; text++) {
        int label = label_of(*text);
        if (*text == ' ')
            continue;
        if (strncmp(text, "...", 3) == 0) {
            label = DOTS;
            text += 2;
        }
        if (label < DOTS || to->count == ZT_MAX_RANK)
            return NULL;
        to->label[to->count++] = label;
    }
    return text;
}

/* Replaces DOTS by the labels of `axes` axes, right-aligned. */
static bool expand_dots(struct term *t, int axes) {
    for (int i = 0; i < t->count; i++) {
        if (t->label[i] != DOTS)
            continue;
        if (t->count - 1 + axes > ZT_MAX_RANK)
            return false;
        memmove(t->label + i + axes, t->label + i + 1, sizeof *t->label * (size_t)(t->count - i - 1));
        t->count += axes - 1;
        for (int k = 0; k < axes; k++)
            t->label[i + k] = LABELS - axes + k;
        i += axes - 1;
    }
    return true;
}

static int dots_in(const struct term *t) {
    int dots = 0;
    for (int i = 0; i < t->count; i++)
        dots += t->label[i] == DOTS;
    return dots;
}

/* Binds the labels of operand `n` to its dims. */
static bool bind(struct equation *e, int n, const struct zt_shape *shape) {
    struct term *t = &e->term[n];
    int dots = dots_in(t);
    if (dots > 1 || (dots ? shape->rank < t->count - 1 : shape->rank != t->count) ||
        !expand_dots(t, shape->rank - (t->count - dots)))
        return false;
    for (int k = 0; k < t->count; k++) {
        int64_t *dim = &e->dim[t->label[k]], size = shape->dim[k] == 0 ? -1 : shape->dim[k];
        if (*dim > 1 && size != *dim && size != 1)
            return false;
        if (*dim == -1 && size > 1)
            return false;
        if (*dim == 0 || *dim == 1)
            *dim = size;
    }
    return true;
}

/* The output without an arrow: ellipsis axes, then the letters that appear once, in order. */
static void implicit_output(struct equation *e) {
    int seen[LABELS] = { 0 };
    struct term *out = &e->term[RESULT];
    for (int n = 0; n < e->operands; n++)
        for (int k = 0; k < e->term[n].count; k++)
            seen[e->term[n].label[k]]++;
    out->count = 0;
    for (int label = LETTERS; label < LABELS; label++)
        if (seen[label] && out->count < ZT_MAX_RANK)
            out->label[out->count++] = label;
    for (int label = 0; label < LETTERS; label++)
        if (seen[label] == 1 && out->count < ZT_MAX_RANK)
            out->label[out->count++] = label;
}

static bool explicit_output(struct equation *e) {
    int axes = 0;
    for (int label = LETTERS; label < LABELS; label++)
        axes += e->dim[label] != 0;
    bool seen[LABELS] = { false };
    struct term *out = &e->term[RESULT];
    if (dots_in(out) > 1 || !expand_dots(out, axes))
        return false;
    for (int k = 0; k < out->count; k++) {
        if (seen[out->label[k]] || e->dim[out->label[k]] == 0)
            return false;
        seen[out->label[k]] = true;
    }
    return true;
}

static bool read_equation(const struct zt_graph *g, int node, const struct zt_shape *const *shapes, int operands,
                          struct equation *e, struct zt_err *err) {
    const char *text = zt_attr_text(g->nodes[node], "equation", ""), *at = text;
    memset(e, 0, sizeof *e);
    e->operands = operands;
    if (operands > OPERANDS)
        return zt_node_fail(g, node, err, "has %d operands, at most %d are supported", operands, OPERANDS);
    for (int n = 0; n < operands; n++) {
        at = read_term(n ? at + 1 : at, &e->term[n]);
        if (!at || (n + 1 < operands && *at != ','))
            return fail_equation(g, node, text, "its terms are not those of the inputs", err);
        if (!bind(e, n, shapes[n]))
            return fail_equation(g, node, text, "a term does not fit the shape of its input", err);
    }
    if (*at == '\0')
        implicit_output(e);
    else if (strncmp(at, "->", 2) != 0 || !(at = read_term(at + 2, &e->term[RESULT])) || *at || !explicit_output(e))
        return fail_equation(g, node, text, "its output term is not one of the operands' labels", err);
    e->out.rank = e->term[RESULT].count;
    for (int k = 0; k < e->out.rank; k++)
        e->out.dim[k] = zt_max_int(e->dim[e->term[RESULT].label[k]], 0);
    return true;
}

/* ---- shape rules ---- */

static bool read_node(const struct zt_graph *g, int node, int first, struct equation *e, struct zt_err *err) {
    const struct zt_shape *shapes[OPERANDS];
    int operands = g->nodes[node]->in_count - first;
    for (int n = 0; n < operands && n < OPERANDS; n++) {
        const struct zt_value *v = zt_in(g, node, first + n);
        if (!v)
            return zt_node_fail(g, node, err, "input %d is missing", first + n);
        shapes[n] = &v->shape;
    }
    return read_equation(g, node, shapes, operands, e, err);
}

static bool einsum_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct equation e;
    if (!read_node(g, node, 0, &e, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &e.out);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct equation e;
    int64_t operand = zt_attr_int(g->nodes[node], "operand", 0);
    if (!read_node(g, node, 1, &e, err))
        return false;
    if (operand < 0 || operand >= e.operands || !zt_shape_equal(&e.out, &zt_in(g, node, 0)->shape))
        return zt_node_fail(g, node, err, "operand %lld or the shape of its gradient do not fit", (long long)operand);
    const struct zt_value *x = zt_in(g, node, 1 + (int)operand);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

static double points(const struct equation *e) {
    double count = 1;
    for (int label = 0; label < LABELS; label++)
        count *= e->dim[label] ? (double)zt_max_int(e->dim[label], 0) : 1;
    return count;
}

static double einsum_flops(const struct zt_graph *g, int node) {
    struct equation e;
    struct zt_err err = { 0 };
    return read_node(g, node, 0, &e, &err) ? points(&e) * e.operands : 0;
}

static double grad_flops(const struct zt_graph *g, int node) {
    struct equation e;
    struct zt_err err = { 0 };
    return read_node(g, node, 1, &e, &err) ? points(&e) * e.operands : 0;
}

/* ---- the contraction ---- */

static int64_t step_of(const struct term *t, const struct zt_shape *shape, int label) {
    int64_t stride[ZT_MAX_RANK], step = 0;
    zt_shape_strides(shape, stride);
    for (int k = 0; k < t->count; k++)
        if (t->label[k] == label && shape->dim[k] != 1)
            step += stride[k];
    return step;
}

static bool has_label(const struct term *t, const struct zt_shape *shape, int label, int64_t dim) {
    for (int k = 0; k < t->count; k++)
        if (t->label[k] == label && shape->dim[k] == dim)
            return true;
    return false;
}

/* The axes of the result first, then those summed over; terms[n] belongs to operand n, terms[RESULT] to the result. */
static void plan(struct zt_contraction *c, const struct zt_graph *g, int node, const struct equation *e,
                 const struct term *const *terms) {
    const struct zt_shape *result = &zt_out(g, node, 0)->shape;
    c->axes = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int label = 0; label < LABELS; label++) {
            int64_t dim = zt_max_int(e->dim[label], 0);
            bool kept = has_label(terms[RESULT], result, label, dim);
            if (e->dim[label] == 0 || kept != (pass == 0))
                continue;
            c->dim[c->axes] = dim;
            for (int n = 0; n < c->operands; n++)
                c->step[n][c->axes] = step_of(terms[n], &zt_in(g, node, c->in[n])->shape, label);
            c->step[c->operands][c->axes++] = kept ? step_of(terms[RESULT], result, label) : 0;
        }
        if (pass == 0)
            c->kept = c->axes;
    }
}

bool zt_contraction_read(const struct zt_graph *g, int node, bool grad, struct zt_contraction *to, struct zt_err *err) {
    struct equation e;
    const struct term *terms[OPERANDS + 1];
    if (!read_node(g, node, grad, &e, err))
        return false;
    int wanted = grad ? (int)zt_attr_int(g->nodes[node], "operand", 0) : RESULT;
    to->operands = e.operands;
    terms[RESULT] = &e.term[wanted];
    for (int n = 0; n < e.operands; n++) {
        to->in[n] = n == wanted ? 0 : grad + n; /* dy takes the place of the operand whose gradient is made */
        terms[n] = n == wanted ? &e.term[RESULT] : &e.term[n];
    }
    plan(to, g, node, &e, terms);
    return true;
}

/* A contraction with its tensors. */
struct contraction {
    struct zt_contraction c;
    struct zt_view operand[OPERANDS], result;
};

/* Adds to offset[] what point `index` of axes [from, to) (row-major) moves each tensor by. */
static void move(const struct zt_contraction *c, int64_t index, int from, int to, int64_t *offset) {
    for (int a = to - 1; a >= from; a--) {
        int64_t i = index % c->dim[a];
        index /= c->dim[a];
        for (int n = 0; n < c->operands; n++)
            offset[n] += i * c->step[n][a];
        offset[c->operands] += i * c->step[c->operands][a];
    }
}

static double run_sum(const struct contraction *job, const int64_t *offset, int64_t from, int64_t count) {
    const struct zt_contraction *c = &job->c;
    double product[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK], sum = 0;
    int last = c->axes - 1;
    for (int n = 0; n < c->operands; n++) {
        const struct zt_view *v = &job->operand[n];
        zt_load_block(v->dtype, v->data, offset[n] + from * c->step[n][last], c->step[n][last], count, n ? x : product);
        for (int64_t i = 0; n && i < count; i++)
            product[i] *= x[i];
    }
    for (int64_t i = 0; i < count; i++)
        sum += product[i];
    return sum;
}

/* Integers wrap as the type does. */
static uint64_t run_sum_int(const struct contraction *job, const int64_t *offset, int64_t from, int64_t count) {
    const struct zt_contraction *c = &job->c;
    uint64_t sum = 0;
    for (int64_t i = from; i < from + count; i++) {
        uint64_t product = 1;
        for (int n = 0; n < c->operands; n++)
            product *= (uint64_t)zt_load_int(job->operand[n].dtype, job->operand[n].data,
                                             offset[n] + i * c->step[n][c->axes - 1]);
        sum += product;
    }
    return sum;
}

/* One element of the result: the last axis in runs, the other summed axes around it. */
static void contract_point(const struct contraction *job, int64_t index) {
    const struct zt_contraction *c = &job->c;
    int64_t start[OPERANDS + 1] = { 0 }, outer = 1, length = c->dim[c->axes - 1];
    bool integers = zt_dtype_in(job->result.dtype, ZT_ANY_INT);
    double sum = 0;
    uint64_t wrapped = 0;
    move(c, index, 0, c->kept, start);
    for (int a = c->kept; a < c->axes - 1; a++)
        outer *= c->dim[a];
    for (int64_t o = 0; o < outer; o++) {
        int64_t offset[OPERANDS + 1];
        memcpy(offset, start, sizeof offset);
        move(c, o, c->kept, c->axes - 1, offset);
        for (int64_t at = 0; at < length; at += ZT_ELEMENT_BLOCK) {
            int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, length - at);
            if (integers)
                wrapped += run_sum_int(job, offset, at, count);
            else
                sum += run_sum(job, offset, at, count);
        }
    }
    if (integers)
        zt_store_int(job->result.dtype, job->result.data, start[c->operands], (int64_t)wrapped);
    else
        zt_store_double(job->result.dtype, job->result.data, start[c->operands], sum);
}

static void contract(struct contraction *job, int threads) {
    struct zt_contraction *c = &job->c;
    if (c->axes == c->kept) /* nothing is summed: an axis of one */
        c->dim[c->axes++] = 1;
    int64_t count = 1;
    double summed = 1;
    for (int a = 0; a < c->kept; a++)
        count *= c->dim[a];
    for (int a = c->kept; a < c->axes; a++)
        summed *= (double)c->dim[a];
#pragma omp parallel for num_threads(zt_threads_worth(threads, (double)count *summed)) schedule(static)
    for (int64_t i = 0; i < count; i++)
        contract_point(job, i);
}

static bool run(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct contraction job = { .result = call->out[0] };
    if (!zt_contraction_read(call->graph, zt_call_node(call), grad, &job.c, err))
        return false;
    for (int n = 0; n < job.c.operands; n++)
        job.operand[n] = call->in[job.c.in[n]];
    size_t bytes = (size_t)zt_shape_count(&job.result.shape) * zt_dtype_bytes(job.result.dtype);
    if (bytes)
        memset(job.result.data, 0, bytes);
    contract(&job, call->threads);
    return true;
}

static bool einsum_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, false, err);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, true, err);
}

/* A struct zt_contraction for other back ends, of either row. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_contraction_read(g, node, g->nodes[node]->domain[0] != '\0', to, err);
}

/* Results and sums of no more axes than launchers take. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_contraction c;
    struct zt_err err = { 0 };
    return zt_cuda_floats(g, node) && describe(g, node, &c, &err) && c.kept <= ZT_MAX_RANK &&
           c.axes - c.kept <= ZT_MAX_RANK;
}

static bool einsum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[OPERANDS + 1] = { zt_grad_out(b, node, 0) };
    memcpy(in + 1, n->in, sizeof *in * (size_t)n->in_count);
    for (int i = 0; i < n->in_count; i++) {
        if (!zt_grad_wanted(b, node, i))
            continue;
        struct zt_attr operand = { .name = "operand", .type = ZT_ATTR_INT, .i = i };
        int out;
        zt_emit_node(b, &(struct zt_emission){ "EinsumGrad", "ztrain", in, n->in_count + 1, n, &operand, 1 }, &out, 1);
        zt_grad_give(b, node, i, out);
    }
    return true;
}

#define ROW                                                                                                            \
    .since = 1, .min_out = 1, .max_out = 1, .flags = ZT_OP_VARIADIC, .in_types = { ZT_ANY_NUMBER }, .same_type = ~0u

const struct zt_op zt_op_einsum = {
    .name = "Einsum",
    .domain = "",
    ROW,
    .min_in = 1,
    .attrs = attrs,
    .infer = einsum_infer,
    .grad = einsum_grad,
    .flops = einsum_flops,
    .kernel = { [ZT_REF] = { .run = einsum_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_einsum_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(takes_cuda, describe) },
};
/* (dy, the operands) -> the gradient of one of them; its own contents are not read */
const struct zt_op zt_op_einsum_grad = {
    .name = "EinsumGrad",
    .domain = "ztrain",
    ROW,
    .min_in = 2,
    .attrs = grad_attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = zt_einsum_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_einsum_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(takes_cuda, describe) },
};
