#include "benchmarks/search/search_problems.h"

#include <math.h>
#include <stdio.h>

#define PI 3.14159265358979323846

// Optima away from the middle of the ranges, where the prior of TPE has its mean.
static const double shift[5] = {1.7, -2.3, 0.9, 3.1, -1.2};

static void ask_all(asker *a, int count, double low, double high, double *x) {
    for (int i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = ask_float(a, name, low, high, false);
    }
}

// ---- standard functions ---------------------------------------------------------------------------------------------

static double sphere(asker *a) {
    double x[5], sum = 0;
    ask_all(a, 5, -5.12, 5.12, x);
    for (int i = 0; i < 5; i++)
        sum += (x[i] - shift[i]) * (x[i] - shift[i]);
    return sum;
}

static double rosenbrock(asker *a) {
    double x[4], sum = 0;
    ask_all(a, 4, -5, 10, x);
    for (int i = 0; i < 3; i++)
        sum += 100 * (x[i + 1] - x[i] * x[i]) * (x[i + 1] - x[i] * x[i]) + (1 - x[i]) * (1 - x[i]);
    return sum;
}

static double rastrigin(asker *a) {
    double x[5], sum = 50;
    ask_all(a, 5, -5.12, 5.12, x);
    for (int i = 0; i < 5; i++) {
        double z = x[i] - shift[i];
        sum += z * z - 10 * cos(2 * PI * z);
    }
    return sum;
}

static double ackley_of(const double *z, int n) {
    double squares = 0, cosines = 0;
    for (int i = 0; i < n; i++) {
        squares += z[i] * z[i];
        cosines += cos(2 * PI * z[i]);
    }
    return 20 + exp(1.0) - 20 * exp(-0.2 * sqrt(squares / n)) - exp(cosines / n);
}

static double ackley(asker *a) {
    double x[5];
    ask_all(a, 5, -32.768, 32.768, x);
    for (int i = 0; i < 5; i++)
        x[i] -= 5 * shift[i];
    return ackley_of(x, 5);
}

static double griewank(asker *a) {
    double x[5], sum = 0, product = 1;
    ask_all(a, 5, -600, 600, x);
    for (int i = 0; i < 5; i++) {
        double z = x[i] - 100 * shift[i];
        sum += z * z / 4000;
        product *= cos(z / sqrt(i + 1.0));
    }
    return sum - product + 1;
}

static double levy(asker *a) {
    double x[5], w[5];
    ask_all(a, 5, -10, 10, x);
    for (int i = 0; i < 5; i++)
        w[i] = 1 + (x[i] - 1) / 4;
    double sum = sin(PI * w[0]) * sin(PI * w[0]);
    for (int i = 0; i < 4; i++) {
        double s = sin(PI * w[i] + 1);
        sum += (w[i] - 1) * (w[i] - 1) * (1 + 10 * s * s);
    }
    double s = sin(2 * PI * w[4]);
    return sum + (w[4] - 1) * (w[4] - 1) * (1 + s * s);
}

static double styblinski(asker *a) {
    double x[5], sum = 0;
    ask_all(a, 5, -5, 5, x);
    for (int i = 0; i < 5; i++)
        sum += (x[i] * x[i] * x[i] * x[i] - 16 * x[i] * x[i] + 5 * x[i]) / 2 + 39.16616570377142;
    return sum;
}

static double zakharov(asker *a) {
    double x[5], squares = 0, sum = 0;
    ask_all(a, 5, -5, 10, x);
    for (int i = 0; i < 5; i++) {
        squares += x[i] * x[i];
        sum += 0.5 * (i + 1) * x[i];
    }
    return squares + sum * sum + sum * sum * sum * sum;
}

static double branin(asker *a) {
    double x = ask_float(a, "x0", -5, 10, false), y = ask_float(a, "x1", 0, 15, false);
    double t = y - 5.1 / (4 * PI * PI) * x * x + 5 / PI * x - 6;
    return t * t + 10 * (1 - 1 / (8 * PI)) * cos(x) + 10;
}

