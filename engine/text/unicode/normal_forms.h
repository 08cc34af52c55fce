// normal_forms.h - Unicode's four normal forms, with the tokenizers library's tables.
#ifndef FT_NORMAL_FORMS_H
#define FT_NORMAL_FORMS_H

#include "engine/text/unicode/normalize.h"

typedef enum ft_normal_form { FT_NFD, FT_NFC, FT_NFKD, FT_NFKC } ft_normal_form;

// Appends the normal form of `text` (valid UTF-8).
ft_status ft_normal_form_apply(ft_normal_form form, const char *text, size_t length, ft_text_buffer *out);

#endif
