/* ZT_CLONES: compilation of a loop for several instruction sets.
 *
 * A loop marked ZT_CLONES is compiled for plain x86-64, AVX2 and AVX-512; the dynamic linker chooses the widest that
 * the CPU has. Such a loop uses integer operations and +, -, *, / and sqrt of IEEE 754 alone, each rounded correctly
 * and never contracted to an FMA (-ffp-contract=off), so the clones give the same bits. On other machines the loop is
 * compiled once. The loop is static, and yet its name must be unique in the program (tests/clones.py): clang gives its
 * resolver external linkage.
 *
 * ZT_FMA_CLONES: the same for a loop whose products are fmaf(), which without FMA is a call of the C library. */
#ifndef ZT_BASE_CLONES_H
#define ZT_BASE_CLONES_H

#include <stdint.h> /* defines __GLIBC__ */

#if defined(__SANITIZE_THREAD__)
#define ZT_ONE_CLONE /* the resolvers run before ThreadSanitizer is ready */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ZT_ONE_CLONE
#endif
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && !defined(ZT_ONE_CLONE)
#if __has_attribute(target_clones)
#define ZT_CLONES     __attribute__((target_clones("default", "avx2", "avx512f")))
#define ZT_FMA_CLONES __attribute__((target_clones("default", "fma", "avx512f")))
#endif
#endif
#ifndef ZT_CLONES
#define ZT_CLONES
#define ZT_FMA_CLONES
#endif

#endif
