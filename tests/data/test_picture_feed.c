// Pictures ahead of the step: the same bytes, numbers and labels for any number of threads, however micro-batches are cut and wherever a run begins;
// one error that names the file; broken pictures left out without a change for the others.
// ctest: tsan=run
#include "base/arena.h"
#include "base/files.h"
#include "base/spill.h"
#include "engine/data/batch.h"
#include "engine/data/broken_pictures.h"
#include "engine/data/order/order.h"
#include "engine/data/picture_feed.h"
#include "engine/data/picture_set.h"
#include "engine/data/pictures/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 12, PATCH = 4, ROWS = 1 + (SIDE / PATCH) * (SIDE / PATCH), NUMBERS = 3 * PATCH * PATCH, PICTURES = 23, BATCH = 5, SEED = 9 };

static char folder[256];
static ft_input input;

static void write_file(const char *name, const void *bytes, size_t length) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    fclose(f);
}

static void copy_picture(int from, const char *to) {
    static const char *const names[] = {"photo.png", "noise.png", "photo444.jpg", "progressive.jpg", "lossless.webp", "palette.png", "turned6.jpg"};
    char path[400], *bytes;
    size_t length;
    snprintf(path, sizeof path, "%s/pictures/files/%s", FT_TEST_VECTORS, names[from % 7]);
    assert_int_equal(ft_read_file(path, 1 << 20, &bytes, &length), FT_OK);
    write_file(to, bytes, length);
    free(bytes);
}

