/* Machine code of generated kernels, from NVRTC or from disk. Needs no device.
 *
 * What was compiled is kept in the folder ztrain below XDG_CACHE_HOME or ~/.cache, under a name made of the source, the
 * compute capability and NVRTC's version. A file there is seen whole or not at all, holds its source and a checksum,
 * and is made anew where it is not what it should be. Without a folder that can be written, every process compiles. */
#ifndef ZT_OPS_COMPILE_CUDA_H
#define ZT_OPS_COMPILE_CUDA_H

#include "base/err.h"
#include "base/text.h"

/* Appends the machine code of `source` for compute capability `capability` (90: 9.0), or its PTX; the hint of an error
 * is the compiler's first line. */
bool zt_compile_source(const char *source, int capability, bool ptx, struct zt_text *to, struct zt_err *err);

/* The same, from disk where it is there, else kept there. */
bool zt_compile_find(const char *source, int capability, struct zt_text *to, struct zt_err *err);

/* The file of a source; false where there is no folder for it. */
bool zt_compile_path(const char *source, int capability, struct zt_text *to);
/* Appends the code that a file holds; false where it is not there, damaged or of another source. */
bool zt_compile_read(const char *path, const char *source, struct zt_text *code);
bool zt_compile_keep(const char *path, const char *source, const struct zt_text *code, struct zt_err *err);

#endif
