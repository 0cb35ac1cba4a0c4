/* Machine code of generated kernels, from NVRTC or from disk. Needs no device.
 *
 * What was compiled is kept (base/disk_cache.h), by its source, the target and NVRTC's version. Where no file can be
 * written, every process compiles. */
#ifndef ZT_OPS_CUDA_COMPILE_CUDA_H
#define ZT_OPS_CUDA_COMPILE_CUDA_H

#include "base/err.h"
#include "base/text.h"

/* What NVRTC is asked for: machine code, or PTX, which the driver makes machine code of. */
struct zt_compile_target {
    int capability; /* 90: 9.0 */
    bool ptx;
};

/* For a device of compute capability `capability`: its machine code where the compiler knows it, archs[0..count), else
 * the PTX of the newest that is no newer; any GPU runs the PTX of those before it. False where there is none. */
bool zt_compile_choose(const int *archs, int count, int capability, struct zt_compile_target *to);

/* Appends what is asked for of `source`; the hint of an error is the compiler's first line. */
bool zt_compile_source(const char *source, const struct zt_compile_target *target, struct zt_text *to,
                       struct zt_err *err);

/* Code for a device of compute capability `capability`, from disk where it is there, else kept there. */
bool zt_compile_find(const char *source, int capability, struct zt_text *to, struct zt_err *err);

/* The file of a source; false where there is no folder for it. */
bool zt_compile_path(const char *source, const struct zt_compile_target *target, struct zt_text *to);

#endif
