#include "run/rank/device_memory.h"

#include "base/align.h"
#include "device/module.h"
#include "optim/step.h"
#include "run/rank/captured.h"
#include "run/rank/stored_data.h"

#include <stdlib.h>
#include <string.h>

/* A constant, and the offset of its copy in the device's block. */
struct constant {
    const void *host;
    size_t at, bytes;
};

/* Nodes of one kind that run on the host, for the warning. */
struct host_kind {
    const char *op_type, *first; /* name of the first one */
    int nodes;
    int64_t bytes; /* bytes copied per step */
};

/* The double buffer of a slot's batches: one is copied while the previous one is still read. Side 0 is the slot's feed,
 * side 1 is in feed_room. */
struct feed {
    struct zt_event *taken[2]; /* by side: passes when the batch is not read any more */
    int side;                  /* of the last batch */
};

struct zt_rank_device {
    struct constant *constants;
    int constant_count;
    char *constant_block;
    size_t constant_bytes;
    char *stage; /* host memory for views and workspace of one node at a time */
    size_t stage_bytes;
    struct host_kind *kinds;
    int kind_count;
    struct zt_comm *staged[2];           /* world, data; NULL: one rank */
    struct zt_comm *nccl;                /* data; NULL: not in use */
    char no_nccl[ZT_ERR_TEXT];           /* why it is not used; "": not requested */
    struct zt_random *random;            /* on the device */
    struct zt_random pointed;            /* the value on the device */
    bool draws;                          /* a node on the device reads it */
    struct zt_event *sent[ZT_RANK_HELD]; /* ring buffer: passes when the pinned memory of a batch may be overwritten */
    int64_t sent_count;                  /* batches copied so far */
    struct feed *feeds;                  /* by slot */
    int side;                            /* side of the last batch of any slot */
    char *feed_room; /* on the device: as large as the slots' feeds; NULL: batches are copied in the queue, always to
                        side 0 */
};

/* ---- layout of a feed ---- */

enum { STEP_BYTES = zt_align_64(sizeof(struct zt_step_feed)) };

int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows) {
    return column_bytes + STEP_BYTES + zt_align_64(rows * (int64_t)sizeof(float)) +
           zt_align_64(rows * (int64_t)sizeof(int64_t));
}

/* The layout of a slot's feed on either side. A micro-batch from the loader is copied at once, except the sample
 * numbers. If the data are held on the device, only the part behind the columns is copied, and one launch builds the
 * columns:
 *
 *     columns | zt_step_feed | row weights | numbers of samples */
static size_t numbers_at(const struct zt_rank *r) {
    return (size_t)(r->feed_bytes - zt_align_64(r->feed_rows * (int64_t)sizeof(int64_t)));
}

static size_t step_at(const struct zt_rank *r) {
    return (size_t)(r->feed_bytes - zt_rank_device_feed_bytes(0, r->feed_rows));
}

static void point_step(const struct zt_rank *r, struct zt_slot *slot, char *feed) {
    void **fed = slot->fed + r->plan->job->want_count;
    fed[0] = feed + step_at(r) + offsetof(struct zt_step_feed, scaled);
    fed[1] = feed + step_at(r) + STEP_BYTES;
}

void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot) {
    point_step(r, slot, slot->feed);
}

struct zt_step_feed *zt_rank_device_fed(const struct zt_rank *r, const struct zt_slot *slot) {
    char *step = slot->fed[r->plan->job->want_count];
    return (struct zt_step_feed *)(void *)(step - offsetof(struct zt_step_feed, scaled));
}

static char *side_of(const struct zt_rank *r, int slot, int side) {
    return side ? r->device_memory->feed_room + slot * r->feed_bytes : r->slots[slot].feed;
}

/* Switches the slot to the other side for the next batch: all work that reads the last one is queued. */
static bool switch_side(struct zt_rank *r, int at, struct zt_err *err) {
    struct feed *f = &r->device_memory->feeds[at];
    f->side = !f->side;
    point_step(r, &r->slots[at], side_of(r, at, f->side));
    return r->device->api->record(r->device, f->taken[!f->side], err);
}

bool zt_rank_device_align(struct zt_rank *r, int *side, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    for (int i = 0; i < r->plan->steps.slots; i++)
        if (d->feeds[i].side != d->side && !switch_side(r, i, err))
            return false;
    *side = d->side;
    return true;
}

