/* A node's normalisation, or its gradient, computed by cuDNN (norm_dnn.h). Part of the CUDA module. */
#ifndef ZT_OPS_NORM_NORM_PLAN_CUDA_H
#define ZT_OPS_NORM_NORM_PLAN_CUDA_H

#include "ops/cuda/dnn_places_cuda.h"
#include "ops/norm/norm_dnn.h"

enum { ZT_NORM_PLACES = 8 };

struct zt_norm_plan {
    const struct zt_dnn *dnn; /* NULL: it is left to our own kernels */
    struct zt_dnn_place place[ZT_NORM_PLACES];
    int places;
    bool makes_mean, makes_inv_std;
    size_t mean_at, inv_std_at, scratch_at; /* workspace [ statistics that no output asks for | copies | cuDNN's ] */
};

/* Places of the tensors of NormGrad, BatchNormGrad and BatchNormReluGrad. */
extern const struct zt_dnn_place zt_norm_grad_places[ZT_NORM_PLACES];
#define zt_norm_grad_misfit "the gradients asked for are not those that cuDNN computes together"
/* Whether the node has the inputs and outputs of cuDNN's operation and no gradients of the statistics; `centred`: the
 * normalisation subtracts the mean, so that there are a mean and a dbias. False: zt_norm_grad_misfit is the reason. */
bool zt_norm_grad_fits(const struct zt_prepare *q, bool centred);

/* Sets the dtypes of *n from the places of ZT_NORM_X and ZT_NORM_SCALE, and the node's path. Sets its workspace where
 * cuDNN has an engine. */
void zt_norm_plan(struct zt_prepare *q, struct zt_norm_dnn *n, const struct zt_dnn_place *places, int count,
                  struct zt_norm_plan *to);
/* data: addresses of ZT_DNN_TENSORS tensors, NULL but the epsilon of a forward pass; filled in here. */
bool zt_norm_plan_run(const struct zt_call *call, const struct zt_norm_plan *plan, void **data, struct zt_err *err);

#endif
