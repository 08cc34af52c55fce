// reserve.c - the planned bytes of a run, reserved before the first of them is taken.
#include "engine/memory/process.h"
#include "engine/train/admission.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <unistd.h>

// What lies outside the allocator is what the process holds by now: program, libraries, texts and tokens.
ft_status ft_trainer_reserve(ft_trainer *t) {
    ft_candidate where; // the device that t was opened on
    int chosen;
    char text[24];
    FT_TRY(ft_candidate_of(t->device, &where));
    size_t bytes = t->planned.peak_reserved + (where.accelerator ? 0 : ft_process_resident(getpid()));
    ft_admission_request request = ft_admission_request_of(t->config, bytes);
    FT_TRY(ft_admission_enter(1, &where, &request, &t->reservation, &chosen));
    if (t->reservation != NULL) ft_detail("reserved   %s of %s", ft_bytes_text(bytes, text), where.name);
    return FT_OK;
}
