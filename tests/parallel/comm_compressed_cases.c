#include "comm_compressed_cases.h"
#include "comm_numbers.h"

#include "device/device.h"
#include "parallel/comm/compressed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void blocks_reach_the_rank_they_are_for(struct zt_comm *c, struct rank_report *report) {
    enum { LONGEST = 70001 };
    struct zt_err err = { 0 };
    unsigned char *from = zt_malloc(MOST * LONGEST), *to = zt_malloc(MOST * LONGEST);
    static const size_t lengths[] = { 0, 1, 4, 900, LONGEST };
    bool ok = true;
    int wrong = -1;
    for (int k = 0; k < 5 && ok; k++) {
        for (int r = 0; r < c->size; r++)
            memset(from + (size_t)r * lengths[k], 16 * c->rank + r, lengths[k]);
        ok = c->api->all_to_all(c, from, to, lengths[k], &err);
        for (int r = 0; r < c->size && ok; r++)
            for (size_t i = 0; i < lengths[k]; i++)
                if (to[(size_t)r * lengths[k] + i] != (unsigned char)(16 * r + c->rank))
                    wrong = r;
    }
    free(from);
    free(to);
    EXPECT(ok, "all_to_all: %s", err.text[0]);
    EXPECT(wrong < 0, "the block from rank %d is another", wrong);
}

/* ---- the formulas in fp64, every rank simulated ---- */

enum { PARTS = 6, CALLS = 4 };
static const int64_t bounds[PARTS + 1] = { 0, 1, 6, 6, 23, 4122, 9000 };

static float input(int rank, int call, int64_t i) {
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(rank * 977 + call * 131) * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x * 0x1p-31f * (i % 7 ? 1 : 0.01f);
}

/* Of one part: its padded length, and the errors of all ranks. */
struct simulated {
    int64_t count, padded;
    double *worker[MOST], *server[MOST], *mean;
};

static int64_t padded_length(int64_t count, int ranks) {
    int64_t divider = ranks * 8;
    for (int64_t d = 8; d > 1; d /= 2)
        if (ranks % d == 0) {
            divider /= d;
            break;
        }
    int64_t unit = divider * ranks;
    return (count + unit - 1) / unit * unit;
}

/* error = v - s sgn(v) in place of v; returns the scale, signs in `sign`. */
static double take_signs(double *v, int64_t n, double *sign) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += v[i] * v[i];
    double scale = sqrt(squares / (double)n);
    for (int64_t i = 0; i < n; i++) {
        sign[i] = v[i] >= 0 ? 1 : -1;
        v[i] -= scale * sign[i];
    }
    return scale;
}

static void simulate(struct simulated *s, int ranks, int64_t first, int call) {
    double *sign = zt_calloc((size_t)s->padded, sizeof *sign), *sum = zt_calloc((size_t)s->padded, sizeof *sum);
    int64_t chunk = s->padded / ranks;
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < s->count; i++)
            s->worker[r][i] += (double)input(r, call, first + i);
        double scale = take_signs(s->worker[r], s->padded, sign);
        for (int64_t i = 0; i < s->padded; i++)
            sum[i] += scale * sign[i] / ranks;
    }
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < chunk; i++)
            s->server[r][i] += sum[r * chunk + i];
        double scale = take_signs(s->server[r], chunk, sign);
        for (int64_t i = 0; i < chunk; i++)
            s->mean[r * chunk + i] = scale * sign[i];
    }
    free(sign);
    free(sum);
}

static void begin(struct simulated *s, int64_t count, int ranks) {
    *s = (struct simulated){ .count = count, .padded = padded_length(count, ranks) };
    s->mean = zt_calloc((size_t)s->padded + 1, sizeof *s->mean);
    for (int r = 0; r < ranks; r++) {
        s->worker[r] = zt_calloc((size_t)s->padded + 1, sizeof **s->worker);
        s->server[r] = zt_calloc((size_t)s->padded + 1, sizeof **s->server);
    }
}

static void end(struct simulated *s, int ranks) {
    for (int r = 0; r < ranks; r++) {
        free(s->worker[r]);
        free(s->server[r]);
    }
    free(s->mean);
}

struct found {
    double worst; /* error relative to the scale of a part */
    int call;
    int64_t at;
};

/* CALLS all-reduces, whose errors carry over, held against the simulation. */
static bool compare(struct zt_comm *c, struct zt_device *device, struct zt_compressed_call *call, struct found *found,
                    struct zt_err *err) {
    struct simulated s[PARTS];
    bool ok = true;
    for (int p = 0; p < PARTS; p++)
        begin(&s[p], bounds[p + 1] - bounds[p], c->size);
    for (int k = 0; k < CALLS && ok; k++) {
        for (int64_t i = 0; i < bounds[PARTS]; i++)
            call->x[i] = input(c->rank, k, i);
        ok = zt_comm_compressed_all_reduce(c, device, call, err);
        for (int p = 0; p < PARTS && ok; p++) {
            if (s[p].count)
                simulate(&s[p], c->size, bounds[p], k);
            for (int64_t i = 0; i < s[p].count; i++) {
                double want = c->size == 1 ? (double)input(0, k, bounds[p] + i) : s[p].mean[i];
                double error = fabs((double)call->x[bounds[p] + i] - want) / fabs(want);
                if (error > found->worst)
                    *found = (struct found){ error, k, bounds[p] + i };
            }
        }
    }
    for (int p = 0; p < PARTS; p++)
        end(&s[p], c->size);
    return ok;
}

void compressed_means_are_those_of_the_formulas(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    struct found found = { 0 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_device *device = zt_device_host_create(1);
    const struct zt_compressed *l = zt_compressed_make(arena, bounds, PARTS, c->size);
    struct zt_compressed_call call = { .rank = c->rank, .x = ZT_NEW_N(arena, float, bounds[PARTS]) };
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        call.error[side] = ZT_NEW_N(arena, float, l->errors[side]);
    char *memory = zt_calloc((size_t)zt_compressed_bytes(l) + 64, 1);
    bool ok = zt_compressed_place(l, device, memory, &call, &err) && compare(c, device, &call, &found, &err);
    int64_t padded = 0;
    for (int p = 0; p < PARTS; p++)
        padded += padded_length(bounds[p + 1] - bounds[p], c->size);
    int64_t message = (padded / c->size / 8 + (PARTS - 1) * (int64_t)sizeof(float) + 3) / 4 * 4; /* a part is empty */
    bool sized = l->message_bytes == message && zt_compressed_sent(l) == 2 * (c->size - 1) * message;
    free(memory);
    device->api->destroy(device);
    zt_arena_destroy(arena);
    EXPECT(ok, "compressed all-reduce: %s", err.text[0]);
    EXPECT(sized, "messages of another size than %lld bytes", (long long)message);
    EXPECT(found.worst < 1e-5, "call %d: element %lld is off by %g", found.call, (long long)found.at, found.worst);
}
