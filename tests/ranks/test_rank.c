// Which rank a process is, from the variables of launchers: those of torchrun, Open MPI 4.1 and MPICH 4.0 as they were
// seen, of Slurm as its manual has them. Each case is an environment, and what it comes to: a rank, or an error with
// its place.
#include "engine/ranks/nodelist.h"
#include "engine/ranks/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct rank_case {
    const char *environment; // NAME=VALUE separated by blanks
    const char
        *result; // "launcher rank/size local/local_size attempt address:port", or "WHERE: the beginning of the message"
    const char *job; // NULL: not looked at
} rank_case;

#define TORCH "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node7 MASTER_PORT=29501 "
#define OMPI "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
#define OMPI_JOB "PMIX_NAMESPACE=1734017025 PMIX_SERVER_URI2=1734017024.0;tcp4://127.0.0.1:47911 "
#define HYDRA "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_FD=8 "
#define SRUN "SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 "
#define THREE "SLURM_STEP_NODELIST=n[01-03] SLURM_STEP_TASKS_PER_NODE=2(x3) "

static const rank_case cases[] = {
    // ordinary processes
    {"", "none 0/1 0/1 0 :0", NULL},
    {"RANK= WORLD_SIZE=", "none 0/1 0/1 0 :0", NULL},
    {"MASTER_ADDR=node7 MASTER_PORT=29500 LOCAL_RANK=1", "none 0/1 0/1 0 :0", NULL},
    {"RANK=0 WORLD_SIZE=1", "torchrun 0/1 0/1 0 :0", NULL},
    {"RANK=0 WORLD_SIZE=1 TORCHELASTIC_RESTART_COUNT=3", "torchrun 0/1 0/1 3 :0", NULL},
    {"RANK=0 WORLD_SIZE=1 TORCHELASTIC_RESTART_COUNT=x", "TORCHELASTIC_RESTART_COUNT: a number from 0 to", NULL},
    {"TORCHELASTIC_RESTART_COUNT=3", "none 0/1 0/1 0 :0", NULL},
    {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "Open MPI 0/1 0/1 0 :0", NULL},
    // torchrun
    {TORCH, "torchrun 3/4 1/2 0 node7:29501", "29501 "},
    {TORCH "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=2", "torchrun 3/4 1/2 2 node7:29501", "29501 none"},
    {"RANK=0", "WORLD_SIZE: RANK is set, but WORLD_SIZE is not", NULL},
    {"WORLD_SIZE=2", "RANK: WORLD_SIZE is set, but RANK is not", NULL},
    {"RANK=0 WORLD_SIZE=2", "LOCAL_RANK: RANK is set, but LOCAL_RANK is not", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", "LOCAL_WORLD_SIZE: RANK is set", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2", "MASTER_ADDR: RANK is set", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a", "MASTER_PORT: RANK is set", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000",
     "MASTER_PORT: a number from 0 to 65535", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT: 0 is no port",
     NULL},
    {"RANK=2 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", "RANK: rank 2 of 2 ranks (WORLD_SIZE) cannot be", NULL},
    {"RANK=-1 WORLD_SIZE=2", "RANK: a number from 0 to", NULL},
    {"RANK=1x WORLD_SIZE=2", "RANK: a number from 0 to", NULL},
    {"RANK=0 WORLD_SIZE=0", "WORLD_SIZE: there is at least one rank", NULL},
    {"RANK=0 WORLD_SIZE=99999999999999999999", "WORLD_SIZE: a number from 0 to 65536", NULL},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "LOCAL_RANK: rank 0 of 2 cannot be number 1 of 2", NULL},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3", "LOCAL_RANK: rank 1 of 2 cannot be number 0 of 3", NULL},
    // Open MPI
    {OMPI OMPI_JOB, "Open MPI 1/2 1/2 0 :0", "1734017025 1734017024.0;tcp4://127.0.0.1:47911"},
    {OMPI "OMPI_MCA_ess_base_jobid=17 OMPI_MCA_orte_local_daemon_uri=17.0;tcp://192.0.2.2:1", "Open MPI 1/2 1/2 0 :0",
     "17 17.0;tcp://192.0.2.2:1"},
    {OMPI, "PMIX_NAMESPACE: OMPI_COMM_WORLD_RANK is set", NULL},
    {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK: OMPI_COMM_WORLD_SIZE is set", NULL},
    // MPICH, and others with its Hydra
    {HYDRA, "MPICH 1/2 1/2 0 :0", ""},
    {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_PORT=vm:4000", "MPICH 1/2 1/2 0 :0", "vm:4000"},
    {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "PMI_FD: PMI_RANK is set", NULL},
    {"PMI_RANK=1 PMI_SIZE=2 PMI_FD=8", "MPI_LOCALRANKID: PMI_RANK is set", NULL},
    // Slurm
    {SRUN "SLURM_STEP_NUM_TASKS=6 " THREE, "Slurm 5/6 1/2 0 n01:26041", "4711.0"},
    {SRUN "SLURM_NTASKS=6 SLURM_RESTART_COUNT=1 " THREE, "Slurm 5/6 1/2 1 n01:26041", "4711.0"},
    {SRUN "SLURM_NTASKS=6 PMI_RANK=5 PMI_SIZE=6 " THREE, "Slurm 5/6 1/2 0 n01:26041", NULL}, // its own library for MPI
    {"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_JOB_ID=7 SLURM_STEP_NODELIST=gpu4",
     "Slurm 1/2 1/2 0 gpu4:15217", "7.0"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=7 SLURM_STEP_NUM_NODES=1",
     "Slurm 1/2 1/2 0 :15217", "7.0"},
    {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=7", "none 0/1 0/1 0 :0",
     NULL}, // a script of sbatch
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=7 SLURM_STEP_NODELIST=n1", "Slurm 0/1 0/1 0 :0", NULL},
    {SRUN "SLURM_STEP_NODELIST=n[1-3]", "SLURM_NTASKS: SLURM_PROCID is set", NULL},
    {SRUN "SLURM_NTASKS=6 SLURM_STEP_NODELIST=n[1-3]", "SLURM_STEP_TASKS_PER_NODE: SLURM_PROCID is set", NULL},
    {SRUN "SLURM_NTASKS=6 SLURM_STEP_NODELIST=n[1-3] SLURM_STEP_TASKS_PER_NODE=2(x2),1",
     "SLURM_STEP_TASKS_PER_NODE: 5 tasks in '2(x2),1', but there are 6", NULL},
    {SRUN "SLURM_NTASKS=6 SLURM_STEP_NODELIST=n[1-3] SLURM_STEP_NUM_NODES=2",
     "SLURM_STEP_NUM_NODES: 2 hosts, but SLURM_STEP_NODELIST has 3", NULL},
    {SRUN "SLURM_NTASKS=6 SLURM_STEP_NODELIST=n[1-2", "SLURM_STEP_NODELIST: no list of hosts in 'n[1-2'", NULL},
    {SRUN "SLURM_NTASKS=6 SLURM_STEP_NODELIST=n[1-2]", "SLURM_NODEID: host 2 of 2", NULL},
    // two at a time: the inner one counts, variables set by hand are to say the same
    {TORCH "TORCHELASTIC_RUN_ID=x " OMPI, "torchrun 3/4 1/2 0 node7:29501", NULL},
    {TORCH "TORCHELASTIC_RUN_ID=x SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_JOB_ID=7 "
           "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=1(x2)",
     "torchrun 3/4 1/2 0 node7:29501", NULL},
    {OMPI OMPI_JOB "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=7 SLURM_STEP_NODELIST=n1",
     "Open MPI 1/2 1/2 0 :0", NULL},
    {OMPI OMPI_JOB "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1",
     "torchrun 1/2 1/2 0 a:1", NULL},
    {OMPI OMPI_JOB "RANK=0 WORLD_SIZE=1", "RANK: torchrun says rank 0 of 1, Open MPI says rank 1 of 2", NULL},
    {OMPI OMPI_JOB "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 PMI_FD=8",
     "OMPI_COMM_WORLD_RANK: Open MPI says rank 1 of 2, MPICH says rank 0 of 2", NULL},
    {"RANK=0 WORLD_SIZE=1 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=7 SLURM_STEP_NODELIST=n1",
     "RANK: torchrun says rank 0 of 1, Slurm says rank 1 of 2", NULL},
};

// owner: the environment as a text.
static const char *look_up(void *owner, const char *name) {
    static char value[400];
    const size_t length = strlen(name);
    for (const char *at = owner; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
        at += length + 1;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, " "), at);
        return value;
    }
    return NULL;
}

