/* Every test works in a folder of its own that is removed at its end. */
#include "tests/base/scratch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct zt_err err;

static char *path_of(const char *name) {
    return zt_path_join(folder, name);
}

static void write_text(const char *name, const char *text) {
    char *path = path_of(name);
    ck_assert_msg(zt_file_write(path, text, strlen(text), &err), "%s", err.text[0]);
    free(path);
}

static void link_to(const char *to, const char *name) {
    char *path = path_of(name);
    ck_assert_int_eq(symlink(to, path), 0);
    free(path);
}

static bool holds(const char *name, const char *text) {
    struct zt_file_map map;
    bool ok = zt_file_map_below(&map, folder, name, ZT_EXIT_MODEL, &err);
    ok = ok && map.size == strlen(text) && memcmp(map.data, text, map.size) == 0;
    zt_file_unmap(&map);
    return ok;
}

START_TEST(a_written_file_reads_back_and_nothing_else_is_left) {
    write_text("a", "first");
    write_text("a", "second, longer");
    ck_assert(holds("a", "second, longer"));
    char *path = path_of("a");
    struct zt_file_map map;
    ck_assert(zt_file_map(&map, path, ZT_EXIT_DATA, &err));
    zt_file_unmap(&map);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file is in the way */
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}
END_TEST

START_TEST(an_empty_file_maps_with_data) {
    write_text("empty", "");
    ck_assert(holds("empty", ""));
}
END_TEST

START_TEST(an_aborted_file_leaves_the_old_one) {
    write_text("a", "old");
    char *path = path_of("a");
    struct zt_file_out out;
    ck_assert(zt_file_out_open(&out, path, &err));
    fputs("new", out.stream);
    zt_file_out_abort(&out);
    zt_file_out_abort(&out);
    ck_assert(holds("a", "old"));
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}
END_TEST

/* Nobody can put a link where the file will be made, and threads do not meet. */
START_TEST(a_file_under_construction_has_a_name_of_its_own) {
    char *path = path_of("a");
    struct zt_file_out one, two;
    ck_assert(zt_file_out_open(&one, path, &err) && zt_file_out_open(&two, path, &err));
    ck_assert_str_ne(one.temporary, two.temporary);
    ck_assert_int_eq(zt_file_links(one.temporary), 1);
    fputs("one", one.stream);
    fputs("two", two.stream);
    ck_assert(zt_file_out_commit(&one, &err) && zt_file_out_commit(&two, &err));
    ck_assert(holds("a", "two"));
    free(path);
}
END_TEST

START_TEST(nothing_is_written_through_a_link) {
    char *path = path_of("a"), *other = path_of("b"), *symbolic = path_of("c");
    write_text("a", "old");
    ck_assert_int_eq(link(path, other), 0);
    ck_assert_int_eq(symlink(other, symbolic), 0);
    ck_assert_int_eq(zt_file_links(path), 2);
    ck_assert_int_eq(zt_file_links(symbolic), 0);
    write_text("a", "new");
    write_text("c", "newer");
    ck_assert(holds("a", "new") && holds("b", "old") && holds("c", "newer"));
    ck_assert_int_eq(zt_file_links(path), 1);
    free(path);
    free(other);
    free(symbolic);
}
END_TEST

