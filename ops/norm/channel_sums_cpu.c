#include "ops/norm/channel_sums_cpu.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <math.h>

int64_t zt_channel_sums_room(int64_t parts, int64_t wide) {
    return (2 * parts + ZT_COEFFICIENTS) * wide;
}

void zt_channel_sums_place(struct zt_channel_sums *s, void *workspace) {
    float *at = workspace;
    for (int i = 0; i < 2; i++, at += s->parts * s->wide)
        s->part[i] = at;
    for (int i = 0; i < ZT_COEFFICIENTS; i++, at += s->wide)
        s->coefficient[i] = at;
}

/* Of a channel, over all parts. */
static double own_elements(const struct zt_channel_sums *s) {
    return (double)s->parts * s->elements;
}

static double number(const struct zt_channel_sums *s, int in, int64_t c) {
    const struct zt_view *v = &s->call->in[in];
    return v->dtype == ZT_FLOAT ? (double)((const float *)v->data)[c] : zt_load_double(v->dtype, v->data, c);
}

static void put(const struct zt_channel_sums *s, int out, int64_t c, double value) {
    const struct zt_view *v = out < s->call->out_count ? &s->call->out[out] : NULL;
    if (v && v->data && v->dtype == ZT_FLOAT)
        ((float *)v->data)[c] = (float)value;
    else if (v && v->data)
        zt_store_double(v->dtype, v->data, c, value);
}

/* Padding channels get coefficients of zero, which keeps them zero. */
static void set(struct zt_channel_sums *s, int64_t c, double mean, double first, double second, double third) {
    bool real = c < s->norm.channels;
    s->coefficient[ZT_MEAN][c] = real ? (float)mean : 0;
    s->coefficient[ZT_FIRST][c] = real ? (float)first : 0;
    s->coefficient[ZT_SECOND][c] = real ? (float)second : 0;
    s->coefficient[ZT_THIRD][c] = real ? (float)third : 0;
}

/* ---- forward: inputs x, scale, b, running mean, running var ---- */

static void own_moments(const struct zt_channel_sums *s, int64_t c, double *mean, double *squares) {
    *mean = *squares = 0;
    for (int64_t i = 0; i < s->parts; i++)
        *mean += (double)s->part[0][i * s->wide + c];
    *mean /= (double)s->parts;
    for (int64_t i = 0; i < s->parts; i++) {
        double off = (double)s->part[0][i * s->wide + c] - *mean;
        *squares += (double)s->part[1][i * s->wide + c] + s->elements * off * off;
    }
}

static void set_statistics(struct zt_channel_sums *s, int64_t c, double mean, double var) {
    double momentum = s->norm.momentum, inv_std = 1 / sqrt(var + s->norm.epsilon);
    double factor = number(s, 1, c) * inv_std, off = mean - (double)(float)mean;
    set(s, c, mean, factor, number(s, 2, c) - off * factor, 0);
    put(s, 1, c, number(s, 3, c) * momentum + mean * (1 - momentum));
    put(s, 2, c, number(s, 4, c) * momentum + var * (1 - momentum));
    put(s, 3, c, mean);
    put(s, 4, c, inv_std);
}

void zt_channel_own_statistics(struct zt_channel_sums *s, int64_t from, int64_t end) {
    for (int64_t c = from; c < end; c++) {
        double mean, squares;
        if (c >= s->norm.channels) {
            set(s, c, 0, 0, 0, 0);
        } else if (s->fixed) {
            set(s, c, number(s, 3, c), number(s, 1, c) / sqrt(number(s, 4, c) + s->norm.epsilon), number(s, 2, c), 0);
        } else {
            own_moments(s, c, &mean, &squares);
            set_statistics(s, c, mean, squares / own_elements(s));
        }
    }
}

/* Around the running mean, which is the same number on every rank. */
static void give_moments(struct zt_channel_sums *s, int64_t c, double *sums) {
    const double m = own_elements(s);
    double mean, squares;
    own_moments(s, c, &mean, &squares);
    mean -= number(s, 3, c);
    sums[0] = m * mean;
    sums[1] = squares + m * mean * mean;
}

static void take_moments(struct zt_channel_sums *s, int64_t c, const double *sums, double m) {
    const double moved = sums[0] / m, var = sums[1] / m - moved * moved;
    set_statistics(s, c, number(s, 3, c) + moved, var < 0 ? 0 : var); /* NaN stays */
}

/* ---- backward: inputs dy, x, scale, mean, and inv_std or the running variance ---- */

void zt_channel_means(struct zt_channel_sums *s, int64_t from, int64_t end) {
    for (int64_t c = from; c < end; c++)
        set(s, c, c < s->norm.channels ? number(s, 3, c) : 0, 0, 0, 0);
}

static double inv_std_of(const struct zt_channel_sums *s, int64_t c) {
    return s->fixed ? 1 / sqrt(number(s, 4, c) + s->norm.epsilon) : number(s, 4, c);
}

/* The gradients of scale and b are this rank's alone, as those of other parameters are. */
static void give_gradients(struct zt_channel_sums *s, int64_t c, double *sums) {
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < s->parts; i++) {
        sums[0] += (double)s->part[0][i * s->wide + c];
        sums[1] += (double)s->part[1][i * s->wide + c];
    }
    sums[1] *= inv_std_of(s, c);
    put(s, 1, c, sums[1]);
    put(s, 2, c, sums[0]);
}

static void take_gradients(struct zt_channel_sums *s, int64_t c, const double *sums, double m) {
    const double inv_std = inv_std_of(s, c), factor = number(s, 2, c) * inv_std, moving = s->fixed ? 0 : factor / m;
    set(s, c, number(s, 3, c), factor, -moving * sums[0], -moving * sums[1] * inv_std);
}

void zt_channel_own_gradients(struct zt_channel_sums *s, int64_t from, int64_t end) {
    double sums[2];
    for (int64_t c = from; c < zt_min_int(end, s->norm.channels); c++) {
        give_gradients(s, c, sums);
        take_gradients(s, c, sums, own_elements(s));
    }
}

/* ---- over the ranks ---- */

static bool share(struct zt_channel_sums *s, void (*give)(struct zt_channel_sums *s, int64_t c, double *sums),
                  void (*take)(struct zt_channel_sums *s, int64_t c, const double *sums, double elements),
                  struct zt_err *err) {
    double sums[ZT_BATCH_NORM_SUMS];
    for (int64_t first = 0; first < s->norm.channels; first += ZT_BATCH_NORM_TOGETHER) {
        const int64_t count = zt_min_int(ZT_BATCH_NORM_TOGETHER, s->norm.channels - first);
        for (int64_t c = 0; c < count; c++)
            give(s, first + c, sums + 2 * c);
        sums[2 * count] = own_elements(s);
        if (!zt_batch_norm_add_ranks(s->call, sums, count, err))
            return false;
        for (int64_t c = 0; c < count; c++)
            take(s, first + c, sums + 2 * c, sums[2 * count]);
    }
    return true;
}

bool zt_channel_statistics(struct zt_channel_sums *s, struct zt_err *err) {
    zt_channel_own_statistics(s, s->sync ? s->norm.channels : 0, s->wide);
    return !s->sync || share(s, give_moments, take_moments, err);
}

bool zt_channel_gradients(struct zt_channel_sums *s, struct zt_err *err) {
    if (s->sync)
        return share(s, give_gradients, take_gradients, err);
    zt_channel_own_gradients(s, 0, s->wide);
    return true;
}
