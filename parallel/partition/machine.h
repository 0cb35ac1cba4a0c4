/* What a rank runs on, as numbers: the cost model's only input besides the plan. A named cluster's come from its
 * maker's published figures; this machine's are measured (src/run/measure.h) or, where nothing may be run, nominal. */
#ifndef ZT_PARALLEL_PARTITION_MACHINE_H
#define ZT_PARALLEL_PARTITION_MACHINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Rates of one rank, in units a second. */
struct zt_machine {
    const char *name;
    int per_host;                                 /* ranks that share a host */
    int64_t memory_bytes;                         /* of a rank; 0: not known */
    double product_flops, conv_flops, half_flops; /* matrix products and convolutions in fp32; products in bf16 */
    double element_flops;                         /* everything else */
    double plain_flops;                           /* what runs on the reference kernels; 0: as fast as all else */
    double memory_rate;                           /* bytes read and written */
    double node_seconds;                          /* of a kernel beside its work */
    double link_rate, link_seconds; /* to a rank of the same host: bytes each way, and seconds of a message */
    double net_rate, net_seconds;   /* to a rank of another host */
    double send_rate, send_seconds; /* of send to either, where that was measured by itself; 0: as the two above */
    bool own_channel;  /* collectives move by themselves while kernels run; else the rank's thread moves their bytes */
    double efficiency; /* share of the arithmetic rates that kernels reach: published figures are peaks, measured ones
                          are not */
};

/* The row of that name; NULL and an error that lists the known ones. */
const struct zt_machine *zt_machine_find(const char *name, struct zt_err *err);
/* The row whose name is a word of a product's, "h100" of "NVIDIA H100 80GB HBM3"; NULL where none is. */
const struct zt_machine *zt_machine_of_product(const char *product);

/* A core of this kind of machine without measuring: what `plan` reckons with where neither a cluster is named nor
 * anything was measured. `threads`: compute threads of a rank. */
struct zt_machine zt_machine_nominal(int threads);

#endif
