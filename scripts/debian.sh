# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Packages of other Debian suites than this system's. Sourced after common.sh, never run.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# Lists and configuration of their own.
# shellcheck disable=SC2154 # of common.sh
apt_dir=$cache/apt

# The mirror that this system's own apt uses for Debian.
debian_mirror() {
	local uri
	# shellcheck disable=SC2016 # for apt to expand
	uri=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' "Identifier: Packages" 2>/dev/null |
		sed -n 's/ Debian$//p' | head -n 1)
	[ -n "$uri" ] || uri=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p;s/^deb (\[[^]]*\] )?([^ ]+).*/\2/p' \
		/etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
		grep -E '/debian/?$' | head -n 1)
	[ -n "$uri" ] || die "apt's sources name no Debian mirror" "add one to /etc/apt/sources.list"
	printf '%s' "$uri"
}

# Package lists of other suites, apart from the system's own.
private_apt() {
	APT_CONFIG=$apt_dir/apt.conf "$@"
}

# read_package_lists deb|deb-src SUITE...
read_package_lists() {
	local type=$1 mirror suite
	shift
	mirror=$(debian_mirror)
	[ -r "$keyring" ] || die "$keyring is missing" "install the package debian-archive-keyring"
	mkdir -p "$apt_dir/lists/partial" "$apt_dir/archives/partial"
	for suite in "$@"; do
		printf '%s [signed-by=%s] %s %s main\n' "$type" "$keyring" "$mirror" "$suite"
	done >"$apt_dir/sources.list"
	cat >"$apt_dir/apt.conf" <<-EOF
		Dir::Etc::sourcelist "$apt_dir/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State::lists "$apt_dir/lists";
		Dir::Cache "$apt_dir";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		APT::Sandbox::User "root";
		// Signed, but a mirror may be a snapshot.
		Acquire::Check-Valid-Until "false";
	EOF
	say "reading the package lists of $* at $mirror"
	private_apt apt-get update >"$apt_dir/update.log" 2>&1 ||
		say "not all lists could be read: $(grep -m 1 -E '^(E|W):' "$apt_dir/update.log")"
}
