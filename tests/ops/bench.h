/* Times a case as a training run would run it. */
#ifndef ZT_TESTS_OPS_BENCH_H
#define ZT_TESTS_OPS_BENCH_H

#include "tests/ops/machine.h"

/* One measurement, text or a line of JSON: the forward nodes and, where the case has gradients, the backward nodes of
 * the graph that training would build for it (training form, zt_grad_build from a cotangent of each output, kernels
 * assigned; with options.bf16 after the cast pass). Each time is the median of the runs that fit in `budget` seconds.
 *
 * Timed: every node, with the reorders between layouts that it needs. Not timed: views, which share memory, and nodes
 * that depend on constants alone, which a run does not execute in every step. Activations and cotangents of image cases
 * lie as a convolution of their shape leaves them; nothing is brought back into plain order but gradients of
 * parameters. */
struct bench;
struct bench *bench_open(const struct zt_case *c, const struct options *o, struct zt_err *err); /* NULL on failure */
bool bench_print(struct bench *b, int number, double budget, struct zt_err *err);
void bench_close(struct bench *b);

/* The case itself as the members of a JSON object, without braces. */
void bench_print_case(const struct zt_case *c, int number);

#endif
