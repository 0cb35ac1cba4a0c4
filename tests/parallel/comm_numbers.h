/* Data that comm_cases.c and comm_abort_cases.c exchange: numbers that tell one order of addition from another, slices
 * of uneven lengths, transfers underway. */
#ifndef ZT_TESTS_PARALLEL_COMM_NUMBERS_H
#define ZT_TESTS_PARALLEL_COMM_NUMBERS_H

#include "parallel/comm/comm.h"

enum { MOST = 16, BUFFERED = 8, UNDERWAY = 4 }; /* ranks; messages a pair; transfers at once */

/* Sleeps `ms` milliseconds. */
void sleep_ms(int ms);

/* Numbers of very different size, so that another order of addition gives other bits. */
float contribution(int rank, int round, int64_t i);
/* Slices of 0, 1, odd and many elements, in an order that changes with the round. Returns the whole. */
int64_t uneven_bounds(int size, int round, int64_t bound[MOST + 1]);
/* Whether `got` is the sum over ranks of element i: bit for bit in rank order, in any order for a ring. */
bool is_sum(const struct zt_comm *c, int round, int64_t i, float got);

/* Some transfers of both kinds, with what they must bring. */
struct transfers {
    struct zt_transfer at[UNDERWAY];
    int64_t bound[UNDERWAY][MOST + 1];
};
void make_transfers(struct zt_comm *c, int round, struct transfers *to);
/* Makes them and starts them, until one does not start. Free them in either case. */
bool start_transfers(struct zt_comm *c, int round, struct transfers *to, struct zt_err *err);
void free_transfers(struct transfers *t);
/* The first transfer that is not done or brought something else; -1: all are as they must be. */
int first_bad(struct zt_comm *c, int round, const struct transfers *t);

#endif
