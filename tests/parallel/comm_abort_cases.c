#include "comm_abort_cases.h"

#include "comm_numbers.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last rank fails between start and wait, and gives its buffers back at once; so does every rank that hears of it.
 */
void buffers_of_a_failed_transfer_are_the_callers_again(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct transfers t;
    bool ok = start_transfers(c, 0, &t, &err);
    if (c->rank == c->size - 1)
        c->api->abort(c, "disk full");
    else
        while (ok)
            ok = c->api->wait(c, &t.at[UNDERWAY - 1], &err) && c->api->barrier(c, &err);
    free_transfers(&t);
    EXPECT(!c->api->poll(c, &err) || c->api->barrier(c, &err) == false, "an aborted communicator goes on");
}

/* Waiting calls, each of which the last rank leaves unanswered. */
static bool wait_in_reduce_scatter(struct zt_comm *c, struct zt_err *err) {
    int64_t bound[MOST + 1];
    float *flat = zt_calloc((size_t)uneven_bounds(c->size, 0, bound), sizeof *flat);
    bool ok = c->api->reduce_scatter(c, flat, bound, err);
    free(flat);
    return ok;
}

static bool wait_in_all_gather(struct zt_comm *c, struct zt_err *err) {
    int64_t bound[MOST + 1];
    float *flat = zt_calloc((size_t)uneven_bounds(c->size, 0, bound), sizeof *flat);
    bool ok = c->api->all_gather(c, flat, bound, sizeof *flat, err);
    free(flat);
    return ok;
}

static bool wait_in_transfer(struct zt_comm *c, struct zt_err *err) {
    struct transfers t;
    make_transfers(c, 0, &t);
    bool ok = true;
    for (int k = 0; k < UNDERWAY && ok; k++)
        ok = c->api->start(c, &t.at[k], err) && c->api->poll(c, err);
    ok = ok && c->api->wait(c, &t.at[UNDERWAY - 1], err);
    free_transfers(&t);
    return ok;
}

static bool wait_in_broadcast(struct zt_comm *c, struct zt_err *err) {
    char data[3] = { 0 };
    return c->api->broadcast(c, data, sizeof data, c->size - 1, err);
}

static bool wait_in_sum(struct zt_comm *c, struct zt_err *err) {
    double value = 1;
    return c->api->sum(c, &value, 1, err);
}

static bool wait_in_barrier(struct zt_comm *c, struct zt_err *err) {
    return c->api->barrier(c, err);
}

static bool wait_in_send(struct zt_comm *c, struct zt_err *err) {
    char data = 0;
    bool ok = true;
    for (int i = 0; i <= BUFFERED && ok; i++)
        ok = c->api->send(c, &data, 1, c->size - 1, err);
    return ok;
}

static bool wait_in_recv(struct zt_comm *c, struct zt_err *err) {
    char data;
    return c->api->recv(c, &data, 1, c->size - 1, err);
}

static bool wait_in_split(struct zt_comm *c, struct zt_err *err) {
    struct zt_comm *part = c->api->split(c, 0, err);
    if (part)
        part->api->destroy(part);
    return part != NULL;
}

typedef bool (*waiting_call)(struct zt_comm *c, struct zt_err *err);

static const waiting_call waiting_calls[] = {
    wait_in_reduce_scatter, wait_in_all_gather, wait_in_broadcast, wait_in_sum,   wait_in_transfer,
    wait_in_barrier,        wait_in_send,       wait_in_recv,      wait_in_split,
};

enum { WAITING_CALLS = sizeof waiting_calls / sizeof *waiting_calls };

