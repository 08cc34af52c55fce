// boot.c - in which boot of the machine a trial was begun. Most trials do not wait for the disk: what one has left is
// whole as long as the machine has not gone down since. Clocks do not tell, for they are set; the kernel's name for a boot
// does, and is kept in the trial's directory, in the file `boot`.
#include "hpo/study/study.h"

#include "base/files.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

static bool read_name(const char *path, char name[NAME]) {
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    bool read = file != NULL && fgets(name, NAME, file) != NULL && name[0] != '\n';
    if (file != NULL) fclose(file);
    return read;
}

static bool this_boot(char name[NAME]) { return read_name("/proc/sys/kernel/random/boot_id", name); }

bool ft_boot_is_same(const char *directory) {
    char now[NAME], then[NAME];
    ft_arena arena = {0};
    bool same = this_boot(now) && read_name(ft_path_join(&arena, directory, "boot"), then) && strcmp(now, then) == 0;
    ft_arena_free(&arena);
    return same;
}

static ft_status mark(const char *directory, ft_arena *arena) {
    char now[NAME];
    const char *run = ft_path_join(arena, directory, "run.json"), *boot = ft_path_join(arena, directory, "boot");
    if (run == NULL || boot == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_remove_tree(run)); // first: it would be of this boot then
    if (!this_boot(now)) return FT_OK;
    const bool waits = ft_atomic_wait_for_disk(false);
    ft_status status = ft_atomic_write(boot, now, strlen(now));
    ft_atomic_wait_for_disk(waits);
    return status;
}

ft_status ft_boot_mark(const char *directory) {
    if (ft_boot_is_same(directory)) return FT_OK;
    ft_arena arena = {0};
    ft_status status = mark(directory, &arena);
    ft_arena_free(&arena);
    return status;
}
