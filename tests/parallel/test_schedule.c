/* Schedules are run here by a machine that knows only what comm.h promises: sends that block at a full buffer, receives
 * that block, rendezvous of all ranks of a stage (REDUCE, GATHER, and what ZeRO puts inside forwards and backwards) and
 * of the world (CLIP). */
#include "parallel/schedule.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 20, DATA = 2, MOST_MICRO = 40, BUFFERED = 8 };

static const char *const names[] = { "1f1b", "gpipe" };
enum { NAMES = sizeof names / sizeof *names };

/* One way between two neighbours of a pipeline. */
struct channel {
    int micro_batch[MOST_MICRO];
    int sent, received;
};

struct rank {
    const struct zt_schedule *schedule;
    int at;
    int meetings;           /* rendezvous this rank stands at or has passed */
    bool waits_at_meeting;  /* counted in, not yet through */
    int holder[MOST_MICRO]; /* by slot: micro-batch, -1 free */
    int in_flight, forwarded, backwarded;
};

struct machine {
    int stages, micro_batches, buffered;
    bool training;
    bool inside; /* zero2, zero3: the ranks of a stage meet in every forward and backward too */
    struct zt_schedule schedule[MOST_STAGES];
    struct rank rank[MOST_STAGES][DATA];
    struct channel act[MOST_STAGES][DATA], grad[MOST_STAGES][DATA]; /* act[s]: s to s + 1; grad[s]: s to s - 1 */
};

static bool push(struct channel *c, int micro_batch, int buffered) {
    if (c->sent - c->received >= buffered)
        return false;
    c->micro_batch[c->sent++] = micro_batch;
    return true;
}

static bool pull(struct channel *c, int micro_batch) {
    if (c->sent == c->received)
        return false;
    ck_assert_int_eq(c->micro_batch[c->received], micro_batch);
    c->received++;
    return true;
}

static void take_slot(struct rank *r, const struct zt_instruction *i) {
    ck_assert_int_lt(i->slot, r->schedule->slots);
    ck_assert_int_ge(i->slot, 0);
    if (r->holder[i->slot] == i->micro_batch)
        return;
    ck_assert_msg(r->holder[i->slot] < 0, "slot %d is taken by micro-batch %d while %d holds it", i->slot,
                  i->micro_batch, r->holder[i->slot]);
    r->holder[i->slot] = i->micro_batch;
    r->in_flight++;
}

static void free_slot(struct rank *r, const struct zt_instruction *i) {
    r->holder[i->slot] = -1;
    r->in_flight--;
}

/* All ranks of [first, end) stages meet: through when each has come as often as this one. */
static bool meet(struct machine *m, struct rank *r, int first, int end) {
    if (!r->waits_at_meeting)
        r->meetings++;
    r->waits_at_meeting = true;
    for (int s = first; s < end; s++)
        for (int d = 0; d < DATA; d++)
            if (m->rank[s][d].meetings < r->meetings)
                return false;
    r->waits_at_meeting = false;
    return true;
}

/* Whether the next instruction of a rank could be done; checks it on the way. */
static bool step(struct machine *m, int s, int d) {
    struct rank *r = &m->rank[s][d];
    const struct zt_instruction *i = &r->schedule->at[r->at];
    bool done = true;
    switch (i->op) {
    case ZT_DO_LOAD:
        ck_assert(s == 0 || s == m->stages - 1);
        take_slot(r, i);
        break;
    case ZT_DO_RECV_ACT:
        take_slot(r, i);
        done = pull(&m->act[s - 1][d], i->micro_batch);
        break;
    case ZT_DO_FORWARD:
        if (m->inside && !(done = meet(m, r, s, s + 1)))
            break;
        ck_assert_int_eq(i->micro_batch, r->forwarded);
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        r->forwarded++;
        if (!m->training && s == m->stages - 1)
            free_slot(r, i);
        break;
    case ZT_DO_SEND_ACT:
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        done = push(&m->act[s][d], i->micro_batch, m->buffered);
        if (done && !m->training)
            free_slot(r, i);
        break;
    case ZT_DO_RECV_GRAD:
        done = pull(&m->grad[s + 1][d], i->micro_batch);
        break;
    case ZT_DO_BACKWARD:
        if (m->inside && !(done = meet(m, r, s, s + 1)))
            break;
        ck_assert_int_lt(i->micro_batch, r->forwarded);
        ck_assert_int_eq(i->micro_batch, r->backwarded);
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        r->backwarded++;
        if (s == 0)
            free_slot(r, i);
        break;
    case ZT_DO_SEND_GRAD:
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        done = push(&m->grad[s][d], i->micro_batch, m->buffered);
        if (done)
            free_slot(r, i);
        break;
    case ZT_DO_REDUCE:
    case ZT_DO_GATHER:
        ck_assert_int_eq(r->backwarded, m->micro_batches);
        done = meet(m, r, s, s + 1);
        break;
    case ZT_DO_CLIP:
        done = meet(m, r, 0, m->stages);
        break;
    case ZT_DO_STEP:
        break;
    case ZT_DO_SCATTER:
    case ZT_DO_GATHER_ACT:
    case ZT_DO_SCATTER_GRAD:
    case ZT_INSTRUCTION_OPS:
        ck_abort_msg("not an instruction of a pipeline");
    }
    ck_assert_int_le(r->in_flight, r->schedule->slots);
    r->at += done;
    return done;
}

