#include "ops/signal/dft_plan.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* e^(-2 pi i part / whole), 0 <= part < whole */
static void unit(int64_t part, int64_t whole, double to[2]) {
    const double angle = 2 * M_PI * ((double)part / (double)whole);
    to[0] = cos(angle);
    to[1] = -sin(angle);
}

/* ---- stages ---- */

/* Splits `points` into radices, 4 first, so that s soon is a multiple of the vectors' length. False: a prime factor is
 * too large. */
static bool split(int64_t points, struct zt_dft_plan *p) {
    static const int radices[] = { 4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, ZT_DFT_RADIX };
    int64_t left = points, s = 1;
    p->stage_count = 0;
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++)
        for (const int r = radices[i]; left % r == 0; left /= r, s *= r)
            p->stage[p->stage_count++] = (struct zt_dft_stage){ .radix = r, .m = left / r, .s = s };
    p->points = points;
    return left == 1;
}

/* The least 2^a, 3 2^a or 5 2^a that is not below `least`. */
static int64_t smooth_above(int64_t least) {
    int64_t best = INT64_MAX;
    for (int odd = 1; odd <= 5; odd += 2) {
        int64_t size = odd;
        while (size < least)
            size *= 2;
        best = size < best ? size : best;
    }
    return best;
}

/* Assigns `count` complex numbers of the tables. */
static int64_t assign(struct zt_dft_plan *p, int64_t count) {
    p->table += count;
    return p->table - count;
}

static void lay_out(struct zt_dft_plan *p) {
    for (int i = 0; i < p->stage_count; i++) {
        struct zt_dft_stage *t = &p->stage[i];
        t->twiddle = assign(p, t->m * (t->radix - 1));
        t->roots = assign(p, t->radix);
    }
    if (p->half)
        p->turn = assign(p, p->dft.length / 2 + 1);
    if (p->chirped) {
        p->chirp = assign(p, p->complex);
        p->filter = assign(p, p->points);
    }
}

static void fill_stage(const struct zt_dft_stage *t, double *numbers) {
    const int r = t->radix;
    for (int64_t p = 0; p < t->m; p++)
        for (int j = 1; j < r; j++)
            unit(p * j, r * t->m, numbers + 2 * (t->twiddle + p * (r - 1) + j - 1));
    for (int j = 0; j < r; j++)
        unit(j, r, numbers + 2 * (t->roots + j));
}

/* ---- transforms in double, by plain loops ---- */

static void add_product(const double a[2], const double b[2], double sum[2]) {
    const double re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
    sum[0] += re;
    sum[1] += im;
}

/* The numbers y[p][j][q] of a stage for one p and j. */
static void stage_numbers(const struct zt_dft_stage *t, const double *numbers, const double *x, int64_t at, double *y) {
    const int64_t p = at / t->radix, j = at % t->radix;
    for (int64_t q = 0; q < t->s; q++) {
        double sum[2] = { 0 }, turned[2] = { 0 };
        for (int64_t l = 0; l < t->radix; l++)
            add_product(x + 2 * ((l * t->m + p) * t->s + q), numbers + 2 * (t->roots + j * l % t->radix), sum);
        if (j > 0)
            add_product(sum, numbers + 2 * (t->twiddle + p * (t->radix - 1) + j - 1), turned);
        memcpy(y + 2 * (at * t->s + q), j > 0 ? turned : sum, sizeof sum);
    }
}

static void run_stages(const struct zt_dft_plan *plan, double *x, double *room) {
    for (int i = 0; i < plan->stage_count; i++) {
        const struct zt_dft_stage *t = &plan->stage[i];
        for (int64_t at = 0; at < t->m * t->radix; at++)
            stage_numbers(t, plan->numbers, x, at, room);
        memcpy(x, room, (size_t)plan->points * 2 * sizeof *x);
    }
}

/* x[n] = table[n] x[n] scale, and if asked with real and imaginary parts exchanged */
static void multiply(const double *table, int64_t count, double scale, bool exchange, double *x) {
    for (int64_t n = 0; n < count; n++) {
        double y[2] = { 0 };
        add_product(table + 2 * n, x + 2 * n, y);
        x[2 * n + exchange] = y[0] * scale;
        x[2 * n + !exchange] = y[1] * scale;
    }
}

void zt_dft_plan_transform(const struct zt_dft_plan *p, double *x, double *room) {
    if (!p->chirped) {
        run_stages(p, x, room);
        return;
    }
    const double *chirp = p->numbers + 2 * p->chirp;
    multiply(chirp, p->complex, 1, false, x);
    memset(x + 2 * p->complex, 0, (size_t)(p->points - p->complex) * 2 * sizeof *x);
    run_stages(p, x, room);
    multiply(p->numbers + 2 * p->filter, p->points, 1, true, x);
    run_stages(p, x, room);
    for (int64_t n = 0; n < p->complex; n++) {
        const double re = x[2 * n + 1], im = x[2 * n];
        x[2 * n] = re, x[2 * n + 1] = im;
    }
    multiply(chirp, p->complex, 1 / (double)p->points, false, x);
}

/* n^2 mod 2 N is computed from (n - 1)^2, as the square may not fit 64 bits. */
static void fill_chirp(const struct zt_dft_plan *p, double *numbers) {
    const int64_t n = p->complex, whole = 2 * n;
    double *chirp = numbers + 2 * p->chirp, *filter = numbers + 2 * p->filter;
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % whole, k++) {
        unit(square, whole, chirp + 2 * k);
        const int64_t back = k ? p->points - k : 0;
        filter[2 * k] = filter[2 * back] = chirp[2 * k];
        filter[2 * k + 1] = filter[2 * back + 1] = -chirp[2 * k + 1];
    }
    double *room = zt_malloc((size_t)p->points * 2 * sizeof *room);
    run_stages(p, filter, room);
    free(room);
}

double *zt_dft_plan_make(const struct zt_dft *dft, bool halves, struct zt_dft_plan *to) {
    *to = (struct zt_dft_plan){ .dft = *dft };
    /* only one side is real: the other one has the conjugate half, which costs no arithmetic */
    to->half = halves && dft->length % 2 == 0 && dft->in.real != dft->out.real;
    to->complex = to->half ? dft->length / 2 : dft->length;
    if (!split(to->complex, to)) {
        to->chirped = true;
        split(smooth_above(2 * to->complex - 1), to);
    }
    lay_out(to);
    double *numbers = zt_calloc((size_t)to->table, 2 * sizeof *numbers);
    for (int i = 0; i < to->stage_count; i++)
        fill_stage(&to->stage[i], numbers);
    for (int64_t k = 0; to->half && k <= to->complex; k++)
        unit(k, dft->length, numbers + 2 * (to->turn + k));
    to->numbers = numbers;
    if (to->chirped)
        fill_chirp(to, numbers);
    return numbers;
}
