#include "ops/elementwise/source_cuda.h"

#include <math.h>
#include <stdio.h>

/* ---- what every source begins with: types, conversions, the functions that values name ---- */

static const char types[] =
    "typedef signed char int8_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef short int16_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef int int32_t;\n"
    "typedef unsigned uint32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "#define INT64_MIN (-0x7fffffffffffffffLL - 1)\n"
    "#define INT64_MAX 0x7fffffffffffffffLL\n"
    "#define UINT64_MAX 0xffffffffffffffffULL\n"
    "#define INFINITY float_of(0x7f800000u)\n"
    "#define NAN float_of(0x7fffffffu)\n"
    "#define FN static __device__ inline\n"
    "FN uint32_t bits_of(float x) { union { float f; uint32_t u; } v; v.f = x; return v.u; }\n"
    "template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack { T at[N]; };\n"
    "FN float float_of(uint32_t x) { union { uint32_t u; float f; } v; v.u = x; return v.f; }\n";

/* Half types are moved as bits, as simd_elementwise.inc does it: the same rounding everywhere. */
static const char conversions[] =
    "FN float of_bfloat(uint16_t x) { return float_of((uint32_t)x << 16); }\n"
    "FN uint16_t to_bfloat(float x) {\n"
    "    uint32_t bits = bits_of(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"
    "    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);\n"
    "}\n"
    "FN float of_half(uint16_t h) {\n"
    "    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;\n"
    "    float tiny = (float)(h & 0x7fff) * 5.9604644775390625e-8F;\n"
    "    uint32_t normal = (magnitude + (112u << 23)) | (magnitude >= 0x0f800000 ? 0x7f800000u : 0);\n"
    "    return float_of((magnitude >> 23 == 0 ? bits_of(tiny) : normal) | sign);\n"
    "}\n"
    "FN uint16_t to_half(float x) {\n"
    "    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;\n"
    "    uint32_t normal = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (112u << 10);\n"
    "    float units = float_of(magnitude < 0x38800000 ? magnitude : 0) * 16777216.0F;\n"
    "    uint32_t tiny = bits_of(units + 8388608.0F) & 0x7ff;\n"
    "    uint32_t found = magnitude < 0x38800000 ? tiny : magnitude >= 0x477ff000 ? 0x7c00 : normal;\n"
    "    found = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : found;\n"
    "    return (uint16_t)(sign | found);\n"
    "}\n";

