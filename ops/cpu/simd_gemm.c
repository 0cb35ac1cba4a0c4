/* The division of a product (sizes of the kernel with vectors of 8, tiles of 6 x 16):
 *
 *     many products      a thread computes a whole product
 *     else               b is divided into blocks of depth 4096 and BLOCK floats at most, or of HELD floats where all
 * of its columns fit such a block and many units read it. All threads pack the panels of 16 columns of a block, then
 * they compute units of y. Where one unit has all rows of y, it reads each panel of b once: it packs the panel into the
 * first cache and multiplies it there. Products of little depth, gradients of weights at small batches, go along the
 * rows of y. Where b has few panels, packing a would take longer than reading it where it lies, which whole tiles do.
 * The panel that a unit packs or reads next is fetched into the second cache beside the products, and so are
 * the rows of a that it packs next.
 *
 * A unit is at most MOST_ROWS rows of y by the block's columns. Several threads get UNITS each, of fewer rows and,
 * where there are too few rows, fewer columns; one each where there are at most FEW_TILES, whose packing would count.
 * Every unit packs its rows of a. The sides of a unit have at least LEAST_TILES tiles, or packing a and fetching b
 * would cost more than the products. */
#include "ops/cpu/simd_gemm.h"

#include "device/threads.h"
#include "ops/cpu/simd_few_rows.h"

#include <stdbool.h>

enum {
    MANY = 8,                        /* from so many products on a thread computes whole ones */
    UNITS = 2,                       /* wanted for each of several threads */
    LEAST_TILES = 4,                 /* of a unit, down and across */
    LEAST_PANELS = 4,                /* times LEAST_TILES across where every unit packs all of a */
    MOST_ROWS = 132,                 /* of a unit: 132 KiB of packed a and as much to come, in 512 KiB of cache */
    ONCE_ROWS = 264,                 /* of a unit that reads b once */
    MOST_DEPTH = 16 * ZT_GEMM_DEPTH, /* of a block of b */
    BLOCK = 1 << 20,                 /* floats of a block of b */
    HELD = 1 << 18,                  /* floats of b that units read again from a near cache */
    MANY_ROWS = 4 * MOST_ROWS,       /* of y: from here on b is read again so often that it is worth reading y again */
    SHALLOW = 32,                    /* up to this depth, y is most of the memory: whole rows of it are written */
    FEW_TILES = 4,                   /* up to this height b is read about once, so it is not packed */
    FEW_COLUMNS = 320,               /* up to so many a is read so few times that packing it is no gain */
    PACKED = 4,                      /* panels of b that a thread packs at once, where all pack */
    NEAR = 1 << 17,                  /* floats of packed b that may stay in a second cache of 512 KiB */
    STEP = 4,                        /* depths are a multiple of it, but for the last of a product */
    MOST_AHEAD = 256,                /* floats of packed b beside a tile: more would wait for each other */
};
static const double small_flops = 100000; /* below it one thread */

