#include "comm_abort_cases.h"
#include "comm_compressed_cases.h"
#include "comm_numbers.h"

#include "base/arena.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROUNDS = 20 };

static void sums_are_added_in_rank_order_bit_for_bit(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int64_t bound[MOST + 1];
    int order_shows = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = uneven_bounds(c->size, round, bound);
        float *flat = zt_malloc((size_t)n * sizeof *flat);
        for (int64_t i = 0; i < n; i++)
            flat[i] = contribution(c->rank, round, i);
        bool ok = c->api->reduce_scatter(c, flat, bound, &err);
        int64_t wrong = -1;
        for (int64_t i = bound[c->rank]; ok && i < bound[c->rank + 1]; i++) {
            float up = contribution(0, round, i), down = contribution(c->size - 1, round, i);
            for (int r = 1; r < c->size; r++) {
                up += contribution(r, round, i);
                down += contribution(c->size - 1 - r, round, i);
            }
            order_shows += memcmp(&up, &down, sizeof up) != 0;
            if (!is_sum(c, round, i, flat[i]))
                wrong = i;
        }
        free(flat);
        EXPECT(ok, "reduce_scatter: %s", err.text[0]);
        EXPECT(wrong < 0, "round %d: element %lld is not the sum in rank order", round, (long long)wrong);
    }
    EXPECT(c->size < 3 || order_shows > 0, "the numbers do not tell one order from another");
}

/* `x` with `bits` bits of precision and no bit below 2^least, rounded to nearest even. */
static double rounded(double x, int bits, int least) {
    int exponent;
    frexp(x, &exponent);
    const double unit = ldexp(1, exponent - bits > least ? exponent - bits : least);
    return nearbyint(x / unit) * unit;
}

static bool is_rounded_sum(const struct zt_comm *c, int round, int64_t i, double got, bool fp16) {
    const int bits = fp16 ? 11 : 8, least = fp16 ? -24 : -133;
    double want = 0, magnitude = 0;
    for (int r = 0; r < c->size; r++) {
        const double addend = rounded((double)contribution(r, round, i) * 0x1p-12, bits, least);
        want = r ? rounded(want + addend, bits, least) : addend;
        magnitude += fabs(addend);
    }
    return !strcmp(c->api->name, "ring") ? fabs(got - want) <= ldexp(magnitude, 1 - bits) * c->size : got == want;
}

static void sums_of_16_bits_are_rounded_after_each_addition(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int64_t bound[MOST + 1];
    for (int round = 0; round < ROUNDS; round++) {
        const enum zt_dtype dtype = round % 2 ? ZT_FLOAT16 : ZT_BFLOAT16;
        int64_t n = uneven_bounds(c->size, round, bound), wrong = -1;
        uint16_t *flat = zt_calloc((size_t)n + 1, sizeof *flat);
        for (int64_t i = 0; i < n; i++)
            zt_store_double(dtype, flat, i, (double)contribution(c->rank, round, i) * 0x1p-12);
        struct zt_transfer t = { ZT_REDUCE_SCATTER, flat, bound, sizeof *flat, dtype };
        bool ok = c->api->start(c, &t, &err) && c->api->wait(c, &t, &err);
        for (int64_t i = bound[c->rank]; ok && i < bound[c->rank + 1]; i++)
            if (!is_rounded_sum(c, round, i, zt_load_double(dtype, flat, i), dtype == ZT_FLOAT16))
                wrong = i;
        free(flat);
        EXPECT(ok, "reduce_scatter: %s", err.text[0]);
        EXPECT(wrong < 0, "round %d: element %lld is not the rounded sum", round, (long long)wrong);
    }
}

static void gathers_bring_every_slice_to_every_rank(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int64_t bound[MOST + 1];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = uneven_bounds(c->size, round, bound);
        size_t width = round % 2 ? 2 : 4;
        unsigned char *flat = zt_calloc((size_t)n, width), *want = zt_calloc((size_t)n, width);
        for (int r = 0; r < c->size; r++)
            for (size_t b = (size_t)bound[r] * width; b < (size_t)bound[r + 1] * width; b++) {
                want[b] = (unsigned char)(b * 31 + (size_t)r * 101 + (size_t)round + 1);
                flat[b] = r == c->rank ? want[b] : 0xee;
            }
        bool ok = c->api->all_gather(c, flat, bound, width, &err);
        bool same = n == 0 || memcmp(flat, want, (size_t)n * width) == 0;
        free(flat);
        free(want);
        EXPECT(ok, "all_gather: %s", err.text[0]);
        EXPECT(same, "round %d: gathered bytes differ (%zu a element)", round, width);
    }
}

