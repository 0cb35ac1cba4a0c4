/* Shared by the files of the optimizers: the macros of their key rows, the compilation of update loops for several
 * instruction sets, and access to coefficients.
 *
 * A loop marked ZT_CLONES is compiled for plain x86-64, AVX2 and AVX-512; the dynamic linker chooses the widest that
 * the CPU has. Such a loop uses +, -, *, / and sqrt of IEEE 754 alone, each rounded correctly and never contracted to
 * an FMA (-ffp-contract=off), so the clones give the same bits. On other machines the loop is compiled once. */
#ifndef ZT_OPTIM_ROW_H
#define ZT_OPTIM_ROW_H

#include "config/shared_optimizer_keys.h"
#include "optim/optim.h"
#include "optim/step.h"

#if defined(__SANITIZE_THREAD__)
#define ZT_ONE_CLONE /* the resolvers run before ThreadSanitizer is ready */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ZT_ONE_CLONE
#endif
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && !defined(ZT_ONE_CLONE)
#if __has_attribute(target_clones)
#define ZT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#endif
#endif
#ifndef ZT_CLONES
#define ZT_CLONES
#endif

/* The place of a key's value in the optimizer's own struct. */
#define OWN(params, field) PLACE(ZT_IN_OPTIMIZER, params, field)

/* Copies an optimizer's struct of coefficients into the union. A macro, since
 * the build checks size and first member. */
#define ZT_STORE_COEFFICIENTS(to, c)                                                                                   \
    do {                                                                                                               \
        _Static_assert(offsetof(__typeof__(c), scale) == 0, "scale comes first");                                      \
        _Static_assert(sizeof(c) <= sizeof(union zt_coefficients), "the room for coefficients is too small");          \
        memcpy((to), &(c), sizeof(c));                                                                                 \
    } while (0)
/* The struct of coefficients back from the union. */
#define ZT_COEFFICIENTS(type, from) (*(type *)memcpy(&(type){ 0 }, (from), sizeof(type)))

#endif