// Values outlive the next call in a real environment, so each name has a place of its own here too.
static const char *keep(void *owner, const char *name) {
    static char kept[64][400];
    static const char *names[64];
    const char *value = look_up(owner, name);
    for (int i = 0; i < 64; i++) {
        if (names[i] != NULL && strcmp(names[i], name) != 0) continue;
        names[i] = name;
        return value != NULL ? strcpy(kept[i], value) : NULL;
    }
    fail_msg("too many names");
    return NULL;
}

static void launchers_are_read(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_rank k;
        char found[1600];
        ft_error_clear();
        const ft_status status = ft_rank_find(keep, (void *)cases[i].environment, &k);
        if (status == FT_OK)
            snprintf(found, sizeof found, "%s %d/%d %d/%d %d %s:%d", ft_launcher_name(k.launcher), k.rank, k.size,
                     k.local_rank, k.local_size, k.attempt, k.address, k.port);
        else
            snprintf(found, sizeof found, "%s: %.*s", ft_error_where(),
                     (int)(strlen(cases[i].result) - strlen(ft_error_where()) - 2), ft_error_message());
        if (strcmp(found, cases[i].result) != 0)
            fail_msg("%s: %s, not %s", cases[i].environment, found, cases[i].result);
        if (status != FT_OK) assert_int_equal(status, FT_INVALID);
        if (cases[i].job != NULL && strcmp(k.job, cases[i].job) != 0)
            fail_msg("%s: job '%s'", cases[i].environment, k.job);
        if (status == FT_OK && k.launcher == FT_LAUNCHER_MPICH && k.job[0] == '\0') assert_int_equal(k.proxy, 8);
    }
}

