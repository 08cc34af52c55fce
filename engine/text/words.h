// words.h - the words of a text, and their tokens: what tags are given to.
//
// A text is a list of words, each with FT_WORD_END behind it, or plain text, whose words are found here: letters, numbers, marks and _
// that stand together are one, and so is every other character but white space (a Chinese character too). Every word is tokenised for itself,
// with a space in front of it, as the fast tokenizers of transformers do with is_split_into_words (and add_prefix_space where there is such
// a thing).
#ifndef FT_WORDS_H
#define FT_WORDS_H

#include "engine/text/long_text.h"

#define FT_WORD_END '\x1F'

typedef struct ft_word {
    size_t begin, end;     // bytes of the text
    int64_t first, last;   // characters (code points) [first, last), of the text with a space between its words where it is a list
} ft_word;

typedef struct ft_word_list {
    ft_word *word; // grown with realloc; free() it
    size_t count, capacity;
} ft_word_list;

static inline bool ft_text_is_words(const char *text, size_t length) { return length > 0 && text[length - 1] == FT_WORD_END; }
// Replaces what was in the list.
ft_status ft_words_find(const char *text, size_t length, ft_word_list *words);

// The sequences of a text, and which of their rows are its words: a word's first token, or every one of them. Of a token that stands in
// several windows that one is it which has most of the text around it: none is lost, and none counts twice. {0} is empty; the lists
// are grown and replaced by every call.
typedef struct ft_word_tokens {
    ft_token_ids ids;
    ft_token_ids lengths, reads;  // of every sequence: tokens, and how many of its rows are read
    ft_token_ids position, word;  // of every row that is read: in its sequence, and the word's index
    bool whole;                   // nothing was left out and it is one sequence
    ft_token_ids content, of;     // every token of the text and its word
    char *piece;
    size_t room;
} ft_word_tokens;

ft_status ft_tokenizer_encode_words(const ft_tokenizer *tokenizer, const char *text, const ft_word_list *words, int max_length,
                                    const ft_long_text *rule, bool every, ft_word_tokens *out);
void ft_word_tokens_free(ft_word_tokens *tokens);

#endif
