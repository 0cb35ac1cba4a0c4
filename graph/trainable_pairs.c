/* Initializers with the same contents, or one the transpose of the other. A sum of hashes of the elements does not
 * depend on their order, so tensors that may be equal meet in a sort by it, and only those are compared. */
#include "graph/trainable.h"

#include "base/map.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    int value;
    uint64_t hash;
};

static const unsigned char *element(const struct zt_value *v, int64_t i) {
    return (const unsigned char *)v->data + (size_t)i * zt_dtype_bytes(v->dtype);
}

static bool is_uniform(const struct zt_value *v, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        if (memcmp(element(v, i), element(v, 0), zt_dtype_bytes(v->dtype)) != 0)
            return false;
    return true;
}

static uint64_t unordered_hash(const struct zt_value *v, int64_t count) {
    uint64_t sum = zt_hash(ZT_HASH_START, &v->dtype, sizeof v->dtype);
    for (int64_t i = 0; i < count; i++)
        sum += zt_hash(ZT_HASH_START, element(v, i), zt_dtype_bytes(v->dtype));
    return sum;
}

static int by_hash(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->value - y->value;
}

static bool is_transpose(const struct zt_value *a, const struct zt_value *b) {
    int64_t rows = a->shape.dim[0], columns = a->shape.dim[1];
    if (a->shape.rank != 2 || b->shape.rank != 2 || b->shape.dim[0] != columns || b->shape.dim[1] != rows)
        return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            if (memcmp(element(a, r * columns + c), element(b, c * rows + r), zt_dtype_bytes(a->dtype)) != 0)
                return false;
    return true;
}

static bool is_equal(const struct zt_value *a, const struct zt_value *b) {
    size_t bytes = (size_t)zt_shape_count(&a->shape) * zt_dtype_bytes(a->dtype);
    return zt_shape_equal(&a->shape, &b->shape) && memcmp(a->data, b->data, bytes) == 0;
}

bool zt_trainable_same(const struct zt_value *a, const struct zt_value *b, bool transposed) {
    return a->data && b->data && a->dtype == b->dtype && (transposed ? is_transpose(a, b) : is_equal(a, b));
}

int zt_trainable_pairs(const struct zt_graph *g, struct zt_trainable_pair **pairs) {
    ZT_VEC(struct candidate) found = { 0 };
    ZT_VEC(struct zt_trainable_pair) list = { 0 };
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        int64_t count = zt_shape_count(&v->shape);
        if (v->origin == ZT_FROM_INITIALIZER && v->data && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && v->shape.rank >= 2 &&
            !is_uniform(v, count))
            zt_vec_push(&found, (struct candidate){ i, unordered_hash(v, count) });
    }
    if (found.count)
        qsort(found.at, (size_t)found.count, sizeof *found.at, by_hash);
    for (int i = 1; i < found.count; i++) {
        int a = found.at[i - 1].value, b = found.at[i].value;
        if (found.at[i - 1].hash != found.at[i].hash || g->values[a]->dtype != g->values[b]->dtype)
            continue;
        bool equal = is_equal(g->values[a], g->values[b]);
        if (equal || is_transpose(g->values[a], g->values[b]))
            zt_vec_push(&list, (struct zt_trainable_pair){ a, b, !equal });
    }
    int count = list.count;
    *pairs = zt_arena_copy(g->arena, list.at, (size_t)count * sizeof *list.at);
    zt_vec_finish(&found);
    zt_vec_finish(&list);
    return count;
}
