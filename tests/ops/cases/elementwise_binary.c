#include "tests/ops/cases.h"

#include <stddef.h>

/* Same shape, bias, scalar, both stretched, empty, long rows. */
#define EVERY_SHAPE(op, range)                                                                                         \
    { op, "float[2,3,4]" range " float[2,3,4]" range, .grad = 3 },                                                     \
        { op, "float[2,3,4]" range " float[4]" range, .grad = 3 },                                                     \
        { op, "float[2,3,4]" range " float[]" range, .grad = 3 },                                                      \
        { op, "float[]" range " float[3]" range, .grad = 3 },                                                          \
        { op, "float[2,1,4]" range " float[3,1]" range, .grad = 3 }, { op, "float[0,4]" range " float[4]" range },     \
        { op, "float[3,700]" range " float[3,1]" range, .grad = 3 }, { op, "float16[3,4]" range " float16[4]" range }, \
    {                                                                                                                  \
        op, "bfloat16[3,4]" range " bfloat16[4]" range                                                                 \
    }

#define EVERY_INTEGER(op)                                                                                              \
    { op, "int8[3,4]:-9..9 int8[4]:1..5" }, { op, "int16[3,4]:-9..9 int16[4]:1..5" },                                  \
        { op, "int32[3,4]:-9..9 int32[4]:1..5" }, { op, "int64[3,4]:-9..9 int64[4]:1..5" },                            \
        { op, "uint8[3,4] uint8[4]:1..5" }, { op, "uint16[3,4] uint16[4]:1..5" },                                      \
        { op, "uint32[3,4] uint32[4]:1..5" }, {                                                                        \
        op, "uint64[3,4] uint64[4]:1..5"                                                                               \
    }

/* Whole vectors and a rest, all a type holds, each side stretched. */
#define WIDE_INTEGER(op)                                                                                               \
    { op, "int8[3,77]:-128..127 int8[77]:-128..127" }, { op, "int16[3,77]:-32768..32767 int16[3,1]:-300..300" },       \
        { op, "int32[3,1]:-2147483648..2147483647 int32[3,77]:-90000..90000" },                                        \
        { op, "int64[3,77]:-4e18..4e18 int64[77]:-9e9..9e9" }, { op, "int64[5,77]:-40..40 int64[5,77]:-3..3" },        \
        { op, "uint8[3,77]:0..255 uint8[77]:0..255" }, { op, "uint16[3,77]:0..65535 uint16[3,1]:0..300" },             \
        { op, "uint32[3,1]:0..4294967295 uint32[3,77]:0..90000" }, {                                                   \
        op, "uint64[3,77]:0..8e18 uint64[77]:0..9e9"                                                                   \
    }
#define SHIFTS(direction)                                                                                              \
    { "BitShift", "int8[3,77]:-128..127 int8[77]:-2..10", .attrs = direction },                                        \
        { "BitShift", "int16[3,77]:-32768..32767 int16[77]:-2..18", .attrs = direction },                              \
        { "BitShift", "int32[3,77]:-90000..90000 int32[77]:-2..40", .attrs = direction },                              \
        { "BitShift", "int64[3,77]:-4e18..4e18 int64[77]:-2..70", .attrs = direction },                                \
        { "BitShift", "uint8[3,77]:0..255 uint8[77]:0..10", .attrs = direction },                                      \
        { "BitShift", "uint16[3,77]:0..65535 uint16[77]:0..18", .attrs = direction },                                  \
        { "BitShift", "uint32[3,77]:0..4294967295 uint32[77]:0..40", .attrs = direction }, {                           \
        "BitShift", "uint64[3,77]:0..8e18 uint64[77]:0..70", .attrs = direction                                        \
    }
/* Double is computed in double by every back end. */
#define WIDE_DOUBLE(op)                                                                                                \
    { op, "double[3,77]:-2..2 double[77]:1..2" }, {                                                                    \
        op, "double[3,1]:-2..2 double[3,77]:1..2"                                                                      \
    }

#define EVERY_FOLD(op)                                                                                                 \
    { op, "float[2,3]", .grad = 1 }, { op, "float[2,3] float[3] float[2,1]", .grad = 7 },                              \
        { op, "float[2,3] float[] float[5,1,1] float[3]", .grad = 0xf }, { op, "float[0,3] float[3]" }, {              \
        op, "float16[2,3] float16[3]"                                                                                  \
    }

