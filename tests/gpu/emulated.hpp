/* As much of CUDA's C++ as our kernels use, on threads of the CPU: a thread each for the threads of a block, the blocks
 * one after the other. Shared memory is static, because one block runs at a time. emulated.c has the run-time library.
 */
#ifndef ZT_TESTS_EMULATED_HPP
#define ZT_TESTS_EMULATED_HPP

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <thread>
#include <vector>

#define __CUDACC__
#define __global__
#define __device__
#define __shared__ static

typedef struct CUstream_st *cudaStream_t;
enum { cudaSuccess = 0 };
extern "C" int cudaGetLastError(void);

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {
    }
};

static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
static pthread_barrier_t *together;

static inline void __syncthreads() {
    pthread_barrier_wait(together);
}

template <class T> struct as_is {
    typedef T type;
};
/* A call of the kernel with arguments as they are now, made its parameters. */
template <class... P> static auto bound(void (*kernel)(P...), typename as_is<P>::type... arguments) {
    return [=] { kernel(arguments...); };
}

/* While the stream is captured a launch is kept, and run when the graph is (emulated.c). */
extern "C" bool emulated_keeps(void (*run)(void *what), void *what, void (*destroy)(void *what));
extern "C" bool emulated_captures(void);

template <class Kernel> static void emulate(dim3 grid, dim3 block, cudaStream_t stream, Kernel kernel) {
    if (emulated_captures()) {
        auto *later = new std::function<void()>([=] { emulate(grid, block, stream, kernel); });
        emulated_keeps([](void *what) { (*(std::function<void()> *)what)(); }, later,
                       [](void *what) { delete (std::function<void()> *)what; });
        return;
    }
    unsigned count = block.x * block.y;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, count);
    together = &barrier;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back([=] {
            threadIdx = dim3(i % block.x, i / block.x);
            blockDim = block;
            gridDim = grid;
            for (unsigned b = 0; b < grid.x; b++) {
                blockIdx = dim3(b, 0);
                kernel();
                __syncthreads(); /* shared memory goes to the next block */
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    pthread_barrier_destroy(&barrier);
}

/* ---- half types ---- */

extern "C" float emulated_half_to_float(uint16_t half); /* graph/dtype.c's */
extern "C" uint16_t emulated_float_to_half(float value);
extern "C" uint16_t emulated_float_to_bfloat(float value);

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
