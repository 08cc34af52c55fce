// adapter.h - which linear layers have a low-rank adapter, of which rank and scale, and what else is trained beside them: [adapter].
//
// Names are those of modules, as "bert.encoder.layer.0.attention.self.query". What is said here is what PEFT makes of the same words.
#ifndef FT_MODEL_ADAPTER_H
#define FT_MODEL_ADAPTER_H

#include "engine/config/config.h"
#include "engine/model/spec/model_config.h"

// What an adapter of this module is; rank 0: it has none.
typedef struct ft_adapter_shape {
    int64_t rank;
    double alpha, scale;
} ft_adapter_shape;
ft_adapter_shape ft_adapter_of(const ft_config *options, const ft_model_config *model, const char *module);

// Is a parameter of the model itself trained beside the adapters: of a module to save, or a bias that adapter.bias names?
bool ft_adapter_trains(const ft_config *options, const ft_model_config *model, const char *parameter);
// The modules to save, the head's and what the model's file lacks among them, in the order in which a file lists them: at most
// FT_MOST_SAVED. Words of adapter.modules_to_save lie in `arena`.
enum { FT_MOST_SAVED = 64 };
int ft_adapter_saved(const ft_config *options, const ft_model_config *model, ft_arena *arena, const char *names[FT_MOST_SAVED]);

// FT_INVALID: options that contradict each other, an expression that is none, a list too long.
ft_status ft_adapter_check(const ft_config *options);
// FT_INVALID: a target or a module to save that none of the `count` linear layers is, with the nearest name; no adapter at all.
ft_status ft_adapter_check_targets(const ft_config *options, const ft_model_config *model, int count, const char *const *modules);

#endif
