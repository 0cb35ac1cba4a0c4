#include "tests/suite.h"

#include "base/rng.h"
#include "graph/ir/dtype.h"

#include <math.h>
#include <string.h>

/* The value of a half type by definition: sign, exponent bits (with this bias), mantissa bits. NaN and infinity too. */
static double by_definition(uint16_t bits, int exponent_bits, int mantissa_bits) {
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = bits & 0x8000 ? -1 : 1, fraction = ldexp(mantissa, -mantissa_bits);
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias));
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

START_TEST(all_halves_and_bfloats_have_their_value_and_come_back) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = zt_half_to_float((uint16_t)bits), brain = zt_bfloat_to_float((uint16_t)bits);
        ck_assert_msg(same((double)half, by_definition((uint16_t)bits, 5, 10)), "half %04x", bits);
        ck_assert_msg(same((double)brain, by_definition((uint16_t)bits, 8, 7)), "bfloat %04x", bits);
        if (isnan(half))
            ck_assert(isnan(zt_half_to_float(zt_float_to_half(half))));
        else
            ck_assert_uint_eq(zt_float_to_half(half), bits);
        if (isnan(brain))
            ck_assert(isnan(zt_bfloat_to_float(zt_float_to_bfloat(brain))));
        else
            ck_assert_uint_eq(zt_float_to_bfloat(brain), bits);
    }
}
END_TEST

/* Between two neighbours a < b the middle goes to the one with an even last bit, all else to the nearer. */
static void check_rounding(enum zt_dtype dtype, int exponent_bits, int mantissa_bits) {
    int last = ((1 << exponent_bits) - 1) << mantissa_bits; /* infinity */
    for (int bits = 0; bits + 1 < last; bits++) {
        double a = by_definition((uint16_t)bits, exponent_bits, mantissa_bits);
        double b = by_definition((uint16_t)(bits + 1), exponent_bits, mantissa_bits), middle = (a + b) / 2;
        const double values[] = { middle, nextafter(middle, a), nextafter(middle, b), a + (b - a) / 8,
                                  b - (b - a) / 8 };
        const int wanted[] = { bits & 1 ? bits + 1 : bits, bits, bits + 1, bits, bits + 1 };
        for (int i = 0; i < 5; i++) {
            uint16_t to;
            zt_store_double(dtype, &to, 0, values[i]);
            ck_assert_msg(to == wanted[i], "%.17g becomes %04x, wants %04x", values[i], to, wanted[i]);
            zt_store_double(dtype, &to, 0, -values[i]);
            ck_assert_uint_eq(to, (uint32_t)wanted[i] | 0x8000);
        }
    }
    uint16_t to;
    for (int negative = 0; negative < 2; negative++) {
        zt_store_double(dtype, &to, 0, negative ? -1e300 : 1e300);
        ck_assert_uint_eq(to, (uint32_t)(last | negative << 15));
    }
    zt_store_double(dtype, &to, 0, NAN);
    ck_assert(isnan(zt_load_double(dtype, &to, 0)));
}

START_TEST(doubles_round_once_to_the_nearest_half_ties_to_even) {
    check_rounding(ZT_FLOAT16, 5, 10);
    check_rounding(ZT_BFLOAT16, 8, 7);
}
END_TEST

START_TEST(doubles_become_integers_without_fraction_and_saturate_at_64_bits) {
    int64_t wide;
    uint64_t positive;
    int8_t narrow;
    uint8_t truth;
    zt_store_double(ZT_INT64, &wide, 0, -2.9);
    ck_assert_int_eq(wide, -2);
    zt_store_double(ZT_INT64, &wide, 0, 1e30);
    ck_assert(wide == INT64_MAX);
    zt_store_double(ZT_INT64, &wide, 0, NAN);
    ck_assert(wide == INT64_MIN);
    zt_store_double(ZT_UINT64, &positive, 0, 1e30);
    ck_assert(positive == UINT64_MAX);
    zt_store_double(ZT_UINT64, &positive, 0, -1);
    ck_assert(positive == 0);
    zt_store_double(ZT_UINT64, &positive, 0, 0x1p63);
    ck_assert(positive == UINT64_C(1) << 63);
    zt_store_double(ZT_INT8, &narrow, 0, 300);
    ck_assert_int_eq(narrow, 44);
    zt_store_double(ZT_BOOL, &truth, 0, 0.25);
    ck_assert_int_eq(truth, 1);
}
END_TEST

