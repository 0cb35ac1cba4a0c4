#include "graph/ir/graph.h"

#include "base/text.h"
#include "graph/ir/list.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The inputs that read each value, as lists. */
struct zt_readers {
    int nodes, values;       /* how far the lists go */
    int *first, values_room; /* by value */
    struct reader {
        int node, in, next;
    } * at;
    int count, room;
};

struct zt_graph *zt_graph_create_in(struct zt_arena *arena, const char *name) {
    struct zt_graph *g = ZT_NEW(arena, struct zt_graph);
    g->arena = arena;
    g->borrows_arena = true;
    g->readers = ZT_NEW(arena, struct zt_readers);
    g->name = zt_arena_strdup(arena, name ? name : "");
    return g;
}

struct zt_graph *zt_graph_create(const char *name) {
    struct zt_graph *g = zt_graph_create_in(zt_arena_create(), name);
    g->borrows_arena = false;
    return g;
}

void zt_graph_destroy(struct zt_graph *g) {
    if (!g)
        return;
    free(g->values);
    free(g->nodes);
    free(g->readers->first);
    free(g->readers->at);
    zt_map_finish(&g->by_name);
    if (!g->borrows_arena)
        zt_arena_destroy(g->arena);
}

static struct zt_graph *copy_graph(struct zt_graph *g, const struct zt_graph *from) {
    for (int i = 0; i < from->value_count; i++) {
        int id = zt_graph_add_value(g, from->values[i]->name, ZT_UNDEFINED, NULL);
        zt_value_copy(g->values[id], from->values[i]);
    }
    for (int i = 0; i < from->node_count; i++) {
        const struct zt_node *n = from->nodes[i];
        int id = zt_graph_add_node(g, &(struct zt_node_spec){ n->name, n->op_type, n->domain, n->opset, n->in,
                                                              n->in_count, n->out, n->out_count });
        struct zt_node *copy = g->nodes[id];
        struct zt_node fresh = *n;
        fresh.index = id;
        fresh.in = copy->in;
        fresh.out = copy->out;
        fresh.attr = n->attr_count ? zt_arena_copy(g->arena, n->attr, (size_t)n->attr_count * sizeof *n->attr) : NULL;
        *copy = fresh;
    }
    g->inputs = zt_arena_copy(g->arena, from->inputs, (size_t)from->input_count * sizeof(int));
    g->outputs = zt_arena_copy(g->arena, from->outputs, (size_t)from->output_count * sizeof(int));
    g->input_count = from->input_count;
    g->output_count = from->output_count;
    for (int i = 0; i < from->write_back_count; i++)
        zt_graph_add_write_back(g, from->write_backs[i].initializer, from->write_backs[i].value);
    g->made = from->made;
    g->functions = from->functions;
    g->table = from->table;
    g->lowered_nodes = from->lowered_nodes;
    g->lowered_bytes = from->lowered_bytes;
    return g;
}

struct zt_graph *zt_graph_clone(const struct zt_graph *from) {
    return copy_graph(zt_graph_create(from->name), from);
}

struct zt_graph *zt_graph_clone_in(struct zt_arena *arena, const struct zt_graph *from) {
    return copy_graph(zt_graph_create_in(arena, from->name), from);
}

void zt_graph_settle(struct zt_graph *g) {
    struct zt_value **values = zt_arena_copy(g->arena, g->values, (size_t)g->value_count * sizeof *values);
    struct zt_node **nodes = zt_arena_copy(g->arena, g->nodes, (size_t)g->node_count * sizeof *nodes);
    free(g->values);
    free(g->nodes);
    free(g->readers->first);
    free(g->readers->at);
    zt_map_finish(&g->by_name);
    g->values = values;
    g->nodes = nodes;
    *g->readers = (struct zt_readers){ 0 };
}

int zt_graph_add_value(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape) {
    if (g->value_count == g->value_room) {
        g->value_room = 2 * g->value_room + 8;
        g->values = zt_realloc(g->values, (size_t)g->value_room * sizeof *g->values);
    }
    int id = g->value_count++;
    struct zt_value *v = g->values[id] = ZT_NEW(g->arena, struct zt_value);
    const char *base = name ? name : "v";
    char *own = name ? zt_arena_strdup(g->arena, name) : NULL;
    while (!own || zt_map_get(&g->by_name, own, -1) >= 0)
        own = zt_arena_printf(g->arena, "%s.%lld", base, (long long)++g->made);
    *v = (struct zt_value){ .id = id, .name = own, .dtype = dtype, .producer = -1 };
    if (shape)
        v->shape = *shape;
    else
        v->shape.rank = -1;
    zt_map_put(&g->by_name, own, id);
    return id;
}

