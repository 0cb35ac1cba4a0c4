/* comms_logger: a communicator that counts and times the calls of another one.
 *
 * The summary has one row for each operation, message size and group size, with the number of calls and their times.
 * Bandwidths are defined as in DeepSpeed's comms_logger, in Gbit/s, for S bytes in t seconds over n ranks: algbw = S /
 * t with S the whole buffer; busbw = algbw (n - 1) / n for reduce_scatter, all_gather and all_to_all, twice that for
 * all_reduce (the step's scalars), and algbw for other operations. */
#ifndef ZT_PARALLEL_COMM_COMMS_LOGGER_H
#define ZT_PARALLEL_COMM_COMMS_LOGGER_H

#include "base/log.h"
#include "base/text.h"
#include "parallel/comm/comm.h"

struct zt_count_options {
    bool all; /* prof_all; false: only the operations in `ops` (prof_ops): all_reduce, reduce_scatter, all_gather,
                 broadcast, barrier, send, recv, all_to_all */
    const char *const *ops; /* borrowed */
    int op_count;
    const struct zt_log *verbose; /* receives one line per call; NULL: none. Borrowed */
};

struct zt_counts;                                                           /* of one rank, for all its communicators */
struct zt_counts *zt_counts_create(const struct zt_count_options *options); /* the options are copied */
void zt_counts_destroy(struct zt_counts *counts);                           /* NULL is harmless */

/* Wraps `inner`, which it owns from now on, and counts every call; splits are counted too. `counts` must outlive them.
 * The time of a started transfer ends with its wait, so it includes kernels that overlap with the transfer. */
struct zt_comm *zt_comm_count_create(struct zt_comm *inner, struct zt_counts *counts);

/* Adds DeepSpeed's summary: columns of 20 characters, one row per message size under each operation. Averages exclude
 * the fastest and the slowest tenth of the calls. */
void zt_counts_table(const struct zt_counts *counts, struct zt_text *to);

#endif