// The lists of Slurm's manual, and what `scontrol show hostnames` makes of them. "": an error.
static void hosts_are_expanded(void **state) {
    static const struct {
        const char *list, *hosts;
    } lists[] = {
        {"n1", "n1"},
        {"n[01-03,7]", "n01 n02 n03 n7"},
        {"n[01-03,7],gpu4", "n01 n02 n03 n7 gpu4"},
        {"r[1-2]n[08-10]-ib", "r1n08-ib r1n09-ib r1n10-ib r2n08-ib r2n09-ib r2n10-ib"},
        {"a.b-c,x[099-101]", "a.b-c x099 x100 x101"},
        {"n[5]", "n5"},
        {"", ""},
        {"a,", ""},
        {",a", ""},
        {"n[", ""},
        {"n[1", ""},
        {"n]1", ""},
        {"n[]", ""},
        {"n[1-]", ""},
        {"n[3-1]", ""},
        {"n[1,]", ""},
        {"n[a]", ""},
        {"n[1-9999999999]", ""},
        {"n[1-2000000]", ""},
        {"n[1-1000][1-1000][1-1000]", ""},
        {"n[1][1][1][1][1]", ""},
        {"a b", ""},
        {"n[[1]]", ""},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char all[400] = "", host[64];
        int64_t count = 1;
        ft_status status = FT_OK;
        for (int64_t h = 0; status == FT_OK && h < count; h++) {
            status = ft_nodelist_host(lists[i].list, "LIST", h, host, sizeof host, &count);
            if (status == FT_OK) snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", h > 0 ? " " : "", host);
        }
        assert_int_equal(status, lists[i].hosts[0] == '\0' ? FT_INVALID : FT_OK);
        if (status == FT_OK) assert_string_equal(all, lists[i].hosts);
        if (status == FT_OK)
            assert_int_equal(ft_nodelist_host(lists[i].list, "LIST", count, host, sizeof host, &count), FT_OK);
        if (status == FT_OK) assert_string_equal(host, "");
    }
    char small[4];
    int64_t count;
    assert_int_equal(ft_nodelist_host("node[1]", "LIST", 0, small, sizeof small, &count), FT_INVALID);
    assert_int_equal(ft_nodelist_host("nod[1]", "LIST", 0, small, sizeof small, &count), FT_INVALID);
}

static void tasks_are_counted(void **state) {
    int64_t value, sum;
    assert_int_equal(ft_nodelist_tasks("2(x3),1", "LIST", 2, &value, &sum), FT_OK);
    assert_int_equal(value, 2);
    assert_int_equal(sum, 7);
    assert_int_equal(ft_nodelist_tasks("2(x3),1", "LIST", 3, &value, &sum), FT_OK);
    assert_int_equal(value, 1);
    static const char *const bad[] = {"",   "2(",  "2(x",         "2(x0)", "2(x3",       "x",
                                      "1,", "1;2", "99999999999", "-1",    "1(x9999999)"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ft_nodelist_tasks(bad[i], "LIST", 0, &value, &sum) != FT_INVALID) fail_msg("'%s' is taken", bad[i]);
    assert_int_equal(ft_nodelist_tasks("2(x3),1", "LIST", 4, &value, &sum), FT_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(launchers_are_read), cmocka_unit_test(hosts_are_expanded),
                                       cmocka_unit_test(tasks_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
