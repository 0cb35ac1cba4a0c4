/* Helpers of the fuzz targets: files from bytes, and the program's own main as a function.
 *
 * A target is one file with LLVMFuzzerTestOneInput. It writes nowhere but into memory (memfd) and into one folder of
 * its process, below TMPDIR. A broken promise aborts, which libFuzzer reports with the input. */
#ifndef ZT_TESTS_FUZZ_FUZZ_H
#define ZT_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target, called by libFuzzer and by the replay of seeds (read only). Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless it holds. */
void fuzz_promise(bool holds);

/* The path of a file in memory that holds these bytes, until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* This process's folder, made on the first call; removed when the process exits. */
const char *fuzz_folder(void);
/* Makes it the current folder, which the names below are in. */
void fuzz_enter(void);
void fuzz_put(const char *name, const void *data, size_t size);
/* An empty folder; and away with it. */
void fuzz_make(const char *name);
void fuzz_remove(const char *name);

/* Runs the whole program on these words (ends with NULL), and holds it to contract.md: an exit code of its own, and no
 * temporary file left in `output`, which is removed. */
void fuzz_run(char *const *argv, const char *output);

struct zt_tensor;
struct zt_value;
/* Zeros, ones and twos for a graph input, of its type and shape; `samples` stands where its first dimension is free or
 * a batch, 2 where another is free. False where that is no array or a large one. The data are freed with free(). */
bool fuzz_tensor(const struct zt_value *value, int64_t samples, struct zt_tensor *tensor);

/* Runs predict or grad on a model and such inputs. */
void fuzz_eager(const char *command, const uint8_t *model, size_t size);

/* Bytes in front of the model in an input; of targets that fuzz_mutate.c changes the inputs of. */
extern const size_t fuzz_choice_bytes;

#endif
