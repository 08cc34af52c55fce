// run.cpp - blocks one after another, their warps in several orders, lanes of a warp where they stand.
#include "tests/ptx/tensor_memory.h"

#include <algorithm>

namespace ptx {
namespace {

enum { FORWARD, REVERSE, RANDOM, SKEWED }; // simt_order
constexpr uint64_t MOST_INSTRUCTIONS = 4ull << 30; // of a launch

void begin(warp &w, block &in, int number) {
    const launch &of = *in.of;
    const kernel &k = *of.code;
    w.in = &in;
    w.number = number;
    w.file = k.image;
    if (k.has_products) w.dated.assign(k.image.size() / WARP, 0), w.seen = w.dated;
    const uint32_t threads = of.threads[0] * of.threads[1] * of.threads[2];
    w.local.assign(k.local_bytes * WARP, 0xff);
    for (int l = 0; l < WARP; l++) {
        const uint32_t t = uint32_t(number) * WARP + uint32_t(l);
        w.pc[l] = 0;
        if (t >= threads) continue;
        w.alive |= 1u << l;
        const uint32_t index[3] = {t % of.threads[0], t / of.threads[0] % of.threads[1], t / (of.threads[0] * of.threads[1])};
        for (int d = 0; d < 3; d++) {
            if (k.tid[d] >= 0) w.lanes_of<uint32_t>(k.tid[d])[l] = index[d];
            if (k.ntid[d] >= 0) w.lanes_of<uint32_t>(k.ntid[d])[l] = of.threads[d];
            if (k.ctaid[d] >= 0) w.lanes_of<uint32_t>(k.ctaid[d])[l] = in.index[d];
            if (k.nctaid[d] >= 0) w.lanes_of<uint32_t>(k.nctaid[d])[l] = of.grid[d];
        }
        const uint32_t dynamic = uint32_t(SHARED_BEGIN + (k.static_shared + 1023) / 1024 * 1024);
        if (k.dynamic_shared[0] >= 0) w.lanes_of<uint32_t>(k.dynamic_shared[0])[l] = dynamic;
        if (k.dynamic_shared[1] >= 0) w.lanes_of<uint64_t>(k.dynamic_shared[1])[l] = dynamic;
        for (const int slot : k.local)
            w.lanes_of<uint64_t>(slot)[l] = uint64_t(w.local.data() + size_t(l) * k.local_bytes);
        for (const auto &p : k.parameter_address)
            w.lanes_of<uint64_t>(p.first)[l] = uint64_t(of.parameters + p.second);
    }
    if (w.alive == 0) w.state = warp::DONE;
}

// When registers were written and read, for wgmma.fence; a mov hands the date on and reads nothing, for the compiler moves values between
// registers at will.
void date(warp &w, const instruction &i) {
    for (const operand &o : i.from)
        if (o.slot >= 0 && !i.moves) w.seen[size_t(o.slot)] = w.now;
    for (size_t n = 0; i.is_store && n < i.list[0].size(); n++)
        w.seen[size_t(i.list[0][n].slot)] = w.now;
    if (i.to.slot >= 0) w.dated[size_t(i.to.slot)] = i.moves ? w.dated[size_t(i.from[0].slot)] : w.now;
    if (!i.writes_list) return;
    for (const operand &o : i.list[0])
        if (o.slot >= 0) w.dated[size_t(o.slot)] = w.now;
}

[[noreturn]] void rethrow(const warp &w, const instruction &i, const fault &f) {
    fail("%s, warp %d at %s:%d: %s", f.what(), w.number, i.file.c_str(), i.line, i.text.substr(0, 160).c_str());
}

// Lanes that go on next: those of one place, and up to where (`limit`) they may go before somebody has to choose again. By default they are the
// ones furthest behind, which brings lanes together again as soon as can be; others show what does not depend on it.
uint32_t choose(warp &w, int order, uint32_t ready, uint32_t *place, uint32_t *limit) {
    *limit = UINT32_MAX;
    if (w.as_one) {
        *place = w.pc[0];
        return ready;
    }
    const bool behind = order == FORWARD || order == REVERSE || (order == RANDOM && (w.in->draw() & 7) != 0);
    uint32_t least = UINT32_MAX, most = 0, chosen = 0;
    for (int l = 0; l < WARP; l++) {
        least = std::min(least, ready >> l & 1 ? w.pc[l] : UINT32_MAX);
        most = std::max(most, ready >> l & 1 ? w.pc[l] : 0);
    }
    *place = behind ? least : most;
    for (int l = 0; l < WARP; l++)
        chosen |= uint32_t(w.pc[l] == *place) << l;
    chosen &= ready;
    if (chosen == w.alive) w.as_one = true, w.pc[0] = *place;
    else if (order == RANDOM) *limit = *place + 1;
    else if (behind)
        for (int l = 0; l < WARP; l++)
            *limit = std::min(*limit, (ready & ~chosen) >> l & 1 ? w.pc[l] : UINT32_MAX);
    return chosen;
}

void part(warp &w) { // lanes go their own ways
    if (w.as_one) std::fill(w.pc, w.pc + WARP, w.pc[0]);
    w.as_one = false;
}

// `lanes`, which stand at one place, go on at `to`.
void go(warp &w, uint32_t lanes, uint32_t to) {
    if (w.as_one && lanes == w.alive) {
        w.pc[0] = to;
        return;
    }
    part(w);
    for (int l = 0; l < WARP; l++)
        w.pc[l] = lanes >> l & 1 ? to : w.pc[l];
}

// Lanes that an instruction wants together, if all of them stand there; else 0, and those that do wait.
uint32_t meet(warp &w, const instruction &i, uint32_t place, uint32_t here) {
    uint32_t at = here;
    for (int l = 0; w.waiting != 0 && l < WARP; l++)
        if (w.waiting >> l & 1 && w.pc[l] == place) at |= 1u << l;
    uint32_t wanted = w.alive;
    if (i.named.slot >= 0) {
        wanted = uint32_t(w.same_in_all(i.named, at, "the mask of lanes"));
        if (wanted & ~w.alive) fail("lanes are named that have ended: %#x of %#x", wanted, w.alive);
        if (at & ~wanted) fail("a lane that does not name itself");
    }
    if (at != wanted) {
        part(w);
        w.waiting |= here;
        return 0;
    }
    w.waiting &= ~at;
    return at;
}

// Whether all living lanes stand here, and the instruction names just them: what `meet` would say, for most.
bool all_meet(warp &w, const instruction &i, uint32_t here) {
    if (here != w.alive) return false;
    if (i.named.slot < 0) return true;
    const uint32_t *names = w.lanes_of<uint32_t>(i.named.slot);
    uint32_t others = 0;
    for (int l = 0; l < WARP; l++)
        others |= here >> l & 1 ? names[l] ^ here : 0;
    return others == 0;
}

// Instructions in a row that lanes of one place do, from `place` up to `limit`: until one of them may send lanes elsewhere, or wait. Returns
// the place behind.
uint32_t advance_in_line(warp &w, uint32_t lanes, uint32_t place, uint32_t limit, uint64_t most, const instruction **current, bool *progress) {
    const kernel &k = *w.in->of->code;
    const instruction *i = k.code.data() + place;
    for (; place < limit && most > 0; place++, i++, most--) {
        *current = i;
        if (i->kind != instruction::PLAIN) break;
        uint32_t does = lanes;
        if (i->guard.slot >= 0) does &= w.predicate(i->guard);
        if (i->together) {
            if (does != lanes) fail("an instruction for lanes together, of which a predicate takes some");
            if (!all_meet(w, *i, lanes)) break;
        }
        w.now++;
        if (does != 0) i->run(w, *i, does);
        if (k.has_products) date(w, *i);
        *progress |= i->acts;
    }
    return place;
}

// Runs a warp for at most `most` instructions, or until it waits for others. False: it did nothing but look at barriers.
bool advance(warp &w, int order, uint64_t most, uint64_t *count) {
    const kernel &k = *w.in->of->code;
    bool progress = false;
    const uint64_t begun = w.now;
    const instruction *current = k.code.data();
    try {
        while (w.now - begun < most) {
            if (w.alive == 0) {
                w.state = warp::DONE;
                break;
            }
            uint32_t ready = w.alive & ~w.waiting;
            if (ready == 0) fail("lanes wait for lanes of their warp that wait elsewhere");
            if ((ready & ~w.spun) == 0) w.spun = 0;
            if (!w.as_one) ready &= ~w.spun;
            uint32_t place = 0, limit, lanes = choose(w, order, ready, &place, &limit);
            const uint32_t reached = advance_in_line(w, lanes, place, limit, most - (w.now - begun), &current, &progress);
            if (reached != place) {
                go(w, lanes, reached);
                continue;
            }
            const instruction &i = *(current = &k.code[place]);
            w.now++;
            uint32_t does = i.guard.slot < 0 ? lanes : lanes & w.predicate(i.guard);
            switch (i.kind) {
            case instruction::BRANCH:
            case instruction::CALL:
                for (int l = 0; i.kind == instruction::CALL && l < WARP; l++)
                    if (lanes >> l & 1) w.lanes_of<uint32_t>(i.link)[l] = place + 1;
                if (does == 0 || does == lanes) {
                    go(w, lanes, does != 0 ? uint32_t(i.target) : place + 1);
                } else {
                    go(w, lanes & ~does, place + 1);
                    go(w, does, uint32_t(i.target));
                }
                continue;
            case instruction::RETURN:
                part(w);
                for (int l = 0; l < WARP; l++)
                    if (lanes >> l & 1) w.pc[l] = does >> l & 1 ? w.lanes_of<uint32_t>(i.link)[l] : place + 1;
                continue;
            case instruction::EXIT:
                if (does != 0 && std::any_of(w.copies.begin(), w.copies.end(), [&](const thread_copy &c) { return c.lanes & does; }))
                    fail("a thread ends with a copy in flight");
                part(w);
                w.alive &= ~does;
                break;
            case instruction::BARRIER:
                if ((lanes | w.waiting) != w.alive || lanes != does) { // all lanes of the warp come to it first
                    part(w);
                    w.waiting |= lanes;
                    if ((w.alive & ~w.waiting) == 0) fail("bar.sync by some lanes of a warp");
                    continue;
                }
                for (int l = 0; !w.as_one && l < WARP; l++)
                    if (w.alive >> l & 1 && w.pc[l] != place) fail("lanes of a warp wait at different bar.sync");
                w.waiting = 0;
                w.hear(EVERY_LANE);
                w.state = warp::AT_BARRIER;
                *count += w.now - begun;
                return true;
            default:
                if (i.together) {
                    if (does != lanes) fail("an instruction for lanes together, of which a predicate takes some");
                    if ((lanes = does = meet(w, i, place, lanes)) == 0) continue;
                }
                if (does != 0) i.run(w, i, does);
                if (k.has_products) date(w, i);
                break;
            }
            go(w, lanes, place + 1);
            if (i.kind == instruction::TRY_WAIT && (~*w.lanes_of<uint32_t>(i.to.slot) & does) != 0) {
                w.state = warp::SPINS;
                progress |= w.spun_at != place; // somewhere else than last time
                w.spun_at = place;
                w.spun |= lanes;
                *count += w.now - begun;
                return progress;
            }
            progress |= i.acts;
        }
    } catch (const fault &f) {
        rethrow(w, *current, f);
    }
    if ((*count += w.now - begun) > MOST_INSTRUCTIONS) fail("it does not end");
    return true;
}

std::string where_they_are(const block &b) {
    std::string all;
    for (const warp &w : b.warps) {
        const int lane = __builtin_ctz(w.alive | 1u << 31);
        const instruction &i = b.of->code->code[w.as_one ? w.pc[0] : w.pc[lane]];
        if (w.state != warp::DONE) all += (all.empty() ? ": warp " : ", warp ") + std::to_string(w.number) + " at " + i.file.substr(i.file.rfind('/') + 1) + ":" + std::to_string(i.line);
    }
    return all;
}

void run_block(block &b, int order, uint64_t *count) {
    std::vector<size_t> turn;
    for (size_t n = 0; n < b.warps.size(); n++)
        turn.push_back(n);
    if (order == REVERSE) std::reverse(turn.begin(), turn.end());
    size_t idle = 0;
    for (;;) {
        if (order == RANDOM)
            for (size_t n = turn.size(); n > 1; n--)
                std::swap(turn[n - 1], turn[b.draw() % n]);
        bool progress = false, living = false, all_at_barrier = true;
        for (const size_t n : turn) {
            warp &w = b.warps[n];
            if (w.state != warp::DONE && w.state != warp::AT_BARRIER) {
                w.state = warp::RUNS;
                progress |= advance(w, order, order == RANDOM ? 1 + b.draw() % 400 : 1 << 20, count);
            }
            living |= w.state != warp::DONE;
            all_at_barrier &= w.state == warp::DONE || w.state == warp::AT_BARRIER;
            // One warp goes ahead as far as it can before another may begin.
            if (order == SKEWED && w.state == warp::RUNS) break;
        }
        if (!living) break;
        if (all_at_barrier) {
            if (b.tensor != nullptr) b.tensor->all_meet();
            for (warp &w : b.warps) {
                if (w.state != warp::AT_BARRIER) continue;
                w.state = warp::RUNS;
                part(w);
                for (int l = 0; l < WARP; l++)
                    w.pc[l] += w.alive >> l & 1;
            }
            continue;
        }
        const bool stuck = !progress && ++idle > 2;
        if (progress) idle = 0;
        const size_t copies = b.tensors.size(), commits = b.tensor != nullptr ? b.tensor->commits.size() : 0;
        if (copies + commits == 0) {
            if (stuck && idle > 64) fail("all warps wait for barriers that nobody comes to%s", where_they_are(b).c_str());
        } else if (stuck || (b.when == timing::RANDOM && b.draw() % 4 == 0)) {
            // Of both kinds products come last, so that what they read is overwritten first; in reverse they come first.
            const bool products = commits > 0 && (copies == 0 || (b.when == timing::RANDOM ? (b.draw() & 1) != 0 : order == REVERSE));
            if (products) b.tensor->land(b);
            else b.land(b.when == timing::RANDOM ? size_t(b.draw() % copies) : order == REVERSE ? copies - 1 : 0);
            idle = 0;
        }
    }
    if (!b.tensors.empty()) fail("the block ended with a tensor copy in flight");
    const char *open = b.tensor != nullptr ? b.tensor->left_open() : nullptr;
    if (open != nullptr) fail("%s", open);
    for (const warp &w : b.warps) {
        if (!w.groups.empty() || !w.open_group.empty()) fail("warp %d ended with products in flight", w.number);
        if (w.products != b.warps[size_t(w.number) / 4 * 4].products) fail("warps of a warpgroup have not made the same products");
    }
}

} // namespace

void run(const launch &what, int order, uint64_t seed, timing when) {
    const kernel &k = *what.code;
    const size_t shared = SHARED_BEGIN + (k.static_shared + 1023) / 1024 * 1024 + what.dynamic_shared;
    const uint64_t blocks = uint64_t(what.grid[0]) * what.grid[1] * what.grid[2];
    const uint32_t threads = what.threads[0] * what.threads[1] * what.threads[2];
    uint64_t count = 0;
    begin_bounds();
    for (const instruction &i : k.code) // what was there may have been freed
        i.known = extent();
    for (uint64_t n = 0; n < blocks; n++) {
        const uint64_t at = order == REVERSE ? blocks - 1 - n : n;
        block b{};
        b.of = &what;
        b.index[0] = uint32_t(at % what.grid[0]), b.index[1] = uint32_t(at / what.grid[0] % what.grid[1]);
        b.index[2] = uint32_t(at / what.grid[0] / what.grid[1]);
        b.shared.assign(shared, 0xff); // NaN in every type
        b.dirty.assign(k.has_proxy ? shared / GRANULE + 1 : 0, 0);
        if (k.has_tensor_memory) b.tensor = std::make_shared<tensor_memory>();
        b.when = when;
        b.random = (seed + 1) * 0x9E3779B97F4A7C15 + at * 0xBF58476D1CE4E5B9 + 1;
        b.warps.resize((threads + WARP - 1) / WARP);
        for (size_t w = 0; w < b.warps.size(); w++)
            begin(b.warps[w], b, int(w));
        try {
            run_block(b, order, &count);
        } catch (const fault &f) {
            fail("block (%u,%u,%u): %s", b.index[0], b.index[1], b.index[2], f.what());
        }
    }
}

} // namespace ptx
