/* Choice of the nodes to recompute: by name, evenly, or those that fit with the fewest FLOPs. */
#include "graph/passes/recompute/choose.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static struct zt_choice no_choice(const struct zt_forward *f) {
    struct zt_choice c = { zt_malloc(((size_t)f->count + 1) * sizeof *c.segment),
                           zt_calloc((size_t)f->count + 1, sizeof *c.recomputed), 0, 0 };
    for (int n = 0; n < f->count; n++)
        c.segment[n] = -1;
    return c;
}

static void free_choice(struct zt_choice *c) {
    free(c->segment);
    free(c->recomputed);
    *c = (struct zt_choice){ 0 };
}

/* ---- by name ---- */

/* The text that the first '*' of the glob matches in `name`, up to the next '/'; length 0 without a '*'. */
static int star_of(const char *glob, const char *name, const char **at) {
    size_t before = strcspn(glob, "*");
    if (!glob[before])
        return 0;
    *at = name + before;
    *at += **at == '/';
    return (int)strcspn(*at, "/");
}

static bool same_star(const char *glob, const char *a, const char *b) {
    const char *x = NULL, *y = NULL;
    int n = star_of(glob, a, &x), m = star_of(glob, b, &y);
    return n == m && (n == 0 || memcmp(x, y, (size_t)n) == 0);
}

/* The first of the globs that fits, -1: none. */
static int glob_of(const struct zt_recompute *how, const char *name) {
    for (int i = 0; i < how->name_count; i++)
        if (zt_glob(how->names[i], name))
            return i;
    return -1;
}

static void choose_by_name(const struct zt_forward *f, const struct zt_recompute *how, struct zt_choice *c) {
    int segment = -1, last = -1;
    for (int n = 0; n < f->count; n++) {
        int glob = glob_of(how, f->g->nodes[n]->name);
        if (glob >= 0) {
            if (glob != last || !same_star(how->names[glob], f->g->nodes[n - 1]->name, f->g->nodes[n]->name))
                segment++;
            c->segment[n] = segment;
            c->recomputed[n] = true;
        }
        last = glob;
    }
}

/* ---- evenly ---- */

/* Bytes along the forward phase, by node; [count + 1]. */
struct profile {
    int64_t *made;  /* bytes computed before the node */
    int64_t *cross; /* bytes computed before the node that it or a later forward node reads */
};

