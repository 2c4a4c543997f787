# posenc: everything is built and tested from here; `make help` lists what a person needs.
# Out of tree: build/VARIANT holds one variant, so switching never rebuilds.

VARIANT ?= release
O       ?= build/$(VARIANT)
CC      ?= cc
PREFIX  ?= /usr/local
VERSION := $(shell sed -n 's/^.define POSENC_VERSION "\(.*\)"/\1/p' lib/posenc.h)

FLAGS.release := -O2 -g -DNDEBUG -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
FLAGS.debug   := -O0 -g3
FLAGS.asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FLAGS.tsan    := -O1 -g -fsanitize=thread
FLAGS.cov     := -O0 -g --coverage
FLAGS.fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link
$(if $(FLAGS.$(VARIANT)),,$(error VARIANT must be release, debug, asan, tsan, cov or fuzz))
ifeq ($(VARIANT),fuzz)
CC := clang
endif

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror -Wno-psabi
CFLAGS   += -std=c11 -D_GNU_SOURCE -ffp-contract=off -fPIC -pthread $(WARN) $(FLAGS.$(VARIANT)) -MMD -MP
CPPFLAGS += -iquote lib -iquote server -I$O/gen     # quoted only: <grpc/grpc.h> is the system's
LDFLAGS  += -pthread $(FLAGS.$(VARIANT)) -Wl,-z,relro,-z,now

