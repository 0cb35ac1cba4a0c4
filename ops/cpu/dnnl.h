/* The interface to oneDNN: dnnl.c alone knows its versions (2.6 and 3.x) and its C API.
 *
 * A zt_dnnl is one primitive for one thread and one fixed shape. Up to `threads` threads may run it at the same time on
 * different blocks of a batch, so results are the same at any thread count. The caller provides scratch memory; a run
 * allocates nothing. */
#ifndef ZT_OPS_CPU_DNNL_H
#define ZT_OPS_CPU_DNNL_H

#include "ops/cpu/blocked_layout.h"

/* A tensor as a primitive sees it. Channels are dim[1], so plain, blocked and channels-last are as in layout.h;
 * STRIDED is any order of a matrix; ANY lets the primitive choose. */
enum zt_desc_order {
    ZT_DESC_PLAIN = ZT_ORDER_PLAIN,
    ZT_DESC_BLOCKED = ZT_ORDER_BLOCKED,
    ZT_DESC_CHANNELS_LAST = ZT_ORDER_CHANNELS_LAST,
    ZT_DESC_VENDOR = ZT_ORDER_VENDOR,
    ZT_DESC_STRIDED,
    ZT_DESC_ANY
};
enum { ZT_DESC_RANK = 12 }; /* what oneDNN reads of an array of dims */
struct zt_desc {
    enum zt_dtype dtype; /* float, bfloat16, uint8 */
    int rank;            /* 0: the argument is not there */
    int64_t dim[ZT_DESC_RANK];
    enum zt_desc_order order;
    int block;
    int64_t stride[ZT_DESC_RANK];
    const void *vendor; /* ZT_DESC_VENDOR: oneDNN's descriptor, borrowed from the primitive or layout it came from */
    bool part;          /* of it, from index 0 of each axis on, as long as `dim` says */
    bool opaque;        /* a weight: either it lies in the graph's plain order, which is `stride`, or it is packed */
};

struct zt_dnnl;
enum { ZT_DNNL_SLOTS = 5 };

struct zt_dnnl_spec {
    enum { ZT_DNNL_CONV, ZT_DNNL_CONV_INPUT, ZT_DNNL_CONV_WEIGHT, ZT_DNNL_MATMUL, ZT_DNNL_REORDER } kind;
    /* Arguments in the order of the data at run:
     *     CONV           x, w, b, y          CONV_INPUT    dx, w, (none), dy          CONV_WEIGHT   x, dw, db, dy
     *     MATMUL         a, b, bias, y       REORDER       from, to
     * Convolution weights of several groups are [groups, m / groups, c / groups, kernel]. */
    struct zt_desc slot[ZT_DNNL_SLOTS];
    int axes; /* spatial; dilation 1 is dense */
    int64_t stride[3], dilation[3], pad[3], pad_end[3];
    bool add;    /* y += result */
    float scale; /* MATMUL: of a b; 0 means 1 */
};

/* Whether products of this type are fast on this machine: float everywhere, bfloat16 where there are instructions for
 * it. */
bool zt_dnnl_takes(enum zt_dtype dtype);

/* "2.6.3", of the library at run time. Static text. */
const char *zt_dnnl_version(void);

/* Creates a primitive; NULL and an error that names the kind where oneDNN has no such primitive. */
struct zt_dnnl *zt_dnnl_create(const struct zt_dnnl_spec *spec, int threads, struct zt_err *err);
void zt_dnnl_destroy(struct zt_dnnl *d); /* NULL is harmless */
/* The layout that the primitive chose for an argument: never ANY. Vendor descriptors live as long as the primitive. */
struct zt_desc zt_dnnl_slot(const struct zt_dnnl *d, int slot);
/* Whether a weight [m, c, kernel, kernel] lies as [m / vector][c / vector][kernel][kernel][channel of c][channel of m].
 */
bool zt_dnnl_weight_vector(const struct zt_dnnl *d, int slot, int vector);
size_t zt_dnnl_scratch_bytes(const struct zt_dnnl *d); /* for each thread, a multiple of 64 */
/* Runs on the calling thread, whose index in its team is `thread` < threads; data[i] belongs to slot i (ignored where
 * it is not there). */
bool zt_dnnl_run(struct zt_dnnl *d, int thread, void *const *data, void *scratch);
/* Writes the error of a failed zt_dnnl_run(); returns false. */
bool zt_dnnl_failed(const struct zt_dnnl *d, struct zt_err *err);
/* Whether a run failed for want of memory. */
bool zt_dnnl_starved(const struct zt_dnnl *d);

/* Bytes of a tensor in this layout, with its padding. */
size_t zt_desc_bytes(const struct zt_desc *desc);
/* A description as a layout for the graph, for a tensor of `shape` (the batch may differ from the description's); NULL
 * where plain. */
const struct zt_layout *zt_desc_layout(struct zt_arena *arena, const struct zt_desc *desc,
                                       const struct zt_shape *shape);
/* A layout as a description. A vendor's layout has the dims of its own descriptor, which may split the axes of `shape`
 * (groups). */
struct zt_desc zt_desc_of(const struct zt_layout *layout, enum zt_dtype dtype, const struct zt_shape *shape);
struct zt_desc zt_desc_any(enum zt_dtype dtype, const struct zt_shape *shape);

#endif
