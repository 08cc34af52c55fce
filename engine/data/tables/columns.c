#include "engine/data/tables/columns.h"

#include "base/nearest.h"
#include "engine/data/tables/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Usual names. A file with several of them for one thing is asked about; of ids the earlier one is meant.
static const char *const TEXT_NAMES[] = {"sentence", "text",      "review",  "question", "content",
                                         "comment",  "tweet",     "message", "document", "snippet",
                                         "phrase",   "utterance", "query",   "body",     "title"};
static const char *const LABEL_NAMES[] = {"label",     "labels", "class",  "category",   "target",
                                          "sentiment", "intent", "rating", "gold_label", "topic"};
static const char *const ID_NAMES[] = {"id", "idx", "index", "guid", "sentence_id", "row_id"};
enum {
    NAMES_TEXT = sizeof TEXT_NAMES / sizeof *TEXT_NAMES,
    NAMES_LABEL = sizeof LABEL_NAMES / sizeof *LABEL_NAMES,
    NAMES_ID = sizeof ID_NAMES / sizeof *ID_NAMES
};

static bool given(const char *name) { return name != NULL && *name != '\0'; }

static void hint_columns(const ft_columns *columns) {
    char list[400] = "";
    size_t used = 0;
    for (int i = 0; i < columns->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", columns->name[i]);
    for (char *c = list; *c != '\0'; c++) // the file may be no text at all, and this goes to a terminal
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    ft_hint("the header has %d column%s: %s%s", columns->count, columns->count == 1 ? "" : "s", list,
            used >= sizeof list ? "..." : "");
    if (columns->count == 1 && (strchr(list, ',') != NULL || strchr(list, ';') != NULL))
        ft_hint("columns are separated by tabs (TSV)");
}

static ft_status find_given(const ft_columns *columns, const char *name, const char *role, bool optional, int *column) {
    *column = FT_NO_COLUMN;
    for (int i = 0; i < columns->count; i++) {
        if (strcmp(columns->name[i], name) != 0) continue;
        if (*column != FT_NO_COLUMN) return ft_fail_at(columns->file, 1, 0, "two columns are named \"%s\"", name);
        *column = i;
    }
    if (*column != FT_NO_COLUMN || optional) return FT_OK;
    ft_status status = ft_fail_at(columns->file, 1, 0, "no column \"%s\" for the %s", name, role);
    const char *near = ft_nearest(name, columns->count, columns->name);
    if (near != NULL) ft_hint("did you mean \"%s\"?", near);
    hint_columns(columns);
    return status;
}

static bool is_taken(const ft_selection *taken, int column) {
    for (int i = 0; i < taken->label_count; i++)
        if (taken->label[i] == column) return true;
    return column == taken->text || column == taken->pair || column == taken->id;
}

// The column with the best of the usual names; several of them are a question that only the user can answer.
static ft_status find_usual(const ft_columns *columns, const char *const *names, int count, const ft_selection *taken,
                            const char *option, int *column) {
    for (int n = 0; n < count; n++) {
        for (int i = 0; i < columns->count; i++) {
            if (strcasecmp(columns->name[i], names[n]) != 0 || is_taken(taken, i)) continue;
            if (*column == FT_NO_COLUMN) {
                FT_TRY(find_given(columns, columns->name[i], "", false, column)); // refuses a name that stands there twice
            } else if (option != NULL && i != *column) {
                ft_status status = ft_fail_at(columns->file, 1, 0, "which column is meant, \"%s\" or \"%s\"?",
                                              columns->name[*column < i ? *column : i], columns->name[*column < i ? i : *column]);
                ft_hint("%s=%s or %s=%s says", option, columns->name[*column], option, columns->name[i]);
                return status;
            }
        }
    }
    return FT_OK;
}

static const char *text_role(const ft_table_request *r) { return r->pictures ? "picture" : "text"; }
static const char *text_option(const ft_table_request *r) { return r->pictures ? "data.image" : "data.text_column"; }

static ft_status fail_unfound(const ft_columns *columns, const char *role, const char *option) {
    ft_status status = ft_fail_at(columns->file, 1, 0, "no %s column found by its name", role);
    hint_columns(columns);
    if (option != NULL) ft_hint("name it with %s=NAME", option);
    return status;
}

// ---- labels: one column, or several separated by commas -----------------------------------------------------------

static ft_status add_label(const ft_columns *columns, const char *name, bool optional, ft_selection *chosen) {
    int column;
    FT_TRY(find_given(columns, name, "label", optional, &column));
    if (column == FT_NO_COLUMN) return FT_OK;
    for (int i = 0; i < chosen->label_count; i++)
        if (chosen->label[i] == column) return ft_fail_at(columns->file, 1, 0, "\"%s\" is listed twice for the labels", name);
    chosen->label[chosen->label_count++] = column;
    return FT_OK;
}

static ft_status find_labels(const ft_columns *columns, const char *names, bool optional, ft_arena *arena, ft_selection *chosen) {
    int whole;
    if (strchr(names, ',') != NULL) { // a name may hold commas, and then it is not a list
        FT_TRY(find_given(columns, names, "label", true, &whole));
        if (whole == FT_NO_COLUMN) {
            char *list = ft_arena_strdup(arena, names);
            if (list == NULL) return FT_NO_MEMORY;
            for (char *name = list, *next; name != NULL; name = next) {
                next = strchr(name, ',');
                if (next != NULL) *next++ = '\0';
                name += strspn(name, " ");
                for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--) name[n - 1] = '\0';
                FT_TRY(add_label(columns, name, optional, chosen));
            }
            return FT_OK;
        }
    }
    return add_label(columns, names, optional, chosen);
}