static void exchanged_items_are_those_of_every_rank(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct {
        int32_t rank, words[4];
    } items[MOST] = { 0 };
    items[c->rank].rank = c->rank + 1;
    items[c->rank].words[3] = -c->rank;
    EXPECT(zt_comm_exchange(c, items, sizeof *items, &err), "exchange: %s", err.text[0]);
    for (int r = 0; r < c->size; r++)
        EXPECT(items[r].rank == r + 1 && items[r].words[0] == 0 && items[r].words[3] == -r,
               "the item of rank %d is another", r);
}

static void broadcast_copies_the_root_to_all(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int root = 0; root < c->size; root++)
        for (size_t bytes = 0; bytes <= 5000; bytes += 1250) {
            unsigned char data[5000];
            memset(data, c->rank + 1, sizeof data);
            EXPECT(c->api->broadcast(c, data, bytes, root, &err), "broadcast: %s", err.text[0]);
            for (size_t i = 0; i < sizeof data; i++)
                EXPECT(data[i] == (i < bytes ? root : c->rank) + 1, "root %d, %zu bytes: byte %zu is %d", root, bytes,
                       i, data[i]);
        }
    EXPECT(!c->api->broadcast(c, NULL, 0, c->size, &err), "a root outside the communicator was accepted");
}

static double scalar(int rank, int i) {
    return ldexp(1.0 / (rank + 3), (rank * 5 + i) % 40);
}

static void scalars_are_added_in_rank_order_on_every_rank(struct zt_comm *c, struct rank_report *report) {
    static const int counts[] = { 1, 0, 3, 64, 65, 200 };
    struct zt_err err = { 0 };
    for (int k = 0; k < 6; k++) {
        double values[200];
        for (int i = 0; i < counts[k]; i++)
            values[i] = scalar(c->rank, i);
        EXPECT(c->api->sum(c, values, counts[k], &err), "sum: %s", err.text[0]);
        for (int i = 0; i < counts[k]; i++) {
            double want = scalar(0, i);
            for (int r = 1; r < c->size; r++)
                want += scalar(r, i);
            EXPECT(memcmp(&want, &values[i], sizeof want) == 0, "sum of %d: value %d is %a, wants %a", counts[k], i,
                   values[i], want);
        }
    }
}

static void messages_of_a_pair_arrive_in_order(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int next = (c->rank + 1) % c->size, previous = (c->rank + c->size - 1) % c->size;
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)(i * 37 % 900);
        unsigned char out[900], in[900];
        memset(out, i + c->rank, sizeof out);
        EXPECT(c->api->send(c, out, bytes, next, &err), "send: %s", err.text[0]);
        EXPECT(c->api->recv(c, in, bytes, previous, &err), "recv: %s", err.text[0]);
        for (size_t b = 0; b < bytes; b++)
            EXPECT(in[b] == (unsigned char)(i + previous), "message %d, byte %zu: %d", i, b, in[b]);
    }
}

static void eight_messages_a_pair_are_buffered(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BUFFERED; i++)
            for (int to = 0; to < c->size; to++)
                if (to != c->rank)
                    EXPECT(c->api->send(c, &i, sizeof i, to, &err), "send: %s", err.text[0]);
        for (int i = 0; i < BUFFERED; i++)
            for (int from = 0, got = -1; from < c->size; from++) {
                if (from == c->rank)
                    continue;
                EXPECT(c->api->recv(c, &got, sizeof got, from, &err), "recv: %s", err.text[0]);
                EXPECT(got == i, "message %d from rank %d is %d", i, from, got);
            }
    }
}

static void a_sender_with_full_buffers_waits_for_the_receiver(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int i = 0; i < 50 && c->rank < 2; i++) {
        int got = i;
        if (c->rank == 1 && i == 0)
            sleep_ms(20);
        EXPECT(c->rank == 0 ? c->api->send(c, &i, sizeof i, 1, &err) : c->api->recv(c, &got, sizeof got, 0, &err), "%s",
               err.text[0]);
        EXPECT(got == i, "message %d is %d", i, got);
    }
}

