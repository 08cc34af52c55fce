// blob.h - one content of a repository into blobs/ of the cache: resumed, checked, and there whole or not at all.
//
// It grows as <checksum>.incomplete, under the lock that huggingface_hub takes too, and is renamed when its length and
// checksum are right. What broke off goes on where it ended, also in another process on another day. A content of wrong
// length or checksum is removed; if a part of it was there from before, it is fetched once more from its beginning.
#ifndef FT_HUB_BLOB_H
#define FT_HUB_BLOB_H

#include "engine/hub/session.h"

typedef struct ft_hub_file {
    const char *path;     // in the repository, in one directory at most
    const char *checksum; // SHA-256 (64 digits) of large files, git's SHA-1 (40) of small ones; also the name in blobs/
    int64_t size;
} ft_hub_file;

// base: the repository's directory in the cache. *fetched: false when it was there.
ft_status ft_hub_fetch_blob(ft_hub_session *session, const char *base, const ft_hub_file *file, bool *fetched);

#endif
