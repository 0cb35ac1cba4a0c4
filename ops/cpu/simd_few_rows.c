#include "ops/cpu/simd_few_rows.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>
#include <string.h>

enum {
    ROWS = 8,       /* of y that a kernel takes; there are two of them where the rows of b are adjacent */
    DEPTHS = 8,     /* rows of b that are read beside each other, or columns */
    BLOCK = 256,    /* columns of a unit, whose sums are in the first cache */
    COLUMN = 16,    /* a unit has a multiple of so many */
    FEWEST = 4,     /* up to so many rows, sums in registers over all of k are no faster */
    DEEP = 1024,    /* k from which on b is taken to lie beyond the second cache, whatever n is: equal bits in any n */
    SHORTEST = 128, /* k from which on sums along vectors are worth adding up */
    COLUMNS = 16,   /* of y at most, where a is transposed */
    SUMMED = 2,     /* where it is not, and each element of y is added up from vectors: columns, and the least k */
    SUMMED_SHORTEST = 16,
};

/* a is packed: where b_col is 1 [k][rows], the rows of each kernel apart, else [rows][a_row], with zeros behind k. */
struct few {
    const struct zt_simd_gemm *g;
    const struct zt_simd_gemm_operands *at;
    const float *a, *b;
    int64_t k, a_row, b_row, b_col;
    int64_t columns; /* of a unit */
    const struct kernels *kernels;
};

/* What a kernel reads and adds to, in registers. */
struct step {
    const float *a, *b;
    float *sums;
    int64_t b_row;
};

/* Adds to sums [rows][BLOCK], or makes them, of `columns` columns. */
typedef void sum_function(const struct few *f, const float *a, const float *b, int64_t columns, float *sums);
struct kernels { /* [rows - 1] */
    sum_function *depths[ROWS], *depth[ROWS], *columns[ROWS];
};

#if defined(__x86_64__)
#include <immintrin.h>

#define FUSED_ONLY
#define BODY "ops/cpu/simd_few_rows.inc"
#include "ops/cpu/simd_targets.inc"

static const struct kernels *kernels_of(int vector) {
    return vector == 16 ? &kernels_avx512 : &kernels_avx2;
}
#else
static const struct kernels *kernels_of(int vector) {
    (void)vector;
    return NULL;
}
#endif

static bool has_few_rows(const struct zt_simd_gemm *g) {
    if (g->b_col == 1)
        return g->m <= FEWEST || (g->m <= 2 * ROWS && g->k >= DEEP);
    return g->b_row == 1 && g->m <= ROWS && g->k >= SHORTEST;
}

static bool has_few_columns(const struct zt_simd_gemm *g) {
    if (g->m <= g->n)
        return false;
    return g->a_row == 1 ? g->n <= COLUMNS && g->k >= DEEP : g->a_col == 1 && g->n <= SUMMED && g->k >= SUMMED_SHORTEST;
}

/* The products beside each other go the same way, so that each has the bits that it has alone. */
static bool take(const struct zt_simd_gemm *g, bool (*has_few)(const struct zt_simd_gemm *g)) {
    return !g->y_bfloat && has_few(g) && (!g->beside || take(g->beside, has_few));
}

bool zt_few_rows_takes(const struct zt_simd_gemm *g) {
    return take(g, has_few_rows) || take(g, has_few_columns);
}

static int64_t a_row_of(const struct zt_simd_gemm *g) {
    return zt_ceil_div(g->k, COLUMN) * COLUMN;
}

/* The product whose a is b, whose b is a, and whose rows of y follow each other. */
static struct zt_simd_gemm transposed(const struct zt_simd_gemm *g) {
    return (struct zt_simd_gemm){ .count = 1,
                                  .m = g->n,
                                  .n = g->m,
                                  .k = g->k,
                                  .a_row = g->b_col,
                                  .a_col = g->b_row,
                                  .b_row = g->a_col,
                                  .b_col = g->a_row,
                                  .y_row = g->m,
                                  .alpha = g->alpha };
}

/* Floats of the transposed y. */
static int64_t y_elems(const struct zt_simd_gemm *g) {
    return zt_align_floats(g->m * g->n);
}

static int64_t elems_of(const struct zt_simd_gemm *g, bool rows) {
    const int64_t own = rows ? g->m * a_row_of(g) : y_elems(g) + g->n * a_row_of(g);
    return g->beside ? zt_max_int(own, elems_of(g->beside, rows)) : own;
}

