/* Parts of the launch of ranks as processes: launchers' variables, hostfiles, shares of cores, frames.
 */
#include "parallel/launch/cores.h"
#include "parallel/launch/hostfile.h"
#include "parallel/launch/environment.h"
#include "parallel/launch/control_protocol.h"

#include "tests/suite.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const names[] = { "OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "PMI_RANK",
                                     "PMI_SIZE",
                                     "SLURM_PROCID",
                                     "SLURM_NTASKS",
                                     "SLURM_STEP_ID",
                                     "RANK",
                                     "WORLD_SIZE",
                                     "LOCAL_RANK",
                                     "LOCAL_WORLD_SIZE",
                                     "LOCAL_SIZE",
                                     "MASTER_ADDR",
                                     "MASTER_PORT" };

static bool find(const char *set, struct zt_launched *to, struct zt_err *err) {
    char copy[512], *rest = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    snprintf(copy, sizeof copy, "%s", set);
    for (char *at = strtok_r(copy, " ", &rest); at; at = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(at, '=');
        *value = 0;
        setenv(at, value + 1, 1);
    }
    *err = (struct zt_err){ 0 };
    return zt_launched_find(to, err);
}

START_TEST(ranks_of_every_launcher_are_known) {
    struct zt_launched l;
    struct zt_err err;
    ck_assert(find("", &l, &err) && !l.launcher && l.size == 1 && l.rank == 0);
    ck_assert(
        find("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
             "OMPI_COMM_WORLD_LOCAL_SIZE=2",
             &l, &err));
    ck_assert(strcmp(l.launcher, "mpirun") == 0 && l.rank == 2 && l.size == 4 && l.local_rank == 1 &&
              l.local_size == 2);
    ck_assert(find("PMI_RANK=1 PMI_SIZE=3", &l, &err) && l.rank == 1 && l.size == 3);
    ck_assert(find("SLURM_PROCID=1 SLURM_NTASKS=3 SLURM_STEP_ID=0", &l, &err) && strcmp(l.launcher, "srun") == 0);
    ck_assert_msg(find("SLURM_PROCID=0 SLURM_NTASKS=3", &l, &err) && l.size == 1, "a batch script is no rank");
    ck_assert(find("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", &l, &err) && l.size == 1);
}
END_TEST

START_TEST(the_ranks_of_mpirun_inside_a_batch_job_are_mpiruns) {
    struct zt_launched l;
    struct zt_err err;
    ck_assert(
        find("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0", &l, &err));
    ck_assert(l.rank == 3 && l.size == 4);
}
END_TEST

START_TEST(variables_that_cannot_be_are_refused) {
    struct zt_launched l;
    struct zt_err err;
    ck_assert(!find("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 WORLD_SIZE=4 RANK=1", &l, &err));
    ck_assert(find("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 WORLD_SIZE=4 RANK=1", &l, &err));
    ck_assert(!find("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4", &l, &err));
    ck_assert(!find("OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=4", &l, &err));
    ck_assert(!find("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4x", &l, &err));
    ck_assert(!find("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=99999999999", &l, &err));
    ck_assert(
        !find("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 "
              "OMPI_COMM_WORLD_LOCAL_SIZE=2",
              &l, &err));
}
END_TEST

START_TEST(ranks_of_torchrun_meet_where_its_variables_say) {
    struct zt_launched l;
    struct zt_meeting m;
    struct zt_err err;
    ck_assert(find("WORLD_SIZE=4 RANK=1 LOCAL_RANK=0 MASTER_ADDR=host-a MASTER_PORT=29500", &l, &err));
    ck_assert(strcmp(l.launcher, "torchrun") == 0 && l.rank == 1 && l.size == 4 && l.local_rank == 0);
    ck_assert(zt_launched_meeting(&l, &m, &err));
    ck_assert(strcmp(m.address, "host-a") == 0 && m.port == 29500 && m.rank == 1 && m.size == 4);
    ck_assert(find("WORLD_SIZE=4 RANK=3 LOCAL_RANK=1 LOCAL_SIZE=2", &l, &err) && l.local_size == 2);
    ck_assert(find("WORLD_SIZE=1 RANK=0", &l, &err) && !l.launcher);
    ck_assert(find("WORLD_SIZE=1 RANK=0 LOCAL_RANK=3", &l, &err)); /* the number of its GPU */
    ck_assert(find("WORLD_SIZE=4", &l, &err) && !l.launcher);      /* may be anybody's */
}
END_TEST

