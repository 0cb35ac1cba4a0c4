#include "graph/onnx/type.h"

#include "graph/onnx/file.h"

/* The type of the elements of a sequence or optional; NULL: another type, or none declared. */
static const Onnx__TypeProto *element(const Onnx__TypeProto *type, int which) {
    if (!type || (int)type->value_case != which)
        return NULL;
    return which == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ? type->sequence_type->elem_type
                                                          : type->optional_type->elem_type;
}

const struct zt_list *zt_onnx_list_type(struct zt_arena *arena, const Onnx__TypeProto *type) {
    const Onnx__TypeProto *inner = element(type, ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE);
    struct zt_list list = { .kind = inner ? ZT_OPTIONAL : ZT_SEQUENCE, .count = -1 };
    if (!inner || inner->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
        list.of_sequence = inner != NULL;
        inner = element(inner ? inner : type, ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE);
    }
    if (!inner || inner->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return NULL;
    const int32_t dtype = inner->tensor_type->elem_type;
    if (dtype && !zt_onnx_storage(dtype))
        return NULL;
    list.dtype = (enum zt_dtype)dtype;
    return zt_arena_copy(arena, &list, sizeof list);
}
