/* The loops over planes of bfloat16 (ops/norm/simd_norm_planes.h) against those of float on the same numbers: sums are
 * the same to the bit, results the same but for one rounding. */
#include "tests/suite.h"

#include "base/half.h"
#include "ops/norm/simd_norm_planes.h"

#include <math.h>
#include <string.h>

enum { PIXELS = 37, MOST = 16, FIELDS = 4, COUNT = PIXELS * MOST };

/* The same numbers in both types. */
struct tensor {
    float whole[COUNT];
    uint16_t half[COUNT];
};

static struct tensor x, dy, z, y;
static float number[FIELDS][MOST];
static struct zt_planes planes;
static const struct zt_norm_plane_kernels *kernels[2]; /* float, bfloat16 */

static struct tensor random_tensor(unsigned seed) {
    struct tensor t;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        t.half[i] = zt_float_to_bfloat((float)(int)(seed >> 8) / (float)(1 << 22) - 2);
        t.whole[i] = zt_bfloat_to_float(t.half[i]);
    }
    return t;
}

static void set_up(int vector) {
    planes = (struct zt_planes){ .samples = 1, .channels = vector, .pixels = PIXELS, .vector = vector, .groups = 1 };
    planes.pixel = vector;
    planes.sample = planes.group = (int64_t)PIXELS * vector;
    kernels[0] = zt_norm_plane_kernels(vector, ZT_FLOAT);
    kernels[1] = zt_norm_plane_kernels(vector, ZT_BFLOAT16);
    x = random_tensor(1), dy = random_tensor(2), z = random_tensor(3), y = random_tensor(4);
    y.whole[5] = NAN, y.half[5] = 0x7fc0;
    for (int f = 0; f < FIELDS; f++)
        for (int i = 0; i < MOST; i++)
            number[f][i] = 0.3F + 0.1F * (float)f - 0.05F * (float)i;
}

static struct zt_row_map map(void) {
    return (struct zt_row_map){ .mean = number[0], .of_x = number[1], .constant = number[2], .of_dy = number[3] };
}

static const void *of(const struct tensor *t, int half) {
    return half ? (const void *)t->half : t->whole;
}

/* Whether the results in bfloat16 are those in float, rounded. */
static void expect_rounded(const float *whole, const uint16_t *half) {
    for (int64_t i = 0; i < PIXELS * planes.vector; i++) {
        if (isnan(whole[i]))
            ck_assert(isnan(zt_bfloat_to_float(half[i])));
        else
            ck_assert_int_eq(half[i], zt_float_to_bfloat(whole[i]));
    }
}

static struct tensor result;

static void *to(int half) {
    return half ? (void *)result.half : result.whole;
}

START_TEST(sums_are_the_same) {
    float sum[2][3][MOST];
    set_up(_i ? 16 : 8);
    for (int h = 0; h < 2; h++) {
        const struct zt_plane_moments moments = { sum[h][0], sum[h][1], sum[h][2] };
        kernels[h]->moments(&planes, of(&x, h), &moments);
    }
    ck_assert_mem_eq(sum[0], sum[1], sizeof(float) * (size_t)planes.vector);
    ck_assert_mem_eq(sum[0][2], sum[1][2], sizeof(float) * (size_t)planes.vector);
    for (int form = 0; form < 3; form++) {
        for (int h = 0; h < 2; h++) {
            const struct zt_row_sums sums = { .mean = number[0], .dy = sum[h][0], .dyx = sum[h][1] };
            const struct zt_relu_planes relu = { of(&dy, h), of(&y, h), of(&x, h) };
            const struct zt_plane_activation clip = { .kind = ZT_PLANE_CLIP, .low = -0.5F, .high = 0.5F };
            const struct zt_activation_planes in = { of(&dy, h), of(&x, h), map(), &clip };
            if (form == 0)
                kernels[h]->sums(&planes, of(&dy, h), of(&x, h), &sums);
            else if (form == 1)
                kernels[h]->sums_relu(&planes, &relu, &sums);
            else
                kernels[h]->sums_activation(&planes, &in, &sums);
        }
        for (int i = 0; i < 2; i++)
            ck_assert_mem_eq(sum[0][i], sum[1][i], sizeof(float) * (size_t)planes.vector);
    }
}
END_TEST

START_TEST(results_are_rounded_once) {
    set_up(_i ? 16 : 8);
    const struct zt_row_map m = map();
    const struct zt_plane_activation clip = { .kind = ZT_PLANE_CLIP, .low = -0.5F, .high = 0.5F };
    for (int form = 0; form < 5; form++) {
        for (int h = 0; h < 2; h++) {
            const struct zt_relu_planes relu = { of(&dy, h), of(&y, h), of(&x, h) };
            const struct zt_activation_planes in = { of(&dy, h), of(&x, h), m, &clip };
            if (form == 0)
                kernels[h]->normalise(&planes, of(&x, h), &m, to(h));
            else if (form == 1)
                kernels[h]->normalise_grad(&planes, of(&dy, h), of(&x, h), &m, to(h));
            else if (form == 2)
                kernels[h]->normalise_relu(&planes, of(&y, h), of(&z, h), &m, to(h)); /* y has a NaN */
            else if (form == 3)
                kernels[h]->normalise_grad_relu(&planes, &relu, &m, to(h), NULL);
            else
                kernels[h]->normalise_grad_activation(&planes, &in, &m, to(h));
        }
        expect_rounded(result.whole, result.half);
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, sums_are_the_same, 0, 2);
    tcase_add_loop_test(t, results_are_rounded_once, 0, 2);
    return run_suite("norm_planes", t, CK_FORK);
}
