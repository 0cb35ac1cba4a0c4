/* Notes and inputs that the files of a job add to the training graph. */
#ifndef ZT_PLAN_JOB_TRAINING_GRAPH_H
#define ZT_PLAN_JOB_TRAINING_GRAPH_H

#include "plan/job/job.h"

/* Adds a note, a line for the user. */
void zt_job_note(struct zt_training_graph *training_graph, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a graph input that the loader fills; returns its value id. */
int zt_job_add_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);

#endif
