/* The forward nodes are grouped into layers (a node that reads a trainable parameter starts one), and the layers are
 * cut into `stages` contiguous ranges whose dearest is as cheap as possible (dynamic programming over cuts):
 *
 *     layers  fc1 relu | fc2 relu | fc3 loss        cost 10 | 6 | 2
 *     2 stages: {fc1} {fc2, fc3}: 10 and 8          (not {fc1, fc2} {fc3}: 16 and 2) */
#include "parallel/split.h"

#include "graph/op.h"

#include <stdlib.h>

static bool starts_layer(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node].in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->trainable)
            return true;
    return false;
}

static double node_cost(const struct zt_graph *g, int node) {
    double bytes = 0;
    for (int i = 0; i < g->nodes[node].out_count; i++) {
        const struct zt_value *v = zt_out(g, node, i);
        bytes += v ? (double)zt_shape_count(&v->shape) * (double)zt_dtype_bytes(v->dtype) : 0;
    }
    return zt_op_flops(g, node) + bytes;
}

/* layer[n]: number of the layer of node n. A bias Add behind its MatMul reads a parameter too, but a layer of its own
 * is harmless. */
static int find_layers(const struct zt_graph *g, int *layer) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].phase == ZT_FORWARD && starts_layer(g, n))
            count++;
        layer[n] = count > 0 ? count - 1 : 0;
    }
    return count;
}

/* first[s]: first layer of stage s. best[s][l]: cost of the dearest of s + 1 stages that hold layers 0..l. */
static void cut(const double *sum, int layers, int stages, int *first) {
    double *best = zt_malloc(sizeof *best * (size_t)stages * (size_t)layers);
    int *from = zt_malloc(sizeof *from * (size_t)stages * (size_t)layers);
    for (int s = 0; s < stages; s++) {
        for (int l = s; l < layers; l++) {
            best[s * layers + l] = s == 0 ? sum[l + 1] : 1e300;
            from[s * layers + l] = 0;
            /* the later the cut k, the cheaper stage s and the dearer those before: the best is where they cross, and
             * moves on with l */
            for (int k = s == 0 || l == s ? s : from[s * layers + l - 1]; s > 0 && k <= l; k++) {
                double own = sum[l + 1] - sum[k], before = best[(s - 1) * layers + k - 1];
                double worst = own > before ? own : before;
                if (worst < best[s * layers + l]) {
                    best[s * layers + l] = worst;
                    from[s * layers + l] = k;
                }
                if (before > own)
                    break;
            }
        }
    }
    for (int s = stages - 1, l = layers - 1; s >= 0; l = first[s] - 1, s--)
        first[s] = from[s * layers + l];
    free(from);
    free(best);
}

static bool check_shared(const struct zt_graph *g, struct zt_err *err) {
    int *stage = zt_malloc(((size_t)g->value_count + 1) * sizeof *stage);
    bool ok = true;
    for (int v = 0; v < g->value_count; v++)
        stage[v] = -1;
    for (int n = 0; ok && n < g->node_count; n++) {
        for (int i = 0; ok && i < g->nodes[n].in_count; i++) {
            int v = g->nodes[n].in[i];
            if (v < 0 || !(g->values[v].trainable || g->values[v].statistic))
                continue;
            if (stage[v] >= 0 && stage[v] != g->nodes[n].stage)
                ok = zt_fail(err, ZT_EXIT_CONFIG,
                             "pipeline.stages: parameter \"%s\" is used on stages %d and %d; weights shared between "
                             "stages are not supported yet",
                             g->values[v].name, stage[v], g->nodes[n].stage);
            stage[v] = g->nodes[n].stage;
        }
    }
    free(stage);
    return ok;
}

bool zt_split_choose(const struct zt_graph *g, int stages, int *first, struct zt_err *err) {
    int *layer = zt_calloc((size_t)g->node_count + 1, sizeof *layer);
    int layers = find_layers(g, layer);
    if (stages > 1 && stages > layers) {
        free(layer);
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline.stages = %d, but the model has only %d layers with parameters",
                       stages, layers);
    }
    double *sum = zt_calloc((size_t)layers + 2, sizeof *sum);
    for (int n = 0; n < g->node_count; n++)
        sum[layer[n] + 1] += node_cost(g, n);
    for (int l = 0; l < layers; l++)
        sum[l + 1] += sum[l];
    first[0] = 0;
    first[stages] = layers;
    if (stages > 1)
        cut(sum, layers, stages, first);
    free(sum);
    free(layer);
    return true;
}

bool zt_split_apply(struct zt_graph *g, int stages, const int *first, struct zt_err *err) {
    int *layer = zt_calloc((size_t)g->node_count + 1, sizeof *layer);
    int layers = find_layers(g, layer);
    for (int n = 0; n < g->node_count; n++)
        for (int s = 1; s < stages; s++)
            if (layer[n] >= first[s])
                g->nodes[n].stage = s;
    free(layer);
    if (stages > 1 && layers != first[stages])
        return zt_fail(err, ZT_EXIT_MODEL,
                       "pipeline.stages: %d layers with parameters in one batch size or form, %d in another",
                       first[stages], layers);
    return check_shared(g, err);
}
