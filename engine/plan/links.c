#include "engine/plan/links.h"

#include "base/nearest.h"
#include "engine/config/options.h"

#include <stdio.h>
#include <string.h>

static const ft_link links[] = {
    {"nvlink3", 230e9,
     "A100: 230 to 250 GB/s on 8 of them (docs.alayanew.com, NCCL-tests in practice, 2026), of 300 by the data sheet"},
    {"nvlink4", 370e9, "H100, H200: with rings 370 GB/s of 450 (S. Jeaugey in NVIDIA/nccl-tests issue 212, 2024)"},
    {"nvlink5", 740e9, "B200: the same part, 0.82, of the 900 GB/s of its data sheet; nothing was found"},
    {"pcie5", 35e9, "8 H100 PCIe: 35 to 45 GB/s (docs.alayanew.com, as above)"},
    {"pcie4", 17e9, "half of pcie5; nothing was found"},
    {"pcie4-host", 8e9, "through the host's memory, as GeForce cards have to: a guess"},
};
enum { LINKS = sizeof links / sizeof links[0] };

// Dense products of 16 bits summed in fp32, and bytes, a second: data sheets, as benchmarks/gpu/gpu_counts.py has them
// where it does. Kernels reach these parts of both at their bounds (benchmarks/gpu/predict_steps.py).
typedef struct chip {
    const char *card, *link;
    double flops, bytes;
} chip;

static const chip chips[] = {
    {"A100 40GB", "nvlink3", 312e12, 1555e9},
    {"A100 80GB", "nvlink3", 312e12, 2039e9},
    {"A30", "pcie4", 165e12, 933e9},
    {"A40", "pcie4", 149.7e12, 696e9},
    {"B200", "nvlink5", 2250e12, 8000e9},
    {"H100", "pcie5", 756e12, 2000e9},
    {"H200", "nvlink4", 989e12, 4800e9},
    {"L4", "pcie4", 121e12, 300e9},
    {"L40S", "pcie4", 362e12, 864e9},
    {"RTX 3090", "pcie4-host", 71e12, 936e9},
    {"RTX 4090", "pcie4-host", 165.2e12, 1008e9},
    {"RTX A6000", "pcie4", 154.8e12, 768e9},
};
enum { CHIPS = sizeof chips / sizeof chips[0] };
static const double PART_OF_FLOPS = 0.82, PART_OF_BYTES = 0.90, GAP_SECONDS = 0.9e-6;

static const ft_link *link_named(const char *name) {
    for (int i = 0; i < LINKS; i++)
        if (strcmp(links[i].name, name) == 0) return &links[i];
    return NULL;
}

ft_status ft_link_find(const char *word, ft_link *link) {
    const ft_link *known = link_named(word);
    if (known != NULL) return *link = *known, FT_OK;
    ft_config room = {0}; // of an option that is a size, whatever it is called
    if (word[0] >= '0' && word[0] <= '9') {
        FT_TRY(ft_option_set(&room, ft_option_at(ft_option_find("memory.limit")), word, NULL, "--link-speed"));
        return *link = (ft_link){"given", (double)room.memory.limit, "--link-speed"}, FT_OK;
    }
    const char *names[LINKS];
    for (int i = 0; i < LINKS; i++)
        names[i] = links[i].name;
    const char *nearest = ft_nearest(word, LINKS, names);
    ft_fail(FT_INVALID, "--link-speed", "unknown link \"%s\"", word);
    if (nearest != NULL) ft_hint("did you mean %s?", nearest);
    ft_hint("nvlink3, nvlink4, nvlink5, pcie4, pcie4-host, pcie5, or bytes a second as nccl-tests call the bus "
            "bandwidth: 370GB");
    return FT_INVALID;
}

ft_status ft_link_of_card(const ft_card *card, ft_link *link, ft_rates *rates) {
    for (int i = 0; i < CHIPS; i++) {
        if (strcmp(chips[i].card, card->name) != 0) continue;
        const ft_target target = ft_card_target(card);
        *link = *link_named(chips[i].link);
        *rates = ft_rates_of(&target);
        rates->flops = PART_OF_FLOPS * chips[i].flops;
        rates->bytes = PART_OF_BYTES * chips[i].bytes;
        rates->op_seconds = GAP_SECONDS;
        return FT_OK;
    }
    ft_fail(FT_INVALID, card->name,
            "nothing is known of what this card computes a second, so nothing can be said of several");
    ft_hint("of these it is: A100, A30, A40, B200, H100, H200, L4, L40S, RTX 3090, RTX 4090, RTX A6000");
    return FT_INVALID;
}
