/* What the attention operators share: tensors of heads, as nodes of ONNX's own operators. Keys and values are
 * [batch, rows, heads * size], kept ones (past and present) [batch, heads, rows, size]. */
#ifndef ZT_OPS_LOWERED_HEADS_H
#define ZT_OPS_LOWERED_HEADS_H

#include "ops/lowered/lowering.h"

/* Three parts of a tensor along its last axis, of size[i] elements. */
void zt_lower_split(struct zt_lowering *l, int value, const int64_t size[3], int part[3]);

/* The value of a past input, -1 where it is omitted or has no rows. Its rows are added to *rows. Fails where it is not
 * [batch, heads, rows, size]. */
int zt_lower_past(struct zt_lowering *l, int in, int64_t *rows);
/* Writes value `out` (-1: a new one): the rows of `past` (-1: none), then those of x, of `heads` heads. */
int zt_lower_present(struct zt_lowering *l, int out, int past, int x, int64_t heads);

/* Buffers of kept keys or values of which the first rows are past ones: new rows follow these, not the buffer's end.
 *
 *     past      a b . .      2 of 4 rows count        present      a b x .
 *     added     x                                     (zeros behind the last row) */
struct zt_lower_buffer {
    int lengths;                  /* value: past rows that count, [batch], int64 */
    int64_t past, added, present; /* rows; present <= past + added */
    int64_t heads;
    int index, kept; /* of zt_lower_index(): the row of (past, added) for each of `present`, and whether it counts */
};
void zt_lower_index(struct zt_lowering *l, struct zt_lower_buffer *b);
/* The present rows of past [batch, heads, rows, size] and x [batch, rows, heads * size] as x; writes value `out` (-1:
 * none) as past. */
int zt_lower_fill(struct zt_lowering *l, const struct zt_lower_buffer *b, int past, int x, int out);

/* [batch, keys] of lengths [batch], int32: whether the key is one of the first ones. */
int zt_lower_first_keys(struct zt_lowering *l, int lengths, int64_t keys);

/* A rotation by RotaryEmbedding. */
struct zt_lower_rotary {
    int x, cos, sin;        /* values; caches of [positions, rotated columns / 2] */
    int positions;          /* [batch, rows], int64 */
    int64_t heads, rotated; /* heads where x has 3 axes; columns of each that are rotated, 0: all */
    bool interleaved;
};
int zt_lower_rotate(struct zt_lowering *l, int out, const struct zt_lower_rotary *r);
/* Positions [batch, rows] that go on from `first`, a single int64 (-1: 0). */
int zt_lower_positions(struct zt_lowering *l, int first, int64_t batch, int64_t rows);

#endif
