#include "data/npy.h"

#include "base/align.h"

#include <stdio.h>
#include <string.h>

/* A header is text like  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padded with spaces. */
enum { MAGIC = 6, MAX_HEADER = 1 << 20 };

static const struct {
    const char *text;
    enum zt_dtype dtype;
} descrs[] = {
    { "<f4", ZT_FLOAT },    { "<f8", ZT_DOUBLE }, { "<f2", ZT_FLOAT16 }, { "<V2", ZT_BFLOAT16 },
    { "|V2", ZT_BFLOAT16 }, { "|b1", ZT_BOOL },   { "|i1", ZT_INT8 },    { "|u1", ZT_UINT8 },
    { "<i1", ZT_INT8 },     { "<u1", ZT_UINT8 },  { "<i2", ZT_INT16 },   { "<i4", ZT_INT32 },
    { "<i8", ZT_INT64 },    { "<u2", ZT_UINT16 }, { "<u4", ZT_UINT32 },  { "<u8", ZT_UINT64 },
};

size_t zt_npy_header_bytes(const unsigned char *prefix, size_t size, enum zt_exit code, struct zt_err *err) {
    if (size < 10 || memcmp(prefix, "\x93NUMPY", MAGIC) != 0) {
        zt_fail(err, code, "is not a NumPy array");
        return 0;
    }
    int version = prefix[6];
    size_t text, start = version == 1 ? 10 : 12;
    if (version < 1 || version > 3) {
        zt_fail(err, code, "has NumPy format version %d, wants 1 to 3", version);
        return 0;
    }
    text = prefix[8] | (size_t)prefix[9] << 8;
    if (version > 1)
        text |= size < 12 ? 0 : (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    if (size < start || text > MAX_HEADER) {
        zt_fail(err, code, "has a damaged NumPy header");
        return 0;
    }
    return start + text;
}

struct reader {
    const char *at, *end;
};

static void skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t'))
        r->at++;
}

/* Takes `c` if it is next. */
static bool take(struct reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word) {
    skip_space(r);
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* A Python string without escapes, in either kind of quotes, of at most 31 characters. */
static bool take_string(struct reader *r, char to[32]) {
    skip_space(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"'))
        return false;
    char quote = *r->at++;
    size_t n = 0;
    for (; r->at < r->end && *r->at != quote && n < 31; r->at++)
        to[n++] = *r->at;
    to[n] = 0;
    return take(r, quote);
}

static bool take_number(struct reader *r, int64_t *value) {
    skip_space(r);
    const char *start = r->at;
    *value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *r->at - '0', value))
            return false;
    bool some = r->at > start;
    take(r, 'L'); /* Python 2 wrote 3L */
    return some;
}

static bool damaged(enum zt_exit code, struct zt_err *err) {
    return zt_fail(err, code, "has a damaged NumPy header");
}

static bool parse_descr(struct reader *r, struct zt_npy *out, enum zt_exit code, struct zt_err *err) {
    char text[32];
    if (take(r, '['))
        return zt_fail(err, code, "is an array of records (structured dtype), wants numbers");
    if (!take_string(r, text))
        return damaged(code, err);
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
        if (strcmp(descrs[i].text, text) == 0)
            out->dtype = descrs[i].dtype;
    if (out->dtype != ZT_UNDEFINED)
        return true;
    if (text[0] == '>') {
        zt_fail(err, code, "is big-endian (dtype \"%s\"), wants little-endian", text);
        return zt_hint(err, "array.astype(array.dtype.newbyteorder(\"<\")) converts it");
    }
    return zt_fail(err, code, "has dtype \"%s\", which ztrain does not support", text);
}

static bool parse_order(struct reader *r, struct zt_npy *out, enum zt_exit code, struct zt_err *err) {
    if (take_word(r, "True"))
        out->fortran = true;
    else if (!take_word(r, "False"))
        return damaged(code, err);
    return true;
}

static bool parse_shape(struct reader *r, struct zt_npy *out, enum zt_exit code, struct zt_err *err) {
    if (!take(r, '('))
        return damaged(code, err);
    for (out->shape.rank = 0; !take(r, ')');) {
        int64_t dim;
        if (!take_number(r, &dim))
            return damaged(code, err);
        if (out->shape.rank == ZT_MAX_RANK)
            return zt_fail(err, code, "has more than %d dimensions", ZT_MAX_RANK);
        out->shape.dim[out->shape.rank++] = dim;
        if (!take(r, ',') && (r->at == r->end || *r->at != ')'))
            return damaged(code, err);
    }
    return true;
}

static const struct {
    const char *key;
    bool (*parse)(struct reader *r, struct zt_npy *out, enum zt_exit code, struct zt_err *err);
} keys[] = { { "descr", parse_descr }, { "fortran_order", parse_order }, { "shape", parse_shape } };
enum { KEYS = sizeof keys / sizeof *keys, ALL_KEYS = (1 << KEYS) - 1 };

static bool parse_keys(struct reader *r, struct zt_npy *out, enum zt_exit code, struct zt_err *err) {
    unsigned seen = 0;
    if (!take(r, '{'))
        return damaged(code, err);
    while (!take(r, '}')) {
        char key[32];
        int k = 0;
        if (!take_string(r, key) || !take(r, ':'))
            return damaged(code, err);
        while (k < KEYS && strcmp(keys[k].key, key) != 0)
            k++;
        if (k == KEYS || (seen >> k & 1))
            return damaged(code, err);
        if (!keys[k].parse(r, out, code, err))
            return false;
        seen |= 1u << k;
        take(r, ',');
    }
    return seen == ALL_KEYS || damaged(code, err);
}

bool zt_npy_parse(const unsigned char *header, size_t size, struct zt_npy *out, enum zt_exit code, struct zt_err *err) {
    *out = (struct zt_npy){ .shape.rank = -1, .header = zt_npy_header_bytes(header, size, code, err) };
    if (out->header == 0)
        return false;
    if (out->header > size)
        return damaged(code, err);
    struct reader r = { (const char *)header + (header[6] == 1 ? 10 : 12), (const char *)header + out->header };
    if (!parse_keys(&r, out, code, err))
        return false;
    char text[ZT_SHAPE_TEXT];
    int64_t count = zt_shape_count(&out->shape), bytes;
    if (__builtin_mul_overflow(count, (int64_t)zt_dtype_bytes(out->dtype), &bytes) || count == INT64_MAX)
        return zt_fail(err, code, "has shape %s, too large for any memory", zt_shape_text(&out->shape, text));
    out->bytes = (size_t)bytes;
    out->fortran = out->fortran && out->shape.rank > 1;
    return true;
}

size_t zt_npy_header(enum zt_dtype dtype, const struct zt_shape *shape, char to[ZT_NPY_HEADER]) {
    const char *descr = "";
    dtype = zt_dtype_in(dtype, ZT_ANY_NARROW) ? ZT_UINT8 : dtype;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs && !descr[0]; i++)
        if (descrs[i].dtype == dtype)
            descr = descrs[i].text;
    int n = 10;
    n += sprintf(to + n, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < shape->rank; i++)
        n += sprintf(to + n, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    n += sprintf(to + n, "%s), }", shape->rank == 1 ? "," : "");
    int size = zt_align_64(n + 1);
    memset(to + n, ' ', (size_t)(size - n - 1));
    to[size - 1] = '\n';
    memcpy(to, "\x93NUMPY\x01", 8); /* with the closing 0: minor version */
    to[8] = (char)((size - 10) & 0xff);
    to[9] = (char)((size - 10) >> 8);
    return (size_t)size;
}
