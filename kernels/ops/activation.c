#include "kernels/ops/activation.h"

#include <string.h>

// Spellings of transformers' ACT2FN. The first of a kind is its canonical name.
static const struct {
    const char *name;
    ft_activation kind;
} names[] = {
    {"linear", FT_ACT_IDENTITY},
    {"gelu", FT_ACT_GELU},
    {"gelu_python", FT_ACT_GELU},
    {"gelu_new", FT_ACT_GELU_TANH},
    {"gelu_fast", FT_ACT_GELU_TANH},
    {"gelu_pytorch_tanh", FT_ACT_GELU_TANH},
    {"gelu_python_tanh", FT_ACT_GELU_TANH},
    {"gelu_accurate", FT_ACT_GELU_TANH},
    {"relu", FT_ACT_RELU},
    {"tanh", FT_ACT_TANH},
    {"silu", FT_ACT_SILU},
    {"swish", FT_ACT_SILU},
    {"quick_gelu", FT_ACT_QUICK_GELU},
    {"mish", FT_ACT_MISH},
    {"gelu_10", FT_ACT_GELU_10},
    {"sigmoid", FT_ACT_SIGMOID},
    {"leaky_relu", FT_ACT_LEAKY_RELU},
    {"relu6", FT_ACT_RELU6},
    {"hardswish", FT_ACT_HARDSWISH},
    {"laplace", FT_ACT_LAPLACE},
    {"sqrtsoftplus", FT_ACT_SQRTSOFTPLUS},
};
enum { NAMES = sizeof names / sizeof names[0] };

const char *ft_activation_name(ft_activation kind) {
    for (int i = 0; i < NAMES; i++)
        if (names[i].kind == kind) return names[i].name;
    return "?";
}

// Levenshtein's distance; words longer than the row are cut, which no sensible spelling reaches.
static int distance(const char *a, const char *b) {
    enum { LONGEST = 31 };
    int row[LONGEST + 1], n = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i] && i < LONGEST; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int replaced = diagonal + (a[i] != b[j]), added = row[j] + 1, removed = row[j + 1] + 1;
            diagonal = row[j + 1];
            int best = replaced < added ? replaced : added;
            row[j + 1] = best < removed ? best : removed;
        }
    }
    return row[n];
}

ft_status ft_activation_from_name(const char *name, ft_activation *out) {
    if (!name) return ft_fail(FT_INVALID, NULL, "the activation has no name");
    int nearest = 0;
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(names[i].name, name) == 0) {
            *out = names[i].kind;
            return FT_OK;
        }
        if (distance(name, names[i].name) < distance(name, names[nearest].name)) nearest = i;
    }
    return ft_fail(FT_INVALID, NULL, "unknown activation '%.64s', the nearest known one is '%s'", name,
                   names[nearest].name);
}
