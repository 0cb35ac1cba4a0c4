#include "ops/kernel/axis_slices.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <math.h>

void zt_row_load(const struct zt_axis_slice *l, int64_t at, int64_t count, double *to) {
    zt_load_block(l->view->dtype, l->view->data, l->start + at * l->stride, l->stride, count, to);
}

void zt_row_store(const struct zt_axis_slice *l, int64_t at, int64_t count, const double *from) {
    zt_store_block(l->view->dtype, l->view->data, l->start + at * l->stride, l->stride, count, from);
}

double zt_row_max(const struct zt_axis_slice *l, int64_t *place) {
    double block[ZT_ELEMENT_BLOCK], max = -INFINITY;
    *place = 0;
    ZT_EACH_BLOCK(l->length, at, count) {
        zt_row_load(l, at, count, block);
        for (int64_t i = 0; i < count; i++)
            if (block[i] > max || (isnan(block[i]) && !isnan(max))) {
                max = block[i];
                *place = at + i;
            }
    }
    return max;
}

double zt_row_sum_exp(const struct zt_axis_slice *l, double shift) {
    double block[ZT_ELEMENT_BLOCK], sum = 0;
    ZT_EACH_BLOCK(l->length, at, count) {
        zt_row_load(l, at, count, block);
        for (int64_t i = 0; i < count; i++)
            sum += exp(block[i] - shift);
    }
    return sum;
}
