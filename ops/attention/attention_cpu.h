/* Shared by attention on the CPU, forward (attention_cpu.c) and backward (attention_grad_cpu.c).
 *
 * No buffer holds all scores. A unit of work is one head of keys with the queries that share it (forward: a part of
 * them). It processes its queries in blocks of ZT_PANELS panels, where a panel has as many queries as a tile of the
 * product's kernel has columns (simd_gemm.h), and its keys in blocks of ZT_KEYS. Scores are computed
 * transposed, [keys][queries of a panel]: sums over keys are then sums of whole vectors, and the weights have the
 * layout of the right side of the next product.
 *
 *     forward, a block:      s = k q^T      p = exp(s - max so far)      y^T = y^T exp(max before - max) + v^T p
 *     backward, a block:     s = k q^T      p = exp(s - max) / sum       dp = v dy^T      ds = p (dp - delta)
 *                            dv += p dy     dk += ds q     dq^T += k^T ds     delta = sum over columns of dy y
 *
 * ztrain.AttentionTrain saves max and 1 / sum of every query for the gradient. */
#ifndef ZT_OPS_ATTENTION_ATTENTION_CPU_H
#define ZT_OPS_ATTENTION_ATTENTION_CPU_H

#include "ops/attention/attention.h"
#include "ops/attention/simd_attention.h"
#include "ops/cpu/simd_gemm.h"

enum {
    ZT_PANELS = 4,     /* of a block of queries */
    ZT_KEYS = 96,      /* of a block: rows of whole tiles in every width */
    ZT_MOST_COLS = 32, /* of a panel */
};

struct zt_attention_plan {
    struct zt_attention a;
    const struct zt_simd_gemm_kernel *gemm;
    const struct zt_attention_kernels *kernels;
    int rows, cols; /* of a tile */
    int parts;      /* forward: units of a head of keys */
    int64_t elems;  /* floats of workspace per thread */
};

/* One unit of work. */
struct zt_attention_job {
    const struct zt_call *call;
    const struct zt_attention_plan *plan;
    int64_t batch, kv_head, head;
    float *bias, *rows; /* one tile of bias, and its rows before they are packed */
    float *stored;      /* one tile of a panel, transposed to rows */
};

/* A panel of queries from row `first` on. */
struct zt_panel {
    int64_t first;
    int count;
    int32_t from[ZT_MOST_COLS], to[ZT_MOST_COLS]; /* keys each sees; none beyond count */
    int64_t least, most;                          /* keys that any sees */
    bool masked;                                  /* not all see the same */
};

/* Whether the kernels take the inputs of the node: floats, no past rows. */
bool zt_attention_cpu_takes(const struct zt_graph *g, int node);
/* Fills the plan but parts and elems, and asks for plain inputs. */
bool zt_attention_cpu_plan(struct zt_prepare *p, struct zt_attention_plan *plan, struct zt_err *err);

/* Allocates `count` floats, rounded up to whole cache lines, of the scratch memory at `base` and adds them to *used.
 * NULL where base is NULL, so that a caller can count. */
float *zt_attention_take(float *base, int64_t *used, int64_t count);
/* Floats of the packed rows of [rows, depth]. */
int64_t zt_attention_packed(int64_t rows, int64_t depth, int tile);
/* Packs a panel of queries as the right side of a product: [size][query]. */
void zt_attention_pack_panel(const struct zt_attention_plan *plan, const struct zt_panel *panel, const float *from,
                             int64_t row, int64_t size, float *to);
/* Stores the transposed results of a panel, [size][query], to rows `row` elements apart. */
void zt_attention_store_panel(const struct zt_attention_job *j, const struct zt_panel *panel, const float *from,
                              int64_t size, float *to, int64_t row);

/* The panel of queries from row `first` on. */
struct zt_panel zt_attention_panel(const struct zt_attention_job *j, int64_t first);
/* Fills the tile of scores of a panel and keys [first, first + keys), with its bias; false where the mask hides all of
 * it. */
bool zt_attention_tile(const struct zt_attention_job *j, const struct zt_panel *panel, int64_t first, int64_t keys,
                       float *score, struct zt_score_tile *tile);

/* A product with a panel of queries on the right side: y [rows][query] = (y +) alpha a b, where a is packed rows,
 * [tile] [length][row]; the product takes `depth` of the length. Columns of `panel` beyond its queries may stay what
 * they were. */
struct zt_panel_product {
    const struct zt_panel *panel;
    const float *a, *b;
    int64_t rows, depth, length;
    float alpha;
    bool add;
    float *y;
};
void zt_attention_multiply(const struct zt_attention_plan *plan, const struct zt_panel_product *p);

/* First element of a row of a head. */
static inline int64_t zt_attention_place(const struct zt_heads *h, int64_t batch, int64_t head, int64_t row) {
    return h->first + batch * h->batch + head * h->head + row * h->row;
}

#endif
