/* The first NaN of the step, in the order in which the rank runs, or else the first infinity, is followed back through
 * inputs that are not finite to the node, the weights or the column of the data where they begin: Exp overflows, and
 * nodes later inf - inf is NaN. The -inf of a constant is how models mask: it is not followed. */
#include "run/trace.h"

#include "ops/kernel/layout.h"
#include "run/device_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IS_NAN = 1, IS_INF = 2, IS_MINUS_INF = 4, KNOWN = 8 };
enum { SAMPLES_SHOWN = 5 };

/* A candidate: where following back ended. */
struct origin {
    const struct zt_run_program *program; /* NULL: none */
    int value, node;                      /* node: that made the value, -1: a column or a weight */
    unsigned kind;
    uint64_t micro_batch;
};

struct zt_rank_tracing {
    unsigned char **status;      /* [program][(slots + 1) x values]: of what nodes gave */
    struct origin nan, infinity; /* the first ones */
    void *copy;                  /* of a tensor, where the rank's memory is not the host's */
    size_t copy_bytes;
};

/* ---- status of a tensor ---- */

static unsigned status_of(enum zt_dtype dtype, const void *data, int64_t count) {
    unsigned status = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = dtype == ZT_FLOAT ? (double)((const float *)data)[i] : zt_load_double(dtype, data, i);
        if (!isfinite(x))
            status |= isnan(x) ? IS_NAN : x > 0 ? IS_INF : IS_MINUS_INF;
    }
    return status;
}

/* In a layout of blocks the padding counts too: kernels leave zeros there. */
static bool look(struct zt_rank *r, const struct zt_view *view, unsigned *status, struct zt_err *err) {
    struct zt_rank_tracing *t = r->tracing;
    const size_t size = zt_dtype_bytes(view->dtype);
    size_t bytes = view->layout ? view->layout->bytes : (size_t)zt_shape_count(&view->shape) * size;
    const void *data = view->data;
    *status = 0;
    if (!data || !bytes || !zt_dtype_in(view->dtype, ZT_ANY_FLOAT))
        return true;
    if (r->away) {
        if (bytes > t->copy_bytes) {
            free(t->copy);
            t->copy = zt_malloc(t->copy_bytes = bytes);
        }
        if (!zt_rank_fetch(r, t->copy, data, bytes, err))
            return false;
        data = t->copy;
        bytes = zt_layout_stored(view, t->copy);
    }
    *status = status_of(view->dtype, data, (int64_t)(bytes / size));
    return true;
}

/* ---- following back ---- */

static unsigned char *status_at(const struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot) {
    const int values = rp->program->joint.graph->value_count;
    const int at = slot ? (int)(slot - r->slots) : r->plan->slots;
    return r->tracing->status[rp - r->programs] + (size_t)at * (size_t)values;
}

/* The status of input `i` of a node that has just run: as its node left it, else as it lies there now, which is as it
 * was: no node writes to what it was not given by a node. */
static bool look_at_input(struct zt_rank *r, const struct zt_run_program *rp, unsigned char *status, int n, int i,
                          struct zt_err *err) {
    const struct zt_ready *ready = &rp->ready[n];
    const int value = ready->call.node->in[i];
    const struct zt_place *place = ready->place[i];
    unsigned found = 0;
    if (value < 0 || status[value] & KNOWN || !place)
        return true;
    const bool stays = place->in == ZT_FED || place->in == ZT_PARAMETERS || place->in == ZT_STATISTICS ||
                       place->in == ZT_DERIVED || (place->in == ZT_CONSTANT && !ready->views[i].layout && !r->away);
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

/* The input from which a node has what is not finite, NaN before infinities; -1: it made that itself. */
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
                   struct origin *to) {
    const struct zt_graph *g = rp->program->joint.graph;
    *to = (struct origin){ rp, value, n, status[value] & ~(unsigned)KNOWN, r->random.micro_batch };
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
    if (t->nan.program || !rp->program->joint.training)
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
        struct origin *first = found & IS_NAN ? &t->nan : &t->infinity;
        if (found && !first->program && !is_mask(rp->program->joint.graph, status, node->out[i]))
            follow(r, rp, status, n, node->out[i], first);
    }
    return true;
}

/* ---- what is said ---- */

static const char *kind_name(unsigned kind) {
    return kind & IS_NAN ? "nan" : kind & IS_INF ? "inf" : "-inf";
}

static int column_of(const struct zt_joint *joint, int value) {
    for (int i = 0; i < joint->column_count; i++)
        if (joint->columns[i] == value)
            return i;
    return -1;
}

/* Samples of the step that are not finite in column `c`: " in samples 3, 17 and 2 more"; false where none is. */
static bool list_samples(const struct zt_rank *r, int c, int64_t step, struct zt_text *to) {
    const struct zt_source *source = r->plan->source;
    const struct zt_config *config = r->plan->job->config;
    const struct zt_column *column = &source->column[c];
    struct zt_err ignored = { 0 };
    struct zt_sampler sampler;
    int64_t *indices = zt_malloc((size_t)config->train_batch * sizeof *indices), epoch, batch, found = 0;
    void *sample = zt_malloc(column->sample_bytes + 1);
    bool ok = zt_sampler_init(&sampler, source->samples, config->train_batch, config->data.shuffle,
                              config->data.drop_last, (uint64_t)config->seed, &ignored);
    const int64_t count = ok ? zt_sampler_step(&sampler, step, indices, &epoch, &batch) : 0;
    for (int64_t i = 0; i < count; i++) {
        if (!source->format->read(source, c, indices[i], sample, &ignored) ||
            !status_of(column->dtype, sample, zt_shape_count(&column->shape)))
            continue;
        if (found++ < SAMPLES_SHOWN)
            zt_text_add(to, "%s %lld", found == 1 ? " in sample" : ",", (long long)indices[i]);
    }
    if (found > SAMPLES_SHOWN)
        zt_text_add(to, " and %lld more", (long long)(found - SAMPLES_SHOWN));
    zt_sampler_finish(&sampler);
    free(indices);
    free(sample);
    return found > 0;
}

