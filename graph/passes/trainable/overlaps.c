/* Parameters of which the exporter stored parts, or one part several times: slices, shifted or turned copies, copies
 * joined with something else. Of every tensor some elements are sought in all others; one is found where its neighbour
 * along some axis is a neighbour there, too, so that numbers that are equal by chance do not count. */
#include "graph/passes/trainable/trainable.h"

#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"

#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 32, /* elements of a tensor that are sought */
    LEAST = 8,    /* elements that a tensor must have for it */
    FILTER = 17,  /* log2 of the bits of the filter that most elements do not pass */
    CHAIN = 16,   /* samples of a slot: what is frequent tells nothing, and a file must not make the search long */
    MOST = 100,   /* that are reported */
};

struct sample {
    uint64_t bits; /* of the element */
    int tensor;    /* in the list of tensors */
    int number;    /* among its samples */
    int64_t at;
    int next; /* of the same slot, -1: none */
};

struct tensor {
    const struct zt_value *value;
    int64_t count, step[ZT_MAX_RANK];
    bool folded; /* made by the exporter */
    int samples;
    uint32_t found; /* samples that were found in the tensor that is read */
};

struct search {
    ZT_VEC(struct tensor) tensors;
    ZT_VEC(struct sample) samples;
    ZT_VEC(int) touched; /* tensors of which samples were found in the one that is read */
    int *slots;          /* 1 << FILTER first samples, -1: none */
    uint64_t *filter;    /* a bit for each slot that has samples, for the first cache */
};

/* Inlined with `bytes`, those of an element, known. */
static inline uint64_t load(const struct zt_value *v, size_t bytes, int64_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)v->data + (size_t)i * bytes, bytes);
    return bits;
}

static uint64_t bits_of(const struct zt_value *v, int64_t i) {
    return load(v, zt_dtype_bytes(v->dtype), i);
}

static inline size_t slot_of(uint64_t bits) {
    return (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER));
}

/* Whole numbers and their like are equal in many tensors. */
static bool is_round(const struct zt_value *v, int64_t i) {
    const double x = zt_constant_at(v, i) * 1024;
    return x == floor(x);
}

static bool is_folded(const struct zt_onnx *model, const struct zt_value *v) {
    if (zt_writer_of(model) == ZT_WRITER_TENSORFLOW)
        return !zt_writer_names_parameter(ZT_WRITER_TENSORFLOW, v->name);
    return zt_torch_is_made(model, v) || (!zt_torch_is_script(model) && v->torch_folded_from);
}

static void add_tensor(struct search *s, const struct zt_onnx *model, const struct zt_value *v) {
    struct tensor t = { .value = v, .count = zt_shape_count(&v->shape), .folded = is_folded(model, v) };
    zt_shape_strides(&v->shape, t.step);
    const int wanted = t.count < SAMPLES ? (int)t.count : SAMPLES, index = s->tensors.count;
    for (int i = 0; i < wanted; i++) {
        const int64_t at = t.count * i / wanted;
        if (is_round(v, at))
            continue;
        const uint64_t bits = bits_of(v, at);
        const size_t place = slot_of(bits);
        int *slot = &s->slots[place], length = 0;
        for (int k = *slot; k >= 0; k = s->samples.at[k].next)
            length++;
        if (length >= CHAIN)
            continue;
        zt_vec_push(&s->samples, (struct sample){ bits, index, t.samples++, at, *slot });
        *slot = s->samples.count - 1;
        s->filter[place / 64] |= UINT64_C(1) << place % 64;
    }
    zt_vec_push(&s->tensors, t);
}

/* The element beside element i along an axis, in the direction of `sign`; -1: none. */
static int64_t beside(const struct tensor *t, int64_t i, int axis, int sign) {
    const int64_t place = i / t->step[axis] % t->value->shape.dim[axis] + sign;
    return place < 0 || place >= t->value->shape.dim[axis] ? -1 : i + sign * t->step[axis];
}

/* Whether some neighbour of element i of a is one of element j of b. */
static bool have_common_neighbours(const struct tensor *a, int64_t i, const struct tensor *b, int64_t j) {
    for (int axis = 0; axis < a->value->shape.rank; axis++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int64_t near = beside(a, i, axis, sign);
            if (near < 0 || is_round(a->value, near))
                continue;
            const uint64_t wanted = bits_of(a->value, near);
            for (int other = 0; other < b->value->shape.rank; other++)
                for (int side = -1; side <= 1; side += 2) {
                    const int64_t at = beside(b, j, other, side);
                    if (at >= 0 && bits_of(b->value, at) == wanted)
                        return true;
                }
        }
    return false;
}

