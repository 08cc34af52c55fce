#define OPENSSL_API_COMPAT 0x10100000L // as in sha256.c
#include "base/sha1.h"

#include "base/files.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

ft_status ft_git_blob_file(const char *path, char hex[41]) {
    const void *data;
    size_t size;
    char head[40];
    unsigned char digest[SHA_DIGEST_LENGTH];
    FT_TRY(ft_map_file(path, &data, &size));
    SHA_CTX state;
    SHA1_Init(&state);
    SHA1_Update(&state, head, (size_t)snprintf(head, sizeof head, "blob %zu", size) + 1);
    if (size > 0) SHA1_Update(&state, data, size);
    SHA1_Final(digest, &state);
    ft_unmap_file(data, size);
    for (int i = 0; i < SHA_DIGEST_LENGTH; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return FT_OK;
}
