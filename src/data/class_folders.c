#include "data/class_folders.h"

#include "base/arena.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEEPEST = 32, MOST_CLASSES = 1 << 20 };

static bool ends_in(const char *name, const char *const *endings) {
    const char *dot = strrchr(name, '.');
    for (; dot && *endings; endings++)
        if (strcasecmp(dot, *endings) == 0)
            return true;
    return false;
}

static int in_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a folder, sorted by bytes; without "." and "..". Free them with free_names(). */
struct names {
    ZT_VEC(char *) list;
};

static void free_names(struct names *names) {
    for (int i = 0; i < names->list.count; i++)
        free(names->list.at[i]);
    zt_vec_finish(&names->list);
}

static bool list_folder(const char *folder, struct names *names, struct zt_err *err) {
    DIR *dir = opendir(folder);
    if (!dir)
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            zt_vec_push(&names->list, zt_strdup(entry->d_name));
    closedir(dir);
    if (names->list.count)
        qsort(names->list.at, (size_t)names->list.count, sizeof *names->list.at, in_bytes);
    return true;
}

/* The folders in a folder. */
static bool list_classes(const char *root, struct names *classes, struct zt_err *err) {
    struct names all = { 0 };
    bool ok = list_folder(root, &all, err);
    for (int i = 0; i < all.list.count; i++) {
        char *path = zt_path_join(root, all.list.at[i]);
        if (zt_file_is_folder(path))
            zt_vec_push(&classes->list, zt_strdup(all.list.at[i]));
        free(path);
    }
    free_names(&all);
    if (ok && classes->list.count == 0)
        ok = zt_fail(err, ZT_EXIT_DATA, "%s: has no class folders", root) ||
             zt_hint(err, "the pictures of a class are the files of a folder: %s/CLASS/NAME.png", root);
    if (ok && classes->list.count > MOST_CLASSES)
        ok = zt_fail(err, ZT_EXIT_DATA, "%s: has %d class folders, at most %d are allowed", root, classes->list.count,
                     MOST_CLASSES);
    return ok;
}

static bool add_file(struct zt_class_folders *to, const char *root, const char *below, int label, struct zt_err *err) {
    static const char *const read[] = { ".jpg", ".jpeg", ".png", NULL };
    static const char *const unread[] = { ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", NULL };
    if (ends_in(below, unread)) {
        zt_fail(err, ZT_EXIT_DATA, "%s/%s: is neither a JPEG nor a PNG file", root, below);
        return zt_hint(err, "convert it to PNG, or move it out of the folder");
    }
    if (!ends_in(below, read))
        return true;
    if (to->entries.count == INT_MAX / 2)
        return zt_fail(err, ZT_EXIT_DATA, "%s: has more than %d files", root, INT_MAX / 2);
    zt_vec_push(&to->entries, ((struct zt_class_file){ to->names.length, label }));
    zt_text_add_bytes(&to->names, below, strlen(below) + 1);
    return true;
}

/* The files of a folder come before those of the folders in it, as torchvision's sorted walk has them. */
static bool walk(struct zt_class_folders *to, const char *root, const char *below, int label, int depth,
                 struct zt_err *err) {
    char *folder = zt_path_join(root, below);
    struct names names = { 0 };
    bool ok = depth < DEEPEST || zt_fail(err, ZT_EXIT_DATA, "%s: lies more than %d folders deep", folder, DEEPEST);
    ok = ok && list_folder(folder, &names, err);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; ok && i < names.list.count; i++) {
            char *path = zt_path_join(below, names.list.at[i]), *whole = zt_path_join(root, path);
            const bool is_folder = zt_file_is_folder(whole);
            if (pass == 1 && is_folder)
                ok = walk(to, root, path, label, depth + 1, err);
            else if (pass == 0 && !is_folder)
                ok = add_file(to, root, path, label, err);
            free(whole);
            free(path);
        }
    free_names(&names);
    free(folder);
    return ok;
}

static bool add_class(struct zt_class_folders *to, const char *root, const char *name, const struct names *known,
                      struct zt_err *err) {
    char *const *found = bsearch(&name, known->list.at, (size_t)known->list.count, sizeof *known->list.at, in_bytes);
    const int before = to->entries.count;
    if (!found)
        return zt_fail(err, ZT_EXIT_DATA, "%s/%s: the training data have no class of this name", root, name);
    if (!walk(to, root, name, (int)(found - known->list.at), 0, err))
        return false;
    return to->entries.count > before ||
           zt_fail(err, ZT_EXIT_DATA, "%s/%s: the class has no JPEG or PNG file", root, name);
}

bool zt_class_folders_list(struct zt_class_folders *to, const char *root, const char *classes, struct zt_err *err) {
    struct names known = { 0 }, own = { 0 };
    bool ok = list_classes(root, &own, err) && list_classes(classes, &known, err);
    to->classes = known.list.count;
    for (int i = 0; ok && i < own.list.count; i++)
        ok = add_class(to, root, own.list.at[i], &known, err);
    free_names(&own);
    free_names(&known);
    return ok;
}

void zt_class_folders_finish(struct zt_class_folders *folders) {
    zt_vec_finish(&folders->entries);
    zt_text_finish(&folders->names);
}
