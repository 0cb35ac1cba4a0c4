/* Extraction of one pipeline stage from the training graph. */
#ifndef ZT_PARALLEL_SCHEDULE_STAGE_GRAPH_H
#define ZT_PARALLEL_SCHEDULE_STAGE_GRAPH_H

#include "parallel/schedule/program.h"

/* Removes the nodes of other stages from p->training_graph.graph and lists the boundary tensors. Received values become
 * inputs.
 */
bool zt_program_stage_graph(struct zt_program *p, int stages, struct zt_err *err);

#endif
