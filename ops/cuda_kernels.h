/* The CUDA kernels of all families: KERNEL(id) for each, in the order of the module's array. */
#ifndef ZT_OPS_CUDA_KERNELS_H
#define ZT_OPS_CUDA_KERNELS_H

#include "ops/attention/kernels.h"
#include "ops/control/kernels.h"
#include "ops/conv/kernels.h"
#include "ops/detection/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/fusion/kernels.h"
#include "ops/linear_attention/kernels.h"
#include "ops/loss/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/ml/kernels.h"
#include "ops/lowered/kernels.h"
#include "ops/movement/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/norm_slices/kernels.h"
#include "ops/pool/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/random/kernels.h"
#include "ops/recurrent/kernels.h"
#include "ops/reduce/kernels.h"
#include "ops/resample/kernels.h"
#include "ops/sequence/kernels.h"
#include "ops/signal/kernels.h"
#include "ops/softmax/kernels.h"
#include "ops/training/kernels.h"
#include "ops/families.h"

#define ZT_CUDA_KERNELS_OF(family) ZT_CUDA_KERNELS_##family(KERNEL)

#endif
