#include "graph/passes/rebind.h"

#include "base/vec.h"
#include "graph/ir/op.h"
#include "graph/passes/infer.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 256, LOOK_BACK = 256, NUMBERS = 64 };

/* A change before a node is inferred: of number `entry` of its input `in`; if `in` is -1, of axis `entry` of all its
 * constant tensors, because a node with several states needs them at once. */
struct edit {
    const char *node;
    int in, entry;
};

struct rebind {
    const struct zt_graph *reference;
    int64_t from, to;
    ZT_VEC(struct edit) edits;
    ZT_VEC(int64_t)
    lead; /* by value: what of the axis that follows the batch stands before the batch: T of [T * N, C]; 0: nothing */
    int at, steps; /* the node looked at last, and how many were */
};

/* ---- shapes at both batches ---- */

static const struct zt_value *at_exported(const struct rebind *r, const struct zt_value *v) {
    int id = zt_graph_find(r->reference, v->name);
    return id < 0 || r->reference->values[id]->shape.rank < 0 ? NULL : r->reference->values[id];
}

static int64_t scaled(const struct rebind *r, int64_t dim) {
    return dim % r->from ? -1 : dim / r->from * r->to;
}

/* The axis of `v` that follows the batch; -1: none, or not one alone. */
static int batch_axis(const struct rebind *r, const struct zt_value *v) {
    const struct zt_value *was = at_exported(r, v);
    int axis = -1;
    for (int k = 0; was && was->shape.rank == v->shape.rank && k < v->shape.rank; k++) {
        if (was->shape.dim[k] == v->shape.dim[k])
            continue;
        if (axis >= 0 || v->shape.dim[k] != scaled(r, was->shape.dim[k]))
            return -1;
        axis = k;
    }
    return axis;
}

/* ---- constants ---- */

static bool is_int64s(const struct zt_value *v) {
    return v->dtype == ZT_INT64 && v->data && zt_shape_count(&v->shape) <= NUMBERS;
}

/* Added values have separate names: generated names are numbered, and must be the same as in the reference graph. */
static const char added[] = "rebound";

/* Bytes of one slice along `axis`, and the number of outer repetitions. */
static size_t slice_bytes(const struct zt_value *v, int axis, int64_t *blocks) {
    size_t bytes = zt_dtype_bytes(v->dtype);
    *blocks = 1;
    for (int k = 0; k < v->shape.rank; k++) {
        if (k < axis)
            *blocks *= v->shape.dim[k];
        if (k > axis)
            bytes *= (size_t)v->shape.dim[k];
    }
    return bytes;
}

static bool slices_are_equal(const struct zt_value *v, int axis) {
    int64_t blocks, count = v->shape.dim[axis];
    size_t slice = slice_bytes(v, axis, &blocks);
    const char *at = v->data;
    for (int64_t b = 0; b < blocks; b++, at += (size_t)count * slice)
        for (int64_t i = 1; i < count; i++)
            if (memcmp(at, at + (size_t)i * slice, slice) != 0)
                return false;
    return true;
}

/* The value with `to` slices along an axis whose slices are equal. */
static int stretched(struct zt_graph *g, int value, int axis, int64_t to) {
    const struct zt_value *v = g->values[value];
    int64_t blocks;
    size_t slice = slice_bytes(v, axis, &blocks), step = (size_t)v->shape.dim[axis] * slice;
    struct zt_shape shape = v->shape;
    shape.dim[axis] = to;
    char *data = zt_arena_alloc(g->arena, (size_t)blocks * (size_t)to * slice);
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < to; i++)
            memcpy(data + (size_t)(b * to + i) * slice, (const char *)v->data + (size_t)b * step, slice);
    enum zt_dtype dtype = v->dtype;
    int id = zt_graph_add_value(g, added, dtype, &shape);
    g->values[id]->origin = ZT_FROM_CONSTANT;
    g->values[id]->data = data;
    return id;
}

/* The value with another number at `entry`. */
static int with_number(struct zt_graph *g, int value, int entry, int64_t number) {
    struct zt_shape shape = g->values[value]->shape;
    int64_t numbers[NUMBERS];
    memcpy(numbers, g->values[value]->data, (size_t)zt_shape_count(&shape) * sizeof *numbers);
    numbers[entry] = number;
    return zt_graph_add_constant(g, added, ZT_INT64, &shape, numbers);
}

