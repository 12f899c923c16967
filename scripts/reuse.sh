#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks that each file names its licence and that the texts of all are there
# (REUSE specification 3.3). Installs the tool into the cache.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

wanted=$checkout/scripts/reuse.txt
tool=$cache/tools/reuse-$(sha256sum "$wanted" | cut -c 1-12)
log=$cache/reuse.log

take_lock "$cache/reuse.lock" "installation of reuse"
if [ ! -d "$tool" ]; then
	rm -rf "$tool.new"
	run_logged "$log" "reuse" /usr/bin/python3 -m pip install --quiet --no-input --no-compile \
		--root-user-action ignore --target "$tool.new" --requirement "$wanted" || {
		show_end "$log"
		die "the tool reuse cannot be installed" "install python3-pip, check the network"
	}
	mv "$tool.new" "$tool"
fi
PYTHONPATH=$tool /usr/bin/python3 -m reuse --root "$checkout" lint --quiet ||
	PYTHONPATH=$tool /usr/bin/python3 -m reuse --root "$checkout" lint --lines
