/* The lists of every schedule, run by the machine of schedule_machine.h and held against what papers and DeepSpeed say.
 */
#include "tests/parallel/schedule_machine.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "1f1b", "gpipe" };
enum { NAMES = sizeof names / sizeof *names };

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
    run_schedules(m, name ? name : "forward");
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
