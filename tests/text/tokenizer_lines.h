// tokenizer_lines.h - the lines of the tokenizer vectors: mixed scripts, broken UTF-8, special tokens, odd characters.
// The same generator as lines() of tests/vectors/make_tokenizer_family_vectors.py.
#ifndef FT_TEST_TOKENIZER_LINES_H
#define FT_TEST_TOKENIZER_LINES_H

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

typedef struct line_part {
    const char *text;
    size_t length;
} line_part;
static const line_part WORDS[] = {
    {"the", 3},
    {"of", 2},
    {"movie", 5},
    {"film", 4},
    {"Great", 5},
    {"don", 3},
    {"WORLD", 5},
    {"tokenizer", 9},
    {"a", 1},
    {"I", 1},
    {"was", 3},
    {"not", 3},
    {"running", 7},
    {"Stra\303\237e", 7},
    {"na\303\257ve", 6},
    {"caf\303\251", 5},
    {"\303\205ngstr\303\266m", 10},
    {"\320\264\320\276\320\261\321\200\321\213\320\271", 12},
    {"\320\234\320\276\321\201\320\272\320\262\320\260", 12},
    {"\316\272\317\214\317\203\316\274\316\277\317\202", 12},
    {"\331\205\330\261\330\255\330\250\330\247", 10},
    {"\327\251\327\201\327\234\327\225\327\235", 10},
    {"\344\275\240\345\245\275", 6},
    {"\344\270\226\347\225\214", 6},
    {"\346\235\261\344\272\254\351\203\275", 9},
    {"\343\201\223\343\202\223\343\201\253\343\201\241\343\201\257", 15},
    {"\343\202\253\343\202\277\343\202\253\343\203\212", 12},
    {"\355\225\234\352\265\255\354\226\264", 9},
    {"\340\244\271\340\244\277\340\244\250\340\245\215\340\244\246\340\245\200", 18},
    {"\340\270\252\340\270\247\340\270\261\340\270\252\340\270\224\340\270\265", 18},
    {"\341\203\245\341\203\220\341\203\240\341\203\227\341\203\243\341\203\232\341\203\230", 21},
    {"Vi\341\273\207t", 6},
    {"i\314\207stanbul", 10},
    {"\360\237\230\200", 4},
    {"\360\235\220\200\360\235\220\201", 8}};
static const line_part SPECIAL[] = {{"<s>", 3},          {"</s>", 4},     {"<mask>", 6}, {"<pad>", 5}, {"<unk>", 5},
                                    {"[CLS]", 5},        {"[SEP]", 5},    {"[MASK]", 6}, {"[PAD]", 5}, {"[UNK]", 5},
                                    {"\342\226\201", 3}, {"\304\240", 2}, {"</s", 3},    {"<ud>", 4},  {"[mask]", 6}};
static const line_part ODD[] = {{"\357\274\241", 3},
                                {"\357\274\221\357\274\222", 6},
                                {"\357\254\201", 3},
                                {"\302\240", 2},
                                {"\343\215\277", 3},
                                {"\302\275", 2},
                                {"\342\221\240", 3},
                                {"\357\275\266\357\276\236", 6},
                                {"e\314\201", 3},
                                {"\341\272\233\314\243", 5},
                                {"\342\200\213", 3},
                                {"\357\273\277", 3},
                                {"\302\255", 2},
                                {"\011", 1},
                                {"\012", 1},
                                {"\015", 1},
                                {"\015\012", 2},
                                {"\342\200\250", 3},
                                {"\343\200\200", 3},
                                {"\000", 1},
                                {"\007", 1},
                                {"x\314\201\314\202", 5},
                                {"\340\244\225\340\245\215\340\244\225\314\201", 11},
                                {"\340\244\225\340\245\215\340\244\267\340\244\277", 12},
                                {"\330\200x", 3},
                                {"\341\204\200\341\205\241\341\206\250", 9},
                                {"\341\204\200\341\205\241\314\201", 8},
                                {"\360\237\221\251\342\200\215\360\237\221\247\314\201", 13},
                                {"\302\251\342\200\215\302\251\314\201", 9},
                                {"\360\237\207\246\360\237\207\247\360\237\207\250", 12},
                                {"\302\251\314\201", 4},
                                {"\302\205", 2},
                                {"\341\204\222\341\205\241\341\206\253", 9},
                                {"\340\247\207\340\246\276", 6},
                                {"a\314\243\314\207", 5},
                                {"\342\204\253", 3},
                                {"\342\204\246", 3},
                                {"\315\204", 2},
                                {"\340\275\263", 3},
                                {"\303\205", 2},
                                {"A\314\212", 3},
                                {"\343\202\231", 3},
                                {"\343\201\213\343\202\231", 6},
                                {"  ", 2},
                                {"   ", 3},
                                {"\342\200\203", 3},
                                {"\341\232\200", 3},
                                {"A\314\201", 3},
                                {"A\314\247\314\201", 5}};
