# SPDX-License-Identifier: GPL-2.0-only
#
# The commands of the project; `make help` lists them. The modules themselves
# are described in Kbuild.

SHELL := /bin/bash
.DEFAULT_GOAL := modules

HOSTS ?= 3
HOST ?=
DEBUG ?=
RACES ?=
LONG ?=
KERNEL ?=
KERNEL_SERIES ?=
WORKERS ?=
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
export DEBUG RACES LONG KERNEL KERNEL_SERIES WORKERS

ifeq ($(KERNEL),stock)
ifneq ($(KDIR)$(filter 1,$(DEBUG) $(RACES))$(KERNEL_SERIES),)
$(error KERNEL=stock is Debian's own kernel, of one version and built in one way: leave out KDIR=, DEBUG=, RACES= and KERNEL_SERIES=)
endif
endif

# What does not need each other is built side by side.
ifeq ($(filter -j% --jobs%,$(MAKEFLAGS)),)
MAKEFLAGS += --jobs=$(shell nproc)
endif
# Cargo has its own idea of how many jobs there are.
cargo := env -u MAKEFLAGS cargo

flavour := $(or $(filter stock,$(KERNEL)),$(if $(filter 1,$(DEBUG)),debug,$(if $(filter 1,$(RACES)),races,rig)))
flavour_option := $(if $(filter-out rig stock,$(flavour)),--$(flavour))
kernel_script := scripts/$(if $(filter stock,$(flavour)),stock,kernel).sh
MODULES ?= $(CURDIR)/build/modules/$(flavour)$(addprefix -,$(KERNEL_SERIES))
export MODULES

# Host programs. Those of the rig are static: a guest's first process has no libraries.
CARGO_TARGET_DIR ?= $(CURDIR)/build/target
static_target := x86_64-unknown-linux-gnu
rig_programs := $(patsubst scripts/rig/%/Cargo.toml,%,$(wildcard scripts/rig/*/Cargo.toml))
export CARGO_TARGET_DIR
export RIG_PROGRAMS ?= $(CARGO_TARGET_DIR)/$(static_target)/release
# Those of 32 bits.
export PROGRAMS32 ?= $(CARGO_TARGET_DIR)/rust32/i686-unknown-linux-gnu/release

# Where the examples find an installation; read by the demo.
export STAGE ?= $(CURDIR)/build/stage

# What tests run on hosts of the fabric, linked to the libraries of userlib/.
test_programs := $(patsubst tests/programs/%.c,$(RIG_PROGRAMS)/%,$(wildcard tests/programs/*.c))
# The libraries of SISCI, of virtual interfaces and of MCAPI are for processes of 64 bits.
test_programs32 := $(patsubst tests/programs/%.c,$(PROGRAMS32)/%,\
	$(filter-out $(addprefix tests/programs/,sisci_% vipl_% mcapi_%),$(wildcard tests/programs/*.c)))

# Crates in userlib/ that are vendors' libraries of PXImc.
export PXIMC_VENDORS ?= pximc-ntb
# Whether there are libraries of PXImc for processes of 32 bits: yes, no.
PXIMC32 ?= yes
# Crates in userlib/ with the shared libraries that are linked from them.
libraries := pximc-dispatcher/libpximc64.so sisci-ffi/libsisci.so vipl-ffi/libvipl.so.1 \
	mcapi-ffi/libmcapi.so.2 smc-preload/libmpsmc.so libfabric-ffi/libmpfab-fi.so \
	$(foreach crate,$(PXIMC_VENDORS),$(crate)/lib$(subst -,_,$(crate)).so)

# Asked for only when a recipe runs: by then the kernel has been built.
ifeq ($(KDIR),)
kernel_step := kernel
kdir = $(shell $(kernel_script) --print-dir $(flavour_option))
else
export KDIR
kdir = $(KDIR)
endif

.PHONY: all modules kernel release setup rig userlib bindings examples programs demo bench test stopped shell install install-userlib deb lint clean help

all: modules rig userlib

## modules: build the kernel modules, against KDIR=, the rig's kernel, or Debian's with KERNEL=stock
modules: $(kernel_step)
ifeq ($(flavour),stock)
	@scripts/stock.sh --modules "$(MODULES)"
else
	@scripts/kbuild.sh "$(kdir)" "$(MODULES)" modules
endif

## setup: install what the project needs (Debian 12, as root)
setup:
	@scripts/setup.sh

## kernel: obtain and build the rig's kernel, or prepare Debian's with KERNEL=stock; it stays in the cache
kernel: setup
	@$(kernel_script) $(flavour_option)

## release: build the last release, from its tag, for tests that mix releases; kept in the cache
release: $(kernel_step) setup
	@scripts/release.sh "$(kdir)"

## rig: build the programs of the test rig
rig:
	@RUSTFLAGS="-C target-feature=+crt-static" $(cargo) build --quiet --locked --release \
		--target $(static_target) $(addprefix -p ,$(rig_programs))

## userlib: build the programs and libraries for users of the fabric
userlib:
	@$(cargo) build --quiet --locked --release --manifest-path userlib/Cargo.toml \
		--target $(static_target) --workspace --lib --bins --examples
	@set -e; for library in $(libraries); do \
		crate=$${library%/*}; \
		scripts/link.sh "$$crate" "$(RIG_PROGRAMS)/lib$${crate//-/_}.a" "$(RIG_PROGRAMS)/$${library#*/}"; \
	done
	@$(if $(filter no,$(PXIMC32)),,scripts/pximc.sh build32)

## bindings: write the bindings of the libraries anew, from the headers; needs libclang
bindings:
	@MP_BINDINGS=write $(cargo) test --quiet --locked --manifest-path userlib/Cargo.toml \
		--package mp_bindings

## examples: build the examples in C, against an installation in build/stage
examples: userlib
	@DESTDIR="$(STAGE)" scripts/pximc.sh install
	@mkdir -p "$(STAGE)/bin"
	@$(MAKE) --no-print-directory -C examples/pximc PXIMC="$(STAGE)/opt/pximc" OUT="$(STAGE)/bin"
	@DESTDIR="$(STAGE)" PREFIX=/opt/sisci scripts/sisci.sh
	@$(MAKE) --no-print-directory -C examples/sisci SISCI="$(STAGE)/opt/sisci" OUT="$(STAGE)/bin"
	@DESTDIR="$(STAGE)" PREFIX=/opt/vipl scripts/vipl.sh
	@$(MAKE) --no-print-directory -C examples/vipl VIPL="$(STAGE)/opt/vipl" OUT="$(STAGE)/bin"
	@DESTDIR="$(STAGE)" PREFIX=/opt/mcapi scripts/mcapi.sh
	@$(MAKE) --no-print-directory -C examples/mcapi MCAPI="$(STAGE)/opt/mcapi" OUT="$(STAGE)/bin"

# Programs of the first version of the interface, built against its headers as they were.
version1_programs := $(patsubst tests/uapi-v1/%.c,$(RIG_PROGRAMS)/uapi-v1/%,$(wildcard tests/uapi-v1/*.c))

$(version1_programs): $(RIG_PROGRAMS)/uapi-v1/%: tests/uapi-v1/%.c $(wildcard tests/uapi-v1/*.h tests/uapi-v1/linux/*.h)
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -Itests/uapi-v1 -static -o $@ $<

# The same as programs of 32 bits, which find the same structures.
version1_programs32 := $(version1_programs:$(RIG_PROGRAMS)/%=$(PROGRAMS32)/%)

$(version1_programs32): $(PROGRAMS32)/uapi-v1/%: tests/uapi-v1/%.c $(wildcard tests/uapi-v1/*.h tests/uapi-v1/linux/*.h)
	@mkdir -p $(@D)
	@$(CC) -m32 -D_FILE_OFFSET_BITS=64 -std=gnu11 -O2 -Wall -Wextra -Werror -Itests/uapi-v1 -static -o $@ $<

# Programs of the interface as it is, without any library.
uapi_programs := $(patsubst tests/uapi/%.c,$(RIG_PROGRAMS)/uapi/%,$(wildcard tests/uapi/*.c))

$(uapi_programs): $(RIG_PROGRAMS)/uapi/%: tests/uapi/%.c tests/uapi-v1/common.h uapi/linux/mp_fabric.h
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -Wall -Wextra -Werror -Iuapi -static -o $@ $<

## programs: build the programs that tests run on hosts of the fabric
programs: userlib $(test_programs) $(test_programs32) $(version1_programs) $(version1_programs32) $(uapi_programs) $(RIG_PROGRAMS)/window

# What a session's windows give without any library.
$(RIG_PROGRAMS)/window: examples/window/window.c uapi/linux/mp_fabric.h
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -Iuapi -static -o $@ $<

test_cflags := -std=gnu11 -O2 -Wall -Wextra -Werror -pthread -Iuserlib/include

# The libraries of a program, by the first word of its name; those of PXImc if there is none.
libraries_of_sisci := -lsisci -ldl
libraries_of_vipl := -lvipl -ldl
libraries_of_mcapi := -lmcapi -ldl
libraries_of = $(or $(libraries_of_$(firstword $(subst _, ,$1))),-lpximc64)

# What they have in common, and what they include.
test_common := $(wildcard tests/programs/common/*.c)
test_headers := $(wildcard userlib/include/*.h tests/programs/*.h tests/programs/common/*.h) \
	$(wildcard examples/pximc/engine.[ch])

# A program of MCAPI 1.0 finds the header of 1.0 by the same name.
$(RIG_PROGRAMS)/mcapi_version1: test_cflags := -Iuserlib/include/mcapi-1.0 $(test_cflags)

$(test_programs): $(RIG_PROGRAMS)/%: tests/programs/%.c $(test_common) $(test_headers) | userlib
	@$(CC) $(test_cflags) -o $@ $< $(test_common) -L$(RIG_PROGRAMS) \
		$(call libraries_of,$*) '-Wl,-rpath,$$ORIGIN'

$(test_programs32): $(PROGRAMS32)/%: tests/programs/%.c $(test_common) $(test_headers) | userlib
	@[ ! -e $(@D)/libpximc32.so ] || $(CC) -m32 $(test_cflags) -o $@ $< \
		$(test_common) -L$(@D) -lpximc32 '-Wl,-rpath,$$ORIGIN'

## demo: boot HOSTS=2|3|4 hosts and show them talking over the NTB
demo: setup modules rig examples
	@scripts/rig/rig demo --hosts $(HOSTS)

## shell: a terminal in HOST= (rp, ep1, ...) of a running set, or of a new one
shell: setup modules rig
	@scripts/rig/rig shell --hosts $(HOSTS) $(HOST)

## test: all tests; LONG=1 adds the long ones, DEBUG=1 or RACES=1 takes a checking kernel, WORKERS=
test: setup modules $(if $(filter stock,$(flavour)),deb,release) rig examples programs
	@scripts/test.sh

## stopped: check that what ledgers have other hosts show is missed while those stand still
stopped: setup modules rig examples programs
	@STOPPED=1 scripts/test.sh

## bench: measure against mainline's NTB clients; ROUNDS=, SECONDS= of a sample, QUICK=1, ONLY=
bench: setup modules rig examples $(RIG_PROGRAMS)/window
	@scripts/rig/rig bench $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(filter 1,$(QUICK)),--quick) $(if $(ONLY),--only $(ONLY))

## install: install the modules for the kernel in KDIR=, programs and libraries; DESTDIR=, PREFIX=, LIBDIR=
install: $(kernel_step) install-userlib
	@scripts/kbuild.sh "$(kdir)" "$(MODULES)" MP_MODULES=product modules
	@scripts/kbuild.sh "$(kdir)" "$(MODULES)" MP_MODULES=product \
		$(if $(DESTDIR),INSTALL_MOD_PATH="$(DESTDIR)") modules_install

# What needs no kernel.
install-userlib: userlib
	@install -D -m 755 "$(RIG_PROGRAMS)/ntbctl" "$(DESTDIR)$(PREFIX)/sbin/ntbctl"
	@install -D -m 644 userlib/ntbctl/man/ntbctl.8 "$(DESTDIR)$(PREFIX)/share/man/man8/ntbctl.8"
	@install -d "$(DESTDIR)$(PREFIX)/share/"{bash-completion/completions,zsh/site-functions}
	@"$(RIG_PROGRAMS)/ntbctl" completion bash >"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/ntbctl"
	@"$(RIG_PROGRAMS)/ntbctl" completion zsh >"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ntbctl"
	@install -D -m 644 -t "$(DESTDIR)$(PREFIX)/include/linux" uapi/linux/mp_netlink.h \
		uapi/linux/mp_fabric.h
	@install -D -m 644 -t "$(DESTDIR)$(PREFIX)/lib/udev/rules.d" scripts/system/70-mp-fabric.rules
	@install -D -m 644 -t "$(DESTDIR)$(PREFIX)/lib/sysusers.d" scripts/system/mp-fabric.conf
	@install -D -m 644 -t "$(DESTDIR)$(PREFIX)/lib/systemd/system" scripts/system/pximc-smc.service
	@sed -i 's,^ExecStart=ntbctl,ExecStart=$(PREFIX)/sbin/ntbctl,' \
		"$(DESTDIR)$(PREFIX)/lib/systemd/system/pximc-smc.service"
	@set -e; for library in "pximc.sh install" sisci.sh vipl.sh mcapi.sh smc.sh; do \
		DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" scripts/$$library; \
	done

## deb: build Debian packages of modules, libraries and programs, into build/deb
deb: export DEB := 1
deb: setup
	@scripts/deb.sh

## lint: formatters, clippy, checkpatch, shellcheck
lint: setup $(kernel_step)
	@scripts/lint.sh "$(kdir)"

## clean: remove everything built in the checkout; the cached kernel stays
clean:
	rm -rf build

## help: this list
help:
	@echo "make TARGET [DEBUG=1 | RACES=1 | KERNEL=stock] [KDIR=a built kernel] [KERNEL_SERIES=7.2]"
	@echo
	@sed -n 's/^## \([a-z]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12
