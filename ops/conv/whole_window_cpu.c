#include "ops/conv/whole_window_cpu.h"

#include <string.h>

static bool is_whole(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    for (int a = 0; a < w->axes; a++)
        if (w->out[a] != 1 || w->pad[a] != 0 || w->dilation[a] != 1 || w->in[a] != w->kernel[a])
            return false;
    return c->groups == 1;
}

bool zt_whole_window_product(const struct zt_conv *c, enum zt_conv_direction direction, struct zt_simd_gemm *to) {
    const int64_t row = c->c * c->window.kernel_elems;
    if (!is_whole(c) || !zt_simd_gemm_best())
        return false;
    *to = (struct zt_simd_gemm){ .count = 1, .alpha = 1, .beta = 1, .bias_col = 1 };
    if (direction == ZT_CONV_TO_Y) {
        to->m = c->n, to->n = c->m, to->k = row;
        to->a_row = row, to->a_col = 1, to->b_row = 1, to->b_col = row;
    } else if (direction == ZT_CONV_TO_X) {
        to->m = c->n, to->n = row, to->k = c->m;
        to->a_row = c->m, to->a_col = 1, to->b_row = row, to->b_col = 1;
    } else {
        to->m = c->m, to->n = row, to->k = c->n;
        to->a_row = 1, to->a_col = c->m, to->b_row = row, to->b_col = 1;
    }
    to->y_row = to->n;
    return true;
}

size_t zt_whole_window_bytes(const struct zt_simd_gemm *product, int threads) {
    return zt_simd_gemm_bytes(zt_simd_gemm_best(), product, threads);
}

static void sum_bias(const float *dy, int64_t samples, int64_t m, float *db) {
    memset(db, 0, (size_t)m * sizeof *db);
    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < m; i++)
            db[i] += dy[n * m + i];
}

void zt_whole_window_run(const struct zt_simd_gemm *product, enum zt_conv_direction direction,
                         const struct zt_whole_window_data *data, void *workspace, int threads) {
    struct zt_simd_gemm g = *product;
    struct zt_simd_gemm_operands of = { data->x, data->w, data->bias, data->y, NULL };
    if (direction == ZT_CONV_TO_X)
        of = (struct zt_simd_gemm_operands){ data->y, data->w, NULL, data->x, NULL };
    else if (direction == ZT_CONV_TO_W)
        of = (struct zt_simd_gemm_operands){ data->y, data->x, NULL, data->w, NULL };
    g.add = data->accumulate;
    if (of.y)
        zt_simd_gemm_run(zt_simd_gemm_best(), &g, &of, workspace, threads);
    if (data->bias && direction == ZT_CONV_TO_X)
        zt_conv_add_bias(ZT_FLOAT, data->x_planes, data->x_planes->samples, data->bias, data->x);
    if (data->db)
        sum_bias(data->y, g.k, g.m, data->db);
}
