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

void zt_combine_element(enum zt_combine how, enum zt_dtype dtype, void *to, int64_t i, const void *from, int64_t j) {
    size_t bytes = zt_dtype_bytes(dtype);
    if (how == ZT_COMBINE_REPLACE)
        memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)j * bytes, bytes);
    else if (zt_dtype_in(dtype, ZT_ANY_FLOAT))
        zt_store_double(dtype, to, i, of_floats(how, zt_load_double(dtype, to, i), zt_load_double(dtype, from, j)));
    else
        zt_store_int(dtype, to, i,
                     of_ints(how, dtype == ZT_UINT64, zt_load_int(dtype, to, i), zt_load_int(dtype, from, j)));
}

/* Floats are what training scatters: one loop for each reduction. Sums are rounded to float as of_floats' are. */
#define FLOATS(TO)                                                                                                     \
    do {                                                                                                               \
        float *y = to;                                                                                                 \
        const float *x = (const float *)from + j;                                                                      \
        for (int64_t k = 0; k < count; k++) {                                                                          \
            float *t = &y[TO];                                                                                         \
            *t = how == ZT_COMBINE_ADD   ? *t + x[k]                                                                   \
                 : how == ZT_COMBINE_MUL ? *t * x[k]                                                                   \
                 : how == ZT_COMBINE_MAX ? (isnan(*t) || *t > x[k] ? *t : x[k])                                        \
                 : how == ZT_COMBINE_MIN ? (isnan(*t) || *t < x[k] ? *t : x[k])                                        \
                                         : x[k];                                                                       \
        }                                                                                                              \
    } while (0)

void zt_combine_run(enum zt_combine how, enum zt_dtype dtype, void *to, int64_t i, const void *from, int64_t j,
                    int64_t count) {
    const size_t bytes = zt_dtype_bytes(dtype);
    if (how == ZT_COMBINE_REPLACE)
        memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)j * bytes, (size_t)count * bytes);
    else if (dtype == ZT_FLOAT && how == ZT_COMBINE_ADD)
        for (int64_t k = 0; k < count; k++)
            ((float *)to)[i + k] += ((const float *)from)[j + k];
    else if (dtype == ZT_FLOAT)
        FLOATS(i + k);
    else
        for (int64_t k = 0; k < count; k++)
            zt_combine_element(how, dtype, to, i + k, from, j + k);
}

#define REPLACE(TYPE)                                                                                                  \
    for (int64_t k = 0; k < count; k++)                                                                                \
    ((TYPE *)to)[at[k]] = ((const TYPE *)from)[j + k]

void zt_combine_at(enum zt_combine how, enum zt_dtype dtype, void *to, const int64_t *at, const void *from, int64_t j,
                   int64_t count) {
    if (how == ZT_COMBINE_REPLACE && zt_dtype_bytes(dtype) == 4)
        REPLACE(uint32_t);
    else if (how == ZT_COMBINE_REPLACE && zt_dtype_bytes(dtype) == 8)
        REPLACE(uint64_t);
    else if (how == ZT_COMBINE_REPLACE && zt_dtype_bytes(dtype) == 2)
        REPLACE(uint16_t);
    else if (dtype == ZT_FLOAT && how == ZT_COMBINE_ADD)
        for (int64_t k = 0; k < count; k++)
            ((float *)to)[at[k]] += ((const float *)from)[j + k];
    else if (dtype == ZT_FLOAT)
        FLOATS(at[k]);
    else
        for (int64_t k = 0; k < count; k++)
            zt_combine_element(how, dtype, to, at[k], from, j + k);
}
