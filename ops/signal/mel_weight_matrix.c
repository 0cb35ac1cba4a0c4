/* MelWeightMatrix (opset 17): y[j, i], the weight of bin j of a spectrum in band i, j <= dft_length / 2.
 *
 * The edges of the bands are at equal distances on the mel scale, mel(f) = 2595 log10(1 + f / 700):
 *
 *     f[i]    = mel^-1(mel(lower) + i (mel(upper) - mel(lower)) / (bands + 2))        i < bands + 2
 *     edge[i] = floor((dft_length + 1) f[i] / sample_rate)                            in bins
 *     y[j, i] = (j - edge[i]) / (edge[i + 1] - edge[i])             edge[i] <= j <= edge[i + 1]
 *               (edge[i + 2] - j) / (edge[i + 2] - edge[i + 1])     edge[i + 1] <= j < edge[i + 2]
 *               0                                                   elsewhere
 *
 * with 1 at j = edge[i + 1]. Bins beyond the spectrum are left out. Of integers the fraction is cut off. */
#include "ops/signal/kernels.h"
#include "ops/signal/window.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>

enum { BANDS, LENGTH, RATE, LOWER, UPPER };

static bool read_count(const struct zt_graph *g, int node, int in, int64_t least, int64_t *to, struct zt_err *err) {
    int count;
    if (!zt_known_ints(g, node, in, &(struct zt_int_list){ to, 1, &count }, err))
        return false;
    if (count != 1 || *to < least)
        return zt_node_fail(g, node, err, "\"%s\" is not a number from %lld on", zt_in(g, node, in)->name,
                            (long long)least);
    return true;
}

static bool mel_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape = { .rank = 2 };
    int64_t length;
    enum zt_dtype type;
    if (!read_count(g, node, BANDS, 0, &shape.dim[1], err) || !read_count(g, node, LENGTH, 0, &length, err) ||
        !zt_signal_output_type(g, node, &type, err))
        return false;
    for (int i = RATE; i <= UPPER; i++)
        if (zt_shape_count(&zt_in(g, node, i)->shape) != 1)
            return zt_node_fail(g, node, err, "\"%s\" is not a scalar", zt_in(g, node, i)->name);
    shape.dim[0] = length / 2 + 1;
    zt_set_out(g, node, 0, type, &shape);
    return true;
}

struct bands {
    double lower, step; /* in mel */
    double bins;        /* a hertz */
};

static double to_mel(double hertz) {
    return 2595 * log1p(hertz / 700) / M_LN10;
}
/* edge[i] */
static double edge(const struct bands *b, int64_t i) {
    return floor(b->bins * (700 * expm1((b->lower + (double)i * b->step) / 2595 * M_LN10)));
}

static double weight(double j, double left, double middle, double right) {
    if (j == middle)
        return 1;
    if (j > left && j < middle)
        return (j - left) / (middle - left);
    return j > middle && j < right ? (right - j) / (right - middle) : 0;
}

static bool read_bands(const struct zt_call *call, struct bands *b, struct zt_err *err) {
    double number[UPPER + 1];
    for (int i = 0; i <= UPPER; i++)
        zt_load_block(call->in[i].dtype, call->in[i].data, 0, 1, 1, &number[i]);
    const bool good =
        number[RATE] > 0 && number[LOWER] >= 0 && number[UPPER] >= number[LOWER] && isfinite(number[UPPER]);
    b->lower = to_mel(number[LOWER]);
    b->step = (to_mel(number[UPPER]) - b->lower) / (number[BANDS] + 2);
    b->bins = (number[LENGTH] + 1) / number[RATE];
    return good ||
           zt_call_fail(call, err, "sample rate %g, edges %g and %g: wants a positive rate and 0 <= lower <= upper",
                        number[RATE], number[LOWER], number[UPPER]);
}

static bool mel_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    const int64_t bands = y->shape.dim[1];
    double block[ZT_ELEMENT_BLOCK];
    struct bands b;
    if (!read_bands(call, &b, err))
        return false;
    for (int64_t i = 0; i < bands; i++) {
        const double left = edge(&b, i), middle = edge(&b, i + 1), right = edge(&b, i + 2);
        ZT_EACH_BLOCK(y->shape.dim[0], at, count) {
            for (int64_t j = 0; j < count; j++)
                block[j] = weight((double)(at + j), left, middle, right);
            zt_store_block(y->dtype, y->data, at * bands + i, bands, count, block);
        }
    }
    return true;
}

static const struct zt_attr_spec attrs[] = { { "output_datatype", ZT_ATTR_INT, .element_type = true }, { 0 } };
#define WHOLE (ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64))

const struct zt_op zt_op_mel_weight_matrix = {
    .name = "MelWeightMatrix",
    .domain = "",
    .since = 17,
    ZT_ONE_OUT(5, 5),
    .in_types = { WHOLE, WHOLE, WHOLE, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = mel_infer,
    .shape_in = 0x3,
    .size_in = 0x3,
    .kernel = { [ZT_REF] = { .run = mel_run } },
};