static const line_part CONTRACTIONS[] = {{"'s", 2}, {"'t", 2}, {"'re", 3}, {"'ve", 3}, {"'m", 2}, {"'ll", 3},
                                         {"'d", 2}, {"'S", 2}, {"''", 2},  {"'l", 2},  {"'", 1},  {"\342\200\231s", 4}};

static const uint32_t MARKS[] = {0x301, 0x302, 0x307,  0x323,   0x327,  0x345,  0x591,  0x64B,
                                 0x93C, 0x94D, 0x302A, 0x1D165, 0xFE0F, 0x200D, 0x20D0, 0x300};
static const uint32_t RANGES[][2] = {{0x20, 0x250},     {0x300, 0x370},    {0x370, 0x590},     {0x590, 0x900},
                                     {0x900, 0xE80},    {0xE80, 0x2000},   {0x2000, 0x2E80},   {0x2E80, 0xAC00},
                                     {0xAC00, 0xD7A4},  {0xE000, 0x10000}, {0x10000, 0x20000}, {0x1F300, 0x1FB00},
                                     {0xE0000, 0xE0100}};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uint64_t draw_state;
static uint32_t below(uint64_t n) { // splitmix64
    uint64_t z = draw_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % n);
}

typedef struct text_line {
    char text[32768];
    size_t length;
} text_line;

static void put_code(text_line *l, uint32_t code) { l->length += ft_utf8_put(code, l->text + l->length); }
static void put_part(text_line *l, const char *text, size_t length) {
    memcpy(l->text + l->length, text, length);
    l->length += length;
}
static void put_bytes(text_line *l, uint32_t most, uint32_t low, uint32_t range) {
    for (uint32_t k = 1 + below(most); k > 0; k--)
        l->text[l->length++] = (char)(low + below(range));
}
static void put_one(text_line *l, const line_part *parts, size_t count) {
    const line_part *part = &parts[below(count)];
    put_part(l, part->text, part->length);
}

static void mixed_line(text_line *l, int index) {
    l->length = 0;
    draw_state = (uint64_t)index * 1000003 + 71;
    for (uint32_t n = 1 + below(24); n > 0; n--) {
        uint32_t kind = below(20);
        if (kind < 7)
            put_one(l, WORDS, COUNT(WORDS));
        else if (kind == 7)
            put_bytes(l, 9, 97, 26);
        else if (kind == 8)
            put_part(l, " ", 1);
        else if (kind < 11)
            put_one(l, ODD, COUNT(ODD));
        else if (kind == 11)
            put_bytes(l, 5, 48, 10);
        else if (kind == 12)
            put_one(l, CONTRACTIONS, COUNT(CONTRACTIONS));
        else if (kind == 13)
            put_bytes(l, 3, 33, 15);
        else if (kind == 14)
            put_one(l, SPECIAL, COUNT(SPECIAL));
        else if (kind == 15) {
            const uint32_t *range = RANGES[below(COUNT(RANGES))];
            put_code(l, range[0] + below(range[1] - range[0]));
        } else if (kind == 16)
            put_bytes(l, 3, 0, 256);
        else if (kind == 17) {
            for (uint32_t k = 1 + below(3); k > 0; k--)
                put_code(l, MARKS[below(COUNT(MARKS))]);
        } else if (kind == 18 && below(20) == 0) {
            uint32_t letter = below(2) == 0 ? 'x' : 0x6C34;
            for (uint32_t k = 40 + below(200); k > 0; k--)
                put_code(l, letter);
        }
        if (below(2) == 0) put_part(l, " ", 1);
    }
}

static inline void code_points_line(text_line *l, int index) {
    l->length = 0;
    for (uint32_t c = 64 * (uint32_t)index; c < 64 * (uint32_t)index + 64; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const uint32_t codes[] = {'a', c,     'b', ' ', c, ' ', '1',   c, c,     '1',
                                  c,   0x301, ' ', '!', c, '!', 0x915, c, 0x301, ' '};
        for (size_t i = 0; i < COUNT(codes); i++)
            put_code(l, codes[i]);
    }
}

#endif
