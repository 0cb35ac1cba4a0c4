/* The first NaN of the step in execution order, or else the first infinity, is followed back through non-finite inputs
 * to its origin: a node, a weight or a column of the data. For example, Exp overflows, and later inf - inf is NaN.
 * Constants with -inf are not followed, because models use them as masks. */
#include "run/rank/non_finite_nodes.h"

#include "ops/kernel/layout.h"

#include <math.h>
#include <stdlib.h>

enum { IS_NAN = 1, IS_INF = 2, IS_MINUS_INF = 4, KNOWN = 8 };

struct zt_rank_tracing {
    bool training;
    unsigned char **status;               /* [program][(slots + 1) x values]: status of node outputs */
    struct zt_trace_origin nan, infinity; /* the first of each */
    void *copy;                           /* host copy of a tensor in device memory */
    size_t copy_bytes;
};

/* ---- status of a tensor ---- */

unsigned zt_trace_status(enum zt_dtype dtype, const void *data, int64_t count) {
    unsigned status = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = dtype == ZT_FLOAT ? (double)((const float *)data)[i] : zt_load_double(dtype, data, i);
        if (!isfinite(x))
            status |= isnan(x) ? IS_NAN : x > 0 ? IS_INF : IS_MINUS_INF;
    }
    return status;
}

/* In blocked layouts the padding counts too: kernels write zeros there. */
static bool look(struct zt_rank *r, const struct zt_view *view, unsigned *status, struct zt_err *err) {
    struct zt_rank_tracing *t = r->tracing;
    size_t bytes = zt_view_bytes(view);
    const void *data = view->data;
    *status = 0;
    if (!data || !bytes || !zt_dtype_in(view->dtype, ZT_ANY_FLOAT))
        return true;
    if (r->device_memory) {
        if (bytes > t->copy_bytes) {
            free(t->copy);
            t->copy = zt_malloc(t->copy_bytes = bytes);
        }
        if (!zt_rank_fetch(r, t->copy, data, bytes, err))
            return false;
        data = t->copy;
        bytes = zt_layout_stored(view, t->copy);
    }
    *status = zt_trace_status(view->dtype, data, (int64_t)(bytes / zt_dtype_bytes(view->dtype)));
    return true;
}

/* ---- following back ---- */

static unsigned char *status_at(const struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot) {
    const int values = rp->program->training_graph.graph->value_count;
    const int at = slot ? (int)(slot - r->slots) : r->plan->steps.slots;
    return r->tracing->status[rp - r->programs] + (size_t)at * (size_t)values;
}

/* The status of input `i` of a node that has just run: as recorded after its producer, otherwise as in memory now,
 * which has not changed because no node writes to such values. */
static bool look_at_input(struct zt_rank *r, const struct zt_run_program *rp, unsigned char *status, int n, int i,
                          struct zt_err *err) {
    const struct zt_ready *ready = &rp->ready[n];
    const int value = ready->call.node->in[i];
    const struct zt_place *place = ready->place[i];
    unsigned found = 0;
    if (value < 0 || !place || (status[value] & KNOWN && place->in != ZT_FED)) /* each micro-batch has other columns */
        return true;
    const bool stays = place->in == ZT_FED || place->in == ZT_PARAMETERS || place->in == ZT_STATISTICS ||
                       place->in == ZT_DERIVED ||
                       (place->in == ZT_CONSTANT && !ready->views[i].layout && !r->device_memory);
    if (stays && !look(r, &ready->views[i], &found, err))
        return false;
    status[value] = (unsigned char)(found | KNOWN);
    return true;
}

static bool is_mask(const struct zt_graph *g, const unsigned char *status, int value) {
    const int maker = g->values[value]->producer;
    if ((status[value] & ~(unsigned)KNOWN) != IS_MINUS_INF)
        return false;
    if (g->values[value]->data || maker < 0)
        return g->values[value]->data != NULL;
    for (int i = 0; i < g->nodes[maker]->in_count; i++) {
        const int in = g->nodes[maker]->in[i];
        if (in >= 0 && status[in] & IS_MINUS_INF && is_mask(g, status, in))
            return true;
    }
    return false;
}

/* Returns the input from which the node got its non-finite values, NaN before infinities; -1: the node produced them.
 */
static int worst_input(const struct zt_graph *g, const unsigned char *status, int n) {
    static const unsigned order[] = { IS_NAN, IS_INF, IS_MINUS_INF };
    const struct zt_node *node = g->nodes[n];
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && status[node->in[i]] & order[k] && !is_mask(g, status, node->in[i]))
                return node->in[i];
    return -1;
}

static void follow(struct zt_rank *r, const struct zt_run_program *rp, const unsigned char *status, int n, int value,
                   struct zt_trace_origin *to) {
    const struct zt_graph *g = rp->program->training_graph.graph;
    *to = (struct zt_trace_origin){ rp, value, n, status[value] & ~(unsigned)KNOWN, r->random.micro_batch };
    for (int from, hops = 0; to->node >= 0 && hops < g->node_count; hops++) {
        if ((from = worst_input(g, status, to->node)) < 0)
            return;
        to->value = from;
        to->kind = status[from] & ~(unsigned)KNOWN;
        to->node = g->values[from]->producer;
    }
}

bool zt_rank_trace_node(struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot, int n,
                        struct zt_err *err) {
    struct zt_rank_tracing *t = r->tracing;
    const struct zt_ready *ready = &rp->ready[n];
    const struct zt_node *node = ready->call.node;
    unsigned char *status = status_at(r, rp, slot);
    if (t->nan.program || rp->program->training_graph.training != t->training)
        return true;
    for (int i = 0; i < node->in_count; i++)
        if (!look_at_input(r, rp, status, n, i, err))
            return false;
    for (int i = 0; i < node->out_count; i++) {
        unsigned found;
        if (node->out[i] < 0)
            continue;
        if (!look(r, &ready->views[ready->call.in_count + i], &found, err))
            return false;
        status[node->out[i]] = (unsigned char)(found | KNOWN);
        struct zt_trace_origin *first = found & IS_NAN ? &t->nan : &t->infinity;
        if (found && !first->program && !is_mask(rp->program->training_graph.graph, status, node->out[i]))
            follow(r, rp, status, n, node->out[i], first);
    }
    return true;
}

const char *zt_trace_kind(unsigned kind) {
    return kind & IS_NAN ? "nan" : kind & IS_INF ? "inf" : "-inf";
}

const struct zt_trace_origin *zt_rank_tracing_first(const struct zt_rank *r) {
    return r->tracing->nan.program ? &r->tracing->nan : &r->tracing->infinity;
}

void zt_rank_tracing_begin(struct zt_rank *r, bool training) {
    struct zt_rank_tracing *t = zt_calloc(1, sizeof *t);
    t->training = training;
    t->status = zt_calloc((size_t)r->program_count + 1, sizeof *t->status);
    for (int p = 0; p < r->program_count; p++)
        t->status[p] = zt_calloc((size_t)(r->plan->steps.slots + 1) *
                                     ((size_t)r->programs[p].program->training_graph.graph->value_count + 1),
                                 1);
    r->tracing = t;
}

void zt_rank_tracing_end(struct zt_rank *r) {
    struct zt_rank_tracing *t = r->tracing;
    for (int p = 0; p < r->program_count; p++)
        free(t->status[p]);
    free(t->status);
    free(t->copy);
    free(t);
    r->tracing = NULL;
}