static double camel(asker *a) {
    double x = ask_float(a, "x0", -3, 3, false), y = ask_float(a, "x1", -2, 2, false);
    return (4 - 2.1 * x * x + x * x * x * x / 3) * x * x + x * y + (-4 + 4 * y * y) * y * y;
}

static double hartmann(asker *a, int n, const double *scale, const double *place) {
    static const double weight[4] = {1.0, 1.2, 3.0, 3.2};
    double x[6], sum = 0;
    ask_all(a, n, 0, 1, x);
    for (int k = 0; k < 4; k++) {
        double inner = 0;
        for (int i = 0; i < n; i++)
            inner += scale[k * n + i] * (x[i] - 1e-4 * place[k * n + i]) * (x[i] - 1e-4 * place[k * n + i]);
        sum -= weight[k] * exp(-inner);
    }
    return sum;
}

static double hartmann3(asker *a) {
    static const double scale[] = {3, 10, 30, 0.1, 10, 35, 3, 10, 30, 0.1, 10, 35};
    static const double place[] = {3689, 1170, 2673, 4699, 4387, 7470, 1091, 8732, 5547, 381, 5743, 8828};
    return hartmann(a, 3, scale, place);
}

static double hartmann6(asker *a) {
    static const double scale[] = {10, 3,   17,  3.5, 1.7, 8, 0.05, 10, 17,   0.1, 8,   14,
                                   3,  3.5, 1.7, 10,  17,  8, 17,   8,  0.05, 10,  0.1, 14};
    static const double place[] = {1312, 1696, 5569, 124,  8283, 5886, 2329, 4135, 8307, 3736, 1004, 9991,
                                   2348, 1451, 3522, 2883, 3047, 6650, 4047, 8828, 8732, 5743, 1091, 381};
    return hartmann(a, 6, scale, place);
}

// ---- mixed spaces ---------------------------------------------------------------------------------------------------

static double mixed_ackley(asker *a) {
    static const char *const levels[] = {"a", "b", "c", "d", "e"};
    static const double level[] = {0.5, -1, 0, 1, -0.5};
    double z[7];
    z[0] = ask_float(a, "x0", -1, 1, false) - 0.3;
    z[1] = ask_float(a, "x1", -1, 1, false) + 0.2;
    z[2] = ask_float(a, "x2", -1, 1, false) - 0.6;
    z[3] = (ask_int(a, "k0", -10, 10, false) - 4) / 10;
    z[4] = (ask_int(a, "k1", -10, 10, false) + 7) / 10;
    z[5] = level[ask_choice(a, "c0", 5, levels)] - 1;
    z[6] = level[ask_choice(a, "c1", 5, levels)] + 0.5;
    return ackley_of(z, 7);
}

static double square(double x) { return x * x; }

// The shape of a fine-tuning: the best learning rate depends on optimizer and batch, width and depth pay off slowly.
static double training(asker *a, double *cost) {
    static const char *const optimizers[] = {"adamw", "sgd", "lamb"}, *const batches[] = {"8", "16", "32", "64"};
    static const double best_rate[] = {-4.5, -2.2, -3.4}, handicap[] = {0, 0.12, 0.05};
    double rate = log10(ask_float(a, "rate", 1e-6, 1e-1, true));
    int optimizer = ask_choice(a, "optimizer", 3, optimizers);
    int batch = ask_choice(a, "batch", 4, batches);
    double decay = log10(ask_float(a, "decay", 1e-6, 1, true));
    double warmup = ask_step(a, "warmup", 0, 0.3, 0.02);
    double dropout = ask_step(a, "dropout", 0, 0.5, 0.05);
    double layers = ask_int(a, "layers", 1, 12, false);
    double units = log2(ask_int(a, "units", 16, 1024, true));
    *cost = exp2(units - 10) * layers / 12 * exp2(batch - 3);
    return 0.3 + handicap[optimizer] + 0.15 * square(rate - best_rate[optimizer] - 0.15 * (batch - 1)) +
           0.01 * square(decay + 2) + 0.4 * square(warmup - 0.1) + 0.6 * square(dropout - 0.02 * layers) +
           0.25 / (1 + 0.4 * layers) + 0.03 * square(10 - units) / (1 + 0.2 * layers) + 0.01 * square(batch - 2);
}