static bool all_ended(const struct machine *m) {
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++)
            if (m->rank[s][d].at < m->rank[s][d].schedule->count)
                return false;
    return true;
}

static void run(struct machine *m, const char *name) {
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++) {
            m->rank[s][d].schedule = &m->schedule[s];
            for (int k = 0; k < MOST_MICRO; k++)
                m->rank[s][d].holder[k] = -1;
        }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < m->stages; s++)
            for (int d = 0; d < DATA; d++)
                while (m->rank[s][d].at < m->schedule[s].count && step(m, s, d))
                    moved = true;
    }
    ck_assert_msg(all_ended(m), "%s: %d micro-batches on %d stages with %d buffered messages stand still", name,
                  m->micro_batches, m->stages, m->buffered);
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++) {
            ck_assert_int_eq(m->rank[s][d].forwarded, m->micro_batches);
            ck_assert_int_eq(m->rank[s][d].backwarded, m->training ? m->micro_batches : 0);
            ck_assert_int_eq(m->rank[s][d].in_flight, 0);
            ck_assert_int_eq(m->act[s][d].sent, m->act[s][d].received);
            ck_assert_int_eq(m->grad[s][d].sent, m->grad[s][d].received);
            ck_assert_int_eq(m->act[s][d].sent, s + 1 < m->stages ? m->micro_batches : 0);
            ck_assert_int_eq(m->grad[s][d].sent, s > 0 && m->training ? m->micro_batches : 0);
        }
}

/* `name` NULL: the forward-only schedule. */
static void simulate(const char *name, int micro_batches, int stages, int buffered, bool inside) {
    struct machine *m = zt_calloc(1, sizeof *m);
    struct zt_arena *arena = zt_arena_create();
    *m = (struct machine){ .stages = stages,
                           .micro_batches = micro_batches,
                           .buffered = buffered,
                           .training = name != NULL,
                           .inside = inside };
    for (int s = 0; s < stages; s++) {
        struct zt_schedule_shape shape = { .micro_batches = micro_batches, .stages = stages, .chunks = 1, .stage = s };
        struct zt_err err = { 0 };
        ck_assert_msg(name ? zt_schedule_make(arena, name, &shape, &m->schedule[s], &err)
                           : zt_schedule_make_forward(arena, &shape, &m->schedule[s], &err),
                      "%s", err.text[0]);
    }
    run(m, name ? name : "forward");
    zt_arena_destroy(arena);
    free(m);
}

START_TEST(every_schedule_ends_with_eight_buffered_messages) {
    for (int n = 0; n < NAMES; n++)
        for (int stages = 1; stages <= 6; stages++)
            for (int micro = 1; micro <= 12; micro++)
                for (int inside = 0; inside < 2; inside++)
                    simulate(names[n], micro, stages, BUFFERED, inside);
}
END_TEST

START_TEST(every_schedule_ends_with_one_buffered_message) {
    for (int n = 0; n < NAMES; n++)
        for (int stages = 1; stages <= 6; stages++)
            for (int micro = 1; micro <= 12; micro++)
                for (int inside = 0; inside < 2; inside++)
                    simulate(names[n], micro, stages, 1, inside);
}
END_TEST