START_TEST(every_computed_type_keeps_small_integers) {
    for (int d = 1; d < ZT_DTYPES; d++) {
        enum zt_dtype dtype = (enum zt_dtype)d;
        unsigned char room[24];
        ck_assert_int_eq(zt_dtype_bytes(dtype) > 0, zt_dtype_in(dtype, ZT_ANY_STORED));
        if (!zt_dtype_in(dtype, ZT_ANY_NUMBER))
            continue;
        for (int value = zt_dtype_in(dtype, ZT_ANY_UNSIGNED) ? 0 : -100; value < 100; value++) {
            zt_store_int(dtype, room, 1, value);
            ck_assert_int_eq(zt_load_int(dtype, room, 1), value);
            zt_store_double(dtype, room, 1, value);
            ck_assert(zt_load_double(dtype, room, 1) == value);
        }
    }
    ck_assert_uint_eq(zt_dtype_bytes((enum zt_dtype)99), 0);
    ck_assert(!zt_dtype_in((enum zt_dtype)99, ZT_ANY_TYPE));
    ck_assert_str_eq(zt_dtype_name((enum zt_dtype)22), "int4");
    ck_assert_str_eq(zt_dtype_name((enum zt_dtype)99), "unknown type");
}
END_TEST

/* Of each code the value, stored again by both functions; of float8e8m0 the powers of two. */
START_TEST(all_codes_of_narrow_types_come_back) {
    for (int d = ZT_FLOAT8E4M3FN; d < ZT_DTYPES; d++) {
        const enum zt_dtype dtype = (enum zt_dtype)d;
        for (int code = 0; code < 1 << zt_dtype_bits(dtype); code++) {
            const unsigned char from = (unsigned char)code;
            unsigned char to = 0xaa;
            const double value = zt_load_double(dtype, &from, 0);
            if (value - value != 0) /* several codes of NaN; infinity saturates */
                continue;
            zt_store_double(dtype, &to, 0, value);
            ck_assert_int_eq(to, code);
            if (!zt_dtype_in(dtype, ZT_ANY_NARROW_INT))
                continue;
            zt_store_int(dtype, &to, 0, zt_load_int(dtype, &from, 0) + 64); /* the low bits */
            ck_assert_int_eq(to, code);
        }
    }
}
END_TEST

START_TEST(narrow_floats_round_to_even_and_saturate) {
    static const struct {
        enum zt_dtype dtype;
        double value;
        int saturated, other; /* codes */
    } rows[] = {
        { ZT_FLOAT8E4M3FN, 464, 0x7e, 0x7e },
        { ZT_FLOAT8E4M3FN, 465, 0x7e, 0x7f },
        { ZT_FLOAT8E4M3FN, -1e9, 0xfe, 0xff },
        { ZT_FLOAT8E4M3FN, 1.0625, 0x38, 0x38 },
        { ZT_FLOAT8E4M3FN, 0x1p-10, 0, 0 },
        { ZT_FLOAT8E4M3FN, 0x1.8p-10, 1, 1 },
        { ZT_FLOAT8E4M3FNUZ, 1e9, 0x7f, 0x80 },
        { ZT_FLOAT8E4M3FNUZ, -0.0, 0, 0 },
        { ZT_FLOAT8E5M2, INFINITY, 0x7b, 0x7c },
        { ZT_FLOAT8E5M2FNUZ, -INFINITY, 0xff, 0x80 },
        { ZT_FLOAT4E2M1, 2.5, 4, 4 },
        { ZT_FLOAT4E2M1, -9, 15, 15 },
        { ZT_FLOAT8E8M0, 3, 129, 129 },
        { ZT_FLOAT8E8M0, INFINITY, 0xfe, 0xff },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char to;
        zt_store_narrow(rows[i].dtype, &to, 0, rows[i].value, (struct zt_narrow_rule){ true, ZT_E8M0_UP });
        ck_assert_int_eq(to, rows[i].saturated);
        zt_store_narrow(rows[i].dtype, &to, 0, rows[i].value, (struct zt_narrow_rule){ false, ZT_E8M0_UP });
        ck_assert_int_eq(to, rows[i].other);
    }
}
END_TEST

