/* The kernels of Resize and its gradient: every axis is a linear map (resize_map.c), forward as it is, backward
 * transposed, and the result is their product. Results are computed a row of the last axis at a time. */
#include "ops/resample/resize.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    struct zt_shape from, to;
    bool resized[ZT_MAX_RANK]; /* elsewhere the map is the identity */
    struct zt_resize_map map[ZT_MAX_RANK];
    bool gather; /* each element is a copy of one: exact in every type */
    double fill; /* value of what lies outside */
};

void zt_resize_release(void *state) {
    struct plan *p = state;
    for (int k = 0; p && k < ZT_MAX_RANK; k++)
        zt_resize_map_finish(&p->map[k]);
    free(p);
}

static bool make_map(const struct zt_resize *r, int axis, bool transposed, struct zt_resize_map *to,
                     struct zt_err *err) {
    struct zt_resize_map forward;
    if (!transposed)
        return zt_resize_map_init(r, axis, to, err);
    bool ok = zt_resize_map_init(r, axis, &forward, err) &&
              zt_resize_map_transpose(&forward, r->y.dim[axis], r->x.dim[axis], to, err);
    zt_resize_map_finish(&forward);
    return ok;
}

static bool prepare(struct zt_prepare *prepare, bool transposed, struct zt_err *err) {
    struct zt_resize r;
    prepare->in_layout[0] = NULL; /* plain */
    if (!zt_resize_read(prepare->graph, prepare->node, &r, err))
        return false;
    struct plan *p = zt_calloc(1, sizeof *p);
    prepare->state = p;
    p->from = transposed ? r.y : r.x;
    p->to = transposed ? r.x : r.y;
    p->gather = r.mode == ZT_NEAREST && !transposed;
    p->fill = transposed ? 0 : r.extrapolation;
    bool ok = true, some = zt_shape_count(&r.x) > 0 && zt_shape_count(&r.y) > 0;
    for (int k = 0; k < r.x.rank && some && ok; k++) {
        p->resized[k] = r.resized[k];
        ok = !r.resized[k] || make_map(&r, k, transposed, &p->map[k], err);
    }
    if (!ok) {
        zt_resize_release(p);
        prepare->state = NULL;
    }
    return ok;
}

bool zt_resize_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}

bool zt_resize_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

/* ---- one row ---- */

struct job {
    const struct plan *plan;
    const struct zt_view *from, *to;
    int last;
    int64_t stride[ZT_MAX_RANK]; /* of `from` */
};

/* The rows of `from` that one row of `to` reads: a place in the map of each outer axis. */
struct taps {
    int64_t first[ZT_MAX_RANK], end[ZT_MAX_RANK], at[ZT_MAX_RANK];
};

/* False where the row lies outside. */
static bool taps_start(const struct job *j, int64_t row, struct taps *t) {
    const struct plan *p = j->plan;
    for (int k = j->last - 1; k >= 0; k--) {
        int64_t i = row % p->to.dim[k];
        row /= p->to.dim[k];
        t->first[k] = t->at[k] = p->resized[k] ? p->map[k].begin[i] : i;
        t->end[k] = p->resized[k] ? p->map[k].begin[i + 1] : i + 1;
        if (t->first[k] == t->end[k])
            return false;
    }
    return true;
}

static bool taps_next(const struct job *j, struct taps *t) {
    for (int k = j->last - 1; k >= 0; k--) {
        if (++t->at[k] < t->end[k])
            return true;
        t->at[k] = t->first[k];
    }
    return false;
}

static int64_t taps_offset(const struct job *j, const struct taps *t, double *weight) {
    int64_t offset = 0;
    *weight = 1;
    for (int k = 0; k < j->last; k++) {
        const struct zt_resize_map *m = &j->plan->map[k];
        bool resized = j->plan->resized[k];
        offset += (resized ? m->index[t->at[k]] : t->at[k]) * j->stride[k];
        *weight *= resized ? m->weight[t->at[k]] : 1;
    }
    return offset;
}

