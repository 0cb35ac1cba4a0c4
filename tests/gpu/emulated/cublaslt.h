/* The emulated cuBLASLt, as much of it as the CUDA module calls, and what tests ask of it. */
#ifndef ZT_TESTS_GPU_EMULATED_CUBLASLT_H
#define ZT_TESTS_GPU_EMULATED_CUBLASLT_H

/* Number of calls of its heuristic. */
int emulated_heuristics(void);

/* From now on it knows no algorithm that it gave before. */
void emulated_forgets(void);

#endif
