/* Element orders of a tensor with channels (dim[1]), other than plain row-major. The layouts of all back ends consist
 * of them.
 *
 * Blocked ("nChw16c"): channels in blocks of 16 (or 8), the channel within its block innermost: [N][C/16][spatial][16],
 * padded with zero channels to a full block. Channels last ("nhwc"): [N][spatial][C]. In both a sample is contiguous,
 * so a block of the batch is a range of bytes. A vendor's own layouts (packed weights) are opaque, see dnnl.h.
 *
 * Filled rows, of matrices: the step from row to row is longer than a row. Nothing reads the elements between rows. */
#ifndef ZT_OPS_KERNEL_LAYOUT_H
#define ZT_OPS_KERNEL_LAYOUT_H

#include "graph/ir/op.h"

enum zt_order { ZT_ORDER_PLAIN, ZT_ORDER_BLOCKED, ZT_ORDER_CHANNELS_LAST, ZT_ORDER_FILLED_ROWS, ZT_ORDER_VENDOR };

/* The descriptor of a layout. Two layouts of one value are equal if order and block are equal and, for vendors'
 * layouts, vendor_equal returns true. */
struct zt_layout_ordered {
    struct zt_layout base;
    enum zt_order order;
    int block; /* ZT_ORDER_BLOCKED: channels in a block; ZT_ORDER_FILLED_ROWS: elements from row to row; else 0 */
    const void *vendor;
    bool (*vendor_equal)(const void *a, const void *b);
};

/* The layout of a tensor of rank 3 and more, of a matrix with filled rows, in the arena. Plain gives NULL. */
const struct zt_layout *zt_layout_of(struct zt_arena *arena, enum zt_order order, int block, enum zt_dtype dtype,
                                     const struct zt_shape *shape);
const struct zt_layout *zt_layout_vendor(struct zt_arena *arena, const char *name, size_t bytes, const void *vendor,
                                         bool (*equal)(const void *a, const void *b));
/* Order and block of a layout; NULL is plain. */
enum zt_order zt_layout_order(const struct zt_layout *layout, int *block);
bool zt_layout_is_last(const struct zt_layout *layout);   /* channels last */
bool zt_layout_is_filled(const struct zt_layout *layout); /* filled rows */
/* The row step for rows of this many elements, so that tensor cores read them at full rate and cuBLASLt's epilogues
 * take them: the row itself where it fills whole 16 bytes, else rounded up to 16 bytes, for long rows to 64 elements.
 */
int64_t zt_layout_row(int64_t row, enum zt_dtype dtype);
/* Sets *step to the elements from row to row where the layout has filled rows; else leaves it. */
void zt_layout_fill(const struct zt_layout *layout, int64_t *step);
/* Compacts `stored`, a copy of the tensor on the host in its own layout: removes the elements between filled rows.
 * Returns the bytes left. */
size_t zt_layout_stored(const struct zt_view *view, void *stored);

#endif