static double mixed_training(asker *a) {
    double cost;
    return training(a, &cost);
}

// ---- spaces with conditions -----------------------------------------------------------------------------------------

static double jenatton(asker *a) {
    static const char *const sides[] = {"0", "1"};
    if (ask_choice(a, "x1", 2, sides) == 0) {
        if (ask_choice(a, "x2", 2, sides) == 0)
            return square(ask_float(a, "x4", -1, 1, false)) + 0.1 + ask_float(a, "r8", 0, 1, false);
        return square(ask_float(a, "x5", -1, 1, false)) + 0.2 + ask_float(a, "r8", 0, 1, false);
    }
    if (ask_choice(a, "x3", 2, sides) == 0)
        return square(ask_float(a, "x6", -1, 1, false)) + 0.3 + ask_float(a, "r9", 0, 1, false);
    return square(ask_float(a, "x7", -1, 1, false)) + 0.4 + ask_float(a, "r9", 0, 1, false);
}

// Seven models with learning rates of their own; the best one is the hardest to tune.
static double cond_models(asker *a) {
    static const char *const models[] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6"};
    static const double floor_[] = {0.30, 0.27, 0.25, 0.28, 0.22, 0.16, 0.24};
    static const double narrow[] = {0.05, 0.05, 0.08, 0.06, 0.10, 0.40, 0.10};
    static const double best[] = {-4.0, -4.4, -4.2, -4.8, -4.6, -5.2, -4.5};
    int m = ask_choice(a, "model", 7, models);
    char name[16];
    snprintf(name, sizeof name, "rate.%s", models[m]);
    double value = floor_[m] + narrow[m] * square(log10(ask_float(a, name, 1e-7, 1e-2, true)) - best[m]);
    snprintf(name, sizeof name, "drop.%s", models[m]);
    value += narrow[m] * 4 * square(ask_float(a, name, 0, 0.5, false) - 0.05 * (m + 1));
    snprintf(name, sizeof name, "freeze.%s", models[m]);
    value += 0.004 * fabs(ask_int(a, name, 0, 24, false) - 3 * m);
    return value + 0.3 * square(ask_float(a, "warmup", 0, 0.3, false) - 0.12);
}

static double cond_optimizer(asker *a) {
    static const char *const optimizers[] = {"sgd", "adam", "lion"}, *const yes[] = {"false", "true"};
    int optimizer = ask_choice(a, "optimizer", 3, optimizers);
    double rate = log10(ask_float(a, "rate", 1e-6, 1, true)), decay = log10(ask_float(a, "decay", 1e-6, 1, true));
    double value = 0.02 * square(decay + 3);
    if (optimizer == 0) {
        double momentum = ask_float(a, "momentum", 0, 0.999, false);
        value += 0.22 + 0.1 * square(rate - log10(1.0001 - momentum) + 0.5) + 0.3 * square(momentum - 0.95);
        return value + (ask_choice(a, "nesterov", 2, yes) == 1 ? 0 : 0.02);
    }
    if (optimizer == 1) {
        double beta2 = log10(ask_float(a, "1-beta2", 1e-4, 1e-1, true));
        value += 0.20 + 0.2 * square(rate + 3.5) + 0.05 * square(beta2 + 2.5);
        return value + 0.01 * square(log10(ask_float(a, "epsilon", 1e-10, 1e-2, true)) + 7);
    }
    double beta = ask_float(a, "beta", 0.8, 0.999, false);
    return value + 0.15 + 0.5 * square(rate + 4.3 - 4 * (0.95 - beta)) + 4 * square(beta - 0.93);
}

