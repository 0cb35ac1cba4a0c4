/* Resize, Upsample and their gradient on CUDA. The host computes the maps of the axes (ops/resample/resize.h),
 * transposed for the gradient; they stay in device memory as long as the node. Axes have the memory order of the
 * tensors, plain or channels last; adjacent axes that are not resized are merged. */
#include "ops/cuda/describe.h"
#include "ops/resample/launch_resize.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/resample/resize.h"

#include <stdlib.h>
#include <string.h>

struct resize {
    struct zt_device *device;
    struct zt_launch_resize launch;
    void *maps; /* in device memory */
    size_t bytes;
};

static void release(void *state) {
    struct resize *s = state;
    if (s && s->maps)
        s->device->api->free(s->device, s->maps, s->bytes);
    free(s);
}

/* ---- maps: [ begin of each axis, index of each axis, weight of each axis ], 4 bytes a number ---- */

struct host_maps {
    struct zt_resize_map of[ZT_MAX_RANK]; /* empty: the identity */
    int32_t *numbers;
    int64_t used;
};

static int64_t entries_of(const struct zt_resize_map *m, int64_t size) {
    return m->block ? m->begin[size] : size;
}

/* From y to x where transposed. */
static bool make_map(const struct zt_resize *r, int axis, bool transposed, struct zt_resize_map *to,
                     struct zt_err *err) {
    struct zt_resize_map forward;
    if (!transposed)
        return zt_resize_map_init(r, axis, to, err);
    if (!zt_resize_map_init(r, axis, &forward, err))
        return false;
    bool made = zt_resize_map_transpose(&forward, r->y.dim[axis], r->x.dim[axis], to, err);
    zt_resize_map_finish(&forward);
    return made;
}

/* Axes of the launch in the order `axis`; adjacent axes that are not resized are merged. */
static bool make_axes(const struct zt_resize *r, const int *axis, bool transposed, struct zt_launch_resize *l,
                      struct host_maps *maps, struct zt_err *err) {
    const struct zt_shape *from = transposed ? &r->y : &r->x, *to = transposed ? &r->x : &r->y;
    for (int i = 0; i < r->x.rank; i++) {
        const int k = axis[i];
        const bool folds = i > 0 && !r->resized[k] && !r->resized[axis[i - 1]];
        const int at = folds ? l->rank - 1 : l->rank++;
        l->from[at] = (folds ? l->from[at] : 1) * from->dim[k];
        l->to[at] = (folds ? l->to[at] : 1) * to->dim[k];
        if (r->resized[k] && !make_map(r, k, transposed, &maps->of[at], err))
            return false;
    }
    return true;
}

static void put_axis(struct host_maps *maps, const struct zt_resize_map *m, int64_t size, int64_t at[3]) {
    const int64_t entries = entries_of(m, size);
    int32_t *begin = maps->numbers + maps->used, *index = begin + size + 1;
    float *weight = (float *)(index + entries);
    at[0] = maps->used, at[1] = at[0] + size + 1, at[2] = at[1] + entries;
    for (int64_t o = 0; o <= size; o++)
        begin[o] = (int32_t)(m->block ? m->begin[o] : o);
    for (int64_t t = 0; t < entries; t++) {
        index[t] = (int32_t)(m->block ? m->index[t] : t);
        weight[t] = m->block ? (float)m->weight[t] : 1;
    }
    maps->used = at[2] + entries;
}

/* Writes the maps on the host and copies them to the device. Waits, since the host memory is freed next. */
static bool upload(struct resize *s, struct host_maps *maps, struct zt_err *err) {
    const struct zt_device_api *api = s->device->api;
    struct zt_launch_resize *l = &s->launch;
    int64_t numbers = 0, at[ZT_MAX_RANK][3];
    for (int k = 0; k < l->rank; k++)
        numbers += l->to[k] + 1 + 2 * entries_of(&maps->of[k], l->to[k]);
    s->bytes = (size_t)numbers * sizeof(int32_t);
    maps->numbers = zt_malloc(s->bytes);
    for (int k = 0; k < l->rank; k++)
        put_axis(maps, &maps->of[k], l->to[k], at[k]);
    s->maps = api->allocate(s->device, s->bytes, "the weights of a resized axis", err);
    bool good =
        s->maps && api->to_device(s->device, s->maps, maps->numbers, s->bytes, err) && api->synchronize(s->device, err);
    for (int k = 0; k < l->rank; k++) {
        l->begin[k] = (const int32_t *)s->maps + at[k][0];
        l->index[k] = (const int32_t *)s->maps + at[k][1];
        l->weight[k] = (const float *)s->maps + at[k][2];
    }
    free(maps->numbers);
    return good;
}

static bool prepare(struct zt_prepare *p, bool transposed, struct zt_err *err) {
    struct zt_resize r;
    struct host_maps maps = { 0 };
    int axis[ZT_MAX_RANK];
    if (!zt_resize_read(p->graph, p->node, &r, err))
        return false;
    struct resize *s = zt_calloc(1, sizeof *s);
    zt_layout_alike(p, 1, 1);
    zt_layout_axes(p->in_layout[0] ? p->in_layout[0] : p->out_layout[0], r.x.rank, axis);
    s->device = p->device;
    s->launch.fill = transposed ? 0 : (float)r.extrapolation;
    bool made = make_axes(&r, axis, transposed, &s->launch, &maps, err) && upload(s, &maps, err);
    for (int k = 0; k < s->launch.rank; k++)
        zt_resize_map_finish(&maps.of[k]);
    if (made)
        p->state = s;
    else
        release(s);
    return made;
}

static bool forward_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct resize *s = call->state;
    int code = zt_launch_resize(zt_stream_of(call), call->in[0].dtype, &s->launch, call->in[0].data, call->out[0].data);
    return zt_launched(call, code, err);
}

const struct zt_kernel zt_kernel_resize_cuda = {
    .prepare = forward_prepare, .layouts = true, .run = run, .release = release
};
const struct zt_kernel zt_kernel_resize_grad_cuda = {
    .prepare = grad_prepare, .layouts = true, .run = run, .release = release
};
