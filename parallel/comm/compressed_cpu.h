/* The kernels of a compressed all-reduce on the host. */
#ifndef ZT_PARALLEL_COMM_COMPRESSED_CPU_H
#define ZT_PARALLEL_COMM_COMPRESSED_CPU_H

#include "parallel/comm/compressed_call.h"

/* Runs one stage on `threads` threads; the result does not depend on their number. */
void zt_compressed_run(int threads, enum zt_compressed_stage stage, const struct zt_compressed_call *call);

#endif
