/* Files that change while they are mapped. */
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 10 * 4096 + 100 };

static char path[] = "/tmp/ztrain-mapped-XXXXXX", other[sizeof path + 1];
static struct zt_err err;
static struct zt_file_map map;

static void write_bytes(const char *to) {
    static char bytes[BYTES];
    memset(bytes, 'x', sizeof bytes);
    FILE *file = fopen(to, "wb");
    ck_assert(file && fwrite(bytes, 1, sizeof bytes, file) == sizeof bytes && fclose(file) == 0);
}

static void open_file(void) {
    strcpy(path + sizeof path - 7, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(other, sizeof other, "%sb", path);
    write_bytes(path);
    err = (struct zt_err){ 0 };
    ck_assert(zt_file_map(&map, path, ZT_EXIT_MODEL, &err));
}

static void close_file(void) {
    zt_file_unmap(&map);
    unlink(path);
    unlink(other);
}

static int sum(void) {
    int total = 0;
    for (size_t i = 0; i < map.size; i++)
        total += map.data[i] == 'x';
    return total;
}

static void changed(const char *how) {
    ck_assert(!zt_mapped_all_intact(&err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    ck_assert_int_eq(err.count, 1);
    ck_assert_msg(strstr(err.text[0], path) == err.text[0] && strstr(err.text[0], how), "%s", err.text[0]);
}

START_TEST(a_file_that_is_cut_reads_as_zeros_and_is_named) {
    ck_assert_int_eq(sum(), BYTES);
    ck_assert(zt_mapped_all_intact(&err) && zt_mapped_intact(map.mapped, &err) && !zt_mapped_faults());
    ck_assert_int_eq(truncate(path, 5000), 0);
    ck_assert_int_eq(sum(), 5000);
    ck_assert(zt_mapped_faults());
    zt_fail(&err, ZT_EXIT_MODEL, "what the zeros were taken for");
    changed("changed while it was read (was 41060 bytes, is 5000)");
    ck_assert(!zt_file_close(&map, true, &err));
    ck_assert(zt_mapped_all_intact(&err)); /* it is no longer among them */
}
END_TEST

START_TEST(bytes_that_are_gone_without_a_fault_are_found) {
    ck_assert_int_eq(truncate(path, BYTES - 10), 0); /* in the last page */
    ck_assert_int_eq(sum(), BYTES - 10);
    ck_assert(!zt_mapped_faults());
    changed("was 41060 bytes, is 41050");
}
END_TEST

START_TEST(a_file_that_grew_or_was_written_to_is_named) {
    ck_assert_int_eq(truncate(path, BYTES + 1), 0);
    changed("is 41061");
    ck_assert_int_eq(truncate(path, BYTES), 0);
    changed("written to, 41060 bytes as before");
}
END_TEST

START_TEST(a_file_that_is_removed_or_replaced_stays_as_it_was) {
    write_bytes(other);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert(zt_mapped_all_intact(&err));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(zt_mapped_all_intact(&err));
    ck_assert_int_eq(sum(), BYTES);
    ck_assert(zt_file_close(&map, true, &err));
}
END_TEST

START_TEST(a_file_that_is_cut_and_then_replaced_is_named) {
    write_bytes(other);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_int_eq(sum(), 0);
    changed("was 41060 bytes, ended at byte 0");
}
END_TEST

/* As on a bad disk: the page cannot be read, and nothing is to be seen of the file. */
START_TEST(a_page_that_cannot_be_read_of_a_file_as_it_was_is_named) {
    struct stat before;
    ck_assert_int_eq(stat(path, &before), 0);
    ck_assert_int_eq(truncate(path, 8192), 0);
    ck_assert_int_eq(sum(), 8192);
    ck_assert_int_eq(truncate(path, BYTES), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){ before.st_atim, before.st_mtim }, 0), 0);
    changed("cannot be read at byte 8192: its device or file system reports an error");
}
END_TEST

static void *read_all(void *arg) {
    *(int *)arg = sum();
    return NULL;
}

START_TEST(threads_with_blocked_signals_read_on) {
    pthread_t thread[4];
    int found[4];
    ck_assert_int_eq(truncate(path, 4096), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(zt_thread_start(&thread[i], read_all, &found[i]), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
        ck_assert_int_eq(found[i], 4096);
    }
    changed("is 4096");
}
END_TEST

START_TEST(nothing_is_committed_while_a_mapped_file_has_changed) {
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert(!zt_file_write(other, "x", 1, &err));
    ck_assert_int_eq(err.count, 1);
    ck_assert_msg(strstr(err.text[0], "changed while it was read"), "%s", err.text[0]);
    ck_assert(!zt_file_exists(other));
    zt_mapped_checked_by_reader(map.mapped);
    ck_assert(zt_file_write(other, "x", 1, &err));
}
END_TEST

START_TEST(entries_are_used_again) {
    for (int i = 0; i < 1000; i++) {
        struct zt_file_map more;
        ck_assert(zt_file_map(&more, path, ZT_EXIT_DATA, &err));
        ck_assert_int_eq(more.data[0], 'x');
        ck_assert(zt_file_close(&more, true, &err));
    }
}
END_TEST

/* Another mapping of the file, of which nobody told. */
START_TEST(a_bus_error_of_another_origin_ends_the_process) {
    int fd = open(path, O_RDONLY);
    const volatile char *at = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    ck_assert_int_eq(truncate(path, 0), 0);
    (void)at[0];
}
END_TEST

START_TEST(a_bus_error_that_is_sent_ends_the_process) {
    kill(getpid(), SIGBUS);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("mapped");
    tcase_add_checked_fixture(cases, open_file, close_file);
    tcase_add_test(cases, a_file_that_is_cut_reads_as_zeros_and_is_named);
    tcase_add_test(cases, bytes_that_are_gone_without_a_fault_are_found);
    tcase_add_test(cases, a_file_that_grew_or_was_written_to_is_named);
    tcase_add_test(cases, a_file_that_is_removed_or_replaced_stays_as_it_was);
    tcase_add_test(cases, a_file_that_is_cut_and_then_replaced_is_named);
    tcase_add_test(cases, a_page_that_cannot_be_read_of_a_file_as_it_was_is_named);
    tcase_add_test(cases, threads_with_blocked_signals_read_on);
    tcase_add_test(cases, nothing_is_committed_while_a_mapped_file_has_changed);
    tcase_add_test(cases, entries_are_used_again);
#if !defined(__SANITIZE_ADDRESS__) /* which would report these first */
    tcase_add_test_raise_signal(cases, a_bus_error_of_another_origin_ends_the_process, SIGBUS);
    tcase_add_test_raise_signal(cases, a_bus_error_that_is_sent_ends_the_process, SIGBUS);
#endif
    return run_suite("mapped", cases, CK_FORK);
}
