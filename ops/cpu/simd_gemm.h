/* Our own product of matrices, y = alpha a b + beta bias, for machines and builds without a fast library product. a and
 * b are of float or bfloat16, y is of float, or of bfloat16 where a is, and the bias of float.
 *
 *     columns of b are packed in panels of `cols`:    [panel of cols][depth][cols]      shared by all threads
 *     rows of a are packed in panels of `rows`:       [panel of rows][depth][rows]      by the thread that uses them
 *     a tile of y, rows x cols, stays in registers over the whole depth
 *
 * Rounding: about ZT_GEMM_DEPTH products, equal parts of k, are summed by fused multiply-adds, and these sums are added
 * in order; with few rows or columns (simd_few_rows.h) k is summed as that says. An element of y
 * depends on k, and on m, n and the orders of a and b in so far as they choose between these, so its bits depend
 * neither on the division of the work nor on its position. NaN stays NaN. */
#ifndef ZT_OPS_CPU_SIMD_GEMM_H
#define ZT_OPS_CPU_SIMD_GEMM_H

#include <stddef.h>
#include <stdint.h>

enum {
    ZT_GEMM_DEPTH = 256, /* a panel of b of this depth stays in the first cache, one of a in the second */
    ZT_GEMM_LINE = 64,   /* bytes of a cache line */
};

/* `count` products y[m,n] of a[m,k] b[k,n], all sizes 1 or more. Strides count elements; *_step leads from one product
 * to the next. Rows of y are y_row apart, and their elements are adjacent. */
struct zt_simd_gemm {
    int64_t count, m, n, k;
    int64_t a_step, a_row, a_col, b_step, b_row, b_col, y_step, y_row;
    int64_t bias_row, bias_col; /* bias_row any, bias_col 0 or 1; all products share it */
    float alpha, beta;
    int add, relu; /* y += the result; then y = max(y, 0), NaN stays */
    int y_bfloat;  /* y is of bfloat16, rounded once from sums in float; add and beside are 0 then */
    /* NULL, or another product of the same a, or of its first rows, by a b of its own; count is 1 then. What is packed
     * of a serves both. */
    const struct zt_simd_gemm *beside;
};

/* Memory that is fetched into the second cache beside the products: lines of `rows` rows that are `step` apart, the
 * first line of every row, then the second, and so on. */
struct zt_simd_gemm_ahead {
    const char *at;     /* NULL: nothing */
    int64_t step, rows; /* step: in bytes */
    int64_t row;        /* the next line's */
    int64_t each;       /* lines that are fetched beside a tile */
};

/* Tiles of y below each other, which tiles() computes from packed rows and one panel of packed columns. */
struct zt_simd_gemm_tiles {
    const float *a, *b;
    int64_t a_step; /* from one panel of packed rows to the next */
    int a_panels;   /* a is [panel of `cols` of the depth][row][cols] instead, panels a_step apart, of whole tiles;
                     * cols is the kernel's, and so is the product's */
    int64_t a_row;  /* not 0: a is float where it lies, the words of a row adjacent and its rows a_row apart, of whole
                     * tiles and of more columns than a vector */
    int64_t b_row, depth; /* from one row of b to the next; words of the depth */
    int64_t rows;         /* of y */
    int cols;             /* of y, at most the kernel's */
    float *y;
    int64_t y_row;
    const float *bias; /* NULL: none */
    int64_t bias_row, bias_col;
    float alpha, beta;
    int add, relu;
    struct zt_simd_gemm_ahead *ahead[2]; /* moved on; NULL: none */
};

struct zt_simd_gemm_kernel {
    int rows, cols;
    int few;              /* columns up to which tiles() takes one by one, for less than half a tile of them costs */
    int depths;           /* in a packed word of 32 bits: 1 float, or 2 of bfloat16 */
    int a_bytes, b_bytes; /* of an element of a and of b */
    /* to[k][l] = from[l * step + k * next] for l < count, any number, panel by panel; 0 up to `rows` (`cols`) */
    void (*pack_rows)(const void *from, int64_t step, int64_t next, int64_t count, int64_t depth, float *to);
    void (*pack_cols)(const void *from, int64_t step, int64_t next, int64_t count, int64_t depth, float *to);
    void (*tiles)(const struct zt_simd_gemm_tiles *t);
    /* Rounds to bfloat16, to nearest, ties to even; NULL: y is always of float. */
    void (*round)(const float *from, int64_t count, uint16_t *to);
};

/* The kernel with vectors of 8 or 16 floats; NULL where this machine has no fused multiply-add of that width. */
const struct zt_simd_gemm_kernel *zt_simd_gemm_kernel(int vector);
/* The widest of them, NULL where there is none. */
const struct zt_simd_gemm_kernel *zt_simd_gemm_best(void);
/* Products of bfloat16, added in float; NULL where this machine has no instruction for it. The first rounds a and b, of
 * float, while it packs them; those of the second are bfloat16; a of the third is bfloat16, and it rounds b, of float.
 */
const struct zt_simd_gemm_kernel *zt_simd_gemm_bfloat(void);
const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat(void);
const struct zt_simd_gemm_kernel *zt_simd_gemm_of_bfloat_by_float(void);

/* Workspace bytes of a run on at most `threads` threads; the workspace must be aligned to 64. */
size_t zt_simd_gemm_bytes(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, int threads);
/* The matrices of the first product. */
struct zt_simd_gemm_operands {
    const void *a, *b;
    const float *bias; /* NULL: none */
    void *y;
    const struct zt_simd_gemm_operands *beside; /* of zt_simd_gemm.beside */
};
/* Runs the products. With count 1 and one thread, a function that zt_parallel_for runs may call it. */
void zt_simd_gemm_run(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g,
                      const struct zt_simd_gemm_operands *operands, void *workspace, int threads);

#endif
