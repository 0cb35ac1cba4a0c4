#include "tests/suite.h"

#include "base/clock.h"
#include "device/threads.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BLOCKS = 2000 };
static atomic_int runs[MOST_BLOCKS];
static atomic_int all_runs;

static void count(void *arg, int64_t block) {
    const int64_t *blocks = arg;
    ck_assert_int_ge(block, 0);
    ck_assert_int_lt(block, *blocks);
    atomic_fetch_add(&runs[block], 1);
}

START_TEST(every_block_runs_once) {
    static const int threads[] = { 1, 2, 3, 5, 64, 70 };
    static const int64_t all_blocks[] = { 0, 1, 2, 3, 7, 63, 64, 65, 100, MOST_BLOCKS };
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (size_t b = 0; b < sizeof all_blocks / sizeof *all_blocks; b++) {
            int64_t blocks = all_blocks[b];
            memset(runs, 0, sizeof runs);
            zt_parallel_for(threads[t], blocks, count, &blocks);
            for (int64_t i = 0; i < MOST_BLOCKS; i++)
                ck_assert_msg(runs[i] == (i < blocks), "block %d of %d on %d threads: %d times", (int)i, (int)blocks,
                              threads[t], runs[i]);
        }
}
END_TEST

enum { BLOCKS = 96, HELD = 6 /* of the 48 of its half that a thread takes with its first */ };

/* The first block lasts until all have run that its thread has not taken with it. */
static void hold_the_first(void *arg, int64_t block) {
    const double began = zt_now();
    bool *ended = arg;
    if (block > 0)
        atomic_fetch_add(&all_runs, 1);
    while (block == 0 && all_runs < BLOCKS - HELD && zt_now() < began + 20)
        usleep(100);
    if (block == 0)
        *ended = all_runs >= BLOCKS - HELD;
}

START_TEST(a_thread_that_has_ended_takes_blocks_of_one_that_has_not) {
    bool ended = false;
    all_runs = 0;
    zt_parallel_for(2, BLOCKS, hold_the_first, &ended);
    ck_assert(ended);
    ck_assert_int_eq(all_runs, BLOCKS - 1);
}
END_TEST

START_TEST(openmp_binds_no_thread_and_its_number_of_threads_is_the_default) {
    const bool bound = getenv("OMP_PROC_BIND") != NULL;
    ck_assert(zt_parallel_unbind() == bound);
    ck_assert_ptr_null(getenv("OMP_PROC_BIND"));
    ck_assert_int_eq(zt_parallel_cores(), omp_get_num_procs());
    unsetenv("OMP_NUM_THREADS");
    ck_assert_int_eq(zt_parallel_default(1), zt_parallel_cores());
    ck_assert_int_eq(zt_parallel_default(1 << 20), 1);
    setenv("OMP_NUM_THREADS", "3,2", 1);
    ck_assert_int_eq(zt_parallel_default(1), 3);
    ck_assert_int_eq(zt_parallel_default(2), 3);
    setenv("OMP_NUM_THREADS", "many", 1);
    ck_assert_int_eq(zt_parallel_default(1), zt_parallel_cores());
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("threads");
    tcase_add_test(cases, every_block_runs_once);
    tcase_add_test(cases, a_thread_that_has_ended_takes_blocks_of_one_that_has_not);
    tcase_add_test(cases, openmp_binds_no_thread_and_its_number_of_threads_is_the_default);
    return run_suite("threads", cases, CK_NOFORK);
}
