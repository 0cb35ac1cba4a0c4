#include "net.h"

#include "base/map.h"
#include "base/rng.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int net_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape) {
    int id = zt_graph_add_value(g, name, dtype, shape);
    g->values[id]->origin = ZT_FROM_INPUT;
    int *inputs = ZT_NEW_N(g->arena, int, g->input_count + 1);
    if (g->input_count)
        memcpy(inputs, g->inputs, (size_t)g->input_count * sizeof *inputs);
    inputs[g->input_count++] = id;
    g->inputs = inputs;
    return id;
}

int net_param(struct zt_graph *g, const char *name, const struct zt_shape *shape) {
    int id = zt_graph_add_value(g, name, ZT_FLOAT, shape);
    int64_t count = zt_shape_count(shape);
    float *data = zt_arena_alloc(g->arena, (size_t)count * sizeof *data);
    struct zt_rng rng = zt_rng_start(zt_hash(ZT_HASH_START, name, strlen(name)), 0);
    for (int64_t i = 0; i < count; i++)
        data[i] = zt_rng_uniform(&rng) - 0.5f;
    g->values[id]->origin = ZT_FROM_INITIALIZER;
    g->values[id]->data = data;
    g->values[id]->trainable = true;
    return id;
}

int net_node(struct zt_graph *g, const char *op, const char *out, ...) {
    int in[16], count = 0, id = zt_graph_find(g, out);
    const char *dot = strrchr(op, '.'), *domain = dot ? zt_arena_strndup(g->arena, op, (size_t)(dot - op)) : "";
    va_list ap;
    va_start(ap, out);
    for (int v; (v = va_arg(ap, int)) != -2;)
        in[count++] = v;
    va_end(ap);
    if (id < 0)
        id = zt_graph_add_value(g, out, ZT_UNDEFINED, NULL);
    zt_graph_add_node(g,
                      &(struct zt_node_spec){ out, dot ? dot + 1 : op, domain, dot ? 1 : ZT_OPSET, in, count, &id, 1 });
    return id;
}

struct zt_node *net_last(struct zt_graph *g) {
    return g->nodes[g->node_count - 1];
}

void net_infer(struct zt_graph *g, const struct zt_op_table *table) {
    struct zt_err err = { 0 };
    for (int n = 0; n < g->node_count; n++)
        if (!g->nodes[n]->op)
            ck_assert_msg(zt_op_resolve(table, g, n, &err) && zt_op_infer(g, n, &err), "%s", err.text[0]);
}

static void print_value(const struct zt_graph *g, int id, FILE *to) {
    char shape[ZT_SHAPE_TEXT];
    if (id < 0) {
        fputc('-', to);
        return;
    }
    const struct zt_value *v = g->values[id];
    fprintf(to, "%s: %s%s", v->name, zt_dtype_name(v->dtype), zt_shape_text(&v->shape, shape));
    if (v->layout)
        fprintf(to, " as %s", v->layout->name);
}

static void print_graph(const struct zt_graph *g, FILE *to) {
    static const char *const backend[ZT_BACKENDS] = { "ref", "cpu", "cuda" };
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        fprintf(to, "%c %s: %s%s%s [%s] (", node->phase == ZT_FORWARD ? 'F' : 'B', node->name, node->domain,
                node->domain[0] ? "." : "", node->op_type, backend[node->backend]);
        for (int i = 0; i < node->in_count; i++) {
            fputs(i ? ", " : "", to);
            print_value(g, node->in[i], to);
        }
        fputs(") -> ", to);
        for (int i = 0; i < node->out_count; i++) {
            fputs(i ? ", " : "", to);
            print_value(g, node->out[i], to);
        }
        fputc('\n', to);
    }
}

char *net_text(const struct zt_graph *g) {
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    print_graph(g, to);
    fclose(to);
    return text;
}
