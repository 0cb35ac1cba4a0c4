#include "run/rank/norms.h"

#include "optim/step.h"

#include <string.h>

double *zt_rank_own_norms(struct zt_rank *r) {
    int tensors = r->plan->flat->tensor_count;
    memset(r->tensor_norms, 0, 2 * (size_t)tensors * (size_t)r->data->size * sizeof *r->tensor_norms);
    return r->tensor_norms + 2 * tensors * r->data->rank;
}

bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err) {
    int tensors = r->plan->flat->tensor_count, ranks = r->data->size;
    if (!r->data->api->sum(r->data, r->tensor_norms, 2 * tensors * ranks, err))
        return false;
    union zt_coefficients c;
    r->row->prepare(u, &c);
    for (int t = 0; t < tensors; t++) {
        double norms[2] = { 0 };
        for (int k = 0; k < ranks; k++)
            for (int i = 0; i < 2; i++)
                norms[i] += r->tensor_norms[2 * (k * tensors + t) + i];
        r->ratios[t] = r->row->ratio(&c, norms);
    }
    return true;
}
