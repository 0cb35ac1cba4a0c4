/* TfIdfVectorizer (opset 9) of integers: how often the n-grams of a pool are found in each row of x.
 *
 * An n-gram of a row is n of its items at equal distances of 1 to max_skip_count + 1; single items count once. With
 * count[i] of the i-th n-gram in the pool, which stands in column ngram_indexes[i] of y, and weight 1 unless `weights`
 * are given, it adds to its column
 *
 *     TF      count[i]
 *     IDF     weight[i] where count[i] > 0
 *     TFIDF   weight[i] count[i]
 *
 * ngram_counts[n - 1] is where the n-grams begin in the pool. Of equal n-grams the last one counts. */
#include "ops/ml/kernels.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

struct pool {
    const int64_t *items, *begins, *columns;
    const float *weights;                         /* NULL: 1 */
    int item_count, lengths, count, weight_count; /* items, lengths of n-grams, n-grams */
    int64_t least, most, skips;
    int64_t width;       /* columns */
    bool counts, weighs; /* y adds each find, or the first one; uses weights */
};

static bool read_mode(const struct zt_graph *g, int node, struct pool *p, struct zt_err *err) {
    const char *mode = zt_attr_text(g->nodes[node], "mode", "");
    p->counts = strcmp(mode, "IDF") != 0;
    p->weighs = strcmp(mode, "TF") != 0;
    return strcmp(mode, "TF") == 0 || strcmp(mode, "TFIDF") == 0 || strcmp(mode, "IDF") == 0 ||
           zt_node_fail(g, node, err, "mode \"%s\" is not TF, IDF or TFIDF", mode);
}

/* The end of the n-grams of this length in the pool. */
static int64_t end_of(const struct pool *p, int64_t length) {
    return length < p->lengths ? p->begins[length] : p->item_count;
}

static bool check_begins(const struct zt_graph *g, int node, const struct pool *p, struct zt_err *err) {
    int64_t found = 0;
    for (int64_t n = 1; n <= p->lengths; n++) {
        const int64_t begin = p->begins[n - 1], end = end_of(p, n);
        if (begin < 0 || end < begin || end > p->item_count || (n == 1 && begin != 0))
            return zt_node_fail(g, node, err, "ngram_counts[%lld] = %lld does not divide a pool of %d",
                                (long long)n - 1, (long long)begin, p->item_count);
        if ((end - begin) % n != 0)
            return zt_node_fail(g, node, err, "the pool has %lld items of %lld-grams", (long long)(end - begin),
                                (long long)n);
        found += (end - begin) / n;
    }
    return found == p->count ||
           zt_node_fail(g, node, err, "the pool has %lld n-grams and ngram_indexes %d", (long long)found, p->count);
}

static bool read_pool(const struct zt_graph *g, int node, struct pool *p, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    *p = (struct pool){ 0 };
    p->items = zt_attr_ints(n, "pool_int64s", &p->item_count);
    p->begins = zt_attr_ints(n, "ngram_counts", &p->lengths);
    p->columns = zt_attr_ints(n, "ngram_indexes", &p->count);
    p->weights = zt_attr_floats(n, "weights", &p->weight_count);
    p->least = zt_attr_int(n, "min_gram_length", 1);
    p->most = zt_attr_int(n, "max_gram_length", 1);
    p->skips = zt_attr_int(n, "max_skip_count", 0);
    if (p->item_count == 0)
        return zt_node_fail(g, node, err, "pool_int64s is missing: pools of strings are not supported");
    if (p->least < 1 || p->most < p->least || p->most > p->lengths || p->skips < 0)
        return zt_node_fail(g, node, err, "n-grams of %lld to %lld items, %lld skipped, in a pool of those up to %d",
                            (long long)p->least, (long long)p->most, (long long)p->skips, p->lengths);
    if (p->weights && p->weight_count != p->count)
        return zt_node_fail(g, node, err, "%d weights for %d n-grams", p->weight_count, p->count);
    for (int i = 0; i < p->count; i++) {
        if (p->columns[i] < 0 || p->columns[i] >= INT64_C(1) << 40)
            return zt_node_fail(g, node, err, "ngram_indexes[%d] = %lld", i, (long long)p->columns[i]);
        p->width = zt_max_int(p->width, p->columns[i] + 1);
    }
    return read_mode(g, node, p, err) && check_begins(g, node, p, err);
}

static bool vectorizer_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct pool p;
    if (!read_pool(g, node, &p, err))
        return false;
    if (x->shape.rank != 1 && x->shape.rank != 2)
        return zt_node_fail(g, node, err, "\"%s\" has rank %d, not 1 or 2", x->name, x->shape.rank);
    struct zt_shape shape = x->shape;
    shape.dim[shape.rank - 1] = p.width;
    zt_set_out(g, node, 0, ZT_FLOAT, &shape);
    return true;
}

/* ---- finding n-grams: those of a length are sorted by their items ---- */

struct gram {
    const int64_t *items;
    int64_t length, index; /* in the pool */
};

