#include "engine/io/files.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

static void to_hex(const unsigned char digest[32], char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

ft_status ft_sha256(const void *data, size_t length, char hex[65]) {
    unsigned char digest[32];
    // libcrypto fails here only where it cannot allocate its context.
    if (EVP_Digest(data, length, digest, NULL, EVP_sha256(), NULL) != 1) return ft_fail_memory(0, "a SHA-256 digest");
    to_hex(digest, hex);
    return FT_OK;
}

static ft_status digest_of(int fd, const char *path, EVP_MD_CTX *context, char *piece, size_t size, char hex[65]) {
    if (EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) return ft_fail_memory(0, "a SHA-256 digest");
    for (;;) {
        ssize_t n = read(fd, piece, size);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot read the file");
        if (EVP_DigestUpdate(context, piece, (size_t)n) != 1)
            return ft_fail(FT_FAILED, path, "libcrypto cannot digest the file");
    }
    unsigned char digest[32];
    if (EVP_DigestFinal_ex(context, digest, NULL) != 1)
        return ft_fail(FT_FAILED, path, "libcrypto cannot digest the file");
    to_hex(digest, hex);
    return FT_OK;
}

ft_status ft_sha256_file(const char *path, char hex[65]) {
    enum { PIECE = 1 << 18 };
    int fd;
    FT_TRY(ft_open_input(path, &fd));
    char *piece = ft_calloc(PIECE, 1, "a read buffer");
    EVP_MD_CTX *context = piece != NULL ? EVP_MD_CTX_new() : NULL;
    ft_status status = piece == NULL     ? FT_NO_MEMORY
                       : context == NULL ? ft_fail_memory(0, "a SHA-256 digest")
                                         : digest_of(fd, path, context, piece, PIECE, hex);
    EVP_MD_CTX_free(context);
    free(piece);
    close(fd);
    return status;
}
