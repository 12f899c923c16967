// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls every function of the library that is named on the command line, on a system without the
 * fabric. Exits with 0 if all of them return what they should.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "pximc.h"

/* What an application that is linked to the Dispatcher brings along. */
tPXIMC_Status PXIMC_findInterfaces(uint32_t capacity, uint32_t *ids, uint32_t *actual)
{
	(void)capacity;
	(void)ids;
	(void)actual;
	fprintf(stderr, "findInterfaces was interposed\n");
	exit(2);
}

tPXIMC_Status PXIMC_closeWindow(uint32_t session)
{
	(void)session;
	fprintf(stderr, "closeWindow was interposed\n");
	exit(2);
}

static int failures;

static void expect(const char *name, tPXIMC_Status found, tPXIMC_Status expected)
{
	if (found == expected)
		return;
	fprintf(stderr, "%s: %d instead of %d\n", name, (int)found, (int)expected);
	failures++;
}

static void *library;

static void *lookup(const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "%s is missing\n", name);
		exit(1);
	}
	return function;
}

/* Calls the library's function, which has the header's type. */
#define CALL(name, expected, ...)					\
	do {								\
		__typeof__(&name) function;				\
									\
		*(void **)&function = lookup(#name);			\
		expect(#name, function(__VA_ARGS__), expected);		\
	} while (0)

int main(int argc, char **argv)
{
	uint32_t ids[4], actual = 77, number = 78;
	uint64_t size = 0;
	tPXIMC_Status (*cleanup)(void);
	void *address = NULL;

	if (argc != 2)
		return 1;
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CALL(PXIMC_findInterfaces, PXIMC_SUCCESS, 4, ids, &actual);
	expect("number of interfaces", (int32_t)actual, 0);
	CALL(PXIMC_queryInterfaceInformation, PXIMC_INVALID_INTERFACE, 1, PXIMC_U32_MANF_ID,
	     sizeof(ids), ids, &actual);
	CALL(PXIMC_waitForInterfaceEvent, PXIMC_INVALID_INTERFACE, 1, PXIMC_TIMEOUT_INFINITE, ids);
	CALL(PXIMC_findWindows, PXIMC_INVALID_INTERFACE, 1, 4, ids, &actual);
	CALL(PXIMC_queryWindowInformation, PXIMC_INVALID_INTERFACE, 1, 1, PXIMC_U8_WINDOW_DATA,
	     sizeof(ids), ids, &actual);
	CALL(PXIMC_requestWindowLogicalAsServer, PXIMC_INVALID_INTERFACE, 1, 2, 4096, 1, 4096, 1, 0,
	     NULL, 0, &number);
	CALL(PXIMC_requestWindowLogicalAsClient, PXIMC_INVALID_INTERFACE, 1, 2, 4096, 1, 4096, 1, 0,
	     &number);
	CALL(PXIMC_requestWindowLogicalAsPeer, PXIMC_INVALID_INTERFACE, 1, 2, 4096, 1, 4096, 1, 0,
	     NULL, 0, &number);
	CALL(PXIMC_requestWindowPhysicalAsServer, PXIMC_INVALID_INTERFACE, 1, 2, 4096, 0, 4096,
	     NULL, 0, &number);
	CALL(PXIMC_requestWindowPhysicalAsClient, PXIMC_INVALID_INTERFACE, 1, 2, 4096, 1, 0,
	     &number);
	CALL(PXIMC_waitForConnection, PXIMC_INVALID_SESSION, 1, PXIMC_TIMEOUT_INFINITE, &address,
	     &size, &address, &size);
	CALL(PXIMC_getPhysicalAddress, PXIMC_INVALID_SESSION, 1, &size);
	CALL(PXIMC_enableDeviceAccess, PXIMC_INVALID_SESSION, 1, PXIMC_DEVICE_ACCESS_READ, 0, 0, 0);
	CALL(PXIMC_assertEvent, PXIMC_INVALID_SESSION, 1);
	CALL(PXIMC_waitForSessionEvent, PXIMC_INVALID_SESSION, 1, PXIMC_TIMEOUT_INFINITE, ids);
	CALL(PXIMC_closeWindow, PXIMC_INVALID_SESSION, 1);
	*(void **)&cleanup = lookup("PXIMC_cleanup");
	expect("PXIMC_cleanup", cleanup(), PXIMC_SUCCESS);
	expect("session number", (int32_t)number, 78);
	return failures ? 1 : 0;
}