static void a_message_of_another_size_names_both_sizes(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    char data[20] = { 0 };
    if (c->rank == 0)
        EXPECT(c->api->send(c, data, 12, 1, &err), "send: %s", err.text[0]);
    if (c->rank == 1) {
        EXPECT(!c->api->recv(c, data, 20, 0, &err), "12 bytes were received as 20");
        EXPECT(strstr(err.text[0], "12 bytes") && strstr(err.text[0], "20 bytes"), "message: %s", err.text[0]);
        EXPECT(c->api->recv(c, data, 12, 0, &err), "the message is gone: %s", err.text[1]);
    }
}

/* Its sender has long gone on: whatever a message still needs of it must happen in the collective. */
static void a_message_arrives_while_its_sender_waits_for_a_collective(struct zt_comm *c, struct rank_report *report) {
    static const size_t sizes[] = { 1, 5000, 70000, 3000000 };
    struct zt_err err = { 0 };
    for (int i = 0; i < 4; i++) {
        unsigned char *data = zt_malloc(sizes[i]);
        memset(data, c->rank == 0 ? 7 : 0, sizes[i]);
        bool ok = c->rank != 0 || c->api->send(c, data, sizes[i], 1, &err);
        ok = ok && (c->rank != 1 || c->api->recv(c, data, sizes[i], 0, &err)) && c->api->barrier(c, &err);
        bool came = c->rank > 1 || (data[0] == 7 && data[sizes[i] - 1] == 7);
        free(data);
        EXPECT(ok, "%s", err.text[0]);
        EXPECT(came, "%zu bytes are not those sent", sizes[i]);
    }
}

static void a_rank_outside_the_communicator_is_refused(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    char data = 0;
    const int peers[] = { -1, c->size, c->rank };
    for (int k = 0; k < 3; k++) {
        EXPECT(!c->api->send(c, &data, 1, peers[k], &err), "send to %d was accepted", peers[k]);
        EXPECT(!c->api->recv(c, &data, 1, peers[k], &err), "recv from %d was accepted", peers[k]);
    }
}

/* ---- transfers underway ---- */

static void transfers_underway_bring_what_blocking_calls_bring(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int round = 0; round < ROUNDS; round++) {
        struct transfers t;
        make_transfers(c, round, &t);
        bool ok = true;
        for (int k = 0; k < UNDERWAY && ok; k++) {
            ok = c->api->start(c, &t.at[k], &err);
            for (int i = 0; i < (c->rank * 7 + round) % 5 && ok; i++)
                ok = c->api->poll(c, &err);
            if (round % 4 == c->rank)
                sleep_ms(1);
        }
        for (int k = round % 2; k < UNDERWAY && ok; k += 1 + round % 2) /* the last one, or each, or every other one */
            ok = c->api->wait(c, &t.at[k], &err) && t.at[k].done;
        ok = ok && c->api->wait(c, &t.at[UNDERWAY - 1], &err);
        int bad = ok ? first_bad(c, round, &t) : -1;
        free_transfers(&t);
        EXPECT(ok, "round %d: %s", round, err.text[0]);
        EXPECT(bad < 0, "round %d: transfer %d was overtaken or brought something else", round, bad);
    }
}

static void transfers_end_by_polling_alone(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct transfers t;
    bool ok = start_transfers(c, 0, &t, &err);
    /* this rank's part may be over before its peers' are: they too only poll, until all have said so */
    while (ok && !t.at[UNDERWAY - 1].done)
        ok = c->api->poll(c, &err);
    int bad = ok ? first_bad(c, 0, &t) : -1;
    ok = ok && c->api->barrier(c, &err);
    free_transfers(&t);
    EXPECT(ok, "%s", err.text[0]);
    EXPECT(bad < 0, "transfer %d is not done or brought something else", bad);
}

/* One round over shared[start..): sums, then the whole; what is not the caller's is spoilt as soon as a call returns.
 */
static int64_t shared_round(struct zt_comm *c, int round, float *at, struct zt_err *err) {
    int64_t bound[MOST + 1], n = uneven_bounds(c->size, round, bound), wrong = -1;
    for (int64_t i = 0; i < n; i++)
        at[i] = contribution(c->rank, round, i);
    if (!c->api->reduce_scatter(c, at, bound, err))
        return 0;
    for (int64_t i = 0; i < n; i++)
        if (i < bound[c->rank] || i >= bound[c->rank + 1])
            at[i] = NAN;
    if (!c->api->all_gather(c, at, bound, sizeof *at, err))
        return 0;
    for (int64_t i = 0; i < n; i++) {
        if (!is_sum(c, round, i, at[i]))
            wrong = i;
        at[i] = NAN;
    }
    return wrong;
}

