// option_table_case.h - what holds of every table of options: of a run's sections, and of those with others behind them
// (other_sections).
#ifndef FT_TEST_OPTION_TABLE_CASE_H
#define FT_TEST_OPTION_TABLE_CASE_H

#include "tests/engine/config_case.h"

static void test_rows_are_whole(void **state) {
    const ft_option *o;
    assert_null(ft_option_at(-1));
    assert_null(ft_option_at(ft_option_count()));
    assert_null(ft_option_name(-1));
    assert_null(ft_option_name(ft_option_count()));
    for (int i = 0; (o = ft_sections_option(other_sections, i)) != NULL; i++) {
        size_t section = strcspn(o->name, ".");
        assert_ptr_equal(ft_section_find(other_sections, o->name, section), o->section);
        assert_int_equal(ft_sections_find(other_sections, o->name), i); // so no name is there twice
        assert_true((o->section->about == NULL) == (i < ft_option_count())); // those of a run come first
        assert_ptr_equal(ft_option_at(i), i < ft_option_count() ? o : NULL);
        assert_true(o->change > FT_CHANGE_UNSAID && o->change <= FT_FREE);
        assert_true(strlen(o->help) > 10 && o->help[strlen(o->help) - 1] == '.');
        assert_true(o->initial != NULL);
        bool named = o->type == FT_OPTION_CHOICE || o->type == FT_OPTION_NAME;
        assert_true(named == (o->choices != NULL));
        // A name known elsewhere that were an option's own would never be looked up.
        for (const char *at = o->elsewhere; at != NULL && *at != '\0';) {
            char word[64];
            size_t length = strcspn(at, " ");
            assert_in_range(length, 1, sizeof word - 1);
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            assert_int_equal(ft_sections_find(other_sections, word), -1);
            at += length + strspn(at + length, " ");
        }
    }
}

static void test_known_elsewhere_is_unique(void **state) {
    char seen[8192] = " ";
    const ft_option *o;
    for (int i = 0; (o = ft_sections_option(other_sections, i)) != NULL; i++) {
        char words[512], *save = NULL;
        snprintf(words, sizeof words, "%s", o->elsewhere == NULL ? "" : o->elsewhere);
        for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
            char fenced[80];
            snprintf(fenced, sizeof fenced, " %s ", word);
            if (strstr(seen, fenced) != NULL) fail_msg("%s is known twice", word);
            assert_true(strlen(seen) + strlen(word) + 2 < sizeof seen);
            strcat(strcat(seen, word), " ");
        }
    }
}

// The fields of a struct of values are 8 bytes wide, or 1 or 4 and mostly alone in their 8 bytes, so that one without a row
// leaves a whole word that belongs to no option. No byte belongs to two. only NULL: the sections of a run, which share one.
__attribute__((unused)) static void every_field_has_a_row(const ft_section *only, size_t size) {
    static const size_t sizes[] = {
        [FT_OPTION_INT] = 8,   [FT_OPTION_FLOAT] = 8,  [FT_OPTION_BOOL] = 1, [FT_OPTION_CHOICE] = 4,
        [FT_OPTION_NAME] = 8,  [FT_OPTION_STRING] = 8, [FT_OPTION_PATH] = 8, [FT_OPTION_SIZE] = 8,
        [FT_OPTION_LIST] = 16, [FT_OPTION_EVERY_K] = 8, [FT_OPTION_DURATION] = 8};
    bool reached[4096] = {false};
    const ft_option *o;
    assert_true(size <= sizeof reached);
    for (int i = 0; (o = ft_sections_option(other_sections, i)) != NULL; i++)
        for (size_t k = 0; (only != NULL ? o->section == only : o->section->about == NULL) && k < sizes[o->type]; k++) {
            size_t byte = o->offset + k;
            assert_true(byte < size);
            assert_false(reached[byte]);
            reached[byte] = true;
        }
    for (size_t word = 0; word < size; word += 8)
        if (memchr(reached + word, true, 8) == NULL) fail_msg("the field at byte %zu has no option", word);
}

