#include "comm_numbers.h"

#include "base/arena.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sleep_ms(int ms) {
    nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

float contribution(int rank, int round, int64_t i) {
    struct zt_rng rng = zt_rng_start(zt_rng_key(7, (uint64_t)rank, (uint64_t)round, 0), (uint64_t)i);
    return ldexpf(zt_rng_uniform(&rng) - 0.5f, (int)zt_rng_below(&rng, 24));
}

int64_t uneven_bounds(int size, int round, int64_t bound[MOST + 1]) {
    static const int64_t length[] = { 0, 2500, 1, 37, 0, 5, 2048, 3 };
    bound[0] = 0;
    for (int r = 0; r < size; r++)
        bound[r + 1] = bound[r] + length[(r + round) % 8];
    return bound[size];
}

bool is_sum(const struct zt_comm *c, int round, int64_t i, float got) {
    float want = contribution(0, round, i), magnitude = fabsf(want);
    for (int r = 1; r < c->size; r++) {
        want += contribution(r, round, i);
        magnitude += fabsf(contribution(r, round, i));
    }
    if (!strcmp(c->api->name, "ring"))
        return fabsf(got - want) <= 1e-6f * magnitude;
    return memcmp(&want, &got, sizeof want) == 0;
}

void make_transfers(struct zt_comm *c, int round, struct transfers *to) {
    for (int k = 0; k < UNDERWAY; k++) {
        int64_t n = uneven_bounds(c->size, round + k, to->bound[k]);
        float *flat = zt_malloc((size_t)n * sizeof *flat + 1);
        for (int64_t i = 0; i < n; i++)
            flat[i] = contribution(c->rank, round * UNDERWAY + k, i);
        to->at[k] = (struct zt_transfer){ k % 2 ? ZT_ALL_GATHER : ZT_REDUCE_SCATTER, flat, to->bound[k], sizeof *flat };
    }
}

void free_transfers(struct transfers *t) {
    for (int k = 0; k < UNDERWAY; k++)
        free(t->at[k].data);
}

static int64_t first_wrong(struct zt_comm *c, int round, const struct transfers *t, int k) {
    const float *flat = t->at[k].data;
    for (int r = 0; r < c->size; r++) {
        for (int64_t i = t->bound[k][r]; i < t->bound[k][r + 1] && (k % 2 || r == c->rank); i++) {
            float gathered = contribution(r, round * UNDERWAY + k, i);
            if (k % 2 ? memcmp(&gathered, &flat[i], sizeof gathered) != 0
                      : !is_sum(c, round * UNDERWAY + k, i, flat[i]))
                return i;
        }
    }
    return -1;
}

bool start_transfers(struct zt_comm *c, int round, struct transfers *to, struct zt_err *err) {
    bool ok = true;
    make_transfers(c, round, to);
    for (int k = 0; k < UNDERWAY && ok; k++)
        ok = c->api->start(c, &to->at[k], err);
    return ok;
}

int first_bad(struct zt_comm *c, int round, const struct transfers *t) {
    for (int k = 0; k < UNDERWAY; k++)
        if (!t->at[k].done || first_wrong(c, round, t, k) >= 0)
            return k;
    return -1;
}
