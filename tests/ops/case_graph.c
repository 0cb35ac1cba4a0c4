#include "tests/ops/cases.h"

#include "base/rng.h"
#include "graph/ir/op.h"
#include "ops/table.h"
#include "tests/normal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Takes "name" up to one of `ends` from *text into `to`. */
static void take(const char **text, const char *ends, char *to, size_t room) {
    size_t n = strcspn(*text, ends);
    size_t kept = n < room - 1 ? n : room - 1;
    memcpy(to, *text, kept);
    to[kept] = 0;
    *text += n;
}

static enum zt_dtype dtype_named(const char *name) {
    for (int d = 1; d < ZT_DTYPES; d++)
        if (strcmp(zt_dtype_name((enum zt_dtype)d), name) == 0)
            return (enum zt_dtype)d;
    return ZT_UNDEFINED;
}

/* Reads "1,2.5,3" up to `end` and steps behind it; returns how many. */
static int take_numbers(const char **text, char end, double *to, int room) {
    int n = 0;
    while (**text && **text != end) {
        char *after;
        double v = strtod(*text, &after);
        if (after == *text)
            break;
        if (n < room)
            to[n] = v;
        n++;
        *text = *after == ',' ? after + 1 : after;
    }
    if (**text == end)
        ++*text;
    return n < room ? n : room;
}

/* Elements of a random input: in the range given, else normal (floats), 0..9 (integers), coin (bool). */
static void fill(const struct zt_tensor *t, void *data, const char **text, uint64_t key) {
    struct normal normal = normal_start(key, 0);
    bool whole = !zt_dtype_in(t->dtype, ZT_ANY_FLOAT), ranged = **text == ':';
    double low = 0, high = t->dtype == ZT_BOOL ? 1 : 9;
    if (ranged) {
        char *after;
        low = strtod(*text + 1, &after);
        high = strtod(after + strspn(after, "."), &after);
        *text = after;
    }
    int64_t count = zt_shape_count(&t->shape);
    for (int64_t i = 0; i < count; i++) {
        double v;
        if (whole)
            v = low + (double)zt_rng_below(&normal.rng, (uint64_t)(high - low) + 1);
        else if (ranged)
            v = low + (high - low) * (double)zt_rng_uniform(&normal.rng);
        else
            v = (double)normal_next(&normal);
        zt_store_double(t->dtype, data, i, v);
    }
}

/* One tensor written as in cases.h, made in the graph's arena. */
static bool take_tensor(struct zt_graph *g, const char **text, uint64_t key, struct zt_tensor *t, bool *constant) {
    char name[32];
    double numbers[256];
    take(text, "[{( ", name, sizeof name);
    t->dtype = dtype_named(name);
    char open = **text;
    if (t->dtype == ZT_UNDEFINED || (open != '[' && open != '{' && open != '('))
        return false;
    ++*text;
    int n = take_numbers(text, open == '[' ? ']' : open == '{' ? '}' : ')', numbers, 256);
    *constant = open != '[';
    t->shape.rank = open == '{' ? 1 : 0;
    t->shape.dim[0] = n;
    if (open == '[') {
        t->shape.rank = n;
        for (int i = 0; i < n && i < ZT_MAX_RANK; i++)
            t->shape.dim[i] = (int64_t)numbers[i];
    }
    void *data = zt_arena_alloc(g->arena, (size_t)zt_shape_count(&t->shape) * zt_dtype_bytes(t->dtype));
    t->data = data;
    if (open == '[')
        fill(t, data, text, key);
    else
        for (int i = 0; i < n; i++)
            zt_store_double(t->dtype, data, i, numbers[i]);
    return true;
}