static ft_status usual_label(const ft_columns *columns, ft_selection *chosen) {
    int column = FT_NO_COLUMN;
    FT_TRY(find_usual(columns, LABEL_NAMES, NAMES_LABEL, chosen, "data.label_column", &column));
    if (column != FT_NO_COLUMN) chosen->label[chosen->label_count++] = column;
    return FT_OK;
}

static ft_status check_apart(const ft_columns *columns, const ft_table_request *r, const ft_selection *chosen) {
    for (int i = 0; i < chosen->label_count; i++)
        if (chosen->label[i] == chosen->text || chosen->label[i] == chosen->pair)
            return ft_fail_at(columns->file, 1, 0, "%s and label are the same column", text_role(r));
    if (chosen->pair == chosen->text) return ft_fail_at(columns->file, 1, 0, "both texts are the same column");
    return FT_OK;
}

// Texts that are words, with their tags or spans.
static const char *const WORDS_NAMES[] = {"tokens", "words"};
static const char *const TAGS_NAMES[] = {"ner_tags", "tags", "pos_tags", "ner", "entities", "spans", "label", "labels", "annotations"};
enum { NAMES_WORDS = sizeof WORDS_NAMES / sizeof *WORDS_NAMES, NAMES_TAGS = sizeof TAGS_NAMES / sizeof *TAGS_NAMES };

// Questions, the passages that answer them, and their answers.
static const char *const QUESTION_NAMES[] = {"question", "query"};
static const char *const PASSAGE_NAMES[] = {"context", "passage", "paragraph"};
static const char *const ANSWERS_NAMES[] = {"answers", "answer"};

static ft_status find_questions(const ft_columns *columns, const ft_table_request *r, bool label_wanted, ft_selection *chosen) {
    int answers = FT_NO_COLUMN;
    if (!given(r->text)) FT_TRY(find_usual(columns, QUESTION_NAMES, 2, chosen, NULL, &chosen->text));
    if (!given(r->pair)) FT_TRY(find_usual(columns, PASSAGE_NAMES, 3, chosen, NULL, &chosen->pair));
    if (!given(r->label) && label_wanted) FT_TRY(find_usual(columns, ANSWERS_NAMES, 2, chosen, NULL, &answers));
    if (answers != FT_NO_COLUMN) chosen->label[chosen->label_count++] = answers;
    if (chosen->text == FT_NO_COLUMN) return fail_unfound(columns, "question", "data.text_column");
    return chosen->pair != FT_NO_COLUMN ? FT_OK : fail_unfound(columns, "context", "data.text_pair");
}

// Paths of pictures, as datasets' image folders and others have them.
static const char *const PICTURE_NAMES[] = {"image", "file_name", "path", "image_path", "filename", "file", "picture", "img"};
enum { NAMES_PICTURE = sizeof PICTURE_NAMES / sizeof *PICTURE_NAMES };

// Texts to go on with: messages (with the tools that they may use), what is asked and what is answered, or texts.
static const char *const MESSAGES_NAMES[] = {"messages"}, *const TOOLS_NAMES[] = {"tools"}, *const PROMPT_NAMES[] = {"prompt"}, *const COMPLETION_NAMES[] = {"completion"};

static bool is_called(const ft_columns *columns, int column, const char *name) { return strcasecmp(columns->name[column], name) == 0; }

static ft_status find_language(const ft_columns *columns, const ft_table_request *r, ft_selection *chosen) {
    int tools = FT_NO_COLUMN;
    if (chosen->text == FT_NO_COLUMN) FT_TRY(find_usual(columns, MESSAGES_NAMES, 1, chosen, NULL, &chosen->text));
    if (chosen->text == FT_NO_COLUMN) FT_TRY(find_usual(columns, PROMPT_NAMES, 1, chosen, NULL, &chosen->text));
    if (chosen->text == FT_NO_COLUMN) FT_TRY(find_usual(columns, TEXT_NAMES, NAMES_TEXT, chosen, "data.text_column", &chosen->text));
    if (chosen->text == FT_NO_COLUMN || given(r->pair)) return FT_OK;
    FT_TRY(find_usual(columns, TOOLS_NAMES, 1, chosen, NULL, &tools));
    if (is_called(columns, chosen->text, MESSAGES_NAMES[0])) chosen->pair = tools;
    if (!is_called(columns, chosen->text, PROMPT_NAMES[0])) return FT_OK;
    if (tools != FT_NO_COLUMN) return ft_fail_at(columns->file, 1, 0, "\"tools\" beside \"prompt\" are not supported: with \"messages\" they are");
    FT_TRY(find_usual(columns, COMPLETION_NAMES, 1, chosen, NULL, &chosen->pair));
    return chosen->pair != FT_NO_COLUMN || r->prompts ? FT_OK : fail_unfound(columns, "completion", "data.text_pair");
}

