/* ONNX NonMaxSuppression, opset 10 on: boxes of each class of each sample in the order of falling scores, without those
 * that overlap a better one.
 *
 *     a box is a candidate where score > score_threshold (every box without that input)
 *     candidates in the order of falling scores, of equal ones the first box first; a score that is not a number never
 *     a candidate is selected unless IoU(candidate, selected) > iou_threshold for an earlier selected box of its class
 *     IoU = area of the intersection / (area + area - intersection), 0 where an area is not positive; in float
 *
 * At most max_output_boxes_per_class (default 0) boxes are selected of a class of a sample. The result has a row
 * [sample, class, box] for each: its size depends on the data, so that the node is inferred while running eagerly, or
 * folded. No input has a gradient. */
#include "ops/kernel/shape.h"

#include <stdlib.h>

/* ---- reading the node ---- */

struct suppression {
    const float *boxes, *scores;     /* [n, count, 4], [n, classes, count] */
    int64_t n, classes, count, most; /* most: boxes of a class */
    float overlap, least;            /* thresholds */
    bool all, center;                /* all: without score_threshold */
};

/* The one element of an optional input, `otherwise` where it is omitted; a rank of 0 or 1. */
static bool read_scalar(const struct zt_graph *g, int node, int in, double otherwise, double *to, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    *to = otherwise;
    if (!v || zt_shape_count(&v->shape) == 0)
        return true;
    if (v->shape.rank > 1 || zt_shape_count(&v->shape) != 1)
        return zt_node_fail(g, node, err, "\"%s\" is not a scalar", v->name);
    if (!v->data)
        return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant", v->name);
    *to = zt_load_double(v->dtype, v->data, 0);
    return true;
}

static bool check_shapes(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_shape *boxes = &zt_in(g, node, 0)->shape, *scores = &zt_in(g, node, 1)->shape;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (boxes->rank == 3 && scores->rank == 3 && boxes->dim[2] == 4 && scores->dim[0] == boxes->dim[0] &&
        scores->dim[2] == boxes->dim[1])
        return true;
    return zt_node_fail(g, node, err, "boxes of shape %s with scores of shape %s, wants [N,B,4] and [N,C,B]",
                        zt_shape_text(boxes, s), zt_shape_text(scores, t));
}

static bool read(const struct zt_graph *g, int node, struct suppression *to, struct zt_err *err) {
    const struct zt_value *boxes = zt_in(g, node, 0), *scores = zt_in(g, node, 1);
    double most, overlap, least;
    const int64_t center = zt_attr_int(g->nodes[node], "center_point_box", 0);
    if (!check_shapes(g, node, err) || !read_scalar(g, node, 2, 0, &most, err) ||
        !read_scalar(g, node, 3, 0, &overlap, err) || !read_scalar(g, node, 4, 0, &least, err))
        return false;
    if (center != 0 && center != 1)
        return zt_node_fail(g, node, err, "center_point_box = %lld, allowed 0 and 1", (long long)center);
    if (!(overlap >= 0 && overlap <= 1))
        return zt_node_fail(g, node, err, "iou_threshold = %g, allowed 0..1", overlap);
    for (int i = 0; i < 2; i++)
        if (!zt_in(g, node, i)->data && zt_shape_count(&zt_in(g, node, i)->shape) > 0)
            return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant",
                                zt_in(g, node, i)->name);
    *to = (struct suppression){ .boxes = boxes->data,
                                .scores = scores->data,
                                .n = boxes->shape.dim[0],
                                .classes = scores->shape.dim[1],
                                .count = boxes->shape.dim[1],
                                .overlap = (float)overlap,
                                .least = (float)least,
                                .all = !zt_in(g, node, 4) || zt_shape_count(&zt_in(g, node, 4)->shape) == 0,
                                .center = center == 1 };
    to->most = most < 0 ? 0 : most < (double)to->count ? (int64_t)most : to->count;
    return true;
}

/* ---- boxes ---- */

/* Bounds along both axes. */
struct bounds {
    float low[2], high[2];
};

static struct bounds bounds_of(const float *box, bool center) {
    struct bounds b;
    for (int a = 0; a < 2; a++) {
        const float first = center ? box[a] - box[a + 2] / 2 : box[a];
        const float second = center ? box[a] + box[a + 2] / 2 : box[a + 2];
        const bool turned = !center && first > second; /* any two opposite corners */
        b.low[a] = turned ? second : first;
        b.high[a] = turned ? first : second;
    }
    return b;
}