static const char float_functions[] =
    "#define F(id) f_##id\n"
    "FN float f_all(float x) { return x; }\n"
    "FN float f_one(bool mask) { return mask ? 1 : 0; }\n"
    "FN float f_choose(bool mask, float yes, float no) { return mask ? yes : no; }\n"
    "FN float f_drop(bool mask, float x) { return mask ? 0 : x; }\n"
    "FN float f_absolute(float x) { return fabsf(x); }\n"
    "FN float f_sign_of(float x) { return x > 0 ? 1 : x < 0 ? -1 : x; }\n"
    "FN float f_clamp(float x, float low, float high) { x = low > x ? low : x; return high < x ? high : x; }\n"
    "FN float f_root(float x) { return sqrtf(x); }\n"
    "FN float f_exponential(float x) { return expf(x); }\n"
    "FN float f_exponential_below_0(float x) { return expf(x); }\n"
    "FN float f_exponential_m1(float x) { return expm1f(x); }\n"
    "FN float f_logarithm(float x) { return logf(x); }\n"
    "FN float f_logarithm_1p(float x) { return log1pf(x); }\n"
    "FN float f_normal_radius(float a) { return sqrtf(-2 * (a < 0 ? logf(-a) : log1pf(-a))); }\n"
    "FN float f_logistic(float x) { return 1 / (1 + expf(-x)); }\n"
    "FN float f_hyperbolic_tangent(float x) { return tanhf(x); }\n"
    "FN float f_hyperbolic_sine(float x) { return sinhf(x); }\n"
    "FN float f_hyperbolic_cosine(float x) { return coshf(x); }\n"
    "FN float f_error_function(float x) { return erff(x); }\n"
    "FN float f_normal_cdf(float x) { return 0.5F * erfcf(-0.70710678F * x); }\n"
    "FN float f_swish_slope(float x, float alpha) {\n"
    "    float s = f_logistic(x * alpha);\n"
    "    return s + x * alpha * s * (1 - s);\n"
    "}\n"
    "FN float f_gelu_tanh_gate(float x) {\n"
    "    return 0.5F * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));\n"
    "}\n"
    "FN float f_gelu_tanh_slope(float x) {\n"
    "    const float c = 0.7978845608F, k = 0.044715F;\n"
    "    float t = tanhf(c * (x + k * x * x * x));\n"
    "    return (1 + t) * 0.5F + x * (1 - t * t) * c * (1 + 3 * k * x * x) * 0.5F;\n"
    "}\n"
    "FN float f_power(float a, float b) { return powf(a, b); }\n"
    "FN float f_power_slope(float a, float b) { return b == 0 ? 0 : b * powf(a, b - 1); }\n"
    "FN float f_power_log(float a, float b) { return a == 0 && b >= 0 ? 0 : powf(a, b) * logf(a); }\n"
    "FN float f_remainder_of(float a, float b) { return fmodf(a, b); }\n"
    "FN float f_sine(float x) { return sinf(x); }\n"
    "FN float f_cosine(float x) { return cosf(x); }\n"
    "FN float f_tangent(float x) { return tanf(x); }\n"
    "FN float f_arc_sine(float x) { return asinf(x); }\n"
    "FN float f_arc_cosine(float x) { return acosf(x); }\n"
    "FN float f_arc_tangent(float x) { return atanf(x); }\n"
    "FN float f_area_sine(float x) { return asinhf(x); }\n"
    "FN float f_area_cosine(float x) { return acoshf(x); }\n"
    "FN float f_area_tangent(float x) { return atanhf(x); }\n"
    "FN float f_soft_plus(float x) { return log1pf(expf(-fabsf(x))) + (x < 0 ? 0 : x); }\n"
    "FN float f_mish_n(float x) { float e = expf(x > 20 ? 20 : x); return e * (e + 2); }\n"
    "FN float f_mish_gate(float x) { float n = f_mish_n(x); return n / (n + 2); }\n"
    "FN float f_mish_slope(float x) {\n"
    "    float n = f_mish_n(x), t = n / (n + 2);\n"
    "    return t + x * (4 * (n + 1) / ((n + 2) * (n + 2))) * f_logistic(x);\n"
    "}\n"
    "FN float f_at_kink(float x, float above, float below, float w) {\n"
    "    return x > 0 ? above : x < 0 ? below : w * above + (1 - w) * below;\n"
    "}\n"
    "FN float f_floor_of(float x) { return floorf(x); }\n"
    "FN float f_ceil_of(float x) { return ceilf(x); }\n"
    "FN float f_rounded(float x) { return rintf(x); }\n";

static const char integer_functions[] =
    "#define BELOW_ZERO(x) ((x) <= 0 && (x) != 0)\n"
    "FN uint64_t quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }\n"
    "FN uint64_t remainder_of(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }\n"
    "FN int64_t signed_quotient(int64_t a, int64_t b) {\n"
    "    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;\n"
    "}\n"
    "FN int64_t truncated(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }\n"
    "FN int64_t floored(int64_t a, int64_t b) {\n"
    "    const int64_t r = truncated(a, b);\n"
    "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
    "}\n"
    "FN int64_t whole(double x) {\n"
    "    return x >= 9223372036854775808.0 ? INT64_MAX : x > -9223372036854775808.0 ? (int64_t)x : INT64_MIN;\n"
    "}\n"
    "FN uint64_t whole_unsigned(double x) {\n"
    "    return x >= 18446744073709551616.0 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;\n"
    "}\n";

