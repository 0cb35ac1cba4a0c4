#include "run/rank/stored_data.h"

#include "base/align.h"
#include "base/text.h"
#include "device/module.h"

#include <string.h>

enum {
    SHARE = 2 /* at most 1/SHARE of the free memory */,
    CHUNK = 4 << 20 /* largest bytes of a copy, except for a single sample */
};

/* Training or evaluation data. */
struct data_set {
    const struct zt_source *source; /* NULL: there are none */
    char *block;                    /* device memory; NULL: not stored, for the reason `why` */
    size_t bytes;
    struct zt_gather gather[ZT_COLUMNS];
    char why[ZT_ERR_TEXT];
};

struct zt_rank_stored {
    struct data_set sets[2]; /* training, evaluation */
};

static const struct zt_device_api *api_of(const struct zt_rank *r) {
    return r->device->api;
}

/* ---- the decision to store ---- */

/* Lays out columns and tables in the block, if it exists. Returns false if the decoded bytes of a sample exceed 32
 * bits. */
static bool lay_out(struct data_set *k) {
    const struct zt_source *s = k->source;
    size_t at = 0;
    for (int c = 0; c < s->column_count; c++) {
        const struct zt_stored stored = s->format->stored(s, c);
        struct zt_gather *g = &k->gather[c];
        *g = (struct zt_gather){ .bytes = stored.bytes, .planes = (uint32_t)stored.planes };
        g->element_bytes = (uint32_t)zt_dtype_bytes(s->column[c].dtype);
        g->from = k->block ? k->block + at : NULL;
        if (stored.table && stored.bytes > UINT32_MAX)
            return false;
        at += zt_align_64(stored.bytes * (size_t)s->samples);
        g->table = k->block && stored.table ? k->block + at : NULL;
        at += zt_align_64((size_t)stored.planes * ZT_LEVELS * g->element_bytes);
    }
    k->bytes = at;
    return true;
}

static bool fits(const struct zt_rank *r, struct data_set *k, struct zt_err *err) {
    char text[2][32];
    size_t left;
    if (!zt_source_is_stored(k->source))
        return zt_fail(err, ZT_EXIT_RUN, "format \"%s\" %s", k->source->format->type.name,
                       k->source->images ? "reads its pictures anew in each epoch" : "cannot be held on the device");
    if (!r->device->module->gather || !api_of(r)->room)
        return zt_fail(err, ZT_EXIT_RUN, "device %s cannot gather samples", api_of(r)->name);
    if (zt_source_stored_bytes(k->source) < 0 || !lay_out(k))
        return zt_fail(err, ZT_EXIT_RUN, "the data exceed the address space");
    return api_of(r)->room(r->device, &left, err) &&
           (k->bytes <= left / SHARE ||
            zt_fail(err, ZT_EXIT_RUN,
                    "the data need %s in their stored format, more than half of the %s of free memory",
                    zt_format_bytes(text[0], (double)k->bytes), zt_format_bytes(text[1], (double)left)));
}

/* ---- copying ---- */

/* Two buffers of pinned memory: one is filled while the other is copied. */
struct staging {
    char *memory;
    size_t bytes; /* bytes of a buffer */
    struct zt_event *sent[2];
    int64_t count;
};

static bool staging_open(struct zt_rank *r, const struct data_set *k, struct staging *f, struct zt_err *err) {
    f->bytes = CHUNK;
    for (int c = 0; c < k->source->column_count; c++)
        if (k->gather[c].bytes > f->bytes)
            f->bytes = zt_align_64(k->gather[c].bytes);
    f->memory = api_of(r)->allocate_host(r->device, 2 * f->bytes, "data on their way to the device", err);
    return f->memory && (f->sent[0] = api_of(r)->event_create(r->device, err)) != NULL &&
           (f->sent[1] = api_of(r)->event_create(r->device, err)) != NULL;
}

static void staging_close(struct zt_rank *r, struct staging *f) {
    struct zt_err ignored = { 0 };
    for (int i = 0; i < 2; i++)
        if (f->sent[i]) {
            api_of(r)->wait(r->device, f->sent[i], &ignored);
            api_of(r)->event_destroy(r->device, f->sent[i]);
        }
    if (f->memory)
        api_of(r)->free_host(r->device, f->memory, 2 * f->bytes);
}