/* ---- batches: read into pinned memory, from where one copy takes them ---- */

static void *allocate_batches(void *with, size_t bytes, const char *what, struct zt_err *err) {
    struct zt_rank *r = with;
    return r->device->api->allocate_host(r->device, bytes, what, err);
}

/* After an error copies may still be pending. */
static void free_batches(void *with, void *memory, size_t bytes) {
    struct zt_rank *r = with;
    struct zt_err ignored = { 0 };
    for (int i = 0; i < ZT_RANK_HELD; i++)
        r->device->api->wait(r->device, r->device_memory->sent[i], &ignored);
    r->device->api->free_host(r->device, memory, bytes);
}

/* The part of a slot's feed that is copied, which is also the content of a batch's memory. */
struct part {
    size_t first, last;
};
static struct part part_of(const struct zt_rank *r, const struct zt_source *source) {
    return zt_rank_stored_has(r, source) ? (struct part){ step_at(r), (size_t)r->feed_bytes }
                                         : (struct part){ 0, numbers_at(r) };
}

int64_t zt_rank_fed_bytes(const struct zt_rank *r, bool training) {
    if (!r->device_memory)
        return 0;
    const struct part part = part_of(r, training ? r->plan->source : r->plan->eval_source);
    return (int64_t)(part.last - part.first);
}

void zt_rank_device_loads(struct zt_rank *r, struct zt_loader_options *options) {
    const struct part part = part_of(r, options->source);
    options->indices = zt_rank_stored_has(r, options->source);
    options->memory = (struct zt_batch_memory){ allocate_batches, free_batches, r };
    options->batch_bytes = part.last - part.first;
    options->held = ZT_RANK_HELD;
    if (options->indices)
        options->readers = 1;
}

bool zt_rank_device_next(struct zt_rank *r, struct zt_err *err) {
    return r->device->api->wait(r->device, r->device_memory->sent[r->device_memory->sent_count % ZT_RANK_HELD], err);
}

static void write_step(const struct zt_slot *slot, int64_t rows, char *to) {
    const struct zt_step_feed step = { slot->weight, slot->seed, slot->seed };
    memcpy(to, &step, sizeof step);
    memcpy(to + STEP_BYTES, slot->row_weight, (size_t)rows * sizeof *slot->row_weight);
}

/* Copies a batch while the previous micro-batch is computed, if the device supports it. */
static bool copy_batch(struct zt_rank *r, int at, const struct zt_batch *batch, struct part part, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    struct zt_rank_device *d = r->device_memory;
    const struct feed *f = &d->feeds[at];
    struct zt_event *sent = d->sent[d->sent_count++ % ZT_RANK_HELD];
    char *to = side_of(r, at, f->side) + part.first;
    const struct zt_copy copy = { to, batch->memory, part.last - part.first };
    if (d->feed_room)
        return api->copy_ahead(r->device, &copy, f->taken[f->side], sent, err);
    return api->to_device(r->device, to, copy.from, copy.bytes, err) && api->record(r->device, sent, err);
}

static bool make_columns(struct zt_rank *r, const struct zt_slot *slot, const struct zt_batch *batch,
                         const struct zt_source *source, struct zt_err *err) {
    const int at = (int)(slot - r->slots);
    const char *numbers = side_of(r, at, r->device_memory->feeds[at].side) + numbers_at(r);
    struct zt_gather columns[ZT_COLUMNS];
    for (int i = 0; i < source->column_count; i++) {
        columns[i] = zt_rank_stored_gather(r, source, i);
        columns[i].to = slot->fed[i];
        columns[i].index = (const int64_t *)(const void *)numbers;
        columns[i].rows = batch->rows;
    }
    return r->device->module->gather(r->device, columns, source->column_count, err);
}

static void point_columns(struct zt_slot *slot, const struct zt_source *source, int64_t rows, char *column) {
    for (int i = 0; i < source->column_count; i++) {
        slot->fed[i] = column;
        column += zt_align_64(source->column[i].sample_bytes * (size_t)rows);
    }
}

