/* Scan of opset 8, where every tensor has a batch axis in front: a Scan of opset 9 for each sample of the batch.
 *
 *     v.., s.. = Scan(lengths, v.., x..)      for (b = 0; b < B; b++) v[b].., s[b].. = Scan(v[b].., x[b][0 :
 * lengths[b]]..);
 *
 * Without `lengths` every sample has all T slices. Of a shorter sample the last T - lengths[b] slices of s are zeros
 * (the standard leaves them undefined). `directions` 1 reads the slices of a sample backwards. */
#include "graph/passes/lower.h"
#include "ops/kernel/shape.h"

#include <limits.h>
#include <string.h>

/* The node's counts: inputs are lengths, states, scans; B samples of T slices. */
struct batched {
    int states, scans, samples, slices;
    const struct zt_graph *body;
};

static const struct zt_value *input(const struct zt_expansion *x, int i) {
    return zt_in(x->g, x->node, 1 + i);
}

static bool read_counts(const struct zt_expansion *x, struct batched *s, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const int inputs = n->in_count - n->captured - 1;
    const int64_t scans = zt_attr_int(n, "num_scan_inputs", 0);
    if (scans < 1 || scans > inputs)
        return zt_node_fail(x->g, x->node, err, "num_scan_inputs is %lld of %d inputs", (long long)scans, inputs);
    *s = (struct batched){ .scans = (int)scans, .states = inputs - (int)scans, .body = zt_expand_subgraph(x, "body") };
    if (s->body->input_count != inputs || s->body->output_count < s->states || s->body->output_count < n->out_count)
        return zt_node_fail(x->g, x->node, err, "has %d inputs and %d outputs, its body has %d and %d", inputs,
                            n->out_count, s->body->input_count, s->body->output_count);
    return true;
}

/* All inputs must have the batch, all scan inputs the same number of slices. */
static bool read_sizes(const struct zt_expansion *x, struct batched *s, struct zt_err *err) {
    int64_t samples = -1, slices = -1;
    for (int i = 0; i < s->states + s->scans; i++) {
        const struct zt_value *v = input(x, i);
        const bool scan = i >= s->states;
        if (!v || v->list || v->shape.rank < 1 + scan)
            return zt_node_fail(x->g, x->node, err, "input %d is missing, or has no %s axis", 1 + i,
                                scan ? "batch or sequence" : "batch");
        samples = samples < 0 ? v->shape.dim[0] : samples;
        slices = scan && slices < 0 ? v->shape.dim[1] : slices;
        if (v->shape.dim[0] != samples || (scan && v->shape.dim[1] != slices))
            return zt_node_fail(x->g, x->node, err, "\"%s\" is not of %lld samples%s", v->name, (long long)samples,
                                scan ? " with as many slices as its first scan input" : "");
    }
    if (samples < 1 || samples > INT_MAX / 4 || slices > INT_MAX / 4)
        return zt_node_fail(x->g, x->node, err, "has a batch of %lld samples of %lld slices", (long long)samples,
                            (long long)slices);
    s->samples = (int)samples;
    s->slices = (int)slices;
    return true;
}

/* The slices of every sample. */
static bool read_lengths(const struct zt_expansion *x, const struct batched *s, int64_t *lengths, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, 0);
    for (int b = 0; b < s->samples; b++)
        lengths[b] = s->slices;
    if (!v)
        return true;
    if (v->list || v->dtype != ZT_INT64 || zt_shape_count(&v->shape) != s->samples)
        return zt_node_fail(x->g, x->node, err, "its sequence lengths \"%s\" are not %d integers", v->name, s->samples);
    if (!v->data)
        return zt_node_fail(x->g, x->node, err,
                            "its sequence lengths \"%s\" depend on data: only such that follow from shapes and "
                            "constants are supported in training",
                            v->name);
    for (int b = 0; b < s->samples; b++) {
        lengths[b] = zt_load_int(v->dtype, v->data, b);
        if (lengths[b] < 0 || lengths[b] > s->slices)
            return zt_node_fail(x->g, x->node, err, "sequence length %d is %lld, wants 0 to %d", b,
                                (long long)lengths[b], s->slices);
    }
    return true;
}

static bool emit(struct zt_expansion *x, const char *op, const int *in, int in_count, int *out, struct zt_err *err) {
    return zt_expand_emit(x, &(struct zt_expand_node){ op, in, in_count }, out, 1, err);
}

/* parts[b * stride]: sample b of an input, without the batch axis. */
static bool split(struct zt_expansion *x, const struct batched *s, int value, int *parts, int stride,
                  struct zt_err *err) {
    int *whole = ZT_NEW_N(x->g->arena, int, s->samples);
    int64_t *ones = ZT_NEW_N(x->g->arena, int64_t, s->samples);
    for (int b = 0; b < s->samples; b++) {
        whole[b] = -1;
        ones[b] = 1;
    }
    const int in[2] = { value, zt_graph_add_ints(x->g, NULL, ones, s->samples) };
    const int axis = zt_graph_add_ints(x->g, NULL, &(int64_t){ 0 }, 1);
    if (!zt_expand_emit(x, &(struct zt_expand_node){ "Split", in, 2 }, whole, s->samples, err))
        return false;
    for (int b = 0; b < s->samples; b++)
        if (!emit(x, "Squeeze", (const int[]){ whole[b], axis }, 2, &parts[b * stride], err))
            return false;
    return true;
}

