/* The cases that leave their communicator aborted: COMM_ABORT_CASES(CASE) is CASE(body, fewest ranks) for each. */
#ifndef ZT_TESTS_PARALLEL_COMM_ABORT_CASES_H
#define ZT_TESTS_PARALLEL_COMM_ABORT_CASES_H

#include "comm_cases.h"

/* clang-format off */
#define COMM_ABORT_CASES(CASE) \
    CASE(buffers_of_a_failed_transfer_are_the_callers_again, 1), \
    CASE(abort_wakes_ranks_that_wait_in_reduce_scatter, 1), \
    CASE(abort_wakes_ranks_that_wait_in_all_gather, 1), \
    CASE(abort_wakes_ranks_that_wait_in_transfer, 1), \
    CASE(abort_wakes_ranks_that_wait_in_broadcast, 1), \
    CASE(abort_wakes_ranks_that_wait_in_sum, 1), \
    CASE(abort_wakes_ranks_that_wait_in_barrier, 1), \
    CASE(abort_wakes_ranks_that_wait_in_send, 2), \
    CASE(abort_wakes_ranks_that_wait_in_recv, 2), \
    CASE(abort_wakes_ranks_that_wait_in_split, 1), \
    CASE(poll_hears_of_an_abort_where_nothing_is_underway, 1), \
    CASE(abort_of_the_parent_wakes_ranks_in_splits, 3), \
    CASE(abort_of_a_split_wakes_the_parent_and_names_the_rank_of_the_world, 2), \
    CASE(abort_at_any_moment_ends_every_rank, 1)
/* clang-format on */

#define DECLARE(body, ranks) body(struct zt_comm *c, struct rank_report *report)
void COMM_ABORT_CASES(DECLARE);
#undef DECLARE

#endif
