/* Files in place of memory: transfers through both engines, and the folders of ranks. */
#include "tests/base/scratch.h"

#include "parallel/offload/aio.h"
#include "parallel/offload/swap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct zt_err err;
static atomic_int most = 1 << 30; /* bytes of a call to pread and pwrite */

/* The test's own pread and pwrite, which may move less than they are asked for, or be interrupted. */
static int limited(size_t bytes) {
    static atomic_int calls;
    if (most == 1 << 30)
        return (int)bytes;
    if (++calls % 3 == 0)
        return -1;
    return bytes < (size_t)most ? (int)bytes : most;
}

ssize_t pread64(int file, void *to, size_t bytes, off_t at) {
    const int n = limited(bytes);
    errno = EINTR;
    return n < 0 ? -1 : syscall(SYS_pread64, file, to, n, at);
}

ssize_t pwrite64(int file, const void *from, size_t bytes, off_t at) {
    const int n = limited(bytes);
    errno = EINTR;
    return n < 0 ? -1 : syscall(SYS_pwrite64, file, from, n, at);
}

static void begin(void) {
    make_folder();
    err = (struct zt_err){ 0 };
    most = 1 << 30;
}

/* ---- transfers ---- */

static const struct zt_aio_engine *engine_of(int i) {
    return i ? zt_aio_uring : &zt_aio_threads;
}

static struct zt_aio *open_aio(const struct zt_aio_options *options, int engine) {
    struct zt_aio *aio = zt_aio_create(options, engine_of(engine), &err);
    ck_assert_msg(aio != NULL, "%s", err.text[0]);
    return aio;
}

static void fill(char *at, int64_t bytes, unsigned seed) {
    for (int64_t i = 0; i < bytes; i++)
        at[i] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
}

/* Writes in two transfers, reads in one; the numbers of bytes are not multiples of anything. */
static void go_and_return(const struct zt_aio_options *options, int engine) {
    enum { BYTES = 1000003, FIRST = 123457 };
    char *path = zt_path_join(folder, "file"), *from = zt_malloc(BYTES), *to = zt_calloc(1, BYTES);
    struct zt_aio *aio = open_aio(options, engine);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(from, BYTES, 7);
    struct zt_aio_transfer out[2] = { { .path = path, .file = file, .writes = true, .at = from, .bytes = FIRST },
                                      { path, file, true, from + FIRST, FIRST, BYTES - FIRST, 0, { 0 } } },
                           in = { .path = path, .file = file, .at = to, .bytes = BYTES };
    for (int i = 0; i < 2; i++)
        zt_aio_start(aio, &out[i]);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(zt_aio_wait(aio, &out[i], &err), "%s", err.text[0]);
    zt_aio_start(aio, &in);
    ck_assert_msg(zt_aio_wait(aio, &in, &err), "%s", err.text[0]);
    ck_assert(memcmp(from, to, BYTES) == 0);
    zt_aio_destroy(aio);
    close(file);
    free(path);
    free(from);
    free(to);
}

