/* The geometry of Col2Im and ztrain.Im2Col (col2im.c). */
#ifndef ZT_OPS_CONV_COLUMNS_H
#define ZT_OPS_CONV_COLUMNS_H

#include "ops/kernel/window.h"

/* Shapes: image [planes, window.in], columns [planes, window.kernel, window.out]. */
struct zt_columns {
    int64_t planes;
    struct zt_window window;
};

#endif
