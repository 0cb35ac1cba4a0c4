/* Processes that want the same folder. */
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/ztrain-lock-XXXXXX";
static struct zt_err err;

static void make_folder(void) {
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    err = (struct zt_err){ 0 };
}

static void remove_folder(void) {
    char *path = zt_path_join(folder, ".ztrain-lock");
    unlink(path);
    free(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(one_holds_it_and_the_other_is_told_who) {
    char who[64], *path = zt_path_join(folder, ".ztrain-lock");
    struct zt_folder_lock *lock = zt_folder_lock(folder, &err);
    ck_assert_ptr_nonnull(lock);
    ck_assert_ptr_null(zt_folder_unlockable(lock));
    ck_assert(!zt_folder_is_free(folder, &err) && strstr(err.text[0], "another run writes here: process "));
    err.count = 0;
    ck_assert_ptr_null(zt_folder_lock(folder, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    snprintf(who, sizeof who, "another run writes here: process %ld on ", (long)getpid());
    ck_assert_msg(strstr(err.text[0], folder) == err.text[0] && strstr(err.text[0], who), "%s", err.text[0]);
    zt_folder_unlock(lock);
    ck_assert(zt_folder_is_free(folder, &err) && !zt_file_exists(path));
    lock = zt_folder_lock(folder, &err);
    ck_assert_ptr_nonnull(lock);
    zt_folder_unlock(lock);
    zt_folder_unlock(NULL);
    free(path);
}
END_TEST

START_TEST(a_killed_holder_holds_nothing) {
    int told[2];
    char byte;
    ck_assert_int_eq(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        if (!zt_folder_lock(folder, &err) || write(told[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(told[0], &byte, 1), 1);
    ck_assert_ptr_null(zt_folder_lock(folder, &err));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct zt_folder_lock *lock = zt_folder_lock(folder, &err);
    ck_assert_ptr_nonnull(lock); /* although the file is there */
    zt_folder_unlock(lock);
    close(told[0]);
    close(told[1]);
}
END_TEST

/* Each that gets the lock makes a file that must not be there, and removes it: also while others remove the lock's. */
static int take_turns(const char *mark) {
    int turns = 0;
    for (int i = 0; i < 2000 || turns == 0; i++) { /* on a busy machine others may have taken them all */
        struct zt_err refused = { 0 };
        struct zt_folder_lock *lock = zt_folder_lock(folder, &refused);
        if (!lock)
            continue;
        int fd = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0)
            return -1;
        close(fd);
        unlink(mark);
        zt_folder_unlock(lock);
        turns++;
    }
    return turns;
}

START_TEST(two_never_hold_it_at_once) {
    char *mark = zt_path_join(folder, "mark");
    pid_t child[3];
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(take_turns(mark) > 0 ? 0 : 1);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        ck_assert_int_eq(status, 0);
    }
    free(mark);
}
END_TEST

START_TEST(a_link_in_its_place_is_not_followed) {
    char *path = zt_path_join(folder, ".ztrain-lock");
    ck_assert_int_eq(symlink("/nonexistent/target", path), 0);
    ck_assert_ptr_null(zt_folder_lock(folder, &err));
    ck_assert_msg(strstr(err.text[0], path) != NULL, "%s", err.text[0]);
    free(path);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("folder-lock");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, one_holds_it_and_the_other_is_told_who);
    tcase_add_test(cases, a_killed_holder_holds_nothing);
    tcase_add_test(cases, two_never_hold_it_at_once);
    tcase_add_test(cases, a_link_in_its_place_is_not_followed);
    return run_suite("folder-lock", cases, CK_FORK);
}
