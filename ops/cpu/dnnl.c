#include "ops/cpu/dnnl.h"
#include "ops/cpu/isa.h"

#include "base/align.h"
#include "base/arena.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define V3 (DNNL_VERSION_MAJOR >= 3)

enum { MAKING_BYTES = 16 << 20 };
enum { REORDER_FROM = DNNL_ARG_FROM, REORDER_TO = DNNL_ARG_TO };

struct slot {
    int arg; /* oneDNN's number, 0: absent */
    struct zt_desc desc;
};

/* The stream and memory objects of one thread, so that threads share only the primitive. */
struct thread_state {
    dnnl_stream_t stream;
    dnnl_memory_t memory[ZT_DNNL_SLOTS], scratch;
    void *data[ZT_DNNL_SLOTS], *scratch_data; /* what the memory objects point to now */
    bool ran;
};

struct zt_dnnl {
    dnnl_engine_t engine;
    dnnl_primitive_desc_t pd, hint;
    dnnl_primitive_t primitive;
    struct slot slot[ZT_DNNL_SLOTS];
    size_t scratch_bytes;
    struct thread_state *thread_state;
    int threads;
    bool starved; /* some thread had no memory to run it; read after all are done */
};

/* ---- memory descriptors: a struct in 2.x, a handle in 3.x ---- */

typedef dnnl_memory_desc_t md;
#if V3
typedef const_dnnl_memory_desc_t md_ref;
static md_ref ref(const md *m) {
    return *m;
}
static void md_free(md *m) {
    dnnl_memory_desc_destroy(*m);
}
static bool md_strided(md *to, int rank, const int64_t *dim, dnnl_data_type_t type, const int64_t *stride) {
    return dnnl_memory_desc_create_with_strides(to, rank, dim, type, stride) == dnnl_success;
}
static bool md_tagged(md *to, int rank, const int64_t *dim, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(to, rank, dim, type, tag) == dnnl_success;
}
static bool md_copy(md *to, const void *vendor) {
    return dnnl_memory_desc_clone(to, (md_ref)vendor) == dnnl_success;
}
static bool md_part(md *to, const void *vendor, const int64_t *dim) {
    const dnnl_dims_t none = { 0 };
    return dnnl_memory_desc_create_submemory(to, (md_ref)vendor, dim, none) == dnnl_success;
}
#else
typedef const dnnl_memory_desc_t *md_ref;
static md_ref ref(const md *m) {
    return m;
}
static void md_free(md *m) {
    (void)m;
}
static bool md_strided(md *to, int rank, const int64_t *dim, dnnl_data_type_t type, const int64_t *stride) {
    return dnnl_memory_desc_init_by_strides(to, rank, dim, type, stride) == dnnl_success;
}
static bool md_tagged(md *to, int rank, const int64_t *dim, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(to, rank, dim, type, tag) == dnnl_success;
}
static bool md_copy(md *to, const void *vendor) {
    *to = *(md_ref)vendor;
    return true;
}
static bool md_part(md *to, const void *vendor, const int64_t *dim) {
    const dnnl_dims_t none = { 0 };
    return dnnl_memory_desc_init_submemory(to, (md_ref)vendor, dim, none) == dnnl_success;
}
#endif

static dnnl_data_type_t type_of(enum zt_dtype dtype) {
    return dtype == ZT_BFLOAT16 ? dnnl_bf16 : dtype == ZT_UINT8 ? dnnl_u8 : dnnl_f32;
}

static dnnl_format_tag_t blocked_tag(int rank, int block) {
    static const dnnl_format_tag_t by_16[] = { dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b };
    static const dnnl_format_tag_t by_8[] = { dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b };
    return rank < 3 || rank > 5 ? dnnl_format_tag_undef : block == 16 ? by_16[rank - 3] : by_8[rank - 3];
}

