#include "graph/export/function_body.h"

#include "base/text.h"
#include "graph/ir/op.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes and names ---- */

static void fail(struct zt_function_body *b, const char *why, const char *at) {
    if (!b->problem)
        b->problem = zt_arena_printf(b->arena, "%s at \"%.40s\"", why, at);
}

static const char *made_name(struct zt_function_body *b, const char *stem) {
    return zt_arena_printf(b->arena, "%s_%d", stem, b->made++);
}

/* From here on `name` in the text refers to value `value`. */
static void define(struct zt_function_body *b, const char *name, const char *value) {
    zt_map_put(&b->made_of, zt_arena_strdup(b->arena, name), b->names.count);
    zt_vec_push(&b->names, value);
}

static const char *value_of(struct zt_function_body *b, const char *name) {
    int index = zt_map_get(&b->made_of, name, -1);
    if (index < 0)
        fail(b, "nothing has this name", name);
    return index < 0 ? "" : b->names.at[index];
}

static const char **one(struct zt_function_body *b, const char *name) {
    const char **list = ZT_NEW(b->arena, const char *);
    list[0] = name;
    return list;
}

static struct zt_attr *one_attr(struct zt_function_body *b, struct zt_attr attr) {
    return zt_arena_copy(b->arena, &attr, sizeof attr);
}

static void add(struct zt_function_body *b, struct zt_function_body_node node) {
    zt_vec_push(&b->nodes, node);
}

static const char *add_constant(struct zt_function_body *b, const char *stem, enum zt_dtype dtype,
                                const struct zt_shape *shape, const void *data) {
    size_t bytes = (size_t)zt_shape_count(shape) * zt_dtype_bytes(dtype);
    struct zt_attr value = { .name = "value",
                             .type = ZT_ATTR_TENSOR,
                             .tensor = { dtype, *shape, zt_arena_copy(b->arena, data, bytes) } };
    const char *name = made_name(b, stem);
    add(b,
        (struct zt_function_body_node){
            .op_type = "Constant", .out = one(b, name), .out_count = 1, .attr = one_attr(b, value), .attr_count = 1 });
    return name;
}

static void add_cast(struct zt_function_body *b, const char *from, const char *to, enum zt_dtype dtype) {
    add(b, (struct zt_function_body_node){
               .op_type = "Cast",
               .in = one(b, from),
               .in_count = 1,
               .out = one(b, to),
               .out_count = 1,
               .attr = one_attr(b, (struct zt_attr){ .name = "to", .type = ZT_ATTR_INT, .i = dtype }),
               .attr_count = 1 });
}

/* ---- constants ---- */

static const char *scalar(struct zt_function_body *b, double value) {
    union {
        float f;
        double d;
    } data;
    zt_store_double(b->type, &data, 0, value);
    return add_constant(b, "c", b->type, &(struct zt_shape){ 0 }, &data);
}

void zt_function_body_number(struct zt_function_body *b, const char *name, double value) {
    define(b, name, scalar(b, value));
}

void zt_function_body_doubles(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                              const double *values) {
    int64_t count = zt_shape_count(shape);
    void *data = zt_arena_alloc(b->arena, (size_t)count * zt_dtype_bytes(b->type));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(b->type, data, i, values[i]);
    define(b, name, add_constant(b, name, b->type, shape, data));
}

void zt_function_body_int64s(struct zt_function_body *b, const char *name, const struct zt_shape *shape,
                             const int64_t *values) {
    define(b, name, add_constant(b, name, ZT_INT64, shape, values));
}

const char *zt_function_body_list(struct zt_function_body *b, const int64_t *values, int count) {
    struct zt_text text = { 0 };
    for (int i = 0; i < count; i++)
        zt_text_add(&text, "%s%lld", i ? ", " : "", (long long)values[i]);
    const char *list = zt_arena_printf(b->arena, "[%s]", count ? text.at : "");
    zt_text_finish(&text);
    return list;
}

const char *zt_function_body_dims(struct zt_function_body *b, const struct zt_shape *shape) {
    return zt_function_body_list(b, shape->dim, shape->rank);
}

const char *zt_function_body_range(struct zt_function_body *b, int64_t end) {
    return zt_arena_printf(b->arena, "Range(0i, %lldi, 1i)", (long long)end);
}

const char *zt_function_body_text(struct zt_function_body *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *text = zt_arena_vprintf(b->arena, fmt, args);
    va_end(args);
    return text;
}

/* ---- the notation ---- */

struct reader {
    struct zt_function_body *b;
    const char *at;
};

