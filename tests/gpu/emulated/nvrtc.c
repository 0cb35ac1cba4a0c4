/* NVRTC and the loading of what it compiles, on the CPU: the source becomes C++ that runs the blocks and threads of a
 * launch one after the other (generated kernels know no barrier), the system's compiler makes a library of it, and that
 * library's bytes are the machine code. */
#include "ops/elementwise/source_cuda.h"
#include "tests/gpu/emulated/runtime.h"

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char before[] =
    "#define __global__\n#define __device__\n"
    "struct emulated_index { unsigned x; };\n"
    "static thread_local emulated_index blockIdx, threadIdx, blockDim, gridDim;\n"
    "extern \"C\" {\n"
#define ONE(name) "float " #name "(float);\n"
#define TWO(name) "float " #name "(float, float);\n"
    ONE(fabsf) ONE(sqrtf) ONE(expf) ONE(expm1f) ONE(logf) ONE(log1pf) ONE(tanhf) ONE(sinhf) ONE(coshf) ONE(erff)
        ONE(erfcf) ONE(sinf) ONE(cosf) ONE(tanf) ONE(asinf) ONE(acosf) ONE(atanf) ONE(asinhf) ONE(acoshf) ONE(atanhf)
            ONE(floorf) ONE(ceilf) ONE(rintf) TWO(powf) TWO(fmodf) "}\n";
static const char behind[] = "extern \"C\" void emulated_" ZT_KERNEL_ENTRY
                             "(const void *p, unsigned blocks, unsigned threads) {\n"
                             "    gridDim.x = blocks;\n"
                             "    blockDim.x = threads;\n"
                             "    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)\n"
                             "        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)\n"
                             "            " ZT_KERNEL_ENTRY
                             "(*(const arguments *)p);\n"
                             "}\n";

struct _nvrtcProgram {
    char *source, *code;
    size_t bytes;
};

nvrtcResult nvrtcVersion(int *major, int *minor) {
    *major = 0;
    *minor = 0;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int *to) {
    *to = 2;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int *to) {
    to[0] = 80;
    to[1] = 90;
    return NVRTC_SUCCESS;
}
const char *nvrtcGetErrorString(nvrtcResult result) {
    return result == NVRTC_ERROR_COMPILATION ? "a compilation that fails" : "an emulated error";
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram *to, const char *source, const char *name, int headers,
                               const char *const *header, const char *const *names) {
    (void)name, (void)headers, (void)header, (void)names;
    *to = calloc(1, sizeof **to);
    (*to)->source = strdup(source);
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    free((*program)->source);
    free((*program)->code);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

static nvrtcResult take(nvrtcProgram program, const char *path) {
    FILE *from = fopen(path, "rb");
    if (!from)
        return NVRTC_ERROR_COMPILATION;
    program->code = malloc(1 << 20);
    program->bytes = fread(program->code, 1, 1 << 20, from);
    fclose(from);
    return program->bytes > 0 && program->bytes < 1 << 20 ? NVRTC_SUCCESS : NVRTC_ERROR_INTERNAL_ERROR;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
    char path[] = "/tmp/ztrain-emulated-XXXXXX", command[256];
    (void)count, (void)options;
    int fd = mkstemp(path);
    if (fd < 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    close(fd);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -w -ffp-contract=off -fPIC -shared -nostdlib -pipe -x c++ -o %s -", path);
    FILE *to = popen(command, "w");
    if (to)
        fprintf(to, "%s%s%s", before, program->source, behind);
    nvrtcResult result = to && pclose(to) == 0 ? take(program, path) : NVRTC_ERROR_COMPILATION;
    unlink(path);
    return result;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *to) {
    (void)program;
    *to = 1;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *to) {
    (void)program;
    *to = 0;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *to) {
    *to = program->bytes;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *to) {
    memcpy(to, program->code, program->bytes);
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *to) {
    return nvrtcGetCUBINSize(program, to);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *to) {
    return nvrtcGetCUBIN(program, to);
}

/* ---- loading; the machine code's length is that of the ELF file's section table's end ---- */

static size_t length_of(const unsigned char *elf) {
    uint64_t table;
    uint16_t each, count;
    memcpy(&table, elf + 40, sizeof table);
    memcpy(&each, elf + 58, sizeof each);
    memcpy(&count, elf + 60, sizeof count);
    return table + (size_t)each * count;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *to, const void *code, enum cudaJitOption *jit, void **jit_values,
                                unsigned jit_count, enum cudaLibraryOption *options, void **values, unsigned count) {
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    char path[] = "/tmp/ztrain-emulated-XXXXXX"; /* dlopen knows what it has opened by its name */
    int fd = mkstemp(path);
    if (fd < 0)
        return cudaErrorInvalidValue;
    bool written = write(fd, code, length_of(code)) == (ssize_t)length_of(code);
    close(fd);
    *to = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    return *to ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    dlclose(library);
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *to, cudaLibrary_t library, const char *name) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "emulated_%s", name);
    *to = dlsym(library, symbol);
    return *to ? cudaSuccess : cudaErrorInvalidValue;
}
/* A launch, which is kept while the stream is captured (runtime.h). */
struct launch {
    void (*run)(const void *, unsigned, unsigned);
    struct zt_kernel_arguments arguments;
    unsigned blocks, threads;
};

static void run_launch(void *what) {
    const struct launch *l = what;
    if (emulated_does())
        l->run(&l->arguments, l->blocks, l->threads);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    (void)shared, (void)stream;
    struct launch *l = malloc(sizeof *l);
    memcpy(&l->run, &kernel, sizeof l->run);
    memcpy(&l->arguments, arguments[0], sizeof l->arguments);
    l->blocks = grid.x;
    l->threads = block.x;
    if (emulated_captures()) {
        emulated_keeps(run_launch, l, free);
        return cudaSuccess;
    }
    run_launch(l);
    free(l);
    return cudaSuccess;
}