static void strides_of(const struct zt_desc *d, int64_t *stride) {
    if (d->order == ZT_DESC_STRIDED) {
        memcpy(stride, d->stride, sizeof d->stride);
        return;
    }
    int64_t step = 1;
    bool last = d->order == ZT_DESC_CHANNELS_LAST;
    if (last) {
        stride[1] = 1;
        step = d->dim[1];
    }
    for (int i = d->rank - 1; i >= 0; i--) {
        if (last && i == 1)
            continue;
        stride[i] = step;
        step *= d->dim[i];
    }
}

static bool md_make(md *to, const struct zt_desc *d) {
    dnnl_data_type_t type = type_of(d->dtype);
    if (d->rank == 0) {
        memset(to, 0, sizeof *to);
        return true;
    }
    if (d->order == ZT_DESC_ANY)
        return md_tagged(to, d->rank, d->dim, type, dnnl_format_tag_any);
    if (d->order == ZT_DESC_BLOCKED)
        return md_tagged(to, d->rank, d->dim, type, blocked_tag(d->rank, d->block));
    if (d->order == ZT_DESC_VENDOR)
        return d->part ? md_part(to, d->vendor, d->dim) : md_copy(to, d->vendor);
    int64_t stride[ZT_DESC_RANK];
    strides_of(d, stride);
    return md_strided(to, d->rank, d->dim, type, stride);
}

static bool is_order(const struct zt_desc *d, md_ref chosen) {
    md m;
    if ((d->order == ZT_DESC_BLOCKED || d->order == ZT_DESC_CHANNELS_LAST) && (d->rank < 3 || d->rank > 5))
        return false;
    if (!md_make(&m, d))
        return false;
    bool same = dnnl_memory_desc_equal(ref(&m), chosen);
    md_free(&m);
    return same;
}

/* Names the order of a descriptor that oneDNN chose for `d`. */
static void recognise(struct zt_desc *d, md_ref chosen) {
    static const struct {
        enum zt_desc_order order;
        int block;
    } known[] = { { ZT_DESC_PLAIN, 0 },
                  { ZT_DESC_BLOCKED, 16 },
                  { ZT_DESC_BLOCKED, 8 },
                  { ZT_DESC_CHANNELS_LAST, 0 },
                  { ZT_DESC_STRIDED, 0 } };
    enum { STRIDED = 4 };
    if (d->order == ZT_DESC_STRIDED)
        return;
    for (int i = d->opaque ? STRIDED : 0; i < STRIDED + d->opaque; i++) {
        d->order = known[i].order;
        d->block = known[i].block;
        if (is_order(d, chosen))
            return;
    }
    d->order = ZT_DESC_VENDOR;
    d->block = 0;
    d->vendor = chosen;
}

/* ---- primitive descriptors ---- */

struct geometry {
    dnnl_dims_t stride, dilation, pad, pad_end;
};

static struct geometry geometry_of(const struct zt_dnnl_spec *s) {
    struct geometry g = { 0 };
    for (int a = 0; a < s->axes; a++) {
        g.stride[a] = s->stride[a];
        g.dilation[a] = s->dilation[a] - 1;
        g.pad[a] = s->pad[a];
        g.pad_end[a] = s->pad_end[a];
    }
    return g;
}

#if V3
static bool append_scale(dnnl_post_ops_t ops, float scale) {
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_linear, scale, 0) == dnnl_success;
}
static bool append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef) == dnnl_success;
}

static dnnl_status_t forward(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                             dnnl_primitive_attr_t attr) {
    struct geometry g = geometry_of(s);
    return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_training, dnnl_convolution_direct, m[0],
                                                          m[1], m[2], m[3], g.stride, g.dilation, g.pad, g.pad_end,
                                                          attr);
}

