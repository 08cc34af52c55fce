// faults_program.c - one kernel of faults.cu as a program: faults_program NAME good|planted. It ends with 0 when the
// results are right and no sanitizer objected. The test runs it compiled for ThreadSanitizer.
#include "tests/emulator/pieces/faults.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    float outputs[FAULT_OUTPUTS], want[FAULT_OUTPUTS];
    if (argc != 3 || fault_run(argv[1], strcmp(argv[2], "planted") == 0, outputs, want) != FT_OK) {
        fprintf(stderr, "%s\n", argc == 3 ? ft_error_message() : "usage: faults_program NAME good|planted");
        return 2;
    }
    return memcmp(outputs, want, sizeof want) != 0;
}
