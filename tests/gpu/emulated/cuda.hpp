/* As much of CUDA's C++ as our kernels use, on the CPU, the blocks one after the other, from the last to the first
 * where ZT_EMULATED_BACKWARDS is set. Shared memory is static, because one block runs at a time. runtime.c has the
 * run-time library. */
#ifndef ZT_TESTS_GPU_EMULATED_CUDA_HPP
#define ZT_TESTS_GPU_EMULATED_CUDA_HPP

#include "tests/gpu/emulated/runtime.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __CUDACC__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __expf               expf
#define DYNAMIC_SHARED(name) alignas(16) static char name[emulated_shared] /* whatever the launch gives */

typedef struct CUstream_st *cudaStream_t;
enum {
    cudaSuccess = 0,
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81
};
enum { emulated_shared = 228 << 10 }; /* bytes, as runtime.c says */
extern "C" int cudaGetLastError(void);
extern "C" int cudaGetDevice(int *device);
extern "C" int cudaDeviceGetAttribute(int *to, int attribute, int device);
static inline int cudaFuncSetAttribute(const void *, int, int) {
    return cudaSuccess;
}

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {
    }
};

static dim3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- the threads of a block, one after the other; each that meets a barrier keeps the stack it is on, and the next
 * one begins on another ---- */

/* A kernel with its arguments; without the C++ library, whose headers would be compiled with each kernel. */
struct emulated_call {
    virtual void run() const = 0;
    virtual ~emulated_call() {
    }
};
template <class Do> struct emulated_call_of final : emulated_call {
    Do call;
    explicit emulated_call_of(const Do &what) : call(what) {
    }
    void run() const override {
        call();
    }
};

/* Where a stack goes on, as the compiler's own setjmp keeps it, which is quicker than the library's. What jumps is
 * called, and takes all registers: noipa. */
typedef void *emulated_place[5];

struct emulated_stack {
    ucontext_t start;
    emulated_place at;
    bool made, running;
    unsigned thread; /* that waits on it */
};
static struct {
    pthread_mutex_t alone;              /* shared memory is static: one kernel at a time */
    emulated_stack *stacks[1024], *now; /* as many as a block has threads at most */
    emulated_place back;
    const emulated_call *kernel;
    unsigned next, count; /* the thread that begins next, and how many a block has */
} emulator;

__attribute__((noipa, noreturn)) static void emulated_go(void **place) {
    __builtin_longjmp(place, 1);
}

__attribute__((noipa)) static void emulated_pause() {
    if (__builtin_setjmp(emulator.now->at) == 0)
        emulated_go(emulator.back);
}

static inline void __syncthreads() {
    emulated_pause();
}

/* The value of the thread whose number differs in the bits of `step`, below a warp's 32. All threads of a block call it
 * together: each lays its value down before any reads one. */
static inline float __shfl_xor_sync(unsigned, float value, int step) {
    static float values[1024];
    const unsigned mine = emulator.now->thread;
    values[mine] = value;
    emulated_pause();
    value = values[mine ^ (unsigned)step];
    emulated_pause();
    return value;
}

static inline void emulated_become(unsigned thread) {
    emulator.now->thread = thread;
    threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y);
}

/* Goes on with the next block's threads when it is called again. */
static inline void emulated_run() {
    for (;;) {
        while (emulator.next < emulator.count) {
            emulated_become(emulator.next++);
            emulator.kernel->run();
        }
        emulator.now->running = false;
        emulated_pause();
    }
}

__attribute__((noipa)) static void emulated_resume(emulated_stack *s) {
    emulator.now = s;
    if (__builtin_setjmp(emulator.back) != 0)
        return;
    if (s->made)
        emulated_go(s->at);
    s->made = true;
    getcontext(&s->start);
    s->start.uc_stack.ss_size = 1 << 16;
    s->start.uc_stack.ss_sp = malloc(s->start.uc_stack.ss_size);
    makecontext(&s->start, emulated_run, 0);
    setcontext(&s->start);
}

static inline void emulate_block() {
    unsigned used = 0;
    for (emulator.next = 0; emulator.next < emulator.count; used++) {
        if (!emulator.stacks[used])
            emulator.stacks[used] = new emulated_stack();
        emulator.stacks[used]->running = true;
        emulated_resume(emulator.stacks[used]);
    }
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < used; i++) {
            if (!emulator.stacks[i]->running)
                continue;
            emulator.now = emulator.stacks[i];
            emulated_become(emulator.now->thread);
            emulated_resume(emulator.now);
            any |= emulator.stacks[i]->running;
        }
    }
}

template <class T> struct as_is { typedef T type; };
/* A call of the kernel with arguments as they are now, made its parameters. */
template <class... P> static auto bound(void (*kernel)(P...), typename as_is<P>::type... arguments) {
    return [=] { kernel(arguments...); };
}

/* While the stream is captured a launch is kept, and run when the graph is. */
template <class Kernel> static void emulate(dim3 grid, dim3 block, cudaStream_t stream, Kernel kernel) {
    if (emulated_captures()) {
        auto again = [=] { emulate(grid, block, stream, kernel); };
        emulated_call *later = new emulated_call_of<decltype(again)>(again);
        emulated_keeps([](void *what) { ((emulated_call *)what)->run(); }, later,
                       [](void *what) { delete (emulated_call *)what; });
        return;
    }
    if (!emulated_does())
        return;
    const emulated_call_of<Kernel> call(kernel);
    pthread_mutex_lock(&emulator.alone);
    emulator.kernel = &call;
    emulator.count = block.x * block.y * block.z;
    blockDim = block;
    gridDim = grid;
    const unsigned blocks = grid.x * grid.y * grid.z;
    const bool backwards = getenv("ZT_EMULATED_BACKWARDS") != NULL;
    for (unsigned k = 0; k < blocks; k++) {
        const unsigned at = backwards ? blocks - 1 - k : k;
        blockIdx = dim3(at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y);
        emulate_block();
    }
    pthread_mutex_unlock(&emulator.alone);
}

/* One thread runs at a time. */
static inline void __threadfence() {
}
static inline unsigned atomicInc(unsigned *at, unsigned most) {
    const unsigned old = *at;
    *at = old >= most ? 0 : old + 1;
    return old;
}
static inline int32_t atomicMax(int32_t *at, int32_t value) {
    const int32_t old = *at;
    *at = value > old ? value : old;
    return old;
}

/* ---- half types ---- */

struct __half {
    uint16_t bits;
};
static inline float __half2float(__half half) {
    return emulated_half_to_float(half.bits);
}
static inline __half __float2half_rn(float value) {
    return { emulated_float_to_half(value) };
}

struct __nv_bfloat16 {
    uint16_t bits;
};
static inline __half __double2half(double value) {
    return { emulated_double_to_half(value) };
}
static inline __nv_bfloat16 __double2bfloat16(double value) {
    return { emulated_double_to_bfloat(value) };
}
static inline float __bfloat162float(__nv_bfloat16 x) {
    uint32_t bits = (uint32_t)x.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    return { emulated_float_to_bfloat(value) };
}

#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

#endif
