#include "reference.h"

#include "base/file.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>

char *zt_test_reference(const char *name) {
    const char *folder = getenv("ZT_REFERENCE");
    return zt_path_join(folder ? folder : "tests/reference", name);
}

void zt_test_each_case(void (*run)(const char *folder)) {
    char *cases = zt_test_reference("cases");
    DIR *dir = opendir(cases);
    int count = 0;
    ck_assert_msg(dir != NULL, "%s is not there", cases);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char *folder = zt_path_join(cases, entry->d_name);
        run(folder);
        count++;
        free(folder);
    }
    closedir(dir);
    free(cases);
    ck_assert_int_gt(count, 0);
}
