#include "graph/passes/trainable/weight_norm.h"

#include "base/arena.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool zt_weight_norm_fits(const struct zt_shape *g, const struct zt_shape *v) {
    bool fits = g->rank == v->rank;
    for (int k = 0; fits && k < v->rank; k++)
        fits = g->dim[k] == 1 || g->dim[k] == v->dim[k];
    return fits || zt_shape_count(g) == 1;
}

/* The element of g that belongs to element `i` of v. */
static int64_t place(const struct zt_shape *g, const struct zt_shape *v, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int k = v->rank - 1; k >= 0 && g->rank == v->rank; k--) {
        at += g->dim[k] > 1 ? i % v->dim[k] * stride : 0;
        stride *= g->dim[k];
        i /= v->dim[k];
    }
    return at;
}

void zt_weight_norm(const struct zt_shape *g_shape, const float *g, const struct zt_shape *v_shape, const float *v,
                    float *w) {
    const int64_t count = zt_shape_count(v_shape);
    double *squares = zt_calloc((size_t)zt_shape_count(g_shape) + 1, sizeof *squares);
    for (int64_t i = 0; i < count; i++)
        squares[place(g_shape, v_shape, i)] += (double)v[i] * (double)v[i];
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = place(g_shape, v_shape, i);
        w[i] = (float)((double)g[at] * (double)v[i] / sqrt(squares[at]));
    }
    free(squares);
}

static const char *const forms[ZT_WEIGHT_NORM_FORMS][3] = {
    { "", "_g", "_v" },
    { "parametrizations.", ".original0", ".original1" },
};

const char *zt_weight_norm_name(struct zt_arena *arena, const char *name, int form, int i) {
    const char *dot = strrchr(name, '.'), *leaf = dot ? dot + 1 : name;
    return zt_arena_printf(arena, "%.*s%s%s%s", (int)(leaf - name), name, forms[form][0], leaf, forms[form][1 + i]);
}

const char *zt_weight_norm_of(struct zt_arena *arena, const char *name) {
    const size_t length = strlen(name);
    for (int form = 0; form < ZT_WEIGHT_NORM_FORMS; form++) {
        const char *before = forms[form][0], *end = forms[form][1], *at = before[0] ? strstr(name, before) : name;
        if (!at || !zt_text_ends(name, end))
            continue;
        const char *rest = at + strlen(before);
        return zt_arena_printf(arena, "%.*s%.*s", (int)(at - name), name, (int)(name + length - strlen(end) - rest),
                               rest);
    }
    return NULL;
}
