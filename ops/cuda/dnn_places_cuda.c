#include "ops/cuda/dnn_places_cuda.h"

#include "ops/cuda/describe.h"

#include "device/cuda.h"

/* Whether a node computed the value, so that the memory plan aligned it. */
static bool is_computed(const struct zt_graph *g, int value) {
    const struct zt_value *v = g->values[value];
    while (v->origin == ZT_FROM_NODE && v->producer >= 0 && g->nodes[v->producer]->op->flags & ZT_OP_VIEW)
        v = g->values[g->nodes[v->producer]->in[0]];
    return v->origin == ZT_FROM_NODE;
}

bool zt_dnn_is_placed(const void *data) {
    return (uintptr_t)data % ZT_DNN_ALIGNMENT == 0;
}

bool zt_dnn_bring(struct zt_device *device, void **data, void *room, size_t bytes, struct zt_err *err) {
    if (zt_dnn_is_placed(*data))
        return true;
    bool copied = device->api->copy(device, room, *data, bytes, err);
    *data = room;
    return copied;
}

const struct zt_dnn *zt_path_dnn(struct zt_prepare *p, const struct zt_dnn_graph *graph) {
    struct zt_err why = { 0 };
    const struct zt_dnn *dnn = zt_dnn_get(p->device, graph, &why);
    p->path =
        dnn ? (struct zt_path){ "cuDNN", NULL } : zt_path_own(zt_arena_printf(p->graph->arena, "%s", why.text[0]));
    return dnn;
}

void zt_path_misplaced(const struct zt_call *call) {
    if (call->path)
        *call->path = zt_path_own("a tensor lies at no multiple of 16 bytes");
}

size_t zt_dnn_room(size_t *to, size_t bytes) {
    const size_t at = *to;
    *to += zt_room_cuda(bytes);
    return at;
}

void zt_dnn_rooms(const struct zt_prepare *p, struct zt_dnn_place *places, int count, size_t *to) {
    const struct zt_node *n = p->graph->nodes[p->node];
    for (struct zt_dnn_place *place = places; place < places + count; place++) {
        const struct zt_value *v =
            place->out < 0 ? zt_in(p->graph, p->node, place->in) : zt_out(p->graph, p->node, place->out);
        if (!v || place->in < 0 || is_computed(p->graph, n->in[place->in]))
            continue;
        place->bytes = (size_t)zt_value_bytes(v);
        place->at = zt_dnn_room(to, place->bytes);
    }
}

/* NULL: the tensor is absent. */
static void *data_of(const struct zt_call *call, const struct zt_dnn_place *place) {
    if (place->out >= 0)
        return place->out < call->out_count ? call->out[place->out].data : NULL;
    return place->in < call->in_count ? call->in[place->in].data : NULL;
}

bool zt_dnn_gather(const struct zt_call *call, const struct zt_dnn_place *places, int count, void **data,
                   struct zt_err *err) {
    for (const struct zt_dnn_place *place = places; place < places + count; place++) {
        void *room = (char *)call->workspace + place->at, *at = data_of(call, place);
        if (at && !zt_dnn_is_placed(at) && !place->bytes)
            return zt_fail(err, ZT_EXIT_RUN, "%s: a tensor that a node computed lies at no multiple of %d",
                           call->node->name, ZT_DNN_ALIGNMENT);
        if (at && !zt_dnn_is_placed(at) && place->out >= 0)
            at = room;
        else if (at && !zt_dnn_bring(call->device, &at, room, place->bytes, err))
            return false;
        data[place->tensor] = at ? at : data[place->tensor];
    }
    return true;
}

bool zt_dnn_scatter(const struct zt_call *call, const struct zt_dnn_place *places, int count, void *const *data,
                    struct zt_err *err) {
    for (const struct zt_dnn_place *place = places; place < places + count; place++) {
        void *to = place->out >= 0 ? data_of(call, place) : NULL;
        if (to && to != data[place->tensor] &&
            !call->device->api->copy(call->device, to, data[place->tensor], place->bytes, err))
            return false;
    }
    return true;
}
