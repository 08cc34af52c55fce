// Words and their tags as files have them: CoNLL's columns, JSON lines of words and tags, and of texts and spans; and what is wrong with them.
// Catches: sentences that run together, a column taken for another, a tag given to the word beside, spans counted in bytes or with their
// end, a class that only a missing tag would be of, one file read in another's form, offsets in bytes, and mistakes without their line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/data/tables/table.h"
#include "engine/data/labels/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_status read(const char *text, const char *name, const char *column, ft_table *table) {
    char *data = malloc(strlen(text) + 1);
    memcpy(data, text, strlen(text));
    const ft_table_request request = {.words = true, .empty_labels = true, .label = column, .text = ""};
    return ft_table_parse(data, strlen(text), SIZE_MAX / 4, name, &request, table);
}

// The words of all rows with their tags, "Ada/B-PER left/O | ...", and how many spans begin or end inside a word. `other`: may have more tags.
static ft_status list_beside(const ft_table *table, const ft_table *other, char *out, size_t size, ft_arena *arena) {
    ft_labels labels = {0};
    ft_word_list words = {0};
    int32_t tag[64];
    out[0] = '\0';
    ft_status status = ft_tags_labels(table, other, "data", arena, &labels);
    if (other != NULL) table = other;
    ft_tag_source source = {0};
    if (status == FT_OK) status = ft_tags_open(&labels, table, "data", &source);
    for (int64_t row = 0; status == FT_OK && row < table->rows; row++) {
        status = ft_words_find(table->text[row], table->text_length[row], &words);
        if (status == FT_OK) status = ft_tags_of_row(&source, row, &words, tag);
        for (size_t i = 0; status == FT_OK && i < words.count; i++)
            snprintf(out + strlen(out), size - strlen(out), "%.*s/%s ", (int)(words.word[i].end - words.word[i].begin),
                     table->text[row] + words.word[i].begin, tag[i] < 0 ? "-" : labels.names[tag[i]]);
        snprintf(out + strlen(out), size - strlen(out), "| ");
    }
    if (source.spans_cutting > 0)
        snprintf(out + strlen(out), size - strlen(out), "%lld of %lld cut", (long long)source.spans_cutting, (long long)source.spans_read);
    free(words.word);
    ft_tags_close(&source);
    return status;
}

static ft_status list(const ft_table *table, char *out, size_t size, ft_arena *arena) { return list_beside(table, NULL, out, size, arena); }

