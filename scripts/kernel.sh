#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Obtains Debian's packaged kernel source and builds the rig's kernel from it.
#
#   kernel.sh [--debug | --races] [--update]     build unless it is built
#   kernel.sh [--debug | --races] --print-dir    where the built kernel is
#   kernel.sh --print-source             where its source is
#
# --debug selects the kernel with KASAN, lockdep and kmemleak, --races the one with
# KCSAN, which cannot be had together with KASAN; --update looks
# for a newer source than the one in the cache. Everything stays in the cache,
# keyed by source version, configuration and compilers. KERNEL_SERIES=7.2 asks
# for another series than the newest one.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

supported=(7.3 7.2)
read -ra series <<<"${KERNEL_SERIES:-${supported[*]}}"
suites=(trixie-backports forky sid)
configs=$checkout/scripts/kernel
fragments=("$configs/rig.config")
sources=$cache/sources

action=build
update=
flavour=rig
while [ $# -gt 0 ]; do
	case $1 in
	--debug | --races)
		flavour=${1#--}
		fragments=("${fragments[0]}" "$configs/$flavour.config")
		;;
	--update) update=1 ;;
	--print-dir | --print-source) action=${1#--} ;;
	*) die "unknown option $1" "options: --debug --races --update --print-dir --print-source" ;;
	esac
	shift
done

# --- source -------------------------------------------------------------------

# "PACKAGE VERSION" of the newest source of the newest supported series.
newest_source() {
	local one version
	for one in "${series[@]}"; do
		version=$(private_apt apt-cache madison "linux-source-$one" 2>/dev/null |
			awk -F ' *[|] *' '{ print $2 }' | sort -V | tail -n 1)
		if [ -n "$version" ]; then
			printf '%s %s\n' "linux-source-$one" "$version"
			return
		fi
	done
	die "no kernel source: looked for $(printf 'linux-source-%s ' "${series[@]}")in ${suites[*]} of $(debian_mirror)" \
		"if the mirror was out of reach, try again (log: $apt_dir/update.log)" \
		"if these suites have moved on, name newer ones at the top of scripts/kernel.sh"
}

