/* Every communicator of one process against comm_cases.c, and what only ranks as threads promise. Under the thread
 * sanitizer: meson setup build-tsan -Db_sanitize=thread -Db_lundef=false && meson test -C build-tsan parallel-comm */
#include "comm_fixture.h"

#include "parallel/comm/comms_logger.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void expect_clean(const struct comm_maker *maker, int size, rank_body body, const char *name) {
    char all[4096];
    ck_assert_msg(comm_fixture_run(maker, size, body, all, sizeof all), "%s: %s", name, all);
}

START_TEST(every_communicator_keeps_the_contract) {
    const struct comm_case *k = &comm_cases[_i];
    for (int m = 0; m < comm_maker_count; m++)
        for (int size = k->fewest_ranks; size <= comm_makers[m].most_ranks; size++)
            expect_clean(&comm_makers[m], size, k->body, k->name);
}
END_TEST

/* More ranks than any test machine is sure to have cores: waiting ranks must sleep, or this takes for ever. */
START_TEST(sixteen_ranks_share_few_cores) {
    expect_clean(&comm_makers[1], FIXTURE_RANKS, comm_cases[0].body, comm_cases[0].name);
}
END_TEST

static void wait_for_the_last(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    char data = 0, who[32];
    if (c->rank == c->size - 1)
        return;
    snprintf(who, sizeof who, "rank %d left", c->size - 1);
    EXPECT(!c->api->barrier(c, &err), "a barrier passed without a rank");
    EXPECT(strstr(err.text[0], who) && err.code == ZT_EXIT_RANK, "message: %s", err.text[0]);
    EXPECT(!c->api->recv(c, &data, 1, c->size - 1, &err), "received from a rank that left");
}

START_TEST(a_rank_that_leaves_lets_nobody_wait_for_it) {
    for (int size = 2; size <= 4; size++)
        expect_clean(&comm_makers[1], size, wait_for_the_last, "leaving");
}
END_TEST

static void send_and_leave(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    int got = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT(c->rank == 0 ? c->api->send(c, &i, sizeof i, 1, &err) : c->api->recv(c, &got, sizeof got, 0, &err), "%s",
               err.text[0]);
        EXPECT(c->rank == 0 || got == i, "message %d is %d", i, got);
    }
}

START_TEST(what_a_rank_sent_before_it_left_arrives) {
    for (int i = 0; i < 50; i++)
        expect_clean(&comm_makers[1], 2, send_and_leave, "send and leave");
}
END_TEST

static void call_different_functions(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    double value = 1;
    EXPECT(!(c->rank == 0 ? c->api->sum(c, &value, 1, &err) : c->api->barrier(c, &err)),
           "sum and barrier went together");
    EXPECT(strstr(err.text[0], "sum") && strstr(err.text[0], "barrier"), "message: %s", err.text[0]);
    EXPECT(c->api->barrier(c, &err), "%s", err.text[0]);
}

START_TEST(ranks_that_call_different_functions_are_told_so) {
    for (int size = 2; size <= 4; size++)
        expect_clean(&comm_makers[1], size, call_different_functions, "different functions");
}
END_TEST

static atomic_int entered; /* of this test's ranks, which share memory */

static void count_entries(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    for (int round = 1; round <= 200; round++) {
        atomic_fetch_add(&entered, 1);
        EXPECT(c->api->barrier(c, &err), "%s", err.text[0]);
        int seen = atomic_load(&entered);
        EXPECT(seen >= round * c->size, "round %d: %d entered", round, seen);
    }
}

START_TEST(a_barrier_holds_until_all_have_come) {
    for (int size = 1; size <= 5; size++) {
        atomic_store(&entered, 0);
        expect_clean(&comm_makers[1], size, count_entries, "barrier");
    }
}
END_TEST

static struct zt_counts *rank_counts[2];

static bool make_counting(int size, struct zt_comm *comms[], struct zt_err *err) {
    bool ok = zt_comm_thread_create(size, comms, err);
    for (int r = 0; r < size && ok; r++)
        comms[r] = zt_comm_count_create(comms[r], rank_counts[r]);
    return ok;
}

static void move_some(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct zt_comm *part = c->api->split(c, 0, &err);
    static float flat[2][3072];
    const int64_t bound[3] = { 0, 1024, 3072 };
    struct zt_transfer t = { ZT_REDUCE_SCATTER, flat[c->rank], bound, sizeof(float) };
    double value = 1;
    bool ok =
        part && part->api->start(part, &t, &err) && part->api->poll(part, &err) && part->api->wait(part, &t, &err);
    for (int i = 0; i < 12 && ok; i++)
        ok = c->api->reduce_scatter(c, flat[c->rank], bound, &err) &&
             c->api->all_gather(c, flat[c->rank], bound, 2, &err) && c->api->sum(c, &value, 1, &err);
    EXPECT(ok, "%s", err.text[0]);
    part->api->destroy(part);
}

/* Times differ: only what stands before them is held. */
static void expect_table(const struct zt_counts *counts, const char *wanted) {
    struct zt_text text = { 0 };
    char found[600] = "";
    zt_counts_table(counts, &text);
    for (char *line = strtok(text.at, "\n"); line; line = strtok(NULL, "\n"))
        snprintf(found + strlen(found), sizeof found - strlen(found), "%.60s|", line);
    ck_assert_str_eq(found, wanted);
    zt_text_finish(&text);
}

START_TEST(counted_operations_are_listed_by_size) {
    const char *const gathers[] = { "all_gather" };
    const struct comm_maker maker = { "count", 2, make_counting };
    for (int some = 0; some < 2; some++) {
        for (int r = 0; r < 2; r++)
            rank_counts[r] =
                zt_counts_create(&(struct zt_count_options){ .all = !some, .ops = gathers, .op_count = 1 });
        expect_clean(&maker, 2, move_some, "counting");
        expect_table(rank_counts[1], some ? "Comm. Op            Message Size        Count               |"
                                            "all_gather|"
                                            "                    6 KB                12                  |"
                                          : "Comm. Op            Message Size        Count               |"
                                            "all_gather|"
                                            "                    6 KB                12                  |"
                                            "all_reduce|"
                                            "                    8 B                 12                  |"
                                            "reduce_scatter|"
                                            "                    12 KB               13                  |");
        for (int r = 0; r < 2; r++)
            zt_counts_destroy(rank_counts[r]);
    }
}
END_TEST

START_TEST(an_impossible_number_of_ranks_is_refused) {
    const int sizes[] = { 0, -1, 257 };
    for (int i = 0; i < 3; i++) {
        struct zt_err err = { 0 };
        char found[16];
        snprintf(found, sizeof found, "%d ranks", sizes[i]);
        ck_assert(!zt_comm_thread_create(sizes[i], NULL, &err));
        ck_assert_ptr_nonnull(strstr(err.text[0], found));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("comm");
    TCase *tc = tcase_create("comm");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_communicator_keeps_the_contract, 0, comm_case_count);
    tcase_add_test(tc, sixteen_ranks_share_few_cores);
    tcase_add_test(tc, a_rank_that_leaves_lets_nobody_wait_for_it);
    tcase_add_test(tc, what_a_rank_sent_before_it_left_arrives);
    tcase_add_test(tc, ranks_that_call_different_functions_are_told_so);
    tcase_add_test(tc, a_barrier_holds_until_all_have_come);
    tcase_add_test(tc, counted_operations_are_listed_by_size);
    tcase_add_test(tc, an_impossible_number_of_ranks_is_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