static dnnl_status_t backward(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                              dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr) {
    struct geometry g = geometry_of(s);
    if (s->kind == ZT_DNNL_CONV_INPUT)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, e, dnnl_convolution_direct, m[0], m[1], m[3],
                                                                    g.stride, g.dilation, g.pad, g.pad_end, hint, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        pd, e, dnnl_convolution_direct, m[0], m[1], m[2], m[3], g.stride, g.dilation, g.pad, g.pad_end, hint, attr);
}

static dnnl_status_t product(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                             dnnl_primitive_attr_t attr) {
    (void)s;
    return dnnl_matmul_primitive_desc_create(pd, e, m[0], m[1], m[2], m[3], attr);
}
#else
static bool append_scale(dnnl_post_ops_t ops, float scale) {
    return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_linear, scale, 0) == dnnl_success;
}
static bool append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1) == dnnl_success;
}

static dnnl_status_t forward(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                             dnnl_primitive_attr_t attr) {
    struct geometry g = geometry_of(s);
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_training, dnnl_convolution_direct, &m[0], &m[1], s->slot[2].rank ? &m[2] : NULL, &m[3],
        g.stride, g.dilation, g.pad, g.pad_end);
    return status ? status : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static dnnl_status_t backward(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                              dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr) {
    struct geometry g = geometry_of(s);
    dnnl_convolution_desc_t d;
    dnnl_status_t status;
    if (s->kind == ZT_DNNL_CONV_INPUT)
        status = dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &m[0], &m[1], &m[3],
                                                                  g.stride, g.dilation, g.pad, g.pad_end);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &m[0], &m[1],
                                                                     s->slot[2].rank ? &m[2] : NULL, &m[3], g.stride,
                                                                     g.dilation, g.pad, g.pad_end);
    return status ? status : dnnl_primitive_desc_create(pd, &d, attr, e, hint);
}

static dnnl_status_t product(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct zt_dnnl_spec *s, const md *m,
                             dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t d;
    dnnl_status_t status = dnnl_matmul_desc_init(&d, &m[0], &m[1], s->slot[2].rank ? &m[2] : NULL, &m[3]);
    return status ? status : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}
#endif

/* The caller provides scratch memory; the post-ops are scale, then sum. */
static bool make_attr(dnnl_primitive_attr_t *attr, const struct zt_dnnl_spec *s) {
    dnnl_post_ops_t ops = NULL;
    if (dnnl_primitive_attr_create(attr) != dnnl_success)
        return false;
    bool ok = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user) == dnnl_success &&
              dnnl_post_ops_create(&ops) == dnnl_success;
    if (ok && s->scale != 0 && s->scale != 1)
        ok = append_scale(ops, s->scale);
    if (ok && s->add)
        ok = append_sum(ops);
    ok = ok && dnnl_primitive_attr_set_post_ops(*attr, ops) == dnnl_success;
    if (ops)
        dnnl_post_ops_destroy(ops);
    return ok;
}

static bool make_pd(struct zt_dnnl *d, const struct zt_dnnl_spec *s, const md *m, dnnl_primitive_attr_t attr) {
    if (s->kind == ZT_DNNL_REORDER)
        return dnnl_reorder_primitive_desc_create(&d->pd, ref(&m[0]), d->engine, ref(&m[1]), d->engine, attr) ==
               dnnl_success;
    if (s->kind == ZT_DNNL_MATMUL)
        return product(&d->pd, d->engine, s, m, attr) == dnnl_success;
    if (s->kind == ZT_DNNL_CONV)
        return forward(&d->pd, d->engine, s, m, attr) == dnnl_success;
    /* the forward primitive that a backward one belongs to has all its weights in the type of x */
    md plain[ZT_DNNL_SLOTS];
    struct zt_desc w = s->slot[1], b = s->slot[2];
    memcpy(plain, m, sizeof plain);
    w.dtype = b.dtype = s->slot[0].dtype;
    if (!md_make(&plain[1], &w) || !md_make(&plain[2], &b))
        return false;
    bool ok = forward(&d->hint, d->engine, s, plain, NULL) == dnnl_success &&
              backward(&d->pd, d->engine, s, m, d->hint, attr) == dnnl_success;
    for (int i = 1; i < 3; i++)
        if (s->slot[i].rank)
            md_free(&plain[i]);
    return ok;
}

