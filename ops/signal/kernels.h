/* The functions that the rows of this family name: CPU kernels and CUDA kernels. */
#ifndef ZT_OPS_SIGNAL_KERNELS_H
#define ZT_OPS_SIGNAL_KERNELS_H

#include "ops/cpu/cpu.h"
#include "ops/cuda/cuda.h"
#include "ops/kernel/onnx_body.h"

/* Reference kernels: dft_ref.c */
bool zt_dft_ref_prepare(struct zt_prepare *p, struct zt_err *err);
void zt_dft_ref_release(void *state);
bool zt_dft_ref(const struct zt_call *call, struct zt_err *err);

/* CPU kernels: *_cpu.c */
ZT_CPU_KERNEL(zt_dft_cpu) /* DFT and STFT of every type and length */

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_signal(KERNEL) KERNEL(dft)
ZT_CUDA_KERNELS_signal(ZT_CUDA_ID)

#endif