void zt_value_copy(struct zt_value *to, const struct zt_value *from) {
    const int id = to->id;
    const char *name = to->name;
    *to = *from;
    to->id = id;
    to->name = name;
}

int zt_graph_add_constant(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape,
                          const void *data) {
    int id = zt_graph_add_value(g, name, dtype, shape);
    g->values[id]->origin = ZT_FROM_CONSTANT;
    g->values[id]->data = zt_arena_copy(g->arena, data, (size_t)zt_shape_count(shape) * zt_dtype_bytes(dtype));
    return id;
}

int zt_graph_add_ints(struct zt_graph *g, const char *name, const int64_t *values, int count) {
    return zt_graph_add_constant(g, name, ZT_INT64, &(struct zt_shape){ .rank = 1, .dim = { count } }, values);
}

int zt_graph_add_float(struct zt_graph *g, const char *name, enum zt_dtype dtype, double value) {
    double room = 0;
    zt_store_double(dtype, &room, 0, value);
    return zt_graph_add_constant(g, name, dtype, &(struct zt_shape){ .rank = 0 }, &room);
}

int zt_graph_add_node(struct zt_graph *g, const struct zt_node_spec *spec) {
    if (g->node_count == g->node_room) {
        g->node_room = 2 * g->node_room + 8;
        g->nodes = zt_realloc(g->nodes, (size_t)g->node_room * sizeof *g->nodes);
    }
    int id = g->node_count++;
    g->nodes[id] = ZT_NEW(g->arena, struct zt_node);
    *g->nodes[id] = (struct zt_node){
        .index = id,
        .name = zt_arena_strdup(g->arena, spec->name ? spec->name : ""),
        .op_type = zt_arena_strdup(g->arena, spec->op_type),
        .domain = zt_arena_strdup(g->arena, spec->domain ? spec->domain : ""),
        .opset = spec->opset,
        .in = zt_arena_copy(g->arena, spec->in, (size_t)spec->in_count * sizeof *spec->in),
        .out = zt_arena_copy(g->arena, spec->out, (size_t)spec->out_count * sizeof *spec->out),
        .in_count = spec->in_count,
        .out_count = spec->out_count,
        .file_index = -1,
        .place = id ? g->nodes[id - 1]->place + 1 : 0,
    };
    for (int i = 0; i < spec->out_count; i++)
        if (spec->out[i] >= 0)
            g->values[spec->out[i]]->producer = id;
    return id;
}

int zt_graph_copy_node(struct zt_graph *g, int node, int at, const int *in, const int *out) {
    const struct zt_node n = *g->nodes[node], like = *g->nodes[at];
    const int id = zt_graph_add_node(
        g, &(struct zt_node_spec){ n.name, n.op_type, n.domain, n.opset, in, n.in_count, out, n.out_count });
    struct zt_node *made = g->nodes[id];
    made->op = n.op;
    made->attr = n.attr;
    made->attr_count = n.attr_count;
    made->file_index = n.file_index;
    made->place = like.place;
    made->phase = like.phase;
    made->stage = like.stage;
    made->backend = like.backend;
    made->full = n.full;
    return id;
}

void zt_graph_add_write_back(struct zt_graph *g, int initializer, int value) {
    if (g->write_back_count == g->write_back_room) {
        g->write_back_room = 2 * g->write_back_room + 4;
        struct zt_write_back *at = ZT_NEW_N(g->arena, struct zt_write_back, g->write_back_room);
        if (g->write_back_count)
            memcpy(at, g->write_backs, (size_t)g->write_back_count * sizeof *at);
        g->write_backs = at;
    }
    g->write_backs[g->write_back_count++] = (struct zt_write_back){ initializer, value };
    g->values[initializer]->statistic = true;
}

bool zt_node_is(const struct zt_node *node, const char *op_type) {
    return node && !node->domain[0] && strcmp(node->op_type, op_type) == 0;
}

bool zt_node_is_any(const struct zt_node *node, const char *const *op_types) {
    while (*op_types && !zt_node_is(node, *op_types))
        op_types++;
    return *op_types != NULL;
}

