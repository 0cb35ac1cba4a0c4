/* The functions that the rows of this family name: it has reference kernels alone. */
#ifndef ZT_OPS_ML_KERNELS_H
#define ZT_OPS_ML_KERNELS_H

#define ZT_CUDA_KERNELS_ml(KERNEL)

#endif