struct state {
    struct pool p;
    struct gram *grams; /* [count]; those of length n begin at first[n - 1] */
    int64_t *first;     /* [lengths + 1] */
};

static int by_items(const void *a, const void *b) {
    const struct gram *x = a, *y = b;
    for (int64_t i = 0; i < x->length; i++)
        if (x->items[i] != y->items[i])
            return x->items[i] < y->items[i] ? -1 : 1;
    return 0;
}
static int by_items_and_index(const void *a, const void *b) {
    const struct gram *x = a, *y = b;
    const int order = by_items(a, b);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void release(void *state) {
    struct state *s = state;
    if (s) {
        free(s->grams);
        free(s->first);
    }
    free(s);
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct pool p;
    if (!read_pool(q->graph, q->node, &p, err))
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->p = p;
    s->grams = zt_calloc((size_t)p.count + 1, sizeof *s->grams);
    s->first = zt_calloc((size_t)p.lengths + 1, sizeof *s->first);
    int64_t made = 0;
    for (int64_t n = 1; n <= p.lengths; n++) {
        s->first[n - 1] = made;
        for (int64_t at = p.begins[n - 1]; at < end_of(&p, n); at += n, made++)
            s->grams[made] = (struct gram){ p.items + at, n, made };
        qsort(s->grams + s->first[n - 1], (size_t)(made - s->first[n - 1]), sizeof *s->grams, by_items_and_index);
    }
    s->first[p.lengths] = made;
    q->state = s;
    /* of a thread: how often each n-gram was found, and a row of sums */
    q->workspace_bytes = (size_t)q->threads * sizeof(int64_t) * (size_t)(p.count + p.most);
    return true;
}

/* The last n-gram of the pool with these items, -1 without. */
static int64_t find(const struct state *s, const int64_t *items, int64_t length) {
    const struct gram key = { items, length, 0 };
    int64_t low = s->first[length - 1], high = s->first[length], end = high;
    const int64_t begin = low;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (by_items(&s->grams[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > begin && low <= end && by_items(&s->grams[low - 1], &key) == 0 ? s->grams[low - 1].index : -1;
}

struct row {
    const struct zt_view *x;
    int64_t start, length;
    int64_t *counts; /* [p.count] */
    int64_t *items;  /* [p.most]: those of one n-gram */
};

/* Counts the n-grams of `length` items that are `apart`. */
static void count_grams(const struct state *s, const struct row *r, int64_t length, int64_t apart) {
    for (int64_t at = 0; at + (length - 1) * apart < r->length; at++) {
        zt_load_block_int(r->x->dtype, r->x->data, r->start + at, apart, length, r->items);
        const int64_t found = find(s, r->items, length);
        if (found >= 0)
            r->counts[found]++;
    }
}

static void count_row(const struct state *s, const struct row *r) {
    const struct pool *p = &s->p;
    memset(r->counts, 0, sizeof *r->counts * (size_t)p->count);
    for (int64_t n = p->least; n <= p->most && n <= r->length; n++) {
        /* n items that are further apart do not fit */
        const int64_t furthest = n > 1 ? (r->length - 1) / (n - 1) : 1;
        for (int64_t apart = 1; apart <= furthest && apart - 1 <= (n > 1 ? p->skips : 0); apart++)
            count_grams(s, r, n, apart);
    }
}

static void run_row(void *arg, int64_t i) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const struct pool *p = &s->p;
    const struct zt_view *x = &call->in[0];
    const int64_t length = x->shape.dim[x->shape.rank - 1];
    int64_t *room = (int64_t *)call->workspace + zt_parallel_thread() * (p->count + p->most);
    float *y = (float *)call->out[0].data + i * p->width;
    count_row(s, &(struct row){ x, i * length, length, room, room + p->count });
    memset(y, 0, sizeof *y * (size_t)p->width);
    for (int g = 0; g < p->count; g++) {
        const int64_t count = p->counts ? room[g] : room[g] > 0;
        y[p->columns[g]] += (p->weighs && p->weights ? p->weights[g] : 1) * (float)count;
    }
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0];
    const int64_t rows = x->shape.rank == 2 ? x->shape.dim[0] : 1;
    zt_parallel_for(zt_threads_worth(call->threads, 64.0 * (double)zt_shape_count(&x->shape)), rows, run_row,
                    (void *)call);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "max_gram_length", ZT_ATTR_INT, true },
    { "max_skip_count", ZT_ATTR_INT, true },
    { "min_gram_length", ZT_ATTR_INT, true },
    { "mode", ZT_ATTR_STRING, true },
    { "ngram_counts", ZT_ATTR_INTS, true },
    { "ngram_indexes", ZT_ATTR_INTS, true },
    { "pool_int64s", ZT_ATTR_INTS },
    { "pool_strings", ZT_ATTR_STRINGS },
    { "weights", ZT_ATTR_FLOATS },
    { 0 },
};

const struct zt_op zt_op_tf_idf_vectorizer = {
    .name = "TfIdfVectorizer",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) },
    .attrs = attrs,
    .infer = vectorizer_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run, .release = release } },
};
