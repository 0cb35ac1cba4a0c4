/* Slices that DFT and STFT transform, and the plan of a fast transform.
 *
 * Both operators transform slices: sequences of real or complex numbers at equal distances in memory. Letters: N is the
 * length of the transform, n counts elements in time, k frequencies.
 *
 *     forward                 X[k] = sum over n of x[n] e^(-2 pi i k n / N)              k < N, onesided: k <= N / 2
 *     inverse                 x[n] = 1 / N sum over k of X[k] e^(2 pi i k n / N)
 *     inverse, onesided       X[N - k] is the conjugate of X[k], so x is real:
 *                             x[n] = 1 / N sum over k <= N / 2 of w[k] Re(X[k] e^(2 pi i k n / N)),
 *                             w[k] = 1 where k = 0 or 2 k = N, else 2
 *
 * Elements that the input lacks are 0; elements beyond those that a transform reads are ignored. */
#ifndef ZT_OPS_SIGNAL_DFT_PLAN_H
#define ZT_OPS_SIGNAL_DFT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* Positions of slices in a tensor, in numbers. Slice s begins at s / count * outer + s % count * inner; its elements
 * are `step` apart, and the imaginary part of an element follows the real one. */
struct zt_dft_places {
    int64_t count, outer, inner, step;
    bool real; /* elements are single numbers */
};

struct zt_dft {
    int64_t length; /* N */
    int64_t slices;
    int64_t reads, writes; /* elements of a slice: of the input that count, and of the output */
    bool inverse, onesided;
    int window; /* the input with factors [N] of the elements that are read; 0: none */
    struct zt_dft_places in, out;
};

/* ---- the plan ---- */

/* The fast transform is Stockham's with mixed radices: a stage of radix r turns `points` numbers, seen as [r][m][s],
 * into [m][r][s] (points = r m s; s is 1 in the first stage):
 *
 *     y[p][j][q] = e^(-2 pi i j p / (r m)) sum over l < r of x[l][p][q] e^(-2 pi i j l / r)
 *
 * The last stage, with m = 1, leaves the spectrum in order. An inverse transform is this one with real and imaginary
 * parts exchanged, before and after.
 *
 * A real slice of even length (or one with a conjugate spectrum) is transformed as N / 2 complex numbers, pairs of
 * neighbours. A length with a prime factor above ZT_DFT_RADIX becomes a convolution (Bluestein): with
 * c[n] = e^(-pi i n^2 / N), X[k] = c[k] sum over n of (x[n] c[n]) conj(c[k - n]), which two transforms of `points` >= 2
 * N - 1 numbers compute. */
enum { ZT_DFT_RADIX = 31, ZT_DFT_STAGES = 48 };

struct zt_dft_stage {
    int radix;
    int64_t m, s;
    int64_t twiddle; /* e^(-2 pi i j p / (r m)) at [p][j - 1], j = 1..r-1 */
    int64_t roots;   /* e^(-2 pi i j / r), j < r */
};

/* Tables are arrays of complex numbers; places in them count complex numbers from `numbers`. */
struct zt_dft_plan {
    struct zt_dft dft;
    bool half;       /* a transform of N / 2 complex numbers for real ones */
    bool chirped;    /* a convolution */
    int64_t complex; /* numbers of the transform: N or N / 2 */
    int64_t points;  /* of the transforms by stages: `complex`, or those of the convolution */
    int stage_count;
    struct zt_dft_stage stage[ZT_DFT_STAGES];
    int64_t turn;          /* half: e^(-2 pi i k / N), k <= N / 2 */
    int64_t chirp, filter; /* chirped: c[n], n < complex; transform of conj(c) over `points`, [points] */
    int64_t table;         /* complex numbers in all tables */
    const double *numbers; /* computed in double */
};

/* Numbers of an array of a transform: of the points, or of the elements of the spectrum of a real slice. */
static inline int64_t zt_dft_rows(const struct zt_dft_plan *p) {
    const int64_t spectrum = p->half && p->dft.in.real ? p->dft.writes : p->complex + 1;
    return p->points > spectrum ? p->points : spectrum;
}

/* Fills the plan; `halves`: where one side is real, of half the length. Returns the memory of its tables, to be freed
 * with free(). */
double *zt_dft_plan_make(const struct zt_dft *dft, bool halves, struct zt_dft_plan *to);
/* The forward transform of x, `complex` numbers, in place, by plain loops in double. x and `room` have zt_dft_rows()
 * complex numbers. */
void zt_dft_plan_transform(const struct zt_dft_plan *plan, double *x, double *room);

#endif
