#include "tests/ops/cases.h"

#include <stddef.h>

/* Lengths with and without partial vectors; one scale, a scale for each index of an axis (the last one, which lies
 * along vectors, and others), a scale for each block; what lies beyond the range, ties and NaN. */
#define EDGES "float{-1000,-0.75,-0.25,0,0.25,0.75,1000,inf,-inf,nan,0.1,-0.1,63.25,64,-64,-64.5,127.75,3e38,-3e38}"

/* NAME of a type with a zero point of it: the type, its zero point, extra attributes and the domain. */
#define EACH_TYPE(CASE)                                                                                                \
    CASE("uint8", "128"), CASE("int8", "-3"), CASE("uint16", "32768"), CASE("int16", "100"), CASE("uint4", "8"),       \
        CASE("int4", "-1"), CASE("uint2", "1"), CASE("int2", "0"), CASE("float8e4m3fn", "0"),                          \
        CASE("float8e4m3fnuz", "0"), CASE("float8e5m2", "0"), CASE("float8e5m2fnuz", "0"), CASE("float4e2m1", "0")

#define QUANTIZE_TYPE(type, zero)                                                                                      \
    { "QuantizeLinear", "float[7,300] float(0.05) " type "(" zero ")", .typed = 1 },                                   \
        { "QuantizeLinear", "float[5,33] float[33]:0.01..0.2 " type "[33]:0..1", .attrs = "axis=1", .typed = 1 },      \
        { "QuantizeLinear", "float[3,5,50] float[3,5,4]:0.01..0.2 " type "[3,5,4]:0..1",                               \
          .attrs = "axis=2 block_size=16", .typed = 1 },                                                               \
        { "QuantizeLinear", EDGES " float(0.5) " type "(" zero ")", .typed = 1 }, {                                    \
        "QuantizeLinear", EDGES " float(0.5) " type "(" zero ")", .attrs = "saturate=0", .typed = 1                    \
    }
#define DEQUANTIZE_TYPE(type, zero)                                                                                    \
    { "DequantizeLinear", type "[7,300]:0..1 float(0.05) " type "(" zero ")", .typed = 1 },                            \
        { "DequantizeLinear", type "[5,33]:0..3 float[33]:0.01..0.2 " type "[33]:0..1", .attrs = "axis=1",             \
          .typed = 1 },                                                                                                \
        { "DequantizeLinear", type "[4,6,5]:0..3 float[4,2,5]:0.01..0.2 " type "[4,2,5]:0..1",                         \
          .attrs = "axis=1 block_size=3", .typed = 1 },                                                                \
    {                                                                                                                  \
        "DequantizeLinear", type "[9]:0..3 float16(0.5) " type "(" zero ")", .typed = 1                                \
    }
#define FAKE_TYPE(type, zero)                                                                                          \
    { "FakeQuantize", "float[7,300]:-9..9 float(0.05) " type "(" zero ")", .domain = "ztrain", .grad = 3,              \
      .rounded = 1 },                                                                                                  \
        { "FakeQuantize",    "float[5,33] float[33]:0.01..0.2 " type "[33]:0..1",                                      \
          .attrs = "axis=1", .domain = "ztrain",                                                                       \
          .grad = 3,         .rounded = 1 },                                                                           \
        { "FakeQuantize",     "float[3,5,7] float[5]:0.01..0.2 " type "[5]:0..1",                                      \
          .attrs = "axis=-2", .domain = "ztrain",                                                                      \
          .grad = 3,          .rounded = 1 },                                                                          \
        { "FakeQuantize",                                                                                              \
          "float[3,50] float[3,4]:0.01..0.2 " type "[3,4]:0..1",                                                       \
          .attrs = "axis=1 block_size=16",                                                                             \
          .domain = "ztrain",                                                                                          \
          .grad = 3,                                                                                                   \
          .rounded = 1 },                                                                                              \
        { "FakeQuantize",                                                                                              \
          "float[3,7,5] float[3,3,5]:0.01..0.2 " type "[3,3,5]:0..1",                                                  \
          .attrs = "axis=1 block_size=3",                                                                              \
          .domain = "ztrain",                                                                                          \
          .grad = 3,                                                                                                   \
          .rounded = 1 },                                                                                              \
    {                                                                                                                  \
        "FakeQuantize", EDGES " float(0.5) " type "(" zero ")", .domain = "ztrain", .grad = 1, .rounded = 1            \
    }