static bool holds_sizes(const struct zt_node *n, int in) {
    return in < 32 && (n->op->shape_in | n->op->size_in) >> in & 1;
}

static bool can_stretch(const struct rebind *r, const struct zt_graph *g, int node, int in, int axis) {
    const struct zt_value *v = zt_in(g, node, in);
    return v && zt_value_is_constant(v) && !holds_sizes(g->nodes[node], in) && axis < v->shape.rank &&
           v->shape.dim[axis] == r->from && zt_shape_count(&v->shape) > 0 && slices_are_equal(v, axis);
}

static void apply_edits(const struct rebind *r, struct zt_graph *g, int node) {
    for (int i = 0; i < r->edits.count; i++) {
        const struct edit *e = &r->edits.at[i];
        int *in = g->nodes[node]->in;
        if (strcmp(e->node, g->nodes[node]->name) != 0)
            continue;
        if (e->in >= 0)
            in[e->in] = with_number(g, in[e->in], e->entry, r->to);
        for (int k = 0; e->in < 0 && k < g->nodes[node]->in_count; k++)
            if (can_stretch(r, g, node, k, e->entry))
                in[k] = stretched(g, in[k], e->entry, r->to);
    }
}

/* ---- what follows from the input's batch axis ---- */

/* Whether the constant is the same at both batches: one that was computed from shapes knows the batch already. */
static bool is_baked(const struct rebind *r, const struct zt_value *v) {
    const struct zt_value *was = at_exported(r, v);
    int64_t count = zt_shape_count(&v->shape);
    return !was || !was->data ||
           (zt_shape_equal(&was->shape, &v->shape) && memcmp(was->data, v->data, (size_t)count * sizeof(int64_t)) == 0);
}

static int64_t lead_of(const struct rebind *r, int value) {
    return value < r->lead.count && r->lead.at[value] ? r->lead.at[value] : 1;
}

static void set_lead(struct rebind *r, int value, int64_t lead) {
    while (r->lead.count <= value)
        zt_vec_push(&r->lead, 0);
    r->lead.at[value] = lead;
}

/* The axis of a view in which the batch lies that begins at element `start`: one that is the batch and nothing else, at
 * best in the place it had, else the first that holds it. *lead becomes the factor before the batch in that axis. */
static int view_axis(const struct rebind *r, int64_t start, int before, const struct zt_shape *to, int64_t *lead) {
    int64_t at = 1;
    int pure = -1, holds = -1;
    for (int k = 0; k < to->rank; at *= to->dim[k++]) {
        if (at == start && to->dim[k] == r->from && (pure < 0 || k == before))
            pure = k;
        if (holds < 0 && at <= start && at * to->dim[k] >= start * r->from && start % at == 0) {
            holds = k;
            *lead = start / at;
        }
    }
    *lead = pure >= 0 ? 1 : *lead;
    return pure >= 0 ? pure : holds;
}

/* A view: the numbers become the shape that the result must have. */
static void rebind_view(struct rebind *r, struct zt_graph *g, int node, int in, int axis) {
    const struct zt_value *was = at_exported(r, zt_in(g, node, 0)), *result = at_exported(r, zt_out(g, node, 0));
    if (!result || zt_shape_count(&result->shape) <= 0)
        return;
    struct zt_shape shape = result->shape;
    int64_t start = lead_of(r, g->nodes[node]->in[0]), lead = 1;
    for (int k = 0; k < axis; k++)
        start *= was->shape.dim[k];
    int k = view_axis(r, start, axis, &shape, &lead);
    if (k < 0 || scaled(r, shape.dim[k]) < 0)
        return;
    shape.dim[k] = scaled(r, shape.dim[k]);
    set_lead(r, g->nodes[node]->out[0], lead);
    g->nodes[node]->in[in] = zt_graph_add_ints(g, added, shape.dim, shape.rank);
}