static int make_folder(void **state) {
    static const char rules[] = "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 12, \"width\": 12}}";
    snprintf(folder, sizeof folder, "%s/ft-feed-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    write_file("preprocessor_config.json", rules, sizeof rules - 1);
    for (int i = 0; i < PICTURES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%02d.png", i);
        copy_picture(i, name);
    }
    const ft_input_request request = {.directory = folder, .patch = PATCH, .tokens = 1, .workers = 2};
    return ft_input_open(&ft_picture_input, &request, &input) == FT_OK ? 0 : 1;
}

static int remove_folder(void **state) {
    char command[300];
    ft_input_close(&input);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void read_table(ft_table *table) {
    const ft_table_request request = {.pictures = true, .need = FT_LABEL_IGNORED, .text = "", .pair = "", .label = ""};
    assert_int_equal(ft_picture_source_read(folder, &request, table), FT_OK);
}

static void build(const ft_table *table, ft_dataset *data) {
    const ft_input_wanted wanted = {.table = table, .path = folder, .max_length = ROWS};
    assert_int_equal(ft_input_build(&input, &wanted, data, NULL), FT_OK);
    data->label = ft_spill_calloc((size_t)data->examples, sizeof *data->label, "a test");
    for (int64_t i = 0; i < data->examples; i++) data->label[i] = (int32_t)i;
}

static const ft_augment all = {.crop = true, .scale = {0.2, 1}, .ratio = {0.75, 1.33}, .flip = 0.5, .brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1,
                               .operations = 2, .magnitude = 9, .erasing = 0.5, .mixup = 0.5, .cutmix = 1};

typedef struct fed {
    ft_picture_feed *feed;
    void *block, *storage;
    ft_batch batch;
    int32_t order[PICTURES];
} fed;

static void open_fed(const ft_augment *augment, const ft_dataset *data, int workers, int most, fed *f) {
    const ft_picture_feed_request request = {.augment = *augment, .height = SIDE, .width = SIDE, .seed = SEED, .batch = BATCH, .most = most, .workers = workers, .data = data};
    const ft_batch_format format = {.sequences = most, .tokens = most * ROWS, .reads = most, .most_reads = 1, .position_padding = -1, .patch_numbers = NUMBERS,
                                    .patch_type = FT_F32, .mixed = ft_augment_mixes(augment)};
    f->block = malloc(ft_picture_feed_bytes(&request));
    f->storage = calloc(1, ft_batch_bytes(&format));
    assert_true(f->block != NULL && f->storage != NULL);
    assert_int_equal(ft_picture_feed_open(&request, f->block, &f->feed), FT_OK);
    ft_batch_bind(&f->batch, f->storage, &format);
    f->batch.feed = f->feed;
}

static void close_fed(fed *f) {
    ft_picture_feed_close(f->feed);
    free(f->block);
    free(f->storage);
}

typedef struct seen {
    float patch[PICTURES][ROWS * NUMBERS];
    int32_t label[PICTURES], other[PICTURES];
    float share[PICTURES];
} seen;

static void epoch_order(const ft_dataset *data, int64_t epoch, fed *f) {
    ft_picture_feed_pause(f->feed);
    assert_int_equal(ft_epoch_order(3, epoch, data->sequences, f->order), FT_OK);
}

// Pictures [first, end) of an epoch in micro-batches of `most`, by the examples that they are of.
static void look(fed *f, const ft_dataset *data, int64_t epoch, int64_t first, int64_t end, int64_t most, seen *s) {
    for (int64_t at = first, count; at < end; at += count) {
        count = end - at < most ? end - at : most;
        assert_int_equal(ft_picture_feed_take(f->feed, epoch, f->order, data->sequences, at, count), FT_OK);
        assert_int_equal(ft_batch_fill(&f->batch, data, f->order, at, count, (int32_t)at), FT_OK);
        ft_picture_feed_label(f->feed, &f->batch, data);
        for (int64_t i = 0; i < count; i++) {
            const int32_t e = f->order[at + i];
            memcpy(s->patch[e], (float *)f->batch.patch + i * ROWS * NUMBERS, sizeof s->patch[e]);
            s->label[e] = f->batch.label[i];
            s->other[e] = f->batch.other_label != NULL ? f->batch.other_label[i] : -1;
            s->share[e] = f->batch.share != NULL ? f->batch.share[i] : 1;
        }
    }
}

static seen reference[2], now;

static void same_for_any_threads(void **state) {
    static const int workers[] = {0, 1, 3, 8}, most[] = {1, 4, 5, PICTURES};
    ft_table table;
    ft_dataset data;
    read_table(&table);
    build(&table, &data);
    assert_int_equal(data.examples, PICTURES);
    for (int w = 0; w < 4; w++)
        for (int m = 0; m < 4; m++) {
            fed f;
            open_fed(&all, &data, workers[w], most[m], &f);
            for (int epoch = 0; epoch < 2; epoch++) {
                epoch_order(&data, epoch, &f);
                memset(&now, 0, sizeof now);
                look(&f, &data, epoch, 0, PICTURES, most[m], &now);
                if (w == 0 && m == 0) reference[epoch] = now;
                else assert_memory_equal(&now, &reference[epoch], sizeof now);
            }
            // It begins in the middle, and once more, as a resumed run and one that was refused memory do.
            epoch_order(&data, 0, &f);
            now = reference[0];
            look(&f, &data, 0, 10, PICTURES, most[m], &now);
            look(&f, &data, 0, 7, 12, most[m], &now);
            assert_memory_equal(&now, &reference[0], sizeof now);
            epoch_order(&data, 1, &f); // closed with work under way
            look(&f, &data, 1, 0, 1, 1, &now);
            close_fed(&f);
        }
    assert_memory_not_equal(reference[0].patch, reference[1].patch, sizeof reference[0].patch);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

// MixUp and CutMix against sums in double of what the same feed gives without them.
static void mixed_with_the_one_before(void **state) {
    static seen apart;
    ft_augment alone = all;
    ft_table table;
    ft_dataset data;
    fed f;
    alone.mixup = alone.cutmix = 0;
    read_table(&table);
    build(&table, &data);
    open_fed(&alone, &data, 2, 6, &f);
    epoch_order(&data, 0, &f);
    look(&f, &data, 0, 0, PICTURES, 6, &apart);
    int kinds[2] = {0};
    for (int64_t i = 0; i < PICTURES; i++) {
        const int64_t batch = i / BATCH, last = (batch + 1) * BATCH < PICTURES ? (batch + 1) * BATCH - 1 : PICTURES - 1;
        const int32_t own = f.order[i], other = f.order[i % BATCH == 0 ? last : i - 1];
        const ft_mix mix = ft_augment_mix(&all, SEED, 0, batch, SIDE, SIDE);
        kinds[mix.cuts]++;
        assert_int_equal(reference[0].label[own], own);
        assert_int_equal(reference[0].other[own], other);
        assert_true(reference[0].share[own] == (float)mix.share);
        double area = 0;
        for (int k = NUMBERS; k < ROWS * NUMBERS; k++) { // behind the class token
            const int patch = k / NUMBERS - 1, y = patch / (SIDE / PATCH) * PATCH + k % (PATCH * PATCH) / PATCH, x = patch % (SIDE / PATCH) * PATCH + k % PATCH;
            const double a = (double)apart.patch[own][k], b = (double)apart.patch[other][k], got = (double)reference[0].patch[own][k];
            const bool inside = y >= mix.box.top && y < mix.box.top + mix.box.height && x >= mix.box.left && x < mix.box.left + mix.box.width;
            if (mix.cuts) assert_true(got == (inside ? b : a));
            else assert_true(fabs(got - (mix.share * a + (1 - mix.share) * b)) < 1e-6);
            area += inside / (double)(ROWS * NUMBERS - NUMBERS);
        }
        if (mix.cuts) assert_true(fabs(area - (1 - mix.share)) < 1e-9);
    }
    assert_true(kinds[0] > 0 && kinds[1] > 0);
    close_fed(&f);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

static void erased_is_zero(void **state) {
    const ft_augment erases = {.erasing = 1};
    ft_table table;
    ft_dataset data;
    fed f;
    read_table(&table);
    build(&table, &data);
    open_fed(&erases, &data, 1, PICTURES, &f);
    epoch_order(&data, 0, &f);
    look(&f, &data, 0, 0, PICTURES, PICTURES, &now);
    for (int32_t e = 0; e < PICTURES; e++) {
        const ft_box box = ft_augment_erased(&erases, SEED, 0, data.pictures->key[e], SIDE, SIDE);
        int zeros = 0;
        for (int k = NUMBERS; k < ROWS * NUMBERS; k++) zeros += now.patch[e][k] == 0;
        assert_int_equal(zeros, 3 * box.width * box.height); // no byte is 0 for the model: 127.5 would be
    }
    close_fed(&f);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

// A file that goes while a run reads it: the error of the first that is missed, whoever meets which.
static void gone_in_the_middle(void **state) {
    for (int workers = 0; workers <= 4; workers += 2) {
        ft_table table;
        ft_dataset data;
        fed f;
        read_table(&table);
        build(&table, &data);
        open_fed(&all, &data, workers, 3, &f);
        epoch_order(&data, 0, &f);
        char first[400], second[400], name[16];
        snprintf(first, sizeof first, "%s/%02d.png", folder, f.order[8]);
        snprintf(second, sizeof second, "%s/%02d.png", folder, f.order[16]);
        snprintf(name, sizeof name, "%02d.png", f.order[8]);
        assert_true(unlink(first) == 0 && unlink(second) == 0);
        ft_status status = FT_OK;
        int64_t at = 0;
        for (; status == FT_OK && at < PICTURES; at += 3) status = ft_picture_feed_take(f.feed, 0, f.order, PICTURES, at, PICTURES - at < 3 ? PICTURES - at : 3);
        assert_int_equal(status, FT_INVALID);
        assert_int_equal(at, 6); // 5, which is taken with 3 and 4, is mixed in a batch with 8
        assert_non_null(strstr(ft_error_where(), name));
        ft_error_clear();
        copy_picture(f.order[8], strrchr(first, '/') + 1);
        copy_picture(f.order[16], strrchr(second, '/') + 1);
        close_fed(&f);
        ft_dataset_free(&data);
        ft_table_free(&table);
    }
}

// Two files that are no pictures, in front of others and between them: they are named, and the others are changed as ever.
static void broken_are_left_out(void **state) {
    ft_augment alone = all;
    ft_table table;
    ft_dataset data;
    ft_broken_pictures broken;
    fed f;
    alone.mixup = alone.cutmix = 0;
    read_table(&table);
    build(&table, &data);
    open_fed(&alone, &data, 0, PICTURES, &f);
    for (int32_t i = 0; i < PICTURES; i++) f.order[i] = i;
    look(&f, &data, 4, 0, PICTURES, PICTURES, &reference[1]);
    close_fed(&f);
    ft_dataset_free(&data);
    ft_table_free(&table);
    write_file("00.png", "no picture", 10);
    write_file("07.png", "\x89PNG\r\n\x1a\n", 8);
    read_table(&table);
    assert_int_equal(ft_picture_input_leave_out(&input, &table, folder, &broken), FT_OK);
    assert_int_equal(broken.count, 2);
    assert_string_equal(broken.list[0].name, "00.png");
    assert_string_equal(broken.list[1].name, "07.png");
    assert_non_null(strstr(broken.list[1].error, "PNG"));
    assert_int_equal(table.rows, PICTURES - 2);
    build(&table, &data);
    open_fed(&alone, &data, 2, PICTURES, &f);
    for (int32_t i = 0; i < PICTURES; i++) f.order[i] = i;
    look(&f, &data, 4, 0, PICTURES - 2, PICTURES, &now);
    for (int i = 0, row = 0; i < PICTURES; i++) {
        if (i == 0 || i == 7) continue;
        assert_string_equal(ft_picture_set_name(data.pictures, row), table.text[row]);
        assert_memory_equal(now.patch[row], reference[1].patch[i], sizeof now.patch[row]);
        row++;
    }
    close_fed(&f);
    ft_dataset_free(&data);
    ft_table_free(&table);
    ft_broken_pictures_free(&broken);
    read_table(&table); // without that it is an error, and of the first one
    const ft_input_wanted wanted = {.table = &table, .path = folder, .max_length = ROWS};
    assert_int_equal(ft_input_build(&input, &wanted, &data, NULL), FT_INVALID);
    assert_non_null(strstr(ft_error_where(), "00.png"));
    ft_error_clear();
    ft_table_free(&table);
    copy_picture(0, "00.png");
    copy_picture(7, "07.png");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_for_any_threads), cmocka_unit_test(mixed_with_the_one_before), cmocka_unit_test(erased_is_zero),
                                       cmocka_unit_test(gone_in_the_middle), cmocka_unit_test(broken_are_left_out)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
