/* What communicators move: a wrapper that counts and times the calls of another one, for comms_logger.
 *
 * One row for each operation, message size and group size: how often, and how long each call took. Bandwidths are those
 * of reference/deepspeed.md, section 6.8, in Gbit/s, of S bytes in t seconds over the n ranks of the group: algbw = S /
 * t with the whole buffer as S; busbw = algbw (n - 1) / n for reduce_scatter and all_gather, twice that for all_reduce
 * (the step's scalars), algbw for the others. */
#ifndef ZT_PARALLEL_COMM_COUNT_H
#define ZT_PARALLEL_COMM_COUNT_H

#include "parallel/comm/comm.h"

#include <stdio.h>

struct zt_count_options {
    bool all; /* prof_all; else only the operations in `ops` (prof_ops): all_reduce, reduce_scatter, all_gather,
                 broadcast, barrier, send, recv */
    const char *const *ops; /* borrowed */
    int op_count;
    FILE *verbose; /* a line a call goes there; NULL: none. Borrowed */
};

struct zt_counts; /* of one rank, over all its communicators */
struct zt_counts *zt_counts_create(const struct zt_count_options *options); /* copied */
void zt_counts_destroy(struct zt_counts *counts);                           /* NULL is harmless */

/* `inner`, which it takes over, with every call counted; its splits are counted too. `counts` must outlive them. A
 * started transfer is timed to the end of its wait: the kernels it hides behind count in. */
struct zt_comm *zt_comm_count_create(struct zt_comm *inner, struct zt_counts *counts);

/* DeepSpeed's summary: columns of 20, one row a message size under each operation; averages leave out the tenth of the
 * calls at either end. */
void zt_counts_print(const struct zt_counts *counts, FILE *to);

#endif