static ft_status find_usual_columns(const ft_columns *columns, const ft_table_request *r, bool label_wanted, ft_selection *chosen) {
    if (r->questions) return find_questions(columns, r, label_wanted, chosen);
    if (r->language) return find_language(columns, r, chosen);
    if (columns->numbered) {
        if (!given(r->text)) chosen->text = 0;
        if (!given(r->label) && label_wanted && columns->count > 1) chosen->label[chosen->label_count++] = columns->count - 1;
        return FT_OK;
    }
    if (r->pictures && !given(r->text)) FT_TRY(find_usual(columns, PICTURE_NAMES, NAMES_PICTURE, chosen, text_option(r), &chosen->text));
    if (r->words && !given(r->text)) FT_TRY(find_usual(columns, WORDS_NAMES, NAMES_WORDS, chosen, NULL, &chosen->text));
    if (!given(r->text) && !r->pictures && chosen->text == FT_NO_COLUMN) FT_TRY(find_usual(columns, TEXT_NAMES, NAMES_TEXT, chosen, text_option(r), &chosen->text));
    int tags = FT_NO_COLUMN;
    if (r->words && !given(r->label) && label_wanted) FT_TRY(find_usual(columns, TAGS_NAMES, NAMES_TAGS, chosen, NULL, &tags));
    if (tags != FT_NO_COLUMN) chosen->label[chosen->label_count++] = tags;
    else if (!given(r->label) && label_wanted && !r->words) FT_TRY(usual_label(columns, chosen));
    return FT_OK;
}

// Columns named by the user come first, so that a usual name never takes one of them for something else.
ft_status ft_columns_select(const ft_columns *columns, const ft_table_request *r, ft_arena *arena, ft_selection *chosen) {
    *chosen = (ft_selection){.text = FT_NO_COLUMN, .pair = FT_NO_COLUMN, .id = FT_NO_COLUMN};
    chosen->label = ft_arena_alloc(arena, ((size_t)columns->count + 1) * sizeof *chosen->label);
    if (chosen->label == NULL) return FT_NO_MEMORY;
    bool label_wanted = r->need != FT_LABEL_IGNORED && !r->language;
    if (given(r->text)) FT_TRY(find_given(columns, r->text, text_role(r), false, &chosen->text));
    if (given(r->pair)) FT_TRY(find_given(columns, r->pair, "second text", false, &chosen->pair));
    if (given(r->label) && label_wanted) FT_TRY(find_labels(columns, r->label, r->need == FT_LABEL_OPTIONAL, arena, chosen));
    if (given(r->id)) FT_TRY(find_given(columns, r->id, "id", false, &chosen->id));
    FT_TRY(find_usual_columns(columns, r, label_wanted, chosen));
    if (r->id != NULL && !given(r->id)) FT_TRY(find_usual(columns, ID_NAMES, NAMES_ID, chosen, NULL, &chosen->id));

    if (chosen->text == FT_NO_COLUMN) return fail_unfound(columns, text_role(r), text_option(r));
    if (chosen->label_count == 0 && r->need == FT_LABEL_REQUIRED && !r->language) return fail_unfound(columns, "label", "data.label_column");
    if (chosen->id == FT_NO_COLUMN && r->id != NULL && (!r->questions || given(r->id))) return fail_unfound(columns, "id", NULL);
    return check_apart(columns, r, chosen);
}

bool ft_columns_have_text(const ft_columns *columns, const ft_table_request *r) {
    for (int i = 0; i < columns->count; i++) {
        if (r->language && (strcasecmp(columns->name[i], PROMPT_NAMES[0]) == 0 || strcasecmp(columns->name[i], MESSAGES_NAMES[0]) == 0)) return true;
        if (given(r->text) && strcmp(columns->name[i], r->text) == 0) return true;
        for (int n = 0; !given(r->text) && r->pictures && n < NAMES_PICTURE; n++)
            if (strcasecmp(columns->name[i], PICTURE_NAMES[n]) == 0) return true;
        for (int n = 0; !given(r->text) && n < NAMES_TEXT; n++)
            if (strcasecmp(columns->name[i], TEXT_NAMES[n]) == 0) return true;
    }
    return false;
}