/* acc[i] += weight * (the last axis' map applied to the row of `from` at `offset`)[at + i] */
static void add_row(const struct job *j, int64_t offset, double weight, int64_t at, int64_t count, double *acc) {
    const struct zt_resize_map *m = &j->plan->map[j->last];
    const float *floats = j->from->dtype == ZT_FLOAT ? (const float *)j->from->data + offset : NULL;
    if (!j->plan->resized[j->last]) {
        double block[ZT_ELEMENT_BLOCK];
        zt_load_block(j->from->dtype, j->from->data, offset + at, 1, count, block);
        for (int64_t i = 0; i < count; i++)
            acc[i] += weight * block[i];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t t = m->begin[at + i]; t < m->begin[at + i + 1]; t++)
            sum += m->weight[t] * (floats ? (double)floats[m->index[t]]
                                          : zt_load_double(j->from->dtype, j->from->data, offset + m->index[t]));
        acc[i] += weight * sum;
    }
}

/* Integers are rounded to the nearest one their type has. */
static void round_to_type(enum zt_dtype dtype, int64_t count, double *block) {
    int bits = 8 * (int)zt_dtype_bytes(dtype);
    bool sign = zt_dtype_in(dtype, ZT_ANY_SIGNED);
    double low = sign ? -ldexp(1, bits - 1) : 0, high = ldexp(1, sign ? bits - 1 : bits) - 1;
    for (int64_t i = 0; i < count; i++)
        block[i] = fmin(fmax(nearbyint(block[i]), low), high);
}

static void fill_outside(const struct job *j, int64_t at, int64_t count, double *acc) {
    const struct zt_resize_map *m = &j->plan->map[j->last];
    for (int64_t i = 0; i < count && j->plan->resized[j->last]; i++)
        if (m->begin[at + i] == m->begin[at + i + 1])
            acc[i] = j->plan->fill;
}

static void sum_row(const struct job *j, int64_t row) {
    int64_t length = j->plan->to.dim[j->last];
    struct taps t;
    bool inside = taps_start(j, row, &t);
    for (int64_t at = 0; at < length; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, length - at);
        double acc[ZT_ELEMENT_BLOCK], weight;
        for (int64_t i = 0; i < count; i++)
            acc[i] = inside ? 0 : j->plan->fill;
        if (inside) {
            do {
                int64_t offset = taps_offset(j, &t, &weight);
                add_row(j, offset, weight, at, count, acc);
            } while (taps_next(j, &t));
            fill_outside(j, at, count, acc);
        }
        if (zt_dtype_in(j->to->dtype, ZT_ANY_INT))
            round_to_type(j->to->dtype, count, acc);
        zt_store_block(j->to->dtype, j->to->data, row * length + at, 1, count, acc);
    }
}

#define GATHER(type)                                                                                                   \
    do {                                                                                                               \
        type *to = (type *)j->to->data + row * length;                                                                 \
        const type *from = (const type *)j->from->data + offset;                                                       \
        for (int64_t i = 0; i < length; i++)                                                                           \
            to[i] = from[m->begin ? m->index[m->begin[i]] : i];                                                        \
    } while (0)

/* A row whose elements each are a copy of one. Places outside copy one too, and are filled after. */
static void gather_row(const struct job *j, int64_t row) {
    const struct zt_resize_map *m = &j->plan->map[j->last];
    int64_t length = j->plan->to.dim[j->last];
    struct taps t;
    double weight;
    bool inside = taps_start(j, row, &t);
    int64_t offset = inside ? taps_offset(j, &t, &weight) : 0;
    size_t bytes = zt_dtype_bytes(j->to->dtype);
    if (inside && bytes == 4)
        GATHER(uint32_t);
    else if (inside && bytes == 8)
        GATHER(uint64_t);
    else if (inside && bytes == 2)
        GATHER(uint16_t);
    else if (inside)
        GATHER(uint8_t);
    for (int64_t i = 0; i < length; i++)
        if (!inside || (m->begin && m->begin[i] == m->begin[i + 1]))
            zt_store_double(j->to->dtype, j->to->data, row * length + i, j->plan->fill);
}

static void run_row(void *arg, int64_t row) {
    const struct job *j = arg;
    (j->plan->gather ? gather_row : sum_row)(j, row);
}

bool zt_resize_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *p = call->state;
    struct job j = { p, &call->in[0], &call->out[0], p->to.rank - 1, { 0 } };
    int64_t count = zt_shape_count(&p->to);
    if (count == 0)
        return true;
    zt_shape_strides(&p->from, j.stride);
    if (zt_shape_count(&p->from) == 0) { /* the gradient of a result without elements */
        memset(j.to->data, 0, (size_t)count * zt_dtype_bytes(j.to->dtype));
        return true;
    }
    zt_parallel_for(zt_threads_worth(call->threads, 4.0 * (double)count), count / p->to.dim[j.last], run_row, &j);
    return true;
}
