/* Our own product of float matrices, y = alpha a b + beta bias, for machines and builds where no library has a good
 * one.
 *
 *     columns of b are packed, `cols` side by side:   [panel of cols][depth][cols]      shared by all threads
 *     rows of a are packed, `rows` side by side:      [panel of rows][depth][rows]      by the thread that needs them
 *     a tile of y, rows x cols, stays in registers while its depth goes by
 *
 * Rounding: ZT_GEMM_DEPTH products are summed by fused multiply-adds, and these sums are added in order. That is all an
 * element of y depends on, so it has the same bits however the work is cut and wherever it lies. NaN flows. */
#ifndef ZT_OPS_CPU_SIMD_GEMM_H
#define ZT_OPS_CPU_SIMD_GEMM_H

#include <stddef.h>
#include <stdint.h>

enum { ZT_GEMM_DEPTH = 256 }; /* a panel of b of this depth stays in the first cache, one of a in the second */

/* `count` products y[m,n] of a[m,k] b[k,n], all sizes 1 or more. Strides count elements; *_step leads from one product
 * to the next. Rows of y lie y_row apart, their elements side by side. */
struct zt_simd_gemm {
    int64_t count, m, n, k;
    int64_t a_step, a_row, a_col, b_step, b_row, b_col, y_step, y_row;
    int64_t bias_row, bias_col; /* bias_row any, bias_col 0 or 1; all products share it */
    float alpha, beta;
    int add, relu; /* y += the result; then y = max(y, 0), NaN stays */
    int packed;    /* b is what zt_simd_gemm_pack left of one that all products share */
};

/* One tile: what tile() computes from packed rows and columns. */
struct zt_simd_gemm_tile {
    const float *a, *b;
    int64_t b_row, depth; /* from one row of b to the next */
    int rows, cols;       /* of y, at most the kernel's */
    float *y;
    int64_t y_row;
    const float *bias; /* NULL: none */
    int64_t bias_row, bias_col;
    float alpha, beta;
    int add, relu;
};

struct zt_simd_gemm_kernel {
    int rows, cols;
    /* to[k][l] = from[l * step + k * next] for l < count, 0 up to `rows` (`cols`); rows: any number, panel by panel */
    void (*pack_rows)(const float *from, int64_t step, int64_t next, int64_t count, int64_t depth, float *to);
    void (*pack_cols)(const float *from, int64_t step, int64_t next, int count, int64_t depth, float *to);
    void (*tile)(const struct zt_simd_gemm_tile *t);
};

/* The kernel with vectors of 8 or 16 floats; NULL where this machine has no fused multiply-add of that width. */
const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector);
/* The widest of them, NULL where there is none. */
const struct zt_simd_gemm_kernel *zt_simd_gemm_best(void);

/* b packed once for several runs: the floats it takes (to be aligned to 64), and the packing. `g` tells k, n and b's
 * strides. */
int64_t zt_simd_gemm_packed(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g);
void zt_simd_gemm_pack(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, const float *b,
                       float *to, int threads);

/* Memory that a run on at most `threads` threads wants, to be aligned to 64. */
size_t zt_simd_gemm_bytes(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, int threads);
/* bias may be NULL. A single product on one thread may be a part of other blocks of work. */
void zt_simd_gemm_run(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, const float *a,
                      const float *b, const float *bias, float *y, void *workspace, int threads);

#endif
