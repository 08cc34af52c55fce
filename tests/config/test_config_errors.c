// Everything that a configuration is refused for, with what the message must say.
#include "tests/fixtures/config_case.h"

static void test_unknown_names(void **state) {
    static const struct {
        const char *override, *message, *hint;
    } rows[] = {
        {"eval.metric=auc", "eval.metric takes", "did you mean auroc?"},
        {"eval.metric=acc", "eval.metric takes", "did you mean accuracy?"},
        {"train.bach_size=8", "unknown option train.bach_size", "did you mean train.batch_size?"},
        {"train.learningrate=1", "unknown option", "did you mean train.learning_rate?"},
        {"train.Batch_Size=8", "unknown option", "called train.batch_size here"},
        {"trian.batch_size=8", "unknown section [trian]", "did you mean [train]?"},
        {"evla.batch_size=8", "unknown section [evla]", "did you mean [eval]?"},
        {"train.num_train_epochs=8", "unknown option train.num_train_epochs", "called train.epochs here"},
        {"train.num_train_epoch=8", "unknown option", "did you mean train.epochs?"},
        {"train.per_device_train_batch_size=8", "unknown option", "called train.batch_size here"},
        {"per_device_train_batch_size=8", "unknown option per_device_train_batch_size", "called train.batch_size here"},
        {"train.grad_accum=8", "unknown option", "called train.gradient_accumulation_steps here"},
        {"tok.max_length=8", "unknown section [tok]", "called data.max_length here"},
        {"train.max_length=8", "unknown option train.max_length", "called data.max_length here"},
        {"device.min_gpu_memory_mb=8", "unknown option", "called device.min_free_memory here"},
        {"model.name=x", "unknown option model.name", "called model.path here"},
        {"data.num_workers=4", "unknown option data.num_workers", "called data.workers here"},
        {"train.dataloader_num_workers=4", "unknown option train.dataloader_num_workers", "called data.workers here"},
        {"batch_size=8", "unknown option batch_size", "called train.batch_size here"},
        {"train.train.batch_size=8", "unknown option train.train.batch_size", "called train.batch_size here"},
        {"train.zzzzzz=8", "unknown option train.zzzzzz", "`ftengine config` lists every option"},
        {"nowhere.zzzzzz=8", "unknown section [nowhere]", "sections are model, adapter, data, augment, train"},
        {"train.=8", "unknown option train.", "`ftengine config` lists every option"},
        {"=8", "unknown option", "`ftengine config` lists every option"},
        {"train.batch_size", "an option is given as section.key=value", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_override_error(rows[i].override, rows[i].message, rows[i].hint);
    char *text = malloc(5000);
    assert_non_null(text);
    memset(text, 'x', 4990);
    strcpy(text + 4990, "=1");
    expect_override_error(text, "unknown option xxx", "`ftengine config`");
    text[2000] = '.';
    expect_override_error(text, "unknown section [xxx", "sections are");
    free(text);
    expect_file_error("[train]\n\n# c\nbach_size = 3\n", 4, "unknown option train.bach_size",
                      "did you mean train.batch_size?");
    expect_file_error("\n[trian]\nbatch_size = 3\n", 3, "unknown section [trian]", "did you mean [train]?");
}

static void test_wrong_values(void **state) {
    static const struct {
        const char *override, *message, *hint;
    } rows[] = {
        {"train.batch_size=eight", "train.batch_size takes a whole number, at least 1, at most 1048576; got 'eight'",
         NULL},
        {"train.batch_size=0", "at least 1, at most 1048576; got '0'", NULL},
        {"train.batch_size=8.5", "whole number", NULL},
        {"train.batch_size=8 # x", "whole number", NULL},
        {"train.batch_size=0x10", "whole number", NULL},
        {"train.batch_size=99999999999999999999", "whole number", NULL},
        {"train.batch_size=auto", "takes a whole number", NULL},
        {"train.batch_size=", "train.batch_size has no value; it takes a whole number", NULL},
        {"train.batch_size=-", "whole number", NULL},
        {"train.max_steps=-1", "a whole number, at least 0, at most 2147483647; got '-1'", NULL},
        {"data.max_length=2", "auto or a whole number, at least 3", NULL},
        {"train.learning_rate=fast", "a number, at least 0, at most 100; got 'fast'", NULL},
        {"train.learning_rate=nan", "a number", NULL},
        {"train.learning_rate=1e999", "a number", NULL},
        {"train.learning_rate=0x1p-3", "a number", NULL},
        {"train.learning_rate=-1e-5", "at least 0", NULL},
        {"train.max_grad_norm=inf", "a number, at least 0; got 'inf'", NULL},
        {"train.epochs=0", "a number, above 0, at most 1000000; got '0'", NULL},
        {"train.adam_beta1=1", "a number, at least 0, below 1; got '1'", NULL},
        {"train.warmup_ratio=1.01", "at least 0, at most 1", NULL},
        {"model.hidden_dropout=1", "auto or a number, at least 0, below 1; got '1'", NULL},
        {"train.drop_last=perhaps", "true or false; got 'perhaps'", NULL},
        {"train.lr_scheduler=linaer", "linear, cosine, constant, constant_with_warmup, polynomial or cosine_with_restarts; got 'linaer'",
         "did you mean linear?"},
        {"train.lr_scheduler=", "train.lr_scheduler has no value", NULL},
        {"eval.metric=acuracy", "loss, accuracy, balanced_accuracy", "did you mean accuracy?"},
        {"model.head.activation=rleu", "relu, tanh, gelu", "did you mean relu?"},
        {"device.name=gpu", "device.name takes auto, cpu, cuda or cuda:N, or several with commas between them; got 'gpu'", NULL},
        {"model.head.hidden=512,,3", "whole numbers separated by commas, each at least 1, at most 65536", NULL},
        {"model.head.hidden=512,", "whole numbers separated by commas", NULL},
        {"model.head.hidden=,512", "whole numbers separated by commas", NULL},
        {"model.head.hidden=512 704", "whole numbers separated by commas", NULL},
        {"model.head.hidden=[512]", "whole numbers separated by commas", NULL},
        {"model.head.hidden=0", "at least 1", NULL},
        {"train.gradient_checkpointing=sometimes", "auto, off, on or a whole number, at least 2, at most 1024", NULL},
        {"memory.recompute_layernorm=perhaps", "auto", NULL},
        {"memory.offload=weights", "none, optimizer, activations, all, trunk, trunk+optimizer, trunk+activations, trunk+all or auto", NULL},
        {"memory.offload=trunk,optimizer", "memory.offload takes", "did you mean trunk+optimizer?"},
        {"train.gradient_checkpointing=-3", "off, on or a whole number", NULL},
        {"data.text_column=a #b", "data.text_column cannot hold a ; or # that begins a word", NULL},
        {"data.train=;x", "cannot hold a ; or #", NULL},
        {"data.train=a\nb", "data.train cannot hold control characters: 'a?b'", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_override_error(rows[i].override, rows[i].message, rows[i].hint);
    expect_file_error("[train]\nseed = 1\nbatch_size = many\n", 3, "got 'many'", NULL);

    char text[6000];
    memset(text, '/', sizeof text);
    memcpy(text, "data.train=", 11);
    strcpy(text + 5000, "a");
    expect_override_error(text, "data.train is too long (4990 bytes; at most 4095)", NULL);
    memcpy(text, "data.text_column=", 17);
    expect_override_error(text, "data.text_column is too long", NULL);
    strcpy(text, "model.head.hidden=1");
    for (int i = 0; i < 64; i++)
        strcat(text, ",1");
    expect_override_error(text, "model.head.hidden has more than 64 members", NULL);
    text[strlen(text) - 2] = '\0';
    ft_config c;
    ok(load_overrides(&c, text, NULL));
    assert_int_equal(c.model.head.hidden.count, 64);
    ft_config_free(&c);
}

static void test_wrong_files(void **state) {
    ft_config c;
    const char *path = in_scratch("missing.ini");
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("missing", "missing.ini", "No such file", NULL);
    path = scratch_dir;
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("directory", scratch_dir, "this is a directory, not a configuration file", NULL);
    path = write_bytes("case.ini", "[train]\nse\0ed = 1\n", 18);
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("binary", "case.ini:2", "this is no text file: it holds the byte 0x00", NULL);
    char *big = malloc((1 << 20) + 10);
    assert_non_null(big);
    memset(big, '\n', (1 << 20) + 10);
    path = write_bytes("case.ini", big, (1 << 20) + 10);
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    assert_non_null(strstr(ft_error_where(), "case.ini"));
    memset(big, 'x', FT_INI_LINE_LIMIT + 2);
    memcpy(big, "\ntrain.seed=", 12);
    big[FT_INI_LINE_LIMIT + 2] = '\0';
    expect_file_error(big, 2, "the line has 16385 bytes; at most 16384", NULL);
    memset(big + 12, ' ', FT_INI_LINE_LIMIT - 12); // the longest line that is read, in many pieces
    strcpy(big + FT_INI_LINE_LIMIT, "7\nbad");
    expect_file_error(big, 3, "this line is neither [section] nor key = value nor a comment", NULL);
    big[FT_INI_LINE_LIMIT + 1] = '\0';
    ok(load_text(&c, big));
    assert_int_equal(c.train.seed, 7);
    ft_config_free(&c);
    free(big);

    expect_file_error("[train]\nseed = 1\n\n[model]\n[train]\nseed = 2\n", 6, "train.seed is set on line 2 already",
                      NULL);
    expect_file_error("[data]\nlearn = all\n[train]\nloss_on = all\n", 4, "train.loss_on is set on line 2 already", NULL); // one option by two names
    expect_file_error("[train]\nseed 1\n", 2, "this line is neither", NULL);
    expect_file_error("[train\nseed = 1\n", 1, "a section's name ends with ]", NULL);
    expect_file_error("[train] seed = 1\n", 1, "nothing may follow a section's name", NULL);
    expect_file_error("[train]\n= 1\n", 2, "there is no name before the '='", NULL);
    expect_file_error("[train]\nseed = 1\n  2\n", 3, "this line is neither", NULL);
    expect_file_error("[xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]\n", 1,
                      "unknown section (its name has 58 bytes)", NULL);
    expect_file_error("[train]\nseed =\n", 2, "train.seed has no value", NULL);
    ok(load_text(&c, ""));
    ft_config_free(&c);
    ok(load_text(&c, "[train] ; how\nseed = 3 # a\n"));
    assert_int_equal(c.train.seed, 3);
    ft_config_free(&c);
}

static void test_rules_between_options(void **state) {
    ft_config c;
    assert_int_equal(load_overrides(&c, "train.patience=2", "eval.strategy=no"), FT_INVALID);
    expect_error("patience", "train.patience", "eval.strategy is no", NULL);
    assert_int_equal(load_overrides(&c, "train.batch_size=1048576", "eval.batch_multiplier=2"), FT_INVALID);
    expect_error("multiplier", "eval.batch_multiplier", "2 times a batch of 1048576", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_rules_between_options),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
