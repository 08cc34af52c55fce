// pull.h - a model from the Hugging Face hub (or a server that speaks as it does) into the shared cache.
//
//     GET ENDPOINT/api/models/NAME/revision/REVISION      the commit ("sha")
//     GET ENDPOINT/api/models/NAME/tree/COMMIT            files with size and checksum, in pages
//     GET ENDPOINT/NAME/resolve/COMMIT/FILE               a content; large ones by way of a redirect to storage
//
// Only what is needed is fetched: config.json, the tokenizer's files, and one form of the weights, in the order of
// engine/files/weights.h. The revision is noted (refs/) when all of it is there.
#ifndef FT_HUB_PULL_H
#define FT_HUB_PULL_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct ft_hub_pulled {
    const char *directory, *commit; // the snapshot
    int files, fetched;             // all of it, and what was not there before
    double bytes;                   // fetched
} ft_hub_pulled;

// `text`: NAME or NAME@REVISION. `stopped` is asked a few times a second: FT_INTERRUPTED, and the same call goes on
// where this one ended. FT_INVALID for names that are none or that the hub does not give out; FT_FAILED for the
// network.
ft_status ft_hub_pull(const char *text, bool (*stopped)(void), ft_arena *arena, ft_hub_pulled *pulled);

#endif
