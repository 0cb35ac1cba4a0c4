/* NumPy's .npz files: a zip archive of .npy files, one for each named array. */
#ifndef ZT_DATA_NPZ_H
#define ZT_DATA_NPZ_H

#include "base/err.h"
#include "graph/ir/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* `bytes` of elements in C order at `data` (aligned to 64 where read from a file). */
struct zt_npz_array {
    char *name;
    enum zt_dtype dtype;
    struct zt_shape shape;
    void *data;
    size_t bytes;
};

struct zt_npz {
    int count;
    struct zt_npz_array *at;
    const char *missing; /* the last name that the file lacks (zt_npz_read_named); NULL: none */
};

/* Reads every array of a file; entries whose name does not end in .npy are skipped. Errors name file and array and have
 * the exit code `code`. Finish with zt_npz_finish(), which is harmless on a zeroed struct. */
bool zt_npz_read(const char *path, struct zt_npz *out, enum zt_exit code, struct zt_err *err);

/* Reads the named arrays alone, in the order of the names. An error for a missing one lists the arrays of the file. */
bool zt_npz_read_named(const char *path, const char *const *names, int name_count, struct zt_npz *out,
                       enum zt_exit code, struct zt_err *err);
/* Reads a .npy file as the one array `name`. */
bool zt_npz_read_npy(const char *path, const char *name, struct zt_npz *out, enum zt_exit code, struct zt_err *err);
/* Whether the file begins like a .npy file; false where it cannot be read. */
bool zt_npz_is_npy(const char *path);
void zt_npz_finish(struct zt_npz *npz);

/* The array of that name, NULL where there is none. */
const struct zt_npz_array *zt_npz_find(const struct zt_npz *npz, const char *name);

/* Writes arrays uncompressed, first under a temporary name. Equal arrays give equal bytes. bfloat16 is written as
 * '<V2', like ml_dtypes does. Names and data are borrowed. */
bool zt_npz_write(const char *path, const struct zt_npz_array *arrays, int count, struct zt_err *err);

#endif
