#include "tests/ops/cases.h"

#include <stddef.h>

/* Every kind of transform of one length: real and complex, forward and inverse, whole and onesided. */
#define REALS(TYPE, N)   TYPE "[2," N ",3,1] - int64(1)"
#define NUMBERS(TYPE, N) TYPE "[2," N ",3,2] - int64(1)"
#define HALVES(TYPE, N)  TYPE "[2,7,3,2] int64(" N ") int64(-3)"
#define EVERY_KIND(TYPE, N, GRAD)                                                                                      \
    { "DFT", REALS(TYPE, N), .grad = GRAD }, { "DFT", REALS(TYPE, N), .attrs = "onesided=1", .grad = GRAD },           \
        { "DFT", REALS(TYPE, N), .attrs = "inverse=1", .grad = GRAD }, { "DFT", NUMBERS(TYPE, N), .grad = GRAD },      \
        { "DFT", NUMBERS(TYPE, N), .attrs = "inverse=1", .grad = GRAD }, {                                             \
        "DFT", HALVES(TYPE, N), .attrs = "inverse=1 onesided=1", .grad = GRAD                                          \
    }
/* On the last axis but one, of many slices: whole groups of them, and one that is not full. */
#define LONG(N)                                                                                                        \
    { "DFT", "float[19," N ",2]" }, { "DFT", "float[19," N ",1]", .tolerance = 1e-4 },                                 \
        { "DFT", "float[19," N ",1]", .attrs = "onesided=1" }, {                                                       \
        "DFT", "float[3,11,2] int64(" N ")", .attrs = "inverse=1 onesided=1"                                           \
    }

