#include "device/half_arrays.h"

#include "base/clones.h"
#include "base/half.h"
#include "device/module.h"
#include "device/threads.h"

#include <stddef.h>

/* One function for each type; a loop without a choice in it is vectorized. */
#define LOOPS(type, narrow, widen)                                                                                     \
    ZT_CLONES static void type##_narrow(uint16_t *to, const float *from, int64_t count, float exact, float factor) {   \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = narrow(widen(narrow(from[i] * exact)) * factor);                                                   \
    }                                                                                                                  \
    ZT_CLONES static void type##_widen(float *to, const uint16_t *from, int64_t count, float factor) {                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = widen(narrow(widen(from[i]) * factor));                                                            \
    }                                                                                                                  \
    ZT_CLONES static void type##_accumulate(float *to, const float *from, int64_t count) {                             \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = widen(narrow(to[i] + widen(narrow(from[i]))));                                                     \
    }                                                                                                                  \
    ZT_CLONES static void type##_round(float *to, int64_t count) {                                                     \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = widen(narrow(to[i]));                                                                              \
    }

LOOPS(float16, zt_float_to_half, zt_half_to_float)
LOOPS(bfloat16, zt_float_to_bfloat, zt_bfloat_to_float)

/* A loop over elements on the host, divided among threads. */
enum { PART = 1 << 15 };
struct loop {
    struct zt_half_cast cast;
    float *floats;
    const float *from;
    uint16_t *halves;
    int64_t count;
};

static int64_t length(const struct loop *l, int64_t part) {
    return l->count - part * PART < PART ? l->count - part * PART : PART;
}

static bool run(const struct zt_device *device, void (*part)(void *arg, int64_t i), struct loop *l) {
    zt_parallel_for(device->threads, (l->count + PART - 1) / PART, part, l);
    return true;
}

static void narrow_part(void *arg, int64_t i) {
    const struct loop *l = arg;
    (l->cast.fp16 ? float16_narrow : bfloat16_narrow)(l->halves + i * PART, l->from + i * PART, length(l, i),
                                                      l->cast.exact, l->cast.factor);
}

static void widen_part(void *arg, int64_t i) {
    const struct loop *l = arg;
    (l->cast.fp16 ? float16_widen : bfloat16_widen)(l->floats + i * PART, l->halves + i * PART, length(l, i),
                                                    l->cast.factor);
}

static void accumulate_part(void *arg, int64_t i) {
    const struct loop *l = arg;
    float *to = l->floats + i * PART;
    if (l->from)
        (l->cast.fp16 ? float16_accumulate : bfloat16_accumulate)(to, l->from + i * PART, length(l, i));
    else
        (l->cast.fp16 ? float16_round : bfloat16_round)(to, length(l, i));
}

bool zt_half_narrow(struct zt_device *device, uint16_t *to, const float *from, int64_t count,
                    const struct zt_half_cast *cast, struct zt_err *err) {
    struct loop l = { .cast = *cast, .from = from, .halves = to, .count = count };
    return device->module ? device->module->narrow(device, to, from, count, cast, err) : run(device, narrow_part, &l);
}

bool zt_half_widen(struct zt_device *device, float *to, const uint16_t *from, int64_t count,
                   const struct zt_half_cast *cast, struct zt_err *err) {
    struct loop l = { .cast = *cast, .floats = to, .halves = (uint16_t *)from, .count = count };
    return device->module ? device->module->widen(device, to, from, count, cast, err) : run(device, widen_part, &l);
}

bool zt_half_accumulate(struct zt_device *device, float *to, const float *from, int64_t count, bool fp16,
                        struct zt_err *err) {
    struct loop l = { .cast.fp16 = fp16, .floats = to, .from = from, .count = count };
    return device->module ? device->module->accumulate(device, to, from, count, fp16, err)
                          : run(device, accumulate_part, &l);
}