static struct profile make_profile(const struct zt_forward *f) {
    const struct zt_graph *g = f->g;
    struct profile l = { zt_calloc((size_t)f->count + 2, sizeof *l.made),
                         zt_calloc((size_t)f->count + 2, sizeof *l.cross) };
    int *last = zt_malloc(((size_t)g->value_count + 1) * sizeof *last);
    memset(last, -1, ((size_t)g->value_count + 1) * sizeof *last);
    for (int n = 0; n < f->count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                last[g->nodes[n]->in[i]] = n;
    for (int n = 0; n < f->count; n++) {
        for (int i = 0; i < g->nodes[n]->out_count; i++) {
            int value = g->nodes[n]->out[i];
            if (value < 0 || f->from_params[value])
                continue;
            if (!(g->nodes[n]->op->flags & ZT_OP_VIEW))
                l.made[n + 1] += f->bytes[value];
            if (last[value] > n) {
                l.cross[n + 1] += f->bytes[value];
                l.cross[last[value] + 1] -= f->bytes[value];
            }
        }
    }
    for (int n = 0; n < f->count; n++) {
        l.made[n + 1] += l.made[n];
        l.cross[n + 1] += l.cross[n];
    }
    free(last);
    return l;
}

static void free_profile(struct profile *l) {
    free(l->made);
    free(l->cross);
}

/* Divides the profile into `count` segments of about equal bytes. Each boundary is where the fewest bytes cross within
 * two fifths of a segment of its even position. `whole`: the last segment, with which backward starts, is recomputed
 * too. */
static void choose_evenly(const struct zt_forward *f, const struct profile *l, int count, bool cheap_only, bool whole,
                          struct zt_choice *c) {
    double each = (double)l->made[f->count] / count;
    int from = 0;
    for (int k = 1; k <= count; k++) {
        int end = k == count ? f->count : -1;
        for (int n = from + 1; k < count && n < f->count; n++) {
            double off = (double)l->made[n] - each * k;
            bool near = off > -0.4 * each && off < 0.4 * each;
            if ((near && (end < 0 || l->cross[n] < l->cross[end])) || (end < 0 && off >= 0.4 * each))
                end = n;
        }
        if (end < 0)
            end = f->count;
        for (int n = from; n < end; n++) {
            c->segment[n] = k - 1;
            c->recomputed[n] = (end < f->count || whole) && !(cheap_only && f->matrix_product[n]);
        }
        from = end;
    }
}

static int count_layers(const struct zt_forward *f) {
    int layers = 0;
    for (int n = 0; n < f->count; n++) {
        bool params = false;
        for (int i = 0; i < f->g->nodes[n]->in_count; i++)
            params |= zt_in(f->g, n, i) && zt_in(f->g, n, i)->trainable;
        layers += params;
    }
    return layers;
}

/* ---- what fits ---- */

struct search {
    const struct zt_forward *f;
    const struct zt_graph_roots *roots;
    int64_t room;
    struct zt_choice best;
    struct zt_err *err;
};

/* The better of two choices: less work if both fit, else the smaller peak. */
static bool is_better(const struct search *s, const struct zt_choice *a, const struct zt_choice *b) {
    bool a_fits = a->peak <= s->room, b_fits = b->peak <= s->room;
    if (a_fits != b_fits)
        return a_fits;
    if (a_fits && a->work != b->work)
        return a->work < b->work;
    return a->peak < b->peak;
}

static bool measure(const struct search *s, struct zt_choice *c) {
    struct zt_graph *g = zt_graph_clone(s->f->g);
    bool ok = zt_choice_apply(s->f, c, g, s->err);
    if (ok)
        c->peak = zt_recompute_peak(g, s->roots);
    zt_graph_destroy(g);
    return ok;
}

/* Takes ownership of `c`. */
static bool consider(struct search *s, struct zt_choice *c) {
    bool ok = measure(s, c);
    if (ok && is_better(s, c, &s->best)) {
        struct zt_choice was = s->best;
        s->best = *c;
        *c = was;
    }
    free_choice(c);
    return ok;
}

/* Stops recomputing segments as long as the choice fits, most FLOPs first. */
static bool undo_costly_segments(struct search *s) {
    int segments = 0;
    for (int n = 0; n < s->f->count; n++)
        if (s->best.segment[n] >= segments)
            segments = s->best.segment[n] + 1;
    bool *tried = zt_calloc((size_t)segments + 1, sizeof *tried), ok = true;
    for (int round = 0; ok && s->best.peak <= s->room && round < segments; round++) {
        double *work = zt_calloc((size_t)segments + 1, sizeof *work);
        int costliest = -1;
        for (int n = 0; n < s->f->count; n++)
            if (s->best.recomputed[n])
                work[s->best.segment[n]] += zt_op_work(s->f->g, n);
        for (int k = 0; k < segments; k++)
            if (!tried[k] && work[k] > 0 && (costliest < 0 || work[k] > work[costliest]))
                costliest = k;
        free(work);
        if (costliest < 0)
            break;
        tried[costliest] = true;
        struct zt_choice c = no_choice(s->f);
        for (int n = 0; n < s->f->count; n++) {
            c.segment[n] = s->best.segment[n];
            c.recomputed[n] = s->best.recomputed[n] && s->best.segment[n] != costliest;
        }
        ok = consider(s, &c);
    }
    free(tried);
    return ok;
}

static bool choose_within_limit(struct search *s) {
    static const int counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64 };
    s->best = no_choice(s->f);
    bool ok = measure(s, &s->best);
    if (!ok || s->best.peak <= s->room)
        return ok;
    struct profile profile = make_profile(s->f);
    for (size_t i = 0; ok && i < sizeof counts / sizeof *counts; i++) {
        for (int variant = 0; ok && variant < 3 && counts[i] <= s->f->count; variant++) {
            struct zt_choice c = no_choice(s->f);
            choose_evenly(s->f, &profile, counts[i], variant > 0, variant > 1, &c);
            ok = consider(s, &c);
        }
    }
    free_profile(&profile);
    return ok && undo_costly_segments(s);
}

bool zt_choose(const struct zt_forward *f, const struct zt_recompute *how, const struct zt_graph_roots *roots,
               struct zt_choice *to, struct zt_err *err) {
    int count = how->segments;
    while (count < 0 && count * count < count_layers(f)) /* at least the root */
        count--;
    count = count < 0 ? -count : count;
    if (how->layers > 0)
        count = (count_layers(f) + how->layers - 1) / how->layers;
    if (!how->name_count && !count && how->room > 0) {
        struct search s = { .f = f, .roots = roots, .room = how->room, .err = err };
        bool ok = choose_within_limit(&s);
        *to = s.best;
        return ok;
    }
    *to = no_choice(f);
    if (how->name_count) {
        choose_by_name(f, how, to);
    } else if (count > 0) {
        struct profile profile = make_profile(f);
        choose_evenly(f, &profile, count < f->count ? count : f->count, false, false, to);
        free_profile(&profile);
    }
    return true;
}
