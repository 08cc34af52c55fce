// Runs that train beside one frozen model in one process, a thread each (engine/model/state/pack.h): every file has the bits that it has
// alone, whatever their ranks, targets, dropout, seeds, lengths of batches and of runs are; what each takes is what was planned for it; and
// they do meet at the products of frozen weights. Found by it: rows of a product that go to another run, one run's dropout or step for
// another's, a frozen number that a run writes to, gradients or moments that two runs share, a product that counts for a run that is gone.
// ctest: tsan=run cost=20
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fixtures/packed_runs.h"

// What members have of their own: ranks, targets, dropout, seeds, batches (in several micro-batches too), an end of their own, DoRA, an evaluation
// at every step.
static const char *const members[][10] = {
    {"adapter.r=4", "adapter.dropout=0.1", "train.seed=1", "train.batch_size=6", "train.max_steps=7", "train.learning_rate=1e-3", NULL},
    {"adapter.r=2", "adapter.targets=all-linear", "train.seed=2", "train.batch_size=3", "train.max_steps=5", "train.learning_rate=1e-2", NULL},
    {"adapter.r=8", "adapter.dropout=0.3", "adapter.targets=all-linear", "train.seed=3", "train.batch_size=9", "train.micro_batch=4",
     "train.max_steps=4", "eval.strategy=steps", "eval.steps=1", NULL},
    {"adapter.type=dora", "adapter.r=3", "train.seed=4", "train.batch_size=5", "train.max_steps=6", "model.hidden_dropout=0", NULL},
    {"adapter.r=4", "adapter.layers=1", "train.seed=5", "train.batch_size=8", "train.max_steps=5", "train.gradient_checkpointing=on", NULL},
};
enum { MEMBERS = sizeof members / sizeof *members };

static void compare(const char *family, const char *precision, const char *residual, int number) {
    tiny_run base;
    member_run alone[MEMBERS], packed[MEMBERS];
    char option[48];
    const char *const common[] = {option, residual, NULL};
    ft_pack *pack;
    snprintf(option, sizeof option, "train.precision=%s", precision);
    make_base(&base, family, number);
    assert_int_equal(ft_pack_create(&pack), FT_OK);
    for (int i = 0; i < MEMBERS; i++) {
        alone[i] = packed[i] = (member_run){.base = &base, .options = members[i], .common = common};
        packed[i].pack = pack;
        snprintf(alone[i].dir, sizeof alone[i].dir, "%s/alone-%d", base.dir, i);
        snprintf(packed[i].dir, sizeof packed[i].dir, "%s/packed-%d", base.dir, i);
        train_member(&alone[i]);
        check_run(&alone[i]);
    }
    train_together(MEMBERS, packed);
    const ft_pack_counts counts = ft_pack_counted(pack);
    ft_pack_destroy(pack);
    for (int i = 0; i < MEMBERS; i++) {
        check_run(&packed[i]);
        assert_same_file(alone[i].dir, packed[i].dir, "adapter/adapter_model.safetensors");
        assert_same_file(alone[i].dir, packed[i].dir, "metrics.jsonl");
        assert_same_file(alone[i].dir, packed[i].dir, "predictions.jsonl");
        check_memory(&packed[i]);
    }
    assert_true(counts.products > 2 * counts.calls); // which only weights at one place do
}

static void runs_of_a_pack_have_the_bits_that_they_have_alone(void **state) {
    static const struct {
        const char *family, *precision, *residual;
    } cases[] = {{"bert", "fp32", NULL},       {"deberta-v2", "fp32", NULL}, {"roberta", "bf16", NULL}, {"deberta-v2", "bf16", NULL},
                 {"modernbert", "fp32", NULL}, {"bert", "bf16", "train.residual=16bit"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!FT_SANITIZED || i < 3) compare(cases[i].family, cases[i].precision, cases[i].residual, (int)i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_a_pack_have_the_bits_that_they_have_alone)};
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
