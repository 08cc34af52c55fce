// reference_json.c - every option for programs: what it takes, as its row says.
#include "base/json/json.h"
#include "engine/config/config_json.h"
#include "engine/config/options.h"

#include <math.h>
#include <string.h>

static const char *const type_names[] = {[FT_OPTION_INT] = "int",       [FT_OPTION_FLOAT] = "float",   [FT_OPTION_BOOL] = "bool",
                                         [FT_OPTION_CHOICE] = "choice", [FT_OPTION_NAME] = "choice",   [FT_OPTION_STRING] = "string",
                                         [FT_OPTION_PATH] = "path",     [FT_OPTION_SIZE] = "size",     [FT_OPTION_LIST] = "int_list",
                                         [FT_OPTION_EVERY_K] = "every", [FT_OPTION_DURATION] = "duration"};
static const char *const change_names[] = {[FT_FIXED] = "never", [FT_RESUMABLE] = "resumed", [FT_COMPARABLE] = "compared", [FT_FREE] = "always"};

static json_t *words(const char *text, bool *failed) {
    json_t *list = json_array();
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, " ");
        ft_json_append(list, json_stringn(at, length), failed);
        at += length + (at[length] == ' ');
    }
    return list;
}

static json_t *choices(const ft_option *o, bool *failed) {
    json_t *list = json_array();
    for (const ft_option_choice *c = o->choices; c != NULL && c->name != NULL; c++) ft_json_append(list, json_string(c->name), failed);
    return list;
}

static void put_bounds(json_t *object, const ft_option *o, bool *failed) {
    const bool whole = o->type == FT_OPTION_INT || o->type == FT_OPTION_LIST || o->type == FT_OPTION_SIZE || o->type == FT_OPTION_EVERY_K;
    if (whole) {
        if (o->least != INT64_MIN) ft_json_put(object, "least", json_integer(o->least), failed);
        if (o->most != INT64_MAX) ft_json_put(object, "most", json_integer(o->most), failed);
    }
    if (o->type != FT_OPTION_FLOAT && o->type != FT_OPTION_DURATION) return;
    if (isfinite(o->low)) ft_json_put(object, o->low_open ? "above" : "least", json_real(o->low), failed);
    if (isfinite(o->high)) ft_json_put(object, o->high_open ? "below" : "most", json_real(o->high), failed);
}

static json_t *option_json(const ft_option *o, bool *failed) {
    char takes[512];
    json_t *object = json_object();
    ft_json_put(object, "name", json_string(o->name), failed);
    ft_json_put(object, "section", json_string(o->section->name), failed);
    ft_json_put(object, "type", json_string(type_names[o->type]), failed);
    ft_json_put(object, "default", json_string(o->initial), failed);
    ft_json_put(object, "auto", json_boolean(o->automatic), failed);
    if (o->type == FT_OPTION_SIZE) ft_json_put(object, "share", json_boolean(o->share), failed);
    put_bounds(object, o, failed);
    if (o->choices != NULL) ft_json_put(object, "choices", choices(o, failed), failed);
    if (o->unit != NULL) ft_json_put(object, "unit", json_string(o->unit), failed);
    ft_json_put(object, "takes", json_string(ft_option_takes(o, takes, sizeof takes)), failed);
    ft_json_put(object, "elsewhere", words(o->elsewhere, failed), failed);
    ft_json_put(object, "may_change", json_string(change_names[o->change]), failed);
    ft_json_put(object, "help", json_string(o->help), failed);
    return object;
}

json_t *ft_config_reference_json(const ft_section *const *others, bool *failed) {
    json_t *root = json_object(), *sections = json_array(), *options = json_array();
    const ft_section *section;
    const ft_option *option;
    for (int i = 0; (section = ft_section_at(others, i)) != NULL; i++) {
        json_t *object = json_object();
        ft_json_put(object, "name", json_string(section->name), failed);
        ft_json_put(object, "help", json_string(section->help), failed);
        ft_json_put(object, "of_options", json_boolean(section->lines), failed); // its keys are options of the others
        ft_json_append(sections, object, failed);
    }
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++) ft_json_append(options, option_json(option, failed), failed);
    ft_json_put(root, "format_version", json_integer(1), failed);
    ft_json_put(root, "sections", sections, failed);
    ft_json_put(root, "options", options, failed);
    return root;
}
