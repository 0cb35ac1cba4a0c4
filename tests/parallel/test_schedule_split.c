/* Lists that split a backward (parallel/schedule/schedule.h), which no row emits yet: what they may do, how long they
 * take. */
#include "parallel/schedule/simulate.h"
#include "tests/parallel/schedule_machine.h"
#include "tests/suite.h"

#include <stdlib.h>

enum { SPLIT_STAGES = 4, SPLIT_MICRO = 8 };

/* ZB-H1 of the paper (schedule.h) for four stages and eight micro-batches: the order of 1f1b, backward of weights put
 * off by as many micro-batches as there are stages before. F forward, I and W the halves of backward. */
static const char *const zb_h1[SPLIT_STAGES] = {
    "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
    "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7",
    "F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7",
    "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7",
};

struct list {
    struct zt_instruction *at;
    int count, slots;
};

static void append(struct list *l, enum zt_instruction_op op, int micro_batch) {
    l->at[l->count++] = (struct zt_instruction){ op, micro_batch, 0, micro_batch < 0 ? -1 : micro_batch % l->slots };
}

/* A list from such words, with the messages where schedule.h wants them. */
static struct zt_schedule expand(struct zt_arena *arena, const char *words, int stage, int slots) {
    struct list l = { .at = ZT_NEW_N(arena, struct zt_instruction, 8 * SPLIT_MICRO + 4), .slots = slots };
    bool first = stage == 0, last = stage == SPLIT_STAGES - 1;
    for (const char *at = words; *at; at += at[2] ? 3 : 2) {
        int micro = at[1] - '0';
        if (*at == 'F' && (first || last))
            append(&l, ZT_DO_LOAD, micro);
        if (*at != 'W' && (*at == 'F' ? !first : !last))
            append(&l, *at == 'F' ? ZT_DO_RECV_ACT : ZT_DO_RECV_GRAD, micro);
        append(&l, *at == 'F' ? ZT_DO_FORWARD : *at == 'I' ? ZT_DO_BACKWARD_INPUT : ZT_DO_BACKWARD_WEIGHT, micro);
        if (*at != 'W' && (*at == 'F' ? !last : !first))
            append(&l, *at == 'F' ? ZT_DO_SEND_ACT : ZT_DO_SEND_GRAD, micro);
    }
    for (enum zt_instruction_op op = ZT_DO_REDUCE; op <= ZT_DO_GATHER; op++)
        append(&l, op, -1);
    return (struct zt_schedule){ .slots = slots, .count = l.count, .at = l.at };
}

static struct zt_schedule_shape split_shape(int stage) {
    return (struct zt_schedule_shape){ SPLIT_MICRO, SPLIT_STAGES, 1, stage };
}

START_TEST(a_split_backward_ends_in_no_more_slots_than_1f1b_has_at_most) {
    for (int buffered = 1; buffered <= BUFFERED; buffered += BUFFERED - 1) {
        struct machine *m = zt_calloc(1, sizeof *m);
        struct zt_arena *arena = zt_arena_create();
        *m = (struct machine){
            .stages = SPLIT_STAGES, .micro_batches = SPLIT_MICRO, .buffered = buffered, .training = true
        };
        for (int s = 0; s < SPLIT_STAGES; s++) {
            struct zt_schedule_shape shape = split_shape(s);
            struct zt_err err = { 0 };
            m->schedule[s] = expand(arena, zb_h1[s], s, SPLIT_STAGES);
            ck_assert_msg(zt_schedule_check(&m->schedule[s], &shape, &err), "%s", err.text[0]);
        }
        run_schedules(m, "zb-h1");
        zt_arena_destroy(arena);
        free(m);
    }
}
END_TEST

static void play(const struct zt_schedule *schedule, double input, double weight, struct zt_timeline *line,
                 struct zt_arena *arena) {
    struct zt_span f = { .seconds = 1 }, i = { .seconds = input }, w = { .seconds = weight },
                   both = { .seconds = input + weight };
    struct zt_stage_cost cost[SPLIT_STAGES];
    struct zt_err err = { 0 };
    for (int s = 0; s < SPLIT_STAGES; s++)
        cost[s] = (struct zt_stage_cost){
            .forward = { &f, 1 }, .backward = { &both, 1 }, .backward_input = { &i, 1 }, .backward_weight = { &w, 1 }
        };
    ck_assert_msg(zt_simulate(arena, &(struct zt_simulation){ SPLIT_STAGES, schedule, cost, SPLIT_MICRO }, line, &err),
                  "%s", err.text[0]);
}