static void shared_memory_gives_what_private_memory_gives(struct zt_comm *c, struct rank_report *report) {
    enum { ROOM = 1 << 16, STEP = 977 };
    struct zt_err err = { 0 };
    size_t bytes = ROOM * sizeof(float) + 20; /* not whole pages */
    float *shared = zt_block_create(bytes, "shared", &err), *private = zt_block_create(bytes, "private", &err);
    bool ok = shared && private && c->api->share(c, shared, bytes, &err), zero = true;
    for (int64_t i = 0; i < ROOM && ok; i++)
        zero &= shared[i] == 0;
    int64_t wrong = -1;
    for (int round = 0; round < ROUNDS && ok && wrong < 0; round++) {
        wrong = shared_round(c, round, round % 3 == 2 ? private : shared + round * STEP, &err);
        ok = err.count == 0;
    }
    if (shared)
        c->api->unshare(c, shared);
    if (ok && wrong < 0)
        wrong = shared_round(c, 0, shared, &err);
    ok = ok && c->api->barrier(c, &err);
    zt_block_destroy(shared, bytes);
    zt_block_destroy(private, bytes);
    EXPECT(ok, "%s", err.text[0]);
    EXPECT(zero, "a new shared block is not zero");
    EXPECT(wrong < 0, "element %lld is wrong", (long long)wrong);
}

static void a_collective_waits_for_the_transfers_started_before_it(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int round = 0; round < ROUNDS; round++) {
        struct transfers t;
        bool ok = start_transfers(c, round, &t, &err);
        double value = c->rank + 1;
        ok = ok && (round % 2 ? c->api->sum(c, &value, 1, &err) : c->api->barrier(c, &err));
        int bad = ok ? first_bad(c, round, &t) : -1;
        free_transfers(&t);
        EXPECT(ok, "round %d: %s", round, err.text[0]);
        EXPECT(bad < 0, "round %d: the collective came before transfer %d", round, bad);
        EXPECT(round % 2 == 0 || value == c->size * (c->size + 1) / 2, "round %d: the sum is %g", round, value);
    }
}

/* The ranks of a split reduce while their parent adds up scalars. */
static void transfers_of_a_split_go_on_beside_its_parent(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct zt_comm *part = c->api->split(c, c->rank % 2, &err);
    EXPECT(part, "split: %s", err.text[0]);
    for (int round = 0; round < ROUNDS; round++) {
        struct transfers t;
        make_transfers(part, round, &t);
        bool ok = true;
        double value = c->rank;
        for (int k = 0; k < UNDERWAY && ok; k++)
            ok = part->api->start(part, &t.at[k], &err) && (k != 1 || c->api->sum(c, &value, 1, &err));
        ok = ok && part->api->wait(part, &t.at[UNDERWAY - 1], &err);
        int bad = ok ? first_bad(part, round, &t) : -1;
        free_transfers(&t);
        EXPECT(ok, "round %d: %s", round, err.text[0]);
        EXPECT(bad < 0, "round %d: transfer %d brought something else", round, bad);
        EXPECT(value == c->size * (c->size - 1) / 2, "round %d: sum %g", round, value);
    }
    part->api->destroy(part);
}

/* The sum of the world ranks over a communicator tells who its members are. */
static double members(struct zt_comm *c, int world_rank, struct zt_err *err) {
    double sum = world_rank;
    return c->api->sum(c, &sum, 1, err) ? sum : -1;
}

static void splits_join_the_ranks_of_a_color(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct zt_comm *part = c->api->split(c, c->rank % 2 ? 70 : -3, &err);
    EXPECT(part, "split: %s", err.text[0]);
    int size = 0, rank = 0, sum = 0;
    for (int r = c->rank % 2; r < c->size; r += 2) {
        rank += r < c->rank;
        sum += r;
        size++;
    }
    EXPECT(part->rank == rank && part->size == size, "rank %d of %d, wants %d of %d", part->rank, part->size, rank,
           size);
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT(members(part, c->rank, &err) == sum, "the split has other members: %s", err.text[0]);
        EXPECT(members(c, c->rank, &err) == c->size * (c->size - 1) / 2, "the parent lost a rank: %s", err.text[0]);
    }
    struct zt_comm *alone = part->api->split(part, part->rank, &err);
    EXPECT(alone, "split of a split: %s", err.text[0]);
    EXPECT(alone->size == 1 && members(alone, c->rank, &err) == c->rank, "a color of one rank: %s", err.text[0]);
    alone->api->destroy(alone);
    part->api->destroy(part);
}

