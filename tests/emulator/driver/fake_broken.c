// fake_broken.c - a device that breaks and stays broken: FAKE_BROKEN="device=1,how=gone,from=PATH", for all processes,
// from when there is something at PATH. Whoever has it open gets an error of its memory (214). Later, by `how`: gone -
// the driver does not see it any more, and counts those behind it anew; refused - it cannot be opened; healed - it can,
// and is as before.
#include "tests/emulator/driver/fake_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE, GONE, REFUSED, HEALED, LONGEST = 4096 };

static struct {
    int device, how;
    bool at_start; // it had broken before this process began
    char path[LONGEST];
} broken;

void fake_broken_set_up(void) {
    static const char *const hows[] = {"none", "gone", "refused", "healed"};
    const char *text = getenv("FAKE_BROKEN");
    char how[16];
    broken.how = NONE;
    if (text == NULL) return;
    if (sscanf(text, "device=%d,how=%15[a-z],from=%4095s", &broken.device, how, broken.path) != 3)
        fake_fatal("FAKE_BROKEN is not understood");
    for (int i = GONE; i <= HEALED; i++)
        if (strcmp(how, hows[i]) == 0) broken.how = i;
    if (broken.how == NONE) fake_fatal("FAKE_BROKEN: gone, refused or healed");
    broken.at_start = access(broken.path, F_OK) == 0;
    if (broken.at_start && broken.how == GONE) fake_set.devices--;
}

int fake_physical(int device) {
    return broken.at_start && broken.how == GONE && device >= broken.device ? device + 1 : device;
}

bool fake_refuses(int device) { return broken.at_start && broken.how == REFUSED && device == broken.device; }

int fake_breaks(int device) {
    if (broken.how == NONE || broken.at_start || device != broken.device || access(broken.path, F_OK) != 0) return 0;
    return FT_CU_ECC_UNCORRECTABLE;
}