/* ---- attributes ---- */

const struct zt_attr *zt_node_attr(const struct zt_node *node, const char *name) {
    for (int i = 0; i < node->attr_count; i++)
        if (strcmp(node->attr[i].name, name) == 0)
            return &node->attr[i];
    return NULL;
}

void zt_node_set_attr(struct zt_graph *g, int node, const struct zt_attr *attr) {
    struct zt_node *n = g->nodes[node];
    for (int i = 0; i < n->attr_count; i++)
        if (strcmp(n->attr[i].name, attr->name) == 0) {
            n->attr[i] = *attr;
            return;
        }
    struct zt_attr *at = ZT_NEW_N(g->arena, struct zt_attr, n->attr_count + 1);
    if (n->attr_count)
        memcpy(at, n->attr, (size_t)n->attr_count * sizeof *at);
    at[n->attr_count++] = *attr;
    n->attr = at;
}

void zt_node_set_int(struct zt_graph *g, int node, const char *name, int64_t value) {
    zt_node_set_attr(g, node,
                     &(struct zt_attr){ .name = zt_arena_strdup(g->arena, name), .type = ZT_ATTR_INT, .i = value });
}

void zt_node_set_float(struct zt_graph *g, int node, const char *name, float value) {
    zt_node_set_attr(g, node,
                     &(struct zt_attr){ .name = zt_arena_strdup(g->arena, name), .type = ZT_ATTR_FLOAT, .f = value });
}

void zt_node_set_text(struct zt_graph *g, int node, const char *name, const char *value) {
    zt_node_set_attr(g, node,
                     &(struct zt_attr){ .name = zt_arena_strdup(g->arena, name),
                                        .type = ZT_ATTR_STRING,
                                        .s = zt_arena_strdup(g->arena, value) });
}

void zt_node_set_ints(struct zt_graph *g, int node, const char *name, const int64_t *values, int count) {
    zt_node_set_attr(g, node,
                     &(struct zt_attr){ .name = zt_arena_strdup(g->arena, name),
                                        .type = ZT_ATTR_INTS,
                                        .count = count,
                                        .ints = zt_arena_copy(g->arena, values, (size_t)count * sizeof *values) });
}

int64_t zt_attr_int(const struct zt_node *node, const char *name, int64_t otherwise) {
    const struct zt_attr *a = zt_node_attr(node, name);
    return a ? a->i : otherwise;
}

float zt_attr_float(const struct zt_node *node, const char *name, float otherwise) {
    const struct zt_attr *a = zt_node_attr(node, name);
    return a ? a->f : otherwise;
}

const char *zt_attr_text(const struct zt_node *node, const char *name, const char *otherwise) {
    const struct zt_attr *a = zt_node_attr(node, name);
    return a && a->s ? a->s : otherwise;
}

const int64_t *zt_attr_ints(const struct zt_node *node, const char *name, int *count) {
    const struct zt_attr *a = zt_node_attr(node, name);
    *count = a ? a->count : 0;
    return a ? a->ints : NULL;
}

const float *zt_attr_floats(const struct zt_node *node, const char *name, int *count) {
    const struct zt_attr *a = zt_node_attr(node, name);
    *count = a ? a->count : 0;
    return a ? a->floats : NULL;
}

bool zt_node_fail(const struct zt_graph *g, int node, struct zt_err *err, const char *fmt, ...) {
    char text[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct zt_node *n = g->nodes[node];
    return zt_fail(err, ZT_EXIT_MODEL, "%s (%s): %s", n->name, n->op_type, text);
}

void zt_graph_align_constants(struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            struct zt_value *v = g->nodes[n]->in[i] < 0 ? NULL : g->values[g->nodes[n]->in[i]];
            size_t size = v && v->data ? zt_dtype_bytes(v->dtype) : 0;
            if (size && !v->trainable && (uintptr_t)v->data % size)
                v->data = zt_arena_copy(g->arena, v->data, (size_t)zt_shape_count(&v->shape) * size);
        }
    }
}

/* ---- structure ---- */

int zt_graph_find(const struct zt_graph *g, const char *name) {
    return zt_map_get(&g->by_name, name, -1);
}

