#include "plan/job/frozen.h"

#include "base/vec.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct zt_frozen {
    pthread_mutex_t lock;
    struct zt_arena *arena;
    bool defers;
    struct zt_map copies[ZT_DTYPES]; /* by dtype: weight name -> index in `at` */
    const void **at;
    int count, room;
    struct zt_map known; /* weight name -> index in `sources` */
    ZT_VEC(struct zt_frozen_source) sources;
};

struct zt_frozen *zt_frozen_create(bool defers) {
    struct zt_frozen *f = zt_calloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    f->arena = zt_arena_create();
    f->defers = defers;
    return f;
}

void zt_frozen_destroy(struct zt_frozen *f) {
    if (!f)
        return;
    for (int t = 0; t < ZT_DTYPES; t++)
        zt_map_finish(&f->copies[t]);
    zt_map_finish(&f->known);
    zt_vec_finish(&f->sources);
    pthread_mutex_destroy(&f->lock);
    zt_arena_destroy(f->arena);
    free(f->at);
    free(f);
}

static uint16_t to_half(float x, enum zt_dtype dtype) {
    return dtype == ZT_FLOAT16 ? zt_float_to_half(x) : zt_float_to_bfloat(x);
}

/* Element i at any address. */
static float load(const struct zt_frozen_source *source, int64_t i) {
    const size_t bytes = zt_dtype_bytes(source->dtype);
    char element[16];
    memcpy(element, (const char *)source->data + (size_t)i * bytes, bytes);
    return (float)zt_load_double(source->dtype, element, 0);
}

void zt_frozen_convert(const struct zt_frozen_source *source, int64_t first, int64_t count, enum zt_dtype dtype,
                       void *to) {
    const size_t bytes = zt_dtype_bytes(dtype);
    if (dtype == source->dtype) {
        memcpy(to, (const char *)source->data + (size_t)first * bytes, (size_t)count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const float x = load(source, first + i);
        if (zt_dtype_is_half(dtype))
            ((uint16_t *)to)[i] = to_half(x, dtype);
        else
            zt_store_double(dtype, to, i, (double)x);
    }
}

static const void *make(struct zt_frozen *f, const struct zt_value *w, enum zt_dtype dtype) {
    const int64_t count = zt_shape_count(&w->shape);
    void *to = zt_arena_alloc(f->arena, (size_t)count * zt_dtype_bytes(dtype));
    zt_frozen_convert(&(struct zt_frozen_source){ w->data, w->dtype }, 0, count, dtype, to);
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

static bool fits(const struct zt_value *w, enum zt_dtype dtype) {
    return !w->data || (w->dtype == dtype && (uintptr_t)w->data % zt_dtype_bytes(dtype) == 0);
}

/* The copy of the process, which is made where there is none. */
static const void *share(struct zt_frozen *f, const struct zt_value *w, enum zt_dtype dtype) {
    if (fits(w, dtype))
        return w->data;
    pthread_mutex_lock(&f->lock);
    if (zt_map_get(&f->copies[dtype], w->name, -1) < 0)
        keep(f, w->name, dtype, make(f, w, dtype));
    const void *data = f->at[zt_map_get(&f->copies[dtype], w->name, -1)];
    pthread_mutex_unlock(&f->lock);
    return data;
}

static bool is_deferred(const struct zt_frozen *f, const struct zt_value *w) {
    return f->defers && w->shape.rank >= 2;
}

const void *zt_frozen_contents(void *frozen, const struct zt_value *w, enum zt_dtype dtype) {
    struct zt_frozen *f = frozen;
    return is_deferred(f, w) && w->dtype != dtype ? NULL : share(f, w, dtype);
}

void zt_frozen_align(struct zt_frozen *f, struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            struct zt_value *v = g->nodes[n]->in[i] < 0 ? NULL : g->values[g->nodes[n]->in[i]];
            if (v && v->origin == ZT_FROM_INITIALIZER && zt_value_is_frozen(v) && !is_deferred(f, v))
                v->data = zt_frozen_contents(f, v, v->dtype);
        }
}

void zt_frozen_settle(struct zt_frozen *f, struct zt_graph *g, const bool *shared_out) {
    for (int v = 0; f->defers && v < g->value_count; v++) {
        struct zt_value *value = g->values[v];
        if (!zt_value_is_frozen(value) || !is_deferred(f, value) || (shared_out && shared_out[v]))
            continue;
        const struct zt_frozen_source source = zt_frozen_source(f, value);
        struct zt_value stored = *value;
        stored.name = value->frozen_of ? value->frozen_of : value->name;
        stored.dtype = source.dtype;
        stored.data = source.data;
        value->data = share(f, &stored, value->dtype);
    }
}

void zt_frozen_know(struct zt_frozen *f, const struct zt_value *w) {
    if (!is_deferred(f, w))
        return;
    pthread_mutex_lock(&f->lock);
    if (zt_map_get(&f->known, w->name, -1) < 0) {
        zt_map_put(&f->known, zt_arena_strdup(f->arena, w->name), f->sources.count);
        zt_vec_push(&f->sources, ((struct zt_frozen_source){ w->data, w->dtype }));
    }
    pthread_mutex_unlock(&f->lock);
}

struct zt_frozen_source zt_frozen_source(struct zt_frozen *f, const struct zt_value *v) {
    struct zt_frozen_source source = { v->data, v->dtype };
    pthread_mutex_lock(&f->lock);
    const int known = zt_map_get(&f->known, v->frozen_of ? v->frozen_of : v->name, -1);
    if (known >= 0)
        source = f->sources.at[known];
    pthread_mutex_unlock(&f->lock);
    return source;
}
