/* Orders in which the elements of a tensor with channels (dim[1]) lie, other than plain row-major: what the layouts of
 * all back ends are made of.
 *
 * Blocked ("nChw16c"): channels in blocks of 16 (or 8), the channel within its block innermost: [N][C/16][spatial][16], padded
 * with zero channels to a full block. Channels last ("nhwc"): [N][spatial][C]. In both a sample is contiguous, so a
 * block of the batch is a range of bytes. A vendor's own layouts (packed weights) are opaque, see dnnl.h.
 *
 * Filled rows, of matrices: from row to row there are more elements than a row has. Nobody reads those between. */
#ifndef ZT_OPS_KERNEL_LAYOUT_H
#define ZT_OPS_KERNEL_LAYOUT_H

#include "graph/ir/op.h"

enum zt_order { ZT_ORDER_PLAIN, ZT_ORDER_BLOCKED, ZT_ORDER_CHANNELS_LAST, ZT_ORDER_FILLED_ROWS, ZT_ORDER_VENDOR };

/* What the descriptor of a layout points to. Two layouts of one value are equal when order and block are, and for
 * vendor's layouts when vendor_equal says so. */
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
/* How far apart rows of so many elements should begin, so that tensor cores read them at full rate and cuBLASLt's
 * epilogues take them: at multiples of 16 bytes, of 64 elements where rows are long. A row that ends there stays. */
int64_t zt_layout_row(int64_t row, enum zt_dtype dtype);
/* Where the layout has filled rows, *step becomes the number of elements from row to row. */
void zt_layout_fill(const struct zt_layout *layout, int64_t *step);
/* The bytes that a tensor takes where `stored`, on the host, is a copy of it as it lies: filled rows move together,
 * so that what nobody wrote is gone. */
size_t zt_layout_stored(const struct zt_view *view, void *stored);

#endif
