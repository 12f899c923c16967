// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A vendor's library that does as it is told, and writes down what it was called for.
 *
 * VENDOR is its name, a letter; variables of the environment say what it does, each looked up
 * when it is needed:
 *
 *	X_INTERFACES	the interfaces that it lists
 *	X_FIND		what PXIMC_findInterfaces does: a status, "greedy" to want more room than
 *			it is given each time, or "boast" to succeed with more than fits
 *	X_STATUS	the status of all other functions
 *	X_ERRNO		what errno is after them, else what it was
 *	X_SESSION	the number of the next session
 *	X_BLOCK		whether to wait for an event until PXIMC_assertEvent is called
 *	CALLS		the file that calls are written to
 *
 * WITHOUT_ACCESS leaves PXIMC_enableDeviceAccess out, WITHOUT_CLEANUP what may not be left out.
 * COUNTED makes PXIMC_assertEvent do nothing, for who counts instructions: how many a look into the
 * environment takes depends on what else is there, and on where it lies.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pximc.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asserted;

/* Visible, as a careless vendor's would be: another's must not take its place. */
const char *vendor_name(void)
{
	return VENDOR;
}

static const char *setting(const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s_%s", vendor_name(), name);
	return getenv(full);
}

static long number(const char *name, long otherwise)
{
	const char *text = setting(name);

	return text ? strtol(text, NULL, 0) : otherwise;
}

static tPXIMC_Status status(void)
{
	long status = number("STATUS", PXIMC_SUCCESS);

	errno = (int)number("ERRNO", errno);
	return (tPXIMC_Status)status;
}

static void note(const char *format, ...)
{
	const char *path = getenv("CALLS");
	char line[128];
	va_list arguments;
	int length, file;

	if (!path)
		return;
	length = snprintf(line, sizeof(line), "%s ", vendor_name());
	va_start(arguments, format);
	length += vsnprintf(line + length, sizeof(line) - 1 - length, format, arguments);
	va_end(arguments);
	line[length++] = '\n';
	file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
	if (file < 0 || write(file, line, length) != length)
		abort();
	close(file);
}

static void __attribute__((constructor)) loaded(void)
{
	note("loaded");
}

tPXIMC_Status PXIMC_findInterfaces(uint32_t capacity, uint32_t *ids, uint32_t *actual)
{
	const char *how = setting("FIND"), *next = setting("INTERFACES");
	uint32_t found[64], count = 0;
	char *end;

	note("find");
	if (how && !strcmp(how, "greedy")) {
		*actual = capacity + 1;
		return PXIMC_INSUFFICIENT_SPACE;
	}
	if (how && !strcmp(how, "boast")) {
		*actual = capacity + 1;
		return PXIMC_SUCCESS;
	}
	if (how)
		return (tPXIMC_Status)strtol(how, NULL, 0);
	while (next && *next && count < 64) {
		found[count++] = (uint32_t)strtoul(next, &end, 0);
		next = end;
	}
	*actual = count;
	if (count > capacity)
		return PXIMC_INSUFFICIENT_SPACE;
	memcpy(ids, found, count * sizeof(*ids));
	return PXIMC_SUCCESS;
}

tPXIMC_Status PXIMC_queryInterfaceInformation(uint32_t interface, uint32_t attribute,
					      uint32_t capacity, void *value, uint32_t *actual)
{
	note("query %u %x %u", interface, attribute, capacity);
	memset(value, VENDOR[0], capacity);
	*actual = capacity + 1000;
	return status();
}

tPXIMC_Status PXIMC_waitForInterfaceEvent(uint32_t interface, uint32_t timeout, uint32_t *reason)
{
	note("wait-interface %u %u", interface, timeout);
	*reason = 3;
	return status();
}

tPXIMC_Status PXIMC_findWindows(uint32_t interface, uint32_t capacity, uint32_t *windows,
				uint32_t *actual)
{
	note("windows %u %u", interface, capacity);
	windows[0] = 1587;
	*actual = 1;
	return status();
}

tPXIMC_Status PXIMC_queryWindowInformation(uint32_t interface, uint32_t window,
					   uint32_t attribute, uint32_t capacity, void *value,
					   uint32_t *actual)
{
	note("window %u %u %x %u", interface, window, attribute, capacity);
	memset(value, VENDOR[0], capacity);
	*actual = capacity;
	return status();
}

static tPXIMC_Status open_session(uint32_t *session)
{
	*session = (uint32_t)number("SESSION", 15);
	return status();
}