/* The last rank of `c` aborts through `through` while the others wait on `c`. */
static void expect_abort(struct zt_comm *c, struct zt_comm *through, bool aborter, waiting_call call, int wait_ms,
                         int failed_rank, struct rank_report *report) {
    struct zt_err err = { 0 };
    char who[32];
    snprintf(who, sizeof who, "rank %d", failed_rank);
    if (aborter) {
        sleep_ms(wait_ms);
        through->api->abort(through, "disk full");
        through->api->abort(through, "a second reason");
    }
    for (int again = 0; again < 2; again++) {
        err = (struct zt_err){ 0 };
        EXPECT(!call(c, &err), "a call on an aborted communicator succeeded");
        EXPECT(err.count == 1 && err.code == ZT_EXIT_RANK, "%d errors, code %d", err.count, err.code);
        EXPECT(strstr(err.text[0], "disk full") && strstr(err.text[0], who), "message: %s", err.text[0]);
    }
}

#define ABORT_CASE(call)                                                                                               \
    void abort_wakes_ranks_that_##call(struct zt_comm *c, struct rank_report *report) {                                \
        expect_abort(c, c, c->rank == c->size - 1, call, 10, c->size - 1, report);                                     \
    }

ABORT_CASE(wait_in_reduce_scatter)
ABORT_CASE(wait_in_all_gather)
ABORT_CASE(wait_in_transfer)
ABORT_CASE(wait_in_broadcast)
ABORT_CASE(wait_in_sum)
ABORT_CASE(wait_in_barrier)
ABORT_CASE(wait_in_split)

/* The aborter cannot exchange with itself: it only aborts. */
#define PAIR_ABORT_CASE(call)                                                                                          \
    void abort_wakes_ranks_that_##call(struct zt_comm *c, struct rank_report *report) {                                \
        bool last = c->rank == c->size - 1;                                                                            \
        expect_abort(c, c, last, last ? wait_in_barrier : call, 10, c->size - 1, report);                              \
    }

PAIR_ABORT_CASE(wait_in_send)
PAIR_ABORT_CASE(wait_in_recv)

void poll_hears_of_an_abort_where_nothing_is_underway(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    bool heard = false;
    if (c->rank == c->size - 1)
        c->api->abort(c, "disk full");
    for (int ms = 0; ms < 20000 && !heard; ms++) {
        heard = !c->api->poll(c, &err);
        sleep_ms(heard ? 0 : 1);
    }
    EXPECT(heard && err.count == 1 && strstr(err.text[0], "disk full"), "message: %s", err.text[0]);
}

/* Splits c, and returns when no rank is in the split any more, which an abort would end. */
static struct zt_comm *split_all(struct zt_comm *c, int color, struct zt_err *err) {
    struct zt_comm *part = c->api->split(c, color, err);
    struct zt_err ignored = { 0 };
    if (part)
        c->api->barrier(c, &ignored); /* the abort may come while a rank leaves it */
    return part;
}

/* Rank 0 aborts the parent; the others wait in a split that rank 0 is no member of. */
void abort_of_the_parent_wakes_ranks_in_splits(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct zt_comm *part = split_all(c, c->rank == 0, &err);
    EXPECT(part, "split: %s", err.text[0]);
    expect_abort(part, c, c->rank == 0, part->rank == part->size - 1 ? wait_in_barrier : wait_in_recv, 10, 0, report);
    part->api->destroy(part);
}

/* A split's rank 0 may be another rank of the world, and the world waits as well. */
void abort_of_a_split_wakes_the_parent_and_names_the_rank_of_the_world(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    bool last = c->rank == c->size - 1;
    struct zt_comm *part = split_all(c, last, &err);
    EXPECT(part, "split: %s", err.text[0]);
    expect_abort(c, part, last, wait_in_sum, 10, c->size - 1, report);
    part->api->destroy(part);
}

/* Ranks work at full speed and give their buffers back at once when a call fails, while an abort comes at any moment.
 */
void abort_at_any_moment_ends_every_rank(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int rounds = 0;
    bool ok = true;
    while (ok) {
        if (c->rank == 0 && rounds == 30)
            c->api->abort(c, "enough");
        for (int k = 0; k < 5 && ok; k++)
            ok = waiting_calls[k](c, &err);
        rounds++;
    }
    EXPECT(strstr(err.text[0], "rank 0: enough") && err.count == 1, "message: %s", err.text[0]);
}
