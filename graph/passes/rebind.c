#include "graph/passes/rebind.h"

#include "base/vec.h"
#include "graph/ir/op.h"
#include "graph/passes/infer.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 256, LOOK_BACK = 256, NUMBERS = 64 };

/* A change before nodes are inferred. */
enum edit_kind {
    NUMBER,  /* number `entry` of input `in` of the node `name` */
    TENSORS, /* axis `entry` of all constant tensors of the node `name`: several states are needed at once */
    ALIKE,   /* axis `entry` of the constant tensor `name` and of all that are equal to it, in all nodes */
};
struct edit {
    enum edit_kind kind;
    const char *name;
    int in, entry;
};

/* A constant that a node reads in place of another. */
struct change {
    const char *node;
    int in;
    enum zt_dtype dtype;
    struct zt_shape shape;
    const void *data;
};

struct rebind {
    const struct zt_graph *reference;
    int64_t from, to;
    const char *per_sample;
    size_t fold_limit;
    ZT_VEC(struct edit) edits;
    ZT_VEC(struct change) changes; /* of the inference that came last, in `arena` */
    struct zt_arena *arena;
    bool bounds; /* sizes that depend on data are the largest that there can be */
    bool varies; /* an attempt stopped at a node whose size depends on data, where no edit helps */
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
           scaled(r, v->shape.dim[axis]) > 0 && slices_are_equal(v, axis);
}

static void stretch_input(const struct rebind *r, struct zt_graph *g, int node, int in, int axis) {
    int *id = &g->nodes[node]->in[in];
    if (can_stretch(r, g, node, in, axis))
        *id = stretched(g, *id, axis, scaled(r, g->values[*id]->shape.dim[axis]));
}

static bool is_alike(const struct rebind *r, const char *name, const struct zt_value *v) {
    const int id = zt_graph_find(r->reference, name);
    const struct zt_value *to = id < 0 ? NULL : r->reference->values[id];
    return to && to->data && v && v->data && v->dtype == to->dtype && zt_shape_equal(&v->shape, &to->shape) &&
           memcmp(v->data, to->data, (size_t)zt_value_bytes(v)) == 0;
}

