// ftengine.c - the program: a table of subcommands, and the one place where a status becomes an exit code.
#include "base/context.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/url.h"
#include "engine/commands/pages.h"
#include "engine/commands/ranks.h"
#include "engine/commands/signals.h"
#include "hpo/commands/commands.h"
#include "hpo/space/options_study.h"
#include "kernels/ops/device.h"

#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ft_command commands[] = {
    {"train", ft_command_train, "train CONFIG.ini...|RUN [--deadline T] [--devices LIST] [--json] [section.key=value ...]", "fine-tune a model; writes a run directory",
     "  --deadline T    ends in time with the best model so far, saved: 90s, 10m, 2h from now, or 18:30, 2026-11-26T18:30\n"
     "  --devices LIST  device.name: cpu,cpu trains with two processes that share the threads, with the bits of one; cuda:0,1 with\n"
     "                  a process on each of these GPUs, cuda:all on every one\n"
     "  --json          one JSON document at the end: run.json of the run directory, with the directory as `run`\n\n"
     "Later files win over earlier ones, and section.key=value on the command line over all files.\n"
     "Paths in a file are relative to it, on the command line to the working directory.\n"
     "Ctrl-C saves and stops, and so do SIGTERM and a terminal that is closed; `ftengine train RUN` goes on with the same bits,\n"
     "as output.exists=resume does for a configuration with an output.dir. With more steps than it had (train.epochs, train.max_steps)\n"
     "a run goes on to these, where its learning rate does not end with them (train.lr_scheduler=constant).\n"
     "train.seeds=1,2,3 and data.folds=5 train once for each, and give means and standard deviations.\n\n"
     "  ftengine train configs/minilm_quickstart.ini train.epochs=2\n"
     "  ftengine train model.path=models/all-MiniLM-L6-v2 data.train=train.tsv data.validation=dev.tsv\n\n"
     "The options and their defaults: ftengine config\n"},
    {"eval", ft_command_eval, "eval RUN|MODEL_DIR --data FILE|- [--format tsv|csv|jsonl] [--ci] [--json] [--precision P] [--base MODEL] [--completions] [--command CMD] [section.key=value ...]", "metrics on labelled data",
     "  --data FILE     TSV or CSV with a header line, or JSON lines, also packed with gzip or zstd; - reads standard input;\n"
     "                  of pictures anything that data.train takes (a folder, train-{000..012}.tar, flowers-102#test)\n"
     "  --format F      tsv, csv or jsonl; by default by the file's name and content\n"
     "  --ci            95% intervals of every metric by bootstrap (1000 rounds, train.seed)\n"
     "  --json          one JSON document\n"
     "  --precision P   fp32, bf16, fp16 or, on a CPU, int8 (products of the layers in 8 bits): train.precision; by default\n"
     "                  fp32, in which every model is saved\n"
     "  --base MODEL    the model beside an adapter; by default the one that the adapter's files name\n"
     "  --completions   of a language model what it writes behind each prompt too: exact_match is the share that is what the file\n"
     "                  answers, white space at both ends aside; with --max-new-tokens, --sample, --temperature,\n"
     "                  --top-p, --top-k, --seed as of predict\n"
     "  --command CMD   with --completions: a figure of your own. sh -c CMD reads a line of JSON a prompt (id, completion,\n"
     "                  finish_reason, reference) from its standard input and prints one number\n\n"
     "data.text_column (of pictures data.image) and data.label_column name the columns when they differ from the training file's.\n"},
    {"predict", ft_command_predict,
     "predict RUN|MODEL_DIR... --data FILE|- [--format tsv|csv|jsonl|text|conll|squad] [--output FILE] [--json] [--logits] [--nbest FILE] [--id COLUMN] [--precision P] [--base MODEL] [--text PROMPT] [--max-new-tokens N] [--sample] [--temperature T] [--top-p P] [--top-k K] [--seed S]",
     "labels and probabilities for new texts; completions of prompts",
     "  --data FILE     the texts; - reads standard input; of pictures a folder, or anything else that data.train takes\n"
     "  --format F      tsv, csv (both with a header line), jsonl or text (one text a line); by default by the file's name,\n"
     "                  and text where the first line is neither JSON nor a header with a column for the text; conll (a word a\n"
     "                  line, its tag may stand behind it) for models of words, squad for models of questions\n"
     "  --output FILE   write there, whole or not at all; .jsonl gives JSON lines\n"
     "  --json          JSON lines\n"
     "  --logits        scores before the softmax\n"
     "  --nbest FILE    of questions the n best answers as well, as run_qa's nbest_predictions.json has them\n"
     "  --id COLUMN     copy this column\n"
     "  --precision P   fp32, bf16, fp16 or, on a CPU, int8 (products of the layers in 8 bits): train.precision; by default\n"
     "                  fp32, in which every model is saved\n"
     "  --base MODEL    the model beside adapters; by default the one that an adapter's files name\n\n"
     "Of a language model (train.task = causal_lm) a line of JSON a prompt: completion, finish_reason (stop, length),\n"
     "prompt_tokens, completion_tokens. Prompts are messages (up to an assistant's turn), prompt or text. A single one is\n"
     "written as it comes, where standard output is a terminal.\n"
     "  --text PROMPT   one prompt, in place of --data\n"
     "  --max-new-tokens N   tokens that a completion has at most; 256\n"
     "  --sample        of a language model: tokens are drawn, by temperature, top_p and top_k of the model's\n"
     "                  generation_config.json where no flag says another (1, 1 and 50 where it does not either)\n"
     "  --temperature T  logits are divided by it, and tokens drawn; 0, the default: the most probable one is taken\n"
     "  --top-p P       only the most probable tokens are drawn, whose probabilities reach P together; 1: all\n"
     "  --top-k K       only the K most probable tokens are drawn; 0: all\n"
     "  --seed S        of what is drawn: with the number of the prompt it makes a completion, whatever is written beside it; 42\n\n"
     "Several models give the mean of their probabilities, by the names of the labels. A directory with runs for\n"
     "train.seeds or data.folds stands for all of theirs.\n"},
    {"embed", ft_command_embed,
     "embed RUN|MODEL_DIR --data FILE|- [--output FILE.npy|FILE.jsonl] [--pooling P] [--normalize] [--prompt TEXT | --prompt-name NAME] [--format tsv|csv|jsonl|text] [--id COLUMN] [--precision P] [--base MODEL] [--json]",
     "a vector for every text",
     "  --data FILE     the texts; - reads standard input\n"
     "  --format F      tsv, csv, jsonl or text, as predict has them\n"
     "  --output FILE   FILE.npy is an array of numpy's (float32, texts x width), FILE.jsonl a line of JSON a text; whole or not at\n"
     "                  all. Without it JSON lines go to standard output\n"
     "  --pooling P     how the rows of a text become one vector: cls, mean, max, mean_sqrt_len_tokens, weightedmean, lasttoken, or\n"
     "                  several separated by commas, side by side; by default what the model's sentence-transformers files say\n"
     "  --normalize     vectors of length 1, where the files do not make them so\n"
     "  --prompt TEXT   in front of every text; --prompt-name NAME takes one of the model's own; \"\" is none\n"
     "  --id COLUMN     the ids of JSON lines; by default the number of the text, from 0\n"
     "  --precision P   fp32, bf16, fp16 or, on a CPU, int8 (products of the layers in 8 bits): train.precision; by default\n"
     "                  fp32, in which every model is saved\n"
     "  --base MODEL    the model beside an adapter; by default the one that the adapter's files name\n"
     "  --json          of a file one JSON document about it\n\n"
     "Vectors are those of sentence-transformers: modules.json, 1_Pooling, 2_Dense, 2_Normalize, sentence_bert_config.json and\n"
     "config_sentence_transformers.json beside the model are followed. They come in the order of the texts, and how texts are batched\n"
     "changes none of their bits on a CPU.\n\n"
     "  ftengine embed models/all-MiniLM-L6-v2 --data texts.txt --pooling mean --normalize --output vectors.npy\n"
     "  ftengine embed runs/reviews-001 --data texts.csv --pooling mean --normalize >vectors.jsonl\n"},
    {"tokenize", ft_command_tokenize, "tokenize RUN|MODEL_DIR --data FILE|- [--format tsv|csv|jsonl|text] [--keep-going] [--json] [section.key=value ...]",
     "the tokens of texts and chats, as a model sees them",
     "  --data FILE     texts (a text a line, or the column of a table), pairs of texts (data.text_pair), prompts with completions, or\n"
     "                  chats (JSON lines with \"prompt\" and \"completion\", or \"messages\"); - reads standard input\n"
     "  --format F      tsv, csv, jsonl or text, as predict has them\n"
     "  --keep-going    a text that is refused is a line with \"error\", and the others follow\n"
     "  --json          as it is without: JSON lines\n\n"
     "A line of JSON a text: ids, pieces, types of pairs, the text that the ids are decoded to, where they can be; of a chat the text that\n"
     "its template writes, and which tokens train.task=causal_lm learns. No weights are read, and nothing is cut off.\n\n"
     "  ftengine tokenize models/all-MiniLM-L6-v2 --data reviews.csv\n"
     "  echo 'A text' | ftengine tokenize models/all-MiniLM-L6-v2 --data -\n"},
    {"compare", ft_command_compare, "compare RUN... [--all] [--json|--csv]", "differing options and results of runs, side by side",
     "  --all           also the options that are the same in all runs\n"
     "  --json, --csv   for programs: every figure, at full length\n\n"
     "RUN is a run directory, a directory of runs, or a study. Up to five runs stand side by side, and * marks the best value of a\n"
     "metric; more have a line each. A run without run.json (still going, or killed) shows its last logged figures.\n\n"
     "  ftengine compare runs/a-001 runs/a-002\n"
     "  ftengine compare studies/reviews --csv >trials.csv\n"},
    {"report", ft_command_report, "report RUN [--output FILE|-] [--no-texts] [--json]", "a run as one HTML page: curves, predictions, memory, options",
     "  --output FILE   write there instead of RUN/report.html; - is standard output\n"
     "  --no-texts      without the texts of the surest mistakes, which are read from the run's data\n"
     "  --json          one JSON document: where the page is\n\n"
     "The page needs nothing else: no script, no network. It shows the memory over time of runs with memory.timeline=true, and\n"
     "runs that are still going or have failed as far as they came.\n\n"
     "  ftengine report runs/quickstart-001\n"},
    {"tune", ft_command_tune,
     "tune [CONFIG.ini...] [--study NAME] [--trials N | --add M] [--timeout T] [--deadline T] [--parallel K|auto] [--storage URL] [--json] [section.key=value ...]",
     "search hyper-parameters; writes a study",
     "Without CONFIG.ini: the study's own, else configs/tune.ini. [space] says what is searched, [study] how.\n"
     "  --study NAME    the study in studies/NAME; by default the configuration's name\n"
     "  --trials N      the study ends at N finished trials in all; again with a larger N goes on\n"
     "  --add M         M trials that end in this command, whatever there is: those that were cut off and that it goes on with\n"
     "                  count too, those of another `ftengine tune` do not, and the next call counts anew\n"
     "  --timeout T     stops after 30s, 10m, 2h; the running trials are saved\n"
     "  --deadline T    ends by then: 90s, 10m, 2h from now, or 18:30, 2026-11-26T18:30; what runs is asked to save some time before\n"
     "  --parallel K    K trials at the same time, which share the cores; auto: one a core, at most 8\n"
     "  --max-failures N   gives up after N failed trials in a row\n"
     "  --storage URL   sqlite:///FILE, postgresql://USER@HOST/DATABASE or journal:FILE; Optuna's format, also a study that Optuna made\n"
     "  --json          the result as `ftengine study show --json` has it\n\n"
     "Ctrl-C saves and stops; the same command goes on, after kill -9 too, with the same trials. A trial whose worker was\n"
     "killed, crashed or hung goes on from its checkpoint in another one. Trials share a device by their exact planned memory:\n"
     "each begins when there is room for it; with study.devices_per_trial=2 each is trained by two CPU ranks, or two GPUs of\n"
     "device.name, and begins when there is room on both. The same command a second time, beside the first, helps with the study: what one\n"
     "of them leaves when it is stopped or killed, the other goes on with; with PostgreSQL on any number of machines.\n"
     "The best trial is in studies/NAME/best.ini, which `ftengine train` runs.\n\n"
     "  ftengine tune                                                  the quick start's data, 30 trials\n"
     "  ftengine tune my.ini 'space.train.learning_rate=float(1e-6, 1e-4, log)' study.pruner=median\n"},
    {"quote", ft_command_quote, "quote CONFIG.ini... [--seconds S] [--draws K] [--json] [section.key=value ...]",
     "what a run or a study will take: bytes exactly, seconds from a few steps",
     "  --seconds S     measures for about so many seconds, 10 by default, beside reading the data and the model; three steps in any case\n"
     "  --draws K       of a study: so many trials of its space are measured, 5 by default\n"
     "  --json          one JSON document\n\n"
     "The bytes are those of `ftengine plan`. Seconds are measured here: steps, a part of an evaluation, and a save, beside where the run\n"
     "directory will be; nothing of it stays. With each comes the interval in which it lies with 95%, if the machine goes on as it did. What\n"
     "does not fit is told without measuring, with exit code 3. A study is quoted as its trials one after the other.\n\n"
     "  ftengine quote configs/minilm_quickstart.ini\n"},
    {"study", ft_command_study, "study create|list|show|best|trials|enqueue|ask|tell|thaw|export|import|report|delete [NAME] ...",
     "studies of `ftengine tune` and of Optuna: look, queue, move",
     "  create [CONFIG.ini] [--study NAME]      what `ftengine tune` would begin, to enqueue trials before it\n"
     "      --direction minimize|maximize[,...] an empty study instead, for ask and tell\n"
     "  list                                    the studies in studies/\n"
     "  show [NAME] [--trial N]                 counts, best trial, what more trials may gain, where the search expects the best, why trial N\n"
     "                                          (the newest by default) was tried, parameters and which mattered\n"
     "  best [NAME]                             the best trial; with several objectives all that no other beats\n"
     "  trials [NAME] [--state STATE] [--top N] a table of trials\n"
     "  enqueue [NAME] PARAMETER=VALUE...       a trial that the search must try; the sampler fills in the rest\n"
     "      --skip-if-exists                    not when a trial with these values is there already\n"
     "      --force                             also parameters and values that no trial has had\n"
     "  ask [NAME] [--space FILE.json]          a trial for another program: its number and values, a queued one first. FILE.json is a\n"
     "                                          search space as Optuna writes it (and \"when\"); by default the study's own\n"
     "  tell [NAME] NUMBER VALUE...             how good that trial was (--state complete|pruned|fail); with --step STEP one value\n"
     "                                          on its way, answered by \"go on\" or \"prune\"\n"
     "      --constraints C[,...]               what the program's own constraints came to, 0 or less where one is kept\n"
     "  thaw [NAME] NUMBER...                   trials that were pruned go on from their last step (study.keep_pruned), under new\n"
     "                                          numbers, when `ftengine tune` comes to them\n"
     "      --epochs E, --steps S               to so many in all, also trials that came to their end, where the learning rate does not\n"
     "                                          end with the steps (train.lr_scheduler = constant)\n"
     "  export [NAME] [--output FILE]           CSV, JSON lines or a database (--format csv|jsonl|db)\n"
     "  import FILE [--study NAME]              JSON lines, or a database of ours or of Optuna (--from STUDY)\n"
     "  report [NAME] [--output FILE]           one HTML page with pictures, by default STUDY/report.html; --svg DIR: also as files\n"
     "  delete NAME --yes                       the study and its runs; with --storage the study alone\n\n"
     "NAME is the name of a study in studies/, or its directory; not needed when there is only one. With\n"
     "--storage URL (sqlite:///FILE, postgresql://USER@HOST/DATABASE, journal:FILE) any database of Optuna 3.0 or later will do.\n"
     "All of them take --json. For ask and tell study.KEY=VALUE sets what [study] would, as study.sampler=random. Finished trials are never changed.\n"},
    {"track", ft_command_track, "track RUN|STUDY [--model] [--storage URL] [--json] [section.key=value ...]", "tells MLflow of a run or study that it does not know all of",
     "  --model         the run's model too, as mlflow.transformers.load_model(\"runs:/RUN_ID/model\") reads it\n"
     "  --storage URL   of a study whose database is elsewhere\n"
     "  --json          one JSON document when all was told\n"
     "  --live          until standard input ends: how runs and studies with track.mlflow start it themselves\n\n"
     "RUN is a run directory, of several seeds or folds each is a run. What MLflow has been told is in mlflow.json there: nothing is told\n"
     "twice, whatever was interrupted. Address and experiment are track.mlflow and track.experiment of the run, unless given, else\n"
     "MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.\n\n"
     "  ftengine track runs/reviews-001 track.mlflow=http://127.0.0.1:5000\n"},
    {"plan", ft_command_plan,
     "plan CONFIG.ini... [section.key=value ...] [--memory SIZE|--gpu NAME] [--devices N [--link-speed L] [--channels C]] [--table | --sweep section.key=v1,v2 ...] [--svg FILE] [--json|--csv]",
     "the memory of a run, to the byte, without running it",
     "  --memory SIZE   the memory to fit in: 24GiB, 512MiB, 24GB (10^9), bytes or 80%; else memory.limit, else this machine's\n"
     "  --gpu NAME      that of a well-known card, 4090, A100-80GB, L4, ..., and CUDA's scratch on it (with device.name=cpu the CPU's)\n"
     "  --devices N     one of N GPUs, each with a share of every batch: its memory, NCCL's beside it. With --gpu also how much of a step\n"
     "                  the sums of gradients are predicted to cost\n"
     "  --link-speed L  what connects them: nvlink3, nvlink4, nvlink5, pcie4, pcie4-host, pcie5, or bytes a second (370GB); by default what\n"
     "                  such cards usually have\n"
     "  --channels C    distributed.channels: of NCCL, 12MiB and a multiprocessor each\n"
     "  --labels N      classes, when there is no data.train\n"
     "  --table         the largest micro-batch for every length, with and without recomputation\n"
     "  --sweep K=V,V   a plan for every value; may be given many times (values of lists are separated by ;)\n"
     "  --svg FILE      a picture of the table, the sweep or the [space] beside it\n"
     "  --json, --csv   for programs\n\n"
     "With data.train the lengths and the order are the real ones; without, or where the file or the model's vocabulary is not\n"
     "here, every text is as long as data.max_length allows. Of train.seeds and data.folds the run that takes most is planned.\n"
     "Of a configuration with a [space] all of the space is planned too: how much of it fits as it is, with what is at auto fitted,\n"
     "and never, by parameter, and the worst point; beyond 100,000 points corners and a sample.\n"
     "No weights are read. The numbers of well-known models are built in, so that no file is needed at all:\n\n"
     "  ftengine plan model.path=bert-base-uncased --gpu 4090 train.batch_size=32\n"
     "  ftengine plan model.path=bert-large-uncased --memory 24GiB --table\n\n"
     "Exit code 0: it fits (of a table, sweep or space: something does), 3: it does not, 4: the kernels do not run on such a card.\n"},
    {"devices", ft_command_devices, "devices [--json] [--pick [--min-free SIZE]] [--watch [--interval T]]", "what there is to run on, and what is missing",
     "  --json            one JSON document\n"
     "  --pick            only the name of the device that a run would take\n"
     "  --min-free SIZE   with so much free, 4GiB for example; exit code 4 when there is none\n"
     "  --watch           devices and the runs on them, looked at again and again until Ctrl-C: memory in use and reserved, how far\n"
     "                    each run is, and of a GPU temperature, load and other programs where its driver tells. With --json a\n"
     "                    line each time\n"
     "  --interval T      how often, 0.5s or 10s; by default every 2s\n\n"
     "For every device what it is, its memory, why it cannot be used if it cannot, and which runs have reserved memory\n"
     "there. Every run reserves what it was planned to need before its first step, also of the host's memory what it pins\n"
     "there (memory.offload, listed under the CPU); the reservations of all runs are kept\n"
     "in one file a device, in $FTENGINE_LEDGER_DIR or /tmp/ftengine-UID. FTENGINE_LEDGER_CAPACITY=80% (or 16GiB) leaves the\n"
     "rest to other programs.\n"},
    {"tune-gemm", ft_command_tune_gemm, "tune-gemm CONFIG.ini... --output FILE [--json] [section.key=value ...]",
     "the fastest matrix products on this GPU, for a run",
     "  --output FILE   where the choices go; train takes them with device.gemm_tuning=FILE\n"
     "  --json          one JSON document\n\n"
     "Measures what cuBLASLt offers for every product of the run's first epoch and of its evaluations, and keeps the fastest.\n"
     "The file is of one kind of chip and one release of cuBLASLt; other shapes are chosen by cuBLASLt as without it. A run's\n"
     "bits depend on it: its hash is in run.json and in checkpoints. device.gemm_tuning=auto has a run measure its frequent\n"
     "products itself, once for such a GPU; this command is for all of them, for several devices, and for a file to give away.\n\n"
     "  ftengine tune-gemm my.ini --output h200.json\n"
     "  ftengine train my.ini device.gemm_tuning=h200.json\n"},
    {"merge", ft_command_merge, "merge RUN|ADAPTER --output DIR [--base MODEL] [--storage nf4|nf4_double|int8] [--json]", "an adapter and its model as one ordinary model",
     "  --output DIR    the model that is written, whole or not at all\n"
     "  --base MODEL    the model that the adapter stands beside; by default the one that its files name\n"
     "  --storage FORM  linear layers in 4 or 8 bits, in the files of transformers and bitsandbytes; a model without an adapter\n"
     "                  is written so too\n"
     "  --json          one JSON document: where the model is\n\n"
     "RUN was trained with adapter.type = lora; ADAPTER is a directory with adapter_config.json and adapter_model.safetensors, of\n"
     "ftengine or of Hugging Face PEFT.\n"},
    {"pull", ft_command_pull, "pull NAME[@REVISION] [--json]", "a model from the hub into the cache",
     "  --json          one JSON document in place of the directory\n\n"
     "What is needed of it is fetched into the cache that huggingface_hub uses too, checked, and its directory printed;\n"
     "model.path=NAME finds it from then on. What is there is not fetched again, and what broke off goes on: Ctrl-C and\n"
     "the same command again are fine.\n\n"
     "  ftengine pull microsoft/deberta-v3-base\n"
     "  ftengine pull bert-base-uncased@main\n\n"
     "HF_HOME (or HF_HUB_CACHE) says where the cache is, HF_ENDPOINT which hub is asked, HF_TOKEN as whom;\n"
     "SSL_CERT_FILE (or REQUESTS_CA_BUNDLE) whose certificates are accepted, behind a proxy that has its own.\n"},
    {"config", ft_command_config, "config [CONFIG.ini...] [section.key=value ...] [--markdown|--man|--json]", "the effective configuration",
     "Without an argument it prints every option with its meaning, bounds and default; --markdown and --man print the same as\n"
     "a page of the reference and as the manual page ftengine-config(5). --json is for programs: without an argument types, bounds,\n"
     "choices, defaults and names known elsewhere, else the value of every option as text.\n"},
    {"completion", NULL, "completion bash|zsh|fish [--json]", "completions for a shell",
     "  --json          one JSON document, with the script in it\n\n"
     "Prints a script that completes commands, flags, options and their values:\n\n"
     "  source <(ftengine completion bash)\n"
     "  ftengine completion zsh >~/.zfunc/_ftengine\n"
     "  ftengine completion fish >~/.config/fish/completions/ftengine.fish\n\n"
     "`make install` puts all three in place.\n"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const ft_command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static void print_help(void) {
    printf("ftengine %s: fine-tunes BERT-style transformers\n\n", FT_VERSION);
    for (int i = 0; i < COMMANDS; i++) printf("  ftengine %-10s %s\n", commands[i].name, commands[i].what);
    printf("\n  ftengine help COMMAND    usage of one command; --markdown, --man, --json: of all\n"
           "  ftengine --version       version and build\n\n"
           "Everywhere: --quiet, --verbose. Results on standard output, messages on standard error.\n"
           "Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 out of memory, 4 no device in time,\n"
           "5 diverged, 130 and 143 stopped after saving.\n");
}

static void print_command_help(const ft_command *c) { printf("ftengine %s\n\n%s.\n\n%s", c->usage, c->what, c->help); }

// The pages that are made of the table: --markdown, --man, --json; false: it is none of these.
static bool print_page(const char *form, ft_status *status) {
    if (strcmp(form, "--markdown") == 0) return ft_pages_markdown(COMMANDS, commands, stdout), true;
    if (strcmp(form, "--man") == 0) return ft_pages_man(COMMANDS, commands, stdout), true;
    if (strcmp(form, "--json") == 0) return *status = ft_pages_json(COMMANDS, commands), true;
    return false;
}

static ft_status complete(int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    bool json = false;
    const ft_flag flags[] = {{"--json", NULL, &json}};
    ft_status status = ft_parse_words("completion", argc, argv, 1, flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count != 0)) {
        status = ft_fail(FT_INVALID, "completion", "give one shell");
        ft_hint("ftengine completion bash|zsh|fish [--json]");
    }
    if (status == FT_OK && json) status = ft_pages_completion_json(words.plain[0], COMMANDS, commands, ft_study_sections);
    else if (status == FT_OK) status = ft_pages_completion(words.plain[0], COMMANDS, commands, ft_study_sections, stdout);
    ft_arena_free(&arena);
    return status;
}

