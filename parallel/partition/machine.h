/* Machine rates: the cost model's input besides the plan. Rates of named clusters come from published figures; rates of
 * this machine are measured (src/run/measure.h) or, without measurements, nominal. */
#ifndef ZT_PARALLEL_PARTITION_MACHINE_H
#define ZT_PARALLEL_PARTITION_MACHINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Rates of one rank, in units a second. */
struct zt_machine {
    const char *name;
    int per_host;                                 /* ranks that share a host */
    int64_t memory_bytes;                         /* of a rank; 0: unknown */
    double product_flops, conv_flops, half_flops; /* matrix products and convolutions in fp32; products in bf16 */
    double element_flops;                         /* output elements of all other operators */
    double plain_flops;                           /* reference kernels; 0: the rates above */
    double memory_rate;                           /* bytes read and written per second */
    double node_seconds;                          /* fixed time per kernel */
    double link_rate, link_seconds; /* within a host: bytes per second in each direction, and seconds per message */
    double net_rate, net_seconds;   /* between hosts */
    double file_read_rate, file_write_rate; /* files of offload, in place of memory */
    bool files_measured;                    /* these two are measured */
    double send_rate, send_seconds;         /* of send, if measured separately; 0: as collectives */
    bool own_channel;  /* collectives run beside kernels; false: the rank's thread copies their data */
    double efficiency; /* fraction of the arithmetic rates that kernels reach: published rates are peaks, measured ones
                          are not */
};

/* The machine with this name; NULL with an error that lists the known names. */
const struct zt_machine *zt_machine_find(const char *name, struct zt_err *err);
/* The machine whose name is a word of a product name: "h100" for "NVIDIA H100 80GB HBM3"; NULL: none. */
const struct zt_machine *zt_machine_of_product(const char *product);

/* Nominal rates, for `plan` without a cluster and without measurements. `threads`: compute threads of a rank. */
struct zt_machine zt_machine_nominal(int threads);

#endif
