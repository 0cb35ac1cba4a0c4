/* CUDA libraries and GPUs of this host, for `ztrain doctor`. The functions ask the driver and the libraries themselves
 * at run time. They need no CUDA header, and nothing of CUDA needs to be installed. */
#ifndef ZT_DEVICE_LIBRARIES_H
#define ZT_DEVICE_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

struct zt_library {
    const char *name, *file; /* "cuDNN", "libcudnn.so.9" */
    int oldest;              /* oldest supported version, in the library's numbering: */
    int major, minor;        /* version = major * `major` + minor * `minor` + patch */
    bool (*ask)(void *handle, int *version);
    const char *hint;
};

/* The libraries that kernels use, the driver first; ends with a NULL name. */
extern const struct zt_library zt_libraries[];

/* Loads the library and writes its version, "13.0.88, /usr/local/cuda/lib64/libcudart.so.13", or the reason why it
 * cannot be used. Returns false if it is missing, does not answer, or is too old. */
bool zt_library_find(const struct zt_library *library, char *says, size_t room);

/* Writes the GPUs, "0: NVIDIA H200, 150.1 GB, compute capability 9.0; 1: ...", as the driver lists them. Returns false
 * with the reason if there are none. */
bool zt_gpus_find(char *says, size_t room);

#endif
