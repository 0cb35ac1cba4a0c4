/* Memory bandwidth of an optimizer on the CPU, as a share of the machine's: a tool, no test, since
 * it is about time.
 *
 *     step_bandwidth [TYPE [THREADS [ROUNDS [ELEMENTS...]]]]        Adam, all cores, 15, ResNet-18
 *
 * The weights are tensors of so many elements, by default the 62 of ResNet-18 (11.7 million), one behind the other and
 * cut in pieces as a rank has them. An update reads weight, gradient and states and writes all but the gradient; bytes
 * are those of these numbers. The machine's bandwidth is the largest of three loops over the same memory: a sum (reads
 * alone), x = s x + y (two reads and a write) and x = s x (a read and a write). All take turns, and the shortest time
 * of each counts, so that a machine that does other things as well is measured where it did not. Prints one JSON
 * object, which also has the median of the updates. */
#include "base/arena.h"
#include "base/clock.h"
#include "device/threads.h"
#include "optim/row.h"
#include "optim/types/types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 16 * ZT_NORM_BLOCK,
    TENSORS = 64,
    LARGEST = 1 << 26,
    PIECES = 1 << 13,
    ROUNDS = 10000,
    ARRAYS = 2 + ZT_OPTIM_STATES
};

struct bench {
    const struct zt_optimizer *row;
    union zt_coefficients c;
    int64_t first[PIECES], count[PIECES]; /* pieces of tensors */
    double sums[PIECES];
    int pieces, arrays, threads;
    float *array[ARRAYS]; /* weights, gradients, states */
    int64_t total;
};

/* The tensors of ResNet-18: elements, up to TENSORS. */
static int list_tensors(int64_t *to) {
    int n = 0, wide = 64;
    int64_t head[] = { 64 * 3 * 49, 64, 64 }, tail[] = { 512 * 1000, 1000 };
    for (int i = 0; i < 3; i++)
        to[n++] = head[i];
    for (int stage = 0; stage < 4; stage++, wide *= 2)
        for (int block = 0; block < 2; block++) {
            int64_t in = stage && !block ? wide / 2 : wide;
            int64_t of[] = { wide * in * 9, wide, wide, (int64_t)wide * wide * 9, wide, wide, wide * in, wide, wide };
            for (int i = 0; i < (stage && !block ? 9 : 6); i++)
                to[n++] = of[i];
        }
    for (int i = 0; i < 2; i++)
        to[n++] = tail[i];
    return n;
}

/* Reads the elements of `count` tensors; false where one has none, or there are too many. */
static bool read_tensors(char **from, int count, int64_t *to) {
    for (int t = 0; t < count && t < TENSORS; t++)
        if ((to[t] = atoll(from[t])) < 1 || to[t] > LARGEST)
            return false;
    return count <= TENSORS;
}

/* false where the pieces are too many */
static bool cut(struct bench *b, const int64_t *tensors, int count) {
    for (int t = 0; t < count; t++)
        for (int64_t left = tensors[t]; left > 0;) {
            int64_t n = (b->total / PIECE + 1) * PIECE - b->total;
            n = n < left ? n : left;
            if (b->pieces == PIECES)
                return false;
            b->first[b->pieces] = b->total;
            b->count[b->pieces++] = n;
            b->total += n;
            left -= n;
        }
    return true;
}

static void update(void *arg, int64_t i) {
    struct bench *b = arg;
    float *state[ZT_OPTIM_STATES] = { NULL };
    for (int s = 0; s + 2 < b->arrays; s++)
        state[s] = b->array[2 + s] + b->first[i];
    b->row->update(&b->c, 1, b->array[0] + b->first[i], b->array[1] + b->first[i], state, b->count[i]);
}

ZT_CLONES static float sum_of(const float *x, int64_t count) {
    float part[64] = { 0 };
    for (int64_t i = 0; i + 64 <= count; i += 64)
        for (int k = 0; k < 64; k++)
            part[k] += x[i + k];
    for (int k = 1; k < 64; k++)
        part[0] += part[k];
    return part[0];
}

ZT_CLONES static void scale_add(float *restrict x, const float *restrict y, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.5f * x[i] + y[i];
}

static void read_all(void *arg, int64_t i) {
    struct bench *b = arg;
    for (int a = 0; a < b->arrays; a++)
        b->sums[i] += (double)sum_of(b->array[a] + b->first[i], b->count[i]);
}

