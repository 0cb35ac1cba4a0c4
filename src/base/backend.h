/* The implementations of kernels: the reference, the CPU's, CUDA's. */
#ifndef ZT_BASE_BACKEND_H
#define ZT_BASE_BACKEND_H

enum zt_backend { ZT_REF, ZT_CPU, ZT_CUDA, ZT_BACKENDS };

#endif
