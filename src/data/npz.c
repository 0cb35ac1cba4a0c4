#include "data/npz.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "data/npy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

/* A zip open for reading, over the mapped file. */
struct archive {
    struct zt_file_map map;
    zip_t *zip;
    const char *path;
    enum zt_exit code;
};

static bool archive_open(struct archive *a, const char *path, enum zt_exit code, struct zt_err *err) {
    *a = (struct archive){ .path = path, .code = code };
    if (!zt_file_map(&a->map, path, code, err))
        return false;
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_create(a->map.data, a->map.size, 0, &why);
    a->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &why) : NULL;
    if (!a->zip) {
        bool memory = zip_error_code_zip(&why) == ZIP_ER_MEMORY;
        zt_fail(err, memory ? ZT_EXIT_RUN : code, "%s: %s: %s", path, memory ? "out of memory" : "is not an npz file",
                zip_error_strerror(&why));
        if (!memory && zt_npz_is_npy(path))
            zt_hint(
                err,
                "it is a .npy file, one array: numpy.savez('data.npz', x=numpy.load('%s'), ...) writes an npz file of "
                "named arrays",
                zt_path_name(path));
        if (source)
            zip_source_free(source);
        zt_file_close(&a->map, false, err);
    }
    zip_error_fini(&why);
    return a->zip;
}

/* `ok`, unless the file has changed since it was opened. */
static bool archive_close(struct archive *a, bool ok, struct zt_err *err) {
    zip_discard(a->zip);
    return zt_file_close(&a->map, ok, err);
}

/* Length of the array name of an entry ("x.npy": 1), -1 for other entries. */
static int name_length(const char *entry) {
    size_t n = entry ? strlen(entry) : 0;
    return n > 4 && n < 4096 && strcmp(entry + n - 4, ".npy") == 0 ? (int)(n - 4) : -1;
}

/* Before an allocation, the size of an entry must be possible for the bytes of the file: deflate
 * makes at most 1032 bytes of one. */
static bool check_entry(const struct archive *a, zip_uint64_t index, size_t *size, struct zt_err *err) {
    zip_stat_t stat;
    const zip_uint64_t need = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(a->zip, index, ZIP_FL_UNCHANGED, &stat) != 0 || (stat.valid & need) != need)
        return zt_fail(err, a->code, "cannot be read: %s", zip_strerror(a->zip));
    if (stat.encryption_method != ZIP_EM_NONE)
        return zt_fail(err, a->code, "is encrypted");
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
        return zt_fail(err, a->code, "is compressed with zip method %d, wants stored or deflated",
                       (int)stat.comp_method);
    if (stat.comp_size > a->map.size ||
        stat.size > (stat.comp_method == ZIP_CM_STORE ? stat.comp_size : stat.comp_size * 1032))
        return zt_fail(err, a->code, "claims %llu bytes, more than the file can contain",
                       (unsigned long long)stat.size);
    *size = stat.size;
    return true;
}