/* Table 1 of the paper: a stage idles (S - 1)(F + I - W) under ZB-H1 and (S - 1)(F + I + W) under 1f1b. */
START_TEST(a_split_backward_idles_as_the_paper_says) {
    static const double costs[][2] = { { 1, 1 }, { 1.25, 0.75 }, { 1.5, 1 } };
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule split[SPLIT_STAGES], whole[SPLIT_STAGES];
    for (int s = 0; s < SPLIT_STAGES; s++) {
        struct zt_schedule_shape shape = split_shape(s);
        struct zt_err err = { 0 };
        split[s] = expand(arena, zb_h1[s], s, SPLIT_STAGES);
        ck_assert(zt_schedule_make(arena, "1f1b", &shape, &whole[s], &err));
    }
    for (int k = 0; k < 3; k++) {
        struct zt_timeline line;
        double input = costs[k][0], weight = costs[k][1], work = SPLIT_MICRO * (1 + input + weight);
        play(split, input, weight, &line, arena);
        ck_assert_double_eq_tol(line.seconds, work + (SPLIT_STAGES - 1) * (1 + input - weight), 1e-9);
        ck_assert_double_eq_tol(line.bubble, 1 - work / line.seconds, 1e-9);
        play(whole, input, weight, &line, arena);
        ck_assert_double_eq_tol(line.seconds, work + (SPLIT_STAGES - 1) * (1 + input + weight), 1e-9);
    }
    zt_arena_destroy(arena);
}
END_TEST

START_TEST(lists_that_forget_or_hurry_are_refused_by_name) {
    static const struct {
        int stage;
        const char *words, *says;
    } cases[] = {
        { 1, "F0 W0", "stage 1: BACKWARD_WEIGHT of micro-batch 0 stands before its BACKWARD_INPUT" },
        { 3, "I0", "stage 3: BACKWARD_INPUT of micro-batch 0 stands before its FORWARD" },
        { 1, "F0 I0 W0 W0", "stage 1: BACKWARD_WEIGHT of micro-batch 0 stands there twice" },
        { 0, "F0 I0 W0 F1 I1", "stage 0: REDUCE stands before BACKWARD_WEIGHT of micro-batch 1" },
        { 3, "F9", "stage 3: LOAD of micro-batch 9, wants 0..7" },
    };
    struct zt_arena *arena = zt_arena_create();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct zt_schedule_shape shape = split_shape(cases[k].stage);
        struct zt_schedule schedule = expand(arena, cases[k].words, shape.stage, SPLIT_STAGES);
        struct zt_err err = { 0 };
        ck_assert(!zt_schedule_check(&schedule, &shape, &err));
        ck_assert_str_eq(err.text[0], cases[k].says);
    }
    /* SEND_GRAD in front of what makes it */
    struct zt_schedule schedule = expand(arena, zb_h1[2], 2, SPLIT_STAGES);
    struct zt_instruction *at = zt_arena_copy(arena, schedule.at, (size_t)schedule.count * sizeof *at);
    schedule.at = at;
    struct zt_schedule_shape shape = split_shape(2);
    struct zt_err err = { 0 };
    while (at->op != ZT_DO_BACKWARD_INPUT)
        at++;
    at[0].op = ZT_DO_SEND_GRAD;
    at[1].op = ZT_DO_BACKWARD_INPUT;
    ck_assert(!zt_schedule_check(&schedule, &shape, &err));
    ck_assert_str_eq(err.text[0], "stage 2: SEND_GRAD of micro-batch 0 stands before its BACKWARD_INPUT");
    /* more behind the end */
    schedule = expand(arena, zb_h1[2], 2, SPLIT_STAGES);
    at = zt_arena_alloc(arena, (size_t)(schedule.count + 1) * sizeof *at);
    memcpy(at, schedule.at, (size_t)schedule.count * sizeof *at);
    at[schedule.count++] = (struct zt_instruction){ .op = ZT_DO_STEP };
    schedule.at = at;
    err = (struct zt_err){ 0 };
    ck_assert(!zt_schedule_check(&schedule, &shape, &err));
    ck_assert_str_eq(err.text[0], "stage 2: STEP stands behind the step's end");
    zt_arena_destroy(arena);
}
END_TEST

START_TEST(a_split_backward_prints_its_halves) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule schedule = expand(arena, "F0 I0 W0", 1, SPLIT_STAGES);
    struct zt_text text = { 0 };
    zt_schedule_print(&text, &schedule);
    ck_assert_str_eq(text.at, "4 slots: <a0 F0 a0> <g0 I0 g0> W0 REDUCE CLIP STEP GATHER");
    zt_text_finish(&text);
    zt_arena_destroy(arena);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("schedule-split");
    tcase_add_test(tc, a_split_backward_ends_in_no_more_slots_than_1f1b_has_at_most);
    tcase_add_test(tc, a_split_backward_idles_as_the_paper_says);
    tcase_add_test(tc, lists_that_forget_or_hurry_are_refused_by_name);
    tcase_add_test(tc, a_split_backward_prints_its_halves);
    return run_suite("schedule-split", tc, CK_FORK);
}
