/* Cases of all_to_all and the compressed all-reduce, for every communicator (comm_cases.h). */
#ifndef ZT_TESTS_PARALLEL_COMM_COMPRESSED_CASES_H
#define ZT_TESTS_PARALLEL_COMM_COMPRESSED_CASES_H

#include "comm_cases.h"

/* The cases; errors go into *report. */
void blocks_reach_the_rank_they_are_for(struct zt_comm *c, struct rank_report *report);
void compressed_means_are_those_of_the_formulas(struct zt_comm *c, struct rank_report *report);

#define COMM_COMPRESSED_CASES(CASE)                                                                                    \
    CASE(blocks_reach_the_rank_they_are_for, 1), CASE(compressed_means_are_those_of_the_formulas, 1)

#endif