static void widen(struct zt_graph *g, struct zt_tensor *t) {
    if (!zt_dtype_in(t->dtype, ZT_ANY_FLOAT) || t->dtype == ZT_DOUBLE)
        return;
    int64_t count = zt_shape_count(&t->shape);
    double *wide = zt_arena_alloc(g->arena, (size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = zt_load_double(t->dtype, t->data, i);
    t->dtype = ZT_DOUBLE;
    t->data = wide;
}

static void set_number(struct zt_graph *g, struct zt_attr *a, const char *word) {
    double numbers[64];
    bool list = *word == '[', whole = !strchr(word, '.');
    word += list;
    a->count = take_numbers(&word, ']', numbers, 64);
    if (!list) {
        a->type = whole ? ZT_ATTR_INT : ZT_ATTR_FLOAT;
        a->i = (int64_t)numbers[0];
        a->f = (float)numbers[0];
        return;
    }
    int64_t *ints = ZT_NEW_N(g->arena, int64_t, a->count);
    float *floats = ZT_NEW_N(g->arena, float, a->count);
    for (int i = 0; i < a->count; i++) {
        ints[i] = (int64_t)numbers[i];
        floats[i] = (float)numbers[i];
    }
    a->type = whole ? ZT_ATTR_INTS : ZT_ATTR_FLOATS;
    a->ints = ints;
    a->floats = floats;
}

/* "[Tanh,Relu]" */
static void set_texts(struct zt_graph *g, struct zt_attr *a, const char *word) {
    const char **texts = ZT_NEW_N(g->arena, const char *, strlen(word));
    char one[64];
    while (*word == '[' || *word == ',') {
        word++;
        take(&word, ",]", one, sizeof one);
        texts[a->count++] = zt_arena_strdup(g->arena, one);
    }
    a->type = ZT_ATTR_STRINGS;
    a->strings = texts;
}

static void take_attributes(struct zt_graph *g, const char *text, bool wide) {
    while (text && *text) {
        char name[64], word[256];
        take(&text, "=", name, sizeof name);
        text += *text == '=';
        take(&text, " ", word, sizeof word);
        text += strspn(text, " ");
        struct zt_attr a = { .name = zt_arena_strdup(g->arena, name) };
        const char *at = word;
        bool constant;
        if (*word == '[' && isalpha((unsigned char)word[1])) {
            set_texts(g, &a, word);
        } else if (strchr("[-0123456789", *word)) {
            set_number(g, &a, word);
        } else if (strpbrk(word, "{(") && take_tensor(g, &at, 0, &a.tensor, &constant)) {
            a.type = ZT_ATTR_TENSOR;
            if (wide)
                widen(g, &a.tensor);
        } else {
            a.type = ZT_ATTR_STRING;
            a.s = zt_arena_strdup(g->arena, word);
        }
        zt_node_set_attr(g, 0, &a);
    }
}

static bool take_inputs(const struct zt_case *c, bool wide, struct zt_case_graph *made, struct zt_err *err) {
    struct zt_graph *g = made->graph;
    const char *text = c->in ? c->in : "";
    while (*text && made->in_count < CASE_INPUTS) {
        int i = made->in_count++;
        made->in[i] = -1;
        if (*text == '-') {
            text++;
        } else {
            struct zt_tensor *t = &made->feed[i];
            if (!take_tensor(g, &text, zt_rng_key(1, (uint64_t)i, 0, 0), t, &made->constant[i]))
                return zt_fail(err, ZT_EXIT_CONFIG, "case %s: cannot read '%s'", c->op, text);
            if (wide)
                widen(g, t);
            const char *name = zt_arena_printf(g->arena, "in%d", i);
            if (made->constant[i]) {
                made->in[i] = zt_graph_add_constant(g, name, t->dtype, &t->shape, t->data);
            } else {
                made->in[i] = zt_graph_add_value(g, name, t->dtype, &t->shape);
                g->values[made->in[i]]->origin = ZT_FROM_INPUT;
                g->values[made->in[i]]->producer = -1;
            }
        }
        text += strspn(text, " ");
    }
    return true;
}

bool zt_case_make(const struct zt_case *c, bool wide, struct zt_case_graph *made, struct zt_err *err) {
    memset(made, 0, sizeof *made);
    struct zt_graph *g = made->graph = zt_graph_create("case");
    if (!take_inputs(c, wide, made, err))
        return false;
    int out[CASE_OUTPUTS], outs = c->outs ? c->outs : 1;
    for (int i = 0; i < outs; i++)
        out[i] = zt_graph_add_value(g, zt_arena_printf(g->arena, "out%d", i), ZT_UNDEFINED, NULL);
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ "case", c->op, c->domain ? c->domain : "",
                                                            c->opset ? c->opset : ZT_OPSET, made->in, made->in_count,
                                                            out, outs });
    take_attributes(g, c->attrs, wide);
    g->outputs = zt_arena_copy(g->arena, out, (size_t)outs * sizeof *out);
    g->output_count = outs;
    return zt_graph_index(g, err) && zt_op_resolve(&zt_ops, g, node, err);
}

/* ---- results ---- */

int zt_case_results(const struct zt_case *c, const struct zt_graph *g) {
    return c->results ? c->results : g->output_count;
}

struct zt_tensor zt_case_random(struct zt_arena *arena, const struct zt_shape *shape, uint64_t key) {
    int64_t count = zt_shape_count(shape);
    double *data = zt_arena_alloc(arena, (size_t)count * sizeof *data);
    struct normal normal = normal_start(key, 1);
    for (int64_t i = 0; i < count; i++)
        data[i] = (double)normal_next(&normal);
    return (struct zt_tensor){ .dtype = ZT_DOUBLE, .shape = *shape, .data = data };
}

static double tolerance(const struct zt_case *c, enum zt_dtype dtype) {
    if (c->tolerance > 0)
        return c->tolerance;
    return dtype == ZT_BFLOAT16 ? 2e-2 : dtype == ZT_FLOAT16 ? 4e-3 : dtype == ZT_FLOAT ? 1e-5 : 1e-12;
}

bool zt_case_same(const struct zt_case *c, int out, const struct zt_tensor *got, const struct zt_tensor *want,
                  struct zt_err *err) {
    char a[ZT_SHAPE_TEXT], b[ZT_SHAPE_TEXT];
    if (!zt_shape_equal(&got->shape, &want->shape))
        return zt_fail(err, ZT_EXIT_RUN, "output %d: shape %s, expected %s", out, zt_shape_text(&got->shape, a),
                       zt_shape_text(&want->shape, b));
    double limit = zt_dtype_in(got->dtype, ZT_ANY_FLOAT) ? tolerance(c, got->dtype) : 0;
    int64_t count = zt_shape_count(&got->shape);
    double scale = 0;
    for (int64_t i = 0; i < count; i++) {
        double w = zt_load_double(want->dtype, want->data, i);
        scale += isfinite(w) ? fabs(w) / (double)count : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = zt_load_double(got->dtype, got->data, i), w = zt_load_double(want->dtype, want->data, i);
        bool exact = limit > 0 || zt_load_int(got->dtype, got->data, i) == zt_load_int(want->dtype, want->data, i);
        bool fits = (isnan(x) && isnan(w)) || (x == w && exact) ||
                    (limit > 0 && fabs(x - w) <= limit * (fabs(w) + scale) + 1e-30);
        if (!fits)
            return zt_fail(err, ZT_EXIT_RUN, "output %d, element %lld: %.9g, expected %.9g", out, (long long)i, x, w);
    }
    return true;
}
