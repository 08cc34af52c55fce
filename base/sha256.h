// sha256.h - SHA-256 in pieces. Nothing here allocates or fails: libcrypto's EVP functions make thousands of
// allocations at their first use and crash when one fails (OpenSSL 3.0), so its plain SHA-256 is used instead.
#ifndef FT_SHA256_H
#define FT_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct ft_sha256_state {
    uint64_t opaque[16];
} ft_sha256_state;

void ft_sha256_begin(ft_sha256_state *state);
void ft_sha256_add(ft_sha256_state *state, const void *data, size_t length);
void ft_sha256_end(ft_sha256_state *state, unsigned char digest[32]);
void ft_sha256_hex(const unsigned char digest[32], char hex[65]); // lower case

#endif
