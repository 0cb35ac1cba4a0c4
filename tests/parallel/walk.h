/* Walks a program's commands as the executor would, but moves names instead of numbers: every four bytes of the
 * activation block hold the name of what was written there last, and whoever reads finds what it wants, or the test
 * fails. */
#ifndef ZT_TESTS_PARALLEL_WALK_H
#define ZT_TESTS_PARALLEL_WALK_H

#include "parallel/schedule/program.h"

/* Forward and, in training programs, backward of one micro-batch on one rank. */
void walk_program(const struct zt_program *program, const struct zt_flat *flat, const struct zt_sharding *sharding);

#endif