static void print_version(void) {
    ft_device *device;
    printf("ftengine %s\n", FT_VERSION);
    printf("compiler   %s\n", __VERSION__);
    if (ft_cpu_open(0, NULL, &device) == FT_OK) {
        printf("device     %s\n", device->description);
        ft_device_close(device);
    }
    printf("backends   cpu, cuda (ftengine devices says what a run on it lacks)\n");
}

static ft_status unknown_command(const char *name) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *nearest = ft_nearest(name, COMMANDS, names);
    ft_fail(FT_INVALID, name, "unknown command");
    if (nearest != NULL) ft_hint("did you mean ftengine %s?", nearest);
    else ft_hint("ftengine --help lists the commands");
    return FT_INVALID;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static ft_status dispatch(int argc, char **argv) {
    if (argc < 2) {
        ft_fail(FT_INVALID, NULL, "no command given");
        ft_hint("ftengine --help lists the commands");
        return FT_INVALID;
    }
    const char *name = argv[1];
    const bool version = strcmp(name, "--version") == 0, help = strcmp(name, "help") == 0;
    if (argc > (help ? 3 : 2) && (help || version)) {
        ft_fail(FT_INVALID, argv[help ? 3 : 2], "%s takes %s", name, help ? "one command" : "nothing more");
        ft_hint("for programs: ftengine help --json, the version and all commands");
        return FT_INVALID;
    }
    if (version) return print_version(), FT_OK;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (help && argc == 2)) return print_help(), FT_OK;
    ft_status page = FT_OK;
    if (help && print_page(argv[2], &page)) return page;
    if (help) name = argv[2];
    if (strcmp(name, "worker") == 0) return ft_command_worker(ft_study_sections, argc - 2, argv + 2); // which `ftengine tune` starts
    if (strcmp(name, "rank") == 0) return ft_command_rank(ft_study_sections, argc - 2, argv + 2); // which `ftengine train` starts
    const ft_command *c = find(name);
    if (c == NULL) return unknown_command(name);
    if (help || asks_for_help(argc - 2, argv + 2)) return print_command_help(c), FT_OK;
    return c->run == NULL ? complete(argc - 2, argv + 2) : c->run(ft_study_sections, argc - 2, argv + 2);
}

