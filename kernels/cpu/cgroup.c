#include "kernels/cpu/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ft_cgroup_numbers(const char *directory, const char *name, double number[2]) {
    char path[FT_CGROUP_PATH + 256], line[128];
    number[0] = number[1] = -1;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (fgets(line, sizeof line, file)) {
        char *end = line;
        for (int i = 0; i < 2; i++) {
            end += strspn(end, " ");
            char *start = end;
            double value = strtod(start, &end);
            if (end != start)
                number[i] = value;
            else
                end += strcspn(start, " ");
        }
    }
    fclose(file);
}

double ft_cgroup_named(const char *directory, const char *name, const char *word) {
    char path[FT_CGROUP_PATH + 256], line[256];
    size_t length = strlen(word);
    double number = -1;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    while (number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, word, length) == 0 && (line[length] == ' ' || line[length] == ':')) number = strtod(line + length + 1, NULL);
    fclose(file);
    return number;
}

bool ft_cgroup_of(long long pid, const char *controller, char out[FT_CGROUP_PATH]) {
    char path[64] = "/proc/self/cgroup", line[FT_CGROUP_PATH];
    snprintf(out, FT_CGROUP_PATH, "/");
    if (pid != 0) snprintf(path, sizeof path, "/proc/%lld/cgroup", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool any = false;
    while (fgets(line, sizeof line, file)) { // id:controller,controller:path
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':');
        char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        bool found = false;
        if (!*controller) found = !names[1];
        for (char *save = NULL, *name = strtok_r(names + 1, ",", &save); name && !found;
             name = strtok_r(NULL, ",", &save))
            found = strcmp(name, controller) == 0;
        if (!found) continue;
        snprintf(out, FT_CGROUP_PATH, "%s", group);
        any = true;
    }
    fclose(file);
    return any;
}

void ft_cgroup_walk(const char *mount, const char *controller, void (*visit)(void *context, const char *directory, const char *group),
                    void *context) {
    char group[FT_CGROUP_PATH], directory[FT_CGROUP_PATH + 64];
    (void)ft_cgroup_of(0, controller, group); // a root where nobody says
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
        visit(context, directory, group);
        char *slash = strrchr(group, '/');
        if (!slash || strcmp(group, "/") == 0) return;
        if (slash == group)
            slash[1] = 0; // "/job" -> "/"
        else
            *slash = 0;
    }
}
