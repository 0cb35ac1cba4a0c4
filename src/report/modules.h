/* The modules of a model, as the names of its nodes tell them: a tree with parameters, FLOPs and times.
 *
 *     node "/blocks/blocks.0/conv1/Conv"    is in module blocks/blocks.0/conv1, whose parent is blocks/blocks.0
 *     ": Net/blocks: Sequential/blocks.0: Block/linear: aten.linear"    PyTorch's metadata of a node: blocks/blocks.0
 *
 * Nodes without such a name belong to the root. Modules below ZT_MODULES_DEEPEST belong to their parents. A node that
 * replaces others belongs to the module of the one whose name it has. */
#ifndef ZT_REPORT_MODULES_H
#define ZT_REPORT_MODULES_H

#include "base/arena.h"
#include "base/map.h"
#include "graph/onnx/onnx.h"

enum { ZT_MODULES_DEEPEST = 64 };

struct zt_module {
    const char *name;                    /* without the names of its parents: "conv1", "0"; "" for the root */
    const char *class;                   /* "Conv2d"; otherwise the name, without a number: "layer.*" */
    int parent, depth;                   /* index of the parent, -1 for the root; depth 0 for the root */
    int first, last, next;               /* first and last child, next sibling; -1: none */
    double params, macs, flops, seconds; /* of the module and all modules in it, in one forward pass */
};

/* The root is module 0; parents come before their children. */
struct zt_modules {
    struct zt_arena *arena;
    const struct zt_graph *graph; /* of the model file */
    struct zt_module *at;
    int count, room, deepest;
    struct zt_map by_path, by_node; /* by_node: index of a node of the file by name */
    int *reader;                    /* by value: the first node that reads it; -1: none */
};

/* Reads the modules of `model`, which is borrowed; all numbers are 0. Free with zt_modules_finish(). */
void zt_modules_init(struct zt_modules *to, const struct zt_onnx *model);
void zt_modules_finish(struct zt_modules *modules);
/* Adds to the module of a node of the training graph, and to its parents. */
void zt_modules_add(struct zt_modules *modules, const char *node, const struct zt_module *numbers);
/* Adds the elements of a parameter to the module of the first node that reads it. */
void zt_modules_add_param(struct zt_modules *modules, const char *initializer, double elements);

#endif
