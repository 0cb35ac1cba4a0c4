#include "parallel/machine.h"

#include "base/text.h"

#include <string.h>

/* NVIDIA's data sheets of the SXM parts, dense rates (without sparsity): fp32 outside tensor cores, bf16 inside.
 * NVLink's figure counts both ways, so a rank sends half of it. One 400 Gb/s adapter a GPU, as in DGX systems. */
static const struct zt_machine rows[] = {
    { .name = "h200",
      .per_host = 8,
      .memory_bytes = 141000000000,
      .product_flops = 67e12,
      .conv_flops = 67e12,
      .half_flops = 989e12,
      .element_flops = 67e12,
      .memory_rate = 4.8e12,
      .node_seconds = 3e-6,
      .link_rate = 450e9,
      .link_seconds = 8e-6,
      .net_rate = 50e9,
      .net_seconds = 20e-6,
      .own_channel = true,
      .efficiency = 0.6 },
    { .name = "h100",
      .per_host = 8,
      .memory_bytes = 80000000000,
      .product_flops = 67e12,
      .conv_flops = 67e12,
      .half_flops = 989e12,
      .element_flops = 67e12,
      .memory_rate = 3.35e12,
      .node_seconds = 3e-6,
      .link_rate = 450e9,
      .link_seconds = 8e-6,
      .net_rate = 50e9,
      .net_seconds = 20e-6,
      .own_channel = true,
      .efficiency = 0.6 },
    { .name = "a100",
      .per_host = 8,
      .memory_bytes = 80000000000,
      .product_flops = 19.5e12,
      .conv_flops = 19.5e12,
      .half_flops = 312e12,
      .element_flops = 19.5e12,
      .memory_rate = 2.04e12,
      .node_seconds = 4e-6,
      .link_rate = 300e9,
      .link_seconds = 8e-6,
      .net_rate = 25e9,
      .net_seconds = 20e-6,
      .own_channel = true,
      .efficiency = 0.6 },
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
                                .efficiency = 1 };
}
