#include "rank_device.h"

#include "device/module.h"

#include <stdlib.h>
#include <string.h>

/* A constant, and where its copy begins in the device's block. */
struct constant {
    const void *host;
    size_t at, bytes;
};

/* A node that runs on the host, for the report. */
struct host_node {
    const char *name, *op_type;
    int64_t bytes;
};

struct zt_rank_device {
    struct constant *constants;
    int constant_count;
    char *constant_block;
    size_t constant_bytes;
    char *stage; /* host memory: views and workspace of one node at a time */
    size_t stage_bytes;
    struct host_node *nodes;
    int node_count;
    const struct zt_module_optimizer *optimizer; /* NULL: not training */
};

enum { REPORTED = 10 };

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t view_bytes(const struct zt_view *v) {
    return (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype);
}

/* ---- moving bytes ---- */

bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return r->device->api->to_host(r->device, to, from, bytes, err) && r->device->api->synchronize(r->device, err);
}

bool zt_rank_copy(const struct zt_rank *r, void *to, const struct zt_place *place, const void *from, size_t bytes,
                  struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    return (place->in == ZT_CONSTANT ? api->to_device : api->copy)(r->device, to, from, bytes, err);
}

int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows) {
    return column_bytes + 64 + (int64_t)round_up((size_t)rows * sizeof(float));
}

void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot, int64_t rows) {
    int wants = r->plan->job->want_count;
    char *seed = slot->feed + r->feed_bytes - zt_rank_device_feed_bytes(0, rows);
    slot->fed[wants] = seed;
    slot->fed[wants + 1] = seed + 64;
}

bool zt_rank_device_feed(const struct zt_rank *r, struct zt_slot *slot, int64_t rows, struct zt_err *err) {
    int wants = r->plan->job->want_count;
    const struct zt_device_api *api = r->device->api;
    return api->to_device(r->device, slot->fed[wants], &slot->seed, sizeof slot->seed, err) &&
           api->to_device(r->device, slot->fed[wants + 1], slot->row_weight, (size_t)rows * sizeof *slot->row_weight,
                          err);
}

/* ---- creation ---- */

/* Calls `visit` for every command that runs a node, in each program. */
static void each_node(struct zt_rank *r, void (*visit)(struct zt_rank *r, struct zt_run_program *rp, int node)) {
    for (int i = 0; i < r->program_count; i++) {
        const struct zt_program *p = r->programs[i].program;
        const struct zt_command *list[] = { p->derive, p->forward, p->backward };
        const int count[] = { p->derive_count, p->forward_count, p->backward_count };
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < count[k]; c++)
                if (list[k][c].kind == ZT_RUN_NODE)
                    visit(r, &r->programs[i], list[k][c].node);
    }
}

static bool on_host(const struct zt_rank *r, const struct zt_ready *ready) {
    return ready->call.node->backend != r->device->api->backend;
}

/* Sizes of what create() will fill: an upper bound of constants and host nodes. */
static void count(struct zt_rank *r, struct zt_run_program *rp, int node) {
    const struct zt_ready *ready = &rp->ready[node];
    r->away->constant_count += ready->call.in_count;
    r->away->node_count += on_host(r, ready);
}

static struct constant *find_constant(const struct zt_rank_device *d, const void *host, size_t bytes) {
    for (int i = 0; i < d->constant_count; i++)
        if (d->constants[i].host == host && d->constants[i].bytes == bytes)
            return &d->constants[i];
    return NULL;
}

/* The contents of input i of a node that runs on the device, NULL where it is no constant. */
static const void *constant_in(const struct zt_rank *r, const struct zt_run_program *rp, int node, int i) {
    const struct zt_ready *ready = &rp->ready[node];
    bool constant = !on_host(r, ready) && ready->place[i] && ready->place[i]->in == ZT_CONSTANT;
    return constant ? rp->program->joint.graph->values[ready->call.node->in[i]].data : NULL;
}