bool zt_graph_index(struct zt_graph *g, struct zt_err *err) {
    g->readers->nodes = g->readers->values = g->readers->count = 0;
    for (int i = 0; i < g->value_count; i++)
        g->values[i]->producer = -1;
    bool ok = true;
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; i < g->nodes[n]->out_count; i++) {
            int v = g->nodes[n]->out[i];
            if (v < 0 || g->nodes[n]->dead)
                continue;
            if (g->values[v]->producer >= 0)
                ok = zt_node_fail(g, n, err, "output \"%s\" is already written by %s", g->values[v]->name,
                                  g->nodes[g->values[v]->producer]->name);
            else if (g->values[v]->origin != ZT_FROM_NODE)
                ok = zt_node_fail(g, n, err, "output \"%s\" is already %s", g->values[v]->name,
                                  g->values[v]->origin == ZT_FROM_INPUT ? "an input of the graph" : "an initializer");
            g->values[v]->producer = n;
        }
    }
    return ok;
}

static void add_reader(struct zt_readers *r, int value, int node, int in) {
    if (r->count == r->room) {
        r->room = 2 * r->room + 64;
        r->at = zt_realloc(r->at, (size_t)r->room * sizeof *r->at);
    }
    r->at[r->count] = (struct reader){ node, in, r->first[value] };
    r->first[value] = r->count++;
}

/* Brings the lists up to the nodes and values there are. */
static void extend_readers(struct zt_readers *r, const struct zt_graph *g) {
    if (r->values_room < g->value_count) {
        r->values_room = g->value_room;
        r->first = zt_realloc(r->first, (size_t)r->values_room * sizeof *r->first);
    }
    for (; r->values < g->value_count; r->values++)
        r->first[r->values] = -1;
    for (; r->nodes < g->node_count; r->nodes++)
        for (int i = 0; i < g->nodes[r->nodes]->in_count; i++)
            if (g->nodes[r->nodes]->in[i] >= 0)
                add_reader(r, g->nodes[r->nodes]->in[i], r->nodes, i);
}

int zt_graph_users(const struct zt_graph *g, int value, int *node) {
    struct zt_readers *r = g->readers;
    int users = 0;
    extend_readers(r, g);
    for (int i = r->first[value]; i >= 0; i = r->at[i].next) {
        const struct zt_node *reader = g->nodes[r->at[i].node];
        if (reader->dead || reader->in[r->at[i].in] != value)
            continue;
        users++;
        if (node)
            *node = r->at[i].node;
    }
    return users;
}

bool *zt_graph_read(const struct zt_graph *g) {
    bool *read = zt_calloc((size_t)g->value_count + 1, sizeof *read);
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                read[g->nodes[n]->in[i]] = true;
    return read;
}

bool zt_graph_is_output(const struct zt_graph *g, int value) {
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i] == value)
            return true;
    for (int i = 0; i < g->write_back_count; i++)
        if (g->write_backs[i].value == value)
            return true;
    return false;
}

/* A heap of node indices with the smallest (phase, place) first. */
struct heap {
    const struct zt_graph *g;
    int *at, count;
};

static bool before(const struct heap *h, int a, int b) {
    const struct zt_node *x = h->g->nodes[a], *y = h->g->nodes[b];
    if (x->phase != y->phase)
        return x->phase < y->phase;
    return x->place != y->place ? x->place < y->place : a < b;
}

static void heap_push(struct heap *h, int node) {
    int i = h->count++;
    for (; i > 0 && before(h, node, h->at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = node;
}

static int heap_pop(struct heap *h) {
    int top = h->at[0], last = h->at[--h->count], i = 0;
    for (int child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && before(h, h->at[child + 1], h->at[child]))
            child++;
        if (!before(h, h->at[child], last))
            break;
        h->at[i] = h->at[child];
    }
    h->at[i] = last;
    return top;
}

/* Lists of the nodes that read what a node makes, in two arrays: users[first[n] .. first[n + 1]). */
struct users {
    int *first, *at;
};

static int producer_of(const struct zt_graph *g, int node, int i) {
    int v = g->nodes[node]->in[i];
    return v < 0 ? -1 : g->values[v]->producer;
}

static struct users users_of_nodes(const struct zt_graph *g) {
    struct users u = { zt_calloc((size_t)g->node_count + 2, sizeof(int)), NULL };
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            if (producer_of(g, n, i) >= 0)
                u.first[producer_of(g, n, i) + 2]++;
    for (int n = 0; n < g->node_count; n++)
        u.first[n + 2] += u.first[n + 1];
    u.at = zt_malloc((size_t)u.first[g->node_count + 1] * sizeof(int));
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            if (producer_of(g, n, i) >= 0)
                u.at[u.first[producer_of(g, n, i) + 1]++] = n;
    return u;
}

/* Reports inputs that nothing makes; fills waiting[n] with the number of inputs other nodes make. */
static bool count_waiting(const struct zt_graph *g, int *waiting, struct zt_err *err) {
    bool ok = true;
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++) {
            int v = g->nodes[n]->in[i];
            if (v >= 0 && g->values[v]->producer >= 0)
                waiting[n]++;
            else if (v >= 0 && g->values[v]->origin == ZT_FROM_NODE)
                ok = zt_node_fail(g, n, err, "input \"%s\" is not the output of any node, input or initializer",
                                  g->values[v]->name);
        }
    }
    return ok;
}

