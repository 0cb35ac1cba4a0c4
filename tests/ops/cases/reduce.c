#include "tests/ops/cases.h"

#include <stddef.h>

/* Leading, trailing, middle and all axes, none, negative, dropped axes, slices longer than a block of elements, an
 * empty set. */
#define EVERY_FORM(op, range)                                                                                          \
    { op, "float[3,4,5]" range " int64{0}", .grad = 1 }, { op, "float[3,4,5]" range " int64{-1}", .grad = 1 },         \
        { op, "float[3,4,5]" range " int64{1}", .attrs = "keepdims=0", .grad = 1 },                                    \
        { op, "float[3,4,5]" range " int64{2,0}", .attrs = "keepdims=0", .grad = 1 },                                  \
        { op, "float[3,4,5]" range, .attrs = "keepdims=0", .grad = 1 }, { op, "float[3,4,5]" range, .grad = 1 },       \
        { op, "float[3,4,5]" range, .attrs = "noop_with_empty_axes=1", .grad = 1 },                                    \
        { op, "float[]" range, .grad = 1 }, { op, "float[2,0,3]" range " int64{1}" },                                  \
        { op, "float[0,3]" range " int64{1}" }, { op, "float16[3,4]" range " int64{1}" }, {                            \
        op, "bfloat16[3,4]" range " int64{0}"                                                                          \
    }

#define LONG_SLICES(op, range)                                                                                         \
    { op, "float[2,600]" range " int64{1}", .grad = 1 }, {                                                             \
        op, "float[2,600]" range " int64{0}", .grad = 1                                                                \
    }

/* Rows enough to be cut into pieces: of one axis, of two around a kept one, of more columns than a block has. */
#define LONG_COLUMNS(op, range)                                                                                        \
    { op, "float[2100,71]" range " int64{0}" }, { op, "float[50,3,40,37]" range " int64{0,2}" }, {                     \
        op, "float[700,300]" range " int64{0}"                                                                         \
    }

/* Rows long enough to be cut into pieces: several of them, and all elements of a tensor. */
#define LONG_ROWS(op, range)                                                                                           \
    { op, "float[3,9000]" range " int64{1}" }, {                                                                       \
        op, "float[4,3500]" range, .attrs = "keepdims=0"                                                               \
    }

/* Channels and places, as blocks of channels have them: a channel over the batch, alone, with the batch kept, all of a
 * sample, all; with places kept, and channels that fill blocks of 8 alone, or none. */
#define PLANES(op, range)                                                                                              \
    { op, "float[3,32,17,18]" range " int64{0,2,3}" },                                                                 \
        { op, "float[3,32,5,7]" range " int64{2,3}", .attrs = "keepdims=0", .grad = 1 },                               \
        { op, "float[2,32,5,2,3]" range " int64{1,2,3,4}", .grad = 1 },                                                \
        { op, "float[2,32,5,7]" range, .attrs = "keepdims=0" }, { op, "float[2,32,5,7]" range " int64{1,3}" },         \
        { op, "float[3,24,5,7]" range " int64{0,2,3}", .attrs = "keepdims=0" },                                        \
        { op, "float[3,20,5,7]" range " int64{0,2,3}" }, { op, "float[3,20,5,7]" range " int64{2,3}", .grad = 1 }, {   \
        op, "float[3,20,1,1]" range " int64{2,3}"                                                                      \
    }

