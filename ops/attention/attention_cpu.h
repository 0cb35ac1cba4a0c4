/* Shared by attention on the CPU, forward (attention_cpu.c) and backward (attention_grad_cpu.c).
 *
 * No buffer holds all scores. A unit of work is one head of keys with the queries that share it (forward: a part of
 * them). It processes its queries in blocks of panels, where a panel has as many queries as a tile of the product's
 * kernel has columns (simd_gemm.h), and its keys in blocks of ZT_KEYS. Scores are computed transposed, [keys][queries
 * of a panel]: sums over keys are then sums of whole vectors, and the weights have the layout of the right side of the
 * next product.
 *
 *     forward, a block:      s = k q^T      p = exp(s - max so far)      y^T = y^T exp(max before - max) + v^T p
 *     backward, a block:     s = k q^T      p = exp(s - max) / sum       dp = v dy^T      ds = p (dp - delta)
 *                            dv += p dy     dk += ds q     dq^T += k^T ds     delta = sum over columns of dy y
 *
 * In bfloat16, p and ds are rounded to it where they enter a product; all else is computed in float.
 *
 * ztrain.AttentionTrain saves max and 1 / sum of every query for the gradient. */
#ifndef ZT_OPS_ATTENTION_ATTENTION_CPU_H
#define ZT_OPS_ATTENTION_ATTENTION_CPU_H

#include "base/align.h"
#include "ops/attention/attention.h"
#include "ops/attention/simd_attention.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

enum {
    ZT_PANELS = 5,              /* of a block of queries, at most */
    ZT_KEYS = 96,               /* of a block: rows of whole tiles in every width */
    ZT_MOST_COLS = 32,          /* of a panel */
    ZT_AHEAD = 8,               /* tensors that are fetched for the next unit, at most */
    ZT_AHEAD_BYTES = 512 << 10, /* of them, at most: they and this unit's stay in a second cache of 1 MB */
};

struct zt_attention_plan {
    struct zt_attention a;
    enum zt_dtype dtype;                      /* of all tensors but the mask and the statistics */
    const struct zt_simd_gemm_kernel *gemm;   /* of the products; packs floats */
    const struct zt_simd_gemm_kernel *given;  /* packs tensors */
    const struct zt_simd_gemm_kernel *floats; /* copies floats in another order */
    const struct zt_attention_kernels *kernels;
    int rows, cols; /* of a tile */
    int panels;     /* of a block of queries */
    int parts;      /* forward: units of a head of keys */
    bool small;     /* heads beside each other (small_heads_cpu.h) instead of panels of queries */
    int64_t elems;  /* floats of workspace per thread */
};

/* Rows of the next unit, which are fetched into the second cache beside the products of this one: they are strided, so
 * that the processor does not fetch them by itself. */
struct zt_attention_ahead {
    struct zt_simd_gemm_ahead rows[ZT_AHEAD];
    int64_t lines[ZT_AHEAD]; /* that are left */
    int count;
    int64_t each; /* lines beside a tile */
};

/* One unit of work. */
struct zt_attention_job {
    const struct zt_call *call;
    const struct zt_attention_plan *plan;
    int64_t batch, kv_head, head;
    float *bias, *rows; /* one tile of bias, and its rows before they are packed */
    float *stored;      /* one tile of a panel, transposed to rows */
    struct zt_attention_ahead ahead;
};

/* A panel of queries from row `first` on. */
struct zt_panel {
    int64_t first;
    int count;
    int32_t from[ZT_MOST_COLS], to[ZT_MOST_COLS]; /* keys each sees; none beyond count */
    int64_t least, most;                          /* keys that any sees */
    bool masked;                                  /* not all see the same */
};

/* Whether the kernels take the inputs of the node: float, or bfloat16 where there are instructions for it; no past
 * rows. */
bool zt_attention_cpu_takes(const struct zt_graph *g, int node);
/* Fills the plan but parts, small and elems, and asks for plain inputs. */
bool zt_attention_cpu_plan(struct zt_prepare *p, struct zt_attention_plan *plan, struct zt_err *err);

/* Allocates `count` floats, rounded up to whole cache lines, of the scratch memory at `base` and adds them to *used.
 * NULL where base is NULL, so that a caller can count. */
static inline float *zt_attention_take(float *base, int64_t *used, int64_t count) {
    float *taken = base ? base + *used : NULL;
    *used += zt_align_floats(count);
    return taken;
}
/* Packed words of a depth: floats, or pairs of bfloat16. */
static inline int64_t zt_attention_words(const struct zt_attention_plan *plan, int64_t depth) {
    return zt_ceil_div(depth, plan->gemm->depths);
}
/* Words of the packed rows of [rows, depth]. */
int64_t zt_attention_packed(const struct zt_attention_plan *plan, int64_t rows, int64_t depth, int tile);
/* Packs a panel of queries as the right side of a product: [size][query]. */
void zt_attention_pack_panel(const struct zt_attention_plan *plan, const struct zt_panel *panel, const void *from,
                             int64_t row, int64_t size, float *to);
/* [keys][query] of floats as the right side of a product: in bfloat16 packed to `room`. */
const float *zt_attention_right(const struct zt_attention_plan *plan, const float *from, int64_t keys, float *room);
/* Floats as elements of a tensor. */
void zt_attention_give(enum zt_dtype dtype, const float *from, int64_t count, void *to);
/* Stores the transposed results of a panel, [size][query], to rows `row` elements apart. */
void zt_attention_store_panel(const struct zt_attention_job *j, const struct zt_panel *panel, const float *from,
                              int64_t size, void *to, int64_t row);

/* The panel of queries from row `first` on. */
struct zt_panel zt_attention_panel(const struct zt_attention_job *j, int64_t first);
/* Fills the tile of scores of a panel and keys [first, first + keys), with its bias; false where the mask hides all of
 * it. */
bool zt_attention_tile(const struct zt_attention_job *j, const struct zt_panel *panel, int64_t first, int64_t keys,
                       float *score, struct zt_score_tile *tile);

/* A product with a panel of queries on the right side: y [rows][query] = (y +) alpha a b, where a is packed rows,
 * [tile] [length][row]; the product takes `depth` of the length. Columns of `panel` beyond its queries may stay what
 * they were. Sizes count elements, of which a word has one or two. */
struct zt_panel_product {
    const struct zt_panel *panel;
    const float *a, *b;
    int64_t rows, depth, length;
    float alpha;
    bool add;
    float *y;
};
void zt_attention_multiply(struct zt_attention_job *j, const struct zt_panel_product *p);
/* The lines that are fetched beside `tiles` tiles; NULL: none. */
struct zt_simd_gemm_ahead *zt_attention_fetch(struct zt_attention_job *j, int64_t tiles);
/* Adds `count` rows of `size` elements from `first` on, `row` elements apart, to what is fetched. */
void zt_attention_fetch_rows(struct zt_attention_job *j, const void *first, int64_t row, int64_t count, int64_t size);
/* Divides what was added among the tiles of the unit's products, whose scores are of `heads` heads, computed `times`
 * times; nothing is fetched where it is too much. */
void zt_attention_fetch_beside(struct zt_attention_job *j, int64_t heads, int times);

/* The first row of a head. */
static inline void *zt_attention_head(const struct zt_attention_job *j, const struct zt_view *of,
                                      const struct zt_heads *h, int64_t head) {
    return zt_element(of->data, zt_dtype_bytes(j->plan->dtype), h->first + j->batch * h->batch + head * h->head);
}

#endif
