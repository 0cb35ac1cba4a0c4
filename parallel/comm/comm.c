#include "parallel/comm/comm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/clones.h"
#include "base/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Floats of a partial sum, which stay in the first-level cache while the addends of all ranks are read. */
enum { PIECE = 2048 };

typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));
enum { VECTOR = sizeof(vector) / sizeof(float) };

static void add(float *to, const float *a, const float *b, int count) {
    int i = 0;
    for (; i + VECTOR <= count; i += VECTOR)
        *(vector *)(to + i) = *(const vector *)(a + i) + *(const vector *)(b + i);
    for (; i < count; i++)
        to[i] = a[i] + b[i];
}

void zt_comm_add_in_rank_order(float *to, const void *const *from, int ranks, int64_t first, int64_t end) {
    float piece[PIECE];
    for (int64_t at = first; at < end; at += PIECE) {
        int n = end - at < PIECE ? (int)(end - at) : PIECE;
        const float *sum = (const float *)from[0] + at;
        for (int r = 1; r < ranks; r++) {
            float *next = r == ranks - 1 ? to + at : piece;
            add(next, sum, (const float *)from[r] + at, n);
            sum = next;
        }
        if (sum != to + at)
            memmove(to + at, sum, (size_t)n * sizeof *to);
    }
}

/* The sum of two 16-bit numbers in fp32, rounded to 16 bits, is their correctly rounded sum, because fp32 has at least
 * 2 p + 2 bits where the 16-bit type has p. */
ZT_CLONES static void add_float16(uint16_t *to, const uint16_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = zt_float_to_half(zt_half_to_float(to[i]) + zt_half_to_float(from[i]));
}

ZT_CLONES static void add_bfloat16(uint16_t *to, const uint16_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = zt_float_to_bfloat(zt_bfloat_to_float(to[i]) + zt_bfloat_to_float(from[i]));
}

static void sum_halves(bool fp16, uint16_t *to, const void *const *from, int ranks, int64_t first, int64_t end) {
    uint16_t sum[PIECE];
    for (int64_t at = first; at < end; at += PIECE) {
        const int64_t n = end - at < PIECE ? end - at : PIECE;
        memcpy(sum, (const uint16_t *)from[0] + at, (size_t)n * sizeof *sum);
        for (int r = 1; r < ranks; r++)
            (fp16 ? add_float16 : add_bfloat16)(sum, (const uint16_t *)from[r] + at, n);
        memcpy(to + at, sum, (size_t)n * sizeof *sum);
    }
}

void zt_comm_sum_in_rank_order(enum zt_dtype dtype, void *to, const void *const *from, int ranks, int64_t first,
                               int64_t end) {
    if (zt_dtype_is_half(dtype))
        sum_halves(dtype == ZT_FLOAT16, to, from, ranks, first, end);
    else
        zt_comm_add_in_rank_order(to, from, ranks, first, end);
}

void zt_transfer_append(struct zt_transfer_queue *q, struct zt_transfer *t) {
    t->row.next = NULL;
    if (q->first)
        q->last->row.next = t;
    else
        q->first = t;
    q->last = t;
}

bool zt_comm_reduce_scatter(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err) {
    struct zt_transfer t = { ZT_REDUCE_SCATTER, flat, bound, sizeof *flat };
    return c->api->start(c, &t, err) && c->api->wait(c, &t, err);
}

bool zt_comm_all_gather(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                        struct zt_err *err) {
    struct zt_transfer t = { ZT_ALL_GATHER, flat, bound, bytes_per_element };
    return c->api->start(c, &t, err) && c->api->wait(c, &t, err);
}

/* Round k pairs rank r with rank (k - r) mod size, which it pairs with r. The lower one sends first, so that no pair
 * waits for a buffer. */
