# SPDX-License-Identifier: GPL-2.0
#
# The commands of this project ('make help'), and what kbuild reads when the
# driver is built as an external module.

ifneq ($(KERNELRELEASE),)

# our headers go before the kernel's own of the same name
LINUXINCLUDE := -I$(src)/include/uapi -I$(src)/include $(LINUXINCLUDE)
obj-m := drivers/virtio/balloon/

else

BASE ?= 6.12
VARIANT ?= series
SHELL := /bin/bash
HOST := python3 tools/testing/balloon
export KDIR

commands := deps demo test kunit spec coverage mutants lint kernel module series vm bench clean
planned := test-full install-module deb

.PHONY: help base-supported $(commands) $(planned)
.NOTPARALLEL:

help:
	@echo 'Virtio memory balloon for Linux $(BASE). Commands:'
	@echo
	@echo '  make demo     inflate, deflate, OOM, hinting, reporting in guests: a table, a picture;'
	@echo '                VARIANT=distro: on the kernel that Debian ships, in three minutes'
	@echo '  make test     lint, KUnit, scenarios in guests, module build'
	@echo '  make kunit    unit tests on a user-mode kernel; VARIANT=debug: in a guest with two'
	@echo '                CPUs on the debug kernel, for a quarter of an hour'
	@echo '  make spec     the clauses of the specification, their tests, the results'
	@echo '  make coverage lines and branches of the driver that the unit tests reach'
	@echo '  make mutants  small faults put into the driver, each to be caught; ONLY=names'
	@echo '  make lint     style and static checks'
	@echo '  make kernel   build/$(BASE)-VARIANT; VARIANT=stock, series (default) or debug,'
	@echo '                or distro (build/distro: the kernel that Debian ships, our module)'
	@echo '  make module   external module; KDIR=/lib/modules/$$(uname -r)/build for this'
	@echo '                machine, else for the cloud kernel that Debian ships'
	@echo '  make series   patches for git am on a $(BASE) tree: build/series-$(BASE); OUT=folder'
	@echo '  make vm       a guest to play with; VARIANT=, DEVICE=free-page-reporting=on,...'
	@echo '  make bench    stock and series side by side; ONLY=inflate, reporting, oom or hinting'
	@echo '  make deps     install the Debian packages that all this needs'
	@echo '  make clean    remove build/; the cache is $${XDG_CACHE_HOME:-~/.cache}/virtio-balloon'
	@echo
	@echo 'KDIR=<kernel source> replaces the base of kernel, kunit and lint.'
	@echo 'DEPS=no does not look for missing packages.'

deps:
	@[ '$(DEPS)' = no ] || scripts/deps.sh

base-supported:
	@[ '$(BASE)' = 6.12 ] || { \
		echo 'error: BASE=$(BASE) is not supported yet; there is 6.12' >&2; exit 2; }

kernel: deps base-supported
	@scripts/kernel.sh $(BASE) $(VARIANT)

module: deps base-supported
	@scripts/module.sh $(BASE)

series: deps base-supported
	@scripts/series.sh $(BASE)

kunit: deps base-supported
	@scripts/kunit.sh $(BASE) $(filter debug,$(VARIANT))

spec coverage: deps base-supported
	@scripts/$@.sh $(BASE)

mutants: deps base-supported
	@scripts/mutants.sh $(BASE) $(ONLY)

lint: deps base-supported
	@scripts/lint.sh $(BASE)

test: deps base-supported
	@scripts/test.sh $(BASE)

demo: deps base-supported
	@scripts/kernel.sh $(BASE) $(VARIANT)
	@$(HOST)/demo.py --variant $(VARIANT)

vm: deps base-supported
	@scripts/kernel.sh $(BASE) $(VARIANT)
	@$(HOST)/vm.py --variant $(VARIANT) $(if $(DEVICE),--device $(DEVICE))

bench: deps base-supported
	@scripts/kernel.sh $(BASE) stock
	@scripts/kernel.sh $(BASE) series
	@$(HOST)/bench.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf build

$(planned):
	@echo "error: 'make $@' is not built yet" >&2; exit 2

%:
	@echo "error: unknown command '$@', see 'make help'" >&2; exit 2

# not to be made by the rule above
Makefile: ;

endif
