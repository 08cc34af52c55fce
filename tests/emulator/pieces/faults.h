// faults.h - small kernels with one planted fault each, and the same kernels without it. faults.cu has them.
#ifndef FT_FAULTS_H
#define FT_FAULTS_H

#include "base/status.h"

enum { FAULT_OUTPUTS = 64 };

// Runs kernel `name` ("": tell the number of kernels) with or without its fault, on `outputs` filled with zeros; what
// it writes without the fault stands in `want`. FT_INVALID: no such kernel.
ft_status fault_run(const char *name, bool planted, float outputs[FAULT_OUTPUTS], float want[FAULT_OUTPUTS]);

#endif
