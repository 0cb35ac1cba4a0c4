/* zt_strided_copy_run against a loop over every element: any steps, sizes that tiles do not divide, every element size.
 */
#include "base/rng.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/strided_copy.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 18 };

static void copy_plain(size_t bytes, const struct zt_strided_copy *c, char *to, const char *from) {
    int64_t index[ZT_MAX_RANK] = { 0 };
    do {
        int64_t t = c->to, f = c->from;
        for (int k = 0; k < c->shape.rank; k++) {
            t += index[k] * c->to_step[k];
            f += index[k] * c->from_step[k];
        }
        memcpy(to + t * (int64_t)bytes, from + f * (int64_t)bytes, bytes);
    } while (zt_next_index(&c->shape, index));
}

/* Dense strides of the axes of `shape` in a random order; some: 0 instead. */
static void strides(struct zt_rng *rng, const struct zt_shape *shape, bool some, int64_t *stride) {
    int order[ZT_MAX_RANK];
    int64_t step = 1;
    for (int k = 0; k < shape->rank; k++)
        order[k] = k;
    for (int k = shape->rank - 1; k > 0; k--) {
        int other = (int)zt_rng_below(rng, (uint64_t)k + 1), swapped = order[k];
        order[k] = order[other];
        order[other] = swapped;
    }
    for (int k = 0; k < shape->rank; k++) {
        stride[order[k]] = some && zt_rng_below(rng, 6) == 0 ? 0 : step;
        step *= shape->dim[order[k]];
    }
}

/* A shape of at most ROOM / 8 elements, one axis in eight long, one in sixteen as long as there is room. */
static struct zt_strided_copy make(struct zt_rng *rng) {
    struct zt_strided_copy c = { 0 };
    struct zt_shape *shape = &c.shape;
    int64_t left = ROOM / 8;
    shape->rank = 1 + (int)zt_rng_below(rng, 5);
    for (int k = 0; k < shape->rank; k++) {
        const uint64_t kind = zt_rng_below(rng, 16);
        const int64_t most = kind == 0 ? left : kind < 3 ? 700 : 70;
        shape->dim[k] = 1 + (int64_t)zt_rng_below(rng, (uint64_t)(left < most ? left : most));
        left /= shape->dim[k];
    }
    if (zt_rng_below(rng, 4) == 0)
        strides(rng, shape, false, c.to_step);
    else
        zt_shape_strides(shape, c.to_step);
    strides(rng, shape, true, c.from_step);
    return c;
}

START_TEST(copies_are_those_of_a_plain_loop) {
    static const size_t widths[] = { 1, 2, 4, 8 };
    struct zt_rng rng = zt_rng_start(7, 0);
    char *from = malloc(ROOM), *to = malloc(ROOM), *want = malloc(ROOM);
    for (int i = 0; i < ROOM; i++)
        from[i] = (char)zt_rng_u32(&rng);
    for (int round = 0; round < 800; round++) {
        const size_t bytes = widths[round % 4];
        struct zt_strided_copy c = make(&rng);
        for (int k = 0; round % 3 == 0 && k < c.shape.rank; k++) { /* backwards along the axis */
            c.from += c.from_step[k] * (c.shape.dim[k] - 1);
            c.from_step[k] = -c.from_step[k];
        }
        memset(to, 0, ROOM);
        memset(want, 0, ROOM);
        copy_plain(bytes, &c, want, from);
        zt_strided_copy_run(1 + round % 2, bytes, &c, to, from);
        char text[ZT_SHAPE_TEXT];
        ck_assert_msg(memcmp(to, want, ROOM) == 0, "round %d: shape %s", round, zt_shape_text(&c.shape, text));
    }
    free(from);
    free(to);
    free(want);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("copies");
    tcase_add_test(cases, copies_are_those_of_a_plain_loop);
    return run_suite("strided", cases, CK_NOFORK);
}
