// Runs that train beside one frozen model in one process on a CUDA device (engine/model/state/pack.h): their products meet in launches of several
// segments. Every run has the bits that it has in a pack of its own, whoever comes and goes, and the numbers that it has alone as far as sums
// in another order let it; what each takes is what was planned for it; the model is on the device once. Found by it: a segment of
// another run's matrices, a launch that counts for a run that is gone, a model for each, numbers that depend on who is there.
// ctest: tsan=leave cost=20
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tests/emulator/driver/fake_driver.h"
#include "tests/fixtures/packed_runs.h"

static const char *const members[][10] = {
    {"adapter.r=4", "adapter.dropout=0.1", "train.seed=1", "train.batch_size=4", "train.max_steps=3", "train.learning_rate=1e-3", NULL},
    {"adapter.r=3", "adapter.targets=all-linear", "train.seed=2", "train.batch_size=2", "train.max_steps=2", "train.learning_rate=1e-2", NULL},
    {"adapter.type=dora", "adapter.r=3", "train.seed=4", "train.batch_size=5", "train.micro_batch=3", "train.max_steps=1", "model.hidden_dropout=0", "eval.strategy=steps",
     "eval.steps=1", NULL},
};
enum { MEMBERS = sizeof members / sizeof *members };

static void reset_driver(fake_schedule schedule) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule, s.seed = 3;
    fake_reset(&s);
}

// What is logged, number by number.
static void assert_near(const char *a, const char *b, double tolerance) {
    size_t size_a, size_b;
    char *x = read_all(a, "metrics.jsonl", &size_a), *y = read_all(b, "metrics.jsonl", &size_b), *at_x = x, *at_y = y;
    for (char *end_x, *end_y; (end_x = strchr(at_x, '\n')) != NULL && (end_y = strchr(at_y, '\n')) != NULL; at_x = end_x + 1, at_y = end_y + 1) {
        *end_x = *end_y = '\0';
        json_t *line = json_loads(at_x, 0, NULL), *other = json_loads(at_y, 0, NULL), *value;
        const char *key;
        assert_true(line != NULL && other != NULL && json_object_size(line) == json_object_size(other));
        json_object_foreach(line, key, value) {
            if (!json_is_number(value) || strcmp(key, "tokens_per_second") == 0) continue;
            const double one = json_number_value(value), two = json_number_value(json_object_get(other, key));
            const bool counted = strstr(key, "loss") == NULL && strstr(key, "norm") == NULL; // of few texts each
            if (!(fabs(one - two) <= (counted ? 0.11 : tolerance * (1 + fabs(one))))) fail_msg("%s of %s and %s: %g and %g in %s", key, a, b, one, two, at_x);
        }
        json_decref(line);
        json_decref(other);
    }
    assert_true(*at_x == '\0' && *at_y == '\0' && at_x > x);
    free(x);
    free(y);
}

static void check_books(void) {
    const fake_books books = fake_read();
    assert_int_equal(books.misuses, 0);
    assert_int_equal(books.overruns + books.rewritten, 0);
    assert_int_equal(books.contexts + books.streams + books.events + books.buffers + books.pinned + books.reservations + books.handles + books.mappings, 0);
}

typedef struct pack_case {
    const char *family, *precision, *storage;
    fake_schedule schedule;
    double tolerance;
} pack_case;

static void run_packed(int count, member_run *runs, ft_pack_counts *counts) {
    ft_pack *pack;
    assert_int_equal(ft_pack_create(&pack), FT_OK);
    for (int i = 0; i < count; i++) runs[i].pack = pack;
    train_together(count, runs);
    *counts = ft_pack_counted(pack);
    ft_pack_destroy(pack);
    for (int i = 0; i < count; i++) check_run(&runs[i]);
    check_books();
}

static void compare(const pack_case *c, int number) {
    enum { ALONE, ONE, TOGETHER, WAYS };
    static const char *const names[WAYS] = {"alone", "one", "together"};
    char precision[48], storage[48];
    const char *const common[] = {"device.name=cuda", precision, storage, NULL};
    member_run runs[WAYS][MEMBERS];
    ft_pack_counts counts;
    tiny_run base;
    snprintf(precision, sizeof precision, "train.precision=%s", c->precision);
    snprintf(storage, sizeof storage, "model.storage=%s", c->storage);
    reset_driver(c->schedule);
    make_base(&base, c->family, number);
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < MEMBERS; i++) {
            member_run *r = &runs[way][i];
            *r = (member_run){.base = &base, .options = members[i], .common = common};
            snprintf(r->dir, sizeof r->dir, "%s/%s-%d", base.dir, names[way], i);
            if (way == ALONE) train_member(r), check_run(r);
            else if (way == ONE) run_packed(1, r, &counts);
        }
    run_packed(MEMBERS, runs[TOGETHER], &counts);
    if (!(10 * counts.products > 11 * counts.calls)) fail_msg("%d products in %d calls", (int)counts.products, (int)counts.calls);
    for (int i = 0; i < MEMBERS; i++) {
        const char *one = runs[ONE][i].dir, *together = runs[TOGETHER][i].dir;
        assert_same_file(one, together, "adapter/adapter_model.safetensors");
        assert_same_file(one, together, "metrics.jsonl");
        assert_same_file(one, together, "predictions.jsonl");
        assert_near(runs[ALONE][i].dir, together, c->tolerance);
        check_memory(&runs[TOGETHER][i]);
    }
}

static void runs_of_a_pack_do_not_depend_on_each_other(void **state) {
    // Others are tests/emulator/runs/test_packed_study.sh (fp32), and on the CPU tests/train/test_pack.c.
    static const pack_case packed = {"bert", "bf16", "nf4", FAKE_RANDOM, 0.05};
    compare(&packed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_a_pack_do_not_depend_on_each_other)};
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