START_TEST(more_stages_and_micro_batches_than_buffers_end_too) {
    for (int n = 0; n < NAMES; n++)
        simulate(names[n], MOST_MICRO, MOST_STAGES, BUFFERED, true);
}
END_TEST

START_TEST(evaluation_runs_every_forward_in_one_slot) {
    for (int stages = 1; stages <= 6; stages++)
        for (int micro = 1; micro <= 12; micro++)
            simulate(NULL, micro, stages, BUFFERED, false);
}
END_TEST

static struct zt_schedule make(struct zt_arena *arena, const char *name, int micro_batches, int stages, int stage) {
    struct zt_schedule_shape shape = { .micro_batches = micro_batches, .stages = stages, .chunks = 1, .stage = stage };
    struct zt_schedule schedule = { 0 };
    struct zt_err err = { 0 };
    ck_assert_msg(zt_schedule_make(arena, name, &shape, &schedule, &err), "%s", err.text[0]);
    return schedule;
}

START_TEST(stages_hold_no_more_micro_batches_than_the_schedule_needs) {
    struct zt_arena *arena = zt_arena_create();
    for (int stages = 1; stages <= 6; stages++)
        for (int micro = 1; micro <= 12; micro++)
            for (int s = 0; s < stages; s++) {
                int ahead = stages - s < micro ? stages - s : micro;
                ck_assert_int_eq(make(arena, "1f1b", micro, stages, s).slots, ahead);
                ck_assert_int_eq(make(arena, "gpipe", micro, stages, s).slots, stages == 1 ? 1 : micro);
            }
    zt_arena_destroy(arena);
}
END_TEST

/* The table of half-steps in DeepSpeed's schedule (deepspeed.md 5.2): a stage's forwards and backwards, in order. */
static int half_step(int stages, int micro_batches, int s, int k, bool *forward) {
    *forward = k % 2 == s % 2;
    int id = *forward ? (k % 2 ? (k - 1) / 2 - s / 2 : k / 2 - s / 2)
             : k % 2  ? (k - 1) / 2 - stages + 1 + s / 2
                      : k / 2 - stages + (s + 1) / 2;
    return id < micro_batches ? id : -1;
}

START_TEST(one_f_one_b_follows_the_half_steps_of_deepspeed) {
    struct zt_arena *arena = zt_arena_create();
    for (int stages = 1; stages <= 6; stages++)
        for (int micro = 1; micro <= 12; micro++)
            for (int s = 0; s < stages; s++) {
                struct zt_schedule schedule = make(arena, "1f1b", micro, stages, s);
                int at = 0;
                for (int k = 0; k < 2 * (micro + stages - 1); k++) {
                    bool forward;
                    int id = half_step(stages, micro, s, k, &forward);
                    if (id < 0)
                        continue;
                    while (schedule.at[at].op != ZT_DO_FORWARD && schedule.at[at].op != ZT_DO_BACKWARD)
                        at++;
                    ck_assert_int_eq(schedule.at[at].op, forward ? ZT_DO_FORWARD : ZT_DO_BACKWARD);
                    ck_assert_int_eq(schedule.at[at].micro_batch, id);
                    at++;
                }
            }
    zt_arena_destroy(arena);
}
END_TEST

static void expect_text(const char *name, int micro_batches, int stages, int stage, const char *want) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule schedule = make(arena, name, micro_batches, stages, stage);
    struct zt_text text = { 0 };
    zt_schedule_print(&text, &schedule);
    ck_assert_str_eq(text.at, want);
    zt_text_finish(&text);
    zt_arena_destroy(arena);
}

