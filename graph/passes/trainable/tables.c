/* Contents that training or a random start never gives: a table that somebody wrote down or computed. Every question
 * ends at the first element that says no. */
#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/trainable.h"

#include <math.h>

enum { FEWEST_ROWS = 4, FEWEST_COLUMNS = 4, FEWEST = 4, LONGEST = 4096, FEWEST_EQUATIONS = 5, START = 8, RAREST = 50 };

static const double rounding = 1e-5; /* of float32 over some operations, relative to the numbers */

/* Position codes: row 0 is the code of position 0, sines 0 and cosines 1. The whole table may be shifted and scaled.
 * Sines and cosines are `apart` columns apart, the first of each pair `step` after the first of the one before. */
static bool is_on_circles(const struct zt_value *v, int64_t rows, int64_t columns, int64_t apart, int64_t step) {
    const double shift = zt_constant_at(v, 0), scale = zt_constant_at(v, apart) - shift;
    if (!(fabs(scale) > rounding))
        return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns / 2; k++) {
            const int64_t at = r * columns + k * step;
            const double s = (zt_constant_at(v, at) - shift) / scale,
                         c = (zt_constant_at(v, at + apart) - shift) / scale;
            if (!(fabs(s * s + c * c - 1) < 1e-2) || (r == 0 && !(fabs(s) < 1e-2)))
                return false;
        }
    return true;
}

static bool is_sinusoids(const struct zt_value *v, int64_t count) {
    const int64_t columns = v->shape.rank >= 2 ? v->shape.dim[v->shape.rank - 1] : 0;
    const int64_t rows = columns ? count / columns : 0;
    if (rows < FEWEST_ROWS || columns < FEWEST_COLUMNS || columns % 2)
        return false;
    return is_on_circles(v, rows, columns, columns / 2, 1) || is_on_circles(v, rows, columns, 1, 2);
}

/* A line of numbers, `apart` elements from each other. */
struct line {
    const struct zt_value *v;
    int64_t from, apart, length;
    double noise; /* what rounding left of zeros: sin(pi i) */
};

static double at(const struct line *l, int64_t i) {
    return zt_constant_at(l->v, l->from + i * l->apart);
}

/* Whether s(i) = A cos(f i + p), for which s(i + 1) + s(i - 1) = 2 cos(f) s(i). *varies: set where it is not constant.
 * A line of noise is one, of zeros. */
static bool is_wave(const struct line *l, bool *varies) {
    int64_t largest = 1;
    double most = 0;
    for (int64_t i = 0; i < l->length; i++) {
        most = fmax(most, fabs(at(l, i)));
        if (i > 0 && i < l->length - 1 && fabs(at(l, i)) > fabs(at(l, largest)))
            largest = i;
    }
    const double middle = at(l, largest);
    const double twice_cosine = middle != 0 ? (at(l, largest + 1) + at(l, largest - 1)) / middle : 0;
    *varies = false;
    if (most <= l->noise)
        return true;
    for (int64_t i = 1; i < l->length - 1; i++) {
        if (!(fabs(at(l, i + 1) + at(l, i - 1) - twice_cosine * at(l, i)) <= 1e-3 * most))
            return false;
        *varies = *varies || fabs(at(l, i) - at(l, 0)) > 1e-2 * most;
    }
    return fabs(twice_cosine) <= 2.001;
}

static double largest_of(const struct zt_value *v, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(zt_constant_at(v, i)));
    return most;
}

/* Whether all lines along an axis are waves, so many that it is no chance, as one of a line of four random numbers is.
 * Rotary cosines or sines alone, the matrices of Fourier transforms. */
static bool is_waves_along(const struct zt_value *v, int64_t count, int64_t length, int64_t apart) {
    const struct line start = { v, 0, apart, length < START ? length : START, 0 };
    int64_t equations = 0;
    bool any;
    if (length < FEWEST || length > LONGEST || !is_wave(&start, &any)) /* a whole line may lie in as many pages */
        return false;
    const double noise = 1e-4 * largest_of(v, count);
    for (int64_t i = 0; i < count / length; i++) {
        const struct line line = { v, i / apart * apart * length + i % apart, apart, length, noise };
        bool varies;
        if (!is_wave(&line, &varies))
            return false;
        equations += varies ? length - 3 : 0;
    }
    return equations >= FEWEST_EQUATIONS;
}

