#include "ops/control/loop_attributes.h"

void zt_loop_shape_of(const struct zt_node *n, struct zt_loop_shape *to) {
    *to = (struct zt_loop_shape){ .iterations = zt_attr_int(n, "iterations", 0),
                                  .states = (int)zt_attr_int(n, "states", 0),
                                  .body = zt_node_attr(n, "body")->graph };
    to->reverse_in = zt_attr_ints(n, "reverse_in", &to->slices);
    to->reverse_out = zt_attr_ints(n, "reverse_out", &to->stacks);
    to->captured = to->body->input_count - 1 - to->states - to->slices;
}

void zt_loop_gradient_of(const struct zt_node *n, struct zt_loop_gradient *to) {
    to->graph = zt_node_attr(n, "gradient")->graph;
    to->states = zt_attr_ints(n, "float_states", &to->state_count);
    to->given = zt_attr_ints(n, "given", &to->given_count);
    to->slices = zt_attr_ints(n, "wanted_slices", &to->slice_count);
    to->captured = zt_attr_ints(n, "wanted_captured", &to->captured_count);
}
