#include "ops/cpu/cpu.h"

#include "ops/cpu/isa.h"

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

bool zt_cpu_lacks_bf16(const struct zt_graph *g, int node) {
    (void)g;
    (void)node;
    return !zt_isa_has(ZT_ISA_AVX512_BF16);
}
