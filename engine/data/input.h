// input.h - what a model is fed with: an interface, of which texts are the first kind.
//
// An input is opened once a run, says what it asks of the model, builds data sets out of tables, and fills micro-batches with their
// sequences, packed row behind row. batch.h, the plan of steps and the trainer know no more of a kind than this.
//
//     FT_TRY(ft_input_open(&ft_text_input, &request, &input));
//     ft_input_sizes sizes = ft_input_sizes_of(&input);          // is there room for it in the model?
//     FT_TRY(ft_input_build(&input, &wanted, &dataset, &from_cache));
//     FT_TRY(ft_batch_fill(&batch, &dataset, ...));              // by kind->length and kind->fill
#ifndef FT_INPUT_H
#define FT_INPUT_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"

typedef struct ft_batch ft_batch; // batch.h

// What an input is opened with.
typedef struct ft_input_request {
    const char *directory;  // of the model, or of whose tokenizer stands in for its own
    ft_rules_option rules;  // model.tokenizer_rules, or as the model was saved with
    const char *truncation; // data.truncation, but not "auto"
    bool lower_case;        // of texts, whatever the tokenizer's files say
    // Of ft_language_input. Absent ones: what the model has.
    bool learn_all;             // every token of a text is learned, else what an assistant says and what a prompt is answered with
    const char *chat_template;  // a file; NULL or ""
    const char *chat_variables; // a JSON object of what the template is told beside the messages; NULL or ""
    int32_t patch, tokens;  // of pictures: pixels of a side of a patch, rows in front of the patches
    int workers;            // threads that read them; 0: none but the caller's
    bool scaled;            // JPEG is decoded at 1/2, 1/4 or 1/8 where that is large enough
} ft_input_request;

// What an input asks of a model, and what it makes of examples that are too long.
typedef struct ft_input_sizes {
    int64_t vocabulary; // rows that the table of its ids needs
    int64_t longest;    // rows that its files let a sequence have; 0: they do not say
    bool windows;       // long examples become several sequences; else they are cut
    int32_t height, width; // of pictures, pixels; 0: there are none
} ft_input_sizes;

// What a data set is built from. path: the file, for messages; labels NULL: unlabelled; cache_dir NULL: none.
typedef struct ft_input_wanted {
    const ft_table *table;
    const char *path;
    int max_length; // rows of a sequence, at most
    const ft_labels *labels;
    const int32_t *inside; // of words: [labels->count] the tag of a word's further tokens, which then are read too; NULL: they are not
    const char *cache_dir;
    bool learned; // and nothing else: nobody will ask for answers
} ft_input_wanted;

// own: what open() made, and close() gives back. NULL is closed too.
typedef struct ft_input_kind {
    const char *name;
    ft_status (*open)(const ft_input_request *request, void **own);
    void (*close)(void *own);
    ft_input_sizes (*sizes)(const void *own);
    const char *(*digest)(const void *own);            // of what decides about its sequences: of a resumed run the same
    const char *const *(*files)(const void *own);      // of the directory, that go with a saved model; ends with NULL
    ft_status (*build)(const void *own, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache);
    int64_t (*length)(const ft_dataset *dataset, int64_t sequence); // rows
    // Writes what is its own about these rows into a batch on the host, from `row` on; slots, positions and labels are batch.h's.
    void (*fill)(const ft_dataset *dataset, int64_t sequence, ft_batch *batch, int32_t row);
} ft_input_kind;

extern const ft_input_kind ft_text_input; // text_input.c
extern const ft_input_kind ft_word_input; // word_input.c: single texts, a label for every word
extern const ft_input_kind ft_question_input; // question_input.c: questions with the passages that answer them
extern const ft_input_kind ft_language_input; // language_input.c: texts to go on with, each token to be told from those before it
extern const ft_input_kind ft_picture_input; // picture_input.c: pictures, whose files are the texts of a table
// What a frozen trunk has made of sequences of another kind: a row each, which the head reads. It is nothing that is opened or built:
// data sets of the other kind become such, and their rows come from feature_cache.h.
extern const ft_input_kind ft_feature_input; // feature_input.c

typedef struct ft_input {
    const ft_input_kind *kind; // NULL: none is open, as where a run is only planned
    void *own;
} ft_input;

ft_status ft_input_open(const ft_input_kind *kind, const ft_input_request *request, ft_input *input);
void ft_input_close(ft_input *input); // {0} is fine
ft_input_sizes ft_input_sizes_of(const ft_input *input); // {0}: nothing is asked
const char *ft_input_digest(const ft_input *input);
const char *const *ft_input_files(const ft_input *input);
ft_status ft_input_build(const ft_input *input, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache);

// Rows of a sequence.
static inline int64_t ft_dataset_length(const ft_dataset *data, int64_t sequence) { return data->input->length(data, sequence); }

#endif
