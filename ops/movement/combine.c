#include "ops/movement/combine.h"

#include <math.h>
#include <string.h>

static const char *const names[ZT_COMBINES] = { "none", "add", "mul", "max", "min" };

enum zt_combine zt_combine_named(const char *name) {
    int how = 0;
    while (how < ZT_COMBINES && strcmp(names[how], name) != 0)
        how++;
    return (enum zt_combine)how;
}

static double of_floats(enum zt_combine how, double a, double b) {
    switch (how) {
    case ZT_COMBINE_ADD:
        return a + b;
    case ZT_COMBINE_MUL:
        return a * b;
    case ZT_COMBINE_MAX:
        return isnan(a) || a > b ? a : b;
    case ZT_COMBINE_MIN:
        return isnan(a) || a < b ? a : b;
    default:
        return b;
    }
}

static int64_t of_ints(enum zt_combine how, bool u, int64_t a, int64_t b) {
    bool less = u ? (uint64_t)a < (uint64_t)b : a < b;
    switch (how) {
    case ZT_COMBINE_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case ZT_COMBINE_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case ZT_COMBINE_MAX:
        return less ? b : a;
    case ZT_COMBINE_MIN:
        return less ? a : b;
    default:
        return b;
    }
}

void zt_combine_element(const struct zt_scatter_reduction *r, int64_t i, int64_t j) {
    const enum zt_dtype dtype = r->dtype;
    size_t bytes = zt_dtype_bytes(dtype);
    if (r->how == ZT_COMBINE_REPLACE)
        memcpy((char *)r->to + (size_t)i * bytes, (const char *)r->from + (size_t)j * bytes, bytes);
    else if (zt_dtype_in(dtype, ZT_ANY_FLOAT))
        zt_store_double(dtype, r->to, i,
                        of_floats(r->how, zt_load_double(dtype, r->to, i), zt_load_double(dtype, r->from, j)));
    else
        zt_store_int(dtype, r->to, i,
                     of_ints(r->how, dtype == ZT_UINT64, zt_load_int(dtype, r->to, i), zt_load_int(dtype, r->from, j)));
}

/* Floats are what training scatters: one loop for each reduction. Sums are rounded to float as of_floats' are. */
#define FLOATS(TO)                                                                                                     \
    do {                                                                                                               \
        float *y = r->to;                                                                                              \
        const float *x = (const float *)r->from + j;                                                                   \
        for (int64_t k = 0; k < count; k++) {                                                                          \
            float *t = &y[TO];                                                                                         \
            *t = how == ZT_COMBINE_ADD   ? *t + x[k]                                                                   \
                 : how == ZT_COMBINE_MUL ? *t * x[k]                                                                   \
                 : how == ZT_COMBINE_MAX ? (isnan(*t) || *t > x[k] ? *t : x[k])                                        \
                 : how == ZT_COMBINE_MIN ? (isnan(*t) || *t < x[k] ? *t : x[k])                                        \
                                         : x[k];                                                                       \
        }                                                                                                              \
    } while (0)

static void add_floats(float *to, const float *from, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        to[k] += from[k];
}

void zt_combine_block(const struct zt_scatter_reduction *r, int64_t i, int64_t j, int64_t count) {
    const size_t bytes = zt_dtype_bytes(r->dtype);
    const enum zt_combine how = r->how;
    if (how == ZT_COMBINE_REPLACE)
        memcpy((char *)r->to + (size_t)i * bytes, (const char *)r->from + (size_t)j * bytes, (size_t)count * bytes);
    else if (r->dtype == ZT_FLOAT && how == ZT_COMBINE_ADD)
        add_floats((float *)r->to + i, (const float *)r->from + j, count);
    else if (r->dtype == ZT_FLOAT)
        FLOATS(i + k);
    else
        for (int64_t k = 0; k < count; k++)
            zt_combine_element(r, i + k, j + k);
}

static void add_floats_at(float *to, const int64_t *at, const float *from, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        to[at[k]] += from[k];
}

#define REPLACE(TYPE)                                                                                                  \
    do {                                                                                                               \
        TYPE *y = r->to;                                                                                               \
        const TYPE *x = (const TYPE *)r->from + j;                                                                     \
        for (int64_t k = 0; k < count; k++)                                                                            \
            y[at[k]] = x[k];                                                                                           \
    } while (0)

void zt_combine_at(const struct zt_scatter_reduction *r, const int64_t *at, int64_t j, int64_t count) {
    const size_t bytes = zt_dtype_bytes(r->dtype);
    const enum zt_combine how = r->how;
    if (how == ZT_COMBINE_REPLACE && bytes == 4)
        REPLACE(uint32_t);
    else if (how == ZT_COMBINE_REPLACE && bytes == 8)
        REPLACE(uint64_t);
    else if (how == ZT_COMBINE_REPLACE && bytes == 2)
        REPLACE(uint16_t);
    else if (r->dtype == ZT_FLOAT && how == ZT_COMBINE_ADD)
        add_floats_at(r->to, at, (const float *)r->from + j, count);
    else if (r->dtype == ZT_FLOAT)
        FLOATS(at[k]);
    else
        for (int64_t k = 0; k < count; k++)
            zt_combine_element(r, at[k], j + k);
}
