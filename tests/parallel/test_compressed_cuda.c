/* The kernels of the compressed all-reduce, emulated, against the loops of the host: bit for bit, also the errors and
 * the messages, with any number of threads. */
#include "parallel/comm/compressed.h"
#include "parallel/comm/compressed_cpu.h"
#include "parallel/comm/compressed_cuda.h"
#include "tests/suite.h"

#include "base/arena.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4, COUNT = 3 * ZT_COMPRESSED_BLOCK + 811, CALLS = 3 };
static const int64_t bounds[PARTS + 1] = { 0, 3, 300, 3 * ZT_COMPRESSED_BLOCK, COUNT };

struct side {
    struct zt_compressed_call call;
    struct zt_device *device;
    char *memory;
};

static struct side make(struct zt_arena *arena, const struct zt_compressed *l, int threads) {
    struct zt_err err = { 0 };
    struct side s = { .call = { .rank = l->ranks - 1, .x = ZT_NEW_N(arena, float, COUNT) } };
    for (int i = 0; i < ZT_COMPRESSED_SIDES; i++)
        s.call.error[i] = ZT_NEW_N(arena, float, l->errors[i]);
    s.memory = zt_arena_alloc(arena, (size_t)zt_compressed_bytes(l));
    memset(s.memory, 0, (size_t)zt_compressed_bytes(l));
    s.device = zt_device_host_create(threads);
    ck_assert(zt_compressed_place(l, s.device, s.memory, &s.call, &err));
    return s;
}

static void expect_same(const struct side *a, const struct side *b, const char *what) {
    const struct zt_compressed *l = &a->call.layout;
    const size_t messages = (size_t)(l->ranks * l->message_bytes);
    ck_assert_msg(memcmp(a->call.x, b->call.x, COUNT * sizeof(float)) == 0, "%s: x", what);
    ck_assert_msg(memcmp(a->call.out, b->call.out, messages) == 0, "%s: messages", what);
    for (int i = 0; i < ZT_COMPRESSED_SIDES; i++)
        ck_assert_msg(memcmp(a->call.error[i], b->call.error[i], (size_t)l->errors[i] * sizeof(float)) == 0,
                      "%s: errors of side %d", what, i);
}

/* Other ranks are made up: what came in is what went out, turned by a byte. */
static void exchange(struct side *s) {
    const struct zt_compressed *l = &s->call.layout;
    memcpy(s->call.in, s->call.out, (size_t)(l->ranks * l->message_bytes));
    for (int r = 0; r < l->ranks; r++)
        for (int64_t i = l->part_count * 4; i < l->message_bytes; i++)
            s->call.in[r * l->message_bytes + i] ^= (unsigned char)(37 * r);
}

START_TEST(kernels_compress_as_the_host_does) {
    static const int ranks[] = { 2, 3, 8 };
    struct zt_arena *arena = zt_arena_create();
    const struct zt_compressed *l = zt_compressed_make(arena, bounds, PARTS, ranks[_i]);
    struct side host = make(arena, l, 1), more = make(arena, l, 3), device = make(arena, l, 1);
    struct side *all[] = { &host, &more, &device };
    for (int call = 0; call < CALLS; call++) {
        for (int stage = ZT_COMPRESS_WORKER; stage <= ZT_COMPRESSED_EXPAND; stage++) {
            for (int k = 0; k < 3; k++)
                for (int i = 0; i < COUNT && stage == ZT_COMPRESS_WORKER; i++)
                    all[k]->call.x[i] = i % 89 == 0 ? 0 : sinf((float)(i + 17 * call));
            zt_compressed_run(1, (enum zt_compressed_stage)stage, &host.call);
            zt_compressed_run(3, (enum zt_compressed_stage)stage, &more.call);
            ck_assert_int_eq(zt_launch_compressed(NULL, (enum zt_compressed_stage)stage, &device.call), 0);
            expect_same(&host, &more, "three threads");
            expect_same(&host, &device, "device");
            for (int k = 0; k < 3 && stage == ZT_COMPRESS_WORKER; k++)
                exchange(all[k]);
        }
    }
    for (int k = 0; k < 3; k++)
        all[k]->device->api->destroy(all[k]->device);
    zt_arena_destroy(arena);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("compressed");
    tcase_add_loop_test(test, kernels_compress_as_the_host_does, 0, 3);
    return run_suite("compressed", test, CK_NOFORK);
}
