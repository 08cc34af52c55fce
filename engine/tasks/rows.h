// rows.h - the rows of the table, of which only tasks.c knows.
#ifndef FT_TASK_ROWS_H
#define FT_TASK_ROWS_H

typedef struct ft_task_spec ft_task_spec; // tasks.h

#define FT_TASK_LINE(id, name, ...) extern const ft_task_spec ft_task_##name;
#include "engine/config/tasks.def"
#undef FT_TASK_LINE

#endif