static double cond_depth(asker *a) {
    static const double best[] = {9, 8, 6.5, 5.5, 5};
    int layers = (int)ask_int(a, "layers", 1, 5, false);
    double value = 0.1 * square(layers - 4) + square(log10(ask_float(a, "rate", 1e-5, 1e-1, true)) + 2 + 0.3 * layers);
    for (int i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "units%d", i);
        value += 0.1 * square(log2(ask_int(a, name, 8, 1024, true)) - best[i]);
    }
    return value;
}

// ---- constraints ----------------------------------------------------------------------------------------------------

static double con_gramacy(asker *a) {
    double x = ask_float(a, "x0", 0, 1, false), y = ask_float(a, "x1", 0, 1, false);
    constrain(a, 1.5 - x - 2 * y - 0.5 * sin(2 * PI * (x * x - 2 * y)));
    constrain(a, x * x + y * y - 1.5);
    return x + y;
}

static double con_townsend(asker *a) {
    double x = ask_float(a, "x0", -2.25, 2.25, false), y = ask_float(a, "x1", -2.5, 1.75, false), t = atan2(x, y);
    double radius = 2 * cos(t) - 0.5 * cos(2 * t) - 0.25 * cos(3 * t) - 0.125 * cos(4 * t);
    constrain(a, x * x + y * y - radius * radius - square(2 * sin(t)));
    return -square(cos((x - 0.1) * y)) - x * sin(3 * x + y);
}

static double con_welded_beam(asker *a) {
    double h = ask_float(a, "h", 0.1, 2, false), l = ask_float(a, "l", 0.1, 10, false);
    double t = ask_float(a, "t", 0.1, 10, false), b = ask_float(a, "b", 0.1, 2, false);
    double m = 6000 * (14 + l / 2), r = sqrt(l * l / 4 + square((h + t) / 2));
    double j = 2 * (sqrt(2.0) * h * l * (l * l / 12 + square((h + t) / 2)));
    double tau1 = 6000 / (sqrt(2.0) * h * l), tau2 = m * r / j;
    double tau = sqrt(tau1 * tau1 + tau1 * tau2 * l / r + tau2 * tau2);
    double buckling = 4.013 * 30e6 * sqrt(t * t * pow(b, 6) / 36) / 196 * (1 - t / 28 * sqrt(30e6 / (4 * 12e6)));
    constrain(a, tau / 13600 - 1);
    constrain(a, 6 * 6000 * 14 / (b * t * t) / 30000 - 1);
    constrain(a, h - b);
    constrain(a, 0.125 - h);
    constrain(a, 4 * 6000 * 2744 / (30e6 * t * t * t * b) / 0.25 - 1);
    constrain(a, 1 - buckling / 6000);
    return 1.10471 * h * h * l + 0.04811 * t * b * (14 + l);
}

static double con_pressure_vessel(asker *a) {
    double shell = ask_step(a, "shell", 0.0625, 6.1875, 0.0625), head = ask_step(a, "head", 0.0625, 6.1875, 0.0625);
    double r = ask_float(a, "r", 10, 200, false), l = ask_float(a, "l", 10, 200, false);
    constrain(a, 0.0193 * r - shell);
    constrain(a, 0.00954 * r - head);
    constrain(a, 1 - (PI * r * r * l + 4.0 / 3 * PI * r * r * r) / 1296000);
    return 0.6224 * shell * r * l + 1.7781 * head * r * r + 3.1661 * shell * shell * l + 19.84 * shell * shell * r;
}