/* The first `length` slices. */
static bool shorten(struct zt_expansion *x, int *value, int64_t length, struct zt_err *err) {
    const int zero = zt_graph_add_ints(x->g, NULL, &(int64_t){ 0 }, 1);
    const int in[4] = { *value, zero, zt_graph_add_ints(x->g, NULL, &length, 1), zero };
    *value = -1;
    return emit(x, "Slice", in, 4, value, err);
}

/* Zeros behind the slices that there are. */
static bool lengthen(struct zt_expansion *x, int *value, int64_t more, struct zt_err *err) {
    const int zero = zt_graph_add_ints(x->g, NULL, &(int64_t){ 0 }, 1);
    const int64_t pads[2] = { 0, more };
    const int in[4] = { *value, zt_graph_add_ints(x->g, NULL, pads, 2), -1, zero };
    *value = -1;
    return emit(x, "Pad", in, 4, value, err);
}

/* The Scan of one sample, which reads in[0..states + scans - 1]. */
static bool scan_sample(struct zt_expansion *x, const struct batched *s, const int *in, int *out, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const int count = s->states + s->scans, captured = n->captured;
    const struct zt_attr *directions = zt_node_attr(n, "directions");
    int *all = ZT_NEW_N(x->g->arena, int, count + captured + 1);
    memcpy(all, in, (size_t)count * sizeof *all);
    for (int i = 0; i < captured; i++)
        all[count + i] = n->in[n->in_count - captured + i];
    struct zt_attr attrs[3] = { *zt_node_attr(n, "body"), *zt_node_attr(n, "num_scan_inputs") };
    if (directions) {
        attrs[2] = *directions;
        attrs[2].name = "scan_input_directions";
    }
    /* Rows check the number of inputs without the captured ones, which a node from a file has set before. */
    if (!zt_expand_emit(x, &(struct zt_expand_node){ "Scan", all, count + captured, attrs, directions ? 3 : 2 }, out,
                        n->out_count, err))
        return false;
    x->g->nodes[x->g->node_count - 1]->captured = captured;
    return true;
}

/* Output k of all samples along a new batch axis. */
static bool stack(struct zt_expansion *x, const struct batched *s, int *made, int k, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    int to = n->out[k], *pieces = ZT_NEW_N(x->g->arena, int, s->samples);
    const int axis = zt_graph_add_ints(x->g, NULL, &(int64_t){ 0 }, 1);
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT };
    for (int b = 0; b < s->samples; b++) {
        pieces[b] = -1;
        if (!emit(x, "Unsqueeze", (const int[]){ made[b * n->out_count + k], axis }, 2, &pieces[b], err))
            return false;
    }
    return to < 0 ||
           zt_expand_emit(x, &(struct zt_expand_node){ "Concat", pieces, s->samples, &along, 1 }, &to, 1, err);
}

/* The inputs of all samples, sample after sample. */
static bool split_all(struct zt_expansion *x, const struct batched *s, const int64_t *lengths, int *in,
                      struct zt_err *err) {
    const int count = s->states + s->scans;
    for (int i = 0; i < count; i++) {
        if (!split(x, s, input(x, i)->id, in + i, count, err))
            return false;
        for (int b = 0; i >= s->states && b < s->samples; b++)
            if (lengths[b] < s->slices && !shorten(x, &in[b * count + i], lengths[b], err))
                return false;
    }
    return true;
}

static bool scan_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    struct batched s;
    if (!read_counts(x, &s, err) || !read_sizes(x, &s, err) || !zt_expand_fits(x, "body", s.samples, 4, err))
        return false;
    const int count = s.states + s.scans;
    int64_t *lengths = ZT_NEW_N(x->g->arena, int64_t, s.samples);
    int *in = ZT_NEW_N(x->g->arena, int, s.samples *count), *out = ZT_NEW_N(x->g->arena, int, s.samples * n->out_count);
    memset(in, -1, (size_t)s.samples * (size_t)count * sizeof *in);
    memset(out, -1, (size_t)s.samples * (size_t)n->out_count * sizeof *out);
    if (!read_lengths(x, &s, lengths, err) || !split_all(x, &s, lengths, in, err))
        return false;
    for (int b = 0; b < s.samples; b++) {
        int *made = out + b * n->out_count;
        if (!scan_sample(x, &s, in + b * count, made, err))
            return false;
        for (int k = s.states; lengths[b] < s.slices && k < n->out_count; k++)
            if (!lengthen(x, &made[k], s.slices - lengths[b], err))
                return false;
    }
    for (int k = 0; k < n->out_count; k++)
        if (!stack(x, &s, out, k, err))
            return false;
    return x->done = true;
}

static const struct zt_attr_spec attrs[] = {
    { "body", ZT_ATTR_GRAPH, true }, { "num_scan_inputs", ZT_ATTR_INT, true }, { "directions", ZT_ATTR_INTS }, { 0 }
};

const struct zt_op zt_op_scan_8 = {
    .name = "Scan",
    .domain = "",
    .since = 8,
    .until = 8,
    .min_out = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC | ZT_OP_LISTS,
    .attrs = attrs,
    .no_grad_in = 1 << 0,
    .expand = scan_expand,
};
