/* The rows of this family name no kernels, because its nodes are expanded before a run. */
#ifndef ZT_OPS_SEQUENCE_KERNELS_H
#define ZT_OPS_SEQUENCE_KERNELS_H

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_sequence(KERNEL)

#endif