#define FAKE(inputs, ...)                                                                                              \
    { "FakeQuantize", inputs, __VA_ARGS__, .domain = "ztrain", .grad = 3, .rounded = 1 }

/* Ranges on both sides of 0, on one side, of no width, and NaN. */
#define ENDS "float{-1,-2,-0.001,2,0,-7,nan,-3e38} float{3,0.5,100,5,0,-3,1,3e38}"
#define RANGE_SCALE(type)                                                                                              \
    { "RangeScale", ENDS, .attrs = "type=" type, .domain = "ztrain", .outs = 2, .typed = 1 }, {                        \
        "RangeScale", ENDS, .attrs = "symmetric=1 type=" type, .domain = "ztrain", .outs = 2, .typed = 1               \
    }

const struct zt_case zt_cases_quantize[] = {
    EACH_TYPE(QUANTIZE_TYPE),
    EACH_TYPE(DEQUANTIZE_TYPE),
    EACH_TYPE(FAKE_TYPE),
    /* Old forms, omitted zero points, scales of other types, empty tensors. */
    { "QuantizeLinear", "float[3,40] float(0.1)", .opset = 10, .typed = 1 },
    { "QuantizeLinear", "int32[3,40]:-300..300 float(2.5) int8(3)", .opset = 13, .typed = 1 },
    { "QuantizeLinear", "float[2,3,4] float[3]:0.1..0.3 int8[3]", .opset = 13, .typed = 1 },
    { "QuantizeLinear", "float16[3,40] float16(0.1) int8(3)", .opset = 19, .typed = 1 },
    { "QuantizeLinear", "bfloat16[3,40] bfloat16(0.1) float8e5m2(0)", .opset = 21, .typed = 1 },
    { "QuantizeLinear", "float[3,40] float16(0.1) uint8(3)", .typed = 1 },
    { "QuantizeLinear", "float[3,40] float(0.1) uint8(3)", .attrs = "precision=10", .typed = 1 },
    { "QuantizeLinear", "float[3,40] float(0.1)", .attrs = "output_dtype=22", .typed = 1 },
    { "QuantizeLinear", "float[3,40] float8e8m0(0.125) int8(3)", .typed = 1 },
    { "QuantizeLinear", "int32[3,40]:-900..900 int32(3) int8(3)", .typed = 1 },
    { "QuantizeLinear", "float[0,4] float(0.1) int8(0)", .typed = 1 },
    { "QuantizeLinear", "float[70000] float(0.1) int8(0)", .typed = 1 },
    { "QuantizeLinear", "float[40000,2] float[2]:0.1..0.3 int8[2]", .attrs = "axis=-1", .typed = 1 },
    { "DequantizeLinear", "uint8[3,40] float(0.1)", .opset = 10, .typed = 1 },
    { "DequantizeLinear", "int32[3,40]:-70000..70000 float(0.1)", .opset = 13, .typed = 1 },
    { "DequantizeLinear", "int8[3,40] float(0.1) int8(2)", .attrs = "output_dtype=10", .typed = 1 },
    { "DequantizeLinear", "int8[3,40] float8e8m0(0.25) int8(2)", .attrs = "output_dtype=1", .typed = 1 },
    { "DequantizeLinear", "int8[70000] float(0.1) int8(0)", .typed = 1 },
    FAKE("float[70000] float(0.02) int8(0)", .attrs = "axis=1"),
    FAKE("float[4,20000] float[4]:0.01..0.03 uint8[4]:100..150", .attrs = "axis=0"),
    FAKE("float[900,24] float[24]:0.01..0.03 int8[24]:-5..5", .attrs = "axis=1"),
    FAKE("float[3,9] float(0.1)", .attrs = "type=22"),
    FAKE("float16[3,40] float16(0.1) int8(0)", .attrs = "axis=1"),
    FAKE("bfloat16[3,40] float(0.1) uint8(7)", .attrs = "axis=1"),
    FAKE("float[3,40] float(0.1) uint8(7)", .attrs = "precision=10"),
    FAKE("float[0,4] float(0.1) uint8(7)", .attrs = "axis=1"),
    { "DynamicQuantizeLinear", "float[3,40]", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float[3,40]:1..9", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float{0,0}", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float[0]", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float[70001]", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float[70001]:-9..-1", .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", EDGES, .outs = 3, .typed = 1 },
    { "DynamicQuantizeLinear", "float{nan,-3,5,nan,0.5,-0.5,1,2,3,4,5,6,7,8,9,-1,2.5}", .outs = 3, .typed = 1 },
    { "MovingRange", "float{-3,7,2}", .domain = "ztrain", .outs = 2, .typed = 1 },
    { "MovingRange", "float{0,0,0}", .domain = "ztrain", .outs = 3, .typed = 1 },
    { "MovingRange", "float{-3,7,2} float(-1.5) float(nan)", .attrs = "momentum=0.9", .domain = "ztrain", .outs = 3,
      .typed = 1 },
    { "MovingRange", "float{0,0,0} float(-1.5) float(4)", .domain = "ztrain", .outs = 3, .typed = 1 },
    { "MovingRange", "float{-3,7,2} float(3) float(-4)", .domain = "ztrain", .outs = 3, .typed = 1 },
    { "RangeOverRanks", "float(-1.5) float(4)", .domain = "ztrain", .outs = 2, .typed = 1 },
    RANGE_SCALE("3"),
    RANGE_SCALE("2"),
    RANGE_SCALE("5"),
    RANGE_SCALE("4"),
    RANGE_SCALE("22"),
    RANGE_SCALE("21"),
    { "MatMulInteger", "uint8[3,40]:0..255 int8[40,5]:-128..127" },
    { "MatMulInteger", "int8[2,3,40]:-128..127 uint8[40,5]:0..255 int8(3) uint8(128)" },
    { "MatMulInteger", "uint8[3,9] int8[9,5] uint8[3]:0..9 int8[5]:0..9" },
    { "MatMulInteger", "uint8[2,3,9] int8[2,9,5] uint8[2,3,1]:0..9 int8[2,1,5]:0..9" },
    { "MatMulInteger", "uint8[9] int8[9,5] uint8(1)" },
    /* Depths of several slices at the ends of the range, sums that wrap, zero points along every axis. */
    { "MatMulInteger", "uint8[7,700]:255..255 uint8[700,19]:255..255" },
    { "MatMulInteger", "uint8[7,700]:0..255 int8[700,300]:-128..127 uint8(255) int8(-128)" },
    { "MatMulInteger", "uint8[1,40000]:255..255 uint8[40000,2]:255..255" },
    { "MatMulInteger",
      "int8[2,3,5,257]:-128..127 int8[3,257,4]:-128..127 int8[2,3,5,1]:-128..127 int8[3,1,4]:-128..127" },
    { "MatMulInteger", "uint8[70,20000]:0..255 int8[20000]:-128..127" },
    { "MatMulInteger", "uint8[0,4] int8[4,3]" },
    { "QLinearMatMul",
      "uint8[40,300]:0..255 float(0.01) uint8(128) int8[300,270]:-128..127 float[270]:0.001..0.002 int8[270]:-3..3 "
      "float(0.05) uint8(128)",
      .typed = 1 },
    { "QLinearMatMul",
      "int8[2,9,300]:-128..127 float(0.01) int8(1) int8[2,300,5]:-128..127 float(0.01) int8(0) float(0.5) int8(0)",
      .typed = 1 },
    { "QLinearMatMul", "uint8[3,9] float(0.1) uint8(3) int8[9,5] float(0.2) int8(1) float(1e-30) uint8(9)",
      .typed = 1 },
    { "QLinearMatMul", "uint8[3,9] float(0.1) uint8(3) int8[9,5] float(0.2) int8(1) float(nan) int8(9)", .typed = 1 },
    { "QLinearMatMul", "uint8[3,9] float(0.1) uint8(3) int8[9,5] float(0.2) int8(1) float(0.5) uint8(9)", .typed = 1 },
    { "QLinearMatMul", "int8[3,9] float[3]:0.1..0.2 int8[3] uint8[9,5] float[5]:0.1..0.2 uint8[5] float(0.5) int8(0)",
      .opset = 10, .typed = 1 },
    { "QLinearMatMul",
      "uint8[2,3,9] float[2,3,1]:0.1..0.2 uint8[2,3,1] int8[9,5] float[5]:0.1..0.2 int8[5] float(0.5) uint8(9)",
      .typed = 1 },
    { "QLinearMatMul",
      "float8e4m3fn[3,9] float(0.1) float8e4m3fn(0) float8e4m3fn[9,5] float(0.2) float8e4m3fn(0) float(0.5) "
      "float8e4m3fn(0)",
      .typed = 1 },
    { "QLinearMatMul", "uint8[3,9] float16(0.1) uint8(3) int8[9] float16(0.2) int8(1) float16(0.5) uint8(9)",
      .typed = 1 },
    { "ConvInteger", "uint8[2,4,6,7]:0..255 int8[6,2,3,3]:-128..127 uint8(5) int8[6]",
      .attrs = "group=2 pads=[1,1,1,1]" },
    { "ConvInteger", "int8[1,2,9] uint8[3,2,3]" },
    { "ConvInteger", "uint8[2,33,19,17]:255..255 uint8[5,33,3,3]:255..255", .attrs = "pads=[1,1,1,1]" },
    { "ConvInteger", "uint8[1,40,8]:0..255 int8[9,40,1]:-128..127 uint8(255) int8[9]:-128..127" },
    { "ConvInteger", "int8[1,3,5,6,7]:-128..127 int8[4,3,2,3,2]:-128..127 int8(-128)",
      .attrs = "strides=[1,2,1] dilations=[2,1,3] pads=[1,0,2,1,1,2]" },
    { "ConvInteger", "uint8[2,6,20,21]:0..255 int8[6,1,3,3]:-128..127 uint8(3)",
      .attrs = "group=6 strides=[2,2] auto_pad=SAME_UPPER" },
    { "ConvInteger", "uint8[0,2,9] uint8[3,2,3]" },
    { "QLinearConv",
      "uint8[2,30,17,18]:0..255 float(0.02) uint8(128) int8[8,30,3,3]:-128..127 float[8]:0.001..0.002 int8[8]:0..0 "
      "float(0.05) int8(3) int32[8]:-9999..9999",
      .attrs = "pads=[1,1,1,1]", .typed = 1 },
    { "QLinearConv",
      "uint8[1,2,9]:0..255 float(1) uint8(0) int8[2,2,3] float(1) int8(0) float(10000000) int8(0) "
      "int32{2147483647,-2147483648}",
      .typed = 1 },
    { "QLinearConv",
      "uint8[2,4,6,7] float(0.1) uint8(3) int8[6,4,3,3] float[6]:0.1..0.2 int8[6] float(0.5) uint8(7) int32[6]:-99..99",
      .attrs = "strides=[2,1] pads=[1,0,1,2]", .typed = 1 },
    { "QLinearConv", "uint8[1,2,9] float(0.1) uint8(3) uint8[3,2,3] float(0.1) uint8(2) float(0.5) int8(7)",
      .typed = 1 },
    { NULL },
};
