/* Checkpoints of a rank on a device with memory of its own (far_device.h): what it writes is what a rank on the host
 * loads, and the other way round, and on the same device the run goes on bit for bit. */
#include "tests/gpu/far_device.h"
#include "tests/gpu/reference_case.h"
#include "tests/suite.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"

#include "device/threads.h"
#include "plan/rank_plan.h"
#include "run/rank/rank.h"
#include "run/rank_data.h"
#include "run/step.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6, HALF = 3 };

struct part {
    struct zt_device *device;
    const char *folder, *from; /* run; checkpoint, NULL: from the beginning */
    int64_t end;               /* it saves there and ends */
    double loss[STEPS];
};

static void train(struct zt_session *s, struct part *part) {
    struct zt_err err = { 0 };
    struct zt_comm *comm = zt_comm_self_create();
    struct zt_rank_options options = { .source = s->source, .device = part->device, .threads = 1 };
    struct zt_rank_plan *plan = zt_rank_plan_create(s->job, &options, &err);
    ck_assert_msg(plan != NULL, "%s", err.text[0]);
    struct zt_rank *rank = zt_rank_create(plan, part->device, comm, comm, NULL, &err);
    ck_assert_msg(rank != NULL, "%s", err.text[0]);
    struct zt_checkpoints_options saving = { .session = s,
                                             .plan = plan,
                                             .rank = rank,
                                             .world = comm,
                                             .folder = part->folder,
                                             .from = part->from,
                                             .steps = STEPS,
                                             .epochs = plan->steps.epochs };
    int64_t first = 0;
    struct zt_checkpoints *checkpoints = zt_checkpoints_open(&saving, &first, &err);
    ck_assert_msg(checkpoints != NULL && zt_checkpoints_begin(checkpoints, &err), "%s", err.text[0]);
    struct zt_loader *loader;
    ck_assert_msg(zt_rank_loader(rank, true, first, STEPS, &loader, &err), "%s", err.text[0]);
    ck_assert_int_eq(first, part->from ? HALF : 0);
    for (int64_t step = first; step < part->end; step++) {
        struct zt_step_result result;
        struct zt_step_end end = { .step = step + 1, .asked = step + 1 == part->end };
        ck_assert_msg(zt_rank_step(rank, loader, step, &result, &err), "%s", err.text[0]);
        ck_assert_msg(zt_checkpoints_step(checkpoints, &end, &err), "%s", err.text[0]);
        part->loss[step] = result.loss;
    }
    zt_loader_destroy(loader);
    zt_checkpoints_close(checkpoints);
    zt_rank_destroy(rank);
    zt_rank_plan_destroy(plan);
    comm->api->destroy(comm);
    part->device->api->destroy(part->device);
}

static bool same_file(const char *a, const char *b) {
    struct zt_file_map x, y;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_file_map(&x, a, ZT_EXIT_DATA, &err) && zt_file_map(&y, b, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    zt_file_unmap(&x);
    zt_file_unmap(&y);
    return same;
}

static const char *const cases[] = { "mlp-wine-sklearn", "convnet-dynamo", "gpt-tiny-dynamo", "resnet-bn-train" };

START_TEST(a_checkpoint_is_the_same_wherever_the_memory_is) {
    char folder[] = "/tmp/ztrain-checkpoint-XXXXXX", path[4][128];
    const char *const set[] = { "ztrain.checkpoint.every_epochs=0", "optimizer={\"type\": \"AdamW\"}" };
    struct reference_case opened;
    struct zt_session *s = &opened.session;
    struct zt_err err = { 0 };
    open_reference_case(&opened, cases[_i], STEPS, set, 2);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    static const char *const names[] = { "half", "far", "near", "half/checkpoints/step-3" };
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    struct part whole = { far_device_create(), path[1], NULL, STEPS, { 0 } };
    struct part half = { far_device_create(), path[0], NULL, HALF, { 0 } };
    train(s, &whole);
    train(s, &half);
    struct part far = { far_device_create(), path[0], path[3], STEPS, { 0 } };
    struct part near = { zt_device_host_create(1), path[2], path[3], STEPS, { 0 } };
    train(s, &far);
    train(s, &near);
    for (int i = HALF; i < STEPS; i++) {
        ck_assert_msg(far.loss[i] == whole.loss[i], "%s: loss %d: %.9g, wants %.9g", cases[_i], i, far.loss[i],
                      whole.loss[i]);
        ck_assert_msg(fabs(near.loss[i] - far.loss[i]) <= 2e-4 * fabs(far.loss[i]),
                      "%s: loss %d: %.9g on the host, %.9g away", cases[_i], i, near.loss[i], far.loss[i]);
    }
    static const char *const files[] = { "weights.safetensors", "optimizer.safetensors", "manifest.json" };
    for (int i = 0; i < 3; i++) {
        char a[256], b[256];
        snprintf(a, sizeof a, "%s/checkpoints/step-6/%s", path[0], files[i]);
        snprintf(b, sizeof b, "%s/checkpoints/step-6/%s", path[1], files[i]);
        ck_assert_msg(same_file(a, b), "%s: %s", cases[_i], files[i]);
    }
    ck_assert_msg(zt_checkpoint_verify(path[3], stdout, &err), "%s", err.text[0]);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    zt_open_finish(s);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("checkpoints away");
    tcase_add_loop_test(test, a_checkpoint_is_the_same_wherever_the_memory_is, 0, (int)(sizeof cases / sizeof *cases));
    return run_suite("checkpoints away", test, CK_NOFORK);
}