const struct zt_case zt_cases_signal[] = {
    EVERY_KIND("float", "1", 1),
    EVERY_KIND("float", "2", 1),
    EVERY_KIND("float", "3", 1),
    EVERY_KIND("float", "5", 1),
    EVERY_KIND("float", "8", 1),
    EVERY_KIND("float", "12", 1),
    EVERY_KIND("float", "13", 1),
    EVERY_KIND("float", "37", 1), /* a convolution */
    EVERY_KIND("float", "74", 1), /* of pairs */
    EVERY_KIND("double", "1", 0),
    EVERY_KIND("double", "30", 0),
    EVERY_KIND("double", "41", 0),
    EVERY_KIND("float16", "15", 0),
    EVERY_KIND("bfloat16", "16", 0),
    LONG("64"),
    LONG("105"),
    LONG("256"),
    LONG("1000"),
    LONG("1009"),
    LONG("31"),
    LONG("62"),
    LONG("2018"),
    { "DFT", "float[2,5000,2]" }, /* arrays beyond shared memory */
    { "DFT", "float[1,4507,1]" },
    /* padded and cut by dft_length */
    { "DFT", "float[2,5,3,2] int64(9) int64(1)", .grad = 1 },
    { "DFT", "float[2,5,3,2] int32(3) int64(1)", .grad = 1 },
    { "DFT", "float[2,5,3,1] int64(8) int64(-3)", .grad = 1 },
    { "DFT", "float[2,5,3,1] int64(4) int64(1)", .attrs = "onesided=1", .grad = 1 },
    { "DFT", "float[2,5,3,2] int64(7) int64(1)", .attrs = "inverse=1", .grad = 1 },
    { "DFT", "float[2,5,3,1] int64(3) int64(1)", .attrs = "inverse=1", .grad = 1 },
    { "DFT", "float[2,5,3,2] int64(4) int64(1)", .attrs = "inverse=1 onesided=1", .grad = 1 },
    { "DFT", "float[2,5,3,2] int64(5) int64(1)", .attrs = "inverse=1 onesided=1", .grad = 1 },
    { "DFT", "float[2,5,3,2] int64{14} int64(1)", .attrs = "inverse=1 onesided=1", .grad = 1 },
    { "DFT", "float[2,5,3,2] int64(15) int64(1)", .attrs = "inverse=1 onesided=1", .grad = 1 },
    /* every axis, with the default of each opset */
    { "DFT", "float[3,4,5,2] - int64(0)", .grad = 1 },
    { "DFT", "float[3,4,5,2] - int64(-2)", .grad = 1 },
    { "DFT", "float[3,4,5,2]", .grad = 1 },
    { "DFT", "float[6,2]", .grad = 1 },
    { "DFT", "float[3,4,5,2]", .opset = 17, .grad = 1 },
    { "DFT", "float[3,4,5,1] int64(6)", .attrs = "axis=-4", .opset = 19, .grad = 1 },
    { "DFT", "float[3,4,5,2]", .attrs = "axis=2 inverse=1 onesided=1", .opset = 17, .grad = 1 },
    /* without elements */
    { "DFT", "float[0,4,5,2]", .grad = 1 },
    { "DFT", "float[2,0,1] int64(4)", .grad = 1 },
    { "STFT", "float[2,128,1] int64(8) - int64(16)", .grad = 1 },
    { "STFT", "float[2,61,1] int64(7) float[13]", .grad = 1 | 1 << 2 },
    { "STFT", "float[2,61,1] int64(20) float[16] int64(16)", .grad = 1 | 1 << 2 },
    { "STFT", "float[2,61,1] int32(3) float[16] int32(16)", .attrs = "onesided=0", .grad = 1 | 1 << 2 },
    { "STFT", "float[2,61,2] int64(5) float[15]", .attrs = "onesided=0", .grad = 1 | 1 << 2 },
    { "STFT", "float[1,20,2] int64(4) - int64(6)", .attrs = "onesided=0", .grad = 1 },
    { "STFT", "float[3,12,1] int64(1)", .grad = 1 },                     /* one frame, of the whole signal */
    { "STFT", "float[1,12,1] int64(100) float[5]", .grad = 1 | 1 << 2 }, /* a step beyond the end */
    { "STFT", "float[2,61] int64(7) float[13]", .grad = 1 | 1 << 2 },    /* as PyTorch exports */
    { "STFT", "float[3,40] int64(5) - int64(8)", .attrs = "onesided=0", .grad = 1 },
    { "STFT", "float[1,5,1] int64(1) float[1]", .grad = 1 | 1 << 2 },
    { "STFT", "float[0,12,1] int64(3) float[4]", .grad = 1 },
    { "STFT", "float[3,700,1] int64(37) float[74]" },
    { "STFT", "float[2,2000,1] int64(160) float[400]" },
    { "STFT", "double[2,100,1] int64(9) double[30]" },
    { "STFT", "float16[2,100,1] int64(9) float16[16]" },
    { "STFT", "bfloat16[2,100,2] int64(9) bfloat16[16]", .attrs = "onesided=0" },
    { "HannWindow", "int64(10)" },
    { "HannWindow", "int32(301)", .attrs = "periodic=0 output_datatype=11" },
    { "HannWindow", "int64(1)", .attrs = "periodic=0" },
    { "HannWindow", "int64(0)" },
    { "HammingWindow", "int64(9)", .attrs = "output_datatype=10" },
    { "HammingWindow", "int64{7}", .attrs = "periodic=0 output_datatype=16" },
    { "BlackmanWindow", "int32(12)", .attrs = "periodic=0" },
    { "BlackmanWindow", "int64(5)", .attrs = "output_datatype=6" },
    { "MelWeightMatrix", "int64(8) int64(16) int64(8192) float(0.0) float(4096.0)" },
    { "MelWeightMatrix", "int32(5) int32(64) int32(16000) float(300.0) float(9000.0)" },
    { "MelWeightMatrix", "int64(3) int64(0) int64(16000) double(0.0) double(8000.0)", .attrs = "output_datatype=11" },
    { "MelWeightMatrix", "int64(4) int64(32) int64(8000) float16(20.0) bfloat16(4000.0)",
      .attrs = "output_datatype=10" },
    { "MelWeightMatrix", "int64(4) int64(32) int64(8000) float(20.0) float(4000.0)", .attrs = "output_datatype=7" },
    { NULL },
};
