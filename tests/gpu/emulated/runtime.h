/* The emulated CUDA runtime, in host memory: one device (ZT_EMULATED_DEVICES of them), on which everything is done when
 * the call returns. Functions for emulated kernels and libraries besides CUDA's own API. */
#ifndef ZT_TESTS_GPU_EMULATED_RUNTIME_H
#define ZT_TESTS_GPU_EMULATED_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that the device does takes a microsecond: kernels, copies, clearing. False where ZT_EMULATED_DRY is set:
 * then it is only counted, and memory holds nothing. */
bool emulated_does(void);

/* Whether the calling thread captures a stream: then what would run is kept, and run whenever the graph is. */
bool emulated_captures(void);
void emulated_keeps(void (*run)(void *what), void *what, void (*destroy)(void *what));

/* For what cannot be kept: the capture gives no graph, and nothing of it is to be done. */
void emulated_breaks(void);

/* graph/ir/dtype.h's, for kernels in C++ */
float emulated_half_to_float(uint16_t half);
uint16_t emulated_float_to_half(float value);
uint16_t emulated_float_to_bfloat(float value);
uint16_t emulated_double_to_half(double value);
uint16_t emulated_double_to_bfloat(double value);

#ifdef __cplusplus
}
#endif

#endif