static void say_data(const struct zt_rank *r, const struct origin *o, int c, int64_t step, struct zt_trace *trace) {
    const struct zt_config *config = r->plan->job->config;
    struct zt_text text = { 0 };
    zt_text_add(&text, "%s: column \"%s\" holds %s", config->data.path ? config->data.path : config->data.format,
                r->plan->job->wants[c].name, kind_name(o->kind));
    list_samples(r, c, step, &text);
    snprintf(trace->text, sizeof trace->text, "%s", text.at);
    trace->data = true;
    zt_text_finish(&text);
}

static void say_node(const struct origin *o, struct zt_trace *trace) {
    const struct zt_graph *g = o->program->program->joint.graph;
    const struct zt_node *node = g->nodes[o->node];
    snprintf(trace->text, sizeof trace->text, "node \"%s\" (%s) makes %s in \"%s\" (%s, micro-batch %llu)", node->name,
             node->op_type, kind_name(o->kind), g->values[o->value]->name,
             node->phase == ZT_FORWARD ? "forward" : "backward", (unsigned long long)o->micro_batch);
}

static void say(const struct zt_rank *r, const struct origin *o, int64_t step, struct zt_trace *trace) {
    const struct zt_joint *joint = &o->program->program->joint;
    const int column = column_of(joint, o->value);
    if (o->node >= 0)
        say_node(o, trace);
    else if (column >= 0)
        say_data(r, o, column, step, trace);
    else if (o->value == joint->seed)
        snprintf(trace->text, sizeof trace->text, "the loss scale %g is beyond fp16", r->scaling.scale);
    else
        snprintf(trace->text, sizeof trace->text, "weight \"%s\" holds %s before the step",
                 joint->graph->values[o->value]->name, kind_name(o->kind));
}

/* ---- the whole ---- */

static void begin(struct zt_rank *r) {
    struct zt_rank_tracing *t = zt_calloc(1, sizeof *t);
    t->status = zt_calloc((size_t)r->program_count + 1, sizeof *t->status);
    for (int p = 0; p < r->program_count; p++)
        t->status[p] =
            zt_calloc((size_t)(r->plan->slots + 1) * ((size_t)r->programs[p].program->joint.graph->value_count + 1), 1);
    r->tracing = t;
}

static void end(struct zt_rank *r) {
    struct zt_rank_tracing *t = r->tracing;
    for (int p = 0; p < r->program_count; p++)
        free(t->status[p]);
    free(t->status);
    free(t->copy);
    free(t);
    r->tracing = NULL;
}

/* When a rank found what it did, as a number that orders ranks: forward before backward, by micro-batch, and by the
 * stages in the order of the phase. */
static double order_of(const struct zt_rank *r, const struct origin *o) {
    static const double none = 1e30;
    const struct zt_grid *grid = &r->plan->grid;
    if (!o->program)
        return none;
    const bool backward = o->node >= 0 && o->program->program->joint.graph->nodes[o->node]->phase == ZT_BACKWARD;
    const int stage = backward ? grid->stages - 1 - grid->stage : grid->stage;
    return ((double)backward * 1e9 + (double)o->micro_batch) * 1e6 + stage + 1;
}

/* The rank that was first tells all. */
static bool share(struct zt_rank *r, const struct origin *o, int64_t step, struct zt_trace *trace, struct zt_err *err) {
    double *order = zt_calloc((size_t)r->world->size, sizeof *order);
    int first = 0;
    order[r->world->rank] = order_of(r, o);
    bool ok = r->world->api->sum(r->world, order, r->world->size, err);
    for (int i = 1; i < r->world->size; i++)
        first = order[i] < order[first] ? i : first;
    free(order);
    trace->rank = first;
    if (first == r->world->rank && o->program)
        say(r, o, step, trace);
    else if (first == r->world->rank)
        snprintf(trace->text, sizeof trace->text, "no node makes it: it is in what micro-batches or ranks add up to");
    return ok && r->world->api->broadcast(r->world, trace, sizeof *trace, first, err);
}

bool zt_rank_trace(struct zt_rank *r, int64_t step, struct zt_trace *trace, struct zt_err *err) {
    struct zt_loader *loader = NULL;
    struct zt_step_result result;
    *trace = (struct zt_trace){ 0 };
    while (r->begun_count > 0) /* what was begun ahead */
        if (!zt_rank_end(r, &result, err))
            return false;
    if (!zt_rank_loader(r, true, step, step + 1, &loader, err))
        return false;
    begin(r);
    const bool ok = zt_rank_step(r, loader, step, &result, err) &&
                    share(r, r->tracing->nan.program ? &r->tracing->nan : &r->tracing->infinity, step, trace, err);
    end(r);
    zt_loader_destroy(loader);
    return ok;
}
