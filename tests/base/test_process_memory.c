#include "base/process_memory.h"

#include "base/file.h"
#include "base/mapped.h"
#include "tests/suite.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 32 << 20, SLACK = 8 << 20 };

static bool is_near(int64_t bytes, int64_t want) {
    return bytes > want - SLACK && bytes < want + SLACK;
}

START_TEST(touched_memory_counts_until_it_is_given_back) {
    struct zt_process_memory before = zt_process_memory_of(getpid());
    ck_assert(before.now > 0 && before.peak >= before.now);
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own, 1, BYTES);
    ck_assert(is_near(zt_process_memory_of(getpid()).now, before.now + BYTES));
    munmap(own, BYTES);
    struct zt_process_memory after = zt_process_memory_of(getpid());
    ck_assert(is_near(after.now, before.now) && after.peak >= before.now + BYTES - SLACK);
}
END_TEST

static char sum_of(const volatile char *data) {
    char sum = 0;
    for (int i = 0; i < BYTES; i += 4096)
        sum = (char)(sum + data[i]);
    return sum;
}

START_TEST(pages_of_a_file_are_given_back_and_read_again) {
    char path[] = "/tmp/ztrain-resident-XXXXXX", page[4096];
    struct zt_file_map map;
    struct zt_err err = { 0 };
    const int fd = mkstemp(path);
    memset(page, 'x', sizeof page);
    for (int i = 0; i < BYTES / 4096; i++)
        ck_assert_int_eq(write(fd, page, sizeof page), sizeof page);
    close(fd);
    ck_assert(zt_file_map(&map, path, ZT_EXIT_MODEL, &err));
    const int64_t before = zt_process_memory_of(getpid()).now;
    const char sum = sum_of((const char *)map.data);
    ck_assert(is_near(zt_process_memory_of(getpid()).now, before + BYTES));
    zt_mapped_give_back(map.data + 1, BYTES - 1);
    ck_assert(is_near(zt_process_memory_of(getpid()).now, before));
    ck_assert_int_eq(sum_of((const char *)map.data), sum);
    zt_mapped_give_back(page, sizeof page); /* not of a file */
    ck_assert_int_eq(page[1], 'x');
    zt_file_unmap(&map);
    unlink(path);
}
END_TEST

START_TEST(what_a_peer_holds_does_not_count) {
    int fd = memfd_create(ZT_SHARED_NAME, MFD_CLOEXEC);
    ck_assert(fd >= 0 && ftruncate(fd, BYTES) == 0);
    struct zt_process_memory before = zt_process_memory_of(getpid());
    volatile const char *theirs = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert(theirs != MAP_FAILED);
    char sum = 0;
    for (int i = 0; i < BYTES; i += 4096)
        sum = (char)(sum + theirs[i]);
    ck_assert_int_eq(sum, 0);
    ck_assert(is_near(zt_process_memory_of(getpid()).now, before.now));
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(own, 1, BYTES);
    ck_assert(is_near(zt_process_memory_of(getpid()).now, before.now + BYTES));
}
END_TEST

START_TEST(a_process_that_is_gone_has_none) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(zt_process_memory_of(child).now, 0);
    ck_assert_int_eq(zt_process_memory_of(child).peak, 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("process_memory");
    tcase_add_test(cases, touched_memory_counts_until_it_is_given_back);
    tcase_add_test(cases, pages_of_a_file_are_given_back_and_read_again);
    tcase_add_test(cases, what_a_peer_holds_does_not_count);
    tcase_add_test(cases, a_process_that_is_gone_has_none);
    return run_suite("process_memory", cases, CK_FORK);
}