/* Resources that this thread has used: processor seconds, and voluntary context switches. */
struct usage {
    double cpu;
    long switches;
};

static struct usage usage_now(void) {
    struct rusage r;
    getrusage(RUSAGE_THREAD, &r);
    return (struct usage){ (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
                               1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec),
                           r.ru_nvcsw };
}

static bool take_message(struct zt_comm *c, struct zt_err *err) {
    float value = 0;
    for (int r = 1; r < c->size && c->rank == 0; r++)
        if (!c->api->send(c, &value, sizeof value, r, err))
            return false;
    return c->rank == 0 || c->api->recv(c, &value, sizeof value, 0, err);
}

/* The limits are far from both sides: such a wait takes some hundredths of a processor and at most 1.4 switches a
 * millisecond, one that looks every 50 us ten, one that spins or yields a whole processor. */
static void ranks_that_wait_long_leave_their_cores_to_others(struct zt_comm *c, struct rank_report *report) {
    enum { LATE_MS = 300, MOST_WAITING = 3 };
    struct zt_err err = { 0 };
    bool (*const waits[])(struct zt_comm *, struct zt_err *) = { c->api->barrier, take_message };
    for (int k = 0; k < 2 && c->size <= MOST_WAITING; k++) {
        EXPECT(c->api->barrier(c, &err), "barrier: %s", err.text[0]);
        const double began = zt_now();
        const struct usage before = usage_now();
        if (c->rank == 0)
            sleep_ms(LATE_MS);
        EXPECT(waits[k](c, &err), "wait %d: %s", k, err.text[0]);
        const struct usage now = usage_now();
        const double waited = zt_now() - began, cpu = now.cpu - before.cpu;
        const long switches = now.switches - before.switches;
        EXPECT(cpu < 0.3 * waited, "wait %d: %.3f s of a processor in %.3f s", k, cpu, waited);
        EXPECT((double)switches < 3e3 * waited, "wait %d: %ld switches in %.3f s", k, switches, waited);
    }
}

#define CASE(function, ranks)                                                                                          \
    { .name = #function, .body = function, .fewest_ranks = ranks }
#define ABORTING(function, ranks)                                                                                      \
    { .name = #function, .body = function, .fewest_ranks = ranks, .aborts = true }

const struct comm_case comm_cases[] = {
    CASE(sums_are_added_in_rank_order_bit_for_bit, 1),
    CASE(sums_of_16_bits_are_rounded_after_each_addition, 1),
    CASE(gathers_bring_every_slice_to_every_rank, 1),
    CASE(exchanged_items_are_those_of_every_rank, 1),
    CASE(broadcast_copies_the_root_to_all, 1),
    CASE(scalars_are_added_in_rank_order_on_every_rank, 1),
    CASE(messages_of_a_pair_arrive_in_order, 2),
    CASE(eight_messages_a_pair_are_buffered, 1),
    CASE(a_sender_with_full_buffers_waits_for_the_receiver, 2),
    CASE(a_message_of_another_size_names_both_sizes, 2),
    CASE(a_message_arrives_while_its_sender_waits_for_a_collective, 2),
    CASE(a_rank_outside_the_communicator_is_refused, 1),
    CASE(splits_join_the_ranks_of_a_color, 1),
    CASE(transfers_underway_bring_what_blocking_calls_bring, 1),
    CASE(transfers_end_by_polling_alone, 1),
    CASE(shared_memory_gives_what_private_memory_gives, 1),
    CASE(a_collective_waits_for_the_transfers_started_before_it, 1),
    CASE(transfers_of_a_split_go_on_beside_its_parent, 1),
    CASE(ranks_that_wait_long_leave_their_cores_to_others, 2),
    COMM_COMPRESSED_CASES(CASE),
    COMM_ABORT_CASES(ABORTING),
};
const int comm_case_count = sizeof comm_cases / sizeof *comm_cases;
