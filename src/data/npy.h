/* The header of NumPy's array files (.npy; NumPy Enhancement Proposal 1, versions 1 to 3). */
#ifndef ZT_DATA_NPY_H
#define ZT_DATA_NPY_H

#include "base/err.h"
#include "graph/ir/dtype.h"

/* The contents of a header. */
struct zt_npy {
    enum zt_dtype dtype;
    struct zt_shape shape;
    bool fortran;  /* first index fastest; only true where that makes a difference */
    size_t header; /* bytes before the elements */
    size_t bytes;  /* of the elements; checked not to overflow */
};

/* The bytes that contain the length of the header. */
enum { ZT_NPY_PREFIX = 12 };
/* The length of the whole header in bytes, from its first ZT_NPY_PREFIX bytes (fewer where the file ends); 0 and an
 * error where the file is not a .npy file. */
size_t zt_npy_header_bytes(const unsigned char *prefix, size_t size, enum zt_exit code, struct zt_err *err);
/* Parses a whole header of `size` bytes. Errors do not name file and array: the caller adds them. */
bool zt_npy_parse(const unsigned char *header, size_t size, struct zt_npy *out, enum zt_exit code, struct zt_err *err);

/* A version 1 header for C order into `to`; returns its length, a multiple of 64. Every type of ZT_ANY_TYPE has a
 * descr; bfloat16, which NumPy lacks, is '<V2' as ml_dtypes writes it. Narrow types are written as the bytes that hold
 * them (graph/ir/dtype.h), of type uint8. */
enum { ZT_NPY_HEADER = 320 };
size_t zt_npy_header(enum zt_dtype dtype, const struct zt_shape *shape, char to[ZT_NPY_HEADER]);

#endif
