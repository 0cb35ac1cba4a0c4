/* The files of a folder that has a folder for each class. */
#ifndef ZT_DATA_CLASS_FOLDERS_H
#define ZT_DATA_CLASS_FOLDERS_H

#include "base/err.h"
#include "base/text.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_class_file {
    size_t name; /* in `names`: the path below the folder */
    int32_t label;
};

/* Zero-initialise. Finish with zt_class_folders_finish(). */
struct zt_class_folders {
    ZT_VEC(struct zt_class_file) entries;
    struct zt_text names; /* one after the other, each with its closing 0 */
    int classes;
};

/* Lists the JPEG and PNG files below `root`, class by class, each in the order of folder and name. Classes have the
 * numbers of the folders in `classes`, in the order of their names; it may be `root` itself. Errors: folders that
 * cannot be read, classes without files or unknown in `classes`, and images of kinds that cannot be decoded. */
bool zt_class_folders_list(struct zt_class_folders *to, const char *root, const char *classes, struct zt_err *err);
void zt_class_folders_finish(struct zt_class_folders *folders);

#endif
