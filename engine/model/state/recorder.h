// recorder.h - a device that is another one (`under`), but that can note what it is asked to compute instead of computing it: the ops, copies and
// fills of a pass, so that those of several runs can be computed side by side, and their products together (pack.h).
//
//     FT_TRY(ft_recorder_open(under, &device));
//     ft_recorder_begin(device);   ... a pass ...   ft_recorder_end(device);
//     while (!ft_recorder_done(device)) FT_TRY(ft_recorder_run(device));
//
// The arguments of an op are copied; what they point to is there until the note was computed. Whatever cannot be noted (copies from and to the
// host, events, memory that is given back) has what was noted so far computed first, so that the order stays that of the calls.
#ifndef FT_RECORDER_H
#define FT_RECORDER_H

#include "kernels/ops/device.h"
#include "kernels/ops/gemm.h"

// Closed by ft_device_close, before `under`. Recorders of one device are of one thread at a time, as that is.
ft_status ft_recorder_open(ft_device *under, ft_device **device);

// Of a recorder:
void ft_recorder_begin(ft_device *device);
void ft_recorder_end(ft_device *device); // it computes at once again; what was noted waits
// A product that others may have too: noted as one that is met at, or, where nothing is noted, computed.
ft_status ft_recorder_multiply(ft_device *device, const ft_gemm_args *args);

// What was noted, from the first on.
bool ft_recorder_done(const ft_device *device);
const ft_gemm_args *ft_recorder_product(const ft_device *device); // the next one, if it is one to meet at; else NULL
ft_status ft_recorder_run(ft_device *device);                     // computes the next one
void ft_recorder_pass_over(ft_device *device);                    // it was computed elsewhere
void ft_recorder_forget(ft_device *device);                       // all that is left

#endif