static void scale_all(void *arg, int64_t i) {
    struct bench *b = arg;
    for (int a = 0; a + 1 < b->arrays; a += 2)
        scale_add(b->array[a] + b->first[i], b->array[a + 1] + b->first[i], b->count[i]);
}

ZT_CLONES static void scale(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] *= 0.999f;
}

static void scale_each(void *arg, int64_t i) {
    struct bench *b = arg;
    for (int a = 0; a < b->arrays; a++)
        scale(b->array[a] + b->first[i], b->count[i]);
}

static double seconds_of(struct bench *b, void (*body)(void *, int64_t)) {
    double began = zt_now();
    zt_parallel_for(b->threads, b->pieces, body, b);
    return zt_now() - began;
}

/* The weights are there already. */
static bool set_up(struct bench *b, const char *type) {
    struct zt_err err = { 0 };
    b->row = zt_optimizer_find(type);
    if (!b->row)
        return false;
    struct zt_optimizer_config config = { .type = b->row->type.name, .params = calloc(1, b->row->type.bytes + 1) };
    struct zt_update u = { .config = &config, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .step = 3, .grad_scale = 1 };
    b->row->prepare(&u, &b->c);
    b->arrays = 2 + (b->row->states_used ? b->row->states_used(&config) : b->row->states);
    free(config.params);
    for (int a = 0; a < b->arrays; a++) {
        if (!(b->array[a] = zt_block_create((size_t)b->total * sizeof(float), type, &err)))
            return false;
        for (int64_t i = 0; i < b->total; i++)
            b->array[a][i] = 0.001f * (float)(i % 1000 + 1);
    }
    return true;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints what `best`, the seconds of update, sum, x = s x + y and x = s x, amount to. */
static void report(const struct bench *b, const double best[4], double median) {
    const double array = (double)b->total * sizeof(float),
                 of[] = { 2 * b->arrays - 1, b->arrays, b->arrays / 2 * 3, 2 * b->arrays };
    double rate[4], machine = 0;
    for (int k = 0; k < 4; k++) {
        rate[k] = array * of[k] / best[k] * 1e-9;
        machine = k > 0 && rate[k] > machine ? rate[k] : machine;
    }
    printf("{\"optimizer\": \"%s\", \"weights\": %lld, \"threads\": %d, \"ms\": %.3f, \"median_ms\": %.3f, ",
           b->row->type.name, (long long)b->total, b->threads, best[0] * 1e3, median * 1e3);
    printf(
        "\"gb_per_s\": %.1f, \"machine\": {\"read\": %.1f, \"scale_add\": %.1f, \"scale\": %.1f}, \"share\": %.3f}\n",
        rate[0], rate[1], rate[2], rate[3], rate[0] / machine);
}

static void measure(struct bench *b, int rounds, double *updates) {
    double best[4] = { HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL };
    void (*const body[4])(void *, int64_t) = { update, read_all, scale_all, scale_each };
    for (int r = -1; r < rounds; r++) /* the first does not count */
        for (int k = 0; k < 4; k++) {
            double seconds = seconds_of(b, body[k]);
            best[k] = r >= 0 && seconds < best[k] ? seconds : best[k];
            if (k == 0 && r >= 0)
                updates[r] = seconds;
        }
    qsort(updates, (size_t)rounds, sizeof *updates, by_size);
    report(b, best, updates[rounds / 2]);
}

int main(int argc, char **argv) {
    static struct bench b;
    static double updates[ROUNDS];
    int64_t tensors[TENSORS];
    const int rounds = argc > 3 ? atoi(argv[3]) : 15, given = argc > 4 ? argc - 4 : 0;
    const bool valid = !given || read_tensors(argv + 4, given, tensors);
    b.threads = argc > 2 ? atoi(argv[2]) : zt_parallel_cores();
    zt_parallel_enter();
    if (!valid || b.threads < 1 || rounds < 1 || rounds > ROUNDS ||
        !cut(&b, tensors, given ? given : list_tensors(tensors)) || !set_up(&b, argc > 1 ? argv[1] : "Adam")) {
        fprintf(stderr, "usage: step_bandwidth [TYPE [THREADS [ROUNDS [ELEMENTS...]]]]\n");
        return 2;
    }
    measure(&b, rounds, updates);
    return 0;
}