/* Names a node on a cycle: every waiting node waits for another waiting one, so that going back from any of them leads
 * round. */
static bool fail_cycle(const struct zt_graph *g, const int *waiting, struct zt_err *err) {
    int at = 0;
    while (g->nodes[at]->dead || waiting[at] <= 0)
        at++;
    for (int step = 0; step < g->node_count; step++) {
        int from = -1;
        for (int i = 0; from < 0 && i < g->nodes[at]->in_count; i++)
            if (producer_of(g, at, i) >= 0 && waiting[producer_of(g, at, i)] > 0)
                from = producer_of(g, at, i);
        at = from;
    }
    return zt_node_fail(g, at, err, "is part of a cycle: it depends on its own output");
}

bool zt_graph_sort(struct zt_graph *g, struct zt_err *err) {
    if (!zt_graph_index(g, err))
        return false;
    int *waiting = zt_calloc((size_t)g->node_count + 1, sizeof *waiting), done = 0, alive = 0;
    bool ok = count_waiting(g, waiting, err);
    struct users users = users_of_nodes(g);
    struct heap heap = { g, zt_malloc(((size_t)g->node_count + 1) * sizeof(int)), 0 };
    struct zt_node **sorted = zt_malloc(((size_t)g->node_count + 1) * sizeof *sorted);
    for (int n = 0; n < g->node_count; n++) {
        alive += !g->nodes[n]->dead;
        if (!g->nodes[n]->dead && waiting[n] == 0)
            heap_push(&heap, n);
    }
    while (ok && heap.count) {
        int n = heap_pop(&heap);
        sorted[done++] = g->nodes[n];
        waiting[n] = -1;
        for (int i = users.first[n]; i < users.first[n + 1]; i++)
            if (--waiting[users.at[i]] == 0)
                heap_push(&heap, users.at[i]);
    }
    if (ok && done < alive)
        ok = fail_cycle(g, waiting, err);
    if (ok) {
        if (done) /* nodes may be NULL in a file without any */
            memcpy(g->nodes, sorted, (size_t)done * sizeof *sorted);
        g->node_count = done;
        for (int n = 0; n < done; n++)
            g->nodes[n]->index = n;
        ok = zt_graph_index(g, err);
    }
    free(sorted);
    free(heap.at);
    free(users.at);
    free(users.first);
    free(waiting);
    return ok;
}

/* A list is needed with its elements: the nodes that made the list itself may be expanded. */
static void mark_needed(const struct zt_graph *g, int value, bool *needed) {
    const struct zt_list *list = g->values[value]->list;
    needed[value] = true;
    for (int i = 0; list && i < list->count; i++)
        mark_needed(g, list->at[i], needed);
}

bool zt_graph_prune(struct zt_graph *g, const int *roots, int root_count, struct zt_err *err) {
    bool *needed = zt_calloc((size_t)g->value_count + 1, sizeof *needed);
    for (int i = 0; i < root_count; i++)
        if (roots[i] >= 0)
            mark_needed(g, roots[i], needed);
    for (int i = 0; i < g->write_back_count; i++)
        needed[g->write_backs[i].value] = true;
    for (int n = g->node_count - 1; n >= 0; n--) {
        struct zt_node *node = g->nodes[n];
        bool wanted = false;
        for (int i = 0; i < node->out_count; i++)
            wanted |= node->out[i] >= 0 && needed[node->out[i]];
        if (!wanted)
            node->dead = true;
        for (int i = 0; !node->dead && i < node->in_count; i++)
            if (node->in[i] >= 0)
                needed[node->in[i]] = true;
    }
    free(needed);
    return zt_graph_sort(g, err);
}