static void test_forms(void **state) {
    static const struct {
        const char *name, *column, *text, *want;
    } cases[] = {
        {"a.conll", "", "-DOCSTART- -X- O O\n\nAda NNP B-PER\nleft VBD O\n\nNew NNP B-LOC\nYork NNP I-LOC\n", "Ada/B-PER left/O | New/B-LOC York/I-LOC | "},
        {"a.conll", "2", "Ada NNP B-PER\nleft VBD O\n", "Ada/NNP left/VBD | "},
        {"a.tsv", "", "New York\tB-LOC\r\nis\tO\r\n\r\n\r\n", "New York/B-LOC is/O | "},
        {"train.txt", "", "\n\nAda  B-PER \nleft   O\n   \n", "Ada/B-PER left/O | "},
        {"a.conll", "", "# id 7 domain=x\n#\tO\nA\tB-X\n\n# text = B\nB\tB-X\n", "#/O A/B-X | B/B-X | "},
        {"a.conllu", "4", "# sent_id = 1\n1-2\tzum\t_\t_\t_\t_\t_\t_\t_\t_\n1\tzu\tzu\tADP\t_\t_\t_\t_\t_\t_\n2\tdem\tder\tDET\t_\t_\t_\t_\t_\t_\n", "1/ADP 2/DET | "},
        {"a.jsonl", "", "{\"tokens\": [\"Ada\", \"left\"], \"ner_tags\": [\"B-PER\", \"O\"]}\n{\"tokens\": [\"x\"], \"ner_tags\": [\"O\"]}\n",
         "Ada/B-PER left/O | x/O | "},
        {"a.jsonl", "", "{\"words\": [\"a\", \"b\", \"c\"], \"tags\": [2, 0, 1]}\n", "a/2 b/0 c/1 | "},
        {"a.jsonl", "", "{\"words\": [\"a\", \"b\", \"c\", \"d\"], \"tags\": [\"O\", \"_\", \"-100\", \"B-X\"]}\n", "a/O b/- c/- d/B-X | "},
        {"a.jsonl", "", "{\"text\": \"S\\u00e3o Paulo, Ada!\", \"entities\": [[0, 9, \"LOC\"], [11, 14, \"PER\"]]}\n",
         "S\u00e3o/B-LOC Paulo/I-LOC ,/O Ada/B-PER !/O | "},
        {"a.jsonl", "", "{\"text\": \"Berlin-based \\ud83d\\ude42 Ada\", \"label\": [{\"start\": 0, \"end\": 6, \"label\": \"LOC\"}, {\"start_offset\": 15, \"end_offset\": 18, "
                        "\"label\": \"PER\"}]}\n{\"text\": \"none here\", \"label\": []}\n",
         "Berlin/B-LOC -/O based/O \U0001F642/O Ada/B-PER | none/O here/O | "},
        {"a.jsonl", "", "{\"tokens\": [\"New\", \"York\", \"x\"], \"spans\": [{\"start\": 0, \"end\": 8, \"label\": \"LOC\"}]}\n", "New/B-LOC York/I-LOC x/O | "},
        {"a.jsonl", "", "{\"text\": \"unbelievable\", \"spans\": [[2, 8, \"X\"]]}\n", "unbelievable/B-X | 1 of 1 cut"},
        {"a.jsonl", "", "{\"text\": \"\\u00e9\\u00e9 Ada left\", \"spans\": [[0, 2, \"X\"], [5, 8, \"PER\"]]}\n", "\u00e9\u00e9/B-X Ada/B-PER left/I-PER | 1 of 2 cut"},
        {"a.jsonl", "", "{\"text\": \" Ada left \", \"spans\": [[0, 10, \"X\"]]}\n", "Ada/B-X left/I-X | "},
        {"a.jsonl", "", "{\"tokens\": [\"she\", \"left\"], \"entities\": []}\n{\"tokens\": [\"Ada\", \"left\"], \"entities\": [[0, 3, \"PER\"]]}\n",
         "she/O left/O | Ada/B-PER left/O | "},
        {"a.jsonl", "", "{\"tokens\": [\"she\", \"left\"], \"label\": []}\n{\"tokens\": [\"Ada\", \"left\"], \"label\": [[0, 3, \"PER\"]]}\n",
         "she/O left/O | Ada/B-PER left/O | "},
        {"a.jsonl", "", "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"B-X\", \"O\"]}\n{\"tokens\": [\"Ada\", \"left\"], \"tags\": [[0, 3, \"PER\"]]}\n",
         "a/B-X b/O | Ada/B-PER left/O | "},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ft_table table;
        ft_arena arena = {0};
        char got[1024];
        if (read(cases[c].text, cases[c].name, cases[c].column, &table) != FT_OK || list(&table, got, sizeof got, &arena) != FT_OK)
            fail_msg("case %zu: %s (%s)", c, ft_error_message(), ft_error_where());
        assert_string_equal(got, cases[c].want);
        ft_table_free(&table);
        ft_arena_free(&arena);
    }
}

// A file has its own form, whatever that of the training file is.
static void test_beside(void **state) {
    static const struct {
        const char *train, *name, *other, *want;
    } cases[] = {
        {"x B-PER\ny O\n", "b.jsonl", "{\"text\": \"Ada left\", \"entities\": [[0, 3, \"PER\"]]}\n", "Ada/B-PER left/O | "},
        {"x B-PER\ny O\n", "b.jsonl", "{\"tokens\": [\"Ada\", \"left\"], \"entities\": []}\n", "Ada/O left/O | "},
        {"x B-PER\ny O\n", "b.conll", "z I-LOC\ny _\n", "z/I-LOC y/- | "},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ft_table train, other;
        ft_arena arena = {0};
        char got[1024];
        assert_int_equal(read(cases[c].train, "a.conll", "", &train), FT_OK);
        if (read(cases[c].other, cases[c].name, "", &other) != FT_OK || list_beside(&train, &other, got, sizeof got, &arena) != FT_OK)
            fail_msg("case %zu: %s (%s)", c, ft_error_message(), ft_error_where());
        assert_string_equal(got, cases[c].want);
        ft_table_free(&train);
        ft_table_free(&other);
        ft_arena_free(&arena);
    }
}

#define TEN(text) text text text text text text text text text text
#define LONG TEN(TEN("tag")) // 300 bytes