const struct zt_case zt_cases_reduce[] = {
    PLANES("ReduceSum", ""),
    PLANES("ReduceMean", ""),
    PLANES("ReduceMax", ""),
    PLANES("ReduceLogSumExp", ""),
    EVERY_FORM("ReduceSum", ""),
    LONG_SLICES("ReduceSum", ":0.5..2"),
    EVERY_FORM("ReduceMean", ""),
    LONG_SLICES("ReduceMean", ":0.5..2"),
    EVERY_FORM("ReduceMax", ""),
    LONG_SLICES("ReduceMax", ":0.5..2"),
    EVERY_FORM("ReduceMin", ""),
    LONG_SLICES("ReduceMin", ":0.5..2"),
    EVERY_FORM("ReduceProd", ":0.5..2"),
    LONG_SLICES("ReduceProd", ":0.98..1.02"),
    EVERY_FORM("ReduceL1", ""),
    LONG_SLICES("ReduceL1", ":0.5..2"),
    EVERY_FORM("ReduceL2", ""),
    LONG_SLICES("ReduceL2", ":0.5..2"),
    EVERY_FORM("ReduceLogSum", ":0.5..2"),
    LONG_SLICES("ReduceLogSum", ":0.5..2"),
    EVERY_FORM("ReduceLogSumExp", ""),
    LONG_SLICES("ReduceLogSumExp", ":0.5..2"),
    EVERY_FORM("ReduceSumSquare", ""),
    LONG_SLICES("ReduceSumSquare", ":0.5..2"),
    LONG_ROWS("ReduceSum", ":0.5..2"),
    LONG_ROWS("ReduceMax", ""),
    LONG_ROWS("ReduceMean", ""),
    LONG_ROWS("ReduceL2", ""),
    LONG_COLUMNS("ReduceSum", ""),
    LONG_COLUMNS("ReduceMean", ""),
    LONG_COLUMNS("ReduceMax", ""),
    LONG_COLUMNS("ReduceMin", ""),
    LONG_COLUMNS("ReduceProd", ":0.999..1.001"),
    LONG_COLUMNS("ReduceL1", ""),
    LONG_COLUMNS("ReduceL2", ""),
    LONG_COLUMNS("ReduceLogSumExp", ""),
    { "ReduceSum", "float[3,4,5]", .attrs = "axes=[1]", .opset = 11, .grad = 1 },
    { "ReduceMean", "float[3,4,5]", .attrs = "axes=[1,2] keepdims=0", .opset = 13, .grad = 1 },
    { "ReduceLogSumExp", "float{1000,1001,-1000}" },
    { "ReduceLogSumExp", "float{-inf,-inf}" },
    { "ReduceLogSumExp", "float{-inf,inf,3}" },
    { "ReduceLogSumExp", "float{-inf,nan,inf,3}" },
    { "ReduceLogSumExp", "float[3,40,21] int64{1}", .grad = 1 },
    { "ReduceLogSumExp", "float[3,90,24] int64{1}", .grad = 1 },
    { "ReduceLogSumExp", "float[3,40,21] int64{1,2}", .grad = 1 },
    { "ReduceLogSumExp", "float[3,40,21] int64{0,2}", .grad = 1 },
    { "ReduceLogSumExp", "float[20,1,300] int64{2}", .grad = 1 },
    { "ReduceSum", "int64[3,4] int64{1}" },
    { "ReduceSum", "uint32[3,4] int64{0}" },
    { "ReduceMax", "int8[3,4]:-99..99 int64{1}" },
    { "ReduceMin", "uint64[3,4] int64{1}" },
    { "ReduceMax", "bool[3,4] int64{1}" },
    { "ReduceProd", "int32[2,3] int64{1}" },
    { "ReduceL1", "int32[2,3]:-9..9 int64{1}" },
    { "ArgMax", "float[3,4,5]", .attrs = "axis=1" },
    { "ArgMax", "int32[3,9]:0..2", .attrs = "axis=-1 keepdims=0 select_last_index=1" },
    { "ArgMin", "float16[3,4,5]", .attrs = "axis=0" },
    { "ArgMin", "uint64[30]:0..3" },
    { "CumSum", "float[3,4,5] int64(1)", .grad = 1 },
    { "CumSum", "float[3,4,5] int32(-1)", .attrs = "exclusive=1", .grad = 1 },
    { "CumSum", "float[3,4] int64(0)", .attrs = "reverse=1", .grad = 1 },
    { "CumSum", "int64[3,4] int64(0)", .attrs = "reverse=1 exclusive=1" },
    { "CumProd", "float[3,4]:0.5..2 int64(1)", .grad = 1 },
    { "CumProd", "float[3,4]:0.5..2 int64(0)", .attrs = "reverse=1 exclusive=1", .grad = 1 },
    { NULL },
};
