// split.h - a number of fp32 in two halves of 16 bits, of which the first is a number of bf16 that ops can read.
//
//     high = the nearest bf16 number, ties away from zero     tail = the low 16 bits of the number
//     bits of the number = (high << 16) + (int16_t)tail
//
// Ties must go away from zero: then high is one more than the number's upper half exactly where the tail's top bit is set,
// and every pair is of one number. With ties to even 0x00018000 and 0x00028000 would share a pair: both become 0x0002, with
// the tail 0x8000.
// Lossless for every number and both infinities. A NaN stays one in both forms and becomes quiet; it loses what its low 16
// bits say, without which its high half would read as infinity or as -0.
#ifndef FT_SPLIT_H
#define FT_SPLIT_H
#include "kernels/philox.h"

// Bits of fp32 as (high << 16 | tail), and back.
FT_HOST_DEVICE uint32_t ft_split(uint32_t bits) {
    const uint32_t kept = (bits & 0x7FFFFFFF) > 0x7F800000 ? (bits | 0x400000) & 0xFFFF0000 : bits;
    return kept + ((kept & 0x8000) << 1);
}
FT_HOST_DEVICE uint32_t ft_join(uint32_t pair) { return pair - ((pair & 0x8000) << 1); }

#endif