// A value of the option that is not its default, by its type, and what it is written as.
static const char *another_value(const ft_option *o, const char **as) {
    *as = NULL;
    switch (o->type) {
    case FT_OPTION_INT: return "77";
    case FT_OPTION_FLOAT: return "0.28125";
    case FT_OPTION_BOOL: return strcmp(o->initial, "true") == 0 ? "false" : "true";
    case FT_OPTION_CHOICE:
    case FT_OPTION_NAME: {
        int last = 0;
        while (o->choices[last + 1].name != NULL)
            last++;
        if (o->type == FT_OPTION_CHOICE && last > 0)
            for (int i = 0; i < last; i++)
                if (o->choices[i].value == o->choices[last].value) {
                    *as = o->choices[i].name;
                    break;
                }
        return o->choices[last].name;
    }
    case FT_OPTION_STRING: return strcmp(o->name, "data.truncation") == 0 ? "windows(3)" : "my column";
    case FT_OPTION_PATH: return "/no/such/file.tsv";
    case FT_OPTION_SIZE: return "24GiB";
    case FT_OPTION_LIST: *as = "512, 704, 448"; return "512,704 , 448";
    case FT_OPTION_EVERY_K: return "3";
    case FT_OPTION_DURATION: return "90m";
    }
    return NULL;
}

static void test_every_option_is_set_and_read_back(void **state) {
    const ft_option *o, *other_option;
    for (int i = 0; (o = ft_sections_option(other_sections, i)) != NULL; i++) {
        const char *as, *value = another_value(o, &as);
        char override[128], line[160];
        snprintf(override, sizeof override, "%s=%s", o->name, value);
        ft_config c, other;
        ok(load_overrides(&c, override, NULL)); // train.patience asks for evaluations, which the default has
        char scratch[FT_OPTION_TEXT_LIMIT];
        for (int k = 0; (other_option = ft_sections_option(other_sections, k)) != NULL; k++) { // it and no other
            const char *got = ft_option_get(&c, other_option, scratch);
            assert_string_equal(got, k == i ? (as != NULL ? as : value) : other_option->initial);
        }
        if (o->type != FT_OPTION_CHOICE || o->choices[1].value != o->choices[0].value) {
            char *ini = written(&c, false, false);
            snprintf(line, sizeof line, "%s = %s\n", ft_option_key(o), as != NULL ? as : value);
            if (strstr(ini, line) == NULL) fail_msg("'%s' lacks '%s'", ini, line);
            ok(load_text(&other, ini));
            assert_string_equal(ft_option_get(&other, o, scratch), as != NULL ? as : value);
            ft_config_free(&other);
            free(ini);
        }
        ft_config_free(&c);
    }
}

static void test_reference(void **state) {
    char *text = written(NULL, false, false);
    const ft_option *o;
    for (int i = 0; (o = ft_sections_option(other_sections, i)) != NULL; i++) {
        char line[128];
        snprintf(line, sizeof line, "\n%s =%s%s\n", ft_option_key(o), o->initial[0] == '\0' ? "" : " ", o->initial);
        if (strstr(text, line) == NULL) fail_msg("the reference lacks '%s'", line);
    }
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
        assert_true(strcspn(at, "\n") <= 120);
    ft_config c; // it is a configuration that changes nothing
    ok(load_text(&c, text));
    char *same = written(&c, false, false);
    assert_string_equal(same, "");
    ft_config_free(&c);
    free(text), free(same);
}

#define OPTION_TABLE_TESTS                                                                                             \
    cmocka_unit_test(test_rows_are_whole), cmocka_unit_test(test_known_elsewhere_is_unique),                           \
        cmocka_unit_test(test_every_option_is_set_and_read_back), cmocka_unit_test(test_reference)

#endif