static void apply_edits(const struct rebind *r, struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    for (int i = 0; i < r->edits.count; i++) {
        const struct edit *e = &r->edits.at[i];
        const bool here = e->kind != ALIKE && strcmp(e->name, n->name) == 0;
        if (here && e->kind == NUMBER)
            n->in[e->in] = with_number(g, n->in[e->in], e->entry, r->to);
        for (int k = 0; e->kind != NUMBER && k < n->in_count; k++)
            if (here || (e->kind == ALIKE && is_alike(r, e->name, zt_in(g, node, k))))
                stretch_input(r, g, node, k, e->entry);
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

/* The dim that is what the others leave stays so: where it varies with data, no number is right. */
static void keep_rest(const struct zt_value *numbers, struct zt_shape *shape) {
    for (int k = 0; k < shape->rank && k < zt_shape_count(&numbers->shape); k++)
        if (((const int64_t *)numbers->data)[k] == -1)
            shape->dim[k] = -1;
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
    keep_rest(zt_in(g, node, in), &shape);
    set_lead(r, g->nodes[node]->out[0], lead);
    g->nodes[node]->in[in] = zt_graph_add_ints(g, added, shape.dim, shape.rank);
}

/* A shape that the input is fitted to, from its last axis on. */
static void rebind_aligned(struct rebind *r, struct zt_graph *g, int node, int in, int axis) {
    const struct zt_value *numbers = zt_in(g, node, in);
    int64_t entry = zt_shape_count(&numbers->shape) - (zt_in(g, node, 0)->shape.rank - axis);
    const bool is_batch = at_exported(r, zt_in(g, node, 0))->shape.dim[axis] == r->from; /* and nothing else */
    if (is_batch && entry >= 0 && ((const int64_t *)numbers->data)[entry] == r->from)
        g->nodes[node]->in[in] = with_number(g, g->nodes[node]->in[in], (int)entry, r->to);
}

static void keep_changes(struct rebind *r, const struct zt_graph *g, int node, const int *had) {
    const struct zt_node *n = g->nodes[node];
    for (int i = 0; i < n->in_count; i++) {
        if (n->in[i] == had[i])
            continue;
        const struct zt_value *v = g->values[n->in[i]];
        const size_t bytes = (size_t)zt_value_bytes(v);
        zt_vec_push(&r->changes, (struct change){ zt_arena_strdup(r->arena, n->name), i, v->dtype, v->shape,
                                                  zt_arena_copy(r->arena, v->data, bytes) });
    }
}

static bool before(void *with, struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    struct rebind *r = with;
    const int64_t made = g->made;
    const struct zt_node *n = g->nodes[node];
    int *had = zt_malloc(((size_t)n->in_count + 1) * sizeof *had);
    memcpy(had, n->in, (size_t)n->in_count * sizeof *had);
    r->at = node;
    r->steps++;
    apply_edits(r, g, node);
    for (int i = 1; i < n->in_count && n->op->shape_in >> i; i++) {
        if (!(n->op->shape_in >> i & 1) || !zt_in(g, node, i) || !is_int64s(zt_in(g, node, i)) || !zt_in(g, node, 0) ||
            !is_baked(r, zt_in(g, node, i)))
            continue;
        int axis = batch_axis(r, zt_in(g, node, 0));
        if (axis >= 0)
            (n->op->flags & ZT_OP_VIEW ? rebind_view : rebind_aligned)(r, g, node, i, axis);
    }
    keep_changes(r, g, node, had);
    free(had);
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

/* Shapes alone do not show where a model that was exported for one sample, or a sum that starts from a constant, has
 * lost the batch axis. */
static bool check_rows(const struct rebind *r, struct zt_graph *g, int node, const struct zt_value *v,
                       struct zt_err *err) {
    const struct zt_value *was = at_exported(r, v);
    return !r->per_sample || strcmp(v->name, r->per_sample) != 0 || !was || was->shape.rank < 1 ||
           was->shape.dim[0] != r->from || v->shape.dim[0] == r->to ||
           zt_node_fail(g, node, err, "output \"%s\" has %lld rows for %lld samples", v->name,
                        (long long)v->shape.dim[0], (long long)r->to);
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
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        const struct zt_value *v = zt_out(g, node, i);
        if (v && !(check_output(with, g, node, v, err) && check_rows(with, g, node, v, err)))
            return false;
    }
    return true;
}

/* ---- looking for the constant that fixes the batch ---- */

struct candidates {
    struct zt_arena *arena; /* names outlive the graph that was tried */
    ZT_VEC(struct edit) list;
};

static bool same_edit(const struct edit *a, const struct edit *b) {
    return a->kind == b->kind && a->in == b->in && a->entry == b->entry && strcmp(a->name, b->name) == 0;
}

static void add_candidate(const struct rebind *r, const struct edit *edit, struct candidates *to) {
    bool known = false;
    for (int i = 0; i < r->edits.count; i++)
        known |= same_edit(edit, &r->edits.at[i]);
    for (int i = 0; i < to->list.count; i++)
        known |= same_edit(edit, &to->list.at[i]);
    if (known)
        return;
    zt_vec_push(&to->list, *edit);
    to->list.at[to->list.count - 1].name = zt_arena_strdup(to->arena, edit->name);
}

/* Numbers that are the exported batch. */
static void add_numbers(const struct rebind *r, const struct zt_graph *g, int node, struct candidates *to) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (!v || !zt_value_is_constant(v) || !holds_sizes(g->nodes[node], i))
            continue;
        for (int64_t k = 0; is_int64s(v) && k < zt_shape_count(&v->shape); k++)
            if (((const int64_t *)v->data)[k] == r->from)
                add_candidate(r, &(struct edit){ NUMBER, g->nodes[node]->name, i, (int)k }, to);
    }
}

/* Tensors with an axis of the exported batch, for the node alone; with one that is a multiple of it too, as `ALIKE`.
 */
static void add_tensors(const struct rebind *r, const struct zt_graph *g, int node, enum edit_kind kind,
                        struct candidates *to) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        for (int k = 0; v && zt_value_is_constant(v) && k < v->shape.rank; k++)
            if ((kind == ALIKE || v->shape.dim[k] == r->from) && can_stretch(r, g, node, i, k))
                add_candidate(r, &(struct edit){ kind, kind == ALIKE ? v->name : g->nodes[node]->name, -1, k }, to);
    }
}

/* Searches backwards from the failed node: numbers and, of that node, tensors; then all tensors. */
static void find_candidates(const struct rebind *r, const struct zt_graph *g, struct candidates *to) {
    bool *seen = zt_calloc((size_t)g->node_count + 1, sizeof *seen);
    int queue[LOOK_BACK] = { r->at }, count = 1;
    seen[r->at] = true;
    for (int k = 0; k < count; k++) {
        const struct zt_node *n = g->nodes[queue[k]];
        if (n->op && n->op->infer)
            add_numbers(r, g, queue[k], to);
        if (k == 0)
            add_tensors(r, g, queue[k], TENSORS, to);
        for (int i = 0; i < n->in_count && count < LOOK_BACK; i++) {
            int from = n->in[i] < 0 ? -1 : g->values[n->in[i]]->producer;
            if (from >= 0 && !seen[from]) {
                seen[from] = true;
                queue[count++] = from;
            }
        }
    }
    for (int k = 0; k < count; k++)
        add_tensors(r, g, queue[k], ALIKE, to);
    free(seen);
}

static bool infer(struct rebind *r, struct zt_graph *g, struct zt_err *err) {
    const struct zt_watch watch = { r->bounds, r, before, after };
    r->steps = 0;
    r->lead.count = 0;
    r->changes.count = 0;
    return zt_pass_infer_watched(g, r->fold_limit, &watch, err);
}

