/* Exchanges of data-parallel ranks between the gradients and the update: norms of tensors whose slices belong to
 * several ranks (Lamb), tensors that are updated as matrices (Muon), and the mean of 1-bit optimizers
 * (optim/one_bit.h). */
#ifndef ZT_RUN_RANK_BEFORE_UPDATE_H
#define ZT_RUN_RANK_BEFORE_UPDATE_H

#include "run/rank/blocks.h"

/* `u` with learning rate and weight decay of the tensor's group, as the optimizer's coefficients. */
union zt_coefficients zt_rank_coefficients(const struct zt_rank *r, const struct zt_update *u, int tensor);

/* Each data-parallel rank writes the norms of its slices of every tensor, [tensor][2], to the memory that
 * zt_rank_own_norms() returns; the other ranks' parts are 0. zt_rank_share_norms() adds the norms in rank order
 * (collective) and sets r->ratios with the optimizer's function. */
double *zt_rank_own_norms(struct zt_rank *r);
bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err);

/* Lists the matrices that this rank updates or helps to gather: r->matrices. Those that several ranks have slices of
 * come first, so that no rank waits for another one's own matrices. */
void zt_rank_list_matrices(struct zt_rank *r);
/* Brings the slices of all ranks together in m->direction. Does nothing where the rank has the whole matrix. */
bool zt_rank_gather_matrix(struct zt_rank *r, const struct zt_rank_matrix *m, struct zt_err *err);
/* On the host: the update of the whole matrix from m->direction, in r->matrix_space. */
float *zt_rank_orthogonalise(struct zt_rank *r, const struct zt_rank_matrix *m);

/* Sets up the compression and what is remembered of tensors, in the rank's optimizer block. */
bool zt_rank_one_bit_create(struct zt_rank *r, struct zt_err *err);
/* Called before a step: sets r->sharing. Other optimizers always have reduced gradients. */
void zt_rank_one_bit_begin(struct zt_rank *r);
/* The squared norm of the step's gradient, from the sums in r->scalars. Where gradients are not reduced it is that of
 * this rank's gradient, which is finite where those of all ranks are; a rank's gradient counts `ranks` times, since it
 * is a part of the mean. */
double zt_rank_squares(const struct zt_rank *r);
/* The sum of a group's learning rates (optim.h) that update `update` (from 1 on) reads. Of a rule that follows a value,
 * the rates of earlier updates are those that zt_rank_lr_applied() has counted: once after every update, in order,
 * before the rate changes. */
double zt_rank_lr_sum(const struct zt_rank *r, int group, int64_t update);
void zt_rank_lr_applied(struct zt_rank *r);
/* Averages the packed gradients over ranks, in a step whose r->sharing says so; else does nothing. Collective. */
bool zt_rank_one_bit_average(struct zt_rank *r, struct zt_err *err);
/* On the host, everything before update(): packs, averages, and finds trust ratios. */
bool zt_rank_one_bit_prepare(struct zt_rank *r, const struct zt_update *u, struct zt_err *err);

#endif