/* ---- the kernel ---- */

/* Storage types, and their conversions to and from the type of arithmetic. */
static const struct {
    const char *type, *wrapping, *load, *store;
    int bits;
} stored[ZT_DTYPES] = {
    [ZT_FLOAT] = { "float", "float", "", "(float)", 32 },
    [ZT_DOUBLE] = { "double", "double", "", "(double)", 64 },
    [ZT_FLOAT16] = { "uint16_t", "", "of_half", "to_half", 16 },
    [ZT_BFLOAT16] = { "uint16_t", "", "of_bfloat", "to_bfloat", 16 },
    [ZT_BOOL] = { "uint8_t", "uint8_t", "", "0 != ", 8 },
    [ZT_UINT8] = { "uint8_t", "uint32_t", "", "(uint8_t)", 8 },
    [ZT_INT8] = { "int8_t", "uint32_t", "", "(int8_t)", 8 },
    [ZT_UINT16] = { "uint16_t", "uint32_t", "", "(uint16_t)", 16 },
    [ZT_INT16] = { "int16_t", "uint32_t", "", "(int16_t)", 16 },
    [ZT_UINT32] = { "uint32_t", "uint32_t", "", "(uint32_t)", 32 },
    [ZT_INT32] = { "int32_t", "uint32_t", "", "(int32_t)", 32 },
    [ZT_UINT64] = { "uint64_t", "uint64_t", "", "(uint64_t)", 64 },
    [ZT_INT64] = { "int64_t", "uint64_t", "", "(int64_t)", 64 },
};

static void write_arguments(struct zt_text *to) {
    zt_text_add(to,
                "struct arguments {\n"
                "    int64_t count, packs;\n"
                "    void *out;\n"
                "    const void *in[%d];\n"
                "    int64_t dim[%d];\n"
                "    int64_t step[%d][%d];\n"
                "};\n",
                ZT_POINTWISE_INPUTS, ZT_MAX_RANK, ZT_POINTWISE_INPUTS, ZT_MAX_RANK);
}

/* at0, at1, ...: offsets of element i in the inputs that have axes. */
static void write_places(const struct zt_kernel_source *s, struct zt_text *to) {
    bool walks = false;
    for (int k = 0; k < s->fused.inputs; k++)
        if (s->input[k].broadcast == ZT_BROADCAST_AXES) {
            walks = true;
            zt_text_add(to, "        place at%d = 0;\n", k);
        }
    if (!walks)
        return;
    zt_text_add(to, "        place rest = i, here;\n");
    for (int axis = s->axes - 1; axis >= 0; axis--) {
        if (axis > 0)
            zt_text_add(to, "        here = rest %% (place)p.dim[%d];\n        rest /= (place)p.dim[%d];\n", axis,
                        axis);
        for (int k = 0; k < s->fused.inputs; k++)
            if (s->input[k].broadcast == ZT_BROADCAST_AXES)
                zt_text_add(to, "        at%d += %s * (place)p.step[%d][%d];\n", k, axis ? "here" : "rest", k, axis);
    }
}

/* A number as C has it. */
static void write_number(const char *name, float number, struct zt_text *to) {
    if (isnan(number) || isinf(number))
        zt_text_add(to, " const float %s = %s;", name, isnan(number) ? "NAN" : number > 0 ? "INFINITY" : "-INFINITY");
    else
        zt_text_add(to, " const float %s = (float)%.9g;", name, (double)number);
}

/* sN, the stored value, and vN, the value in the type of arithmetic. */
static void write_names(int value, enum zt_dtype dtype, struct zt_text *to) {
    zt_text_add(to, "        const auto v%d = %s(s%d);\n", value, stored[dtype].load, value);
}

