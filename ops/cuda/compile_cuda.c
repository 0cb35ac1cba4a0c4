#include "ops/cuda/compile_cuda.h"

#include "base/arena.h"
#include "base/disk_cache.h"

#include <nvrtc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

static bool good(nvrtcResult result, struct zt_err *err) {
    return result == NVRTC_SUCCESS ||
           zt_fail(err, ZT_EXIT_RUN, "compiling a kernel: NVRTC: %s", nvrtcGetErrorString(result));
}

/* The first line of the compiler's log. */
static void report_log(nvrtcProgram program, struct zt_err *err) {
    size_t bytes = 0;
    if (nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes == 0)
        return;
    char *log = zt_malloc(bytes);
    if (nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS)
        zt_hint(err, "%.*s", (int)strcspn(log, "\n"), log);
    free(log);
}

static bool take_code(nvrtcProgram program, bool ptx, struct zt_text *to, struct zt_err *err) {
    size_t bytes = 0;
    if (!good((ptx ? nvrtcGetPTXSize : nvrtcGetCUBINSize)(program, &bytes), err))
        return false;
    char *code = zt_malloc(bytes + 1);
    bool ok = good((ptx ? nvrtcGetPTX : nvrtcGetCUBIN)(program, code), err);
    if (ok)
        zt_text_add_bytes(to, code, bytes);
    free(code);
    return ok;
}

bool zt_compile_choose(const int *archs, int count, int capability, struct zt_compile_target *to) {
    int newest = 0;
    for (int i = 0; i < count; i++)
        if (archs[i] <= capability && archs[i] > newest)
            newest = archs[i];
    *to = (struct zt_compile_target){ .capability = newest, .ptx = newest != capability };
    return newest > 0;
}

/* NVRTC may be older than the GPU. */
static bool find_target(int capability, struct zt_compile_target *to, struct zt_err *err) {
    int count = 0;
    if (!good(nvrtcGetNumSupportedArchs(&count), err))
        return false;
    int *archs = zt_calloc((size_t)count + 1, sizeof *archs);
    bool ok = good(nvrtcGetSupportedArchs(archs), err);
    if (ok && !zt_compile_choose(archs, count, capability, to))
        ok = zt_fail(err, ZT_EXIT_RUN, "compiling a kernel: NVRTC has no target for compute capability %d.%d",
                     capability / 10, capability % 10);
    free(archs);
    return ok;
}

static const char *family(const struct zt_compile_target *target) {
    return target->ptx ? "compute" : "sm";
}

bool zt_compile_source(const char *source, const struct zt_compile_target *target, struct zt_text *to,
                       struct zt_err *err) {
    nvrtcProgram program = NULL;
    char architecture[48];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", family(target), target->capability);
    /* the flags of the other kernels: a result does not depend on fusion */
    const char *const options[] = { architecture, "--std=c++17", "--fmad=false" };
    if (!good(nvrtcCreateProgram(&program, source, "generated.cu", 0, NULL, NULL), err))
        return false;
    nvrtcResult result = nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    bool ok = good(result, err);
    if (!ok)
        report_log(program, err);
    ok = ok && take_code(program, target->ptx, to, err);
    nvrtcDestroyProgram(&program);
    return ok;
}

/* ---- on disk ---- */

bool zt_compile_path(const char *source, const struct zt_compile_target *target, struct zt_text *to) {
    int major = 0, minor = 0;
    char end[64];
    if (nvrtcVersion(&major, &minor) != NVRTC_SUCCESS)
        return false;
    snprintf(end, sizeof end, "%s_%d-nvrtc_%d.%d.kernel", family(target), target->capability, major, minor);
    return zt_disk_cache_path(source, end, to);
}

/* A failure to write the cache is no error. */
bool zt_compile_find(const char *source, int capability, struct zt_text *to, struct zt_err *err) {
    struct zt_text path = { 0 };
    struct zt_err none = { 0 };
    struct zt_compile_target target;
    if (!find_target(capability, &target, err))
        return false;
    const bool named = zt_compile_path(source, &target, &path);
    bool ok = named && zt_disk_cache_read(path.at, source, to);
    if (!ok) {
        ok = zt_compile_source(source, &target, to, err);
        if (ok && named)
            zt_disk_cache_write(path.at, source, to, &none);
    }
    zt_text_finish(&path);
    return ok;
}
