/* comm_cases.c on the ranks that mpirun started, every case on a world of its own:
 *
 *     mpirun -n 3 mpi_cases window|messages|ring [CASE] */
#include "comm_cases.h"

#include "base/arena.h"
#include "base/process_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool passes(const struct comm_case *k, enum zt_comm_mpi_paths paths, bool ring) {
    struct zt_err err = { 0 };
    struct zt_comm *c = zt_comm_mpi_create(paths, &err);
    if (!c) {
        zt_err_print(&err, stderr);
        return false;
    }
    if (ring)
        c = zt_comm_ring_create(c);
    int rank = c->rank, size = c->size;
    struct rank_report report = { 0 };
    if (size >= k->fewest_ranks)
        k->body(c, &report);
    if (report.text[0]) {
        fprintf(stderr, "%s: rank %d of %d: %s\n", k->name, rank, size, report.text);
        c->api->abort(c, report.text);
    }
    c->api->destroy(c);
    return !report.text[0];
}

/* Mappings of shared blocks in this process. */
static int shared_maps(void) {
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, ZT_SHARED_NAME) != NULL;
    if (maps)
        fclose(maps);
    return count;
}

static void ranks_of_a_host_map_the_blocks_of_all(struct zt_comm *c, struct rank_report *report) {
    struct zt_err err = { 0 };
    size_t bytes = 100000;
    void *block = zt_block_create(bytes, "shared", &err);
    bool ok = block && c->api->share(c, block, bytes, &err);
    int maps = shared_maps();
    if (block)
        c->api->unshare(c, block);
    int left = shared_maps();
    zt_block_destroy(block, bytes);
    EXPECT(ok, "%s", err.text[0]);
    EXPECT(maps == c->size && left == 1, "%d mappings of %d blocks, %d after unshare", maps, c->size, left);
    EXPECT(shared_maps() == 0, "the block's pages outlive it");
}

static const struct comm_case window_case = { .name = "ranks_of_a_host_map_the_blocks_of_all",
                                              .body = ranks_of_a_host_map_the_blocks_of_all,
                                              .fewest_ranks = 2 };

int main(int argc, char **argv) {
    bool ring = argc > 1 && !strcmp(argv[1], "ring"), window = ring || (argc > 1 && !strcmp(argv[1], "window"));
    if (argc < 2 || (!window && strcmp(argv[1], "messages"))) {
        fprintf(stderr, "usage: mpirun -n N %s window|messages|ring [CASE]\n", argv[0]);
        return EXIT_FAILURE;
    }
    int ran = 0, failed = 0;
    for (int i = 0; i < comm_case_count; i++) {
        if (argc > 2 && strcmp(argv[2], comm_cases[i].name))
            continue;
        ran++;
        failed += !passes(&comm_cases[i], window ? ZT_MPI_WINDOW_AND_MESSAGES : ZT_MPI_MESSAGES_ONLY, ring);
    }
    if (window && !ring && argc == 2)
        failed += !passes(&window_case, ZT_MPI_WINDOW_AND_MESSAGES, false);
    int code = failed || !ran ? EXIT_FAILURE : EXIT_SUCCESS;
    zt_comm_mpi_finalize(code);
    return code;
}