static bool send_column(struct zt_rank *r, const struct data_set *k, int column, struct staging *f,
                        struct zt_err *err) {
    const struct zt_source *s = k->source;
    const struct zt_gather *g = &k->gather[column];
    const int64_t most = g->bytes ? (int64_t)(f->bytes / g->bytes) : s->samples;
    for (int64_t first = 0; first < s->samples; first += most) {
        const int64_t count = s->samples - first < most ? s->samples - first : most;
        const int buffer = (int)(f->count++ % 2);
        char *piece = f->memory + (size_t)buffer * f->bytes;
        if (!api_of(r)->wait(r->device, f->sent[buffer], err))
            return false;
        s->format->keep(s, column, first, count, piece);
        if (!api_of(r)->to_device(r->device, (char *)g->from + (size_t)first * g->bytes, piece,
                                  (size_t)count * g->bytes, err) ||
            !api_of(r)->record(r->device, f->sent[buffer], err))
            return false;
    }
    const struct zt_stored stored = s->format->stored(s, column);
    return !g->table || api_of(r)->to_device(r->device, (void *)g->table, stored.table,
                                             (size_t)g->planes * ZT_LEVELS * g->element_bytes, err);
}

static bool send(struct zt_rank *r, const struct data_set *k, struct zt_err *err) {
    struct staging ferry = { 0 };
    bool ok = staging_open(r, k, &ferry, err);
    for (int c = 0; ok && c < k->source->column_count; c++)
        ok = send_column(r, k, c, &ferry, err);
    ok = ok && api_of(r)->synchronize(r->device, err); /* tables are not pinned */
    staging_close(r, &ferry);
    return zt_source_intact(k->source, err) && ok;
}

static bool store(struct zt_rank *r, struct data_set *k, struct zt_err *err) {
    struct zt_err why = { 0 };
    if (k->source && fits(r, k, &why))
        k->block = api_of(r)->allocate(r->device, k->bytes, "data as they are stored", &why);
    snprintf(k->why, sizeof k->why, "%s", why.count ? why.text[0] : "");
    return !k->block || (lay_out(k) && send(r, k, err));
}

/* ---- interface ---- */

bool zt_rank_stored_create(struct zt_rank *r, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    struct zt_rank_stored *s = r->stored = ZT_NEW(r->arena, struct zt_rank_stored);
    if (p->replicas && p->grid.rank != 0) /* rank 0 loads for all ranks */
        return true;
    s->sets[0].source = p->source;
    s->sets[1].source = p->eval_source != p->source ? p->eval_source : NULL;
    return store(r, &s->sets[0], err) && store(r, &s->sets[1], err);
}

void zt_rank_stored_destroy(struct zt_rank *r) {
    for (int i = 0; r->stored && i < 2; i++)
        if (r->stored->sets[i].block)
            api_of(r)->free(r->device, r->stored->sets[i].block, r->stored->sets[i].bytes);
}

static const struct data_set *find(const struct zt_rank *r, const struct zt_source *source) {
    for (int i = 0; r->stored && i < 2; i++)
        if (source && r->stored->sets[i].source == source)
            return &r->stored->sets[i];
    return NULL;
}

bool zt_rank_stored_has(const struct zt_rank *r, const struct zt_source *source) {
    const struct data_set *k = find(r, source);
    return k && k->block;
}

struct zt_gather zt_rank_stored_gather(const struct zt_rank *r, const struct zt_source *source, int column) {
    return find(r, source)->gather[column];
}

void zt_rank_stored_say(const struct zt_rank *r, int readers, const int64_t fed_bytes[2], const struct zt_log *log) {
    static const char *const name[] = { "training data", "evaluation data" };
    char text[2][32];
    for (int i = 0; r->stored && i < 2; i++) {
        const struct data_set *k = &r->stored->sets[i];
        if (!k->source)
            continue;
        zt_format_bytes(text[0], (double)k->bytes);
        zt_format_bytes(text[1], (double)fed_bytes[i]);
        if (k->block)
            zt_say(log, ZT_LOG_DEBUG, "%s: held on the device in their stored format, %s; each micro-batch copies %s",
                   name[i], text[0], text[1]);
        else
            zt_say(log, ZT_LOG_DEBUG, "%s: copied in micro-batches of %s, read by %d thread%s: %s", name[i], text[1],
                   readers, readers > 1 ? "s" : "", k->why);
    }
}