START_TEST(four_stages_and_eight_micro_batches_print_the_worked_example) {
    expect_text("1f1b", 8, 4, 0,
                "4 slots: L0 F0 a0> L1 F1 a1> L2 F2 a2> L3 F3 a3> <g0 B0 L4 F4 a4> <g1 B1 L5 F5 a5> <g2 B2 L6 F6 a6> "
                "<g3 B3 L7 F7 a7> <g4 B4 <g5 B5 <g6 B6 <g7 B7 REDUCE CLIP STEP GATHER");
    expect_text("1f1b", 8, 4, 1,
                "3 slots: <a0 F0 a0> <a1 F1 a1> <a2 F2 a2> <g0 B0 g0> <a3 F3 a3> <g1 B1 g1> <a4 F4 a4> <g2 B2 g2> <a5"
                " F5 a5> <g3 B3 g3> <a6 F6 a6> <g4 B4 g4> <a7 F7 a7> <g5 B5 g5> <g6 B6 g6> <g7 B7 g7> REDUCE CLIP "
                "STEP GATHER");
    expect_text("1f1b", 8, 4, 2,
                "2 slots: <a0 F0 a0> <a1 F1 a1> <g0 B0 g0> <a2 F2 a2> <g1 B1 g1> <a3 F3 a3> <g2 B2 g2> <a4 F4 a4> <g3"
                " B3 g3> <a5 F5 a5> <g4 B4 g4> <a6 F6 a6> <g5 B5 g5> <a7 F7 a7> <g6 B6 g6> <g7 B7 g7> REDUCE CLIP "
                "STEP GATHER");
    expect_text("1f1b", 8, 4, 3,
                "1 slot: L0 <a0 F0 B0 g0> L1 <a1 F1 B1 g1> L2 <a2 F2 B2 g2> L3 <a3 F3 B3 g3> L4 <a4 F4 B4 g4> L5 <a5 "
                "F5 B5 g5> L6 <a6 F6 B6 g6> L7 <a7 F7 B7 g7> REDUCE CLIP STEP GATHER");
    expect_text("gpipe", 8, 4, 0,
                "8 slots: L0 F0 a0> L1 F1 a1> L2 F2 a2> L3 F3 a3> L4 F4 a4> L5 F5 a5> L6 F6 a6> L7 F7 a7> <g0 B0 <g1 "
                "B1 <g2 B2 <g3 B3 <g4 B4 <g5 B5 <g6 B6 <g7 B7 REDUCE CLIP STEP GATHER");
    expect_text("gpipe", 8, 4, 1,
                "8 slots: <a0 F0 a0> <a1 F1 a1> <a2 F2 a2> <a3 F3 a3> <a4 F4 a4> <a5 F5 a5> <a6 F6 a6> <a7 F7 a7> <g0"
                " B0 g0> <g1 B1 g1> <g2 B2 g2> <g3 B3 g3> <g4 B4 g4> <g5 B5 g5> <g6 B6 g6> <g7 B7 g7> REDUCE CLIP "
                "STEP GATHER");
    expect_text("gpipe", 8, 4, 2,
                "8 slots: <a0 F0 a0> <a1 F1 a1> <a2 F2 a2> <a3 F3 a3> <a4 F4 a4> <a5 F5 a5> <a6 F6 a6> <a7 F7 a7> <g0"
                " B0 g0> <g1 B1 g1> <g2 B2 g2> <g3 B3 g3> <g4 B4 g4> <g5 B5 g5> <g6 B6 g6> <g7 B7 g7> REDUCE CLIP "
                "STEP GATHER");
    expect_text("gpipe", 8, 4, 3,
                "8 slots: L0 <a0 F0 L1 <a1 F1 L2 <a2 F2 L3 <a3 F3 L4 <a4 F4 L5 <a5 F5 L6 <a6 F6 L7 <a7 F7 B0 g0> B1 "
                "g1> B2 g2> B3 g3> B4 g4> B5 g5> B6 g6> B7 g7> REDUCE CLIP STEP GATHER");
}
END_TEST

