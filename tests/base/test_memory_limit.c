/* Limits of a host's memory, read from made files of both versions of control groups. */
#include "tests/base/scratch.h"

#include "base/process_memory.h"

#include <string.h>
#include <unistd.h>

static void write_text(const char *name, const char *text) {
    struct zt_err err = { 0 };
    char *path = zt_path_join(folder, name), *parent = zt_path_folder(path);
    ck_assert_msg(zt_file_make_folder(parent, &err) && zt_file_write(path, text, strlen(text), &err), "%s",
                  err.text[0]);
    free(parent);
    free(path);
}

static struct zt_host_memory read_made(void) {
    char *meminfo = zt_path_join(folder, "meminfo"), *cgroup = zt_path_join(folder, "cgroup"),
         *mounts = zt_path_join(folder, "fs");
    struct zt_host_memory m = zt_host_memory(&(struct zt_memory_files){ meminfo, cgroup, mounts });
    free(meminfo);
    free(cgroup);
    free(mounts);
    return m;
}

#define MACHINE "MemTotal:       16000000 kB\nMemFree: 1 kB\n" /* 16,384,000,000 bytes */

START_TEST(without_groups_it_is_the_memory_of_the_machine) {
    write_text("meminfo", MACHINE);
    struct zt_host_memory m = read_made();
    ck_assert_int_eq(m.bytes, 16384000000);
    ck_assert_str_eq(m.source, "the machine");
}
END_TEST

START_TEST(a_group_of_version_2_limits_it) {
    write_text("meminfo", MACHINE);
    write_text("cgroup", "0::/user/job\n");
    write_text("fs/user/job/memory.max", "4294967296\n");
    struct zt_host_memory m = read_made();
    ck_assert_int_eq(m.bytes, 4294967296);
    ck_assert_ptr_nonnull(strstr(m.source, "fs/user/job/memory.max"));
}
END_TEST

START_TEST(the_smallest_limit_of_all_groups_around_counts) {
    write_text("meminfo", MACHINE);
    write_text("cgroup", "0::/user/job\n");
    write_text("fs/user/job/memory.max", "max\n");
    write_text("fs/user/memory.max", "1000000\n");
    ck_assert_int_eq(read_made().bytes, 1000000);
}
END_TEST

START_TEST(a_group_of_version_1_limits_it) {
    write_text("meminfo", MACHINE);
    write_text("cgroup", "5:devices:/other\n4:hugetlb,memory:/a/b\n0::/\n");
    write_text("fs/memory/a/b/memory.limit_in_bytes", "2000000\n");
    write_text("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_int_eq(read_made().bytes, 2000000);
}
END_TEST

/* In a container only the root of the group is mounted, whatever its path on the host is. */
START_TEST(a_container_sees_its_limit_at_the_root) {
    write_text("meminfo", MACHINE);
    write_text("cgroup", "4:memory:/docker/0123\n");
    write_text("fs/memory/memory.limit_in_bytes", "3000000\n");
    ck_assert_int_eq(read_made().bytes, 3000000);
}
END_TEST

START_TEST(a_limit_above_the_machine_is_none) {
    write_text("meminfo", MACHINE);
    write_text("cgroup", "0::/\nnonsense\n7:memory\n");
    write_text("fs/memory.max", "99999999999999\n");
    ck_assert_int_eq(read_made().bytes, 16384000000);
}
END_TEST

START_TEST(without_any_file_it_is_unknown) {
    ck_assert_int_eq(read_made().bytes, 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = { without_groups_it_is_the_memory_of_the_machine,
                                   a_group_of_version_2_limits_it,
                                   the_smallest_limit_of_all_groups_around_counts,
                                   a_group_of_version_1_limits_it,
                                   a_container_sees_its_limit_at_the_root,
                                   a_limit_above_the_machine_is_none,
                                   without_any_file_it_is_unknown };
    TCase *cases = tcase_create("host memory");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(cases, tests[i]);
    return run_suite("host memory", cases, CK_FORK);
}
