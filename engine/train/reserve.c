// reserve.c - the planned bytes of a run, reserved before the first of them is taken.
#include "engine/memory/process.h"
#include "engine/train/admission.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <unistd.h>

// What lies outside the allocator is what the process holds by now: program, libraries, texts and tokens.
ft_status ft_trainer_reserve(ft_trainer *t) {
    ft_candidate cpu; // the device that t was opened on; there is no other kind to train on yet
    int chosen;
    char text[24];
    FT_TRY(ft_candidate_cpu(&cpu));
    size_t bytes = t->planned.peak_reserved + ft_process_resident(getpid());
    ft_admission_request request = ft_admission_request_of(t->config, bytes);
    FT_TRY(ft_admission_enter(1, &cpu, &request, &t->reservation, &chosen));
    if (t->reservation != NULL) ft_detail("reserved   %s of %s", ft_bytes_text(bytes, text), cpu.name);
    return FT_OK;
}
