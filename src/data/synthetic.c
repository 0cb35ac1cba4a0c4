/* Data format synthetic: samples are computed from (seed, column name, sample number), so that a run needs no file.
 * Floats are standard normal, integers uniform in the wanted range (0 or 1 where there is none, which every mask and
 * index accepts). */
#include "data/column.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/rng.h"
#include "config/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A normal number is the quantile of 16 random bits: four times as fast as the method of Box and Muller. The reader
 * must keep up with the step. */
enum { QUANTILES = 1 << 16, NORMALS = 8 /* of a block of 128 bits */ };

struct synthetic {
    uint64_t key[ZT_COLUMNS];
    uint64_t below[ZT_COLUMNS];
    float quantile[QUANTILES];
};

/* The numbers x_k with Phi(x_k) = (k + 1/2) / QUANTILES, by Newton's method from the middle down; the upper half
 * mirrors. Phi is convex below 0, so each start, the neighbour above, converges from one side. */
static void fill_quantiles(float quantile[QUANTILES]) {
    double x = 0;
    for (int k = QUANTILES / 2 - 1; k >= 0; k--) {
        double wanted = (k + 0.5) / QUANTILES;
        for (int round = 0; round < 5; round++)
            x -= (erfc(-x * M_SQRT1_2) / 2 - wanted) / (exp(-x * x / 2) * M_SQRT1_2 * M_2_SQRTPI / 2);
        quantile[k] = (float)x;
        quantile[QUANTILES - 1 - k] = (float)-x;
    }
}

static bool accept_want(struct zt_source *source, int i, const struct zt_want *want, uint64_t seed,
                        struct zt_err *err) {
    struct synthetic *s = source->state;
    enum zt_dtype dtype = want->dtype == ZT_UNDEFINED ? (want->below > 0 ? ZT_INT64 : ZT_FLOAT) : want->dtype;
    char text[ZT_SHAPE_TEXT];
    if (!zt_shape_known(&want->shape)) {
        zt_fail(err, ZT_EXIT_DATA, "synthetic: column \"%s\" has shape %s, wants every dimension of a sample known",
                want->name, zt_shape_text(&want->shape, text));
        return zt_hint(err, "export the model with these dimensions fixed, or train on an npz file");
    }
    s->key[i] = zt_rng_key(seed, zt_hash(ZT_HASH_START, want->name, strlen(want->name)), 0, 0);
    s->below[i] = want->below > 0 ? (uint64_t)want->below : 2;
    return zt_column_accept(&source->column[i], want, dtype, &want->shape, "synthetic", err);
}

static void synthetic_close(struct zt_source *source) {
    free(source->state);
}

static bool synthetic_open(struct zt_source *source, const struct zt_config *config, const char *path,
                           const struct zt_want *wants, int want_count, struct zt_err *err) {
    (void)path;
    if (!zt_column_no_normalize(config, "synthetic", err))
        return false;
    if (config->data.samples < 1)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.samples: value %lld, wants at least 1",
                       (long long)config->data.samples);
    struct synthetic *s = source->state = zt_malloc(sizeof *s);
    source->samples = config->data.samples;
    fill_quantiles(s->quantile);
    bool ok = true;
    for (int i = 0; i < want_count; i++)
        ok = accept_want(source, i, &wants[i], (uint64_t)config->seed, err) && ok;
    if (!ok)
        synthetic_close(source);
    return ok;
}

static void read_normal(const struct synthetic *s, uint64_t key, int64_t sample, enum zt_dtype dtype, int64_t count,
                        void *to) {
    for (int64_t at = 0; at < count; at += NORMALS) {
        uint32_t word[4];
        int64_t n = count - at < NORMALS ? count - at : NORMALS;
        zt_rng_block(key, (uint64_t)sample, (uint64_t)at / NORMALS, word);
        for (int i = 0; i < n; i++) {
            float value = s->quantile[word[i / 2] >> (i % 2 * 16) & 0xffff];
            if (dtype == ZT_FLOAT)
                ((float *)to)[at + i] = value;
            else
                zt_store_double(dtype, to, at + i, (double)value);
        }
    }
}

static bool synthetic_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err;
    const struct synthetic *s = source->state;
    const struct zt_column *c = &source->column[column];
    int64_t count = zt_shape_count(&c->shape);
    if (zt_dtype_in(c->dtype, ZT_ANY_FLOAT)) {
        read_normal(s, s->key[column], index, c->dtype, count, to);
        return true;
    }
    struct zt_rng rng = zt_rng_start(s->key[column], (uint64_t)index);
    for (int64_t i = 0; i < count; i++)
        zt_store_int(c->dtype, to, i, (int64_t)zt_rng_below(&rng, s->below[column]));
    return true;
}

/* Every format accepts the key, so that --data can change the format of a file. */
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.samples", INT(1), DEF("1024"), .shared = true, AT(data.samples) },
    { 0 },
};

const struct zt_format zt_format_synthetic = {
    .type = { .name = "synthetic", .keys = keys, .computed = true },
    .open = synthetic_open,
    .read = synthetic_read,
    .close = synthetic_close,
};
