#define OPENSSL_API_COMPAT 0x10100000L // SHA256_Init and its like are marked as old, in favour of EVP
#include "base/sha256.h"

#include "base/files.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(ft_sha256_state), "the state has room for libcrypto's");

void ft_sha256_begin(ft_sha256_state *state) { SHA256_Init((SHA256_CTX *)state->opaque); }

void ft_sha256_add(ft_sha256_state *state, const void *data, size_t length) {
    if (length != 0) SHA256_Update((SHA256_CTX *)state->opaque, data, length);
}

void ft_sha256_end(ft_sha256_state *state, unsigned char digest[32]) {
    SHA256_Final(digest, (SHA256_CTX *)state->opaque);
}

void ft_sha256_hex(const unsigned char digest[32], char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

static void finish(ft_sha256_state *state, char hex[65]) {
    unsigned char digest[32];
    ft_sha256_end(state, digest);
    ft_sha256_hex(digest, hex);
}

ft_status ft_sha256(const void *data, size_t length, char hex[65]) {
    ft_sha256_state state;
    ft_sha256_begin(&state);
    ft_sha256_add(&state, data, length);
    finish(&state, hex);
    return FT_OK;
}

static ft_status add_file(ft_sha256_state *state, int fd, const char *path, char *piece, size_t size) {
    for (;;) {
        ssize_t n = read(fd, piece, size);
        if (n == 0) return FT_OK;
        if (n > 0)
            ft_sha256_add(state, piece, (size_t)n);
        else if (errno != EINTR)
            return ft_fail_errno(FT_FAILED, errno, path, "cannot read the file");
    }
}

ft_status ft_sha256_file(const char *path, char hex[65]) {
    enum { PIECE = 1 << 18 };
    int fd;
    FT_TRY(ft_open_input(path, &fd));
    ft_sha256_state state;
    ft_sha256_begin(&state);
    char *piece = ft_calloc(PIECE, 1, "a read buffer");
    ft_status status = piece != NULL ? add_file(&state, fd, path, piece, PIECE) : FT_NO_MEMORY;
    if (status == FT_OK) finish(&state, hex);
    free(piece);
    close(fd);
    return status;
}
