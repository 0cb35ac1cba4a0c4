/* AttributeProto to zt_attr: the declared type decides which field is read, and no other may be there. */
#include "graph/onnx/attribute.h"

#include "graph/onnx/type.h"

#include <stdlib.h>
#include <string.h>

/* An attribute type of ONNX: its name, and the type in the graph. */
struct kind {
    const char *name;
    enum zt_attr_type type;
};

enum { KINDS = 15 };

static const struct kind kinds[KINDS] = {
    [1] = { "FLOAT", ZT_ATTR_FLOAT },
    [2] = { "INT", ZT_ATTR_INT },
    [3] = { "STRING", ZT_ATTR_STRING },
    [4] = { "TENSOR", ZT_ATTR_TENSOR },
    [5] = { "GRAPH", ZT_ATTR_GRAPH },
    [6] = { "FLOATS", ZT_ATTR_FLOATS },
    [7] = { "INTS", ZT_ATTR_INTS },
    [8] = { "STRINGS", ZT_ATTR_STRINGS },
    [9] = { "TENSORS", ZT_ATTR_OTHER },
    [10] = { "GRAPHS", ZT_ATTR_OTHER },
    [11] = { "SPARSE_TENSOR", ZT_ATTR_TENSOR },
    [12] = { "SPARSE_TENSORS", ZT_ATTR_OTHER },
    [13] = { "TYPE_PROTO", ZT_ATTR_TYPE },
    [14] = { "TYPE_PROTOS", ZT_ATTR_OTHER },
};

/* Bit k: the field that an attribute of type number k uses is set. */
static unsigned fields_set(const Onnx__AttributeProto *a) {
    return (a->has_f ? 1u << 1 : 0) | (a->has_i ? 1u << 2 : 0) | (a->has_s ? 1u << 3 : 0) | (a->t ? 1u << 4 : 0) |
           (a->g ? 1u << 5 : 0) | (a->n_floats ? 1u << 6 : 0) | (a->n_ints ? 1u << 7 : 0) |
           (a->n_strings ? 1u << 8 : 0) | (a->n_tensors ? 1u << 9 : 0) | (a->n_graphs ? 1u << 10 : 0) |
           (a->sparse_tensor ? 1u << 11 : 0) | (a->n_sparse_tensors ? 1u << 12 : 0) | (a->tp ? 1u << 13 : 0) |
           (a->n_type_protos ? 1u << 14 : 0);
}

/* Numbers and texts may be missing: a writer without field presence leaves zeros and empty texts out. So may all in a
 * reference to a parameter. */
static bool check_type(const Onnx__AttributeProto *a, bool refers, struct zt_err *err) {
    unsigned set = fields_set(a), must = 1u << 4 | 1u << 5 | 1u << 11 | 1u << 13;
    if (a->type <= 0 || a->type >= KINDS)
        return zt_fail(err, ZT_EXIT_MODEL, "attribute %s has type %d, wants 1 to %d", a->name, (int)a->type, KINDS - 1);
    for (int k = 1; k < KINDS; k++)
        if (set >> k & 1 && k != a->type)
            return zt_fail(err, ZT_EXIT_MODEL, "attribute %s has type %s but holds %s", a->name, kinds[a->type].name,
                           kinds[k].name);
    if (must >> a->type & 1 && !set && !refers)
        return zt_fail(err, ZT_EXIT_MODEL, "attribute %s has type %s but holds nothing", a->name, kinds[a->type].name);
    return true;
}

static const char *text_of(struct zt_arena *arena, const ProtobufCBinaryData *bytes) {
    return zt_arena_strndup(arena, (const char *)bytes->data, bytes->len);
}

static const char *const *texts_of(struct zt_arena *arena, const Onnx__AttributeProto *a) {
    const char **list = ZT_NEW_N(arena, const char *, a->n_strings);
    for (size_t i = 0; i < a->n_strings; i++)
        list[i] = text_of(arena, &a->strings[i]);
    return list;
}

bool zt_onnx_attr(struct zt_onnx_file *file, struct zt_arena *arena, const struct zt_onnx_attr_source *from,
                  struct zt_attr *attr, struct zt_err *err) {
    const Onnx__AttributeProto *a = from->proto;
    if (!a->name || !a->name[0])
        return zt_fail(err, ZT_EXIT_MODEL, "an attribute has no name");
    bool refers = a->ref_attr_name && a->ref_attr_name[0];
    if (refers && !from->in_function)
        return zt_fail(err, ZT_EXIT_MODEL,
                       "attribute %s refers to attribute %s of a function, but is not in a function", a->name,
                       a->ref_attr_name);
    if (!check_type(a, refers, err))
        return false;
    *attr =
        (struct zt_attr){ .name = zt_arena_strdup(arena, a->name), .type = kinds[a->type].type, .f = a->f, .i = a->i };
    if (refers) {
        attr->ref = zt_arena_strdup(arena, a->ref_attr_name);
        return true;
    }
    attr->s = text_of(arena, &a->s);
    attr->floats = zt_arena_copy(arena, a->floats, a->n_floats * sizeof *a->floats);
    attr->ints = zt_arena_copy(arena, a->ints, a->n_ints * sizeof *a->ints);
    attr->strings = texts_of(arena, a);
    attr->count = (int)(a->n_floats + a->n_ints + a->n_strings); /* at most one of them */
    attr->list = zt_onnx_list_type(arena, a->tp);
    if (a->tp && a->tp->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        zt_onnx_storage(a->tp->tensor_type->elem_type))
        attr->tensor.dtype = (enum zt_dtype)a->tp->tensor_type->elem_type;
    const char *where = zt_arena_printf(arena, "attribute %s", a->name);
    if (a->sparse_tensor)
        return zt_onnx_sparse(file, from->tensor_message, a->sparse_tensor, where, &attr->tensor, err);
    return attr->type != ZT_ATTR_TENSOR || zt_onnx_tensor(file, from->tensor_message, a->t, where, &attr->tensor, err);
}