LIB_SRC    := $(wildcard lib/*/*.c)
SERVER_SRC := $(wildcard server/*.c server/*/*.c)
CLI_SRC    := $(wildcard clients/cli/*.c)
UNIT_SRC   := $(wildcard tests/unit/*.c)
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC  := $(wildcard tests/bench/bench_*.c)
PROTO      := $(shell find proto -name '*.proto')

obj   = $(patsubst %.c,$O/%.o,$(1))
GEN  := $(patsubst proto/third_party/%.proto,$O/gen/%.pb-c.c,$(filter proto/third_party/%,$(PROTO))) \
        $(patsubst proto/%.proto,$O/gen/%.pb-c.c,$(filter-out proto/third_party/%,$(PROTO))) \
        $O/gen/google/protobuf/any.pb-c.c $O/gen/google/protobuf/duration.pb-c.c $O/gen/google/protobuf/descriptor.pb-c.c
LIB  := $O/libposenc.a
SERVER_OBJ := $(filter-out $O/server/main.o,$(call obj,$(SERVER_SRC))) $(GEN:.c=.o) $O/gen/descriptors.o
say   = $(if $(V),,@printf '  %-6s %s\n' $(1) $@;) mkdir -p $(@D) &&

# libmicrohttpd is linked from its archive, so that the framing guard stands between it and the socket.
LIB_LIBS    := -lmpfr -lgmp -lcrypto -lz -ljansson -lm
SERVER_LIBS := -Wl,--wrap=recv -Wl,--wrap=gnutls_record_recv -l:libmicrohttpd.a -lgnutls -lgrpc -lgpr -lprotobuf-c $(LIB_LIBS)
FUZZ_BIN    := $(patsubst tests/fuzz/%.c,$O/%,$(FUZZ_SRC))
BENCH_BIN   := $(patsubst tests/bench/%.c,$O/%,$(BENCH_SRC))

.PHONY: FORCE install all lib objects digests encode test unit fuzz-bins bench-bins run check fresh container fuzz soak slow bench bench-peers bench-instructions format lint new message docs docs-analysis models clean help deps

## all: library, daemon and command (VARIANT=release|debug|asan|tsan|cov|fuzz, V=1 shows commands)
all: $O/posencd $O/posenc $(LIB) $O/libposenc.so

lib: $(LIB) $O/libposenc.so
objects: $(call obj,$(LIB_SRC) $(SERVER_SRC) $(CLI_SRC) $(UNIT_SRC) $(FUZZ_SRC) $(BENCH_SRC))
unit: $O/unit
fuzz-bins: $(FUZZ_BIN)
bench-bins: $(BENCH_BIN)
digests: $O/digests
encode: $O/encode

$(LIB): $(call obj,$(LIB_SRC))
$O/libposenc.so.0: $(call obj,$(LIB_SRC)) lib/posenc.map
	$(call say,LD)$(CC) -shared -Wl,-soname,libposenc.so.0 -Wl,--version-script=lib/posenc.map $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB_LIBS)
$O/libposenc.so: $O/libposenc.so.0
	$(call say,LN)ln -sf libposenc.so.0 $@
$O/posenc.pc: lib/posenc.h Makefile
	$(call say,GEN)printf '%s\n' 'prefix=$(PREFIX)' 'Name: posenc' 'Description: positional encodings of transformers' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lposenc' 'Libs.private: $(LIB_LIBS)' > $@
$O/posencd: $O/server/main.o $(SERVER_OBJ) $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS)
$O/posenc: $(call obj,$(CLI_SRC)) $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ -lcurl $(LIB_LIBS)
# every allocation of the project's own objects goes through tests/unit/alloc.c, which can fail the n-th one; pe_simd through
# tests/unit/simd.c
$O/unit: $(call obj,$(UNIT_SRC)) $(SERVER_OBJ) $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free,--wrap=strdup,--wrap=strndup,--wrap=pe_simd \
	    -o $@ $^ -lcheck -lsubunit -lrt $(SERVER_LIBS)
# the library alone: also for another CPU
$O/digests $O/encode: $O/%: $O/tests/golden/%.o $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)
# each target replays its corpus with a plain driver; VARIANT=fuzz links libFuzzer's instead
$(FUZZ_BIN): $O/%: $O/tests/fuzz/%.o $(if $(filter fuzz,$(VARIANT)),,$O/tests/fuzz/replay.o) $(SERVER_OBJ) $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) $(if $(filter fuzz,$(VARIANT)),-fsanitize=fuzzer) -o $@ $^ $(SERVER_LIBS)
$(call obj,$(BENCH_SRC)): CPPFLAGS += -iquote clients/cli
$(BENCH_BIN): $O/%: $O/tests/bench/%.o $O/clients/cli/crew.o $(SERVER_OBJ) $(LIB)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS)

# the gRPC door's peer, in C++; `make bench` builds it where the compiler, the library and its generator are installed
CPP_PROTO := $(patsubst proto/%.proto,%,$(filter proto/posenc/%,$(PROTO)))
$O/grpc_peer: tests/bench/grpc_peer.cc $(PROTO)
	$(call say,CXX)mkdir -p $O/gen/cpp && protoc --proto_path=proto --cpp_out=$O/gen/cpp --grpc_out=$O/gen/cpp \
	    --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) $(CPP_PROTO:%=%.proto) && \
	    $(CXX) -std=c++17 -O2 -Wall -Wextra -I$O/gen/cpp -o $@ $< $(CPP_PROTO:%=$O/gen/cpp/%.pb.cc) \
	    $O/gen/cpp/posenc/v1/encoding_service.grpc.pb.cc $$(pkg-config --cflags --libs grpc++ protobuf) -labsl_synchronization

$(call obj,$(SERVER_SRC) $(UNIT_SRC) $(FUZZ_SRC) $(BENCH_SRC)) $(GEN:.c=.o): | $(GEN)      # these speak protobuf
$O/tests/unit/main.o: $O/gen/suites.h

# lib is compiled with -Ilib alone: it never learns how a request arrived
$O/lib/%.o: CPPFLAGS := -iquote lib
$O/%.o: %.c
	$(call say,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$O/gen/%.o: $O/gen/%.c
	$(call say,CC)$(CC) $(CPPFLAGS) -std=c11 -O2 -g -fPIC -w $(filter -fsanitize%,$(FLAGS.$(VARIANT))) -c -o $@ $<

PROTOPATH := --proto_path=proto/third_party --proto_path=proto --proto_path=/usr/include
$O/gen/%.pb-c.c: proto/%.proto
	$(call say,PROTO)protoc-c $(PROTOPATH) --c_out=$O/gen $<
$O/gen/%.pb-c.c: proto/third_party/%.proto
	$(call say,PROTO)protoc-c $(PROTOPATH) --c_out=$O/gen $<
$O/gen/google/protobuf/%.pb-c.c:
	$(call say,PROTO)protoc-c $(PROTOPATH) --c_out=$O/gen /usr/include/google/protobuf/$*.proto
# what reflection serves: every file of the contract with its imports, as a C array
$O/gen/descriptors.bin: $(PROTO)
	$(call say,PROTO)protoc $(PROTOPATH) --include_imports --descriptor_set_out=$@ $(patsubst proto/third_party/%,%,$(patsubst proto/posenc/%,posenc/%,$(PROTO)))
$O/gen/descriptors.c: $O/gen/descriptors.bin
	$(call say,GEN){ echo '#include <stddef.h>'; echo 'extern const unsigned char pe_descriptors[]; extern const size_t pe_descriptors_size;'; \
	    echo 'const unsigned char pe_descriptors[] = {'; od -An -v -tx1 $< | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	    echo '};'; echo 'const size_t pe_descriptors_size = sizeof pe_descriptors;'; } > $@
# tests/unit/test_NAME.c holds NAME_suite: the folder is the list, also when a file has gone
SUITES := $(patsubst tests/unit/test_%.c,SUITE(%),$(filter tests/unit/test_%,$(UNIT_SRC)))
$O/gen/suites.h: FORCE
	@mkdir -p $(@D); echo '$(SUITES)' | tr ' ' '\n' | cmp -s - $@ || echo '$(SUITES)' | tr ' ' '\n' > $@
FORCE:

%.a:
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

## install: header, library, daemon and command to PREFIX (/usr/local), under DESTDIR if given
install: all $O/posenc.pc
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $O/posencd $O/posenc $(DESTDIR)$(PREFIX)/bin
	install -m 644 lib/posenc.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(LIB) $O/libposenc.so.0 $(DESTDIR)$(PREFIX)/lib
	ln -sf libposenc.so.0 $(DESTDIR)$(PREFIX)/lib/libposenc.so
	install -m 644 $O/posenc.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig

## deps: installs what building and testing need (Debian, as root or through sudo); does nothing when all is there
deps:
	@tests/tools/deps.sh build test

## run: installs what is missing, builds, starts posencd on its defaults and prints commands to paste
run:
	@tests/tools/deps.sh build
	@$(MAKE) --no-print-directory VARIANT=release all
	@tests/tools/run-server.sh build/release/posencd

## test: builds and runs the unit tests of one VARIANT
test: $O/unit
	$O/unit

## check: installs what the tests need, then every test; prints a table of times against their budget
check:
	@tests/tools/deps.sh build test
	@tests/tools/check.sh

## fresh: `make run` in a throw-away minimal Debian machine (root); FRESH_CHECK=1: `make check` there too
fresh:
	@tests/fresh/fresh.sh

## container: builds the image and runs it for real; SKIP with its reason where no engine can be had
container:
	@tests/container/container.sh

## fuzz: every fuzz target for SECONDS (60) each, with clang's libFuzzer
fuzz:
	@tests/tools/deps.sh build test
	@tests/tools/fuzz.sh $(or $(SECONDS),60)

## soak: load and faults for MINUTES (10) against a sanitized daemon; then the tests that check has no time for
soak:
	@tests/tools/deps.sh build test
	@$(MAKE) --no-print-directory VARIANT=asan all
	@tests/tools/sanitized.sh asan /usr/bin/python3 tests/tools/soak.py build/asan/posencd $(or $(MINUTES),10)
	@$(MAKE) --no-print-directory slow

## slow: whole collections, 10^5 nodes with 10^6 edges through every encoding of graphs, every graph and 10^6 nodes through laplacian:
##   two hours or so, prints tables; ONLY='sweep and 1e6' for some of it
slow: all
	@/usr/bin/python3 -m pytest -q -s -p no:cacheprovider -m slow $(if $(ONLY),-k '$(ONLY)') tests/integration

## bench: every speed goal as a ratio to its peer in the same run, build/bench/goals.{md,json}; ONLY=REGEX QUICK=1 PAIRS=5
bench: $(BENCH_BIN) $O/posencd
	@if pkg-config --exists grpc++ && command -v grpc_cpp_plugin >/dev/null && command -v $(CXX) >/dev/null; then \
	    $(MAKE) -s --no-print-directory $O/grpc_peer; fi
	@POSENC_BUILD=$O /usr/bin/python3 tests/bench/goals.py $(if $(ONLY),--only '$(ONLY)') $(if $(QUICK),--quick) $(if $(PAIRS),--pairs $(PAIRS))
	@$(MAKE) --no-print-directory bench-instructions

## bench-peers: the peers of `make bench` that PyPI has, into a venv under build/ (tests/bench/peers.txt; 5 GB); PYTHON=3.10 to 3.12
bench-peers:
	@$(or $(PYTHON),/usr/bin/python3) -m venv --clear build/bench/peers || { \
	    echo "bench-peers: no venv; apt-get install python3-venv, or name another PYTHON" >&2; exit 1; }
	build/bench/peers/bin/pip install -q -r tests/bench/peers.txt

## bench-instructions: instructions an element of each kernel, by callgrind, and the ratio to the committed counts
bench-instructions: $O/encode
	@/usr/bin/python3 tests/bench/instructions.py

## format: clang-format over the tree
format:
	clang-format -i $$(git ls-files '*.c' '*.h')

## lint: style rules, headers that stand alone, shell scripts
lint:
	@tests/tools/check_style.sh

## new: starts a new encoding, NAME=foo
new:
	@tests/tools/new-encoding.sh '$(NAME)'

## message: the protobuf message of an encoding from its table, NAME=foo
message: $O/posenc
	@$O/posenc describe '$(NAME)' | tests/tools/message.py

## docs: lib/encodings/ENCODINGS.md, every encoding with formula, parameters, outputs, source, example
docs: $O/posenc
	@tests/tools/encodings_md.py $O/posenc > $O/ENCODINGS.md && mv $O/ENCODINGS.md lib/encodings/ENCODINGS.md

## docs-analysis: lib/analysis/ANALYSIS.md, the questions of users worked through, and its pictures
docs-analysis: $O/posenc
	@tests/tools/analysis_md.py $O/posenc lib/analysis > $O/ANALYSIS.md && mv $O/ANALYSIS.md lib/analysis/ANALYSIS.md

## models: lib/resolve/MODELS.md, ten published configurations resolved; POSENC_TEST_DATA names the folder that has them
models: $O/posenc
	@tests/tools/models_md.sh $O/posenc "$(POSENC_TEST_DATA)/hf_configs/configs" > $O/MODELS.md && mv $O/MODELS.md lib/resolve/MODELS.md

## clean: removes build/
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "  make %-18s %s\n",$$1,$$2}'

-include $(shell find $O -name '*.d' 2>/dev/null)
.SECONDARY:
