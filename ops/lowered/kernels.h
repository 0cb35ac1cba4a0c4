/* What the rows of this family name: no kernels, as none of its nodes runs. */
#ifndef ZT_OPS_LOWERED_KERNELS_H
#define ZT_OPS_LOWERED_KERNELS_H

/* CUDA kernels: zt_kernel_ID_cuda in *_cuda.c */
#define ZT_CUDA_KERNELS_lowered(KERNEL)

#endif