/* A shape that the input is fitted to, from its last axis on. */
static void rebind_aligned(struct rebind *r, struct zt_graph *g, int node, int in, int axis) {
    const struct zt_value *numbers = zt_in(g, node, in);
    int64_t entry = zt_shape_count(&numbers->shape) - (zt_in(g, node, 0)->shape.rank - axis);
    if (entry >= 0 && ((const int64_t *)numbers->data)[entry] == r->from)
        g->nodes[node]->in[in] = with_number(g, g->nodes[node]->in[in], (int)entry, r->to);
}

static bool before(void *with, struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    struct rebind *r = with;
    const int64_t made = g->made;
    r->at = node;
    r->steps++;
    apply_edits(r, g, node);
    const struct zt_op *op = g->nodes[node]->op;
    for (int i = 1; i < g->nodes[node]->in_count && op->shape_in >> i; i++) {
        if (!(op->shape_in >> i & 1) || !zt_in(g, node, i) || !is_int64s(zt_in(g, node, i)) || !zt_in(g, node, 0) ||
            !is_baked(r, zt_in(g, node, i)))
            continue;
        int axis = batch_axis(r, zt_in(g, node, 0));
        if (axis >= 0)
            (op->flags & ZT_OP_VIEW ? rebind_view : rebind_aligned)(r, g, node, i, axis);
    }
    g->made = made;
    return true;
}

/* ---- the check ---- */

static bool is_float(const struct zt_value *v) {
    return zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
}

static bool reads_batch(const struct rebind *r, const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && is_float(zt_in(g, node, i)) && batch_axis(r, zt_in(g, node, i)) >= 0)
            return true;
    return false;
}

/* Every dim is what it was or scaled; and a result that has an axis of the exported batch has it from somewhere else
 * than the batch, which it reads: the node cuts or fills it. */
static bool check_output(const struct rebind *r, struct zt_graph *g, int node, const struct zt_value *v,
                         struct zt_err *err) {
    const struct zt_value *was = at_exported(r, v);
    char before_text[ZT_SHAPE_TEXT], now_text[ZT_SHAPE_TEXT];
    bool follows = !was || was->shape.rank == v->shape.rank, scales = false, fixed = false;
    for (int k = 0; was && follows && k < v->shape.rank; k++) {
        int64_t old = was->shape.dim[k], now = v->shape.dim[k];
        follows = now == old || now == scaled(r, old);
        scales |= now != old;
        fixed |= now == old && old == r->from && r->from > 1;
    }
    if (!was || (follows && (scales || !fixed || !is_float(v) || !reads_batch(r, g, node))))
        return true;
    return zt_node_fail(g, node, err,
                        "it fixes the batch: its output \"%s\" has shape %s for %lld samples and %s for %lld", v->name,
                        zt_shape_text(&was->shape, before_text), (long long)r->from, zt_shape_text(&v->shape, now_text),
                        (long long)r->to);
}

/* Passes the factor before the batch on to outputs in which the batch axis has the size that it has in the input. */
static void pass_lead(struct rebind *r, const struct zt_graph *g, int node) {
    const struct zt_value *x = NULL;
    int axis = -1;
    for (int i = 0; axis < 0 && i < g->nodes[node]->in_count; i++) {
        x = zt_in(g, node, i);
        axis = x ? batch_axis(r, x) : -1;
    }
    for (int i = 0; axis >= 0 && i < g->nodes[node]->out_count; i++) {
        const struct zt_value *y = zt_out(g, node, i);
        int to = y ? batch_axis(r, y) : -1;
        int id = g->nodes[node]->out[i];
        bool unset = id >= r->lead.count || !r->lead.at[id]; /* a view knows better */
        if (to >= 0 && unset && y->shape.dim[to] == x->shape.dim[axis])
            set_lead(r, id, lead_of(r, x->id));
    }
}

static bool after(void *with, struct zt_graph *g, int node, struct zt_err *err) {
    pass_lead(with, g, node);
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        if (zt_out(g, node, i) && !check_output(with, g, node, zt_out(g, node, i), err))
            return false;
    return true;
}

/* ---- looking for the constant that fixes the batch ---- */

struct candidates {
    struct zt_arena *arena; /* names outlive the graph that was tried */
    ZT_VEC(struct edit) list;
};

