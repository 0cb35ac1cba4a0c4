/* The optimizers of the program, a line each. ROW(name) stands for zt_optimizer_NAME of optim/NAME.c and for
 * zt_optimizer_cuda_NAME of optim/NAME.cu: a program or module that lacks one of them does not link. The order is that
 * of messages. */
#ifndef ZT_OPTIM_TABLE_H
#define ZT_OPTIM_TABLE_H

#define ZT_OPTIMIZERS(ROW)                                                                                             \
    ROW(adam)                                                                                                          \
    ROW(adamw)                                                                                                         \
    ROW(sgd)                                                                                                           \
    ROW(lamb)                                                                                                          \
    ROW(lion)                                                                                                          \
    ROW(adagrad)                                                                                                       \
    ROW(rmsprop)                                                                                                       \
    ROW(muon)                                                                                                          \
    /* the next one above this line */

/* The numbers by which the CUDA module knows them: ZT_OPTIMIZER_adam, ... */
#define ZT_OPTIMIZER_ID(name) ZT_OPTIMIZER_##name,
enum zt_optimizer_id { ZT_OPTIMIZERS(ZT_OPTIMIZER_ID) ZT_OPTIMIZER_COUNT };
#undef ZT_OPTIMIZER_ID

#endif
