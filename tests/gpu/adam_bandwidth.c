/* Memory bandwidth of the module's Adam: a tool, no test, since it is about time.
 *
 *     adam_bandwidth FOLDER [ELEMENTS [UPDATES]]
 *
 * FOLDER holds ztrain-cuda.so. One update of ELEMENTS weights (124 million, those of GPT-2) in pieces as training makes
 * them reads weight, gradient and two moments and writes all but the gradient: 28 bytes a weight. Prints
 * {"elements": N, "ms": median of an update, "gb_per_s": ...}. */
#include "base/clock.h"
#include "base/sort.h"
#include "device/module.h"
#include "optim/types/types.h"
#include "optim/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = ZT_STEP_PART * ZT_STEP_PARTS, ROUNDS = 9, BYTES_A_WEIGHT = 28 };

struct job {
    struct zt_device *device;
    struct zt_step_call call;
    float *memory[4]; /* weights, gradients, moments */
    int64_t elements;
};

/* A copy of data[0..bytes) on the device. */
static void *place(struct zt_device *d, const void *data, size_t bytes, struct zt_err *err) {
    void *to = d->api->allocate(d, bytes, "step", err);
    return to && d->api->to_device(d, to, data, bytes, err) && d->api->synchronize(d, err) ? to : NULL;
}

static bool set_up(struct job *j, struct zt_err *err) {
    const struct zt_step_state state = { .loss_scale = 1, .scale = 1, .finite = 1 };
    const struct zt_optimizer *adam = zt_optimizers[ZT_OPTIMIZER_adam];
    struct zt_optimizer_config c = { .params = calloc(1, adam->type.bytes) };
    const struct zt_update update = {
        .config = &c, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .step = 1, .grad_scale = 1
    };
    union zt_coefficients row;
    adam->prepare(&update, &row);
    free(c.params);
    int count = (int)((j->elements + PIECE - 1) / PIECE);
    struct zt_step_piece *pieces = calloc((size_t)count, sizeof *pieces);
    bool ok = pieces != NULL;
    for (int i = 0; i < 4 && ok; i++)
        ok = (j->memory[i] = j->device->api->allocate(j->device, (size_t)j->elements * sizeof(float), "Adam", err));
    for (int k = 0; k < count && ok; k++) {
        int64_t at = (int64_t)k * PIECE;
        pieces[k] = (struct zt_step_piece){ .param = j->memory[0] + at,
                                            .grad = j->memory[1] + at,
                                            .state = { j->memory[2] + at, j->memory[3] + at },
                                            .count = j->elements - at < PIECE ? j->elements - at : PIECE };
    }
    if (ok)
        j->call = (struct zt_step_call){ .state = place(j->device, &state, sizeof state, err),
                                         .table = place(j->device, &row, sizeof row, err),
                                         .pieces = place(j->device, pieces, (size_t)count * sizeof *pieces, err),
                                         .groups = 1,
                                         .piece_count = count };
    free(pieces);
    return ok && j->call.state && j->call.table && j->call.pieces;
}

static bool measure(struct job *j, int updates, double *seconds, struct zt_err *err) {
    double rounds[ROUNDS];
    for (int r = -1; r < ROUNDS; r++) { /* the first is not counted */
        double began = zt_now();
        for (int i = 0; i < updates; i++)
            if (!j->device->module->update(j->device, ZT_OPTIMIZER_adam, &j->call, err))
                return false;
        if (!j->device->api->synchronize(j->device, err))
            return false;
        if (r >= 0)
            rounds[r] = (zt_now() - began) / updates;
    }
    zt_sort_doubles(rounds, ROUNDS);
    *seconds = rounds[ROUNDS / 2];
    return true;
}

int main(int argc, char **argv) {
    struct zt_err err = { 0 };
    struct job j = { .elements = argc > 2 ? atoll(argv[2]) : 124439808 };
    int updates = argc > 3 ? atoi(argv[3]) : 20;
    double seconds = 0;
    if (argc < 2 || j.elements < 1 || j.elements > INT64_C(1) << 33 || updates < 1) {
        fprintf(stderr, "usage: adam_bandwidth FOLDER [ELEMENTS [UPDATES]]\n");
        return 2;
    }
    j.device = zt_module_device(argv[1], 0, 1, &err);
    if (!j.device || !set_up(&j, &err) || !measure(&j, updates, &seconds, &err)) {
        zt_err_print(&err, stderr);
        return 1;
    }
    double bytes = (double)j.elements * BYTES_A_WEIGHT;
    printf("{\"elements\": %lld, \"ms\": %.4f, \"gb_per_s\": %.1f}\n", (long long)j.elements, seconds * 1e3,
           bytes / seconds * 1e-9);
    j.device->api->destroy(j.device);
    return 0;
}