START_TEST(elements_of_4_and_2_bits_are_packed_from_the_low_end) {
    const unsigned char elements[] = { 1, 15, 2, 9, 3 }, pairs[] = { 0xf1, 0x92, 0x03 };
    const unsigned char quarters[] = { 1, 3, 2, 0, 2 }, fours[] = { 0x2d, 0x02 };
    unsigned char to[5];
    zt_dtype_pack(4, elements, 5, to);
    ck_assert_mem_eq(to, pairs, 3);
    zt_dtype_unpack(4, pairs, 5, to);
    ck_assert_mem_eq(to, elements, 5);
    zt_dtype_pack(2, quarters, 5, to);
    ck_assert_mem_eq(to, fours, 2);
    zt_dtype_unpack(2, fours, 5, to);
    ck_assert_mem_eq(to, quarters, 5);
    ck_assert_uint_eq(zt_packed_bytes(5, 4), 3);
    ck_assert_uint_eq(zt_packed_bytes(5, 2), 2);
}
END_TEST

START_TEST(counts_know_scalars_nothing_the_unknown_and_the_huge) {
    static const struct {
        struct zt_shape shape;
        int64_t count;
    } known[] = {
        { { 0, { 0 } }, 1 },
        { { 3, { 2, 3, 4 } }, 24 },
        { { -1, { 0 } }, -1 },
        { { 2, { 2, -1 } }, -1 },
        { { 3, { INT64_MAX, INT64_MAX, 0 } }, 0 },
        { { 2, { INT64_MAX, 2 } }, INT64_MAX },
        { { 8, { 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20 } }, INT64_MAX },
    };
    int64_t stride[ZT_MAX_RANK];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert(zt_shape_count(&known[i].shape) == known[i].count);
        ck_assert_int_eq(zt_shape_known(&known[i].shape), known[i].count >= 0);
        zt_shape_strides(&known[i].shape, stride); /* no dim is too large for it */
    }
    zt_shape_strides(&known[1].shape, stride);
    ck_assert(stride[0] == 12 && stride[1] == 4 && stride[2] == 1);
}
END_TEST

START_TEST(shapes_of_any_numbers_fit_their_text) {
    struct zt_shape shape = { .rank = ZT_MAX_RANK };
    char text[ZT_SHAPE_TEXT];
    for (int k = 0; k < ZT_MAX_RANK; k++)
        shape.dim[k] = INT64_MAX;
    ck_assert_uint_lt(strlen(zt_shape_text(&shape, text)), ZT_SHAPE_TEXT);
    ck_assert_str_eq(zt_shape_text(&(struct zt_shape){ 3, { 2, -1, 0 } }, text), "[2, ?, 0]");
    ck_assert_str_eq(zt_shape_text(&(struct zt_shape){ 0, { 0 } }, text), "[]");
    ck_assert_str_eq(zt_shape_text(&(struct zt_shape){ -1, { 0 } }, text), "[unknown rank]");
    ck_assert(zt_shape_equal(&(struct zt_shape){ 2, { 2, 3, 9 } }, &(struct zt_shape){ 2, { 2, 3, 8 } }));
    ck_assert(!zt_shape_equal(&(struct zt_shape){ 2, { 2, 3 } }, &(struct zt_shape){ 3, { 2, 3, 1 } }));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("dtype");
    tcase_add_test(cases, all_halves_and_bfloats_have_their_value_and_come_back);
    tcase_add_test(cases, doubles_round_once_to_the_nearest_half_ties_to_even);
    tcase_add_test(cases, doubles_become_integers_without_fraction_and_saturate_at_64_bits);
    tcase_add_test(cases, every_computed_type_keeps_small_integers);
    tcase_add_test(cases, all_codes_of_narrow_types_come_back);
    tcase_add_test(cases, narrow_floats_round_to_even_and_saturate);
    tcase_add_test(cases, elements_of_4_and_2_bits_are_packed_from_the_low_end);
    tcase_add_test(cases, counts_know_scalars_nothing_the_unknown_and_the_huge);
    tcase_add_test(cases, shapes_of_any_numbers_fit_their_text);
    return run_suite("dtype", cases, CK_FORK);
}