static bool is_waves(const struct zt_value *v, int64_t count) {
    int64_t apart = 1;
    for (int axis = v->shape.rank - 1; axis >= 0; axis--) {
        if (is_waves_along(v, count, v->shape.dim[axis], apart))
            return true;
        apart *= v->shape.dim[axis];
    }
    return false;
}

/* The number of different values, 3 for more. */
static int kinds(const struct zt_value *v, int64_t count) {
    double seen[2] = { 0 };
    int found = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = zt_constant_at(v, i);
        if ((found > 0 && x == seen[0]) || (found > 1 && x == seen[1]))
            continue;
        if (found == 2)
            return 3;
        seen[found++] = x;
    }
    return found;
}

static bool is_whole_numbers(const struct zt_value *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (zt_constant_at(v, i) != floor(zt_constant_at(v, i)) || isinf(zt_constant_at(v, i)))
            return false;
    return true;
}

/* Whether the matrix is a mask: it has two values, one of them 0, and some row has both. One or two rows may be biases:
 * those of an LSTM start from zeros and ones. */
static bool is_mask(const struct zt_value *v, int64_t count) {
    const int64_t columns = v->shape.dim[v->shape.rank - 1];
    bool zero = false, both = false;
    for (int64_t i = 0; i < count; i++) {
        zero = zero || zt_constant_at(v, i) == 0;
        both = both || (i % columns > 0 && zt_constant_at(v, i) != zt_constant_at(v, i - 1));
    }
    return zero && both && count > 2 * columns;
}

/* Whether a row (`apart` is 1) or a column of a matrix has another number than 0. */
static bool line_varies(const struct zt_value *v, int64_t from, int64_t apart) {
    const int64_t columns = v->shape.dim[1], length = apart == 1 ? columns : v->shape.dim[0];
    for (int64_t i = 0; i < length; i++)
        if (zt_constant_at(v, from + i * apart) != 0)
            return true;
    return false;
}

bool zt_trainable_is_masked(const struct zt_value *v) {
    const int64_t count = v->data && v->shape.rank == 2 ? zt_shape_count(&v->shape) : 0;
    const int64_t looked = count < LONGEST ? count : LONGEST;
    int64_t zeros = 0;
    for (int64_t k = 0; k < looked; k++) {
        const int64_t i = (int64_t)((double)k * (double)count / (double)looked), columns = v->shape.dim[1];
        zeros +=
            zt_constant_at(v, i) == 0 && line_varies(v, i - i % columns, 1) && line_varies(v, i % columns, columns);
    }
    return zeros > 0 && zeros * RAREST >= looked;
}

/* Whether `length` elements are positive and sum to 1. */
static bool is_distribution(const struct zt_value *v, int64_t from, int64_t length, int64_t apart) {
    double sum = 0;
    for (int64_t i = 0; i < length; i++) {
        const double x = zt_constant_at(v, from + i * apart);
        if (!(x > 0) || sum > 2)
            return false;
        sum += x;
    }
    return length > 1 && fabs(sum - 1) <= rounding;
}

bool zt_trainable_is_softmax(const struct zt_value *v) {
    const int64_t count = v->data && v->shape.rank == 2 ? zt_shape_count(&v->shape) : 0;
    if (!count)
        return false;
    const int64_t rows = v->shape.dim[0], columns = v->shape.dim[1];
    bool by_row = true, by_column = true;
    for (int64_t i = 0; by_row && i < rows; i++)
        by_row = is_distribution(v, i * columns, columns, 1);
    for (int64_t i = 0; by_column && !by_row && i < columns; i++)
        by_column = is_distribution(v, i, rows, columns);
    return by_row || by_column;
}

bool zt_trainable_is_decimals(const struct zt_value *v) {
    const int64_t count = v->data ? zt_shape_count(&v->shape) : 0;
    bool eighths = true;
    for (int64_t i = 0; i < count; i++) {
        const double x = zt_constant_at(v, i);
        if (!(fabs(x) < 10) || fabs(x - round(x * 1000) / 1000) > 1e-7 * fabs(x))
            return false;
        eighths = eighths && 8 * x == round(8 * x);
    }
    return !eighths && kinds(v, count) > 1;
}

/* The distance of three neighbours from a line through the outer ones, and how far these are apart. */
static bool is_line(double a, double b, double c) {
    return fabs(a - 2 * b + c) <= rounding * (fabs(a) + fabs(c));
}

/* Whether every line along the axis is evenly spaced, and one of them not constant: numbers in steps, coordinates of a
 * grid. `apart`: elements between neighbours. */