/* Whether the node lacks nothing but contents: it cannot be inferred, and its largest size can. `bound` may have
 * changed the sizes of what the node reads, with which it can be inferred (ScatterND): then an edit may help. */
static bool depends_on_data(struct zt_graph *g, int node) {
    struct zt_err ignored = { 0 };
    const struct zt_op *op = g->nodes[node]->op;
    return op->bound && !zt_op_infer(g, node, &ignored) && op->bound(g, node, false, &ignored) &&
           !zt_op_infer(g, node, &ignored);
}

/* Whether a node holds a graph: a Loop may run as often as data say. */
static bool holds_graphs(const struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->attr_count; i++)
            if (g->nodes[n]->attr[i].graph)
                return true;
    return false;
}

/* Tries with the edits there are; where that fails, what might mend it. */
static bool attempt(struct rebind *r, const struct zt_graph *g, struct candidates *to, struct zt_err *err) {
    struct zt_graph *copy = zt_graph_clone(g);
    bool ok = infer(r, copy, err);
    to->list.count = 0;
    if (!ok)
        find_candidates(r, copy, to);
    r->varies |= !ok && !r->bounds && r->steps && depends_on_data(copy, r->at);
    zt_graph_destroy(copy);
    return ok;
}

/* Adds the first edit that leads past the node at which the last attempt stopped; `next` gets what may follow. */
static bool extend(struct rebind *r, const struct zt_graph *g, const struct candidates *from, struct candidates *next,
                   int *tries) {
    int reached = r->steps;
    for (int i = 0; i < from->list.count && *tries < TRIES; i++, ++*tries) {
        struct zt_err ignored = { 0 };
        zt_vec_push(&r->edits, from->list.at[i]);
        if (attempt(r, g, next, &ignored) || r->steps > reached)
            return true;
        r->edits.count--;
    }
    return false;
}

/* Finds the edits with which inference succeeds. On failure err has why it does not with those found. */
static bool search(struct rebind *r, const struct zt_graph *g, struct zt_err *err) {
    struct candidates now = { .arena = r->arena }, next = { .arena = r->arena };
    struct zt_err ignored = { 0 };
    bool done = attempt(r, g, &now, &ignored);
    for (int tries = 0; !done && !r->varies && now.list.count && extend(r, g, &now, &next, &tries);) {
        struct candidates swap = now;
        now = next;
        next = swap;
    }
    done = done || (!r->varies && attempt(r, g, &now, err));
    zt_vec_finish(&now.list);
    zt_vec_finish(&next.list);
    return done;
}

/* ---- sizes that depend on data ---- */

static int find_node(const struct zt_graph *g, const char *name) {
    for (int n = 0; n < g->node_count; n++)
        if (strcmp(g->nodes[n]->name, name) == 0)
            return n;
    return -1;
}

/* Gives the constants to the nodes of a graph that is not inferred yet. */
static bool give_changes(const struct rebind *r, struct zt_graph *g, struct zt_err *err) {
    const int64_t made = g->made;
    for (int i = 0; i < r->changes.count; i++) {
        const struct change *c = &r->changes.at[i];
        const int node = find_node(g, c->node);
        if (node < 0)
            return zt_fail(err, ZT_EXIT_MODEL, "%s: it fixes the batch inside a subgraph", c->node);
        g->nodes[node]->in[c->in] = zt_graph_add_constant(g, added, c->dtype, &c->shape, c->data);
    }
    g->made = made;
    return true;
}

static bool rebind_bounds(struct rebind *r, struct zt_graph *g, const struct zt_graph *exported, struct zt_err *err) {
    struct zt_graph *reference = zt_graph_clone(exported);
    r->reference = reference;
    r->bounds = true;
    r->varies = false; /* from here on every edit is tried */
    const bool ok = zt_pass_infer_bounds(reference, 0, NULL, r->fold_limit, err) && search(r, g, err) &&
                    give_changes(r, g, err) && zt_graph_index(g, err) && zt_pass_infer(g, r->fold_limit, err);
    zt_graph_destroy(reference);
    return ok;
}

bool zt_pass_rebind(struct zt_graph *g, const struct zt_rebinding *rebinding, struct zt_err *err) {
    struct rebind r = { .reference = rebinding->reference,
                        .from = rebinding->from,
                        .to = rebinding->to,
                        .per_sample = rebinding->per_sample,
                        .fold_limit = rebinding->fold_limit,
                        .arena = zt_arena_create() };
    struct zt_err why = { 0 }, bounds = { 0 };
    const bool found = search(&r, g, &why), sure = r.varies;
    bool ok;
    if (found || !(sure || holds_graphs(g))) {
        ok = infer(&r, g, err);
    } else {
        r.edits.count = 0;
        ok = rebind_bounds(&r, g, rebinding->exported, sure ? err : &bounds);
        if (!ok && !sure) /* the graphs may have nothing to do with it */
            *err = why;
    }
    zt_vec_finish(&r.edits);
    zt_vec_finish(&r.changes);
    zt_vec_finish(&r.lead);
    zt_arena_destroy(r.arena);
    return ok;
}
