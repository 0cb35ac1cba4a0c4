#include "ops/recurrent/step_product.h"

#include "device/threads.h"
#include "ops/kernel/tile.h"

/* Packed words of a depth. */
static int64_t words(const struct zt_step_product *p, int64_t depth) {
    return zt_ceil_div(depth, p->kernel->depths);
}

static int64_t padded(int64_t n, int64_t panel) {
    return zt_ceil_div(n, panel) * panel;
}

/* The slice at depth k of a band. */
struct slice {
    int64_t band, k, depth;
    int64_t word, words; /* of all bands, where the slice begins; and its own */
};

static struct slice slice_at(const struct zt_step_product *p, int64_t band, int64_t k) {
    struct slice s = { .band = band, .k = k, .depth = zt_min_int(p->depth - k, ZT_GEMM_DEPTH) };
    s.word = band * words(p, p->depth) + words(p, k);
    s.words = words(p, s.depth);
    return s;
}

#define EACH_SLICE(p, s)                                                                                               \
    for (int64_t band = 0; band < (p)->bands; band++)                                                                  \
        for (struct slice s = slice_at(p, band, 0); s.k < (p)->depth; s = slice_at(p, band, s.k + ZT_GEMM_DEPTH))

int64_t zt_step_product_b(const struct zt_step_product *p) {
    return p->bands * words(p, p->depth) * p->parts * padded(p->width, p->kernel->cols);
}

int64_t zt_step_product_a(const struct zt_step_product *p, int64_t rows) {
    return p->bands * words(p, p->depth) * padded(rows, p->kernel->rows);
}

static int64_t panels_of_a(const struct zt_step_product *p, int64_t rows) {
    return zt_ceil_div(rows, p->kernel->rows);
}

/* The first row of a panel of a, past the last one the number of rows. Heights differ by a third of a tile at most: a
 * panel of a third or less would cost as much as one of two thirds. High ones come first, where b comes from far
 * memory. */
static int64_t panel_row(const struct zt_step_product *p, int64_t rows, int64_t panel) {
    const int64_t third = p->kernel->rows / 3, thirds = zt_ceil_div(rows, third);
    return zt_min_int(zt_ceil_div(thirds * panel, panels_of_a(p, rows)) * third, rows);
}

/* The offset in the packed b of column j of a part, a multiple of the kernel's columns. */
static int64_t panel_of_b(const struct zt_step_product *p, const struct slice *s, int64_t part, int64_t j) {
    const int64_t wide = padded(p->width, p->kernel->cols);
    return s->word * p->parts * wide + (part * wide + j) * s->words;
}

struct packing {
    const struct zt_step_product *p;
    const float *from;
    int64_t row, col;
    float *to;
};

static void pack_panel(void *arg, int64_t i) {
    const struct packing *b = arg;
    const struct zt_step_product *p = b->p;
    const int64_t cols = p->kernel->cols, panels = zt_ceil_div(p->width, cols);
    const int64_t part = i / panels, j = i % panels * cols;
    EACH_SLICE(p, s)
    p->kernel->pack_cols(b->from + (s.band * p->depth + s.k) * b->row + (part * p->width + j) * b->col, b->col, b->row,
                         zt_min_int(p->width - j, cols), s.depth, b->to + panel_of_b(p, &s, part, j));
}

void zt_step_product_pack_b(const struct zt_step_product *p, const float *from, int64_t row, int64_t col, float *to,
                            int threads) {
    struct packing b = { p, from, row, col, to };
    zt_parallel_for(threads, p->parts * zt_ceil_div(p->width, p->kernel->cols), pack_panel, &b);
}

void zt_step_product_pack_a(const struct zt_step_product *p, struct zt_step_rows a, struct zt_step_range depth,
                            float *to) {
    const int64_t rows = p->kernel->rows, panels = panels_of_a(p, a.rows), all = panels * rows;
    EACH_SLICE(p, s) {
        const int64_t first = zt_max_int(depth.first, s.k), end = zt_min_int(depth.end, s.k + s.depth);
        const float *from = a.at + s.band * p->depth + first;
        for (int64_t i = 0; i < panels && first < end; i++) {
            const int64_t n = panel_row(p, a.rows, i);
            p->kernel->pack_rows(from + n * a.row, a.row, 1, panel_row(p, a.rows, i + 1) - n, end - first,
                                 to + s.word * all + (i * s.words + words(p, first - s.k)) * rows);
        }
    }
}

static void multiply_panel(const struct zt_step_product *p, const struct slice *s, struct zt_simd_gemm_tiles t,
                           int64_t rows) {
    for (int64_t i = 0; i < panels_of_a(p, rows); i++) {
        t.rows = panel_row(p, rows, i + 1) - panel_row(p, rows, i);
        p->kernel->tiles(&t);
        t.a += p->kernel->rows * s->words;
        t.y += t.rows * t.y_row;
    }
}

void zt_step_product_run(const struct zt_step_product *p, const float *a, const float *b, struct zt_step_rows y,
                         struct zt_step_range columns, bool add) {
    const int64_t cols = p->kernel->cols, end = zt_min_int(columns.end, p->width);
    EACH_SLICE(p, s) {
        struct zt_simd_gemm_tiles t = { .a = a + s.word * padded(y.rows, p->kernel->rows),
                                        .b_row = cols,
                                        .depth = s.words,
                                        .y_row = y.row,
                                        .alpha = 1,
                                        .add = add || s.word > 0 };
        for (int64_t part = 0; part < p->parts; part++)
            for (int64_t j = columns.first; j < end; j += cols) {
                t.b = b + panel_of_b(p, &s, part, j);
                t.y = y.at + part * p->width + j;
                t.cols = (int)zt_min_int(end - j, cols);
                multiply_panel(p, &s, t, y.rows);
            }
    }
}
