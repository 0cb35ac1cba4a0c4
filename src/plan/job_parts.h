/* Inside a job: shared by job.c (from the file's graph to the joint one) and job_loss.c (its end: output, target,
 * weights, loss), job_tie.c and job_float.c. */
#ifndef ZT_PLAN_JOB_PARTS_H
#define ZT_PLAN_JOB_PARTS_H

#include "plan/job.h"

/* Which output the loss reads, and the names of the columns beside it. */
bool zt_job_find_loss(struct zt_job *job, struct zt_err *err);
/* Adds the wants of target and weight, behind those of the inputs. `logits`: the output, its shape as far as known. */
void zt_job_want_target(struct zt_job *job, const struct zt_value *logits);
/* Appends the loss on value `root` and what evaluation counts, or takes the graph's own scalar. */
bool zt_job_add_loss(const struct zt_job *job, const struct zt_source *source, const struct zt_joint_request *request,
                     struct zt_joint *joint, int root, struct zt_err *err);
/* Decides what trains, once, from a graph with the exporter's verdicts, and settles it there: undoes what was computed
 * from parameters, ties, and reads ztrain.trainable and freeze. Names that fit nothing are errors. Fills the findings.
 */
bool zt_job_find_parameters(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Marks the look-ups of ztrain.padding_idx in a graph whose parameters are settled; all that do not fit are errors. */
bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Fills job->unmatched from the graph in which the parameters are settled. */
void zt_job_find_unmatched(struct zt_job *job, const struct zt_graph *g);
/* Whether ztrain.trainable has the very name: a glob chooses among what the verdicts train. */
bool zt_job_is_asked_for(const struct zt_config *c, const char *name);
/* Fills job->findings from the graph in which the parameters are settled. */
void zt_job_find_findings(struct zt_job *job, const struct zt_graph *g);
/* The same decisions in another graph of the job. */
bool zt_job_settle_parameters(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Reads ztrain.tie against a graph with verdicts; every group that does not fit is an error. Adds the copies that the
 * exporter left, unless ztrain.tie_equal is off. */
bool zt_job_find_ties(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Makes one parameter of each group. */
bool zt_job_apply_ties(const struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* A line for every one whose initial values are given up. */
void zt_job_note_ties(const struct zt_job *job, struct zt_joint *joint);
/* Which types are computed in float, and the weights of these as float. `used` by value: some node reads it. */
void zt_job_find_floats(struct zt_job *job, const struct zt_graph *g, const bool *used, int root);
/* The type a value of the file's graph has in the joint one. */
enum zt_dtype zt_job_type(const struct zt_job *job, enum zt_dtype stored);
/* Makes them so; *root is the logits. */
bool zt_job_to_float(const struct zt_job *job, struct zt_joint *joint, int *root, struct zt_err *err);
/* A line for the user. */
void zt_job_note(struct zt_joint *joint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A value that is fed. */
int zt_job_add_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape);

#endif
