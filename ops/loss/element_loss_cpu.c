/* Losses that compare element by element, on the CPU (formulas in element_loss.c). Blocks of BLOCK elements are summed
 * in double, and the blocks in order. */
#include "ops/loss/kernels.h"
#include "ops/loss/simd_loss.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 14 };

static const struct {
    const char *op, *bend; /* bend: its attribute */
} kinds[ZT_TERMS] = {
    [ZT_SQUARED] = { "SquaredError", NULL },         [ZT_ABSOLUTE] = { "AbsoluteError", NULL },
    [ZT_SMOOTH] = { "SmoothAbsoluteError", "beta" }, [ZT_HUBER] = { "Huber", "delta" },
    [ZT_BINARY] = { "BinaryCrossEntropy", NULL },
};

struct loss_state {
    const struct zt_loss_kernels *kernels;
    int kind;
    int x;               /* input */
    int64_t count, rows; /* elements; rows of one weight each */
    float bend;
    size_t bytes; /* of an element */
};

bool zt_element_loss_cpu_supports(const struct zt_graph *g, int node) {
    return zt_loss_kernels() && zt_row_type(zt_in(g, node, 0)->dtype);
}
bool zt_element_loss_grad_cpu_supports(const struct zt_graph *g, int node) {
    return zt_loss_kernels() && zt_row_type(zt_in(g, node, 1)->dtype);
}

static bool prepare(struct zt_prepare *p, int x) {
    const struct zt_node *n = p->graph->nodes[p->node];
    const struct zt_value *v = zt_in(p->graph, p->node, x), *weight = zt_in(p->graph, p->node, x + 2);
    struct loss_state *s = zt_calloc(1, sizeof *s);
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    while (strncmp(n->op->name, kinds[s->kind].op, strlen(kinds[s->kind].op)) != 0)
        s->kind++;
    s->kernels = zt_loss_kernels();
    s->x = x;
    s->count = zt_shape_count(&v->shape);
    s->rows = weight ? zt_shape_count(&weight->shape) : v->shape.rank > 0 ? v->shape.dim[0] : 1;
    s->bend = kinds[s->kind].bend ? zt_attr_float(n, kinds[s->kind].bend, 1) : 1;
    s->bytes = zt_dtype_bytes(v->dtype);
    p->workspace_bytes = (size_t)zt_ceil_div(s->count, BLOCK) * sizeof(double);
    p->state = s;
    return true;
}

bool zt_element_loss_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    return prepare(p, 0);
}
bool zt_element_loss_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    return prepare(p, 1);
}
void zt_element_loss_cpu_release(void *state) {
    free(state);
}
void zt_element_loss_grad_cpu_release(void *state) {
    free(state);
}

struct job {
    const struct zt_call *call;
    const struct loss_state *s;
    const struct zt_view *weight; /* NULL: all 1 */
    double *part, factor;         /* factor: dloss / total */
};

static double row_weight(const struct job *j, int64_t row) {
    return j->weight ? zt_load_double(j->weight->dtype, j->weight->data, row) : 1;
}

static struct job job_of(const struct zt_call *call, double *total) {
    const struct loss_state *s = call->state;
    struct job j = { .call = call, .s = s, .part = call->workspace };
    if (s->x + 2 < call->in_count && call->in[s->x + 2].data)
        j.weight = &call->in[s->x + 2];
    double weights = j.weight ? 0 : (double)s->rows;
    for (int64_t row = 0; j.weight && row < s->rows; row++)
        weights += row_weight(&j, row);
    *total = s->rows ? weights * (double)(s->count / s->rows) : 0;
    return j;
}

/* One piece of a row, of at most ZT_ELEMENT_BLOCK elements where the target must be made float first; returns its sum.
 */
static double piece(const struct job *j, int64_t at, int64_t n, double weight, bool grad) {
    const struct loss_state *s = j->s;
    const struct zt_view *x = &j->call->in[s->x], *target = &j->call->in[s->x + 1], *out = &j->call->out[0];
    struct zt_term term = { x->dtype, n, NULL, s->bend };
    float copy[ZT_ELEMENT_BLOCK];
    if (target->dtype == ZT_FLOAT) {
        term.target = (const float *)target->data + at;
    } else {
        double block[ZT_ELEMENT_BLOCK];
        zt_load_block(target->dtype, target->data, at, 1, n, block);
        for (int64_t i = 0; i < n; i++)
            copy[i] = (float)block[i];
        term.target = copy;
    }
    const void *from = zt_element(x->data, s->bytes, at);
    if (!grad)
        return weight != 0 ? weight * s->kernels->term[s->kind](&term, from) : 0; /* a padding row may hold anything */
    void *to = zt_element(out->data, s->bytes, at);
    if (j->factor * weight != 0)
        s->kernels->term_grad[s->kind](&term, from, (float)(j->factor * weight), to);
    else
        memset(to, 0, (size_t)n * s->bytes);
    return 0;
}

static double run_pieces(const struct job *j, int64_t block, bool grad) {
    const struct loss_state *s = j->s;
    bool is_float = j->call->in[s->x + 1].dtype == ZT_FLOAT;
    int64_t end = zt_min_int(s->count, (block + 1) * BLOCK), width = j->weight ? s->count / s->rows : s->count;
    double sum = 0;
    for (int64_t at = block * BLOCK, n; at < end; at += n) {
        n = zt_min_int(end, (at / width + 1) * width) - at;
        n = is_float ? n : zt_min_int(n, ZT_ELEMENT_BLOCK);
        sum += piece(j, at, n, row_weight(j, at / width), grad);
    }
    return sum;
}

static void loss_block(void *arg, int64_t block) {
    struct job *j = arg;
    j->part[block] = run_pieces(j, block, false);
}

static void grad_block(void *arg, int64_t block) {
    run_pieces(arg, block, true);
}

bool zt_element_loss_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    double total, sum = 0;
    struct job j = job_of(call, &total);
    int64_t blocks = zt_ceil_div(j.s->count, BLOCK);
    zt_parallel_for(call->threads, blocks, loss_block, &j);
    for (int64_t c = 0; c < blocks; c++)
        sum += j.part[c];
    zt_store_double(call->out[0].dtype, call->out[0].data, 0, total != 0 ? sum / total : 0);
    return true;
}

bool zt_element_loss_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    double total;
    struct job j = job_of(call, &total);
    j.factor = total != 0 ? zt_load_double(call->in[0].dtype, call->in[0].data, 0) / total : 0;
    zt_parallel_for(call->threads, zt_ceil_div(j.s->count, BLOCK), grad_block, &j);
    return true;
}