static void skip_space(struct reader *r) {
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool accept(struct reader *r, char c) {
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static void expect(struct reader *r, char c) {
    if (!accept(r, c))
        fail(r->b, zt_arena_printf(r->b->arena, "wants '%c'", c), r->at);
}

static const char *read_word(struct reader *r) {
    skip_space(r);
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')
        n++;
    if (!n || isdigit((unsigned char)*r->at)) {
        fail(r->b, "wants a name", r->at);
        return "";
    }
    r->at += n;
    return zt_arena_strndup(r->b->arena, r->at - n, n);
}

static int64_t read_int(struct reader *r) {
    char *end;
    skip_space(r);
    long long value = strtoll(r->at, &end, 10);
    if (end == r->at)
        fail(r->b, "wants a whole number", r->at);
    r->at = end;
    return value;
}

static const int64_t *read_ints(struct reader *r, int *count) {
    int64_t *list = ZT_NEW_N(r->b->arena, int64_t, strlen(r->at));
    *count = 0;
    if (accept(r, ']'))
        return list;
    do
        list[(*count)++] = read_int(r);
    while (accept(r, ',') && !r->b->problem);
    expect(r, ']');
    return list;
}

static int64_t read_type(struct reader *r) {
    const char *name = read_word(r);
    if (strcmp(name, "T") == 0)
        return r->b->type;
    for (int i = 1; i < ZT_DTYPES; i++)
        if (strcmp(zt_dtype_name((enum zt_dtype)i), name) == 0)
            return i;
    fail(r->b, "no type has this name", name);
    return 0;
}

static bool is_whole(const char *at) {
    at += *at == '-';
    at += strspn(at, "0123456789");
    return *at != '.' && *at != 'e';
}

static struct zt_attr read_attr(struct reader *r) {
    struct zt_attr a = { .name = read_word(r), .type = ZT_ATTR_INT };
    expect(r, '=');
    skip_space(r);
    if (accept(r, '[')) {
        a.type = ZT_ATTR_INTS;
        a.ints = read_ints(r, &a.count);
    } else if (accept(r, '"')) {
        size_t n = strcspn(r->at, "\"");
        a.type = ZT_ATTR_STRING;
        a.s = zt_arena_strndup(r->b->arena, r->at, n);
        r->at += n;
        expect(r, '"');
    } else if (isalpha((unsigned char)*r->at)) {
        a.i = read_type(r);
    } else if (is_whole(r->at)) {
        a.i = read_int(r);
    } else {
        char *end;
        a.type = ZT_ATTR_FLOAT;
        a.f = strtof(r->at, &end);
        r->at = end;
    }
    return a;
}

enum { BODY_LIST = 16, BODY_DEPTH = 64 };

static const char *read_sum(struct reader *r, int depth);

/* Reads attributes and inputs after an operator's name. */
static void read_call(struct reader *r, struct zt_function_body_node *n, int depth) {
    n->attr = ZT_NEW_N(r->b->arena, struct zt_attr, BODY_LIST);
    if (accept(r, '<')) {
        do
            n->attr[n->attr_count++] = read_attr(r);
        while (accept(r, ',') && n->attr_count < BODY_LIST && !r->b->problem);
        expect(r, '>');
    }
    if (n->attr_count == 0 && strcmp(n->op_type, "Reshape") == 0)
        n->attr[n->attr_count++] = (struct zt_attr){ .name = "allowzero", .type = ZT_ATTR_INT, .i = 1 };
    expect(r, '(');
    n->in = ZT_NEW_N(r->b->arena, const char *, strlen(r->at) + 1);
    if (accept(r, ')'))
        return;
    do
        n->in[n->in_count++] = read_sum(r, depth + 1);
    while (accept(r, ',') && !r->b->problem);
    expect(r, ')');
}

static const char *add_made(struct zt_function_body *b, struct zt_function_body_node n) {
    const char *out = made_name(b, "t");
    n.out = one(b, out);
    n.out_count = 1;
    add(b, n);
    return out;
}

static const char *binary(struct zt_function_body *b, const char *op, const char *x, const char *y) {
    const char **in = ZT_NEW_N(b->arena, const char *, 2);
    in[0] = x;
    in[1] = y;
    return add_made(b, (struct zt_function_body_node){ .op_type = op, .in = in, .in_count = 2 });
}

static const char *read_number(struct reader *r) {
    char *end;
    if (is_whole(r->at) && r->at[strspn(r->at, "0123456789")] == 'i') {
        int64_t value = read_int(r);
        r->at++;
        return add_constant(r->b, "c", ZT_INT64, &(struct zt_shape){ 0 }, &value);
    }
    double value = strtod(r->at, &end);
    r->at = end;
    return scalar(r->b, value);
}

static const char *read_primary(struct reader *r, int depth) {
    skip_space(r);
    if (depth > BODY_DEPTH) {
        fail(r->b, "nested too deep", r->at);
        return "";
    }
    if (accept(r, '(')) {
        const char *inner = read_sum(r, depth + 1);
        expect(r, ')');
        return inner;
    }
    if (accept(r, '[')) {
        struct zt_shape shape = { 1, { 0 } };
        int count;
        const int64_t *values = read_ints(r, &count);
        shape.dim[0] = count;
        return add_constant(r->b, "c", ZT_INT64, &shape, values);
    }
    if (isdigit((unsigned char)*r->at))
        return read_number(r);
    const char *name = read_word(r);
    skip_space(r);
    if (*r->at != '<' && *r->at != '(')
        return strcmp(name, "_") == 0 ? "" : value_of(r->b, name);
    struct zt_function_body_node n = { .op_type = name };
    read_call(r, &n, depth);
    return add_made(r->b, n);
}

static const char *read_sign(struct reader *r, int depth) {
    if (!accept(r, '-'))
        return read_primary(r, depth);
    return add_made(r->b, (struct zt_function_body_node){
                              .op_type = "Neg", .in = one(r->b, read_primary(r, depth)), .in_count = 1 });
}

static const char *read_product(struct reader *r, int depth) {
    const char *x = read_sign(r, depth);
    while (!r->b->problem) {
        const char *op = accept(r, '*') ? "Mul" : accept(r, '/') ? "Div" : NULL;
        if (!op)
            break;
        x = binary(r->b, op, x, read_sign(r, depth));
    }
    return x;
}

static const char *read_sum(struct reader *r, int depth) {
    const char *x = read_product(r, depth);
    while (!r->b->problem) {
        const char *op = accept(r, '+') ? "Add" : accept(r, '-') ? "Sub" : NULL;
        if (!op)
            break;
        x = binary(r->b, op, x, read_product(r, depth));
    }
    return x;
}

/* The names in front of '='; the last node of the expression gives them all. */
static void read_statement(struct reader *r) {
    const char *names[BODY_LIST];
    int count = 0;
    do
        names[count++] = read_word(r);
    while (accept(r, ',') && count < BODY_LIST);
    expect(r, '=');
    const char *value = read_sum(r, 0);
    if (r->b->problem)
        return;
    define(r->b, names[0], value);
    if (count == 1)
        return;
    struct zt_function_body_node *n = &r->b->nodes.at[r->b->nodes.count - 1];
    const char **out = ZT_NEW_N(r->b->arena, const char *, count);
    out[0] = value;
    for (int i = 1; i < count; i++) {
        out[i] = strcmp(names[i], "_") == 0 ? "" : made_name(r->b, "t");
        define(r->b, names[i], out[i]);
    }
    n->out = out;
    n->out_count = count;
}

void zt_function_body_add(struct zt_function_body *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    struct reader r = { b, zt_arena_vprintf(b->arena, fmt, args) };
    va_end(args);
    do
        read_statement(&r);
    while (accept(&r, ';') && !b->problem);
    skip_space(&r);
    if (*r.at)
        fail(b, "wants ';' or the end", r.at);
}

bool zt_function_body_wants(const struct zt_function_body *b, int out) {
    return zt_out(b->g, b->node, out) && b->read[b->g->nodes[b->node]->out[out]];
}

/* ---- the same node in a newer form ---- */

static void add_input(struct zt_function_body *b, const char *name, int index) {
    b->in_value[b->in_count] = b->g->nodes[b->node]->in[index];
    b->in[b->in_count++] = name;
}

static bool is_among(const char *name, const char *list) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static void copy_inputs(struct zt_function_body *b, struct zt_function_body_node *to) {
    const struct zt_node *n = b->g->nodes[b->node];
    for (int i = 0; i < n->in_count; i++) {
        to->in[i] = n->in[i] < 0 ? "" : zt_arena_printf(b->arena, "x%d", i);
        if (n->in[i] >= 0)
            add_input(b, to->in[i], i);
        to->in_count = n->in[i] < 0 ? to->in_count : i + 1;
    }
}

static void copy_outputs(struct zt_function_body *b, struct zt_function_body_node *to) {
    const struct zt_node *n = b->g->nodes[b->node];
    for (int i = 0; i < n->out_count; i++) {
        bool wanted = zt_function_body_wants(b, i);
        to->out[i] = wanted ? (b->out[b->out_count++] = zt_arena_printf(b->arena, "y%d", i)) : "";
        to->out_count = wanted ? i + 1 : to->out_count;
    }
}

void zt_function_body_again(struct zt_function_body *b, const char *op_type, const char *without, const char *more) {
    const struct zt_node *n = b->g->nodes[b->node];
    struct zt_function_body_node to = { .op_type = op_type };
    struct reader r = { b, more };
    to.in = ZT_NEW_N(b->arena, const char *, (size_t)n->in_count + strlen(more));
    to.out = ZT_NEW_N(b->arena, const char *, n->out_count);
    to.attr = ZT_NEW_N(b->arena, struct zt_attr, n->attr_count);
    copy_inputs(b, &to);
    copy_outputs(b, &to);
    for (int i = 0; i < n->attr_count; i++)
        if (!is_among(n->attr[i].name, without))
            to.attr[to.attr_count++] = n->attr[i];
    if (*more)
        do
            to.in[to.in_count++] = read_sum(&r, 0);
        while (accept(&r, ',') && !b->problem);
    add(b, to);
    b->whole = true;
}

/* ---- the edges ---- */

static bool is_float(enum zt_dtype dtype) {
    return zt_dtype_in(dtype, ZT_ANY_FLOAT);
}

void zt_function_body_start(struct zt_function_body *b, struct zt_arena *arena, const struct zt_graph *g, int node,
                            const bool *read) {
    const struct zt_node *n = g->nodes[node];
    *b = (struct zt_function_body){ .arena = arena, .g = g, .node = node, .read = read, .type = ZT_FLOAT };
    for (int i = 0; i < n->in_count; i++)
        if (n->in[i] >= 0 && g->values[n->in[i]]->dtype == ZT_DOUBLE)
            b->type = ZT_DOUBLE;
    b->in = ZT_NEW_N(arena, const char *, n->in_count);
    b->in_value = ZT_NEW_N(arena, int, n->in_count);
    b->out = ZT_NEW_N(arena, const char *, n->out_count);
}

void zt_function_body_finish(struct zt_function_body *b) {
    zt_vec_finish(&b->nodes);
    zt_vec_finish(&b->names);
    zt_map_finish(&b->made_of);
}

static void name_input(struct zt_function_body *b, const char *name, int index) {
    const struct zt_value *v = zt_in(b->g, b->node, index);
    if (!v || strcmp(name, "_") == 0)
        return;
    bool cast = is_float(v->dtype) && v->dtype != b->type;
    const char *inside = zt_arena_printf(b->arena, "%s%d", name, index);
    add_input(b, name, index);
    if (cast)
        add_cast(b, name, inside, b->type);
    define(b, name, cast ? inside : name);
}

void zt_function_body_names(struct zt_function_body *b, const char *names) {
    struct reader r = { b, names };
    int index = 0;
    skip_space(&r);
    if (*r.at != '-')
        do
            name_input(b, read_word(&r), index++);
        while (accept(&r, ',') && !b->problem);
    expect(&r, '-');
    expect(&r, '>');
    int outs = 0;
    do {
        const char *name = read_word(&r);
        if (zt_function_body_wants(b, outs++))
            b->out[b->out_count++] = name;
    } while (accept(&r, ',') && outs < b->g->nodes[b->node]->out_count);
}

/* Output names are given at the end, so that a statement may use one before its last value is known. */
bool zt_function_body_close(struct zt_function_body *b, struct zt_err *err) {
    for (int i = 0, k = 0; i < b->g->nodes[b->node]->out_count && !b->problem && !b->whole; i++) {
        const struct zt_value *v = zt_out(b->g, b->node, i);
        if (!zt_function_body_wants(b, i))
            continue;
        const char *name = b->out[k], *value = k < b->out_count ? value_of(b, name) : "";
        b->out[k++] = zt_arena_printf(b->arena, "%s_out", name);
        if (is_float(v->dtype) && v->dtype != b->type)
            add_cast(b, value, b->out[k - 1], v->dtype);
        else
            add(b, (struct zt_function_body_node){ .op_type = "Identity",
                                                   .in = one(b, value),
                                                   .in_count = 1,
                                                   .out = one(b, b->out[k - 1]),
                                                   .out_count = 1 });
    }
    return !b->problem || zt_node_fail(b->g, b->node, err, "its body cannot be read: %s", b->problem);
}
