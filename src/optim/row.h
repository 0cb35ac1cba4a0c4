/* What the files of this room share: the rows of the table, and how an update loop is compiled.
 *
 * A loop marked ZT_CLONES is compiled for plain x86-64, AVX2 and AVX-512 and the dynamic linker takes the widest the
 * CPU has. Only +, -, *, / and sqrt of IEEE 754 occur in such loops, each correctly rounded and never contracted to an
 * FMA
 * (-ffp-contract=off), so the clones give the same bits. Elsewhere the loop is compiled once. */
#ifndef ZT_OPTIM_ROW_H
#define ZT_OPTIM_ROW_H

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

extern const struct zt_optimizer zt_optimizer_sgd;
extern const struct zt_optimizer zt_optimizer_adam, zt_optimizer_adamw;
extern const struct zt_optimizer zt_optimizer_lamb;
extern const struct zt_optimizer zt_optimizer_lion;
extern const struct zt_optimizer zt_optimizer_adagrad;

#endif
