#include "parallel/comm/comms_logger.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/sort.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Calls of one kind. */
struct row {
    const char *op;
    size_t bytes;
    int ranks;
    double *ms; /* of each call */
    int count, room;
};

struct zt_counts {
    struct zt_count_options options;
    struct row *rows;
    int count;
};

struct count_comm {
    struct zt_comm base;
    struct zt_comm *inner;
    struct zt_counts *counts;
};

static const struct zt_comm_api count_api;

static struct count_comm *down(struct zt_comm *c) {
    assert(c->api == &count_api);
    return (struct count_comm *)c;
}

/* The wrapped one, which tells where the rank is on behalf of this one. */
static struct zt_comm *inner_of(struct zt_comm *c) {
    struct zt_comm *inner = down(c)->inner;
    inner->status = c->status;
    return inner;
}

static double now_ms(void) {
    return zt_now() * 1e3;
}

struct zt_counts *zt_counts_create(const struct zt_count_options *options) {
    struct zt_counts *counts = zt_calloc(1, sizeof *counts);
    counts->options = *options;
    return counts;
}

void zt_counts_destroy(struct zt_counts *counts) {
    for (int i = 0; counts && i < counts->count; i++)
        free(counts->rows[i].ms);
    if (counts)
        free(counts->rows);
    free(counts);
}

/* ---- bandwidths and text ---- */

static double algbw(const struct row *row, double ms) {
    return ms > 0 ? (double)row->bytes * 8 / (ms * 1e6) : 0;
}

static double bus_share(const struct row *row) {
    double part = (double)(row->ranks - 1) / row->ranks;
    if (!strcmp(row->op, "all_reduce"))
        return 2 * part;
    return !strcmp(row->op, "reduce_scatter") || !strcmp(row->op, "all_gather") || !strcmp(row->op, "all_to_all") ? part
                                                                                                                  : 1;
}

/* As DeepSpeed writes sizes: at most two decimals, powers of 1024. */
static const char *size_text(char text[32], size_t bytes) {
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB" };
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, "%.2f", value);
    for (char *end = text + strlen(text) - 1; *end == '0' || *end == '.'; end--) {
        bool point = *end == '.';
        *end = 0;
        if (point)
            break;
    }
    strcat(strcat(text, " "), units[unit]);
    return text;
}

static double trimmed_mean(const struct row *row) {
    int cut = row->count / 10;
    double *sorted = zt_malloc((size_t)row->count * sizeof *sorted), sum = 0;
    memcpy(sorted, row->ms, (size_t)row->count * sizeof *sorted);
    zt_sort_doubles(sorted, row->count);
    for (int i = cut; i < row->count - cut; i++)
        sum += sorted[i];
    free(sorted);
    return sum / (row->count - 2 * cut);
}

static int by_op_and_size(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    int order = strcmp(x->op, y->op);
    return order ? order : x->bytes != y->bytes ? (x->bytes > y->bytes ? 1 : -1) : x->ranks - y->ranks;
}

void zt_counts_table(const struct zt_counts *counts, struct zt_text *to) {
    struct row *rows = zt_malloc(((size_t)counts->count + 1) * sizeof *rows);
    if (counts->count)
        memcpy(rows, counts->rows, (size_t)counts->count * sizeof *rows);
    qsort(rows, (size_t)counts->count, sizeof *rows, by_op_and_size);
    zt_text_add(to, "%-20s%-20s%-20s%-20s%-20s%-20s%-20s\n", "Comm. Op", "Message Size", "Count", "Total Latency(ms)",
                "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)");
    for (int i = 0; i < counts->count; i++) {
        const struct row *row = &rows[i];
        double total = 0, mean = trimmed_mean(row);
        for (int k = 0; k < row->count; k++)
            total += row->ms[k];
        if (i == 0 || strcmp(rows[i - 1].op, row->op))
            zt_text_add(to, "%s\n", row->op);
        zt_text_add(to, "%-20s%-20s%-20d%-20.2f%-20.2f%-20.2f%-20.2f\n", "", size_text((char[32]){ 0 }, row->bytes),
                    row->count, total, mean, algbw(row, mean), algbw(row, mean) * bus_share(row));
    }
    free(rows);
}

/* ---- counting ---- */

static bool is_wanted(const struct zt_counts *counts, const char *op) {
    bool wanted = counts->options.all;
    for (int i = 0; i < counts->options.op_count && !wanted; i++)
        wanted = !strcmp(counts->options.ops[i], op);
    return wanted;
}

static struct row *row_of(struct zt_counts *counts, const char *op, size_t bytes, int ranks) {
    for (int i = 0; i < counts->count; i++) {
        struct row *row = &counts->rows[i];
        if (row->bytes == bytes && row->ranks == ranks && !strcmp(row->op, op))
            return row;
    }
    counts->rows = zt_realloc(counts->rows, ((size_t)counts->count + 1) * sizeof *counts->rows);
    counts->rows[counts->count] = (struct row){ .op = op, .bytes = bytes, .ranks = ranks };
    return &counts->rows[counts->count++];
}