static double con_speed_reducer(asker *a) {
    double b = ask_float(a, "b", 2.6, 3.6, false), m = ask_float(a, "m", 0.7, 0.8, false);
    double z = ask_int(a, "z", 17, 28, false);
    double l1 = ask_float(a, "l1", 7.3, 8.3, false), l2 = ask_float(a, "l2", 7.3, 8.3, false);
    double d1 = ask_float(a, "d1", 2.9, 3.9, false), d2 = ask_float(a, "d2", 5, 5.5, false);
    constrain(a, 27 / (b * m * m * z) - 1);
    constrain(a, 397.5 / (b * m * m * z * z) - 1);
    constrain(a, 1.93 * pow(l1, 3) / (m * z * pow(d1, 4)) - 1);
    constrain(a, 1.93 * pow(l2, 3) / (m * z * pow(d2, 4)) - 1);
    constrain(a, sqrt(square(745 * l1 / (m * z)) + 16.9e6) / (110 * pow(d1, 3)) - 1);
    constrain(a, sqrt(square(745 * l2 / (m * z)) + 157.5e6) / (85 * pow(d2, 3)) - 1);
    constrain(a, m * z / 40 - 1);
    constrain(a, 5 * m / b - 1);
    constrain(a, b / (12 * m) - 1);
    constrain(a, (1.5 * d1 + 1.9) / l1 - 1);
    constrain(a, (1.1 * d2 + 1.9) / l2 - 1);
    return 0.7854 * b * m * m * (3.3333 * z * z + 14.9334 * z - 43.0934) - 1.508 * b * (d1 * d1 + d2 * d2) +
           7.4777 * (pow(d1, 3) + pow(d2, 3)) + 0.7854 * (l1 * d1 * d1 + l2 * d2 * d2);
}

// Width, depth and batch must fit in memory, as in a real study.
static double con_training(asker *a) {
    double cost, value = training(a, &cost);
    constrain(a, cost / 0.05 - 1);
    return value;
}

#define SHIFTED "optimum moved away from the middle"
const problem problems[] = {
    {"sphere", "standard", sphere, "5 floats, " SHIFTED},
    {"rosenbrock", "standard", rosenbrock, "4 floats"},
    {"rastrigin", "standard", rastrigin, "5 floats, " SHIFTED},
    {"ackley", "standard", ackley, "5 floats, " SHIFTED},
    {"griewank", "standard", griewank, "5 floats, " SHIFTED},
    {"levy", "standard", levy, "5 floats"},
    {"styblinski", "standard", styblinski, "5 floats"},
    {"zakharov", "standard", zakharov, "5 floats"},
    {"branin", "standard", branin, "2 floats"},
    {"camel", "standard", camel, "2 floats"},
    {"hartmann3", "standard", hartmann3, "3 floats"},
    {"hartmann6", "standard", hartmann6, "6 floats"},
    {"mixed_ackley", "mixed", mixed_ackley, "3 floats, 2 ints, 2 lists of choices"},
    {"mixed_training", "mixed", mixed_training, "2 log floats, 2 stepped, 2 ints, 2 lists of choices"},
    {"jenatton", "conditional", jenatton, "3 choices decide over 6 floats"},
    {"cond_models", "conditional", cond_models, "7 models with 3 parameters of their own each"},
    {"cond_optimizer", "conditional", cond_optimizer, "3 optimizers with 1 or 2 parameters of their own"},
    {"cond_depth", "conditional", cond_depth, "a width for each of 1 to 5 layers"},
    {"con_gramacy", "constrained", con_gramacy, "2 floats, 2 constraints"},
    {"con_townsend", "constrained", con_townsend, "2 floats, 1 constraint"},
    {"con_welded_beam", "constrained", con_welded_beam, "4 floats, 6 constraints"},
    {"con_pressure_vessel", "constrained", con_pressure_vessel, "2 floats, 2 stepped, 3 constraints"},
    {"con_speed_reducer", "constrained", con_speed_reducer, "6 floats, 1 int, 11 constraints"},
    {"con_training", "constrained", con_training, "mixed_training under a limit of memory"},
};
const int problem_count = sizeof problems / sizeof problems[0];
