#include "plan/job/frozen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct zt_frozen {
    pthread_mutex_t lock;
    struct zt_arena *arena;
    struct zt_map copies[ZT_DTYPES]; /* by dtype: weight name -> index in `at` */
    const void **at;
    int count, room;
};

struct zt_frozen *zt_frozen_create(void) {
    struct zt_frozen *f = zt_calloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    f->arena = zt_arena_create();
    return f;
}

void zt_frozen_destroy(struct zt_frozen *f) {
    if (!f)
        return;
    for (int t = 0; t < ZT_DTYPES; t++)
        zt_map_finish(&f->copies[t]);
    pthread_mutex_destroy(&f->lock);
    zt_arena_destroy(f->arena);
    free(f->at);
    free(f);
}

static uint16_t to_half(float x, enum zt_dtype dtype) {
    return dtype == ZT_FLOAT16 ? zt_float_to_half(x) : zt_float_to_bfloat(x);
}

static float from_half(uint16_t x, enum zt_dtype dtype) {
    return dtype == ZT_FLOAT16 ? zt_half_to_float(x) : zt_bfloat_to_float(x);
}

/* The file may hold elements at any address. */
static void convert(const struct zt_value *w, enum zt_dtype dtype, uint16_t *to) {
    const char *from = w->data;
    const int64_t count = zt_shape_count(&w->shape);
    const bool half = zt_dtype_is_half(w->dtype);
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        float x;
        if (half) {
            memcpy(&bits, from + i * (int64_t)sizeof bits, sizeof bits);
            x = from_half(bits, w->dtype);
        } else {
            memcpy(&x, from + i * (int64_t)sizeof x, sizeof x);
        }
        to[i] = to_half(x, dtype);
    }
}

static const void *make(struct zt_frozen *f, const struct zt_value *w, enum zt_dtype dtype) {
    const size_t bytes = (size_t)zt_shape_count(&w->shape) * zt_dtype_bytes(dtype);
    if (w->dtype == dtype)
        return zt_arena_copy(f->arena, w->data, bytes);
    void *to = zt_arena_alloc(f->arena, bytes);
    convert(w, dtype, to);
    return to;
}

static void keep(struct zt_frozen *f, const char *name, enum zt_dtype dtype, const void *data) {
    if (f->count == f->room) {
        f->room = f->room ? 2 * f->room : 64;
        f->at = zt_realloc(f->at, (size_t)f->room * sizeof *f->at);
    }
    zt_map_put(&f->copies[dtype], zt_arena_strdup(f->arena, name), f->count);
    f->at[f->count++] = data;
}

const void *zt_frozen_contents(void *frozen, const struct zt_value *w, enum zt_dtype dtype) {
    struct zt_frozen *f = frozen;
    if (!w->data || (w->dtype == dtype && (uintptr_t)w->data % zt_dtype_bytes(dtype) == 0))
        return w->data;
    pthread_mutex_lock(&f->lock);
    if (zt_map_get(&f->copies[dtype], w->name, -1) < 0)
        keep(f, w->name, dtype, make(f, w, dtype));
    const void *data = f->at[zt_map_get(&f->copies[dtype], w->name, -1)];
    pthread_mutex_unlock(&f->lock);
    return data;
}

void zt_frozen_align(struct zt_frozen *f, struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            struct zt_value *v = g->nodes[n]->in[i] < 0 ? NULL : g->values[g->nodes[n]->in[i]];
            if (v && v->origin == ZT_FROM_INITIALIZER && zt_value_is_frozen(v))
                v->data = zt_frozen_contents(f, v, v->dtype);
        }
}
