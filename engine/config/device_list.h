// device_list.h - device.name where it is a list: "cpu,cpu" are two ranks on the CPU.
#ifndef FT_DEVICE_LIST_H
#define FT_DEVICE_LIST_H

#include "engine/config/config.h"

enum { FT_DEVICE_NAME = 24 };

int ft_device_list_count(const char *names);                                       // at least 1; NULL: 1
void ft_device_list_name(const char *names, int index, char name[FT_DEVICE_NAME]); // of the first, "" behind the last
// FT_INVALID: what this program cannot do with so many devices, or with these together.
ft_status ft_device_list_check(const ft_config *config);

#endif