int64_t zt_few_rows_elems(const struct zt_simd_gemm *g) {
    return elems_of(g, take(g, has_few_rows));
}

/* Rows of the first kernel; the second one has the others. */
static int64_t first_rows(const struct zt_simd_gemm *g) {
    return g->m <= ROWS ? g->m : zt_ceil_div(g->m, 2);
}

static void pack(const struct few *f, const float *from, float *to) {
    const struct zt_simd_gemm *g = f->g;
    const int64_t first = first_rows(g);
    for (int64_t i = 0; i < g->m; i++) {
        const int64_t rows = i < first ? first : g->m - first;
        float *start = g->b_col != 1 ? to + i * f->a_row : i < first ? to + i : to + first * g->k + i - first;
        for (int64_t k = 0; k < g->k; k++)
            start[k * (g->b_col == 1 ? rows : 1)] = from[i * g->a_row + k * g->a_col];
        for (int64_t k = g->k; k < f->a_row && g->b_col != 1; k++)
            start[k] = 0;
    }
}

/* y = [y +] [beta bias +] alpha sum, of an element. */
static void give(const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *at, int64_t row, int64_t column,
                 float sum) {
    float *y = (float *)at->y + row * g->y_row + column;
    if (at->bias)
        sum += g->beta * at->bias[row * g->bias_row + column * g->bias_col];
    if (g->add)
        sum += *y;
    *y = g->relu && sum < 0 ? 0 : sum; /* NaN is not below 0 */
}

/* Sums of `columns` columns from b on, whose rows are adjacent. */
static void add_depths(const struct few *f, const float *b, int64_t columns, float *sums) {
    const int64_t first = first_rows(f->g), second = f->g->m - first;
    const float *a = f->a, *a_2 = a + first * f->k;
    memset(sums, 0, (size_t)(f->g->m * BLOCK) * sizeof *sums);
    for (int64_t k = 0, depth; k < f->k; k += depth, b += depth * f->b_row) {
        depth = f->k - k < DEPTHS ? 1 : DEPTHS;
        sum_function *const *add = depth == 1 ? f->kernels->depth : f->kernels->depths;
        add[first - 1](f, a + k * first, b, columns, sums);
        if (second > 0)
            add[second - 1](f, a_2 + k * second, b, columns, sums + first * BLOCK);
    }
}

static void run_unit(void *arg, int64_t unit) {
    const struct few *f = arg;
    _Alignas(64) float sums[2 * ROWS * BLOCK];
    const int64_t first = unit * f->columns, columns = zt_min_int(f->columns, f->g->n - first);
    if (f->b_col == 1)
        add_depths(f, f->b + first, columns, sums);
    else
        f->kernels->columns[f->g->m - 1](f, f->a, f->b + first * f->b_col, columns, sums);
    for (int64_t i = 0; i < f->g->m; i++)
        for (int64_t j = 0; j < columns; j++)
            give(f->g, f->at, i, first + j, f->g->alpha * sums[i * BLOCK + j]);
}

static void run_rows(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                     float *workspace, int threads) {
    struct few f = { .g = g, .at = operands, .a = workspace, .b = operands->b, .k = g->k, .a_row = a_row_of(g) };
    f.b_row = g->b_row;
    f.b_col = g->b_col;
    f.columns = zt_min_int(BLOCK, zt_ceil_div(g->n, (int64_t)threads * COLUMN) * COLUMN);
    f.kernels = kernels_of(vector);
    pack(&f, operands->a, workspace);
    zt_parallel_for(threads, zt_ceil_div(g->n, f.columns), run_unit, &f);
}

static void run_columns(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                        float *workspace, int threads) {
    const struct zt_simd_gemm t = transposed(g);
    const struct zt_simd_gemm_operands swapped = { .a = operands->b, .b = operands->a, .y = workspace };
    run_rows(vector, &t, &swapped, workspace + y_elems(g), threads);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            give(g, operands, i, j, workspace[j * g->m + i]);
}

void zt_few_rows_run(int vector, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *operands,
                     float *workspace, int threads) {
    const bool rows = take(g, has_few_rows);
    for (; g; g = g->beside, operands = operands->beside)
        (rows ? run_rows : run_columns)(vector, g, operands, workspace, threads);
}
