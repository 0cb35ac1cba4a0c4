/* Several sources of one configuration: a later file lies over the earlier ones, and the command line over all files.
 */
#ifndef ZT_CONFIG_OVERLAY_H
#define ZT_CONFIG_OVERLAY_H

#include "config/read.h"

/* Moves the members of `top` into the object `base`, key by key: an object is merged with the object of the same key,
 * any other value takes the place of the value of a lower layer. Two values of one layer, which are two names of one
 * key, must be equal. Where `top` names another optimizer or scheduler, the params of the former type are dropped, with
 * a note. */
void zt_config_lay_over(struct zt_reading *r, struct zt_json_node *base, struct zt_json_node *top);
/* The same for the single value `top`, which becomes the member `key` of `base`. */
void zt_config_lay_value(struct zt_reading *r, struct zt_json_node *base, const char *key, struct zt_json_node *top);
/* Removes the comments of a file's tree: keys that begin with "_" or "//". A note lists them. Objects with free names
 * have no comments. */
void zt_config_drop_comments(struct zt_reading *r, struct zt_json_node *root);

#endif