static void add_candidate(const struct rebind *r, const struct zt_graph *g, int node, int in, int entry,
                          struct candidates *to) {
    for (int i = 0; i < r->edits.count; i++)
        if (r->edits.at[i].in == in && r->edits.at[i].entry == entry &&
            strcmp(r->edits.at[i].node, g->nodes[node]->name) == 0)
            return;
    zt_vec_push(&to->list, (struct edit){ zt_arena_strdup(to->arena, g->nodes[node]->name), in, entry });
}

/* Numbers that are the exported batch; of the node that failed, tensors too. */
static void candidates_at(const struct rebind *r, const struct zt_graph *g, int node, bool failed,
                          struct candidates *to) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (!v || !zt_value_is_constant(v))
            continue;
        if (holds_sizes(g->nodes[node], i)) {
            for (int64_t k = 0; is_int64s(v) && k < zt_shape_count(&v->shape); k++)
                if (((const int64_t *)v->data)[k] == r->from)
                    add_candidate(r, g, node, i, (int)k, to);
        }
        for (int k = 0; failed && k < v->shape.rank; k++)
            if (can_stretch(r, g, node, i, k))
                add_candidate(r, g, node, -1, k, to);
    }
}

/* Searches backwards from the failed node. */
static void find_candidates(const struct rebind *r, const struct zt_graph *g, struct candidates *to) {
    bool *seen = zt_calloc((size_t)g->node_count + 1, sizeof *seen);
    int queue[LOOK_BACK] = { r->at }, count = 1;
    seen[r->at] = true;
    for (int k = 0; k < count; k++) {
        const struct zt_node *n = g->nodes[queue[k]];
        if (n->op && n->op->infer)
            candidates_at(r, g, queue[k], k == 0, to);
        for (int i = 0; i < n->in_count && count < LOOK_BACK; i++) {
            int from = n->in[i] < 0 ? -1 : g->values[n->in[i]]->producer;
            if (from >= 0 && !seen[from]) {
                seen[from] = true;
                queue[count++] = from;
            }
        }
    }
    free(seen);
}

static bool infer(struct rebind *r, struct zt_graph *g, size_t fold_limit, struct zt_err *err) {
    const struct zt_watch watch = { r, before, after };
    r->steps = 0;
    r->lead.count = 0;
    return zt_pass_infer_watched(g, fold_limit, &watch, err);
}

/* Tries with the edits there are; where that fails, what might mend it. */
static bool attempt(struct rebind *r, const struct zt_graph *g, size_t fold_limit, struct candidates *to,
                    struct zt_err *err) {
    struct zt_graph *copy = zt_graph_clone(g);
    bool ok = infer(r, copy, fold_limit, err);
    to->list.count = 0;
    if (!ok)
        find_candidates(r, copy, to);
    zt_graph_destroy(copy);
    return ok;
}

/* Adds the first edit that leads past the node at which the last attempt stopped; `next` gets what may follow. */
static bool extend(struct rebind *r, const struct zt_graph *g, size_t fold_limit, const struct candidates *from,
                   struct candidates *next, int *tries) {
    int reached = r->steps;
    for (int i = 0; i < from->list.count && *tries < TRIES; i++, ++*tries) {
        struct zt_err ignored = { 0 };
        zt_vec_push(&r->edits, from->list.at[i]);
        if (attempt(r, g, fold_limit, next, &ignored) || r->steps > reached)
            return true;
        r->edits.count--;
    }
    return false;
}

bool zt_pass_rebind(struct zt_graph *g, const struct zt_graph *reference, int64_t from, int64_t to, size_t fold_limit,
                    struct zt_err *err) {
    struct rebind r = { .reference = reference, .from = from, .to = to };
    struct candidates now = { .arena = g->arena }, next = { .arena = g->arena };
    struct zt_err ignored = { 0 };
    bool done = attempt(&r, g, fold_limit, &now, &ignored);
    for (int tries = 0; !done && now.list.count && extend(&r, g, fold_limit, &now, &next, &tries);) {
        struct candidates swap = now;
        now = next;
        next = swap;
    }
    bool ok = infer(&r, g, fold_limit, err);
    zt_vec_finish(&r.edits);
    zt_vec_finish(&r.lead);
    zt_vec_finish(&now.list);
    zt_vec_finish(&next.list);
    return ok;
}