/* ---- life ---- */

static const int args[][ZT_DNNL_SLOTS] = {
    [ZT_DNNL_CONV] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST },
    [ZT_DNNL_CONV_INPUT] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_DIFF_DST },
    [ZT_DNNL_CONV_WEIGHT] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST },
    [ZT_DNNL_MATMUL] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST },
    [ZT_DNNL_REORDER] = { REORDER_FROM, REORDER_TO },
};
static const char *const kind_names[] = {
    [ZT_DNNL_CONV] = "convolution",
    [ZT_DNNL_CONV_INPUT] = "convolution backward by data",
    [ZT_DNNL_CONV_WEIGHT] = "convolution backward by weights",
    [ZT_DNNL_MATMUL] = "matmul",
    [ZT_DNNL_REORDER] = "reorder",
};

static bool make_seat(struct zt_dnnl *d, struct thread_state *thread_state) {
    if (dnnl_stream_create(&thread_state->stream, d->engine, dnnl_stream_default_flags) != dnnl_success)
        return false;
    for (int i = 0; i < ZT_DNNL_SLOTS; i++)
        if (d->slot[i].arg &&
            dnnl_memory_create(&thread_state->memory[i],
                               dnnl_primitive_desc_query_md(d->pd, dnnl_query_exec_arg_md, d->slot[i].arg), d->engine,
                               DNNL_MEMORY_NONE) != dnnl_success)
            return false;
    return dnnl_memory_create(&thread_state->scratch, dnnl_primitive_desc_query_md(d->pd, dnnl_query_scratchpad_md, 0),
                              d->engine, DNNL_MEMORY_NONE) == dnnl_success;
}

/* oneDNN asks the CPU itself, once; it takes a limit before that alone. */
static void limit_isa(void) {
    static const dnnl_cpu_isa_t limits[ZT_ISAS] = { [ZT_ISA_GENERIC] = dnnl_cpu_isa_sse41,
                                                    [ZT_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                                    [ZT_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
                                                    [ZT_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16 };
    if (getenv(ZT_ISA_VARIABLE) && limits[zt_isa()])
        dnnl_set_max_cpu_isa(limits[zt_isa()]);
}

static bool make(struct zt_dnnl *d, const struct zt_dnnl_spec *spec) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    md m[ZT_DNNL_SLOTS];
    int made = 0;
    pthread_once(&once, limit_isa);
    bool ok = dnnl_engine_create(&d->engine, dnnl_cpu, 0) == dnnl_success;
    for (; ok && made < ZT_DNNL_SLOTS; made++)
        if (!(ok = md_make(&m[made], &spec->slot[made])))
            break;
    dnnl_primitive_attr_t attr = NULL;
    ok = ok && make_attr(&attr, spec) && make_pd(d, spec, m, attr) &&
         dnnl_primitive_create(&d->primitive, d->pd) == dnnl_success;
    for (int i = 0; i < made; i++)
        if (spec->slot[i].rank)
            md_free(&m[i]);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (!ok)
        return false;
    for (int i = 0; i < ZT_DNNL_SLOTS; i++) {
        d->slot[i].desc = spec->slot[i];
        if (spec->slot[i].rank == 0)
            continue;
        d->slot[i].arg = args[spec->kind][i];
        recognise(&d->slot[i].desc, dnnl_primitive_desc_query_md(d->pd, dnnl_query_exec_arg_md, d->slot[i].arg));
    }
    d->scratch_bytes =
        zt_align_64(dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(d->pd, dnnl_query_scratchpad_md, 0)));
    for (int t = 0; ok && t < d->threads; t++)
        ok = make_seat(d, &d->thread_state[t]);
    return ok;
}

bool zt_dnnl_takes(enum zt_dtype dtype) {
    return dtype == ZT_FLOAT || (dtype == ZT_BFLOAT16 && zt_isa_has(ZT_ISA_AVX512_BF16));
}

/* oneDNN's code generator writes to a NULL address if it gets no memory, so memory is checked before. */
static bool no_room(const char *doing, const char *what, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_RUN, "out of memory: less than %d MiB are left, which oneDNN may need to %s %s",
                   MAKING_BYTES >> 20, doing, what);
}

