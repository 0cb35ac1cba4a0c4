/* The rows of this family have no CUDA kernels. */
#ifndef ZT_OPS_TRAINING_KERNELS_H
#define ZT_OPS_TRAINING_KERNELS_H

#define ZT_CUDA_KERNELS_training(KERNEL)

#endif
