# A thin front to CMake and tools/: every target can be run again and again and redoes nothing that is done.
BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
JOBS ?= $(shell nproc)

# configure,PRESET,DIRECTORY[,OPTIONS]: once (cmake --build does it again when a CMakeLists.txt changes), with Ninja where
# it is there
configure = [ -f $(2)/CMakeCache.txt ] || cmake --preset $(1) -B $(2) $(3) $$(command -v ninja >/dev/null && echo -G Ninja)
# without them the emulated kernels are skipped, and counted as that
cuda_headers = tools/cuda_headers.sh || echo "make: no CUDA headers: the tests of the emulated kernels are skipped" >&2
# without it the check of compiled kernels is skipped; without nvcc there are none
cuda_disassembler = [ ! -e $(1)/libftengine_cuda.so ] || tools/cuda_disassembler.sh || echo "make: no cuobjdump: kernels/sass is skipped" >&2
# labels of tests that are left out, and under sanitizers not even built
LEAVE ?= full_size
ctest = ctest --test-dir $(1) --output-on-failure --no-tests=error --parallel $(JOBS) -LE '$(LEAVE)'

.PHONY: build quickstart test check test-full-size install dist wheel wheel-aarch64 reference sanitize tsan fuzz clean help
.DEFAULT_GOAL := build
.NOTPARALLEL:

build: ## the program, as build/ftengine, and its CUDA kernels where there is an nvcc
	@tools/install.sh build
	@$(call configure,release,$(BUILD),-D BUILD_TESTING=OFF)
	@cmake --build $(BUILD) --parallel $(JOBS) --target program

quickstart: ## fine-tune a real pretrained model on real text, evaluate it, and predict a few sentences
	@tools/install.sh build quickstart
	@$(MAKE) --no-print-directory build
	@tools/get_model.sh
	@tools/get_data.sh
	@FTENGINE=$(BUILD)/ftengine tools/quickstart.sh

test: ## build and run all tests
	@tools/install.sh test
	@$(cuda_headers)
	@$(call configure,release,$(BUILD))
	@grep -q '^BUILD_TESTING:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -B $(BUILD) -D BUILD_TESTING=ON
	@cmake --build $(BUILD) --parallel $(JOBS)
	@$(call cuda_disassembler,$(BUILD))
	@$(call ctest,$(BUILD))

check: ## build and run the tests whose names match NAME, a regular expression: make check NAME=kernels/gemm
	@tools/install.sh test
	@$(cuda_headers)
	@$(call configure,release,$(BUILD))
	@grep -q '^BUILD_TESTING:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -B $(BUILD) -D BUILD_TESTING=ON
	@JOBS=$(JOBS) tools/check.sh $(BUILD) '$(NAME)'

test-full-size: test ## and models of real sizes, one a family, with random weights against transformers' logits
	@ctest --test-dir $(BUILD) --verbose --no-tests=error -L full_size

install: build ## install the program under PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(PREFIX)

reference: build ## configs/reference.ini and docs/reference from the tables of options and commands, as built
	@cmake --build $(BUILD) --target reference

dist: ## a tarball that runs wherever it is unpacked, in build-dist
	@tools/install.sh build
	@$(call configure,release-cuda,build-dist,-D BUILD_TESTING=OFF)
	@cmake --build build-dist --parallel $(JOBS) --target dist_files
	@$(call cuda_disassembler,build-dist)
	@SOURCE_DIR=$$PWD BUILD_DIR=$$PWD/build-dist bash tests/kernels/cuda/test_sass.sh || [ $$? = 77 ]
	@cd build-dist && cpack && ls -l $$PWD/*.tar.gz

wheel: ## what pip installs, in build-wheel: program, libftengine, the Python module, and CUDA's kernels where there is an nvcc (CUDA=OFF: without)
	@tools/install.sh build wheel
	@$(call configure,release,build-wheel,-D BUILD_TESTING=OFF -D FT_CUDA=$(or $(CUDA),ON))
	@cmake --build build-wheel --parallel $(JOBS) --target dist_files ftengine_shared
	@python3 tools/wheel.py build-wheel build-wheel/wheel $(if $(ZIG),--zig '$(ZIG)') $(if $(filter OFF,$(CUDA)),,$$([ ! -e build-wheel/libftengine_cuda.so ] || echo --cuda))

wheel-aarch64: ## the same for 64-bit ARM, in build-aarch64 (tools/aarch64.sh), with which it can be tried under emulation
	@tools/install.sh wheel
	@tools/aarch64.sh build-aarch64
	@python3 tools/wheel.py build-aarch64 build-aarch64/wheel $(if $(ZIG),--zig '$(ZIG)')

sanitize: ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/install.sh test
	@$(cuda_headers)
	@$(call configure,sanitize,build-asan)
	@cmake -B build-asan -D FT_LEAVE='$(LEAVE)' >/dev/null
	@cmake --build build-asan --parallel $(JOBS)
	@$(call ctest,build-asan)

tsan: ## the tests with threads under ThreadSanitizer
	@tools/install.sh test
	@$(cuda_headers)
	@$(call configure,tsan,build-tsan)
	@cmake -B build-tsan -D FT_LEAVE='$(LEAVE)' >/dev/null
	@cmake --build build-tsan --parallel $(JOBS)
	@$(call ctest,build-tsan)

fuzz: ## every fuzz target for FUZZ_SECONDS (default 20)
	@tools/install.sh fuzz
	@tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS)

clean: ## remove what was built (models, data and runs stay)
	@rm -rf $(BUILD) build-debug build-asan build-tsan build-fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
