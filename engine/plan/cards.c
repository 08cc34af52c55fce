#include "engine/plan/cards.h"

#include "base/nearest.h"
#include "kernels/devices/devices.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MIB(n) ((size_t)(n) << 20)

static const ft_card cards[] = {
    {"A10G", MIB(22587), true, 80, 86},
    {"A100 40GB", MIB(40338), true, 108, 80},
    {"A100 80GB", MIB(81049), true, 108, 80},
    {"A30", MIB(24 << 10), false, 56, 80},
    {"A40", MIB(48 << 10), false, 84, 86},
    {"B200", MIB(182630), true, 148, 100},
    {"H100", MIB(81008), true, 114, 90}, // the PCIe card; the SXM one gives up to 80 MiB more and has 132 multiprocessors
    {"H200", MIB(143156), true, 132, 90},
    {"L4", MIB(22487), true, 58, 89},
    {"L40S", MIB(45455), true, 142, 89},
    {"P100", MIB(16 << 10), false, 56, 60},
    {"RTX 2080 Ti", MIB(11019), true, 68, 75},
    {"RTX 3060", MIB(12 << 10), false, 28, 86},
    {"RTX 3080", MIB(10 << 10), false, 68, 86},
    {"RTX 3090", MIB(24259), true, 82, 86},
    {"RTX 4070 Ti SUPER", MIB(15934), true, 66, 89},
    {"RTX 4080", MIB(16049), true, 76, 89},
    {"RTX 4090", MIB(24217), true, 128, 89},
    {"RTX 5070 Ti", MIB(16 << 10), false, 70, 120},
    {"RTX 5080", MIB(16 << 10), false, 84, 120},
    {"RTX 5090", MIB(32112), true, 170, 120},
    {"RTX 6000 Ada", MIB(48622), true, 142, 89},
    {"RTX A5000", MIB(24138), true, 64, 86},
    {"RTX A6000", MIB(48676), true, 84, 86},
    {"RTX PRO 6000", MIB(97250), true, 188, 120},
    {"T4", MIB(14930), true, 40, 75},
    {"V100 16GB", MIB(16130), true, 80, 70},
    {"V100 32GB", MIB(32 << 10), false, 80, 70},
};
enum { CARDS = sizeof cards / sizeof cards[0], PLAIN = 64 };

int ft_card_count(void) { return CARDS; }

const ft_card *ft_card_at(int index) { return &cards[index]; }

ft_target ft_card_target(const ft_card *card) {
    return ft_cuda_target(card->sm_count, card->compute_capability);
}

static void drop(char *text, const char *word) {
    char *at = strstr(text, word);
    if (at != NULL) memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
}

// "NVIDIA GeForce RTX 4090" -> "rtx4090": what tells cards apart, and nothing else.
static void simplify(const char *word, char plain[PLAIN]) {
    size_t n = 0;
    for (; *word != '\0' && n + 1 < PLAIN; word++)
        if (isalnum((unsigned char)*word)) plain[n++] = (char)tolower((unsigned char)*word);
    plain[n] = '\0';
    static const char *const noise[] = {"nvidia", "geforce", "tesla", "sxm2", "sxm4", "sxm5", "sxm", "pcie"};
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++) drop(plain, noise[i]);
}

// The simple name of a card, also without its "rtx" when the word has none: people say 4090.
static const char *same_style(const char *plain, const char *word) {
    return strncmp(plain, "rtx", 3) == 0 && strncmp(word, "rtx", 3) != 0 ? plain + 3 : plain;
}

static void list_names(const char *word, const char names[CARDS][PLAIN]) {
    char text[400] = "";
    size_t at = 0;
    for (int i = 0; i < CARDS; i++)
        if (strncmp(same_style(names[i], word), word, strlen(word)) == 0 && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at != 0 ? ", " : "", cards[i].name);
    ft_hint("say which: %s", text);
}

ft_status ft_card_find(const char *word, const ft_card **card) {
    char wanted[PLAIN], names[CARDS][PLAIN];
    const char *styled[CARDS];
    simplify(word, wanted);
    int beginnings = 0, index = -1;
    for (int i = 0; i < CARDS; i++) {
        simplify(cards[i].name, names[i]);
        styled[i] = same_style(names[i], wanted);
        if (strcmp(styled[i], wanted) == 0) return *card = &cards[i], FT_OK;
        if (wanted[0] != '\0' && strncmp(styled[i], wanted, strlen(wanted)) == 0) beginnings++, index = i;
    }
    if (beginnings == 1) return *card = &cards[index], FT_OK;
    if (beginnings > 1) {
        ft_fail(FT_INVALID, "--gpu", "\"%s\" may mean several cards", word);
        list_names(wanted, (const char(*)[PLAIN])names);
        return FT_INVALID;
    }
    ft_fail(FT_INVALID, "--gpu", "unknown card \"%s\"", word);
    const char *near = ft_nearest(wanted, CARDS, styled);
    for (int i = 0; i < CARDS && near != NULL; i++)
        if (near == styled[i]) ft_hint("did you mean \"%s\"?", cards[i].name);
    ft_hint("for any other card: --memory SIZE, with what its driver says is free");
    return FT_INVALID;
}
