/* Stands for the NVIDIA driver where the emulated module is tested: all that is asked of it is to be there. */
extern const int zt_no_driver;
const int zt_no_driver = 1;
