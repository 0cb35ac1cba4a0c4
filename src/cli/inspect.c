/* ztrain inspect: prints the contents of a model and what training would use. Unsupported parts are listed and are no
 * failure. */
#include "cli/commands.h"

#include "graph/ir/list.h"
#include "graph/passes/lower.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/trainable/trainable.h"
#include "session/options.h"
#include "ops/table.h"

#include "base/mapped.h"
#include "base/show.h"
#include "base/text.h"
#include "base/vec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* One operator of one domain and how often it is used. */
struct use {
    const char *op_type, *domain;
    int opset, count;
    const struct zt_op *op;
};

struct inspection {
    struct zt_onnx *model;
    struct zt_graph *g; /* the model with functions inlined */
    int plain;          /* number of its own nodes; nodes of branches and loops follow */
    bool *needed;       /* by value: an output of the graph needs it */
    ZT_VEC(struct use) uses;
    struct zt_err problems; /* needed nodes that cannot run */
    struct zt_err notes;    /* unneeded nodes that cannot run */
    bool *held_up;          /* by output of the graph: it needs a node that cannot run */
    int constants;          /* number of Constant nodes that hold a float tensor of at least one axis */
    struct zt_err inside;   /* nodes in branches and loops that cannot run */
};

static void print_text(const char *text, int width) {
    int n = zt_show_print(stdout, text);
    printf("%*s", n < width ? width - n : 0, "");
}

static int name_width(const struct zt_graph *g, const int *ids, int count) {
    int width = 8;
    for (int i = 0; i < count; i++) {
        int n = (int)strlen(g->values[ids[i]]->name);
        width = n > width && n <= 48 ? n : width;
    }
    return width;
}

/* "float[N, 3, ?]" with the symbols of the file. */
static void print_type(const struct zt_value *v, int width) {
    struct zt_text text = { 0 };
    char list[ZT_LIST_TEXT];
    zt_text_add(&text, "%s", v->list ? zt_list_text(v->list, list) : v->dtype ? zt_dtype_name(v->dtype) : "no tensor");
    for (int k = 0; k < v->shape.rank; k++) {
        zt_text_add(&text, "%s", k ? ", " : "[");
        if (v->shape.dim[k] >= 0)
            zt_text_add(&text, "%lld", (long long)v->shape.dim[k]);
        else
            zt_text_add(&text, "%s", v->dim_param[k] ? v->dim_param[k] : "?");
    }
    zt_text_add(&text, "%s", v->shape.rank > 0 ? "]" : v->shape.rank == 0 ? "[]" : "");
    print_text(text.at, width);
    zt_text_finish(&text);
}

/* ---- nodes ---- */

static void mark_needed(struct inspection *s) {
    const struct zt_graph *g = s->g;
    s->needed = zt_calloc((size_t)g->value_count + 1, sizeof *s->needed);
    for (int i = 0; i < g->output_count; i++)
        s->needed[g->outputs[i]] = true;
    for (int n = s->plain - 1; n >= 0; n--) {
        const struct zt_node *node = g->nodes[n];
        bool needed = false;
        for (int i = 0; i < node->out_count; i++)
            needed |= node->out[i] >= 0 && s->needed[node->out[i]];
        for (int i = 0; needed && i < node->in_count; i++)
            if (node->in[i] >= 0)
                s->needed[node->in[i]] = true;
    }
}

static bool is_needed(const struct inspection *s, const struct zt_node *node) {
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && s->needed[node->out[i]])
            return true;
    return false;
}

static void count_use(struct inspection *s, const struct zt_node *node) {
    for (int i = 0; i < s->uses.count; i++)
        if (strcmp(s->uses.at[i].op_type, node->op_type) == 0 && strcmp(s->uses.at[i].domain, node->domain) == 0) {
            s->uses.at[i].count++;
            return;
        }
    zt_vec_push(&s->uses, (struct use){ node->op_type, node->domain, node->opset, 1, node->op });
}

static int by_name(const void *a, const void *b) {
    const struct use *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    return order ? order : strcmp(x->op_type, y->op_type);
}

/* Marks the outputs that need nodes without a row. */
static void mark_held_up(struct inspection *s) {
    const struct zt_graph *g = s->g;
    bool *value = zt_calloc((size_t)g->value_count + 1, sizeof *value);
    for (int n = 0; n < s->plain; n++) {
        const struct zt_node *node = g->nodes[n];
        bool bad = !node->op;
        for (int i = 0; i < node->in_count; i++)
            bad |= node->in[i] >= 0 && value[node->in[i]];
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                value[node->out[i]] = bad;
    }
    s->held_up = ZT_NEW_N(s->model->graph->arena, bool, g->output_count + 1);
    for (int i = 0; i < g->output_count; i++)
        s->held_up[i] = value[g->outputs[i]];
    free(value);
}