/* Whether element j of tensor b, whose bits are given, is one of the samples. */
static void seek(struct search *s, int b, int64_t j, uint64_t bits) {
    const struct tensor *in = &s->tensors.at[b];
    for (int k = s->slots[slot_of(bits)]; k >= 0; k = s->samples.at[k].next) {
        const struct sample *sample = &s->samples.at[k];
        struct tensor *t = &s->tensors.at[sample->tensor];
        if (sample->bits == bits && (sample->tensor != b || sample->at != j) && (t->folded || in->folded) &&
            t->value->dtype == in->value->dtype && have_common_neighbours(t, sample->at, in, j)) {
            if (!t->found)
                zt_vec_push(&s->touched, sample->tensor);
            t->found |= UINT32_C(1) << sample->number;
        }
    }
}

/* Inlined with `bytes` known. */
static inline __attribute__((always_inline)) void read_elements(struct search *s, int b, size_t bytes) {
    const struct zt_value *v = s->tensors.at[b].value;
    const uint64_t *filter = s->filter;
    for (int64_t j = 0, count = s->tensors.at[b].count; j < count; j++) {
        const uint64_t bits = load(v, bytes, j);
        const size_t place = slot_of(bits);
        if (filter[place / 64] >> place % 64 & 1)
            seek(s, b, j, bits);
    }
}

/* Seeks the samples of all tensors in tensor b. */
static void read_tensor(struct search *s, int b) {
    switch (zt_dtype_bytes(s->tensors.at[b].value->dtype)) {
    case 2:
        read_elements(s, b, 2);
        break;
    case 4:
        read_elements(s, b, 4);
        break;
    default:
        read_elements(s, b, 8);
    }
}

/* Copies of the whole are zt_trainable_pairs(). */
static bool is_whole(const struct zt_value *a, const struct zt_value *b) {
    int64_t perm[ZT_TIE_RANK];
    return a != b && (zt_trainable_same(a, b, NULL) || zt_trainable_find_perm(a, b, perm));
}

/* Some of the samples are enough: their neighbours agree. */
static bool is_part(const struct tensor *a, const struct tensor *of) {
    const int found = __builtin_popcount(a->found);
    return a->samples >= LEAST && found > 1 && 8 * found >= a->samples && !is_whole(a->value, of->value);
}

static bool is_known(const struct zt_trainable_overlap *list, int count, int a, int b) {
    for (int i = 0; i < count; i++)
        if (list[i].a == a && list[i].b == b)
            return true;
    return false;
}

static bool may_overlap(const struct zt_value *v) {
    return v->origin == ZT_FROM_INITIALIZER && v->trainable && v->data && v->shape.rank >= 2 &&
           zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && zt_shape_count(&v->shape) >= LEAST;
}

static bool has_folded(const struct zt_onnx *model, const struct zt_graph *g) {
    for (int i = 0; i < g->value_count; i++)
        if (may_overlap(g->values[i]) && is_folded(model, g->values[i]))
            return true;
    return false;
}

int zt_trainable_overlaps(const struct zt_onnx *model, const struct zt_graph *g, struct zt_trainable_overlap **list) {
    ZT_VEC(struct zt_trainable_overlap) found = { 0 };
    if (!has_folded(model, g)) {
        *list = NULL;
        return 0;
    }
    struct search s = { .slots = zt_malloc(sizeof(int) << FILTER), .filter = zt_calloc((1 << FILTER) / 64, 8) };
    memset(s.slots, 0xff, sizeof(int) << FILTER);
    for (int i = 0; i < g->value_count; i++)
        if (may_overlap(g->values[i]))
            add_tensor(&s, model, g->values[i]);
    for (int b = 0; b < s.tensors.count; b++) {
        s.touched.count = 0;
        read_tensor(&s, b);
        for (int i = 0; i < s.touched.count; i++) {
            struct tensor *a = &s.tensors.at[s.touched.at[i]];
            if (found.count < MOST && is_part(a, &s.tensors.at[b]) &&
                !is_known(found.at, found.count, b, s.touched.at[i]))
                zt_vec_push(&found, (struct zt_trainable_overlap){ s.touched.at[i], b });
            a->found = 0;
        }
    }
    for (int i = 0; i < found.count; i++)
        found.at[i] = (struct zt_trainable_overlap){ s.tensors.at[found.at[i].a].value->id,
                                                     s.tensors.at[found.at[i].b].value->id };
    const int count = found.count;
    *list = zt_vec_copy(g->arena, &found);
    zt_vec_finish(&found);
    zt_vec_finish(&s.touched);
    zt_vec_finish(&s.samples);
    zt_vec_finish(&s.tensors);
    free(s.slots);
    free(s.filter);
    return count;
}
