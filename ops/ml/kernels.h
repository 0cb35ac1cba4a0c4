/* The functions that the rows of this family name: it has reference kernels alone. */
#ifndef ZT_OPS_ML_KERNELS_H
#define ZT_OPS_ML_KERNELS_H

#include "ops/kernel/onnx_body.h"

/* The newest opset of ai.onnx.ml that rows know; they refuse later ones, which may mean something else. */
enum { ZT_ML_OPSET = 5 };

#define ZT_CUDA_KERNELS_ml(KERNEL)

ZT_FUNCTION_BODY(zt_array_feature_extractor_function_body);

#endif
