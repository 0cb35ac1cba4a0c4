/* Checks the memory plan of a program. It executes the commands on a shadow of the activation block, in which every
 * four bytes hold the name of the value written last. A command that reads another name fails the test. */
#ifndef ZT_TESTS_PARALLEL_MEMORY_CHECK_H
#define ZT_TESTS_PARALLEL_MEMORY_CHECK_H

#include "parallel/schedule/program.h"

/* Checks one micro-batch on one rank: forward and, in training programs, backward. */
void check_program_memory(const struct zt_program *program, const struct zt_flat *flat,
                          const struct zt_sharding *sharding);

#endif
