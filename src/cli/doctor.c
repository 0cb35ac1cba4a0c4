/* ztrain doctor: lists what this machine and this build have, what is missing and how to install it. Missing parts are
 * no failure: the exit status is 0. */
#include "ops/cpu/cpu.h"
#include "cli/commands.h"

#include "device/libraries.h"
#include "device/module.h"
#include "device/threads.h"
#include "ops/cpu/isa.h"
#include "ops/table.h"
#include "session/options.h"
#include "parallel/comm/mac.h"
#include "parallel/offload/aio.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct finding {
    const char *what;
    bool found, wanted; /* wanted: a feature needs it; otherwise it is optional */
    char says[4200], hint[ZT_ERR_TEXT];
};

static void print(const struct finding *f) {
    printf("%-8s %-12s %s\n", f->found ? "ok" : f->wanted ? "missing" : "none", f->what, f->says);
    if (*f->hint)
        printf("%-8s %-12s hint: %s\n", "", "", f->hint);
}

/* Reads the value of "key<spaces>: value" in a file of such lines, "" if there is none. */
static void read_value(const char *path, const char *key, char *to, size_t room) {
    char line[8192];
    FILE *file = fopen(path, "r");
    *to = 0;
    while (file && !*to && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        for (colon++; isspace((unsigned char)*colon); colon++)
            ;
        snprintf(to, room, "%s", colon);
    }
    if (file)
        fclose(file);
}

static void find_program(struct finding *f) {
#ifdef __clang__
    snprintf(f->says, sizeof f->says, "%s, compiled by %s", ZT_VERSION, __VERSION__);
#elif defined __GNUC__
    snprintf(f->says, sizeof f->says, "%s, compiled by gcc %s", ZT_VERSION, __VERSION__);
#else
    snprintf(f->says, sizeof f->says, "%s", ZT_VERSION);
#endif
    f->found = true;
}

static void find_processor(struct finding *f) {
    char model[200];
    read_value("/proc/cpuinfo", "model name", model, sizeof model);
    snprintf(f->says, sizeof f->says, "%s, %d cores for this process, instructions up to %s",
             *model ? model : "unknown", zt_parallel_cores(), zt_isa_name(zt_isa()));
    f->found = true;
}

/* No kernel of the CPU computes in fp16: tensors of fp16 runs are stored in it and cast to fp32 (half_precision.h). */
static void find_fp16(struct finding *f) {
    char flags[8192];
    read_value("/proc/cpuinfo", "flags", flags, sizeof flags);
    f->found = true;
    snprintf(f->says, sizeof f->says, "stored in fp16, computed in fp32 on the CPU%s",
             strstr(flags, "avx512_fp16") ? "; AVX-512 FP16 is there and not used" : ", which has no AVX-512 FP16");
}

static void find_memory(struct finding *f) {
    char total[100], available[100];
    read_value("/proc/meminfo", "MemTotal", total, sizeof total);
    read_value("/proc/meminfo", "MemAvailable", available, sizeof available);
    snprintf(f->says, sizeof f->says, "%.1f GB, %.1f GB available", strtod(total, NULL) * 1024e-9,
             strtod(available, NULL) * 1024e-9);
    f->found = *total != 0;
}

static void find_onednn(struct finding *f) {
    const char *version = zt_cpu_onednn();
    f->found = *version != 0;
    snprintf(f->says, sizeof f->says, "%s",
             f->found ? version : "not in this build: convolutions run on the reference kernels");
    if (!f->found)
        snprintf(f->hint, sizeof f->hint, "apt-get install libdnnl-dev, and build with -Ddnnl=enabled");
}

static void find_libcrypto(struct finding *f) {
    f->found = true;
    snprintf(f->says, sizeof f->says, "%s: authenticates ranks over TCP", zt_mac_library());
}

/* Reports the asynchronous I/O that offload to NVMe uses. */
static void find_aio(struct finding *f) {
    struct zt_err err = { 0 };
    struct zt_aio *aio = zt_aio_create(
        &(struct zt_aio_options){ .block_size = ZT_AIO_ALIGN, .queue_depth = 1, .threads = 1 }, NULL, &err);
    f->found = aio != NULL;
    snprintf(f->says, sizeof f->says, "%s: transfers of offload to NVMe", aio ? zt_aio_name(aio) : err.text[0]);
    zt_aio_destroy(aio);
}

static void find_cuda(struct finding *f) {
    struct zt_err err = { 0 };
    struct zt_device *device = zt_device_open("cuda", -1, 1, NULL, &err);
    f->found = device != NULL;
    snprintf(f->says, sizeof f->says, "%s", device ? "the module and its first device can be opened" : err.text[0]);
    if (device)
        device->api->destroy(device);
    else
        snprintf(f->hint, sizeof f->hint, "%s", err.hint[0]);
}

static void find_gpus(struct finding *f) {
    f->found = zt_gpus_find(f->says, sizeof f->says);
}

/* Prints the libraries that the CUDA module loads. They are optional on a machine without a GPU. */
static void print_libraries(void) {
    for (const struct zt_library *l = zt_libraries; l->name; l++) {
        struct finding f = { .what = l->name };
        f.found = zt_library_find(l, f.says, sizeof f.says);
        if (!f.found)
            snprintf(f.hint, sizeof f.hint, "%s", l->hint);
        print(&f);
    }
}

/* Finds an executable in the search path. */
static void find_tool(struct finding *f, const char *name, const char *what_for, const char *package) {
    const char *path = getenv("PATH");
    char file[4000];
    for (const char *at = path; at && *at && !f->found; at += strcspn(at, ":"), at += *at == ':') {
        int length = snprintf(file, sizeof file, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        f->found = length > 0 && length < (int)sizeof file && access(file, X_OK) == 0;
    }
    if (f->found)
        snprintf(f->says, sizeof f->says, "%s: %s", file, what_for);
    else
        snprintf(f->says, sizeof f->says, "needed for %s", what_for);
    if (!f->found)
        snprintf(f->hint, sizeof f->hint, "apt-get install %s", package);
}

static void find_mpirun(struct finding *f) {
    find_tool(f, "mpirun", "ranks as processes", "openmpi-bin");
}
static void find_gnuplot(struct finding *f) {
    find_tool(f, "gnuplot", "the plots of ztrain bench", "gnuplot-nox");
}

bool zt_cli_doctor(const struct zt_options *options, struct zt_err *err) {
    static const struct {
        const char *what;
        bool wanted;
        void (*find)(struct finding *f);
    } rows[] = { { "ztrain", true, find_program },  { "processor", true, find_processor },
                 { "fp16", true, find_fp16 },       { "memory", true, find_memory },
                 { "oneDNN", true, find_onednn },   { "libcrypto", true, find_libcrypto },
                 { "files", true, find_aio },       { "mpirun", true, find_mpirun },
                 { "gnuplot", true, find_gnuplot }, { "CUDA", false, find_cuda },
                 { "GPUs", false, find_gpus } };
    (void)options, (void)err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct finding f = { .what = rows[i].what, .wanted = rows[i].wanted };
        rows[i].find(&f);
        print(&f);
    }
    print_libraries();
    return true;
}