tPXIMC_Status PXIMC_requestWindowLogicalAsServer(uint32_t interface, uint32_t protocol,
						 uint64_t max_local, uint64_t min_local,
						 uint64_t max_remote, uint64_t min_remote,
						 uint32_t uid, const uint8_t *data,
						 uint32_t size, uint32_t *session)
{
	note("server %u %x %llx %llx %llx %llx %u %.*s", interface, protocol,
	     (unsigned long long)max_local, (unsigned long long)min_local,
	     (unsigned long long)max_remote, (unsigned long long)min_remote, uid, (int)size,
	     (const char *)data);
	return open_session(session);
}

tPXIMC_Status PXIMC_requestWindowLogicalAsClient(uint32_t interface, uint32_t protocol,
						 uint64_t max_local, uint64_t min_local,
						 uint64_t max_remote, uint64_t min_remote,
						 uint32_t uid, uint32_t *session)
{
	note("client %u %x %llx %llx %llx %llx %u", interface, protocol,
	     (unsigned long long)max_local, (unsigned long long)min_local,
	     (unsigned long long)max_remote, (unsigned long long)min_remote, uid);
	return open_session(session);
}

tPXIMC_Status PXIMC_requestWindowLogicalAsPeer(uint32_t interface, uint32_t protocol,
					       uint64_t max_local, uint64_t min_local,
					       uint64_t max_remote, uint64_t min_remote,
					       uint32_t uid, const uint8_t *data, uint32_t size,
					       uint32_t *session)
{
	note("peer %u %x %llx %llx %llx %llx %u %.*s", interface, protocol,
	     (unsigned long long)max_local, (unsigned long long)min_local,
	     (unsigned long long)max_remote, (unsigned long long)min_remote, uid, (int)size,
	     (const char *)data);
	return open_session(session);
}

tPXIMC_Status PXIMC_requestWindowPhysicalAsServer(uint32_t interface, uint32_t protocol,
						  uint64_t local, uint32_t uid, uint64_t address,
						  const uint8_t *data, uint32_t size,
						  uint32_t *session)
{
	note("physical-server %u %x %llx %u %llx %.*s", interface, protocol,
	     (unsigned long long)local, uid, (unsigned long long)address, (int)size,
	     (const char *)data);
	return open_session(session);
}

tPXIMC_Status PXIMC_requestWindowPhysicalAsClient(uint32_t interface, uint32_t protocol,
						  uint64_t max_remote, uint64_t min_remote,
						  uint32_t uid, uint32_t *session)
{
	note("physical-client %u %x %llx %llx %u", interface, protocol,
	     (unsigned long long)max_remote, (unsigned long long)min_remote, uid);
	return open_session(session);
}

tPXIMC_Status PXIMC_waitForConnection(uint32_t session, uint32_t timeout, void **remote,
				      uint64_t *remote_size, void **local, uint64_t *local_size)
{
	note("connect %u %u", session, timeout);
	*remote = (void *)0x1000;
	*remote_size = 0x100000000ULL;
	/* A program that wants no local window may pass no pointers. */
	if (local && local_size) {
		*local = (void *)0x2000;
		*local_size = 0x400;
	}
	return status();
}

tPXIMC_Status PXIMC_getPhysicalAddress(uint32_t session, uint64_t *address)
{
	note("address %u", session);
	*address = 0xF00000000ULL;
	return status();
}

#ifndef WITHOUT_ACCESS
tPXIMC_Status PXIMC_enableDeviceAccess(uint32_t session, uint32_t mode, uint32_t bus,
				       uint32_t device, uint32_t function)
{
	note("access %u %x %u %u %u", session, mode, bus, device, function);
	return status();
}
#endif

tPXIMC_Status PXIMC_assertEvent(uint32_t session)
{
#ifdef COUNTED
	return PXIMC_SUCCESS;
#endif
	note("assert %u", session);
	pthread_mutex_lock(&lock);
	asserted = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return status();
}

tPXIMC_Status PXIMC_waitForSessionEvent(uint32_t session, uint32_t timeout, uint32_t *reason)
{
	note("wait %u %u", session, timeout);
	pthread_mutex_lock(&lock);
	while (setting("BLOCK") && !asserted)
		pthread_cond_wait(&changed, &lock);
	asserted = 0;
	pthread_mutex_unlock(&lock);
	*reason = PXIMC_EVENT_ASSERTED;
	return status();
}

tPXIMC_Status PXIMC_closeWindow(uint32_t session)
{
	note("close %u", session);
	return status();
}

#ifndef WITHOUT_CLEANUP
tPXIMC_Status PXIMC_cleanup(void)
{
	note("cleanup");
	return status();
}
#endif