/* "rN = VALUE" of step N in a block of its own; a is `first`, and b the operand `second` of a fold, -1 where there is
 * none: then b and c are the step's own. */
static void write_value(const struct zt_fused_elementwise *fused, int step, const char *first, int second,
                        struct zt_text *to) {
    static const char *const operand[] = { "a", "b", "c" };
    const struct zt_fused_elementwise_step *t = &fused->step[step];
    const struct zt_pointwise *w = &t->what;
    const char *type = stored[w->dtype].type;
    zt_text_add(to, "        {");
    if (w->dtype == ZT_FLOAT) {
        write_number("u", w->number[0], to);
        write_number("v", w->number[1], to);
    } else if (!w->copies) {
        zt_text_add(to, " typedef %s T; typedef %s U; const int BITS = %d; const bool negative = (T)-1 <= 0;", type,
                    stored[w->dtype].wrapping, stored[w->dtype].bits);
    }
    zt_text_add(to, " const %s a = (%s)%s;", type, type, first);
    for (int k = 1; second >= 0 ? k < 2 : k < w->inputs; k++)
        zt_text_add(to, " const %s %s = (%s)%c%d;", type, operand[k], type, w->copies ? 's' : 'v',
                    t->from[second >= 0 ? second : k]);
    zt_text_add(to, " r%d = %s; }\n", step, w->value);
}

/* The type of a result before it is stored: float where it is rounded to a half type or comes from a truth value. */
static const char *result_type(const struct zt_fused_elementwise_step *t) {
    const unsigned rounded = t->what.dtype == ZT_FLOAT ? ZT_ANY_HALF | ZT_BIT(ZT_BOOL) : ZT_ANY_HALF;
    return !t->what.copies && zt_dtype_in(t->dtype, rounded) ? "float" : stored[t->dtype].type;
}

static void write_step(const struct zt_fused_elementwise *fused, int step, struct zt_text *to) {
    const struct zt_fused_elementwise_step *t = &fused->step[step];
    const int value = fused->inputs + step;
    char name[32];
    snprintf(name, sizeof name, "v%d", t->from[0]);
    zt_text_add(to, "        %s r%d;\n", result_type(t), step);
    if (!t->what.folds)
        write_value(fused, step, name, -1, to);
    for (int k = 1; t->what.folds && k < t->what.inputs; k++) {
        write_value(fused, step, name, k, to);
        snprintf(name, sizeof name, "r%d", step);
    }
    if (t->what.folds && t->what.inputs == 1)
        zt_text_add(to, "        r%d = %s;\n", step, name);
    if (t->what.scale != 1)
        zt_text_add(to, "        r%d *= (float)%.9g;\n", step, (double)t->what.scale);
    zt_text_add(to, "        const %s s%d = %s(r%d);\n", stored[t->dtype].type, value,
                t->what.copies ? "" : stored[t->dtype].store, step);
    write_names(value, t->dtype, to);
}

/* element(s0, s1, ...): the result as it is stored, of inputs as they are. */
static void write_element(const struct zt_fused_elementwise *fused, const struct zt_kernel_input *input,
                          struct zt_text *to) {
    const int last = fused->steps - 1;
    zt_text_add(to, "FN %s element(", stored[fused->step[last].dtype].type);
    for (int k = 0; k < fused->inputs; k++)
        zt_text_add(to, "%sconst %s s%d", k ? ", " : "", stored[input[k].dtype].type, k);
    zt_text_add(to, ") {\n");
    for (int k = 0; k < fused->inputs; k++)
        write_names(k, input[k].dtype, to);
    for (int step = 0; step <= last; step++)
        write_step(fused, step, to);
    zt_text_add(to, "        return s%d;\n}\n", fused->inputs + last);
}

