#include "report/metrics_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double zt_metrics_number(const char *line, const char *name) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    return at && strncmp(at + strlen(key), "null", 4) != 0 ? strtod(at + strlen(key), NULL) : NAN;
}

bool zt_metrics_is_eval(const char *line) {
    return strstr(line, "\"eval\": true") != NULL;
}
