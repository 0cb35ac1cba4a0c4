#include "data/npz.h"

#include "base/arena.h"
#include "base/file.h"
#include "data/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* Midnight of 1 January 1980, the zero of DOS time, so that equal arrays give equal files. */
enum { DOS_TIME = 0, DOS_DATE = 1 << 5 | 1 };

/* Adds an uncompressed entry of two pieces, header and elements. Neither is copied; both live until zip_close(). */
static bool add_array(zip_t *zip, const struct zt_npz_array *array, char header[ZT_NPY_HEADER]) {
    zip_buffer_fragment_t piece[2] = {
        { .data = (zip_uint8_t *)header, .length = zt_npy_header(array->dtype, &array->shape, header) },
        { .data = array->data, .length = array->bytes },
    };
    zip_source_t *source = zip_source_buffer_fragment(zip, piece, array->bytes ? 2 : 1, 0);
    if (!source)
        return false;
    size_t n = strlen(array->name);
    char *name = zt_malloc(n + 5);
    snprintf(name, n + 5, "%s.npy", array->name);
    zip_int64_t index = zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8);
    free(name);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(zip, (zip_uint64_t)index, DOS_TIME, DOS_DATE, 0) == 0;
}

static bool refuse(const char *path, const char *array, const char *why, struct zt_err *err) {
    if (array)
        return zt_fail(err, ZT_EXIT_DATA, "%s: array \"%s\" cannot be written: %s", path, array, why);
    return zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", path, why);
}

/* libzip writes a file beside the one it is given and renames it: here beside the temporary file. */
static zip_t *create(const struct zt_file_out *out, struct zt_err *err) {
    zip_error_t why;
    int number = 0;
    zip_t *zip = zip_open(out->temporary, ZIP_TRUNCATE, &number);
    if (!zip) {
        zip_error_init_with_code(&why, number);
        refuse(out->path, NULL, zip_error_strerror(&why), err);
        zip_error_fini(&why);
    }
    return zip;
}

static bool write_all(const struct zt_file_out *out, const struct zt_npz_array *arrays, int count, struct zt_err *err) {
    zip_t *zip = create(out, err);
    if (!zip)
        return false;
    char(*headers)[ZT_NPY_HEADER] = zt_calloc((size_t)count, sizeof *headers);
    int i = 0;
    while (i < count && add_array(zip, &arrays[i], headers[i]))
        i++;
    bool ok = i == count && zip_close(zip) == 0;
    if (!ok) {
        refuse(out->path, i < count ? arrays[i].name : NULL, zip_strerror(zip), err);
        zip_discard(zip);
    }
    free(headers);
    return ok;
}

bool zt_npz_write(const char *path, const struct zt_npz_array *arrays, int count, struct zt_err *err) {
    static const unsigned char empty[22] = { 'P', 'K', 5, 6 }; /* libzip removes an archive without entries */
    if (count == 0)
        return zt_file_write(path, empty, sizeof empty, err);
    struct zt_file_out out;
    if (!zt_file_out_open(&out, path, err))
        return false;
    if (write_all(&out, arrays, count, err) && zt_file_out_reopen(&out, err))
        return zt_file_out_commit(&out, err);
    zt_file_out_abort(&out);
    return false;
}
