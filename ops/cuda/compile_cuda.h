/* Machine code of generated kernels, compiled by NVRTC or read from the disk cache (base/disk_cache.h). Needs no
 * device. The cache key is the source, the target and NVRTC's version. Without a writable cache folder every process
 * compiles. */
#ifndef ZT_OPS_CUDA_COMPILE_CUDA_H
#define ZT_OPS_CUDA_COMPILE_CUDA_H

#include "base/err.h"
#include "base/text.h"

/* Output of the compiler: machine code of a compute capability, or PTX, which the driver compiles. */
struct zt_compile_target {
    int capability; /* 90: 9.0 */
    bool ptx;
};

/* Chooses the target for a device of compute capability `capability` from those the compiler knows, archs[0..count):
 * machine code where it knows the capability, else PTX of the newest one before it, which every later GPU runs. False
 * where there is none. */
bool zt_compile_choose(const int *archs, int count, int capability, struct zt_compile_target *to);

/* Compiles `source` and appends the code to `to`. The hint of an error is the compiler's first line. */
bool zt_compile_source(const char *source, const struct zt_compile_target *target, struct zt_text *to,
                       struct zt_err *err);

/* Appends the code of `source` for a device of compute capability `capability`: from the disk cache, else compiled
 * and added to the cache. */
bool zt_compile_find(const char *source, int capability, struct zt_text *to, struct zt_err *err);

/* The cache file of a source; false where there is no cache folder. */
bool zt_compile_path(const char *source, const struct zt_compile_target *target, struct zt_text *to);

#endif
