/* Defaults of sections that neither the files nor the command line give. */
#ifndef ZT_CONFIG_DEFAULTS_H
#define ZT_CONFIG_DEFAULTS_H

#include "config/read.h"

/* Adds the optimizer of Hugging Face's Trainer where none is given: scripts that use the Trainer leave it out of the
 * file. A note says so where the command trains. */
void zt_config_add_defaults(struct zt_reading *r, bool trains);
/* Notes the defaults of training in which DeepSpeed's versions differ. For a configuration without problems. */
void zt_config_note_defaults(struct zt_reading *r);

#endif