START_TEST(a_meeting_that_cannot_be_names_the_variable) {
    static const struct {
        const char *set, *says;
    } rows[] = {
        { "WORLD_SIZE=two RANK=0", "WORLD_SIZE=two is not a whole number" },
        { "WORLD_SIZE=2 RANK=one", "RANK=one is not a whole number" },
        { "WORLD_SIZE=2 RANK=2", "RANK=2, but WORLD_SIZE=2" },
        { "WORLD_SIZE=2 RANK=0 LOCAL_RANK=-1", "LOCAL_RANK=-1 is not a whole number" },
        { "WORLD_SIZE=2 RANK=0 LOCAL_RANK=zero", "LOCAL_RANK=zero is not a whole number" },
        { "WORLD_SIZE=2 RANK=0 LOCAL_RANK=2", "LOCAL_RANK=2, but WORLD_SIZE=2" },
        { "WORLD_SIZE=4 RANK=3 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK=2, but LOCAL_WORLD_SIZE=2" },
        { "WORLD_SIZE=4 RANK=3 LOCAL_RANK=2 LOCAL_SIZE=2", "LOCAL_RANK=2, but LOCAL_SIZE=2" },
        { "WORLD_SIZE=2 RANK=0 LOCAL_WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4, but WORLD_SIZE=2" },
        { "WORLD_SIZE=2 MASTER_PORT=29500", "WORLD_SIZE=2, but RANK is not set" },
        { "RANK=0 MASTER_ADDR=a", "RANK=0, but WORLD_SIZE is not set" },
        { "WORLD_SIZE=2 RANK=0 MASTER_PORT=29500", "MASTER_ADDR is not set" },
        { "WORLD_SIZE=2 RANK=0 MASTER_ADDR=a", "MASTER_PORT is not set" },
        { "WORLD_SIZE=2 RANK=0 MASTER_ADDR=a MASTER_PORT=", "MASTER_PORT is not set" },
        { "WORLD_SIZE=2 RANK=0 MASTER_ADDR=a MASTER_PORT=http", "MASTER_PORT=http is not a whole number" },
        { "WORLD_SIZE=2 RANK=0 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT=0, wants a port" },
        { "WORLD_SIZE=2 RANK=0 MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT=65536, wants a port" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct zt_launched l;
        struct zt_meeting m;
        struct zt_err err;
        ck_assert_msg(!(find(rows[i].set, &l, &err) && zt_launched_meeting(&l, &m, &err)), "%s", rows[i].set);
        ck_assert_msg(strstr(err.text[0], rows[i].says) && err.code == ZT_EXIT_CONFIG && err.count == 1, "%s: %s",
                      rows[i].set, err.text[0]);
    }
}
END_TEST

/* The list for mpirun, or the error. */
static const char *hosts(const char *text, const char *include, const char *exclude) {
    static char to[ZT_ERR_TEXT];
    struct zt_arena *arena = zt_arena_create();
    struct zt_err err = { 0 };
    struct zt_hosts found;
    bool ok = zt_hostfile_parse(arena, &(struct zt_hostfile_text){ text, strlen(text), "hosts" }, include, exclude,
                                &found, &err);
    ck_assert(ok || err.code == ZT_EXIT_CONFIG);
    snprintf(to, sizeof to, "%s", ok ? zt_hosts_list(arena, &found) : err.text[0]);
    zt_arena_destroy(arena);
    return to;
}

static const char two[] = "# ours\nworker-0 slots=4   # first\n\n  worker-1\tslots=3";

START_TEST(a_hostfile_lists_hosts_and_slots) {
    ck_assert_str_eq(hosts(two, NULL, NULL), "worker-0:4,worker-1:3");
    ck_assert_str_eq(hosts("a slots=1\n", NULL, NULL), "a:1");
}
END_TEST

START_TEST(hosts_and_slots_are_included_and_excluded) {
    ck_assert_str_eq(hosts(two, "worker-0@worker-1:0,2", NULL), "worker-0:4,worker-1:2");
    ck_assert_str_eq(hosts(two, "worker-1", NULL), "worker-1:3");
    ck_assert_str_eq(hosts(two, NULL, "worker-1:0"), "worker-0:4,worker-1:2");
    ck_assert_str_eq(hosts(two, NULL, "worker-1@worker-0:1,3"), "worker-0:2");
    ck_assert_str_eq(hosts(two, "worker-1:1,1", NULL), "worker-1:1");
}
END_TEST

#define LONGEST_LABEL "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz-1234567890"

START_TEST(what_is_no_hostfile_is_refused_with_its_line) {
    static const char *const wrong[] = {
        "a",           "a slots",     "a slots=",           "a slots=0",
        "a slots=-1",  "a slots=1x",  "a slots=99999",      "a slots=1 b",
        "-x slots=1",  "a;b slots=1", "a,b slots=1",        "slots=4",
        "a slots = 4", "a:1 slots=2", "a slots=4294967297", LONGEST_LABEL "a slots=1"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(strncmp(hosts(wrong[i], NULL, NULL), "hosts:1: ", 9) == 0, "%s: %s", wrong[i],
                      hosts(wrong[i], NULL, NULL));
    ck_assert_str_eq(hosts(LONGEST_LABEL ".a slots=1", NULL, NULL), LONGEST_LABEL ".a:1");
    ck_assert_ptr_nonnull(strstr(hosts("a slots=1\na slots=1", NULL, NULL), "hosts:2: host a is listed twice"));
    ck_assert_ptr_nonnull(strstr(hosts("# nobody\n", NULL, NULL), "no slot is left"));
    ck_assert_ptr_nonnull(strstr(hosts(two, NULL, "worker-0@worker-1"), "no slot is left"));
    ck_assert_ptr_nonnull(strstr(hosts(two, "worker-2", NULL), "\"worker-2\" is not in hosts"));
    ck_assert_ptr_nonnull(strstr(hosts(two, NULL, "worker-1:3"), "slot \"3\" of worker-1"));
    ck_assert_ptr_nonnull(strstr(hosts(two, "worker-1:", NULL), "slot \"\""));
    ck_assert_ptr_nonnull(strstr(hosts(two, "worker-0@", NULL), "\"\" is not in"));
    ck_assert_ptr_nonnull(strstr(hosts(two, "worker-0", "worker-1"), "exclude each other"));
}
END_TEST

START_TEST(ranks_of_a_host_share_its_cores_evenly) {
    cpu_set_t whole, share;
    char text[64];
    CPU_ZERO(&whole);
    for (int core = 2; core < 9; core++) /* seven */
        CPU_SET(core, &whole);
    static const char *const of_three[] = { "2-3", "4-5", "6-7" };
    for (int i = 0; i < 3; i++) {
        ck_assert(zt_cores_share(&whole, i, 3, 1, &share));
        zt_cores_print(&share, text, sizeof text);
        ck_assert_str_eq(text, of_three[i]);
    }
    CPU_CLR(4, &whole);
    ck_assert(zt_cores_share(&whole, 0, 2, 3, &share));
    zt_cores_print(&share, text, sizeof text);
    ck_assert_str_eq(text, "2-3,5");
    ck_assert(!zt_cores_share(&whole, 0, 2, 4, &share));
    ck_assert(!zt_cores_share(&whole, 0, 7, 1, &share));
}
END_TEST

START_TEST(frames_arrive_whole_and_in_order) {
    int pair[2], kind;
    struct zt_control_in *in = calloc(1, sizeof *in);
    const void *data;
    size_t bytes;
    bool bad;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < 40; i++) {
        char text[1000];
        memset(text, 'a' + i % 26, sizeof text);
        ck_assert(zt_control_send(pair[0], ZT_CONTROL_NOTE, text, (size_t)i * 25));
    }
    ck_assert(zt_control_send(pair[0], ZT_CONTROL_ASK, NULL, 0));
    close(pair[0]);
    int seen = 0;
    for (bool open = true; open;) {
        open = zt_control_read(pair[1], in);
        while (zt_control_next(in, &kind, &data, &bytes, &bad)) {
            ck_assert_int_eq(kind, seen < 40 ? ZT_CONTROL_NOTE : ZT_CONTROL_ASK);
            ck_assert_uint_eq(bytes, seen < 40 ? (size_t)seen * 25 : 0);
            ck_assert(!bytes || ((const char *)data)[bytes - 1] == 'a' + seen % 26);
            seen++;
        }
        ck_assert(!bad);
    }
    ck_assert_int_eq(seen, 41);
    close(pair[1]);
    free(in);
}
END_TEST

START_TEST(bytes_that_are_no_frames_are_found_out) {
    static const uint32_t heads[][2] = {
        { 0, 0 }, { 99, 4 }, { ZT_CONTROL_NOTE, ZT_CONTROL_MOST + 1 }, { ZT_CONTROL_NOTE, ~0u }
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        int pair[2], kind;
        struct zt_control_in *in = calloc(1, sizeof *in);
        const void *data;
        size_t bytes;
        bool bad;
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ck_assert_int_eq(write(pair[0], heads[i], sizeof heads[i]), sizeof heads[i]);
        ck_assert(zt_control_read(pair[1], in));
        ck_assert(!zt_control_next(in, &kind, &data, &bytes, &bad) && bad);
        close(pair[0]);
        close(pair[1]);
        free(in);
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("launch");
    tcase_add_test(tc, ranks_of_every_launcher_are_known);
    tcase_add_test(tc, the_ranks_of_mpirun_inside_a_batch_job_are_mpiruns);
    tcase_add_test(tc, variables_that_cannot_be_are_refused);
    tcase_add_test(tc, ranks_of_torchrun_meet_where_its_variables_say);
    tcase_add_test(tc, a_meeting_that_cannot_be_names_the_variable);
    tcase_add_test(tc, a_hostfile_lists_hosts_and_slots);
    tcase_add_test(tc, hosts_and_slots_are_included_and_excluded);
    tcase_add_test(tc, what_is_no_hostfile_is_refused_with_its_line);
    tcase_add_test(tc, ranks_of_a_host_share_its_cores_evenly);
    tcase_add_test(tc, frames_arrive_whole_and_in_order);
    tcase_add_test(tc, bytes_that_are_no_frames_are_found_out);
    return run_suite("launch", tc, CK_FORK);
}
