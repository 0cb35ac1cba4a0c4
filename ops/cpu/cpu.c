#include "ops/cpu/cpu.h"

#ifdef HAVE_DNNL
#include "ops/cpu/dnnl.h"
#endif

const char *zt_cpu_onednn(void) {
#ifdef HAVE_DNNL
    return zt_dnnl_version();
#else
    return "";
#endif
}