bool zt_comm_all_to_all(struct zt_comm *c, const void *from, void *to, size_t bytes, struct zt_err *err) {
    bool ok = c->api->poll(c, err);
    for (int k = 0; ok && bytes > 0 && k < c->size; k++) {
        const int peer = (k - c->rank + c->size) % c->size;
        const char *out = (const char *)from + (size_t)peer * bytes;
        char *in = (char *)to + (size_t)peer * bytes;
        if (peer == c->rank)
            memcpy(in, out, bytes);
        else if (c->rank < peer)
            ok = c->api->send(c, out, bytes, peer, err) && c->api->recv(c, in, bytes, peer, err);
        else
            ok = c->api->recv(c, in, bytes, peer, err) && c->api->send(c, out, bytes, peer, err);
    }
    return ok;
}

bool zt_comm_share_nothing(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err) {
    (void)c, (void)memory, (void)bytes, (void)err;
    return true;
}

void zt_comm_unshare_nothing(struct zt_comm *c, void *memory) {
    (void)c, (void)memory;
}

bool zt_comm_exchange(struct zt_comm *c, void *items, size_t bytes, struct zt_err *err) {
    int64_t *bound = zt_calloc((size_t)c->size + 1, sizeof *bound);
    for (int r = 0; r <= c->size; r++)
        bound[r] = (int64_t)(bytes / 4) * r;
    bool ok = c->api->all_gather(c, items, bound, 4, err);
    free(bound);
    return ok;
}

enum zt_exit zt_comm_found_by_all(struct zt_comm *c, enum zt_exit code) {
    struct zt_err ignored = { 0 };
    c->api->barrier(c, &ignored);
    return c->rank == 0 ? code : ZT_EXIT_RANK;
}

bool zt_comm_core_each(int ranks) {
    return sysconf(_SC_NPROCESSORS_ONLN) >= ranks;
}

/* The duration of a pause depends on the processor, so it is measured. */
int zt_comm_spins(int ranks) {
    enum { TIMES = 5, PAUSES = 50, MOST = 10000 };
    static const double seconds = 100e-6;
    double least = seconds;
    if (!zt_comm_core_each(ranks))
        return 0;
    for (int i = 0; i < TIMES; i++) {
        const double began = zt_now();
        for (int k = 0; k < PAUSES; k++)
            zt_comm_pause();
        const double took = zt_now() - began;
        least = took < least ? took : least;
    }
    const double spins = seconds * PAUSES / (least > 0 ? least : 1e-9);
    return spins < MOST ? (int)spins : MOST;
}

void zt_comm_pause(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

const struct zt_missed *zt_comm_missed(const struct zt_rank_status *w, struct zt_err *err) {
    const struct zt_missed *missed = w ? atomic_load(&w->missed) : NULL;
    char step[80] = "";
    if (!missed)
        return NULL;
    const char *inside = atomic_load(&w->inside);
    if (inside)
        snprintf(step, sizeof step, " at step %lld, waited for in %s", (long long)atomic_load(&w->step), inside);
    zt_fail(err, ZT_EXIT_RANK, ZT_LOST_RANK "%d on %s: stopped%s", missed->rank, missed->host, step);
    return missed;
}

bool zt_comm_check_root(const struct zt_comm *c, int root, struct zt_err *err) {
    return (root >= 0 && root < c->size) ||
           zt_fail(err, ZT_EXIT_RUN, "broadcast: root %d, wants a rank of 0..%d", root, c->size - 1);
}

bool zt_comm_check_peer(const struct zt_comm *c, const char *what, int peer, struct zt_err *err) {
    if (c->size == 1)
        return zt_fail(err, ZT_EXIT_RUN, "%s: rank %d is alone, there is no rank %d to exchange with", what, c->rank,
                       peer);
    if (peer < 0 || peer >= c->size || peer == c->rank)
        return zt_fail(err, ZT_EXIT_RUN, "%s: rank %d names peer %d, wants another rank of 0..%d", what, c->rank, peer,
                       c->size - 1);
    return true;
}
