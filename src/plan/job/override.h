/* Initial contents of parameters that replace those of the model file (--load). */
#ifndef ZT_PLAN_JOB_OVERRIDE_H
#define ZT_PLAN_JOB_OVERRIDE_H

#include "plan/job/job.h"

struct zt_override {
    const char *name;
    const void *data;      /* in the type that the model file stores */
    const float *as_float; /* the same before conversion to that type */
    int64_t elements;
    bool frozen; /* neither trained nor updated: a checkpoint does not hold it */
};

/* Whether an initializer of that graph is a parameter, trained or frozen, or a running statistic. Sets by value of a
 * whole graph; free with free(). */
bool *zt_job_holds(const struct zt_graph *g);

/* Replaces the contents of an initializer of zt_job_parameters(). Must be called before training graphs are built.
 * `from` outlives the job. */
void zt_job_override(struct zt_job *job, const struct zt_value *v, const float *from);
/* The same for factor `which` of an adapter. */
void zt_job_override_factor(struct zt_adapter *adapter, int which, const float *from);
/* Gives the initializers of a graph their replaced contents. */
void zt_job_apply_overrides(const struct zt_job *job, struct zt_graph *g);
/* Checksum of the frozen contents; 0 where there are none. */
uint32_t zt_job_frozen_checksum(const struct zt_job *job);

#endif