START_TEST(replicas_meet_around_the_loss_of_rank_0) {
    static const char *const wanted[2][2] = {
        { "1 slot: S0 F0 G0 S1 F1 G1", "2 slots: L0.1 S0 F0 G0 F0.1 L1.1 S1 F1 G1 F1.1" },
        { "1 slot: S0 F0 G0 D0 B0 S1 F1 G1 D1 B1 REDUCE CLIP STEP GATHER",
          "2 slots: L0.1 S0 F0 G0 F0.1 B0.1 D0 B0 L1.1 S1 F1 G1 F1.1 B1.1 D1 B1 REDUCE CLIP STEP GATHER" },
    };
    for (int training = 0; training < 2; training++) {
        for (int first = 0; first < 2; first++) {
            struct zt_arena *arena = zt_arena_create();
            struct zt_schedule schedule;
            struct zt_text text = { 0 };
            struct zt_err err = { 0 };
            ck_assert(zt_schedule_make_replicas(arena, 2, first, training, &schedule, &err));
            zt_schedule_print(&text, &schedule);
            ck_assert_str_eq(text.at, wanted[training][first]);
            for (int i = 0; i < schedule.count; i++) /* the loss has a slot of its own */
                ck_assert(schedule.at[i].slot < 0 || schedule.at[i].slot == schedule.at[i].chunk);
            zt_text_finish(&text);
            zt_arena_destroy(arena);
        }
    }
}
END_TEST

START_TEST(a_long_list_prints_its_head_and_tail) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule schedule = make(arena, "1f1b", 100000, 1, 0);
    struct zt_text text = { 0 };
    zt_schedule_print(&text, &schedule);
    ck_assert_uint_lt(text.length, 1000);
    ck_assert_ptr_nonnull(strstr(text.at, "1 slot: L0 F0 B0 L1"));
    ck_assert_ptr_nonnull(strstr(text.at, " ... 299932 more ..."));
    ck_assert_ptr_nonnull(strstr(text.at, "L99999 F99999 B99999 REDUCE CLIP STEP GATHER"));
    zt_text_finish(&text);
    zt_arena_destroy(arena);
}
END_TEST

static void expect_refusal(const char *name, struct zt_schedule_shape shape, const char *what) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule schedule;
    struct zt_err err = { 0 };
    ck_assert(!zt_schedule_make(arena, name, &shape, &schedule, &err));
    ck_assert_msg(strstr(err.text[0], what) != NULL, "message: %s", err.text[0]);
    zt_arena_destroy(arena);
}

START_TEST(impossible_shapes_and_unknown_names_are_refused_by_name) {
    expect_refusal("2f2b", (struct zt_schedule_shape){ 1, 1, 1, 0 }, "\"2f2b\" is not known, wants one of 1f1b, gpipe");
    expect_refusal("1f1b", (struct zt_schedule_shape){ 0, 1, 1, 0 }, "0 micro-batches");
    expect_refusal("1f1b", (struct zt_schedule_shape){ 1 << 30, 1, 1, 0 }, "1073741824 micro-batches");
    expect_refusal("1f1b", (struct zt_schedule_shape){ 1, 0, 1, 0 }, "0 stages");
    expect_refusal("1f1b", (struct zt_schedule_shape){ 1, 2, 1, 2 }, "stage 2, wants 0..1");
    expect_refusal("gpipe", (struct zt_schedule_shape){ 1, 2, 3, 0 }, "3 chunks a stage, wants 1");
}
END_TEST

START_TEST(every_instruction_has_a_name) {
    for (int op = 0; op < ZT_INSTRUCTION_OPS; op++)
        ck_assert_ptr_nonnull(zt_instruction_name((enum zt_instruction_op)op));
    ck_assert_str_eq(zt_instruction_name(ZT_DO_RECV_ACT), "RECV_ACT");
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("schedule");
    tcase_add_test(tc, every_schedule_ends_with_eight_buffered_messages);
    tcase_add_test(tc, every_schedule_ends_with_one_buffered_message);
    tcase_add_test(tc, more_stages_and_micro_batches_than_buffers_end_too);
    tcase_add_test(tc, evaluation_runs_every_forward_in_one_slot);
    tcase_add_test(tc, stages_hold_no_more_micro_batches_than_the_schedule_needs);
    tcase_add_test(tc, one_f_one_b_follows_the_half_steps_of_deepspeed);
    tcase_add_test(tc, four_stages_and_eight_micro_batches_print_the_worked_example);
    tcase_add_test(tc, replicas_meet_around_the_loss_of_rank_0);
    tcase_add_test(tc, a_long_list_prints_its_head_and_tail);
    tcase_add_test(tc, impossible_shapes_and_unknown_names_are_refused_by_name);
    tcase_add_test(tc, every_instruction_has_a_name);
    return run_suite("schedule", tc, CK_FORK);
}