static bool is_even_along(const struct zt_value *v, int64_t count, int64_t length, int64_t apart) {
    bool steps = false;
    for (int64_t i = 2 * apart; i < count; i++) {
        if (i / apart % length == 0)
            i += 2 * apart;
        const double a = zt_constant_at(v, i - 2 * apart), b = zt_constant_at(v, i - apart), c = zt_constant_at(v, i);
        if (!is_line(a, b, c))
            return false;
        steps = steps || fabs(c - a) > 100 * rounding * (fabs(a) + fabs(c));
    }
    return steps;
}

static bool is_evenly_spaced(const struct zt_value *v, int64_t count) {
    int64_t apart = 1;
    for (int axis = v->shape.rank - 1; axis >= 0; axis--) {
        const int64_t length = v->shape.dim[axis];
        if (length >= FEWEST && is_even_along(v, count, length, apart))
            return true;
        apart *= length;
    }
    return false;
}

/* Frequencies, rates of decay, slopes of heads: in one line, each is the one before times a factor other than 1. */
static bool is_geometric(const struct zt_value *v, int64_t count) {
    bool line = false;
    for (int axis = 0; axis < v->shape.rank; axis++)
        line = line || v->shape.dim[axis] == count;
    if (count < FEWEST || !line)
        return false;
    for (int64_t i = 2; i < count; i++) {
        const double a = zt_constant_at(v, i - 2), b = zt_constant_at(v, i - 1), c = zt_constant_at(v, i);
        if (!(a * b > 0) || !(fabs(a * c - b * b) <= rounding * b * b))
            return false;
    }
    return fabs(zt_constant_at(v, 1) - zt_constant_at(v, 0)) > 100 * rounding * fabs(zt_constant_at(v, 0));
}

/* Whether a line, or its opposite, is the same read backwards: from its last element, or `around` its first. *varies:
 * set where it is not constant. */
static bool is_mirrored(const struct zt_value *v, int64_t from, int64_t length, bool around, bool *varies) {
    bool same = true, opposite = true;
    double most = 0;
    for (int64_t i = 0; i < length; i++)
        most = fmax(most, fabs(zt_constant_at(v, from + i)));
    for (int64_t i = around; i < length && (same || opposite); i++) {
        const double x = zt_constant_at(v, from + i), y = zt_constant_at(v, from + length - 1 + around - i);
        same = same && fabs(x - y) <= rounding * most;
        opposite = opposite && fabs(x + y) <= rounding * most;
        *varies = *varies || fabs(x - zt_constant_at(v, from)) > rounding * most;
    }
    return same || opposite;
}

/* Windows, cosine transforms, filters that blur or find edges, coordinates around 0. A line is a row, or a plane of the
 * last two axes that have more than one element; longer ones are not looked at, as one would be read before it says no.
 */
static bool is_all_mirrored(const struct zt_value *v, int64_t count, int64_t length, bool around) {
    bool varies = false;
    if (length < (around ? 2 * FEWEST : FEWEST) || length > LONGEST)
        return false;
    for (int64_t i = 0; i < count; i += length)
        if (!is_mirrored(v, i, length, around, &varies))
            return false;
    return varies;
}

static bool has_mirrored_lines(const struct zt_value *v, int64_t count) {
    const int64_t row = v->shape.dim[v->shape.rank - 1];
    int64_t plane = 1;
    for (int axis = v->shape.rank - 1, axes = 0; axis >= 0 && axes < 2; axis--) {
        plane *= v->shape.dim[axis];
        axes += v->shape.dim[axis] > 1;
    }
    return is_all_mirrored(v, count, row, false) || is_all_mirrored(v, count, row, true) ||
           is_all_mirrored(v, count, plane, false);
}

const char *zt_trainable_table(const struct zt_value *v, bool marked) {
    const int64_t count = zt_shape_count(&v->shape);
    const int different = count < FEWEST ? 0 : kinds(v, count);
    if (different < 2)
        return NULL;
    if (different == 2) /* identities, too */
        return !marked && is_mask(v, count) ? "a mask" : NULL;
    if (is_sinusoids(v, count))
        return "a table of sinusoids";
    if (is_whole_numbers(v, count))
        return "whole numbers";
    /* where marked, decays and state spaces start so */
    const bool even = is_evenly_spaced(v, count); /* also waves, of frequency 0 */
    if (!marked && even)
        return "evenly spaced numbers";
    if (!marked && is_geometric(v, count))
        return "powers of one number";
    if (has_mirrored_lines(v, count))
        return "the same read backwards";
    return !even && is_waves(v, count) ? "sines or cosines in steps" : NULL;
}
