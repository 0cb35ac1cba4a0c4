#include "ops/random/random.h"

#include "base/map.h"
#include "base/rng.h"

#include <string.h>

struct zt_drawing zt_drawing_of(const struct zt_call *call, const char *name) {
    static const struct zt_random none = { 0 };
    return (struct zt_drawing){ .name = zt_hash(ZT_HASH_START, name, strlen(name)),
                                .here = call->random ? *call->random : none,
                                .there = call->device_random };
}

struct zt_drawing zt_drawing_own(const struct zt_call *call) {
    struct zt_drawing drawing = zt_drawing_of(call, call->node->name);
    const struct zt_attr *seed = zt_node_attr(call->node, "seed");
    uint32_t bits = 0;
    if (seed)
        memcpy(&bits, &seed->f, sizeof bits);
    drawing.seed = bits;
    drawing.seeded = seed != NULL;
    return drawing;
}

struct zt_draws zt_draws_of(const struct zt_call *call, const char *name) {
    const struct zt_drawing drawing = zt_drawing_of(call, name);
    return zt_rng_draws(&drawing);
}

struct zt_draws zt_draws_own(const struct zt_call *call) {
    const struct zt_drawing drawing = zt_drawing_own(call);
    return zt_rng_draws(&drawing);
}

void zt_draws_uniform(const struct zt_draws *draws, int64_t row, int64_t at, int64_t count, double *to) {
    uint32_t word[4] = { 0 };
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            zt_rng_block(draws->key, draws->first_sample + (uint64_t)row, (uint64_t)(at + i) / 4, word);
        to[i] = word[i % 4] * 0x1p-32;
    }
}
