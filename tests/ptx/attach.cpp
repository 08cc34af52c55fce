// attach.cpp - the machine in place of the emulator's scheduler (SIMT_EXECUTOR): every launch of a test runs from the .ptx files of the folder
// FT_PTX, which nvcc made of the same sources. FT_PTX_TIMING=late|early|random; the order is the emulator's (SIMT_ORDER, SIMT_SEED).
//
// Which entry is meant: the function that is launched has a symbol in the file that holds it, and its name is the entry's but for how the
// compilers tell files' own names apart.
#include "tests/emulator/simt/launch.h"
#include "tests/ptx/heap.h"
#include "tests/ptx/parse.h"

#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <sstream>

namespace {

struct place {
    const ptx::module *in;
    std::string name;
};

std::map<std::string, std::unique_ptr<ptx::module>> modules; // by path; those that nobody asked for are not read yet
std::multimap<std::string, place> entries; // demangled
std::map<const void *, std::unique_ptr<ptx::kernel>> kernels;
ptx::timing when;

// Functions of an ELF file by their address in it: their names, and the sources that they are local to.
struct symbol_ {
    std::string name, source;
};
const std::map<uint64_t, symbol_> &symbols_of(const std::string &path) {
    static std::map<std::string, std::map<uint64_t, symbol_>> known;
    if (known.count(path) != 0) return known[path];
    auto &symbols = known[path];
    std::ifstream file(path, std::ios::binary);
    if (!file) file.open("/proc/self/exe", std::ios::binary); // the program itself, by a relative name
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    if (all.size() < sizeof(Elf64_Ehdr)) ptx::fail("cannot read %s", path.c_str());
    const auto *head = reinterpret_cast<const Elf64_Ehdr *>(all.data());
    const auto *sections = reinterpret_cast<const Elf64_Shdr *>(all.data() + head->e_shoff);
    for (int n = 0; n < head->e_shnum; n++) {
        if (sections[n].sh_type != SHT_SYMTAB) continue;
        const char *names = all.data() + sections[sections[n].sh_link].sh_offset;
        const auto *symbol = reinterpret_cast<const Elf64_Sym *>(all.data() + sections[n].sh_offset);
        std::string source;
        for (size_t s = 0; s < sections[n].sh_size / sizeof *symbol; s++) {
            const int type = ELF64_ST_TYPE(symbol[s].st_info);
            if (type == STT_FILE) source = names + symbol[s].st_name;
            if (type == STT_FUNC) symbols[symbol[s].st_value] = {names + symbol[s].st_name, source};
        }
    }
    return symbols;
}

symbol_ symbol_of(const void *function) {
    Dl_info info;
    if (dladdr(function, &info) == 0) ptx::fail("a kernel of no file");
    const auto &symbols = symbols_of(info.dli_fname);
    const auto found = symbols.find(uint64_t(function) - uint64_t(info.dli_fbase));
    if (found == symbols.end()) ptx::fail("a kernel without a symbol in %s", info.dli_fname);
    int status;
    char *plain = abi::__cxa_demangle(found->second.name.c_str(), nullptr, nullptr, &status);
    const symbol_ symbol{status == 0 ? plain : found->second.name, found->second.source};
    free(plain);
    return symbol;
}

bool ends_with(const std::string &path, const std::string &stem) {
    return path.size() > stem.size() && path.compare(path.size() - stem.size(), stem.size(), stem) == 0;
}

// Files with a name that ends so.
void read_files(const std::string &stem) {
    for (auto &m : modules) {
        if (m.second != nullptr || !ends_with(m.first, stem)) continue;
        m.second = std::make_unique<ptx::module>(m.first);
        for (const auto &e : m.second->entries())
            entries.insert({e.first, {m.second.get(), e.second}});
    }
}

const ptx::kernel &kernel_of(const void *function) {
    auto &k = kernels[function];
    if (k != nullptr) return *k;
    const symbol_ symbol = symbol_of(function);
    const std::string stem = symbol.source.substr(0, symbol.source.rfind('.')) + ".ptx";
    read_files(stem);
    if (entries.count(symbol.name) == 0) read_files(".ptx");
    const auto range = entries.equal_range(symbol.name);
    const place *found = nullptr;
    for (auto e = range.first; e != range.second; e++) { // of several files' own, that of the source
        if (std::next(range.first) != range.second && !ends_with(e->second.in->path(), stem)) continue;
        if (found != nullptr) ptx::fail("several entries %s", symbol.name.c_str());
        found = &e->second;
    }
    if (found == nullptr) ptx::fail("no entry %s of %s", symbol.name.c_str(), symbol.source.c_str());
    k = found->in->read(found->name);
    return *k;
}

void run(const simt::job &job, int order, uint64_t seed) {
    const ptx::kernel &k = kernel_of(job.kernel);
    const auto given = job.each(job.arguments);
    if (given.size() != k.parameters.size()) ptx::fail("%zu parameters, and the entry has %zu", given.size(), k.parameters.size());
    std::vector<unsigned char> buffer(k.parameter_bytes + 64);
    unsigned char *parameters = buffer.data() + (64 - uintptr_t(buffer.data()) % 64) % 64;
    for (size_t n = 0; n < given.size(); n++) {
        if (given[n].bytes != k.parameters[n].bytes)
            ptx::fail("parameter %zu has %zu bytes, and %zu in the entry", n, given[n].bytes, k.parameters[n].bytes);
        memcpy(parameters + k.parameters[n].offset, given[n].at, given[n].bytes);
    }
    const ptx::launch what{&k,         {job.grid.x, job.grid.y, job.grid.z}, {job.threads.x, job.threads.y, job.threads.z},
                           job.shared, parameters};
    ptx::run(what, order, seed, when);
}

void read_folder() {
    if (!modules.empty()) return;
    const char *folder = getenv("FT_PTX"), *timing = getenv("FT_PTX_TIMING");
    const std::string how = timing != nullptr ? timing : "late";
    if (how != "late" && how != "early" && how != "random") ptx::fail("FT_PTX_TIMING is late, early or random, not %s", timing);
    when = how == "early" ? ptx::timing::EARLY : how == "random" ? ptx::timing::RANDOM : ptx::timing::LATE;
    DIR *all = folder != nullptr ? opendir(folder) : nullptr;
    if (all == nullptr) ptx::fail("FT_PTX names no folder");
    while (const dirent *file = readdir(all)) {
        const std::string name = file->d_name;
        if (ends_with(name, ".ptx")) modules[std::string(folder) + "/" + name] = nullptr;
    }
    closedir(all);
    if (modules.empty()) ptx::fail("no kernels in %s", folder);
}

} // namespace

extern "C" __attribute__((visibility("default"))) simt::executor simt_execute;
bool simt_execute(const simt::job &job, int order, uint64_t seed, char *text, size_t room) {
    const ptx::own_heap own;
    try {
        read_folder();
        run(job, order, seed);
        return true;
    } catch (const ptx::fault &f) {
        snprintf(text, room, "%s: %s", job.name, f.what());
        return false;
    }
}
