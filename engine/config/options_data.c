// options_data.c - [data]: what it is trained and judged on.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_data_section
#include "engine/config/option_rows.h"

static const ft_option_choice format_choices[] = {
    {"auto", FT_FORMAT_AUTO}, {"tsv", FT_FORMAT_TSV}, {"csv", FT_FORMAT_CSV}, {"jsonl", FT_FORMAT_JSONL},
    {"conll", FT_FORMAT_CONLL}, {"squad", FT_FORMAT_SQUAD}, {NULL, 0}};

static const ft_option_choice broken_choices[] = {{"error", FT_BROKEN_ERROR}, {"skip", FT_BROKEN_SKIP}, {NULL, 0}};
static const ft_option_choice learn_choices[] = {{"completion", FT_LEARN_COMPLETION}, {"all", FT_LEARN_ALL}, {NULL, 0}};

static const ft_option rows[] = {
    PATH(data.train, RESUMABLE, "", .literal = "-",
         .elsewhere = "train_file train_data train_path training_file training_data",
         .help = "Training examples: TSV or CSV with a header line, or JSON lines; also packed with gzip or Zstandard. -: "
                 "standard input. Of pictures also a folder with one for every class; archives of samples, train-{000..012}.tar; flowers102 or "
                 "CUB-200-2011 as downloaded, whose other splits then are data.validation and data.test (DIRECTORY#train: only that one)."),
    PATH(data.validation, RESUMABLE, "", .literal = "-",
         .elsewhere = "validation_file validation_data valid_file eval_file eval_data dev dev_file",
         .help = "Examples that choose the best checkpoint and stop early. Empty: no evaluation."),
    PATH(data.test, RESUMABLE, "", .literal = "-", .elsewhere = "test_file test_data test_path predict_file",
         .help = "Examples that the best model is judged on once, when training is over. Empty: none."),
    CHOICE(data.format, FIXED, "auto", format_choices, .elsewhere = "file_format data_format file_type",
           .help = "tsv: columns separated by tabs, quotes are text. csv: cells may be quoted, columns separated by , ; tab "
                   "or |. jsonl: one JSON object a line. squad: SQuAD's JSON. auto: by the file's name, else by its first line."),
    STRING(data.text_column, FIXED, "",
           .also = "data.messages data.prompt", .elsewhere = "text_column_name text_column_names sentence_column text_field",
           .help = "Column that holds the text. Empty: text, sentence or the like; of question_answering question; of causal_lm messages, prompt or text. Of pictures: "
                   "data.image. data.messages and data.prompt are taken for it."),
    STRING(data.image, FIXED, "", .elsewhere = "image_column image_column_name image_key image_field path_column file_column",
           .help = "Models that read pictures: column, or key of JSON lines, that holds the path of a picture, relative to the file. Empty: image, file_name, path or the "
                   "like."),
    STRING(data.text_pair, FIXED, "",
           .also = "data.completion", .elsewhere = "text_pair_column text_pair_column_name sentence2_key sentence2_column second_text_column",
           .help = "Column of the second texts, for tasks on pairs of texts: question and answer, premise and hypothesis; of causal_lm of the completions. "
                   "Empty: single texts. data.completion is taken for it."),
    STRING(data.label_column, FIXED, "", .elsewhere = "label_column_name label_field target_column",
           .help = "Column that holds the label; several, separated by commas, for several classes (0 or 1 each) or "
                   "targets. Empty: label or the like."),
    STRING(data.label_separator, FIXED, ",", .elsewhere = "label_delimiter label_sep",
           .help = "What separates the classes of a text that has several, where they stand in one column."),
    FLOAT(data.validation_split, FIXED, "0", 0, 1, .high_open = true,
          .elsewhere = "val_split validation_size val_size dev_split eval_split test_size",
          .help = "Share of data.train that is held out and judged on instead of a data.validation, with the same share of "
                  "every class; data.group keeps groups together. Drawn by train.data_seed (auto: 42). 0: none."),
    INT(data.folds, FIXED, "0", 0, 1000, .unit = "parts", .elsewhere = "num_folds n_folds k_folds n_splits kfold cv",
        .help = "Cross-validation: data.train is cut into so many parts with the same share of every class, and each is "
                "once what the best checkpoint is chosen on, in a run directory of its own (fold-1, ...). Figures are means "
                "over the runs. How it is cut depends on train.data_seed (auto: 42), not on train.seed. 0: none."),
    INT(data.fold, FIXED, "0", 0, 1000, .elsewhere = "fold_index fold_id",
        .help = "Of data.folds only this one, from 1. 0: all, one after the other."),
    LIST(data.shares, FIXED, "", 1, 1 << 20,
         .elsewhere = "data_fractions subset_sizes",
         .help = "A run on each of these shares of the training texts, from the smallest: 9, 3, 1 is a ninth, a third and all of them, each in a "
                 "run directory of its own (share-9, ...) and with its complete schedule: train.max_steps, train.warmup_steps and eval.steps are "
                 "a ninth, too. A smaller share is a part of a larger one. Figures are those of the last run. What study.fidelity = data "
                 "gives trials. Empty: one run."),
    INT(data.share, FIXED, "1", 1, 1 << 20,
        .help = "Trains on one text in so many of data.train, with the same share of every class; of a text's group (data.group, "
                "with data.validation_split) all or none. Which ones depends on train.data_seed (auto: 42). 1: on all of them."),
    STRING(data.group, FIXED, "", .elsewhere = "group_column groups group_by group_column_name",
           .help = "Column of data.train; examples with the same value there (an author, a document) stay in one fold, or on "
                   "one side of data.validation_split. train.task = "
                   "ranking: of every file, what query a document is for. Empty: every example for itself; of a ranking those with the "
                   "same first text."),
    INT(data.max_length, FIXED, "auto", 3, 1 << 20, .automatic = true, .unit = "tokens",
        .elsewhere =
            "tok.max_length tokenizer.max_length max_seq_length max_seq_len max_len seq_length model_max_length",
        .help = "Longer texts are cut to so many tokens, special ones included. auto: 512, or what the model has."),
    STRING(data.truncation, FIXED, "auto",
           .elsewhere = "truncation truncation_side truncation_strategy sliding_window doc_stride stride return_overflowing_tokens",
           .help = "What stays of longer texts. head: the beginning. tail: the end. head_tail: a quarter from the beginning, the "
                   "rest from the end. windows(64): all, in windows that share 64 tokens with the one before; in training each is "
                   "an example with the text's label, elsewhere they are pooled (eval.window_pooling). windows: a quarter is "
                   "shared. Of a pair the longer text is cut first, and windows are of it alone, each with the other text. auto: "
                   "head, and what a saved model was trained with. Of question_answering windows of the context alone (auto: they share 128 tokens, "
                   "or a third of data.max_length where that is less)."),
    CHOICE(data.learn, FIXED, "completion", learn_choices,
           .also = "train.loss_on", .elsewhere = "completion_only_loss assistant_only_loss train_on_prompt train_on_inputs mask_prompt train_on_responses_only",
           .help = "train.task = causal_lm: what is learned of a text. completion: of messages what the assistant says, of a prompt its completion, of a "
                   "plain text all. all: every token. train.loss_on is taken for it."),
    PATH(data.chat_template, FIXED, "", .elsewhere = "chat_template chat_template_path",
         .help = "train.task = causal_lm: a file with the chat template (Jinja) that messages are written with. Empty: the model's own."),
    STRING(data.chat_variables, FIXED, "", .elsewhere = "chat_template_kwargs",
           .help = "What the chat template is told beside the messages: a JSON object, as {\"enable_thinking\": false} or {\"date_string\": \"26 Jul 2024\"}."),
    BOOL(data.label_all_tokens, FIXED, "false", .elsewhere = "label_all_tokens label_all_subwords",
         .help = "train.task = token_classification: in training every token of a word has its tag (I- behind the first), not the first one "
                 "alone. What is judged and predicted are words, by their first tokens, in any case."),
    PATH(data.cache_dir, FREE, "", .literal = "none", .elsewhere = "cache tokenizer_cache data_cache_dir",
         .help =
             "Where tokenised text is kept between runs. Empty: ftengine in the user's cache directory; none: nowhere."),
    PATH(data.feature_cache, FREE, "auto", .literal = "auto off", .elsewhere = "feature_cache_dir embedding_cache",
         .help = "Where the head alone is trained (train.parameters = classifier) the frozen rest of the model reads every text "
                 "once, and epochs, other runs and the trials of a study read what it made of them. A directory: there; auto: "
                 "beside the tokenised text (data.cache_dir), none there: for this run alone; off: every text is computed in "
                 "every epoch. On a CPU results are the same bits, on a GPU up to rounding."),
    SIZE(data.feature_cache_limit, FREE, "8GiB", 1 << 16, 1LL << 50,
         .help = "The most that the files of data.feature_cache may take together: those that were not used for longest go "
                 "first. Where one data set takes more, every text is computed in every epoch."),
    INT(data.workers, FREE, "auto", 0, 256, .automatic = true, .unit = "threads",
        .elsewhere = "num_workers dataloader_num_workers n_workers workers loader_workers preprocessing_num_workers",
        .help = "Threads that read and change pictures ahead of the step. 0: none, the step's own does it. The same bits with any number. auto: 4, and 1 "
                "beside the steps of a CPU."),
    CHOICE(data.broken_pictures, FIXED, "error", broken_choices, .elsewhere = "on_error ignore_errors skip_errors verify_images ignore_broken_images",
           .help = "What becomes of pictures that cannot be read. error: the first one ends the run before it begins. skip: all are left out, named and counted; to find "
                   "them, every picture is read once more in front."),
    BOOL(data.scaled_decoding, FIXED, "false", .elsewhere = "scaled_decode draft jpeg_scale",
         .help = "JPEG pictures are decoded at 1/2, 1/4 or 1/8 of their size where they then still are as large as the model reads them: faster, and with other "
                 "pixels than Pillow's. With augment.crop they are decoded whole."),
};
const ft_section ft_data_section = {.name = "data", .help = "What it is trained and judged on.", .rows = rows, .count = ROWS};
