/* Sources of the secret of a job, and values that are refused. */
#include "parallel/comm/secret.h"

#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] = "0123456789abcdef0123456789abcdef";

static bool find(const char *secret, const char *file, struct zt_secret *to, struct zt_err *err) {
    unsetenv("ZTRAIN_SECRET");
    unsetenv("ZTRAIN_SECRET_FILE");
    if (secret)
        setenv("ZTRAIN_SECRET", secret, 1);
    if (file)
        setenv("ZTRAIN_SECRET_FILE", file, 1);
    *err = (struct zt_err){ 0 };
    return zt_secret_find(to, err);
}

static void refuse(const char *secret, const char *file, const char *words) {
    struct zt_secret s;
    struct zt_err err;
    ck_assert_msg(!find(secret, file, &s, &err), "taken: %s %s", secret ? secret : "", file ? file : "");
    ck_assert_msg(err.count == 1 && err.code == ZT_EXIT_CONFIG && strstr(err.text[0], words), "%s", err.text[0]);
    ck_assert_msg(!strstr(err.text[0], text) && !strstr(err.hint[0], text), "%s", err.text[0]);
}

static void write_file(const char *path, const char *words, mode_t mode) {
    FILE *f = fopen(path, "w");
    ck_assert(f && fputs(words, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

START_TEST(variable_and_file_give_the_same_key) {
    struct zt_secret a, b, none;
    struct zt_err err;
    char line[64], path[] = "/tmp/zt-secret-XXXXXX";
    close(mkstemp(path));
    snprintf(line, sizeof line, "%s\n", text);
    write_file(path, line, 0600);
    ck_assert(find(text, NULL, &a, &err) && find(NULL, path, &b, &err) && find(NULL, NULL, &none, &err));
    ck_assert(a.given && b.given && !none.given);
    ck_assert(memcmp(a.key, b.key, ZT_MAC) == 0 && memcmp(a.key, none.key, ZT_MAC) != 0);
    unlink(path);
}
END_TEST

START_TEST(the_text_is_taken_out_of_the_environment) {
    struct zt_secret s;
    struct zt_err err;
    setenv("ZTRAIN_SECRET", text, 1);
    const char *at = getenv("ZTRAIN_SECRET");
    unsetenv("ZTRAIN_SECRET_FILE");
    ck_assert(zt_secret_find(&s, &err));
    ck_assert_ptr_null(getenv("ZTRAIN_SECRET"));
    ck_assert_ptr_null(memmem(at, strlen(text), text, strlen(text)));
}
END_TEST

START_TEST(what_is_no_secret_is_refused) {
    char path[] = "/tmp/zt-secret-XXXXXX", folder[] = "/tmp/zt-secrets-XXXXXX", fifo[64];
    char *long_text = malloc(ZT_SECRET_MOST + 2);
    close(mkstemp(path));
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    ck_assert(mkfifo(fifo, 0600) == 0);
    memset(long_text, 'a', ZT_SECRET_MOST + 1);
    long_text[ZT_SECRET_MOST + 1] = 0;
    refuse("", NULL, "ZTRAIN_SECRET: the secret has 0 bytes, allowed are 16 to 4096");
    refuse("short", NULL, "the secret has 5 bytes");
    refuse(long_text, NULL, "the secret has 4097 bytes");
    refuse(text, path, "are both set");
    refuse(NULL, "/tmp/zt-there-is-none", "No such file");
    refuse(NULL, folder, "is no regular file");
    refuse(NULL, fifo, "is no regular file");
    write_file(path, text, 0640);
    refuse(NULL, path, "mode 0640 lets other users read or change the secret");
    write_file(path, text, 0604);
    refuse(NULL, path, "mode 0604");
    write_file(path, "\n", 0600);
    refuse(NULL, path, "ZTRAIN_SECRET_FILE: the secret has 0 bytes");
    write_file(path, long_text, 0600);
    refuse(NULL, path, "the secret has 4097 bytes");
    unlink(path);
    unlink(fifo);
    rmdir(folder);
    free(long_text);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("secret");
    tcase_add_test(test, variable_and_file_give_the_same_key);
    tcase_add_test(test, the_text_is_taken_out_of_the_environment);
    tcase_add_test(test, what_is_no_secret_is_refused);
    return run_suite("secret", test, CK_FORK);
}