/* oneDNN has no thread count of its own: it divides a primitive by OpenMP's thread count at creation, and runs it on as
 * many threads. zt_parallel_for runs one primitive per thread, so OpenMP's count is set to 1 around creation and
 * execution and restored for the caller. */
struct zt_dnnl *zt_dnnl_create(const struct zt_dnnl_spec *spec, int threads, struct zt_err *err) {
    if (!zt_block_room(MAKING_BYTES)) {
        no_room("make a", kind_names[spec->kind], err);
        return NULL;
    }
    struct zt_dnnl *d = zt_calloc(1, sizeof *d);
    d->threads = threads > 0 ? threads : 1;
    d->thread_state = zt_calloc((size_t)d->threads, sizeof *d->thread_state);
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    bool ok = make(d, spec);
    omp_set_num_threads(before);
    if (ok)
        return d;
    zt_dnnl_destroy(d);
    zt_fail(err, ZT_EXIT_RUN, "oneDNN %d.%d has no %s of this shape", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR,
            kind_names[spec->kind]);
    return NULL;
}

void zt_dnnl_destroy(struct zt_dnnl *d) {
    if (!d)
        return;
    for (int t = 0; t < d->threads; t++) {
        for (int i = 0; i < ZT_DNNL_SLOTS; i++)
            if (d->thread_state[t].memory[i])
                dnnl_memory_destroy(d->thread_state[t].memory[i]);
        if (d->thread_state[t].scratch)
            dnnl_memory_destroy(d->thread_state[t].scratch);
        if (d->thread_state[t].stream)
            dnnl_stream_destroy(d->thread_state[t].stream);
    }
    free(d->thread_state);
    if (d->primitive)
        dnnl_primitive_destroy(d->primitive);
    if (d->pd)
        dnnl_primitive_desc_destroy(d->pd);
    if (d->hint)
        dnnl_primitive_desc_destroy(d->hint);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    free(d);
}

struct zt_desc zt_dnnl_slot(const struct zt_dnnl *d, int slot) {
    return d->slot[slot].desc;
}

bool zt_dnnl_weight_vector(const struct zt_dnnl *d, int slot, int vector) {
    const struct zt_desc *w = &d->slot[slot].desc;
    md m;
    if (w->rank != 4 || w->order != ZT_DESC_VENDOR ||
        !md_tagged(&m, 4, w->dim, dnnl_f32, vector == 16 ? dnnl_ABcd16b16a : dnnl_ABcd8b8a))
        return false;
    bool same = dnnl_memory_desc_equal(ref(&m), w->vendor);
    md_free(&m);
    return same;
}

size_t zt_dnnl_scratch_bytes(const struct zt_dnnl *d) {
    return d->scratch_bytes;
}

