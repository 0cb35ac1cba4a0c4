/* Parameters that a node reads outside of their module, as in
 *
 *     with torch.no_grad():
 *         h = self.backbone(x)
 *
 * dynamo's exporter inlines the block. The file does not say that no gradient passes it, but the nodes lose the modules
 * that were entered inside: they have those around the block alone.
 *
 *     outside of a block    ": Net/backbone: Sequential/backbone.0: Linear/linear: aten.linear.default"
 * backbone.0.weight inside                ": Net/linear: aten.linear.default" backbone.0.weight
 *
 * A module that reads the weights of a child itself, F.linear(x, self.qkv.weight), looks the same, so that one weight
 * must be of a module further down. PyTorch's own modules read weights so, and have no such block. Other methods of a
 * module than forward() read its parameters outside of it, too, which other nodes inside of the module or of one in it
 * tell apart; layer.forward(x) does so without any, and only the stack trace, where the file has it, tells it apart: it
 * has the lines of the network's source for all but the nodes of a block.
 *
 * A network that meets its own predictions, as those of the next state in Q-learning, reads a parameter in both ways
 * with nodes of one operator. */
#include "graph/passes/trainable/trainable.h"

#include "base/text.h"

#include <string.h>

/* The innermost module of a namespace, without the operation at its end: its name, "" for the network, and its class.
 * Returns false where there is none. */
static bool read_module(const char *namespace, const char **name, size_t *length, const char **class) {
    const char *end = strrchr(namespace, '/'), *start = end;
    while (start && start > namespace && start[-1] != '/')
        start--;
    const char *colon = start ? strstr(start, ": ") : NULL;
    if (!colon || colon > end)
        return false;
    *name = start;
    *length = (size_t)(colon - start);
    *class = colon + 2;
    return true;
}

/* The number of modules from `module` down to the one that holds the parameter; 0: it is not below. */
static int levels_below(const char *parameter, const char *module, size_t length) {
    int levels = 0;
    if (length && (strncmp(parameter, module, length) != 0 || parameter[length] != '.'))
        return 0;
    for (const char *at = parameter + (length ? length + 1 : 0); (at = strchr(at, '.')); at++)
        levels++;
    return levels;
}

static const char *name_of(const struct zt_value *v) {
    return v->sources ? v->sources[0] : v->name;
}

/* How far below the module of a node the parameters are that it reads, the largest of levels_below(), or of one
 * `parameter` alone (-1: all). 0 in a module of PyTorch's own, and in no block. */
static int reaches(const struct zt_graph *g, const struct zt_node *n, int parameter) {
    const char *module, *class;
    size_t length;
    int most = 0;
    if (n->torch_in_source || !n->torch_namespace || !read_module(n->torch_namespace, &module, &length, &class) ||
        strncmp(class, "torch.nn.", 9) == 0)
        return 0;
    for (int k = 0; k < n->in_count; k++) {
        const struct zt_value *v = n->in[k] >= 0 ? g->values[n->in[k]] : NULL;
        if (!v || v->origin != ZT_FROM_INITIALIZER || (parameter >= 0 && n->in[k] != parameter))
            continue;
        const int levels = levels_below(name_of(v), module, length);
        most = levels > most ? levels : most;
    }
    return most;
}

/* Whether another node of the same module reads parameters from further down. */
static bool has_deeper(const struct zt_graph *g, const struct zt_node *like) {
    const char *module, *other, *class;
    size_t length, also;
    read_module(like->torch_namespace, &module, &length, &class);
    for (int i = 0; i < g->node_count; i++)
        if (reaches(g, g->nodes[i], -1) > 1 && read_module(g->nodes[i]->torch_namespace, &other, &also, &class) &&
            length == also && strncmp(module, other, length) == 0)
            return true;
    return false;
}

/* Whether the namespace has the module of the parameter, or one in it. */
static bool is_inside(const char *namespace, const char *parameter) {
    const size_t length = (size_t)(strrchr(parameter, '.') - parameter);
    for (const char *at = namespace; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, parameter, length) == 0 && (at[length] == '.' || at[length] == ':'))
            return true;
    }
    return false;
}

static bool is_entered(const struct zt_graph *g, const char *parameter) {
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->torch_namespace && is_inside(g->nodes[i]->torch_namespace, parameter))
            return true;
    return false;
}

bool zt_trainable_is_unscoped(const struct zt_onnx *model, const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *reader = NULL;
    const int id = zt_graph_find(g, v->name);
    int most = 0;
    if (id < 0 || !model->torch_signature || !strchr(name_of(v), '.') || is_entered(g, name_of(v)))
        return false;
    for (int i = 0; i < g->node_count; i++) {
        bool reads = false;
        for (int k = 0; k < g->nodes[i]->in_count; k++)
            reads |= g->nodes[i]->in[k] == id;
        if (!reads || g->nodes[i]->dead)
            continue;
        const int levels = reaches(g, g->nodes[i], id);
        if (!levels)
            return false;
        most = levels > most ? levels : most;
        reader = g->nodes[i];
    }
    return most > 1 || (most && has_deeper(g, reader));
}

/* Whether a node of the same operator reads the parameter inside of its module. */
static bool is_read_inside(const struct zt_graph *g, const struct zt_node *like, int parameter) {
    for (int i = 0; i < g->node_count; i++) {
        const struct zt_node *n = g->nodes[i];
        if (strcmp(n->op_type, like->op_type) != 0 || !n->torch_namespace || reaches(g, n, parameter))
            continue;
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] == parameter)
                return true;
    }
    return false;
}

/* Whether a gradient of the loss comes from an output of the node. */
static bool is_reached(const struct zt_graph *g, const struct zt_node *n) {
    bool reached = false;
    for (int k = 0; k < n->out_count; k++)
        reached |= n->out[k] >= 0 && g->values[n->out[k]]->reached;
    return reached;
}

int zt_trainable_read_again(const struct zt_onnx *model, const struct zt_graph *g, const char ***names) {
    int count = 0;
    *names = ZT_NEW_N(g->arena, const char *, g->node_count + 1);
    for (int i = 0; i < g->node_count && model->torch_signature; i++) {
        const struct zt_node *n = g->nodes[i];
        const int levels = reaches(g, n, -1);
        bool again = false;
        for (int k = 0; k < n->in_count && (levels > 1 || (levels && has_deeper(g, n))); k++)
            again |= n->in[k] >= 0 && reaches(g, n, n->in[k]) && is_read_inside(g, n, n->in[k]);
        if (again && is_reached(g, n))
            (*names)[count++] = n->name;
    }
    return count;
}
