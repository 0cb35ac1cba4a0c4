/* Shared by the files of the optimizers: the macros of their key rows, the compilation of update loops for several
 * instruction sets, and access to coefficients. */
#ifndef ZT_OPTIM_ROW_H
#define ZT_OPTIM_ROW_H

#include "base/clones.h"
#include "optim/shared_keys.h"
#include "optim/optim.h"
#include "optim/step.h"

/* The place of a key's value in the optimizer's own struct. */
#define OWN(params, field) PLACE(ZT_IN_OPTIMIZER, params, field)

/* Copies an optimizer's struct of coefficients into the union. A macro, since
 * the build checks size and first member. */
#define ZT_STORE_COEFFICIENTS(to, c)                                                                                   \
    do {                                                                                                               \
        _Static_assert(offsetof(__typeof__(c), scale) == 0, "scale comes first");                                      \
        _Static_assert(sizeof(c) <= sizeof(union zt_coefficients), "the room for coefficients is too small");          \
        memcpy((to), &(c), sizeof(c));                                                                                 \
    } while (0)
/* The struct of coefficients back from the union. */
#define ZT_COEFFICIENTS(type, from) (*(type *)memcpy(&(type){ 0 }, (from), sizeof(type)))

#endif
