// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls PXIMC_assertEvent for a session that often, for a program that counts the instructions of
 * operations(): by libpximc64.so, or by a vendor's library alone if that is loaded before it.
 */

#include <stdio.h>
#include <stdlib.h>

#include "pximc.h"

static __attribute__((noinline)) int operations(uint32_t session, long count)
{
	int failed = 0;

	while (count--)
		failed |= PXIMC_assertEvent(session) != PXIMC_SUCCESS;
	return failed;
}

int main(int argc, char **argv)
{
	uint32_t interface, found, session;

	if (argc != 2) {
		fputs("usage: pximc_calls COUNT\n", stderr);
		return 2;
	}
	if (PXIMC_findInterfaces(1, &interface, &found) != PXIMC_SUCCESS || found != 1)
		return 1;
	if (PXIMC_requestWindowLogicalAsClient(interface, 1, 0, 0, 4096, 4096, 1, &session) !=
	    PXIMC_SUCCESS)
		return 1;
	return operations(session, strtol(argv[1], NULL, 10));
}