/* Returns `ok`, so that a call can be counted where it is returned. */
static bool count(struct zt_comm *c, const char *op, size_t bytes, double since, bool ok) {
    struct zt_counts *counts = down(c)->counts;
    if (!ok || !is_wanted(counts, op))
        return ok;
    double ms = now_ms() - since;
    struct row *row = row_of(counts, op, bytes, c->size);
    if (row->count == row->room) {
        row->room = row->room ? 2 * row->room : 64;
        row->ms = zt_realloc(row->ms, (size_t)row->room * sizeof *row->ms);
    }
    row->ms[row->count++] = ms;
    if (counts->options.verbose)
        zt_say(counts->options.verbose, ZT_LOG_INFO,
               "comm op: %s | time (ms): %.2f | msg size: %s | algbw (Gbps): %.2f | busbw (Gbps): %.2f", op, ms,
               size_text((char[32]){ 0 }, bytes), algbw(row, ms), algbw(row, ms) * bus_share(row));
    return true;
}

static bool count_reduce_scatter(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "reduce_scatter", (size_t)bound[c->size] * sizeof *flat, since,
                 inner->api->reduce_scatter(inner, flat, bound, err));
}

static bool count_all_gather(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                             struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "all_gather", (size_t)bound[c->size] * bytes_per_element, since,
                 inner->api->all_gather(inner, flat, bound, bytes_per_element, err));
}

static bool count_start(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    struct zt_comm *inner = inner_of(c);
    t->row.since_ms = now_ms();
    return inner->api->start(inner, t, err);
}

static bool count_poll(struct zt_comm *c, struct zt_err *err) {
    struct zt_comm *inner = inner_of(c);
    return inner->api->poll(inner, err);
}

static bool count_wait(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    struct zt_comm *inner = inner_of(c);
    return count(c, t->kind == ZT_ALL_GATHER ? "all_gather" : "reduce_scatter",
                 (size_t)t->bound[c->size] * t->bytes_per_element, t->row.since_ms, inner->api->wait(inner, t, err));
}

static bool count_share(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err) {
    struct zt_comm *inner = inner_of(c);
    return inner->api->share(inner, memory, bytes, err);
}

static void count_unshare(struct zt_comm *c, void *memory) {
    struct zt_comm *inner = inner_of(c);
    inner->api->unshare(inner, memory);
}

static bool count_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "broadcast", bytes, since, inner->api->broadcast(inner, data, bytes, root, err));
}

static bool count_sum(struct zt_comm *c, double *values, int n, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "all_reduce", n > 0 ? (size_t)n * sizeof *values : 0, since,
                 inner->api->sum(inner, values, n, err));
}

static bool count_barrier(struct zt_comm *c, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "barrier", 0, since, inner->api->barrier(inner, err));
}

static bool count_send(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "send", bytes, since, inner->api->send(inner, data, bytes, to, err));
}

static bool count_recv(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "recv", bytes, since, inner->api->recv(inner, data, bytes, from, err));
}

static bool count_all_to_all(struct zt_comm *c, const void *from, void *to, size_t bytes, struct zt_err *err) {
    double since = now_ms();
    struct zt_comm *inner = inner_of(c);
    return count(c, "all_to_all", (size_t)c->size * bytes, since, inner->api->all_to_all(inner, from, to, bytes, err));
}

static struct zt_comm *count_split(struct zt_comm *c, int color, struct zt_err *err) {
    struct zt_comm *inner = inner_of(c), *part = inner->api->split(inner, color, err);
    return part ? zt_comm_count_create(part, down(c)->counts) : NULL;
}

static void count_abort(struct zt_comm *c, const char *why) {
    down(c)->inner->api->abort(down(c)->inner, why);
}

static void count_destroy(struct zt_comm *c) {
    if (!c)
        return;
    down(c)->inner->api->destroy(down(c)->inner);
    free(c);
}

static const struct zt_comm_api count_api = {
    .name = "count",
    .reduce_scatter = count_reduce_scatter,
    .all_gather = count_all_gather,
    .start = count_start,
    .poll = count_poll,
    .wait = count_wait,
    .share = count_share,
    .unshare = count_unshare,
    .broadcast = count_broadcast,
    .sum = count_sum,
    .barrier = count_barrier,
    .send = count_send,
    .recv = count_recv,
    .all_to_all = count_all_to_all,
    .split = count_split,
    .abort = count_abort,
    .destroy = count_destroy,
};

struct zt_comm *zt_comm_count_create(struct zt_comm *inner, struct zt_counts *counts) {
    struct count_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &count_api, .rank = inner->rank, .size = inner->size, .status = inner->status };
    c->inner = inner;
    c->counts = counts;
    return &c->base;
}