struct cut {
    bool few;                 /* few rows or columns of y: no units */
    bool whole;               /* a product is one thread's */
    bool direct;              /* only an unfinished panel of b is packed */
    bool once;                /* a unit has all rows of y, and packs the panels of b as it gets to them */
    bool in_place;            /* whole tiles of a are not packed */
    int threads;              /* for products, or for the units of one */
    int64_t n;                /* columns of the widest b */
    int64_t depth, cols;      /* of a block of b */
    int64_t slice;            /* depth that is summed before y is added to, a panel of b in the first cache */
    int64_t down, across;     /* units of a block of y */
    int64_t a_elems, b_elems; /* of packed memory */
    int64_t panel;            /* once: where a unit's panel of b begins, behind its rows of a */
    int64_t sums;             /* y of bfloat16: where the sums of a unit begin there, in float */
    int64_t sums_row;         /* from one row of them to the next */
    int64_t sums_elems;       /* instead, of a block of y to which several blocks of b add; 0: none */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t parts(int64_t total, int64_t part) {
    return (total + part - 1) / part;
}

static int64_t round_up(int64_t n, int64_t to) {
    return parts(n, to) * to;
}

/* Depth of the slices of k, of ZT_GEMM_DEPTH or a little more: a short last one would read and write y for few
 * products. */
static int64_t slice_of(int64_t k) {
    return least(k, round_up(parts(k, parts(k, ZT_GEMM_DEPTH + ZT_GEMM_DEPTH / 16)), STEP));
}

/* Packed words of a depth. */
static int64_t words(const struct zt_simd_gemm_kernel *kernel, int64_t depth) {
    return parts(depth, kernel->depths);
}

/* Units along a side of so many tiles: a power of two, so that few threads get equal shares. */
static int64_t units_of(int64_t tiles, int64_t wanted) {
    int64_t n = 1;
    while (2 * n <= wanted && tiles / (2 * n) >= LEAST_TILES)
        n *= 2;
    return n;
}

static void cut_units(struct cut *c, const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g) {
    int64_t tiles = parts(g->m, kernel->rows), panels = c->cols / kernel->cols;
    int64_t wanted = c->threads > 1 && tiles > FEW_TILES ? (int64_t)UNITS * c->threads : c->threads;
    int64_t across = c->whole ? 1 : units_of(panels / LEAST_PANELS, wanted);
    if (!c->direct && g->k > SHALLOW && tiles * kernel->rows <= ONCE_ROWS && (c->whole || across >= c->threads)) {
        c->once = true;
        c->down = 1;
        c->across = across;
        return;
    }
    c->down = most(units_of(tiles, wanted), parts(tiles, MOST_ROWS / kernel->rows));
    if (!c->whole && tiles >= c->threads * LEAST_TILES)
        c->down = round_up(c->down, c->threads); /* equal shares */
    c->across = units_of(panels, wanted / c->down);
}

/* The sums before y is rounded: those of a unit, or of all units where they stay until the next block of b. */
static void cut_sums(struct cut *c, const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g) {
    const int64_t rows = parts(g->m, kernel->rows) * kernel->rows;
    c->sums = c->a_elems;
    if (!g->y_bfloat)
        return;
    c->sums_row = g->k > c->depth ? c->cols : parts(c->cols / kernel->cols, c->across) * kernel->cols;
    if (g->k > c->depth)
        c->sums_elems = rows * c->sums_row;
    else
        c->a_elems += least(rows, c->once ? ONCE_ROWS : MOST_ROWS) * c->sums_row;
}

/* The depth of a block of b, together with that beside it. With several of them the sums of all of y stay until the
 * last one where y is rounded, so that near blocks are not worth it there. */
static int64_t block_depth(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, int64_t slice) {
    const int64_t beside = g->beside ? round_up(g->beside->n, kernel->cols) : 0;
    const int64_t held = (int64_t)HELD * kernel->depths / (round_up(g->n, kernel->cols) + beside);
    const int64_t depth = held / slice * slice, largest = MOST_DEPTH / slice * slice;
    const bool near = depth > 0 && g->m >= MANY_ROWS && !g->y_bfloat;
    return least(g->k, near ? least(depth, largest) : largest);
}

/* Whether packing a would cost more than its tiles gain: few panels of b read it. A last panel of a vector's columns or
 * fewer has other kernels, which read packed rows. */
static bool reads_in_place(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g) {
    const int64_t left = g->n % kernel->cols;
    return kernel->depths == 1 && g->a_col == 1 && !g->beside && g->k > SHALLOW && g->n <= FEW_COLUMNS &&
           (left == 0 || left > kernel->cols / 2);
}

static struct cut cut_of(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, int threads) {
    struct cut c = { .whole = g->count >= MANY, .threads = threads > 0 ? threads : 1 };
    if (2.0 * (double)g->count * (double)g->m * (double)g->n * (double)g->k < small_flops)
        c.threads = 1;
    if (kernel->depths == 1 && !c.whole && zt_few_rows_takes(g)) {
        c.few = true;
        c.a_elems = zt_few_rows_elems(g);
        return c;
    }
    c.direct = kernel->depths == 1 && g->b_col == 1 && (!g->beside || g->beside->b_col == 1) &&
               g->m <= (int64_t)FEW_TILES * kernel->rows;
    c.in_place = reads_in_place(kernel, g);
    c.slice = slice_of(g->k);
    c.depth = block_depth(kernel, g, c.slice);
    c.n = g->beside ? most(g->n, g->beside->n) : g->n;
    c.cols = least(round_up(c.n, kernel->cols), BLOCK / c.depth / kernel->cols * kernel->cols);
    cut_units(&c, kernel, g);
    const int64_t slice = words(kernel, c.slice);
    c.panel = c.a_elems =
        round_up(least(parts(g->m, kernel->rows) * kernel->rows, c.once ? ONCE_ROWS : MOST_ROWS) * slice, 16);
    if (c.once)
        c.a_elems += slice * kernel->cols;
    else
        c.b_elems = words(kernel, c.depth) * (c.direct ? kernel->cols : c.cols);
    cut_sums(&c, kernel, g);
    return c;
}

size_t zt_simd_gemm_bytes(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g, int threads) {
    struct cut c = cut_of(kernel, g, threads);
    if (c.few)
        return (size_t)c.a_elems * sizeof(float);
    const int64_t once = c.b_elems + c.sums_elems;
    int64_t elems = c.whole ? (c.a_elems + once) * c.threads : once + c.a_elems * c.threads;
    elems += g->beside ? c.b_elems : 0;
    return (size_t)elems * sizeof(float);
}

/* One block of b in one product. */
struct job {
    const struct zt_simd_gemm_kernel *kernel;
    const struct zt_simd_gemm *g;
    const struct cut *cut;
    struct zt_simd_gemm_operands at;
    float *packed_a, *packed_b, *sums;
    int64_t a_elems; /* from one thread's rows to the next's; 0: one thread */
    int64_t k, depth, j, cols;
    const struct job *beside; /* the same block of the product beside this one */
};

struct panel {
    const float *at;
    int64_t row; /* from one of its rows to the next */
};

/* The columns from panel * cols on of the block, at its depth k, a multiple of a slice. Packed panels of one
 * depth follow each other, in the order in which a unit reads them. */
static struct panel panel_at(const struct job *job, int64_t panel, int64_t k) {
    int cols = job->kernel->cols;
    bool direct = job->cut->direct, unfinished = (panel + 1) * cols > job->cols;
    if (direct && !unfinished)
        return (struct panel){ (const float *)job->at.b + (job->k + k) * job->g->b_row + job->j + panel * cols,
                               job->g->b_row };
    if (direct)
        return (struct panel){ job->packed_b + k * cols, cols };
    return (struct panel){ job->packed_b + words(job->kernel, k) * round_up(job->cols, cols) +
                               panel * cols * words(job->kernel, least(job->depth - k, job->cut->slice)),
                           cols };
}

static const void *a_element(const struct zt_simd_gemm_kernel *kernel, const void *a, int64_t i) {
    return (const char *)a + i * kernel->a_bytes;
}

static const void *b_element(const struct zt_simd_gemm_kernel *kernel, const void *b, int64_t i) {
    return (const char *)b + i * kernel->b_bytes;
}

/* Returns the address in b of a panel of the block at depth k. */
static const void *source_of(const struct job *job, int64_t panel, int64_t k) {
    const struct zt_simd_gemm *g = job->g;
    return b_element(job->kernel, job->at.b, (job->k + k) * g->b_row + (job->j + panel * job->kernel->cols) * g->b_col);
}

/* Packs `panels` panels of the block at its depth k. */
static void pack_slice(const struct job *job, int64_t panel, int64_t panels, int64_t k, float *to) {
    const struct zt_simd_gemm *g = job->g;
    const int cols = job->kernel->cols;
    job->kernel->pack_cols(source_of(job, panel, k), g->b_col, g->b_row, least(job->cols - panel * cols, panels * cols),
                           least(job->depth - k, job->cut->slice), to);
}

/* PACKED panels. */
static void pack_panels(void *arg, int64_t i) {
    const struct job *job = arg;
    const int64_t all = parts(job->cols, job->kernel->cols);
    const int64_t first = job->cut->direct ? job->cols / job->kernel->cols : i * PACKED;
    const int64_t end = least(first + PACKED, all);
    for (int64_t k = 0; k < job->depth && first < end; k += job->cut->slice)
        pack_slice(job, first, end - first, k, (float *)panel_at(job, first, k).at); /* in packed_b */
}

static void pack_all(const struct job *job, int threads) {
    const int64_t panels = parts(job->cols, job->kernel->cols);
    zt_parallel_for(threads, job->cut->direct ? 1 : parts(panels, PACKED), pack_panels, (void *)job);
}

/* The members that are common to all tiles of a unit at depth k of the block, `depth` deep. */
static struct zt_simd_gemm_tiles tiles_at(const struct job *job, int64_t k, int64_t depth) {
    const struct zt_simd_gemm *g = job->g;
    bool first = job->k + k == 0;
    struct zt_simd_gemm_tiles t = { .alpha = g->alpha, .beta = g->beta };
    t.depth = words(job->kernel, depth);
    t.a_step = job->kernel->rows * t.depth;
    t.add = !first || g->add;
    t.relu = g->relu && job->k + k + depth == g->k;
    t.bias = first ? job->at.bias : NULL;
    t.bias_row = g->bias_row;
    t.bias_col = g->bias_col;
    return t;
}

/* A unit of work: rows [row, row + rows) of y and columns [col, end) of the block of b. */
struct unit {
    int64_t row, rows, col, end;
};

static struct unit unit_at(const struct job *job, int64_t down, int64_t across) {
    const struct cut *cut = job->cut;
    const int rows = job->kernel->rows, cols = job->kernel->cols;
    int64_t tiles = parts(job->g->m, rows), panels = parts(job->cols, cols);
    struct unit u = { .row = tiles * down / cut->down * rows, .col = panels * across / cut->across * cols };
    u.rows = least(tiles * (down + 1) / cut->down * rows, job->g->m) - u.row;
    u.end = least(panels * (across + 1) / cut->across * cols, job->cols);
    return u;
}

/* An element of y. */
static void *y_element(const struct zt_simd_gemm *g, void *y, int64_t i) {
    return (char *)y + i * (int64_t)(g->y_bfloat ? sizeof(uint16_t) : sizeof(float));
}

/* The unit's part of y. */
static void *unit_of_y(const struct job *job, const struct unit *u) {
    return y_element(job->g, job->at.y, u->row * job->g->y_row + job->j + u->col);
}

/* Sums in float of a unit: y, or what y is rounded from. */
struct sums {
    float *at;
    int64_t row;
};

static struct sums sums_of(const struct job *job, const struct unit *u, float *packed) {
    const struct cut *cut = job->cut;
    if (!job->g->y_bfloat)
        return (struct sums){ unit_of_y(job, u), job->g->y_row };
    return (struct sums){ cut->sums_elems ? job->sums + u->row * cut->sums_row + u->col : packed + cut->sums,
                          cut->sums_row };
}

static void round_unit(const struct job *job, const struct unit *u, struct sums sums) {
    uint16_t *y = unit_of_y(job, u);
    for (int64_t r = 0; r < u->rows; r++)
        job->kernel->round(sums.at + r * sums.row, u->end - u->col, y + r * job->g->y_row);
}

/* A unit at one depth of the block. */
struct slice {
    const struct job *job;
    const struct unit *unit;
    struct zt_simd_gemm_tiles common;
    const float *packed; /* its rows of a, but for those in place */
    int64_t k;
    struct sums sums;
};

/* The unit's first rows whose a is not packed. */
static int64_t rows_in_place(const struct job *job, const struct unit *u) {
    return job->cut->in_place ? u->rows / job->kernel->rows * job->kernel->rows : 0;
}

/* The tiles of the unit's rows [r, r + rows) at column j of the block, of the panel of b at `panel`. */
static void multiply_tiles(const struct slice *s, int64_t r, int64_t rows, int64_t j, struct panel panel) {
    const struct zt_simd_gemm *g = s->job->g;
    const int64_t row = s->unit->row + r, col = s->job->j + j;
    struct zt_simd_gemm_tiles t = s->common;
    t.a = s->packed + r * t.depth;
    t.a_row = 0;
    if (r < rows_in_place(s->job, s->unit)) {
        t.a = (const float *)s->job->at.a + row * g->a_row + s->job->k + s->k;
        t.a_row = g->a_row;
    }
    t.b = panel.at;
    t.b_row = panel.row;
    t.rows = rows;
    t.cols = (int)least(s->unit->end - j, s->job->kernel->cols);
    t.y = s->sums.at + r * s->sums.row + j - s->unit->col;
    t.y_row = s->sums.row;
    t.bias = t.bias ? t.bias + row * g->bias_row + col * g->bias_col : NULL;
    s->job->kernel->tiles(&t);
}

/* Along the rows of y. */
static void multiply_shallow(const struct slice *s, int64_t k) {
    const struct unit *u = s->unit;
    const struct zt_simd_gemm_kernel *kernel = s->job->kernel;
    for (int64_t r = 0; r < u->rows; r += kernel->rows)
        for (int64_t j = u->col; j < u->end; j += kernel->cols)
            multiply_tiles(s, r, least(u->rows - r, kernel->rows), j, panel_at(s->job, j / kernel->cols, k));
}

/* `count` rows or columns of a matrix, `step` apart, at `depth` places that are `next` apart. */
struct strides {
    int64_t step, next, count, depth;
};

/* Their lines, beside `tiles` tiles. */
static struct zt_simd_gemm_ahead ahead_of(const void *from, int bytes, const struct strides *s, int64_t tiles) {
    const bool deep = s->next == 1; /* places of the depth are adjacent */
    struct zt_simd_gemm_ahead a = { .at = from,
                                    .step = (deep ? s->step : s->next) * bytes,
                                    .rows = deep ? s->count : s->depth };
    a.at += ZT_GEMM_LINE - bytes; /* a row's first line came with what lies before it where it is not the row's own */
    a.each = parts(a.rows * parts((deep ? s->depth : s->count) * bytes, ZT_GEMM_LINE), tiles);
    return a;
}

/* Returns the panel of b that a unit packs next: the following panel, or the first of the next depth. */
static struct zt_simd_gemm_ahead next_source(const struct slice *s, int64_t j, int64_t k, int64_t tiles) {
    const struct job *job = s->job;
    const struct zt_simd_gemm *g = job->g;
    const int cols = job->kernel->cols;
    const bool last = j + cols >= s->unit->end;
    const int64_t at = last ? k + job->cut->slice : k;
    if (at >= job->depth)
        return (struct zt_simd_gemm_ahead){ .at = NULL };
    return ahead_of(source_of(job, (last ? s->unit->col : j + cols) / cols, at), job->kernel->b_bytes,
                    &(struct strides){ g->b_col, g->b_row, cols, least(job->depth - at, job->cut->slice) }, tiles);
}

/* Returns the following packed panel, where those of a depth do not stay in the second cache and the tiles are enough
 * to fetch it beside them. */
static struct zt_simd_gemm_ahead next_packed(const struct slice *s, int64_t j, int64_t k, int64_t tiles) {
    const struct job *job = s->job;
    const int cols = job->kernel->cols;
    const int64_t floats = words(job->kernel, least(job->depth - k, job->cut->slice)) * cols;
    if (job->cut->direct || j + cols >= s->unit->end || parts(job->cols, cols) * floats <= NEAR ||
        floats > tiles * MOST_AHEAD)
        return (struct zt_simd_gemm_ahead){ .at = NULL };
    return ahead_of(panel_at(job, j / cols + 1, k).at, (int)sizeof(float), &(struct strides){ 0, 1, 1, floats }, tiles);
}

/* The unit's rows of a at the next depth, or those of the rows that follow. */
static struct zt_simd_gemm_ahead next_rows(const struct slice *s, int64_t k, int64_t tiles) {
    const struct job *job = s->job;
    const struct zt_simd_gemm *g = job->g;
    const bool last = k + job->cut->slice >= job->depth;
    const int64_t row = last ? s->unit->row + s->unit->rows : s->unit->row;
    const int64_t at = job->k + (last ? 0 : k + job->cut->slice), rows = least(s->unit->rows, g->m - row);
    if (rows <= 0)
        return (struct zt_simd_gemm_ahead){ .at = NULL };
    return ahead_of(a_element(job->kernel, job->at.a, row * g->a_row + at * g->a_col), job->kernel->a_bytes,
                    &(struct strides){ g->a_row, g->a_col, rows, least(job->k + job->depth - at, job->cut->slice) },
                    tiles);
}

/* The products of a unit at depth k of the block by its packed rows. */
static void multiply_packed(const struct job *job, const struct unit *u, int64_t k, float *packed) {
    const struct zt_simd_gemm_kernel *kernel = job->kernel;
    struct slice slice = { job,    u, tiles_at(job, k, least(job->depth - k, job->cut->slice)),
                           packed, k, sums_of(job, u, packed) };
    if (job->g->k <= SHALLOW) {
        multiply_shallow(&slice, k);
        return;
    }
    const int64_t tiles = parts(u->rows, kernel->rows), in_place = rows_in_place(job, u);
    struct zt_simd_gemm_ahead rows = next_rows(&slice, k, tiles * parts(u->end - u->col, kernel->cols));
    for (int64_t j = u->col; j < u->end; j += kernel->cols) {
        struct panel panel = { packed + job->cut->panel, kernel->cols };
        if (job->cut->once)
            pack_slice(job, j / kernel->cols, 1, k, packed + job->cut->panel);
        else
            panel = panel_at(job, j / kernel->cols, k);
        struct zt_simd_gemm_ahead cols = (job->cut->once ? next_source : next_packed)(&slice, j, k, tiles);
        slice.common.ahead[0] = cols.at ? &cols : NULL;
        slice.common.ahead[1] = rows.at ? &rows : NULL;
        if (in_place > 0)
            multiply_tiles(&slice, 0, in_place, j, panel);
        if (u->rows > in_place)
            multiply_tiles(&slice, in_place, u->rows - in_place, j, panel);
    }
}

/* Packs the unit's rows of a at depth k of the block that are not read in place. */
static void pack_unit(const struct job *job, const struct unit *u, int64_t k, float *to) {
    const struct zt_simd_gemm *g = job->g;
    const int64_t first = rows_in_place(job, u), row = u->row + first, depth = least(job->depth - k, job->cut->slice);
    if (first < u->rows)
        job->kernel->pack_rows(a_element(job->kernel, job->at.a, row * g->a_row + (job->k + k) * g->a_col), g->a_row,
                               g->a_col, u->rows - first, depth, to + first * words(job->kernel, depth));
}

static bool empty(const struct unit *u) {
    return u->rows <= 0 || u->col >= u->end;
}

static void multiply_unit(void *arg, int64_t i) {
    const struct job *job = arg;
    const struct zt_simd_gemm *g = job->g;
    const int64_t down = i / job->cut->across, across = i % job->cut->across;
    const struct unit u = unit_at(job, down, across);
    struct unit beside = { 0 };
    if (job->beside) {
        beside = unit_at(job->beside, down, across);
        beside.row = u.row;
        beside.rows = least(u.rows, job->beside->g->m - u.row);
    }
    float *packed = job->packed_a + zt_parallel_thread() * job->a_elems;
    for (int64_t k = 0; k < job->depth && !(empty(&u) && empty(&beside)); k += job->cut->slice) {
        pack_unit(job, &u, k, packed);
        if (!empty(&u))
            multiply_packed(job, &u, k, packed);
        if (!empty(&beside))
            multiply_packed(job->beside, &beside, k, packed);
    }
    if (g->y_bfloat && job->k + job->depth == g->k && !empty(&u))
        round_unit(job, &u, sums_of(job, &u, packed));
}

/* Sets the columns j.. and depths k.. of a block, and packs them. */
static void begin_block(struct job *job, int64_t j, int64_t k, int threads) {
    job->j = j;
    job->cols = most(0, least(job->g->n - j, job->cut->cols));
    job->k = k;
    job->depth = least(job->g->k - k, job->cut->depth);
    if (!job->cut->once)
        pack_all(job, threads);
}

/* One product, and that beside it, on `threads` threads. */
static void multiply(struct job job, int threads) {
    const struct cut *cut = job.cut;
    struct job beside = job;
    if (job.g->beside) {
        beside.g = job.g->beside;
        beside.at = *job.at.beside;
        beside.packed_b += cut->b_elems;
        job.beside = &beside;
    }
    for (int64_t j = 0; j < cut->n; j += cut->cols)
        for (int64_t k = 0; k < job.g->k; k += cut->depth) {
            begin_block(&job, j, k, threads);
            if (job.beside)
                begin_block(&beside, j, k, threads);
            zt_parallel_for(threads, cut->down * cut->across, multiply_unit, &job);
        }
}

static struct job product(const struct job *first, int64_t i) {
    struct job job = *first;
    job.at.a = a_element(job.kernel, job.at.a, i * job.g->a_step);
    job.at.b = b_element(job.kernel, job.at.b, i * job.g->b_step);
    job.at.y = y_element(job.g, job.at.y, i * job.g->y_step);
    return job;
}

static void multiply_whole(void *arg, int64_t i) {
    const struct job *all = arg;
    struct job job = product(all, i);
    int64_t elems = all->cut->a_elems + all->cut->b_elems + all->cut->sums_elems;
    job.packed_a = all->packed_a + zt_parallel_thread() * elems;
    job.packed_b = job.packed_a + all->cut->a_elems;
    job.sums = job.packed_b + all->cut->b_elems;
    job.a_elems = 0;
    multiply(job, 1);
}

void zt_simd_gemm_run(const struct zt_simd_gemm_kernel *kernel, const struct zt_simd_gemm *g,
                      const struct zt_simd_gemm_operands *operands, void *workspace, int threads) {
    struct cut cut = cut_of(kernel, g, threads);
    struct job job = { .kernel = kernel, .g = g, .cut = &cut, .at = *operands };
    job.packed_a = workspace;
    job.packed_b = job.packed_a + cut.threads * cut.a_elems;
    job.sums = job.packed_b + cut.b_elems;
    job.a_elems = cut.threads > 1 ? cut.a_elems : 0;
    if (cut.whole) {
        zt_parallel_for(cut.threads, g->count, multiply_whole, &job);
        return;
    }
    for (int64_t i = 0; i < g->count; i++) {
        const struct job one = product(&job, i);
        if (cut.few)
            zt_few_rows_run(kernel->cols / 2, g, &one.at, workspace, cut.threads);
        else
            multiply(one, cut.threads);
    }
}