fetch_source() {
	local package=$1 version=$2 target=$3 work
	work=$(mktemp -d "$sources/.unpack-XXXXXX")
	say "downloading $package $version"
	(cd "$work" && private_apt run_logged "$work/log" download apt-get download "$package=$version") || {
		show_end "$work/log"
		rm -rf "$work"
		die "the download of $package $version failed" "check the network and the free space, then run this again"
	}
	say "unpacking it"
	dpkg -x "$work"/*.deb "$work/package"
	tar -xf "$work/package/usr/src/$package.tar.xz" -C "$work"
	rm -rf "$target"
	mv "$work/$package" "$target"
	rm -rf "$work"
}

# The newest unpacked source of these series in the cache, if any.
cached_source() {
	local one found
	[ -d "$sources" ] || return 0
	for one in "${series[@]}"; do
		found=$(find "$sources" -mindepth 1 -maxdepth 1 -type d -name "linux-source-${one}_*" | sort -V | tail -n 1)
		[ -z "$found" ] || break
	done
	printf '%s' "$found"
}

check_series() {
	local one
	for one in "${series[@]}"; do
		[[ " ${supported[*]} " == *" $one "* ]] ||
			die "KERNEL_SERIES=$one is not supported" "use one of: ${supported[*]}"
	done
}

# Set source_dir: what the cache has, unless that is nothing or too old.
obtain_source() {
	source_dir=$(cached_source)
	[ -z "$source_dir" ] || [ -n "$update" ] || return 0
	mkdir -p "$sources"
	take_lock "$sources/lock" "download of the kernel source"
	source_dir=$(cached_source)
	if [ -z "$source_dir" ] || [ -n "$update" ]; then
		obtain_newest_source
	fi
	release_lock
}

obtain_newest_source() {
	local package version target
	find "$sources" -maxdepth 1 -name '.unpack-*' -exec rm -rf {} +
	read_package_lists deb "${suites[@]}"
	read -r package version < <(newest_source) || exit 1
	target=$sources/${package}_${version//[~+]/-}
	[ -d "$target" ] || fetch_source "$package" "$version" "$target"
	source_dir=$target
}

# --- build --------------------------------------------------------------------

compilers() {
	local tool
	for tool in /usr/bin/rustc "clang-$llvm" "ld.lld-$llvm" "$cache/tools/bin/bindgen"; do
		"$tool" --version 2>/dev/null || die "$tool is missing" "run scripts/setup.sh"
	done
}

# Add what only the chosen series asks for to the configuration.
add_series_fragment() {
	local version=${source_dir##*_} fragment
	fragment=$configs/series-$(cut -d . -f 1-2 <<<"$version").config
	[ ! -e "$fragment" ] || fragments+=("$fragment")
}

# Set build_dir from everything that determines the result.
name_build() {
	local key versions
	versions=$(compilers)
	add_series_fragment
	key=$({
		basename -- "$source_dir"
		cat "${fragments[@]}"
		printf '%s' "$versions"
	} | sha256sum | cut -c 1-12)
	build_dir=$cache/kernels/$(basename -- "$source_dir" | sed 's/^linux-source-[^_]*_//')-$flavour-$key
}

# What the compiler warns of in a distribution's kernel is not ours to mend, and to look for it takes
# an eighth of the time.
kernel_make() {
	PATH=$kernel_path make -C "$source_dir" O="$build_dir" LLVM="-$llvm" KCFLAGS=-w "$@"
}

# Every option that the fragments ask for must be in the result.
check_configuration() {
	local lost
	lost=$(awk -v config="$build_dir/.config" '
		BEGIN { while ((getline line < config) > 0) if (line ~ /^CONFIG_/) {
			split(line, pair, "="); value[pair[1]] = substr(line, length(pair[1]) + 2) } }
		/^# CONFIG_[A-Z0-9_]+ is not set$/ { wanted[$2] = "n" }
		/^CONFIG_/ { split($0, pair, "="); wanted[pair[1]] = substr($0, length(pair[1]) + 2) }
		END { for (name in wanted) {
			is = name in value ? value[name] : "n"
			if (is != wanted[name]) printf "%s=%s (is %s)\n", name, wanted[name], is } }
	' "$build_dir/rig.allconfig" | sort)
	[ -z "$lost" ] || die "the kernel's configuration does not accept:" "$lost"
}

configure() {
	local log=$build_dir/configure.log
	mkdir -p "$build_dir"
	cat "${fragments[@]}" >"$build_dir/rig.allconfig"
	KCONFIG_ALLCONFIG=$build_dir/rig.allconfig kernel_make allnoconfig >"$log" 2>&1 || {
		show_end "$log"
		die "the kernel cannot be configured"
	}
	check_configuration
}

build() {
	local log=$build_dir/build.log
	say "building $(basename -- "$build_dir")"
	configure
	run_logged "$log" kernel kernel_make -j"$(nproc)" bzImage modules || {
		show_end "$log"
		die "the kernel build failed"
	}
	kernel_make INSTALL_MOD_PATH="$build_dir/modroot" modules_install >"$build_dir/install.log" 2>&1 || {
		show_end "$build_dir/install.log"
		die "the kernel's modules cannot be installed to $build_dir/modroot"
	}
	touch "$build_dir/.complete"
	say "the kernel is in $build_dir"
}

check_series
case $action in
print-source | print-dir)
	source_dir=$(cached_source)
	[ -n "$source_dir" ] || die "no kernel has been built" "run: make kernel"
	if [ "$action" = print-source ]; then
		printf '%s\n' "$source_dir"
		exit
	fi
	name_build
	[ -e "$build_dir/.complete" ] ||
		die "the $flavour kernel has not been built" "run: make kernel$([ "$flavour" = rig ] || printf ' %s=1' "${flavour^^}")"
	printf '%s\n' "$build_dir"
	;;
build)
	obtain_source
	name_build
	[ ! -e "$build_dir/.complete" ] || exit 0
	take_lock "$build_dir.lock" "build of the same kernel"
	[ -e "$build_dir/.complete" ] || build
	;;
esac
