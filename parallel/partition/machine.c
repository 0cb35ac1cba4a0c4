#include "parallel/partition/machine.h"

#include "base/text.h"

#include <string.h>
#include <strings.h>

/* NVIDIA's data sheets of the SXM parts, dense rates (without sparsity): fp32 outside tensor cores, bf16 inside.
 * NVLink's figure counts both ways, so a rank sends half of it. One adapter a GPU, as in DGX systems: 400 Gb/s, with
 * the A100 200. The NVMe drives of a DGX A100 have 25 GB/s for eight GPUs, taken for all systems and for both
 * directions. */
#define SXM(NAME, MEMORY, FP32, BF16, MEMORY_RATE, NODE, NVLINK, NET)                                                  \
    {                                                                                                                  \
        .name = NAME, .per_host = 8, .memory_bytes = MEMORY, .product_flops = FP32, .conv_flops = FP32,                \
        .half_flops = BF16, .element_flops = FP32, .memory_rate = MEMORY_RATE, .node_seconds = NODE,                   \
        .link_rate = NVLINK, .link_seconds = 8e-6, .net_rate = NET, .net_seconds = 20e-6, .own_channel = true,         \
        .file_read_rate = 3.1e9, .file_write_rate = 3.1e9, .efficiency = 0.6                                           \
    }
static const struct zt_machine rows[] = {
    SXM("h200", 141000000000, 67e12, 989e12, 4.8e12, 3e-6, 450e9, 50e9),
    SXM("h100", 80000000000, 67e12, 989e12, 3.35e12, 3e-6, 450e9, 50e9),
    SXM("a100", 80000000000, 19.5e12, 312e12, 2.04e12, 4e-6, 300e9, 25e9),
};

enum { ROWS = sizeof rows / sizeof *rows };

const struct zt_machine *zt_machine_find(const char *name, struct zt_err *err) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    struct zt_text known = { 0 };
    for (int i = 0; i < ROWS; i++)
        zt_text_add(&known, "%s%s", i ? ", " : "", rows[i].name);
    zt_fail(err, ZT_EXIT_CONFIG, "cluster \"%s\" is not known, wants one of %s", name, known.at);
    zt_text_finish(&known);
    return NULL;
}

const struct zt_machine *zt_machine_of_product(const char *product) {
    static const char ends[] = " -";
    for (const char *word = product + strspn(product, ends); *word; word += strspn(word, ends)) {
        const size_t length = strcspn(word, ends);
        for (int i = 0; i < ROWS; i++)
            if (strlen(rows[i].name) == length && strncasecmp(rows[i].name, word, length) == 0)
                return &rows[i];
        word += length;
    }
    return NULL;
}

struct zt_machine zt_machine_nominal(int threads) {
    return (struct zt_machine){ .name = "this host, nominal",
                                .per_host = 1 << 20,
                                .product_flops = 60e9 * threads,
                                .conv_flops = 50e9 * threads,
                                .half_flops = 60e9 * threads,
                                .element_flops = 4e9 * threads,
                                .plain_flops = 0.3e9 * threads,
                                .memory_rate = 10e9,
                                .node_seconds = 2e-6,
                                .link_rate = 5e9,
                                .link_seconds = 5e-6,
                                .net_rate = 1e9,
                                .net_seconds = 50e-6,
                                .file_read_rate = 1e9,
                                .file_write_rate = 1e9,
                                .efficiency = 1 };
}
