// device_list.h - device.name where it is a list: "cpu,cpu" are two ranks on the CPU, "cuda:0,cuda:1" one on each of
// two GPUs.
#ifndef FT_DEVICE_LIST_H
#define FT_DEVICE_LIST_H

#include "engine/config/config.h"

enum { FT_DEVICE_NAME = 24 };

int ft_device_list_count(const char *names);                                       // at least 1; NULL: 1
void ft_device_list_name(const char *names, int index, char name[FT_DEVICE_NAME]); // of the first, "" behind the last
// Are there several, each with memory of its own? (Else they have theirs in common.)
bool ft_device_list_is_apart(const char *names);
// `ranks` GPUs, "cuda:0,cuda:1,..." from a first one on. NULL: no memory.
char *ft_device_list_of_gpus(ft_arena *arena, int ranks);
// "cuda:0,1" is "cuda:0,cuda:1" from here on.
ft_status ft_device_list_spell_out(ft_config *config);
// FT_INVALID: what this program cannot do with so many devices, or with these together.
ft_status ft_device_list_check(const ft_config *config);

#endif
