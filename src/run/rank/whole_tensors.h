/* What an update needs of whole tensors whose slices belong to several ranks: trust ratios of tensors (Lamb), and
 * tensors that are updated as matrices (Muon). */
#ifndef ZT_RUN_RANK_WHOLE_TENSORS_H
#define ZT_RUN_RANK_WHOLE_TENSORS_H

#include "run/rank/blocks.h"

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
/* On the host: the update of the whole matrix from m->direction, in the rank's workspace. */
float *zt_rank_orthogonalise(struct zt_rank *r, const struct zt_rank_matrix *m);

#endif
