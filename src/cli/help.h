/* The texts of COMMAND --help, before the list of options. */
#ifndef ZT_CLI_HELP_H
#define ZT_CLI_HELP_H

extern const char zt_help_report[], zt_help_train[], zt_help_plan[], zt_help_inspect[], zt_help_evaluate[],
    zt_help_predict[], zt_help_grad[], zt_help_ops[], zt_help_doctor[], zt_help_bench[], zt_help_verify[],
    zt_help_diff[];

#endif