static void list_constants(struct zt_rank *r, struct zt_run_program *rp, int node) {
    struct zt_rank_device *d = r->away;
    for (int i = 0; i < rp->ready[node].call.in_count; i++) {
        const void *host = constant_in(r, rp, node, i);
        size_t bytes = view_bytes(&rp->ready[node].views[i]);
        if (!host || find_constant(d, host, bytes))
            continue;
        d->constants[d->constant_count++] = (struct constant){ host, d->constant_bytes, bytes };
        d->constant_bytes += round_up(bytes);
    }
}

static void use_constants(struct zt_rank *r, struct zt_run_program *rp, int node) {
    for (int i = 0; i < rp->ready[node].call.in_count; i++) {
        const void *host = constant_in(r, rp, node, i);
        if (host)
            rp->ready[node].constant[i] =
                r->away->constant_block + find_constant(r->away, host, view_bytes(&rp->ready[node].views[i]))->at;
    }
}

static bool copy_constants(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->away;
    const struct zt_device_api *api = r->device->api;
    each_node(r, list_constants);
    d->constant_block = api->allocate(r->device, d->constant_bytes, "constants", err);
    if (!d->constant_block)
        return false;
    each_node(r, use_constants);
    for (int i = 0; i < d->constant_count; i++)
        if (!api->to_device(r->device, d->constant_block + d->constants[i].at, d->constants[i].host,
                            d->constants[i].bytes, err))
            return false;
    return true;
}

/* Bytes that go over the bus for a node, and what it takes on the host beside them. */
static void set_aside(struct zt_rank *r, struct zt_run_program *rp, int node) {
    struct zt_ready *ready = &rp->ready[node];
    struct zt_rank_device *d = r->away;
    size_t moved = 0, needed = round_up(rp->program->prepared[node].workspace_bytes);
    if (!on_host(r, ready))
        return;
    ready->on_host = true;
    ready->call.device = NULL;
    for (int i = 0; i < ready->call.in_count + ready->call.out_count; i++) {
        if (!ready->place[i] || ready->place[i]->in == ZT_CONSTANT)
            continue;
        moved += view_bytes(&ready->views[i]);
        needed += round_up(view_bytes(&ready->views[i]));
    }
    d->stage_bytes = needed > d->stage_bytes ? needed : d->stage_bytes;
    for (int i = 0; i < d->node_count; i++) /* one line a node, whatever the number of programs; the largest counts */
        if (strcmp(d->nodes[i].name, ready->name) == 0 && strcmp(d->nodes[i].op_type, ready->call.node->op_type) == 0) {
            d->nodes[i].bytes = (int64_t)moved > d->nodes[i].bytes ? (int64_t)moved : d->nodes[i].bytes;
            return;
        }
    d->nodes[d->node_count++] = (struct host_node){ ready->name, ready->call.node->op_type, (int64_t)moved };
}

static bool find_optimizer(struct zt_rank *r, struct zt_err *err) {
    r->away->optimizer = zt_module_optimizer(r->device->module, r->row->name);
    if (r->away->optimizer)
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, "optimizer.type: %s has no kernel for device %s", r->row->name, r->device->api->name);
    return zt_hint(err, "use --device cpu, or one of Adam, AdamW, SGD");
}

bool zt_rank_device_create(struct zt_rank *r, struct zt_err *err) {
    if (!r->device->module)
        return true;
    if (r->plan->job->config->ranks > 1) {
        zt_fail(err, ZT_EXIT_CONFIG, "%d ranks on device %s are not supported yet: it runs one",
                r->plan->job->config->ranks, r->device->api->name);
        return zt_hint(err, "use --device cpu, or --ranks 1");
    }
    struct zt_rank_device *d = r->away = ZT_NEW(r->arena, struct zt_rank_device);
    each_node(r, count);
    d->constants = ZT_NEW_N(r->arena, struct constant, d->constant_count + 1);
    d->nodes = ZT_NEW_N(r->arena, struct host_node, d->node_count + 1);
    d->constant_count = d->node_count = 0;
    each_node(r, set_aside);
    d->stage = zt_block_create(d->stage_bytes, "tensors of nodes that run on the host", err);
    return d->stage && copy_constants(r, err) && (!r->plan->gradient_bytes || !r->row || find_optimizer(r, err));
}