bool zt_rank_device_feed(struct zt_rank *r, struct zt_slot *slot, const struct zt_batch *batch,
                         const struct zt_source *source, struct zt_err *err) {
    const int at = (int)(slot - r->slots);
    const struct part part = part_of(r, source);
    const bool stays = zt_rank_stored_has(r, source);
    if (r->device_memory->feed_room && !switch_side(r, at, err))
        return false;
    r->device_memory->side = r->device_memory->feeds[at].side;
    point_columns(slot, source, batch->rows, side_of(r, at, r->device_memory->side));
    write_step(slot, batch->rows, batch->memory + (step_at(r) - part.first));
    if (stays)
        memcpy(batch->memory + (numbers_at(r) - part.first), batch->index, (size_t)batch->rows * sizeof *batch->index);
    return copy_batch(r, at, batch, part, err) && (!stays || make_columns(r, slot, batch, source, err));
}

bool zt_rank_device_point(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    if (!d || !d->draws || memcmp(&d->pointed, &r->random, sizeof d->pointed) == 0)
        return true;
    d->pointed = r->random;
    return zt_rank_flush(r, err) &&
           r->device->api->to_device(r->device, d->random, &d->pointed, sizeof d->pointed, err);
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

/* Counts constants and host nodes (an upper bound) for zt_rank_device_create(). */
static void count(struct zt_rank *r, struct zt_run_program *rp, int node) {
    const struct zt_ready *ready = &rp->ready[node];
    r->device_memory->constant_count += ready->call.in_count;
    r->device_memory->kind_count += on_host(r, ready);
}

static struct constant *find_constant(const struct zt_rank_device *d, const void *host, size_t bytes) {
    for (int i = 0; i < d->constant_count; i++)
        if (d->constants[i].host == host && d->constants[i].bytes == bytes)
            return &d->constants[i];
    return NULL;
}

/* Returns the contents of input i of a device node; NULL if it is not constant. */
static const void *constant_in(const struct zt_rank *r, const struct zt_run_program *rp, int node, int i) {
    const struct zt_ready *ready = &rp->ready[node];
    bool constant = !on_host(r, ready) && ready->place[i] && ready->place[i]->in == ZT_CONSTANT;
    return constant ? rp->program->training_graph.graph->values[ready->call.node->in[i]]->data : NULL;
}

static void list_constants(struct zt_rank *r, struct zt_run_program *rp, int node) {
    struct zt_rank_device *d = r->device_memory;
    for (int i = 0; i < rp->ready[node].call.in_count; i++) {
        const void *host = constant_in(r, rp, node, i);
        size_t bytes = zt_view_bytes(&rp->ready[node].views[i]);
        if (!host || find_constant(d, host, bytes))
            continue;
        d->constants[d->constant_count++] = (struct constant){ host, d->constant_bytes, bytes };
        d->constant_bytes += zt_align_64(bytes);
    }
}

static void use_constants(struct zt_rank *r, struct zt_run_program *rp, int node) {
    for (int i = 0; i < rp->ready[node].call.in_count; i++) {
        const void *host = constant_in(r, rp, node, i);
        if (host)
            rp->ready[node].constant[i] =
                r->device_memory->constant_block +
                find_constant(r->device_memory, host, zt_view_bytes(&rp->ready[node].views[i]))->at;
    }
}

static bool copy_constants(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    const struct zt_device_api *api = r->device->api;
    each_node(r, list_constants);
    d->constant_block = zt_device_allocate(r->device, d->constant_bytes, "constants", err);
    if (!d->constant_block)
        return false;
    each_node(r, use_constants);
    for (int i = 0; i < d->constant_count; i++)
        if (!api->to_device(r->device, d->constant_block + d->constants[i].at, d->constants[i].host,
                            d->constants[i].bytes, err))
            return false;
    return true;
}

/* Counts a host node that runs in every micro-batch of a step, or of an evaluation if nothing is trained. */
static void report(struct zt_rank *r, const struct zt_run_program *rp, const struct zt_ready *ready, int64_t moved) {
    struct zt_rank_device *d = r->device_memory;
    const struct zt_training_graph *j = &rp->program->training_graph;
    const char *op_type = ready->call.node->op_type;
    bool trains = r->plan->programs.train.count > 0;
    if (trains && (!j->training || rp->program != r->plan->programs.train.at[0]))
        return;
    int k = 0;
    while (k < d->kind_count && strcmp(d->kinds[k].op_type, op_type) != 0)
        k++;
    if (k == d->kind_count)
        d->kinds[d->kind_count++] = (struct host_kind){ op_type, ready->name, 0, 0 };
    d->kinds[k].nodes++;
    d->kinds[k].bytes += moved * (trains ? r->plan->steps.full.micro_batches : 1);
}

/* Adds up the host memory that a host node needs for its tensors and workspace. */
static void set_aside(struct zt_rank *r, struct zt_run_program *rp, int node) {
    struct zt_ready *ready = &rp->ready[node];
    struct zt_rank_device *d = r->device_memory;
    size_t moved = 0, needed = zt_align_64(rp->program->prepared[node].workspace_bytes);
    if (!on_host(r, ready))
        return;
    ready->on_host = true;
    ready->call.device = NULL;
    for (int i = 0; i < ready->call.in_count + ready->call.out_count; i++) {
        if (!ready->place[i] || ready->place[i]->in == ZT_CONSTANT)
            continue;
        moved += zt_view_bytes(&ready->views[i]);
        needed += zt_align_64(zt_view_bytes(&ready->views[i]));
    }
    d->stage_bytes = needed > d->stage_bytes ? needed : d->stage_bytes;
    report(r, rp, ready, (int64_t)moved);
}

static void point_draws(struct zt_rank *r, struct zt_run_program *rp, int node) {
    struct zt_ready *ready = &rp->ready[node];
    if (on_host(r, ready) || !(ready->call.node->op->flags & ZT_OP_RANDOM))
        return;
    ready->call.device_random = r->device_memory->random;
    r->device_memory->draws = true;
}

/* The position in the random numbers is stored on the device, so that the host queues the same work in every step. */
static bool open_draws(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    d->random = zt_device_allocate(r->device, sizeof *d->random, "what random numbers depend on", err);
    each_node(r, point_draws);
    return d->random != NULL; /* allocated as zeros, equal to `pointed` */
}

/* Clears the memory of both sides in the queue before the first batch is copied. */
static bool open_events(struct zt_rank *r, struct feed *f, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    for (int side = 0; side < 2; side++)
        if (!(f->taken[side] = api->event_create(r->device, err)) || !api->record(r->device, f->taken[side], err))
            return false;
    return true;
}

static size_t feeds_bytes(const struct zt_rank *r) {
    return (size_t)(r->feed_bytes * r->plan->steps.slots);
}

static bool open_feed(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    const struct zt_device_api *api = r->device->api;
    for (int i = 0; i < ZT_RANK_HELD; i++)
        if (!(d->sent[i] = api->event_create(r->device, err)))
            return false;
    d->feeds = ZT_NEW_N(r->arena, struct feed, r->plan->steps.slots + 1);
    if (api->copy_ahead && !(d->feed_room = zt_device_allocate(r->device, feeds_bytes(r), "the next batches", err)))
        return false;
    for (int i = 0; i < r->plan->steps.slots; i++)
        if (!open_events(r, &d->feeds[i], err))
            return false;
    return true;
}

static void close_feed(struct zt_rank *r) {
    struct zt_rank_device *d = r->device_memory;
    const struct zt_device_api *api = r->device->api;
    for (int i = 0; d->feeds && i < r->plan->steps.slots; i++)
        for (int side = 0; side < 2; side++)
            if (d->feeds[i].taken[side])
                api->event_destroy(r->device, d->feeds[i].taken[side]);
    for (int i = 0; i < ZT_RANK_HELD; i++)
        if (d->sent[i])
            api->event_destroy(r->device, d->sent[i]);
    if (d->feed_room)
        zt_device_free(r->device, d->feed_room, feeds_bytes(r));
}

/* Opens NCCL if the config requests it, or allows it and it is available (each rank has its own GPU, and the library is
 * installed). Otherwise, and for messages, data go through the host's communicators. */
static bool open_comms(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_device *d = r->device_memory;
    const struct zt_parallel_config *c = &r->plan->job->config->parallel;
    bool wanted = strcmp(c->communicator, "nccl") == 0, open = strcmp(c->communicator, "auto") == 0;
    struct zt_err why = { 0 };
    r->bulk_world = d->staged[0] = zt_comm_staged_create(r->world, r->device, false);
    r->bulk_data = d->staged[1] = zt_comm_staged_create(r->data, r->device, false);
    if (r->data->size == 1 || r->plan->replicas || !r->device->module->nccl || !(wanted || open))
        return true;
    d->nccl = r->device->module->nccl(r->device, r->bulk_data, r->data, wanted ? err : &why);
    if (d->nccl)
        r->bulk_data = d->nccl;
    else
        snprintf(d->no_nccl, sizeof d->no_nccl, "%s", why.text[0]);
    return d->nccl || !wanted;
}

bool zt_rank_device_create(struct zt_rank *r, struct zt_err *err) {
    if (!r->device->module)
        return true;
    struct zt_rank_device *d = r->device_memory = ZT_NEW(r->arena, struct zt_rank_device);
    if (r->world->size > 1 && !open_comms(r, err))
        return false;
    each_node(r, count);
    d->constants = ZT_NEW_N(r->arena, struct constant, d->constant_count + 1);
    d->kinds = ZT_NEW_N(r->arena, struct host_kind, d->kind_count + 1);
    d->constant_count = d->kind_count = 0;
    each_node(r, set_aside);
    d->stage = r->device->api->allocate_host(r->device, d->stage_bytes, "tensors of nodes that run on the host", err);
    return d->stage && open_feed(r, err) && open_draws(r, err) && copy_constants(r, err);
}

void zt_rank_device_destroy(struct zt_rank *r) {
    if (!r->device_memory)
        return;
    close_feed(r);
    if (r->device_memory->nccl)
        r->device_memory->nccl->api->destroy(r->device_memory->nccl);
    for (int i = 0; i < 2; i++)
        if (r->device_memory->staged[i])
            r->device_memory->staged[i]->api->destroy(r->device_memory->staged[i]);
    if (r->device_memory->random)
        zt_device_free(r->device, r->device_memory->random, sizeof *r->device_memory->random);
    if (r->device_memory->constant_block)
        zt_device_free(r->device, r->device_memory->constant_block, r->device_memory->constant_bytes);
    if (r->device_memory->stage)
        r->device->api->free_host(r->device, r->device_memory->stage, r->device_memory->stage_bytes);
}

void zt_rank_warn(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_device *d = r->device_memory;
    if (d && d->staged[0])
        zt_say(log, ZT_LOG_DEBUG, "data between ranks: %s%s%s", d->nccl ? "NCCL" : "through host memory",
               *d->no_nccl ? ", since " : "", d->no_nccl);
    for (int i = 0; d && i < d->kind_count; i++) {
        const struct host_kind *k = &d->kinds[i];
        char others[48] = "";
        if (k->nodes > 1)
            snprintf(others, sizeof others, " and %d more", k->nodes - 1);
        zt_say(log, ZT_LOG_WARNING,
               "%s (%s)%s: no kernel for device %s, runs on the host: %lld bytes are copied per step", k->first,
               k->op_type, others, r->device->api->name, (long long)k->bytes);
    }
}

/* ---- running ---- */

/* Runs a host node: views point into the rank's memory, but while the kernel runs they point to host memory. */
bool zt_rank_device_run(struct zt_rank *r, const struct zt_slot *slot, struct zt_ready *ready, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    int ins = ready->call.in_count, total = ins + ready->call.out_count;
    char *at = r->device_memory->stage;
    bool ok = true;
    for (int i = 0; ok && i < total; i++) {
        struct zt_view *v = &ready->views[i];
        if (!v->data || ready->place[i]->in == ZT_CONSTANT)
            continue;
        bool reads = i < ins || (i == ins && ready->call.accumulate);
        ok = !reads || api->to_host(r->device, at, v->data, zt_view_bytes(v), err);
        v->data = at;
        at += zt_align_64(zt_view_bytes(v));
    }
    ready->call.workspace = at;
    ok = ok && api->synchronize(r->device, err) && ready->run(&ready->call, err);
    for (int i = ins; ok && i < total; i++)
        if (ready->views[i].data)
            ok = api->to_device(r->device, zt_rank_at(r, slot, ready->place[i], NULL), ready->views[i].data,
                                zt_view_bytes(&ready->views[i]), err);
    return ok && api->synchronize(r->device, err); /* the next host node uses the same memory */
}