/* Declares in0, in1, ... and out, and reads inputs that are one number. */
static void write_pointers(const struct zt_kernel_source *s, const char *result, struct zt_text *to) {
    for (int k = 0; k < s->fused.inputs; k++) {
        const char *type = stored[s->input[k].dtype].type;
        zt_text_add(to, "    const %s *RESTRICT in%d = (const %s *)p.in[%d];\n", type, k, type, k);
        if (s->input[k].broadcast == ZT_BROADCAST_ONE)
            zt_text_add(to, "    const %s one%d = *in%d;\n", type, k, k);
    }
    zt_text_add(to, "    %s *RESTRICT out = (%s *)p.out;\n", result, result);
}

/* The call of element(...) for element i, or for element j of the pack that starts there. */
static void write_call(const struct zt_kernel_source *s, bool packed, struct zt_text *to) {
    for (int k = 0; k < s->fused.inputs; k++) {
        const char *before = k ? ", " : "element(";
        if (s->input[k].broadcast == ZT_BROADCAST_ONE)
            zt_text_add(to, "%sone%d", before, k);
        else if (s->input[k].broadcast == ZT_BROADCAST_ALIKE)
            zt_text_add(to, packed ? "%spack%d.at[j]" : "%sin%d[i]", before, k);
        else if (packed && s->input[k].still)
            zt_text_add(to, "%sstill%d", before, k);
        else if (packed)
            zt_text_add(to, "%sin%d[at%d + j * (place)p.step[%d][%d]]", before, k, k, k, s->axes - 1);
        else
            zt_text_add(to, "%sin%d[at%d]", before, k, k);
    }
    zt_text_add(to, ");\n");
}

static void write_packs(const struct zt_kernel_source *s, const char *result, struct zt_text *to) {
    zt_text_add(to,
                "    for (place k = first; k < (place)p.packs; k += all) {\n"
                "        const place i = k * %d;\n",
                s->width);
    for (int k = 0; k < s->fused.inputs; k++) {
        const char *type = stored[s->input[k].dtype].type;
        if (s->input[k].broadcast == ZT_BROADCAST_ALIKE)
            zt_text_add(to, "        const pack<%s, %d> pack%d = ((const pack<%s, %d> *)in%d)[k];\n", type, s->width, k,
                        type, s->width, k);
    }
    write_places(s, to);
    for (int k = 0; k < s->fused.inputs; k++)
        if (s->input[k].broadcast == ZT_BROADCAST_AXES && s->input[k].still)
            zt_text_add(to, "        const %s still%d = in%d[at%d];\n", stored[s->input[k].dtype].type, k, k, k);
    zt_text_add(to,
                "        pack<%s, %d> results;\n"
                "#pragma unroll\n"
                "        for (int j = 0; j < %d; j++)\n"
                "            results.at[j] = ",
                result, s->width, s->width);
    write_call(s, true, to);
    zt_text_add(to, "        ((pack<%s, %d> *)out)[k] = results;\n    }\n", result, s->width);
}

/* ---- transposed ---- */

/* The call of element(...) for row j, column i of the tile. */
static void write_tile_call(const struct zt_kernel_source *s, struct zt_text *to) {
    for (int k = 0; k < s->fused.inputs; k++)
        zt_text_add(to, s->input[k].broadcast == ZT_BROADCAST_ONE ? "%sone%d" : "%stile%d[j].at[i]",
                    k ? ", " : "element(", k);
    zt_text_add(to, ");\n");
}

/* from, to: the first element of tile k in the inputs and in the output. */
static void write_tile_places(const struct zt_kernel_tile *t, struct zt_text *to) {
    zt_text_add(to,
                "        const place wide = columns / %d, column = k %% wide * %d;\n"
                "        const place high = rows / %d, row = k / wide %% high * %d, matrix = k / wide / high;\n"
                "        const place from = (matrix * rows + row) * columns + column;\n"
                "        const place to = (matrix * columns + column) * rows + row;\n",
                t->columns, t->columns, t->rows, t->rows);
}