START_TEST(bytes_return_whatever_the_options) {
    static const struct zt_aio_options options[] = {
        { 4096, 1, 1, false, true },    { 512, 3, 2, true, false },     { 1 << 20, 8, 1, false, true },
        { 1 << 30, 32, 4, true, true }, { 65536, 64, 3, false, false },
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        for (int engine = 0; engine < 1 + (zt_aio_uring != NULL); engine++)
            go_and_return(&options[i], engine);
}
END_TEST

START_TEST(calls_that_move_a_part_are_continued) {
    most = 1000;
    go_and_return(&(struct zt_aio_options){ 4096, 2, 2, false, true }, 0);
}
END_TEST

/* The first request moves a part; the rest of it ends at the end of the file. */
START_TEST(a_file_that_ends_is_named_with_the_byte) {
    char *path = zt_path_join(folder, "file"), *to = zt_malloc(1 << 20), expected[600];
    ck_assert(zt_file_write(path, to, 10000, &err));
    snprintf(expected, sizeof expected, "%s: ends at byte 10000", path);
    for (int engine = 0; engine < 1 + (zt_aio_uring != NULL); engine++) {
        struct zt_aio *aio = open_aio(&(struct zt_aio_options){ 16384, 4, 1, false, true }, engine);
        int file = open(path, O_RDONLY);
        struct zt_aio_transfer in = { .path = path, .file = file, .at = to, .bytes = 16384 };
        zt_aio_start(aio, &in);
        err = (struct zt_err){ 0 };
        ck_assert(!zt_aio_wait(aio, &in, &err));
        ck_assert_str_eq(err.text[0], expected);
        ck_assert_int_eq(err.code, ZT_EXIT_DATA);
        zt_aio_destroy(aio);
        close(file);
    }
    free(path);
    free(to);
}
END_TEST

START_TEST(a_write_that_the_system_refuses_is_an_error) {
    char *path = zt_path_join(folder, "file"), *from = zt_calloc(1, 1 << 20);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 65536, 65536 });
    for (int engine = 0; engine < 1 + (zt_aio_uring != NULL); engine++) {
        struct zt_aio *aio = open_aio(&(struct zt_aio_options){ 16384, 4, 2, false, true }, engine);
        int file = open(path, O_RDWR | O_CREAT, 0600);
        struct zt_aio_transfer out = { .path = path, .file = file, .writes = true, .at = from, .bytes = 1 << 20 };
        zt_aio_start(aio, &out);
        err = (struct zt_err){ 0 };
        ck_assert(!zt_aio_wait(aio, &out, &err));
        ck_assert_msg(strstr(err.text[0], "cannot be written at byte") && strstr(err.text[0], "File too large"), "%s",
                      err.text[0]);
        zt_aio_destroy(aio);
        close(file);
    }
    free(path);
    free(from);
}
END_TEST

START_TEST(the_engine_in_use_has_a_name) {
    const struct zt_aio_options options = { 4096, 1, 1, false, true };
    struct zt_aio *aio = open_aio(&options, 0);
    ck_assert_str_eq(zt_aio_name(aio), "threads");
    zt_aio_destroy(aio);
    aio = zt_aio_create(&options, NULL, &err);
    ck_assert(strcmp(zt_aio_name(aio), "io_uring") == 0 || strncmp(zt_aio_name(aio), "threads (", 9) == 0);
    zt_aio_destroy(aio);
}
END_TEST

/* ---- folders and files ---- */

static struct zt_swap_folder *open_rank(int rank) {
    return zt_swap_folder_open(&(struct zt_swap_place){ folder, "run", rank }, &err);
}

static char *below(const char *name) {
    return zt_path_join(folder, name);
}

START_TEST(a_file_begins_as_zeros_and_the_folders_go) {
    struct zt_swap_folder *f = open_rank(0), *g = open_rank(1);
    struct zt_swap_file file;
    char buffer[4096], *run = below("ztrain-run");
    ck_assert_msg(f && g, "%s", err.text[0]);
    ck_assert_msg(zt_swap_file_init(&file, f, "a.swp", 1 << 20, &err), "%s", err.text[0]);
    int plain = open(file.path, O_RDONLY);
    ck_assert_int_eq(lseek(plain, 0, SEEK_END), 1 << 20);
    ck_assert_int_eq(pread(plain, buffer, sizeof buffer, 500000), sizeof buffer);
    for (size_t i = 0; i < sizeof buffer; i++)
        ck_assert_int_eq(buffer[i], 0);
    close(plain);
    zt_swap_file_finish(&file);
    zt_swap_folder_close(f);
    ck_assert_int_eq(access(run, F_OK), 0); /* the other rank's is in it */
    zt_swap_folder_close(g);
    ck_assert_int_ne(access(run, F_OK), 0);
    free(run);
}
END_TEST