static float area_of(const struct bounds *b) {
    return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
}

static bool overlaps(const struct bounds *a, const struct bounds *b, float threshold) {
    struct bounds both;
    for (int k = 0; k < 2; k++) {
        both.low[k] = a->low[k] > b->low[k] ? a->low[k] : b->low[k];
        both.high[k] = a->high[k] < b->high[k] ? a->high[k] : b->high[k];
        if (!(both.high[k] > both.low[k]))
            return false;
    }
    const float shared = area_of(&both), all = area_of(a) + area_of(b) - shared;
    return shared > 0 && area_of(a) > 0 && area_of(b) > 0 && all > 0 && shared / all > threshold;
}

/* ---- selection ---- */

struct candidate {
    float score;
    int64_t box;
};

static int order_candidates(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->box < y->box ? -1 : x->box > y->box;
}

/* The candidates of class c of sample i, best first. */
static int64_t find_candidates(const struct suppression *s, int64_t i, int64_t c, struct candidate *to) {
    const float *scores = s->scores + (i * s->classes + c) * s->count;
    int64_t found = 0;
    for (int64_t box = 0; box < s->count; box++)
        if (s->all ? scores[box] == scores[box] : scores[box] > s->least)
            to[found++] = (struct candidate){ scores[box], box };
    qsort(to, (size_t)found, sizeof *to, order_candidates);
    return found;
}

/* Selects of class c of sample i into `rows` (NULL: only counts); `kept` has room for the bounds of `most` boxes. */
static int64_t select_boxes(const struct suppression *s, int64_t i, int64_t c, struct candidate *candidates,
                            struct bounds *kept, int64_t *rows) {
    const int64_t found = find_candidates(s, i, c, candidates);
    int64_t selected = 0;
    for (int64_t k = 0; k < found && selected < s->most; k++) {
        const struct bounds own = bounds_of(s->boxes + (i * s->count + candidates[k].box) * 4, s->center);
        bool hidden = false;
        for (int64_t j = 0; j < selected && !hidden; j++)
            hidden = overlaps(&own, &kept[j], s->overlap);
        if (hidden)
            continue;
        if (rows) {
            int64_t *row = rows + 3 * selected;
            row[0] = i;
            row[1] = c;
            row[2] = candidates[k].box;
        }
        kept[selected++] = own;
    }
    return selected;
}

/* Selects of all; returns how many. */
static int64_t select_all(const struct suppression *s, int64_t *rows) {
    if (s->most == 0 || s->n * s->classes == 0)
        return 0;
    struct candidate *candidates = zt_calloc((size_t)s->count, sizeof *candidates);
    struct bounds *kept = zt_calloc((size_t)s->most, sizeof *kept);
    int64_t selected = 0;
    for (int64_t at = 0; at < s->n * s->classes; at++)
        selected +=
            select_boxes(s, at / s->classes, at % s->classes, candidates, kept, rows ? rows + 3 * selected : NULL);
    free(kept);
    free(candidates);
    return selected;
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct suppression s;
    if (!read(g, node, &s, err))
        return false;
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 2, { select_all(&s, NULL), 3 } });
    return true;
}

/* Every box of every class of every sample, or as many as the limit says where it is known. */
static bool bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    const struct zt_value *limit = zt_in(g, node, 2);
    int64_t all, of_class;
    if (!check_shapes(g, node, err))
        return false;
    const struct zt_shape *scores = &zt_in(g, node, 1)->shape;
    of_class = scores->dim[2];
    if (!limit || (limit->data && zt_shape_count(&limit->shape) == 1)) {
        const int64_t most = limit ? zt_load_int(limit->dtype, limit->data, 0) : 0;
        of_class = most < 0 ? 0 : most < of_class ? most : of_class;
    }
    if (!zt_ops_dim_product(g, node, scores->dim[0], scores->dim[1], &all, err) ||
        !zt_ops_dim_product(g, node, all, of_class, &all, err))
        return false;
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 2, { all - (less && all > 0), 3 } });
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    struct suppression s;
    if (!read(call->graph, zt_call_node(call), &s, err))
        return false;
    select_all(&s, call->out[0].data);
    return true;
}

static const struct zt_attr_spec attrs[] = { { "center_point_box", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_non_max_suppression = {
    .name = "NonMaxSuppression",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 5),
    .in_types = { ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_INT64), ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT) },
    .attrs = attrs,
    .no_grad_in = 0x1f,
    .infer = infer,
    .bound = bound,
    .kernel = { [ZT_REF] = { .run = run } },
};