static bool works_on(const char *name) {
    static const char *const names[] = {"train", "tune", "tune-gemm", "pull", "quote", "worker", "rank"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

// One arena of the C library for all threads: each of its own would be 64 MiB of addresses, which count under RLIMIT_AS, and
// memory that comes back to one of them is of no use to the others. Threads of ours allocate next to nothing.
// Large blocks always have pages of their own, which go back when they are freed: else the library would keep them for later from the
// second on, and what a process holds would depend on what it did before. JSON is watched as all else is (base/heap.h).
static void set_up_heap(void) {
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, FT_HEAP_LARGE);
    (void)mallopt(M_TRIM_THRESHOLD, FT_HEAP_LARGE);
#endif
    json_set_alloc_funcs(ft_heap_malloc, free);
}

// The arguments of a process are there for all to read. A password in an address goes where libpq looks for one as
// well, which only this user's processes can read, and nothing that is shown, stored or handed on holds it any more.
static ft_status hide_password(char **argument) {
    char *url = strstr(*argument, "postgres"), *password;
    if (url == NULL || !ft_url_is_postgres(url)) return FT_OK;
    ft_arena arena = {0};
    const char *plain = ft_url_plain(&arena, url, &password);
    ft_status status = plain != NULL ? FT_OK : ft_fail_memory(strlen(url), "an address");
    if (status == FT_OK && password != NULL) {
        const size_t before = (size_t)(url - *argument);
        char *without = malloc(before + strlen(plain) + 1); // for as long as the process lives
        if (without == NULL || setenv("PGPASSWORD", password, 1) != 0) {
            free(without);
            status = ft_fail_memory(strlen(url), "an address");
        } else {
            memcpy(without, *argument, before);
            strcpy(without + before, plain);
            ft_url_hide(url);
            *argument = without;
        }
    }
    ft_arena_free(&arena);
    return status;
}

int main(int argc, char **argv) {
    set_up_heap();
    // Who works goes on when nobody reads its messages any more; who prints results ends silently then, as other tools do. A file-size
    // limit is an error of the write, with a message.
    signal(SIGPIPE, argc > 1 && works_on(argv[1]) ? SIG_IGN : SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    ft_signals_serve(ft_context_now());
    ft_status status = FT_OK;
    for (int i = 1; status == FT_OK && i < argc; i++) status = hide_password(&argv[i]);
    if (status == FT_OK) status = dispatch(argc, argv);
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail(FT_FAILED, "standard output", "cannot write");
    if (status != FT_OK && ft_error_message()[0] == '\0') return (int)status; // a rank's, which somebody else tells
    if (status == FT_INTERRUPTED || status == FT_TERMINATED) ft_info("%s", ft_error_message());
    else if (status != FT_OK) {
        fflush(stdout); // what was said before the error stands before it, also where both go to one file
        ft_log_error();
    }
    return (int)status;
}
