/* What the rows of this family name: CUDA kernels, of which it has none. */
#ifndef ZT_OPS_TRAINING_KERNELS_H
#define ZT_OPS_TRAINING_KERNELS_H

#define ZT_CUDA_KERNELS_training(KERNEL)

#endif