static void resolve_nodes(struct inspection *s) {
    for (int n = 0; n < s->g->node_count; n++) {
        zt_op_resolve(&zt_ops, s->g, n,
                      n >= s->plain                  ? &s->inside
                      : is_needed(s, s->g->nodes[n]) ? &s->problems
                                                     : &s->notes);
        count_use(s, s->g->nodes[n]);
        s->constants += zt_trainable_is_held(s->g->nodes[n]);
    }
    mark_held_up(s);
    if (s->uses.count)
        qsort(s->uses.at, (size_t)s->uses.count, sizeof *s->uses.at, by_name);
}

static void print_uses(const struct inspection *s) {
    printf("\noperators: %d nodes\n", s->g->node_count);
    for (int i = 0; i < s->uses.count; i++) {
        const struct use *u = &s->uses.at[i];
        fputs("  ", stdout);
        print_text(u->op_type, 24);
        putchar(' ');
        print_text(u->domain[0] ? u->domain : "ai.onnx", 10);
        printf(" opset %-3d %6d x  %s\n", u->opset, u->count,
               !u->op                      ? "not supported"
               : zt_op_has_gradient(u->op) ? "gradient"
                                           : "no gradient");
    }
}

static void print_problems(const char *title, const struct zt_err *problems) {
    int shown = problems->count < ZT_ERR_LINES ? problems->count : ZT_ERR_LINES;
    if (!shown)
        return;
    printf("\n%s\n", title);
    for (int i = 0; i < shown; i++)
        printf("  %s\n", problems->text[i]);
    if (problems->count > shown)
        printf("  and %d more\n", problems->count - shown);
}

/* If only some outputs can be computed, lists them. */
static void print_missing(const struct inspection *s) {
    const struct zt_graph *g = s->model->graph;
    int free_outputs = 0;
    for (int i = 0; i < g->output_count; i++)
        free_outputs += !s->held_up[i];
    if (!free_outputs) {
        print_problems("not supported; this model cannot run:", &s->problems);
        return;
    }
    print_problems("not supported; some outputs cannot be computed:", &s->problems);
    if (s->problems.count)
        fputs("outputs that do not depend on these and can be trained:", stdout);
    for (int i = 0; s->problems.count && i < g->output_count; i++) {
        if (s->held_up[i])
            continue;
        putchar(' ');
        print_text(g->values[g->outputs[i]]->name, 0);
    }
    if (s->problems.count)
        putchar('\n');
}

/* ---- values ---- */

static void print_header(const struct inspection *s) {
    const struct zt_onnx *m = s->model;
    printf("model      ");
    print_text(m->path, 0);
    printf("\nproducer   ");
    print_text(m->producer[0] ? m->producer : "not named", 0);
    printf("\nIR version %lld\nopsets     ", (long long)m->ir_version);
    for (int i = 0; i < m->opset_count; i++) {
        fputs(i ? ", " : "", stdout);
        print_text(m->opsets[i].domain[0] ? m->opsets[i].domain : "ai.onnx", 0);
        printf(" %lld", (long long)m->opsets[i].version);
    }
    putchar('\n');
}

static void print_values(const struct zt_graph *g, const char *title, const int *ids, int count) {
    int width = name_width(g, ids, count);
    printf("\n%s: %d\n", title, count);
    for (int i = 0; i < count; i++) {
        fputs("  ", stdout);
        print_text(g->values[ids[i]]->name, width);
        fputs("  ", stdout);
        print_type(g->values[ids[i]], 0);
        putchar('\n');
    }
}

static int64_t elements_of(const struct zt_value *v) {
    int64_t count = zt_shape_count(&v->shape);
    return count < 0 ? 0 : count;
}

static void print_initializer(const struct zt_value *v, int width) {
    fputs("  ", stdout);
    print_text(v->name, width);
    fputs("  ", stdout);
    print_type(v, 24);
    printf("  %-7s  ", v->trainable ? "trained" : "fixed");
    print_text(v->why ? v->why : "", 0);
    putchar('\n');
}

static void print_initializers(struct inspection *s) {
    struct zt_graph *g = s->g;
    int *ids = ZT_NEW_N(g->arena, int, g->value_count), count = 0, trained = 0;
    int64_t elements = 0, trained_elements = 0;
    for (int v = 0; v < g->value_count; v++) {
        if (g->values[v]->origin != ZT_FROM_INITIALIZER)
            continue;
        ids[count++] = v;
        elements += elements_of(g->values[v]);
        trained += g->values[v]->trainable;
        trained_elements += g->values[v]->trainable ? elements_of(g->values[v]) : 0;
    }
    int width = name_width(g, ids, count);
    printf("\ninitializers: %d, trained %d; %lld elements, trained %lld\n", count, trained, (long long)elements,
           (long long)trained_elements);
    for (int i = 0; i < count; i++)
        print_initializer(g->values[ids[i]], width);
    if (!trained && s->constants)
        printf("  %d Constant nodes hold float tensors; tensors to be trained must be initializers\n", s->constants);
}

