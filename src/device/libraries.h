/* What of CUDA a machine has, asked of the driver and of the libraries themselves: for `ztrain doctor`. Nothing of it
 * need be there, and no CUDA header is used. */
#ifndef ZT_DEVICE_LIBRARIES_H
#define ZT_DEVICE_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

struct zt_library {
    const char *name, *file; /* "cuDNN", "libcudnn.so.9" */
    int oldest;              /* version that kernels are written for, as the library counts: */
    int major, minor;        /* major * this, minor * this, and the rest */
    bool (*ask)(void *handle, int *version);
    const char *hint;
};

/* What kernels use, ends with a NULL name; the driver first. */
extern const struct zt_library zt_libraries[];

/* Loads the library and asks for its version: "13.0.88, /usr/local/cuda/lib64/libcudart.so.13", or why not. False where
 * it is not there, does not answer or is too old. */
bool zt_library_find(const struct zt_library *library, char *says, size_t room);

/* "0: NVIDIA H200, 150.1 GB, compute capability 9.0; 1: ..." through the driver; false, with the reason, where there is
 * none. */
bool zt_gpus_find(char *says, size_t room);

#endif
