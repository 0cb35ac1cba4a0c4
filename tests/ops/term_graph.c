#include "tests/ops/term_graph.h"

#include "base/map.h"
#include "base/rng.h"
#include "tests/normal.h"

#include <check.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct zt_graph *g;
    const char *at;
};

static void skip_space(struct reader *r) {
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(struct reader *r, char c) {
    skip_space(r);
    return *r->at == c && r->at++;
}

static const char *take_word(struct reader *r) {
    size_t n = 0;
    for (skip_space(r); isalnum((unsigned char)r->at[n]) || r->at[n] == '_' || r->at[n] == '\'';)
        n++;
    ck_assert_msg(n > 0, "a word at \"%s\"", r->at);
    r->at += n;
    return zt_arena_strndup(r->g->arena, r->at - n, n);
}

static int take_ints(struct reader *r, char end, int64_t *to) {
    int n = 0;
    while (!take(r, end)) {
        char *after;
        ck_assert_msg(n < 8, "too many numbers before \"%s\"", r->at);
        to[n++] = strtoll(r->at, &after, 10);
        r->at = after;
        take(r, ',');
    }
    return n;
}

/* filled: '0' or '1' everywhere, or numbers that are a function of the name. */
static void fill(const struct zt_shape *shape, enum zt_dtype dtype, const char *name, char filled, void *data) {
    struct normal normal = normal_start(zt_hash(ZT_HASH_START, name, strlen(name)), 0);
    int64_t columns = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    int64_t rows = shape->rank > 1 ? shape->dim[shape->rank - 2] : 1, count = zt_shape_count(shape);
    for (int64_t i = 0; i < count; i++)
        zt_store_double(dtype, data, i,
                        filled             ? filled - '0'
                        : dtype == ZT_BOOL ? i % columns <= i / columns % rows
                                           : (double)normal_next(&normal));
}

/* Reads kind and shape after the first occurrence of a name. */
static int declare(struct reader *r, const char *name) {
    struct zt_graph *g = r->g;
    struct zt_shape shape = { 0 };
    bool input = take(r, '~'), constant = !input && take(r, '!');
    enum zt_dtype dtype = strncmp(r->at, "bool", 4) == 0 ? ZT_BOOL : ZT_FLOAT;
    r->at += dtype == ZT_BOOL ? 4 : 0;
    char filled = isdigit((unsigned char)*r->at) ? *r->at++ : 0;
    ck_assert_msg(take(r, '['), "\"%s\" is not known, before \"%s\"", name, r->at);
    shape.rank = take_ints(r, ']', shape.dim);
    int id = zt_graph_add_value(g, name, dtype, &shape);
    void *data = zt_arena_alloc(g->arena, (size_t)zt_shape_count(&shape) * zt_dtype_bytes(dtype) + 1);
    fill(&shape, dtype, name, filled, data);
    g->values[id]->origin = input ? ZT_FROM_INPUT : ZT_FROM_INITIALIZER;
    g->values[id]->data = data; /* of an input: for who feeds it; see test_fuse.c */
    g->values[id]->trainable = !input && !constant;
    if (input)
        g->inputs[g->input_count++] = id;
    return id;
}

static void take_attrs(struct reader *r, int node) {
    while (!take(r, '>')) {
        const char *name = take_word(r);
        int64_t list[8];
        int n = 0;
        char *after;
        ck_assert(take(r, '='));
        const bool quoted = take(r, '\'');
        size_t length = strcspn(r->at, quoted ? "'" : ",>");
        if (quoted) {
            zt_node_set_text(r->g, node, name, zt_arena_strndup(r->g->arena, r->at, length++));
        } else if (memchr(r->at, '.', length)) {
            zt_node_set_float(r->g, node, name, strtof(r->at, NULL));
        } else if (isalpha((unsigned char)*r->at)) {
            zt_node_set_text(r->g, node, name, zt_arena_strndup(r->g->arena, r->at, length));
        } else {
            bool listed = *r->at == '[';
            for (const char *p = r->at + listed; p < r->at + length && *p != ']'; p = after)
                list[n++] = strtoll(p, &after, 10);
            if (n == 1 && !listed)
                zt_node_set_int(r->g, node, name, list[0]);
            else
                zt_node_set_ints(r->g, node, name, list, n);
        }
        r->at += length;
        take(r, ',');
    }
}

static void skip_attrs(struct reader *r) {
    for (bool quoted = false; quoted || *r->at != '>'; r->at++)
        quoted ^= *r->at == '\'';
    r->at++;
}

static int take_term(struct reader *r);

static int take_node(struct reader *r, const char *op, const char *name) {
    struct zt_graph *g = r->g;
    int opset = ZT_OPSET, outs = 1, in[8], count = 0, out[8];
    if (take(r, '@'))
        opset = (int)strtol(r->at, (char **)&r->at, 10);
    if (take(r, ':'))
        outs = (int)strtol(r->at, (char **)&r->at, 10);
    struct reader attrs = *r;
    if (take(r, '<'))
        skip_attrs(r);
    ck_assert_msg(take(r, '('), "( at \"%s\"", r->at);
    while (!take(r, ')')) {
        ck_assert_int_lt(count, 8);
        in[count++] = take(r, ',') ? -1 : take_term(r);
        if (in[count - 1] >= 0)
            take(r, ',');
    }
    out[0] = zt_graph_add_value(g, name, ZT_UNDEFINED, NULL);
    for (int i = 1; i < outs; i++)
        out[i] = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s%.*s", name, i, "''''''''"), ZT_UNDEFINED, NULL);
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ NULL, op, "", opset, in, count, out, outs });
    if (take(&attrs, '<'))
        take_attrs(&attrs, node);
    return out[0];
}

static int take_term(struct reader *r) {
    struct zt_graph *g = r->g;
    int64_t list[8];
    skip_space(r);
    if (take(r, '{')) {
        int n = take_ints(r, '}', list);
        return zt_graph_add_ints(g, "list", list, n);
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '-')
        return zt_graph_add_float(g, "number", ZT_FLOAT, strtod(r->at, (char **)&r->at));
    const char *word = take_word(r);
    skip_space(r);
    if (strchr("(<@:", *r->at) && *r->at)
        return take_node(r, word, NULL);
    if (take(r, '='))
        return take_node(r, take_word(r), word);
    int id = zt_graph_find(g, word);
    return id >= 0 ? id : declare(r, word);
}

struct zt_graph *term_graph(const char *text) {
    struct zt_graph *g = zt_graph_create("term");
    struct reader r = { g, text };
    g->inputs = ZT_NEW_N(g->arena, int, 8);
    g->outputs = ZT_NEW_N(g->arena, int, 1);
    g->output_count = 1;
    do
        g->outputs[0] = take_term(&r);
    while (take(&r, ';'));
    ck_assert_msg(!*r.at, "\"%s\" is left over", r.at);
    return g;
}