START_TEST(a_full_disk_is_found_by_commit_and_says_so) {
    struct zt_file_out out = { .path = zt_strdup("/dev/null/x"), .temporary = zt_strdup("") };
    out.stream = fopen("/dev/full", "wb");
    if (!out.stream) {
        puts("SKIP: /dev/full is not there");
        zt_file_out_abort(&out);
        return;
    }
    for (int i = 0; i < 100000; i++) /* more than the buffer: the failure comes before commit */
        fputs("0123456789", out.stream);
    ck_assert(!zt_file_out_commit(&out, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    ck_assert_ptr_nonnull(strstr(err.text[0], "cannot be written"));
    ck_assert_ptr_null(strstr(err.text[0], "Success"));
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_error_with_the_path) {
    char *path = path_of("missing/a");
    ck_assert(!zt_file_write(path, "x", 1, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], path));
    free(path);
}
END_TEST

START_TEST(a_folder_or_fifo_is_not_replaced_by_a_file) {
    char *folder_path = path_of("there"), *fifo = path_of("fifo"), *linked = path_of("link");
    ck_assert(zt_file_make_folder(folder_path, &err) && mkfifo(fifo, 0666) == 0);
    link_to("fifo", "link");
    const char *const paths[] = { folder_path, fifo, linked };
    for (int i = 0; i < 3; i++) {
        err = (struct zt_err){ 0 };
        ck_assert(!zt_file_write(paths[i], "x", 1, &err) && err.code == ZT_EXIT_DATA);
        ck_assert_msg(strstr(err.text[0], i ? "cannot be written: it is not a regular file" : "it is a folder"), "%s",
                      err.text[0]);
    }
    err = (struct zt_err){ 0 };
    free(folder_path);
    free(fifo);
    free(linked);
}
END_TEST

START_TEST(below_a_folder_only_plain_files_inside_it_are_opened) {
    static const struct {
        const char *name, *words;
    } refused[] = {
        { "/etc/hostname", "absolute path" },
        { "../a", "not a path inside" },
        { "sub/../a", "not a path inside" },
        { "sub//w", "not a path inside" },
        { "sub/", "not a path inside" },
        { "", "not a path inside" },
        { "link", "symbolic link" },
        { "linked/w", "symbolic link" },
        { "sub", "not a regular file" },
        { ".", "not a regular file" },
        { "pipe", "not a regular file" },
        { "missing", "No such file" },
        { "a/w", "" }, /* a is no folder */
    };
    char *sub = path_of("sub"), *pipe = path_of("pipe");
    ck_assert(zt_file_make_folder(sub, &err));
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    write_text("a", "outer");
    write_text("sub/w", "inner");
    link_to("a", "link");
    link_to("sub", "linked");
    ck_assert(holds("a", "outer"));
    ck_assert(holds("sub/w", "inner"));
    ck_assert(holds("./sub/./w", "inner"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct zt_file_map map;
        err = (struct zt_err){ 0 };
        ck_assert_msg(!zt_file_map_below(&map, folder, refused[i].name, ZT_EXIT_MODEL, &err), "%s", refused[i].name);
        ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
        ck_assert_msg(strstr(err.text[0], refused[i].words) != NULL, "%s: %s", refused[i].name, err.text[0]);
    }
    free(sub);
    free(pipe);
}
END_TEST

START_TEST(a_part_longer_than_any_name_is_refused) {
    struct zt_file_map map;
    char *name = zt_malloc(10000);
    memset(name, 'n', 9999);
    name[9999] = 0;
    ck_assert(!zt_file_map_below(&map, folder, name, ZT_EXIT_MODEL, &err));
    free(name);
}
END_TEST

START_TEST(folders_are_made_with_their_parents_and_a_file_in_the_way_is_named) {
    char *deep = path_of("x/y/z"), *blocked = path_of("file/y");
    ck_assert(zt_file_make_folder(deep, &err));
    ck_assert(zt_file_make_folder(deep, &err));
    ck_assert(zt_file_exists(deep));
    write_text("file", "");
    ck_assert(!zt_file_make_folder(blocked, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "/file"));
    if (zt_file_exists("/sys/kernel")) { /* no folder can be made there, for another reason than that there is none */
        err = (struct zt_err){ 0 };
        ck_assert(!zt_file_make_folder("/sys/kernel/ztrain", &err));
        ck_assert_msg(!strstr(err.text[0], strerror(ENOENT)), "%s", err.text[0]);
    }
    free(deep);
    free(blocked);
}
END_TEST

START_TEST(paths_join_and_come_apart) {
    static const struct {
        const char *base, *name, *joined;
    } joins[] = { { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" },
                  { NULL, "b", "b" },  { "a", "/b", "/b" },  { "/", "b", "/b" } };
    static const struct {
        const char *path, *folder, *name;
    } parts[] = {
        { "a/b", "a", "b" }, { "b", ".", "b" }, { "/b", "/", "b" }, { "/a/b/c", "/a/b", "c" }, { "a/", "a", "" }
    };
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        char *path = zt_path_join(joins[i].base, joins[i].name);
        ck_assert_str_eq(path, joins[i].joined);
        free(path);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *of = zt_path_folder(parts[i].path);
        ck_assert_str_eq(of, parts[i].folder);
        ck_assert_str_eq(zt_path_name(parts[i].path), parts[i].name);
        free(of);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("file");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, a_written_file_reads_back_and_nothing_else_is_left);
    tcase_add_test(cases, an_empty_file_maps_with_data);
    tcase_add_test(cases, an_aborted_file_leaves_the_old_one);
    tcase_add_test(cases, a_file_under_construction_has_a_name_of_its_own);
    tcase_add_test(cases, nothing_is_written_through_a_link);
    tcase_add_test(cases, a_full_disk_is_found_by_commit_and_says_so);
    tcase_add_test(cases, a_folder_that_is_not_there_is_an_error_with_the_path);
    tcase_add_test(cases, a_folder_or_fifo_is_not_replaced_by_a_file);
    tcase_add_test(cases, below_a_folder_only_plain_files_inside_it_are_opened);
    tcase_add_test(cases, a_part_longer_than_any_name_is_refused);
    tcase_add_test(cases, folders_are_made_with_their_parents_and_a_file_in_the_way_is_named);
    tcase_add_test(cases, paths_join_and_come_apart);
    return run_suite("file", cases, CK_FORK);
}