/* oneDNN's name of the implementation. */
static const char *name_of(const struct zt_dnnl *d) {
    const char *name = NULL;
    dnnl_primitive_desc_query(d->pd, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "";
}

/* Setting a handle may zero the padding behind it (2.x): only when it changed. */
static bool point(dnnl_memory_t memory, void **now, void *to) {
    if (*now == to)
        return true;
    *now = to;
    return dnnl_memory_set_data_handle(memory, to) == dnnl_success;
}

bool zt_dnnl_run(struct zt_dnnl *d, int thread, void *const *data, void *scratch) {
    struct thread_state *thread_state = &d->thread_state[thread];
    dnnl_exec_arg_t exec[ZT_DNNL_SLOTS + 1];
    int count = 0;
    bool ok = thread_state->ran || zt_block_room(MAKING_BYTES); /* oneDNN generates some code in the first run */
    thread_state->ran = ok;
    if (!ok)
        __atomic_store_n(&d->starved, true, __ATOMIC_RELAXED);
    for (int i = 0; ok && i < ZT_DNNL_SLOTS; i++)
        if (d->slot[i].arg) {
            ok = point(thread_state->memory[i], &thread_state->data[i], data[i]);
            exec[count++] = (dnnl_exec_arg_t){ d->slot[i].arg, thread_state->memory[i] };
        }
    if (d->scratch_bytes) {
        ok = ok && point(thread_state->scratch, &thread_state->scratch_data, scratch);
        exec[count++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, thread_state->scratch };
    }
    int before = omp_get_max_threads();
    if (before != 1)
        omp_set_num_threads(1);
    ok = ok && dnnl_primitive_execute(d->primitive, thread_state->stream, count, exec) == dnnl_success;
    if (before != 1)
        omp_set_num_threads(before);
    return ok;
}

bool zt_dnnl_starved(const struct zt_dnnl *d) {
    return d->starved;
}

bool zt_dnnl_failed(const struct zt_dnnl *d, struct zt_err *err) {
    if (d->starved)
        return no_room("run", name_of(d), err);
    return zt_fail(err, ZT_EXIT_RUN, "oneDNN failed to run %s", name_of(d));
}

/* ---- descriptions and layouts ---- */

size_t zt_desc_bytes(const struct zt_desc *desc) {
    md m;
    if (desc->rank == 0 || !md_make(&m, desc))
        return 0;
    size_t bytes = dnnl_memory_desc_get_size(ref(&m));
    md_free(&m);
    return bytes;
}

/* The vendor part of a layout is a struct zt_desc. Packed alike but from another plain order (transposed) is not the
 * same. */
static bool vendor_equal(const void *a, const void *b) {
    const struct zt_desc *x = a, *y = b;
    return memcmp(x->stride, y->stride, sizeof x->stride) == 0 && dnnl_memory_desc_equal(x->vendor, y->vendor);
}

const struct zt_layout *zt_desc_layout(struct zt_arena *arena, const struct zt_desc *desc,
                                       const struct zt_shape *shape) {
    if (desc->order == ZT_DESC_STRIDED)
        return NULL;
    if (desc->order != ZT_DESC_VENDOR)
        return zt_layout_of(arena, (enum zt_order)desc->order, desc->block, desc->dtype, shape);
    struct zt_desc *copy = zt_arena_copy(arena, desc, sizeof *desc);
#if !V3 /* there it lives as long as the primitive it came from */
    copy->vendor = zt_arena_copy(arena, desc->vendor, sizeof(dnnl_memory_desc_t));
#endif
    return zt_layout_vendor(arena, "oneDNN's packed order", zt_desc_bytes(desc), copy, vendor_equal);
}

struct zt_desc zt_desc_of(const struct zt_layout *layout, enum zt_dtype dtype, const struct zt_shape *shape) {
    struct zt_desc d = { .dtype = dtype, .rank = shape->rank };
    memcpy(d.dim, shape->dim, sizeof *d.dim * (size_t)shape->rank);
    d.order = (enum zt_desc_order)zt_layout_order(layout, &d.block);
    if (d.order == ZT_DESC_VENDOR)
        d = *(const struct zt_desc *)((const struct zt_layout_ordered *)layout->descriptor)->vendor;
    return d;
}

struct zt_desc zt_desc_any(enum zt_dtype dtype, const struct zt_shape *shape) {
    struct zt_desc d = zt_desc_of(NULL, dtype, shape);
    d.order = ZT_DESC_ANY;
    return d;
}

const char *zt_dnnl_version(void) {
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}
