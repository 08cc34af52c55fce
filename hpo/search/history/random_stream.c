#include "hpo/search/history/random_stream.h"

#include "kernels/philox.h"

ft_random_stream ft_random_stream_of(uint64_t seed, int64_t trial, ft_draw draw, const char *name) {
    uint64_t hash = 0xCBF29CE484222325u; // FNV-1a
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++)
        hash = (hash ^ *p) * 0x100000001B3u;
    uint64_t key = ft_splitmix64(ft_splitmix64(ft_splitmix64(seed) ^ (uint64_t)trial) ^ hash);
    return (ft_random_stream){.key = key, .counter = 0, .draw = (uint32_t)draw};
}

uint64_t ft_random_bits(ft_random_stream *stream) {
    uint32_t c[4] = {(uint32_t)stream->counter, (uint32_t)(stream->counter >> 32), stream->draw, 0};
    stream->counter++;
    ft_philox4x32_7(c, stream->key);
    return (uint64_t)c[1] << 32 | c[0];
}

double ft_random_double(ft_random_stream *stream) { return (double)(ft_random_bits(stream) >> 11) * 0x1p-53; }

uint64_t ft_random_below(ft_random_stream *stream, uint64_t n) {
    return (uint64_t)(((unsigned __int128)ft_random_bits(stream) * n) >> 64);
}