static bool read_exactly(zip_file_t *file, void *to, size_t bytes) {
    unsigned char *at = to;
    while (bytes) {
        zip_int64_t n = zip_fread(file, at, bytes);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool damaged(const struct archive *a, zip_file_t *file, struct zt_err *err) {
    const char *why = zip_error_code_zip(zip_file_get_error(file)) ? zip_file_strerror(file) : "ends too early";
    return zt_fail(err, a->code, "is damaged: %s", why);
}

/* Copies elements in Fortran order to C order, by the strides of the source for each index of the target. */
static void reorder(const struct zt_npy *npy, const unsigned char *from, unsigned char *to) {
    size_t stride[ZT_MAX_RANK], step = zt_dtype_bytes(npy->dtype), at = 0;
    int64_t index[ZT_MAX_RANK] = { 0 };
    int rank = npy->shape.rank;
    for (int d = 0; d < rank; d++)
        stride[d] = d ? stride[d - 1] * (size_t)npy->shape.dim[d - 1] : step;
    for (size_t done = 0; done < npy->bytes; done += step) {
        memcpy(to + done, from + at, step);
        for (int d = rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < npy->shape.dim[d])
                break;
            at -= stride[d] * (size_t)npy->shape.dim[d];
            index[d] = 0;
        }
    }
}

static bool reorder_in_place(const struct zt_npy *npy, struct zt_npz_array *array, struct zt_err *err) {
    void *ordered = zt_block_create(array->bytes, array->name, err);
    if (!ordered)
        return false;
    reorder(npy, array->data, ordered);
    zt_block_destroy(array->data, array->bytes);
    array->data = ordered;
    return true;
}

/* Reads the header into npy; *file is then at the elements. */
static bool read_header(const struct archive *a, zip_file_t *file, size_t size, struct zt_npy *npy,
                        struct zt_err *err) {
    unsigned char prefix[ZT_NPY_PREFIX] = { 0 };
    size_t have = size < ZT_NPY_PREFIX ? size : ZT_NPY_PREFIX;
    if (!read_exactly(file, prefix, have))
        return damaged(a, file, err);
    size_t header = zt_npy_header_bytes(prefix, have, a->code, err);
    if (header == 0)
        return false;
    if (header > size || header < have)
        return zt_fail(err, a->code, "has a damaged NumPy header");
    unsigned char *text = zt_malloc(header);
    memcpy(text, prefix, have);
    bool ok = read_exactly(file, text + have, header - have) || damaged(a, file, err);
    ok = ok && zt_npy_parse(text, header, npy, a->code, err);
    free(text);
    return ok;
}

static bool read_elements(const struct archive *a, zip_file_t *file, size_t size, struct zt_npz_array *array,
                          struct zt_err *err) {
    struct zt_npy npy;
    unsigned char past;
    if (!read_header(a, file, size, &npy, err))
        return false;
    if (npy.bytes != size - npy.header)
        return zt_fail(err, a->code, "holds %zu bytes of elements, its header wants %zu", size - npy.header, npy.bytes);
    array->dtype = npy.dtype;
    array->shape = npy.shape;
    array->bytes = npy.bytes;
    array->data = zt_block_create(npy.bytes, array->name, err);
    if (!array->data)
        return false;
    if (!read_exactly(file, array->data, npy.bytes) || zip_fread(file, &past, 1) != 0) /* the end checks the CRC */
        return damaged(a, file, err);
    return !npy.fortran || reorder_in_place(&npy, array, err);
}

static bool read_array(const struct archive *a, zip_uint64_t index, struct zt_npz_array *array, struct zt_err *err) {
    const char *entry = zip_get_name(a->zip, index, ZIP_FL_ENC_RAW);
    int first = err->count;
    size_t size = 0;
    array->name = zt_strdup(entry);
    array->name[name_length(entry)] = 0;
    bool ok = check_entry(a, index, &size, err);
    zip_file_t *file = ok ? zip_fopen_index(a->zip, index, ZIP_FL_UNCHANGED) : NULL;
    if (ok && !file)
        ok = zt_fail(err, a->code, "cannot be read: %s", zip_strerror(a->zip));
    ok = ok && read_elements(a, file, size, array, err);
    if (file)
        zip_fclose(file);
    return ok || zt_err_within(err, first, "%s: array \"%s\"", a->path, array->name);
}

bool zt_npz_read(const char *path, struct zt_npz *out, enum zt_exit code, struct zt_err *err) {
    struct archive a;
    *out = (struct zt_npz){ 0 };
    if (!archive_open(&a, path, code, err))
        return false;
    zip_int64_t entries = zip_get_num_entries(a.zip, ZIP_FL_UNCHANGED);
    bool ok = true;
    out->at = zt_calloc((size_t)entries + 1, sizeof *out->at);
    for (zip_int64_t i = 0; i < entries && ok; i++)
        if (name_length(zip_get_name(a.zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW)) >= 0)
            ok = read_array(&a, (zip_uint64_t)i, &out->at[out->count++], err);
    ok = archive_close(&a, ok, err);
    if (!ok)
        zt_npz_finish(out);
    return ok;
}

/* ---- one array ---- */

bool zt_npz_is_npy(const char *path) {
    char magic[6] = { 0 };
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo without a writer is empty */
    const bool read = file >= 0 && pread(file, magic, sizeof magic, 0) == (ssize_t)sizeof magic;
    if (file >= 0)
        close(file);
    return read && memcmp(magic, "\x93NUMPY", sizeof magic) == 0;
}

static bool take_npy(const struct zt_file_map *map, struct zt_npz_array *array, enum zt_exit code, struct zt_err *err) {
    struct zt_npy npy;
    size_t header = zt_npy_header_bytes(map->data, map->size, code, err);
    if (header == 0)
        return false;
    if (header > map->size)
        return zt_fail(err, code, "has a damaged NumPy header");
    if (!zt_npy_parse(map->data, header, &npy, code, err))
        return false;
    if (npy.bytes != map->size - npy.header)
        return zt_fail(err, code, "holds %zu bytes of elements, its header wants %zu", map->size - npy.header,
                       npy.bytes);
    array->dtype = npy.dtype;
    array->shape = npy.shape;
    array->bytes = npy.bytes;
    if (!(array->data = zt_block_create(npy.bytes, array->name, err)))
        return false;
    memcpy(array->data, map->data + npy.header, npy.bytes);
    return !npy.fortran || reorder_in_place(&npy, array, err);
}

bool zt_npz_read_npy(const char *path, const char *name, struct zt_npz *out, enum zt_exit code, struct zt_err *err) {
    struct zt_file_map map;
    const int first = err->count;
    *out = (struct zt_npz){ 0 };
    if (!zt_file_map(&map, path, code, err))
        return false;
    out->at = zt_calloc(1, sizeof *out->at);
    out->at[out->count++].name = zt_strdup(name);
    bool ok = take_npy(&map, &out->at[0], code, err) || zt_err_within(err, first, "%s", path);
    ok = zt_file_close(&map, ok, err);
    if (!ok)
        zt_npz_finish(out);
    return ok;
}

/* ---- named arrays of a zip ---- */

static zip_int64_t find_entry(const struct archive *a, const char *name) {
    zip_int64_t entries = zip_get_num_entries(a->zip, ZIP_FL_UNCHANGED);
    for (zip_int64_t i = 0; i < entries; i++) {
        const char *entry = zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        int n = name_length(entry);
        if (n >= 0 && strlen(name) == (size_t)n && memcmp(entry, name, (size_t)n) == 0)
            return i;
    }
    return -1;
}

static bool missing(const struct archive *a, const char *name, struct zt_err *err) {
    zip_int64_t entries = zip_get_num_entries(a->zip, ZIP_FL_UNCHANGED);
    struct zt_text list = { 0 };
    for (zip_int64_t i = 0; i < entries && list.length < 256; i++) {
        const char *entry = zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        int n = name_length(entry);
        if (n >= 0)
            zt_text_add(&list, "%s%.*s", list.length ? ", " : "", n, entry);
    }
    zt_fail(err, a->code, "%s: no array named \"%s\" (it has: %s)", a->path, name, list.at ? list.at : "none");
    zt_text_finish(&list);
    return false;
}

bool zt_npz_read_named(const char *path, const char *const *names, int name_count, struct zt_npz *out,
                       enum zt_exit code, struct zt_err *err) {
    struct archive a;
    const char *lacks = NULL;
    bool ok = true;
    *out = (struct zt_npz){ 0 };
    if (!archive_open(&a, path, code, err))
        return false;
    for (int i = 0; i < name_count; i++)
        if (find_entry(&a, names[i]) < 0)
            ok = missing(&a, lacks = names[i], err);
    out->at = zt_calloc((size_t)name_count + 1, sizeof *out->at);
    for (int i = 0; i < name_count && ok; i++)
        ok = read_array(&a, (zip_uint64_t)find_entry(&a, names[i]), &out->at[out->count++], err);
    ok = archive_close(&a, ok, err);
    if (!ok)
        zt_npz_finish(out);
    out->missing = lacks;
    return ok;
}

void zt_npz_finish(struct zt_npz *npz) {
    for (int i = 0; i < npz->count; i++) {
        free(npz->at[i].name);
        zt_block_destroy(npz->at[i].data, npz->at[i].bytes);
    }
    free(npz->at);
    *npz = (struct zt_npz){ 0 };
}

const struct zt_npz_array *zt_npz_find(const struct zt_npz *npz, const char *name) {
    for (int i = 0; i < npz->count; i++)
        if (strcmp(npz->at[i].name, name) == 0)
            return &npz->at[i];
    return NULL;
}