const struct zt_case zt_cases_elementwise_binary[] = {
    EVERY_SHAPE("Add", ""),
    EVERY_SHAPE("Sub", ""),
    EVERY_SHAPE("Mul", ""),
    EVERY_SHAPE("Div", ":0.5..2"),
    EVERY_SHAPE("Pow", ":0.5..2"),
    EVERY_INTEGER("Add"),
    EVERY_INTEGER("Sub"),
    EVERY_INTEGER("Mul"),
    EVERY_INTEGER("Div"),
    EVERY_INTEGER("Mod"),
    EVERY_INTEGER("Pow"),
    EVERY_INTEGER("Max"),
    EVERY_INTEGER("Min"),
    EVERY_INTEGER("Less"),
    EVERY_INTEGER("Equal"),
    EVERY_INTEGER("BitwiseAnd"),
    EVERY_INTEGER("BitwiseOr"),
    EVERY_INTEGER("BitwiseXor"),
    WIDE_INTEGER("Add"),
    WIDE_INTEGER("Sub"),
    WIDE_INTEGER("Mul"),
    WIDE_INTEGER("Div"),
    WIDE_INTEGER("Mod"),
    WIDE_INTEGER("Max"),
    WIDE_INTEGER("Min"),
    WIDE_INTEGER("Equal"),
    WIDE_INTEGER("Less"),
    WIDE_INTEGER("LessOrEqual"),
    WIDE_INTEGER("Greater"),
    WIDE_INTEGER("GreaterOrEqual"),
    WIDE_INTEGER("BitwiseAnd"),
    WIDE_INTEGER("BitwiseOr"),
    WIDE_INTEGER("BitwiseXor"),
    SHIFTS("direction=LEFT"),
    SHIFTS("direction=RIGHT"),
    WIDE_DOUBLE("Add"),
    WIDE_DOUBLE("Sub"),
    WIDE_DOUBLE("Mul"),
    WIDE_DOUBLE("Div"),
    WIDE_DOUBLE("Equal"),
    WIDE_DOUBLE("Less"),
    WIDE_DOUBLE("GreaterOrEqual"),
    { "Mod", "int64[3,77]:-4e18..4e18 int64[77]:-9e9..9e9", .attrs = "fmod=1" },
    { "Mod", "int8[3,77]:-128..127 int8[77]:-3..3", .attrs = "fmod=1" },
    { "Mod", "uint16[3,77]:0..65535 uint16[77]:0..300", .attrs = "fmod=1" },
    { "Equal", "bool[3,77] bool[77]" },
    { "Max", "int64[3,77]:-4e18..4e18 int64[77]:-4e18..4e18 int64[]:-9..9 int64[3,1]:-9..9" },
    { "Add", "int32[3,40000]:-9..9 int32[40000]:-9..9" },
    EVERY_FOLD("Max"),
    EVERY_FOLD("Min"),
    EVERY_FOLD("Sum"),
    EVERY_FOLD("Mean"),
    { "Div", "int32{7,-7,5} int32{0,-1,2}" },
    { "Div", "int64{-9223372036854775808} int64{-1}" },
    { "Mod", "int64{-9223372036854775808} int64{-1}" },
    { "Mod", "float[3,5]:-9..9 float[5]:1.5..2", .attrs = "fmod=1", .grad = 3 },
    { "Mod", "float[3,5]:-9..9 float[5]:1.5..2", .grad = 3 },
    { "Pow", "float[3,4] float(2)", .grad = 1 },
    { "Pow", "float[3,4]:0.5..2 int64{0,1,2,3}", .grad = 1 },
    { "Pow", "int32[3,4] float(2)" },
    { "PRelu", "float[2,3,4] float[3,1]", .grad = 3 },
    { "PRelu", "float[2,3,4] float[]", .grad = 3 },
    { "PRelu", "int32[2,3]:-5..5 int32[3]" },
    { "BitShift", "uint8[3,4]:0..255 uint8[4]:0..9", .attrs = "direction=LEFT" },
    { "BitShift", "uint64[3,4] uint64[4]:0..70", .attrs = "direction=RIGHT" },
    { "Equal", "bool[3,4] bool[4]" },
    { "Less", "float[3,4] float[4]" },
    { "LessOrEqual", "float16[3,4] float16[4]" },
    { "Greater", "bfloat16[3,4] bfloat16[4]" },
    { "GreaterOrEqual", "uint64[3,4] uint64[4]" },
    { "And", "bool[3,4] bool[4]" },
    { "Or", "bool[3,4] bool[3,1]" },
    { "Xor", "bool[3,4] bool[]" },
    { "Where", "bool[3,4] float[3,4] float[3,4]", .grad = 6 },
    { "Where", "bool[4] float[3,1] float[]", .grad = 6 },
    { "Where", "bool[3,1] int8[4] int8[3,4]" },
    { "Where", "bool[7,2,1,1] float[] float[5,60,7,2,7,2]", .grad = 6 },
    { "Where", "bool[7,2] float[400,7,2] float[400,7,2]", .grad = 6 },
    { "Where", "bool[61,67] float[3,61,67] float[]:nan..nan" },
    { "Where", "bool[5,1,3] float[30,5,4,3] float[5,4,3]", .grad = 6 },
    { "Where", "bool[90,70,1] float[90,70,5] float[]", .grad = 6 }, /* short rows, more than a block */
    { "Where", "bool[90,1,5] float[1,70,5] float[90,70,1]", .grad = 6 },
    { "Mul", "float[30,70,5] float[30,1,5]", .grad = 3 },
    { "Sub", "float[30,70,1] float[30,70,24]", .grad = 3 },
    { "SwiGLU", "float[3,40] float[3,40]", .opset = 28, .grad = 3 },
    { "SwiGLU", "float[7,129] float[7,129]", .attrs = "alpha=1.5", .opset = 28, .grad = 3 },
    { "SwiGLU", "float[] float[]", .opset = 28, .grad = 3 },
    { "SwiGLU", "bfloat16[4,5] bfloat16[4,5]", .opset = 28 },
    { "SwiGLU", "double[4,300] double[4,300]", .opset = 28 },
    { "Clip", "float[3,40] float(-0.5) float(0.5)", .grad = 1 },
    { "Clip", "float[3,40] - float(0.5)", .grad = 1 },
    { "Clip", "float[3,40] float[]:-1..-0.5 float[1]:0.5..1", .grad = 7 },
    { "Clip", "float[3,40] float[1]:-1..0", .grad = 3 },
    { "Clip", "float[3,4] float[]:1..2 float[]:-2..-1", .grad = 7 }, /* the upper bound wins */
    { "Clip", "float[3,40]", .grad = 1 },
    { "Clip", "float[3,40]", .attrs = "min=-0.5 max=0.25", .opset = 6, .grad = 1 },
    { "Clip", "int64[3,4] int64(2) int64(5)" },
    { "Clip", "bfloat16[2,33,5,7] bfloat16(-0.5) bfloat16(0.5)" },
    { "Clip", "float[3,4] float(1.0) float(-1.0)", .grad = 1 },
    { "Pow", "float[3,1111]:0..30 float[3,1111]:-12..12" },
    { "Pow", "float[3,1111]:-3..3 float[1111]:-3..3" },
    { "Pow", "float[3,1111]:-3..3 float(3)" },
    { "PowSlope", "float[3,1111]:0..3 float(1.7)", .domain = "ztrain", .opset = 1 },
    { "PowLog", "float[3,1111]:0..3 float[3,1111]:-2..2", .domain = "ztrain", .opset = 1 },
    { "Mod", "float[3,1111]:-30..30 float[3,1111]:-2..2", .attrs = "fmod=1" },
    { "Mod", "float[3,1111]:-1000000000..1000000000 float[1111]:-1..1", .attrs = "fmod=1" },
    { "Max", "float[3,1111] float[1111] float[3,1] float[]" },
    { "Mean", "float[3,1111] float[1111] float[3,1] float[]" },
    { "Add", "float16[3,1111] float16[1111]" },
    { "Add", "bfloat16[2,33,5,7] bfloat16[2,33,5,7]" },
    { "Mul", "bfloat16[2,32,9] bfloat16[2,32,9]" },
    { "Add", "bfloat16[2,32,5,7] bfloat16[32,1,1]" },
    /* a number for each channel, or pixel, of blocks whose last one is not full */
    { "Mul", "float[2,40,9,31] float[2,40,1,1]", .grad = 3 },
    { "Mul", "float[3,40,1,1] float[3,40,5,7]", .grad = 3 },
    { "Mul", "float[2,20,5,7] float[20,1,1]", .grad = 3 },
    { "Mul", "float[2,20,133] float[1,20,1]", .grad = 3 },
    { "Add", "bfloat16[2,33,5,7] bfloat16[2,33,1,1]" },
    { "Sub", "float[1,24,1,1] float[2,24,3,3]", .grad = 3 },
    { "Div", "float[2,16,3,3] float[16,1,1]:1..2", .grad = 3 },
    { "Div", "float[2,17,3,3] float[17,1,1]:1..2", .grad = 3 },
    { "Mul", "float[2,20,5,7] float[2,1,5,7]", .grad = 3 },
    { "Sub", "float[1,5,7] float[2,20,5,7]", .grad = 3 },
    { "Add", "bfloat16[2,40,3,31,2] bfloat16[2,1,3,31,2]" },
    { "Mul", "float[2,20,5,7] float[]", .grad = 3 },
    { "Add", "float[2,20,5,7] float[1]", .grad = 3 },
    { "Add", "float[1,1,1,1] float[2,32,5,7]", .grad = 3 },
    { "Add", "float[1,1,1,1] float[1,1,1,1]", .grad = 3 }, /* both blocked, of one element */
    { "PRelu", "float[2,24,5,7] float[24,1,1]", .grad = 3 },
    { "Max", "float[2,24,5,7] float[24,1,1]", .grad = 3 },
    { "Mul", "bfloat16[3,1111] bfloat16[3,1]" },
    { "Less", "float[3,1111] float[1111]" },
    { "Equal", "float16[3,1111]:0..1 float16[]" },
    { "Xor", "bool[3,1111] bool[1111]" },
    { NULL },
};
