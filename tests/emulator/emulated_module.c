// emulated_module.c - what the emulated libftengine_cuda.so has besides the kernels: its launches become work of the
// fake driver's streams, and at the program's end the driver's books go to the file that FAKE_REPORT names.
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/simt/control.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void join_the_streams(void) { simt_set_queue(fake_launch); }

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAKE_REPORT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fake_books b = fake_read();
    size_t left = b.contexts + b.streams + b.events + b.graphs + b.buffers + b.pinned + b.reservations + b.handles + b.mappings;
    fprintf(file, "driver %llu misuses, %zu left\n", (unsigned long long)b.misuses, left);
    fprintf(file, "%llu waits, %llu of them left the device without work\n", (unsigned long long)b.waits,
            (unsigned long long)b.drains);
    if (b.misuses > 0)
        fprintf(file, "among them %llu uploads that changed, %llu overruns, %llu waits where there may be none\n",
                (unsigned long long)b.rewritten, (unsigned long long)b.overruns, (unsigned long long)b.forbidden);
    fclose(file);
}