void zt_rank_device_destroy(struct zt_rank *r) {
    if (!r->away)
        return;
    if (r->away->constant_block)
        r->device->api->free(r->device, r->away->constant_block, r->away->constant_bytes);
    if (r->away->stage)
        zt_block_destroy(r->away->stage, r->away->stage_bytes);
}

void zt_rank_warn(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_device *d = r->away;
    for (int i = 0; d && i < d->node_count && i < REPORTED; i++)
        zt_say(log, ZT_LOG_WARNING,
               "%s (%s) has no kernel for device %s and runs on the host: %lld bytes are copied each time",
               d->nodes[i].name, d->nodes[i].op_type, r->device->api->name, (long long)d->nodes[i].bytes);
    if (d && d->node_count > REPORTED)
        zt_say(log, ZT_LOG_WARNING, "and %d more nodes run on the host", d->node_count - REPORTED);
}

/* ---- running ---- */

/* Views point into the rank's memory; while the kernel runs they point into the stage. */
bool zt_rank_device_run(struct zt_rank *r, const struct zt_slot *slot, struct zt_ready *ready, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    int ins = ready->call.in_count, total = ins + ready->call.out_count;
    char *at = r->away->stage;
    bool ok = true;
    for (int i = 0; ok && i < total; i++) {
        struct zt_view *v = &ready->views[i];
        if (!v->data || ready->place[i]->in == ZT_CONSTANT)
            continue;
        ok = i >= ins || api->to_host(r->device, at, v->data, view_bytes(v), err);
        v->data = at;
        at += round_up(view_bytes(v));
    }
    ready->call.workspace = at;
    ok = ok && api->synchronize(r->device, err) && ready->run(&ready->call, err);
    for (int i = ins; ok && i < total; i++)
        if (ready->views[i].data)
            ok = api->to_device(r->device, zt_rank_at(r, slot, ready->place[i], NULL), ready->views[i].data,
                                view_bytes(&ready->views[i]), err);
    return ok && api->synchronize(r->device, err); /* the next such node uses the same memory */
}

bool zt_rank_device_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err) {
    return r->device->module->add(r->device, to, from, count, err);
}

bool zt_rank_device_squares(struct zt_rank *r, double *sum, struct zt_err *err) {
    *sum = 0;
    for (int i = 0; i < r->owned_count; i++) {
        double part = 0;
        if (!r->device->module->sum_squares(r->device, (const float *)r->gradients + r->owned[i].grad_at,
                                            r->owned[i].last - r->owned[i].first, &part, err))
            return false;
        *sum += part;
    }
    return true;
}

static bool goes_on(const struct zt_piece *a, const struct zt_piece *b) {
    return a->range == b->range && a->first + a->count == b->first;
}

/* Neighbouring pieces with the same rate and decay are one launch: a model without groups is one. */
bool zt_rank_device_update(struct zt_rank *r, zt_update_of *of, const void *arg, struct zt_err *err) {
    for (int i = 0; i < r->piece_count;) {
        const struct zt_piece *first = &r->pieces[i];
        struct zt_update u = of(arg, first);
        int64_t count = first->count;
        for (i++; i < r->piece_count && goes_on(&r->pieces[i - 1], &r->pieces[i]); i++) {
            struct zt_update next = of(arg, &r->pieces[i]);
            if (next.lr != u.lr || next.weight_decay != u.weight_decay)
                break;
            count += r->pieces[i].count;
        }
        if (!r->away->optimizer->update(r->device, &u, first->param, first->grad, first->state, count, err))
            return false;
    }
    return true;
}