/* Reads a row of a tile at once and writes contiguous elements at once. */
static void write_tiles(const struct zt_kernel_source *s, const char *result, struct zt_text *to) {
    const struct zt_kernel_tile *t = &s->tile;
    const int packs = t->whole ? t->rows : t->columns, each = t->whole ? t->columns : t->rows;
    zt_text_add(to, "    for (place k = first; k < (place)p.packs; k += all) {\n");
    write_tile_places(t, to);
    for (int k = 0; k < s->fused.inputs; k++) {
        const char *type = stored[s->input[k].dtype].type;
        if (s->input[k].broadcast == ZT_BROADCAST_ALIKE)
            zt_text_add(to,
                        "        pack<%s, %d> tile%d[%d];\n"
                        "#pragma unroll\n"
                        "        for (int j = 0; j < %d; j++)\n"
                        "            tile%d[j] = *(const pack<%s, %d> *)(in%d + from + j * columns);\n",
                        type, t->columns, k, t->rows, t->rows, k, type, t->columns, k);
    }
    zt_text_add(to,
                "        pack<%s, %d> results[%d];\n"
                "#pragma unroll\n"
                "        for (int i = 0; i < %d; i++)\n"
                "#pragma unroll\n"
                "            for (int j = 0; j < %d; j++)\n"
                "                results[(i * %d + j) / %d].at[(i * %d + j) %% %d] = ",
                result, each, packs, t->columns, t->rows, t->rows, each, t->rows, each);
    write_tile_call(s, to);
    zt_text_add(to, t->whole ? "        const place apart = %d;\n" : "        const place apart = rows;\n", each);
    zt_text_add(to,
                "#pragma unroll\n"
                "        for (int j = 0; j < %d; j++)\n"
                "            *(pack<%s, %d> *)(out + to + j * apart) = results[j];\n    }\n",
                packs, result, each);
}

/* The elements outside all tiles, one by one in the order of the inputs. */
static void write_transposed(const struct zt_kernel_source *s, const char *result, struct zt_text *to) {
    zt_text_add(to, "    const place rows = (place)p.dim[0], columns = (place)p.dim[1];\n");
    write_tiles(s, result, to);
    zt_text_add(to,
                "    for (place i = (place)p.packs * %d + first; i < (place)p.count; i += all) {\n"
                "        const place row = i / columns;\n"
                "        out[(row / rows * columns + i %% columns) * rows + row %% rows] = ",
                s->width);
    write_call(s, false, to);
    zt_text_add(to, "    }\n");
}

/* ---- as the inputs lie ---- */

static void write_along(const struct zt_kernel_source *s, const char *result, struct zt_text *to) {
    if (s->width > 1)
        write_packs(s, result, to);
    zt_text_add(to, "    for (place i = (place)p.packs * %d + first; i < (place)p.count; i += all) {\n", s->width);
    write_places(s, to);
    zt_text_add(to, "        out[i] = ");
    write_call(s, false, to);
    zt_text_add(to, "    }\n");
}

void zt_kernel_source_write(const struct zt_kernel_source *s, struct zt_text *to) {
    const char *result = stored[s->fused.step[s->fused.steps - 1].dtype].type;
    zt_text_add(to, "%s%s%s%s", types, conversions, float_functions, integer_functions);
    write_arguments(to);
    write_element(&s->fused, s->input, to);
    zt_text_add(
        to,
        "#define RESTRICT%s\n"
        "typedef %s place;\n"
        "extern \"C\" __global__ void " ZT_KERNEL_ENTRY
        "(const arguments p) {\n"
        "    const place all = (place)gridDim.x * blockDim.x, first = (place)blockIdx.x * blockDim.x + threadIdx.x;\n",
        s->in_place ? "" : " __restrict__", s->wide ? "int64_t" : "uint32_t");
    write_pointers(s, result, to);
    (s->tile.rows ? write_transposed : write_along)(s, result, to);
    zt_text_add(to, "}\n");
}