START_TEST(what_a_killed_run_has_left_is_removed) {
    char *rank = below("ztrain-run/rank0"), *left = below("ztrain-run/rank0/optimizer.swp");
    ck_assert(zt_file_make_folder(rank, &err) && zt_file_write(left, "old", 3, &err));
    struct zt_swap_folder *f = open_rank(0);
    struct zt_swap_file file;
    ck_assert_msg(f != NULL, "%s", err.text[0]);
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_msg(zt_swap_file_init(&file, f, "optimizer.swp", 4096, &err), "%s", err.text[0]);
    zt_swap_file_finish(&file);
    zt_swap_folder_close(f);
    free(rank);
    free(left);
}
END_TEST

START_TEST(links_are_not_followed) {
    char *other = below("other"), *kept = below("other/kept"), *run = below("ztrain-run");
    ck_assert(zt_file_make_folder(other, &err) && zt_file_write(kept, "x", 1, &err));
    ck_assert_int_eq(symlink("other", run), 0);
    ck_assert_ptr_null(open_rank(0));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    ck_assert_int_eq(access(kept, F_OK), 0);
    unlink(run);
    char *rank = below("ztrain-run/rank0"), *link = below("ztrain-run/rank0/optimizer.swp");
    ck_assert(zt_file_make_folder(rank, &err));
    ck_assert_int_eq(symlink(kept, link), 0);
    struct zt_swap_folder *f = open_rank(0); /* removes the link, not what it points to */
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(access(kept, F_OK), 0);
    zt_swap_folder_close(f);
    char *const all[] = { other, kept, run, rank, link };
    for (int i = 0; i < 5; i++)
        free(all[i]);
}
END_TEST

START_TEST(a_folder_in_use_is_refused) {
    struct zt_swap_folder *f = open_rank(0);
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_null(open_rank(0));
    ck_assert_ptr_nonnull(strstr(err.text[0], "another process offloads the same run"));
    ck_assert_int_eq(access(zt_swap_folder_path(f), F_OK), 0);
    zt_swap_folder_close(f);
}
END_TEST

START_TEST(a_disk_without_space_is_told_with_both_sizes) {
    struct zt_swap_folder *f = open_rank(0);
    struct zt_swap_file file;
    ck_assert(!zt_swap_file_init(&file, f, "a.swp", (int64_t)1 << 60, &err));
    ck_assert_msg(strstr(err.text[0], "needs 1153 PB") && strstr(err.text[0], "free"), "%s", err.text[0]);
    zt_swap_file_finish(&file);
    zt_swap_folder_close(f);
}
END_TEST

START_TEST(a_limit_of_file_sizes_is_an_error) {
    struct zt_swap_folder *f = open_rank(0);
    struct zt_swap_file file;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 4096, 4096 });
    ck_assert(!zt_swap_file_init(&file, f, "a.swp", 1 << 20, &err));
    ck_assert_msg(strstr(err.text[0], "cannot reserve 1.0 MB: File too large"), "%s", err.text[0]);
    zt_swap_file_finish(&file);
    zt_swap_folder_close(f);
}
END_TEST

START_TEST(a_path_that_is_no_folder_is_named) {
    char *path = below("file");
    ck_assert(zt_file_write(path, "x", 1, &err));
    ck_assert_ptr_null(zt_swap_folder_open(&(struct zt_swap_place){ path, "run", 0 }, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "the folder cannot be opened: Not a directory"));
    free(path);
}
END_TEST

int main(void) {
    const TTest *const tests[] = { bytes_return_whatever_the_options,
                                   calls_that_move_a_part_are_continued,
                                   a_file_that_ends_is_named_with_the_byte,
                                   a_write_that_the_system_refuses_is_an_error,
                                   the_engine_in_use_has_a_name,
                                   a_file_begins_as_zeros_and_the_folders_go,
                                   what_a_killed_run_has_left_is_removed,
                                   links_are_not_followed,
                                   a_folder_in_use_is_refused,
                                   a_disk_without_space_is_told_with_both_sizes,
                                   a_limit_of_file_sizes_is_an_error,
                                   a_path_that_is_no_folder_is_named };
    TCase *cases = tcase_create("offload");
    tcase_add_checked_fixture(cases, begin, remove_folder);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(cases, tests[i]);
    return run_suite("offload", cases, CK_FORK);
}