static void test_mistakes(void **state) {
    static const struct {
        const char *name, *text, *where, *message;
    } cases[] = {
        {"a.conll", "Ada B-PER\nleft\n", "a.conll:2", "this line has 1 column, the first one of the file 2"},
        {"a.conll", "\n\n", "a.conll:1", "no sentences"},
        {"a.conll", "Ada\n", "a.conll:1", "no label column"},
        {"a.conll", "Ada _\n", "data", "no word has a tag"},
        {"a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\"]}\n", "data:1", "2 words and 1 tag"},
        {"a.jsonl", "{\"text\": \"a b\", \"tags\": [\"O\", \"O\", \"O\"]}\n", "data:1", "2 words and 3 tags"},
        {"a.jsonl", "{\"text\": \"Ada left\", \"label\": \"PER\"}\n", "data", "no word has a tag"},
        {"a.jsonl", "{\"tokens\": [\"a\"], \"tags\": [\"O\"]}\n{\"tokens\": [\"a\"], \"tags\": \"O\"}\n", "data:2", "neither a list of tags nor of spans"},
        {"a.jsonl", "{\"text\": \"Ada left\", \"spans\": [[0, 3, \"A\"], [2, 8, \"B\"]]}\n", "data:1", "share a word"},
        {"a.jsonl", "{\"text\": \"Ada  left\", \"spans\": [[3, 5, \"A\"]]}\n", "data:1", "holds no word"},
        {"a.jsonl", "{\"text\": \"Ada\", \"spans\": [[4, 9, \"A\"]]}\n", "data:1", "is none of this text"},
        {"a.jsonl", "{\"text\": \"Ada left\", \"spans\": [[0, 9999, \"A\"]]}\n", "data:1", "0 to 9999 is none of this text, which has 8 characters"},
        {"a.jsonl", "{\"tokens\": [\"Ada\", \"left\"], \"spans\": [[0, 9, \"A\"]]}\n", "data:1", "which has 8 characters"},
        {"a.conll", "a " LONG "\n", "data:1", "has 300 bytes: at most 255"},
        {"a.conll", "a B-X\nb " LONG "\n", "data:1", "has 300 bytes: at most 255"},
        {"a.jsonl", "{\"text\": \"Ada left\", \"spans\": [[0, 3, \"A\"], [4, 8, \"" LONG "\"]]}\n", "data:1", "has 302 bytes: at most 255"},
        {"a.jsonl", "{\"text\": \"Ada\", \"spans\": [[3, 1, \"A\"]]}\n", "data:1", "is none of this text"},
        {"a.jsonl", "{\"text\": \"Ada\", \"spans\": [[0, \"A\"]]}\n", "a.jsonl:1", "or of spans with start, end and label"},
        {"a.jsonl", "{\"tokens\": [\"a\\u001fb\"], \"tags\": [\"O\"]}\n", "a.jsonl:1", "\"tokens\""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ft_table table = {0};
        ft_arena arena = {0};
        char got[1024];
        ft_status status = read(cases[c].text, cases[c].name, "", &table);
        if (status == FT_OK && table.label == NULL) status = ft_fail(FT_INVALID, "a.conll:1", "no label column");
        if (status == FT_OK) status = list(&table, got, sizeof got, &arena);
        if (status != FT_INVALID || strcmp(ft_error_where(), cases[c].where) != 0 || strstr(ft_error_message(), cases[c].message) == NULL)
            fail_msg("case %zu: %d, \"%s\" (%s)", c, status, ft_error_message(), ft_error_where());
        ft_table_free(&table);
        ft_arena_free(&arena);
    }
}

// Another file may have tags that training has not: near ones are named.
static void test_unknown(void **state) {
    ft_table train, other;
    ft_arena arena = {0};
    ft_labels labels = {0};
    ft_word_list words = {0};
    int32_t tag[4];
    assert_int_equal(read("a B-PER\nb O\n", "a.conll", "", &train), FT_OK);
    assert_int_equal(read("a B-PRE\n", "b.conll", "", &other), FT_OK);
    assert_int_equal(ft_tags_labels(&train, NULL, "a.conll", &arena, &labels), FT_OK);
    assert_int_equal(ft_words_find(other.text[0], other.text_length[0], &words), FT_OK);
    ft_tag_source source;
    assert_int_equal(ft_tags_open(&labels, &other, "b.conll", &source), FT_OK);
    assert_int_equal(ft_tags_of_row(&source, 0, &words, tag), FT_INVALID);
    assert_string_equal(ft_error_where(), "b.conll:1");
    assert_non_null(strstr(ft_error_message(), "unknown tag \"B-PRE\""));
    ft_error error;
    ft_error_save(&error);
    assert_non_null(strstr(error.hint[0], "B-PER"));
    ft_tags_close(&source);
    ft_table_free(&train);
    ft_table_free(&other);
    ft_arena_free(&arena);
    free(words.word);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_beside), cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
