// Models that read pictures of another size than their own: positions interpolated as transformers does it, and what is refused. (Of their own size:
// test_model.)
#include "engine/model/position_grid.h"
#include "tests/fixtures/model_fixture.h"

static const struct {
    const char *name;
    int64_t height, width;
} others[] = {{"vit", 20, 8}, {"dinov2", 8, 12}};
enum { OTHERS = sizeof others / sizeof others[0] };

// As open_fixture, of the pictures "other_pixels" of that size.
static void open_other(fixture *f, const char *name, int64_t height, int64_t width) {
    char dir[512], path[600];
    memset(f, 0, sizeof *f);
    snprintf(dir, sizeof dir, "%s/%s", FT_TEST_VECTORS, name);
    snprintf(path, sizeof path, "%s/expect.safetensors", dir);
    OK(ft_config_load(&f->options, 0, NULL, 0, NULL));
    OK(ft_cpu_open(2, NULL, &f->device));
    OK(ft_memory_create(f->device, 0, &f->memory));
    OK(ft_model_config_load(dir, &f->config));
    OK(ft_model_config_set_picture(&f->config, height, width, "x"));
    OK(ft_model_create(f->memory, &f->config, &f->options, (int32_t)f->config.num_labels, &f->model));
    ft_load_report report;
    OK(ft_model_load(&f->model, dir, 0.02, 1, &f->arena, &report));
    OK(ft_safetensors_open(path, &f->expect));
    read_pictures(f, "other_");
}

static void test_other_sizes(void **state) {
    for (size_t i = 0; i < OTHERS; i++) {
        fixture f;
        int64_t n;
        open_other(&f, others[i].name, others[i].height, others[i].width);
        float *want = expected(&f, "other_logits", &n), *got = calloc((size_t)n, sizeof *got);
        OK(predict_fixture(&f, (ft_batch_limits){0, 3}, got));
        assert_close(others[i].name, got, want, n, 1e-5);
        const json_t *size = json_object_get(f.config.json, "image_size");
        assert_int_equal(json_integer_value(json_array_get(size, 0)), others[i].height);
        assert_int_equal(json_integer_value(json_array_get(size, 1)), others[i].width);
        free(got);
        free(want);
        close_fixture(&f);
    }
}

// Its positions are those that were interpolated: they are what is trained.
static void test_gradients(void **state) {
    for (size_t i = 0; i < OTHERS; i++) {
        fixture f;
        char path[600];
        int64_t n;
        open_other(&f, others[i].name, others[i].height, others[i].width);
        ft_safetensors_close(f.expect);
        snprintf(path, sizeof path, "%s/%s/other_gradients.safetensors", FT_TEST_VECTORS, others[i].name);
        OK(ft_safetensors_open(path, &f.expect));
        OK(ft_model_prepare_training(&f.model, 0));
        OK(ft_gradients_hold(&f.model.parameters, false));
        float *want = expected(&f, "losses", &n), *got = calloc((size_t)n, sizeof *got);
        gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 3}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, got);
        assert_close("losses", got, want, n, 1e-5);
        check_fixture_gradients(&f);
        free(got);
        free(want);
        close_fixture(&f);
    }
}

static void test_refusals(void **state) {
    ft_model_config c;
    ft_position_grid grid;
    assert_false(ft_position_grid_of(9, 1, &grid)); // 8 is no square
    assert_true(ft_position_grid_of(10, 1, &grid) && grid.height == 3 && grid.width == 3);
    assert_false(ft_position_grid_of(1, 1, &grid));
    OK(ft_model_config_load(FT_TEST_VECTORS "/vit", &c));
    assert_int_equal(ft_model_config_set_picture(&c, 12, 10, "here"), FT_INVALID);
    assert_string_equal(ft_error_where(), "here");
    assert_non_null(strstr(ft_error_message(), "no whole patches of 4 x 4"));
    assert_int_equal(ft_model_config_set_picture(&c, 1024, 1024, "here"), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "have 65536 patches"));
    ft_model_config_free(&c);
    OK(ft_model_config_load(FT_TEST_VECTORS "/deit", &c)); // 8 x 12
    assert_int_equal(ft_model_config_set_picture(&c, 12, 12, "here"), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "only those of squares are interpolated"));
    ft_model_config_free(&c);
    static const struct {
        const char *keys, *told;
    } bad[] = {{"\"image_size\": [12]", "\"image_size\" must be a number or two"}, {"\"patch_size\": [4, 2]", "must be a square's"},
               {"\"num_channels\": 1", "\"num_channels\" must be 3"},               {"\"image_size\": 13, \"patch_size\": 4", "no whole patches"},
               {"\"image_size\": 0", "\"image_size\""}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"model_type\": \"vit\", %s}", bad[i].keys);
        assert_int_equal(ft_model_config_parse(text, strlen(text), "config.json", &c), FT_INVALID);
        if (strstr(ft_error_message(), bad[i].told) == NULL) fail_msg("%s: %s", text, ft_error_message());
    }
    const char swiglu[] = "{\"model_type\": \"dinov2\", \"use_swiglu_ffn\": true}";
    assert_int_equal(ft_model_config_parse(swiglu, strlen(swiglu), "config.json", &c), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "use_swiglu_ffn"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_sizes), cmocka_unit_test(test_gradients), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