/* ---- effects of the exporter ---- */

static void print_names(const char *title, const char *const *names, int count) {
    if (count)
        printf("\n%s\n", title);
    for (int i = 0; i < count; i++) {
        fputs("  ", stdout);
        print_text(names[i], 0);
        putchar('\n');
    }
}

/* Prints one line for each group, in the form of ztrain.tie. */
static void print_pairs(const struct zt_graph *g) {
    struct zt_trainable_pair *pairs;
    int count = zt_trainable_pairs(g, &pairs);
    if (count)
        puts(
            "\nequal initializers, possibly tied weights that the exporter copied (each line is a group for "
            "ztrain.tie; an embedding and\nits head, and copies made by the exporter, are tied automatically):");
    for (int i = 0; i < count; i++) {
        const bool begins = i == 0 || pairs[i].a != pairs[i - 1].b;
        fputs(!begins ? "" : i ? "\n  " : "  ", stdout);
        if (begins)
            print_text(g->values[pairs[i].a]->name, 0);
        fputs(pairs[i].transposed ? " = transpose of " : " = ", stdout);
        print_text(g->values[pairs[i].b]->name, 0);
    }
    if (count)
        putchar('\n');
}

static void print_folds(const struct zt_onnx *model) {
    struct zt_trainable_fold *folds;
    const struct zt_graph *g = model->graph;
    int count = zt_trainable_folds(model, &folds);
    if (count)
        puts(
            "\nwarning: layers into which the exporter folded a normalization; they train as plain layers with a bias, "
            "without batch\nstatistics:");
    for (int i = 0; i < count; i++) {
        const struct zt_node *n = g->nodes[folds[i].node];
        fputs("  ", stdout);
        print_text(n->name, 0);
        printf(" (");
        print_text(n->op_type, 0);
        fputs("): ", stdout);
        print_text(g->values[folds[i].weight]->name, 0);
        fputs(folds[i].bias >= 0 ? ", " : "", stdout);
        print_text(folds[i].bias >= 0 ? g->values[folds[i].bias]->name : "", 0);
        putchar('\n');
    }
    if (count)
        printf("  to keep them, export with %s\n", zt_trainable_unfold(folds[0].by));
}

static void print_exporter(const struct inspection *s) {
    const char **names;
    int count = zt_trainable_missing(s->model, &names);
    print_names(
        "warning: parameters that the exporter merged with others or folded, which cannot be trained separately:",
        names, count);
    print_folds(s->model);
    count = zt_trainable_aliases(s->model, s->g, &names);
    print_names("copies of an initializer (Identity nodes); training makes them separate tensors:", names, count);
    print_pairs(s->g);
}

/* Counts the operators in all graphs of the file. */
static void look_at_nodes(struct inspection *s) {
    s->g = zt_graph_clone(s->model->graph);
    zt_pass_lower(s->g, &zt_ops, &s->problems);
    s->plain = s->g->node_count;
    zt_pass_open_bodies(s->g, &zt_ops, INT_MAX, &s->problems);
    mark_needed(s);
    resolve_nodes(s);
}

/* Classifies the parameters as training does. */
static void look_at_parameters(struct inspection *s) {
    zt_graph_destroy(s->g);
    s->g = zt_graph_clone(s->model->graph);
    struct zt_err known = { 0 };
    zt_pass_detach(s->g, s->model);
    zt_pass_split_aliases(s->g, &zt_ops, s->model);
    zt_pass_lower(s->g, &zt_ops, &known);
    zt_pass_detach(s->g, s->model);
    for (int n = 0; n < s->g->node_count; n++)
        zt_op_resolve(&zt_ops, s->g, n, &known);
    zt_pass_trainable(s->g, s->model, -1);
}

bool zt_cli_inspect(const struct zt_options *options, struct zt_err *err) {
    struct inspection s = { .model = zt_onnx_read(options->model, ZT_WEIGHTS_ABSENT_OK, err) };
    if (!s.model)
        return false;
    zt_pass_split_merged(s.model, &zt_ops);
    look_at_nodes(&s);
    print_header(&s);
    print_values(s.g, "inputs", s.g->inputs, s.g->input_count);
    print_values(s.g, "outputs", s.g->outputs, s.g->output_count);
    print_uses(&s);
    look_at_parameters(&s);
    print_initializers(&s);
    print_exporter(&s);
    print_missing(&s);
    print_problems("not supported inside branches and loops, which therefore cannot run:", &s.inside);
    print_problems("not supported, but not needed for any output:", &s.notes);
    free(s.needed);
    zt_vec_finish(&s.uses);
    zt_graph_destroy(s.g);
    bool ok = zt_mapped_all_intact(err);
    zt_onnx_destroy(s.model);
    return ok;
}
