/* read_time FORMAT PATH SIDE: the time of one core that reading a sample of SIDE x SIDE takes, as it is and augmented;
 * the best of three passes. */
#include "config/config.h"
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PASSES = 3, MOST_SAMPLES = 5000 };
static const double LEAST_SECONDS = 0.5;

static double core_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds a sample, of samples until LEAST_SECONDS have passed; negative where one cannot be read. */
static double pass(const struct zt_source *source, void *to, struct zt_err *err) {
    const double start = core_seconds();
    int64_t count = 0;
    for (; count < MOST_SAMPLES && core_seconds() - start < LEAST_SECONDS; count++)
        if (!zt_source_read(source, 0, (struct zt_sample){ count % source->samples, 0 }, to, err))
            return -1;
    return (core_seconds() - start) / (double)count;
}

static bool measure(const char *name, struct zt_config config, int side, struct zt_err *err) {
    const struct zt_want want = { .name = "x", .dtype = ZT_FLOAT, .shape = { 3, { 3, side, side } }, .image = true };
    struct zt_source *source = zt_source_open(&config, false, &want, 1, err);
    void *to = source ? malloc(source->column[0].sample_bytes) : NULL;
    double best = -1;
    for (int i = 0; to && i < PASSES; i++) {
        const double seconds = pass(source, to, err);
        best = best < 0 || seconds < best ? seconds : best;
    }
    free(to);
    zt_source_close(source);
    if (best > 0)
        printf("%-32s %8.1f us\n", name, 1e6 * best);
    return best > 0;
}

int main(int count, char **argument) {
    static const struct {
        const char *name;
        struct zt_augment_config augment;
    } ways[] = {
        { "as it is", { 0 } },
        { "crop, flip", { .random_crop = true, .padding = 4, .horizontal_flip = 0.5 } },
        { "resized crop, flip",
          { .resized_crop = true, .crop_scale = { 0.08, 1 }, .crop_ratio = { 0.75, 1.333 }, .horizontal_flip = 0.5 } },
        { "crop, flip, colours",
          { .random_crop = true,
            .padding = 4,
            .horizontal_flip = 0.5,
            .brightness = 0.4,
            .contrast = 0.4,
            .saturation = 0.4,
            .hue = 0.1 } },
    };
    struct zt_err err = { 0 };
    if (count != 4)
        return 2;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const struct zt_config config = {
            .data = { .format = argument[1], .path = argument[2], .augment = ways[i].augment }
        };
        if (!measure(ways[i].name, config, atoi(argument[3]), &err)) {
            zt_err_print(&err, stderr);
            return 1;
        }
    }
    return 0;
}
