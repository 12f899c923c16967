#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs what the project needs on Debian 12: packages by apt, bindgen from a later
# Debian into the project's cache, or by cargo. Does nothing, quickly, when all is there.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

# The version of the suite's package, and what cargo builds where that cannot be had.
bindgen_suite=forky
bindgen_packaged=0.72.1
bindgen_built=0.73.2
oldest_cargo=1.85

packages=(
	# the kernel and its modules
	flex bison bc libelf-dev libssl-dev cpio kmod rsync xz-utils perl
	"clang-$llvm" "lld-$llvm" "llvm-$llvm" "libclang-$llvm-dev"
	rustc-web rust-web-src rustfmt-web rust-web-clippy
	# the guests and the programs in them
	qemu-system-x86 iperf3 sockperf ethtool tcpdump iproute2 net-tools iputils-ping
	util-linux procps
	# tests and checks
	python3 python3-pytest python3-pytest-timeout python3-pytest-rerunfailures
	python3-pytest-xdist
	shellcheck man-db binutils pkgconf python3-pip valgrind libfabric-dev libfabric-bin
	# libraries for 32-bit processes
	gcc-multilib
)

# Packages are built by Debian's tools.
packaging=(dpkg-dev debhelper dh-dkms lintian)
[ -z "${DEB:-}" ] || packages+=("${packaging[@]}")
# Debian's own kernel is prepared in a root file system of its own, where packages are tried as well.
[ "${KERNEL:-}" != stock ] || packages+=(mmdebstrap "${packaging[@]}")

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
	mkdir -p "$cache/tools"
	case $("$cache/tools/bin/bindgen" --version 2>/dev/null) in
	"bindgen $bindgen_packaged" | "bindgen $bindgen_built") ;;
	*) (unpack_bindgen) || build_bindgen ;;
	esac
}

# The package wants a later C library than the system's: bindgen runs with that one, unpacked
# beside it, and all other libraries are the system's. Neither is installed.
unpack_bindgen() {
	local place=$cache/tools/bindgen log=$cache/bindgen.log
	take_lock "$cache/bindgen.lock" "download of bindgen"
	read_package_lists deb "$bindgen_suite"
	rm -rf "$place"
	mkdir -p "$place" "$cache/tools/bin"
	cd "$place"
	private_apt run_logged "$log" "download of bindgen" apt-get download bindgen libc6 || {
		say "Debian's bindgen cannot be had ($log)"
		return 1
	}
	dpkg -x bindgen_*.deb .
	dpkg -x libc6_*.deb .
	rm -f -- *.deb "$cache/tools/bin/bindgen"
	cat >"$cache/tools/bin/bindgen" <<-'EOF'
		#!/bin/sh
		usr=${0%/*}/../bindgen/usr
		lib=$usr/lib/x86_64-linux-gnu
		exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$usr/bin/bindgen" "$@"
	EOF
	chmod 755 "$cache/tools/bin/bindgen"
	[ "$("$cache/tools/bin/bindgen" --version 2>&1 | tee -a "$log")" = "bindgen $bindgen_packaged" ] || {
		say "Debian's bindgen is not $bindgen_packaged, or does not run here ($log)"
		return 1
	}
}

build_bindgen() {
	local log=$cache/bindgen.log
	say "building bindgen $bindgen_built"
	# Not where the project is built, which would make one wait for the other. Most of what it does
	# libclang does: optimized fully it is no faster, and takes twice as long to build.
	run_logged "$log" bindgen env -u CARGO_TARGET_DIR \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install bindgen-cli --version "$bindgen_built" --locked --force --root "$cache/tools" || {
		show_end "$log"
		die "bindgen could not be built" "cargo needs the crates.io registry: check the network, then run this again"
	}
}

check_system
check_cargo
# It needs none of the packages: both at once.
install_bindgen &
bindgen=$!
trap 'kill "$bindgen" 2>/dev/null || true' EXIT
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
wait "$bindgen"
trap - EXIT
say "everything needed is installed"
