#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs what the project needs on Debian 12: packages by apt, bindgen by
# cargo into the project's cache. Does nothing, quickly, when all is there.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

bindgen_version=0.73.2
oldest_cargo=1.85

packages=(
	# the kernel and its modules
	flex bison bc libelf-dev libssl-dev cpio kmod rsync xz-utils perl
	"clang-$llvm" "lld-$llvm" "llvm-$llvm" "libclang-$llvm-dev"
	rustc-web rust-web-src rustfmt-web rust-web-clippy
	# the guests and the programs in them
	qemu-system-x86 iperf3 ethtool tcpdump iproute2 net-tools iputils-ping
	util-linux procps
	# tests and checks
	python3 python3-pytest python3-pytest-timeout python3-pytest-rerunfailures
	python3-pytest-xdist
	shellcheck man-db binutils pkgconf python3-pip valgrind
	# libraries for 32-bit processes
	gcc-multilib
)

missing_packages() {
	local package
	for package in "${packages[@]}"; do
		dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
			printf '%s\n' "$package"
	done
}

check_system() {
	local name=unknown
	[ ! -r /etc/os-release ] || name=$(. /etc/os-release && printf %s "${PRETTY_NAME:-unknown}")
	command -v apt-get >/dev/null ||
		die "this system ($name) has no apt" "use Debian 12, on which this set-up is tested"
	case $name in
	"Debian GNU/Linux 12"*) ;;
	*) say "tested on Debian 12; on $name packages may have other names" ;;
	esac
}

check_cargo() {
	local version
	command -v cargo >/dev/null ||
		die "cargo is missing" "install a Rust toolchain ($oldest_cargo or newer), for example from https://rustup.rs"
	version=$(cargo --version | cut -d ' ' -f 2)
	printf '%s\n%s\n' "$oldest_cargo" "$version" | sort -VC ||
		die "cargo $version is too old" "install a Rust toolchain of version $oldest_cargo or newer"
}

explain_apt_failure() {
	local log=$1 absent
	absent=$(sed -n 's/^E: Unable to locate package //p;s/^E: Package .\(.*\). has no installation candidate/\1/p' "$log")
	show_end "$log"
	[ -z "$absent" ] ||
		die "apt knows no package named: $(tr '\n' ' ' <<<"$absent")" \
			"this set-up needs Debian 12 with its updates and security updates in apt's sources"
	if grep -qE 'Temporary failure resolving|Could not connect|Unable to connect|Could not resolve' "$log"; then
		die "the package mirror is out of reach" "check the network and apt's sources, then run this again"
	fi
	die "apt could not install the packages" "mend what its messages above name, then run this again"
}

install_packages() {
	local wanted=("$@") log=$cache/setup.log
	[ "$(id -u)" -eq 0 ] ||
		die "not root, and packages are missing: ${wanted[*]}" "run as root: $0"
	say "installing ${wanted[*]}"
	mkdir -p "$cache"
	export DEBIAN_FRONTEND=noninteractive
	run_logged "$log" "package lists" apt-get update ||
		say "apt-get update complained; trying with the lists there are"
	run_logged "$log" "packages" \
		apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Options::=--force-unsafe-io "${wanted[@]}" ||
		explain_apt_failure "$log"
}

install_bindgen() {
	local log=$cache/bindgen.log
	[ "$("$cache/tools/bin/bindgen" --version 2>/dev/null)" != "bindgen $bindgen_version" ] || return 0
	say "building bindgen $bindgen_version"
	mkdir -p "$cache/tools"
	# Not where the project is built, which would make one wait for the other. Most of what it does
	# libclang does: optimized fully it is no faster, and takes twice as long to build.
	run_logged "$log" bindgen env -u CARGO_TARGET_DIR \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install bindgen-cli --version "$bindgen_version" --locked --force --root "$cache/tools" || {
		show_end "$log"
		die "bindgen could not be built" "cargo needs the crates.io registry: check the network, then run this again"
	}
}

check_system
check_cargo
# Building it needs none of the packages: both at once.
install_bindgen &
bindgen=$!
trap 'kill "$bindgen" 2>/dev/null || true' EXIT
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
wait "$bindgen"
trap - EXIT
say "everything needed is installed"
