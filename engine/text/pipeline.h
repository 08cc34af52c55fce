// pipeline.h - the normaliser of a tokenizer: steps that rewrite the text, one after the other.
#ifndef FT_PIPELINE_H
#define FT_PIPELINE_H

#include "engine/text/unicode/charsmap.h"
#include "engine/text/unicode/normal_forms.h"
#include "engine/text/unicode/normalize.h"

typedef enum ft_rewrite_kind {
    FT_REWRITE_BERT,
    FT_REWRITE_CHARSMAP,
    FT_REWRITE_FORM,
    FT_REWRITE_LOWER,
    FT_REWRITE_STRIP,
    FT_REWRITE_STRIP_ACCENTS,
    FT_REWRITE_REPLACE,
    FT_REWRITE_PREPEND, // `to`, where there is any text
} ft_rewrite_kind;

// What Replace looks for: a text, or one of the two expressions that these tokenizers use.
typedef enum ft_replace_pattern {
    FT_REPLACE_TEXT,
    FT_REPLACE_SPACES, //   {2,}
    FT_REPLACE_BLANKS, // \s{2,}|[\n\r\t]
} ft_replace_pattern;

typedef struct ft_rewrite {
    ft_rewrite_kind kind;
    ft_normalizer bert;         // BERT
    ft_charsmap charsmap;       // CHARSMAP
    ft_normal_form form;        // FORM
    bool left, right;           // STRIP
    ft_replace_pattern pattern; // REPLACE
    const char *from, *to;
    size_t from_length, to_length;
} ft_rewrite;

enum { FT_MOST_REWRITES = 16 };
typedef struct ft_pipeline {
    ft_rewrite *rewrites; // in the tokenizer's arena
    size_t count;
} ft_pipeline;

// Two buffers that steps write in turns.
typedef struct ft_pipeline_scratch {
    ft_text_buffer buffers[2];
} ft_pipeline_scratch;

// The normal form of `text` (valid UTF-8): points into the scratch, or to `text` itself if there is nothing to do.
// *kept_start: the form begins with what the text began with (it was not stripped, replaced or mapped to nothing).
ft_status ft_pipeline_run(const ft_pipeline *pipeline, const char *text, size_t length, ft_pipeline_scratch *scratch,
                          const char **form, size_t *form_length, bool *kept_start);

#endif
