#include "tests/ops/cases.h"

#include <stddef.h>

/* Vectors, matrices, batches that broadcast, nothing at all, sizes around the reference kernel's tiles (32 rows, 64
 * deep, 128 columns). */
const struct zt_case zt_cases_matmul[] = {
    { "MatMul", "float[3,4] float[4,5]", .grad = 3 },
    { "MatMul", "float[4] float[4]", .grad = 3 },
    { "MatMul", "float[4] float[4,5]", .grad = 3 },
    { "MatMul", "float[3,4] float[4]", .grad = 3 },
    { "MatMul", "float[2,3,4] float[4]", .grad = 3 },
    { "MatMul", "float[4] float[2,4,3]", .grad = 3 },
    { "MatMul", "float[2,3,4] float[4,5]", .grad = 3 },
    { "MatMul", "float[2,1,3,4] float[5,4,2]", .grad = 3 },
    { "MatMul", "float[1,3,4] float[2,4,5]", .grad = 3 },
    { "MatMul", "float[3,4] float[2,4,5]", .grad = 3 },
    { "MatMul", "float[2,3,4] float[1,4,5]", .grad = 3 },
    { "MatMul", "float[33,130] float[130,129]", .grad = 3 },
    { "MatMul", "float[1,1] float[1,1]", .grad = 3 },
    { "MatMul", "float[0,4] float[4,5]" },
    { "MatMul", "float[3,0] float[0,5]" },
    { "MatMul", "float16[3,40] float16[40,5]", .tolerance = 2e-2 },
    { "MatMul", "bfloat16[3,40] bfloat16[40,5]", .tolerance = 5e-2 },
    { "MatMul", "int32[3,4]:-9..9 int32[4,5]:-9..9" },
    { "MatMul", "int64{4000000000,1} int64{4000000000,5}" },
    { "MatMul", "uint8[2,3] uint8[3,2]" },
    { "BatchMatMul", "float[2,4,3] float[2,4,5]", .attrs = "transA=1", .domain = "ztrain" },
    { "BatchMatMul", "float[2,1,3,4] float[3,5,4]", .attrs = "transB=1", .domain = "ztrain" },
    { "BatchMatMul", "float[4,3] float[5,4]", .attrs = "transA=1 transB=1", .domain = "ztrain" },
    { "Gemm", "float[3,4] float[4,5]", .grad = 3 },
    { "Gemm", "float[3,4] float[4,5] float[5]", .grad = 7 },
    { "Gemm", "float[3,4] float[4,5] float[3,1]", .attrs = "alpha=0.5 beta=2.0", .grad = 7 },
    { "Gemm", "float[4,3] float[4,5] float[1,5]", .attrs = "transA=1 alpha=0.5", .grad = 7 },
    { "Gemm", "float[3,4] float[5,4] float[]", .attrs = "transB=1 beta=0.5", .grad = 7 },
    { "Gemm", "float[4,3] float[5,4] float[3,5]", .attrs = "transA=1 transB=1", .grad = 7 },
    { "Gemm", "float[65,66] float[200,66] float[200]", .attrs = "transB=1", .grad = 7 },
    { "Gemm", "float[0,4] float[5,4] float[5]", .attrs = "transB=1" },
    { "Gemm", "float[3,0] float[0,5] float[5]" },
    { "Gemm", "bfloat16[8,16] bfloat16[4,16] bfloat16[4]", .attrs = "transB=1", .tolerance = 5e-2 },
    { "Gemm", "int32[3,4] int32[4,5] int32[5]" },
    { NULL },
};
