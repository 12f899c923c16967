// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the functions of PXImc as its input tells, for tests; tests/rig/pximc.py is the
 * other end, and common/shell.h says what the input looks like.
 *
 * Commands that are named like functions take the arguments of the header, in its order;
 * the status and everything that the function may have written is answered. Outputs and
 * buffers are filled with UNTOUCHED before. A pointer is "null", "-" for one that is
 * aligned, or "+N" for one that is N bytes off; bytes are "-" for none or hexadecimal. The
 * other commands use memory, or end the process; see the table below.
 */

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/shell.h"
#include "pximc.h"

#define GUARD 16		/* bytes before and after a buffer that nobody may write */

/* A buffer for a function to write to, with its guards. */
struct buffer {
	_Alignas(16) uint8_t bytes[GUARD + ROOM + GUARD];
	uint8_t *start;
};

/* --- arguments */

/* A pointer to `own`, or NULL. */
static void *pointer(struct call *call, void *own)
{
	return strcmp(word(call), "null") ? own : NULL;
}

/* A buffer that is filled with UNTOUCHED, at the place that the argument says. */
static void *buffer(struct call *call, struct buffer *buffer)
{
	const char *text = word(call);

	memset(buffer->bytes, UNTOUCHED, sizeof(buffer->bytes));
	buffer->start = buffer->bytes + GUARD;
	if (text[0] == '+')
		buffer->start += strtoul(text + 1, NULL, 0) % GUARD;
	return strcmp(text, "null") ? buffer->start : NULL;
}

/* Data of a window, or NULL; its length is not limited to what functions allow. */
static uint8_t *data_of(struct call *call, uint8_t room[ROOM])
{
	const char *text = word(call);

	if (!strcmp(text, "null"))
		return NULL;
	bytes(call, text, room, ROOM);
	return room;
}

/* --- answers */

static void answer_status(struct call *call, tPXIMC_Status status)
{
	answer(call, ", \"status\": %d", status);
}

/* A buffer up to where it ends for the function; what is around it only if it is spoilt. */
static void answer_buffer(struct call *call, const struct buffer *buffer, size_t size)
{
	const uint8_t *end = buffer->bytes + sizeof(buffer->bytes);
	const uint8_t *after = size < ROOM ? buffer->start + size : end - GUARD;
	const uint8_t *byte;
	int spoilt = 0;

	for (byte = buffer->bytes; byte < end; byte++)
		if ((byte < buffer->start || byte >= after) && *byte != UNTOUCHED)
			spoilt = 1;
	answer_bytes(call, "buffer", buffer->start, after - buffer->start);
	answer(call, ", \"spoilt\": %d", spoilt);
}

/* --- functions of PXImc */

static void find_interfaces(struct call *call)
{
	uint32_t capacity = number(call), actual;
	struct buffer ids;
	uint32_t *array = buffer(call, &ids);

	memset(&actual, UNTOUCHED, sizeof(actual));
	answer_status(call, PXIMC_findInterfaces(capacity, array, pointer(call, &actual)));
	answer_number(call, "actual", actual);
	answer_buffer(call, &ids, capacity < ROOM / 4 ? 4 * capacity : ROOM);
}

static void query_interface(struct call *call)
{
	uint32_t interface = number(call), attribute = number(call), size = number(call), actual;
	struct buffer value;
	void *start = buffer(call, &value);

	memset(&actual, UNTOUCHED, sizeof(actual));
	answer_status(call, PXIMC_queryInterfaceInformation(interface, attribute, size, start,
							    pointer(call, &actual)));
	answer_number(call, "actual", actual);
	answer_buffer(call, &value, size);
}

static void wait_for_interface_event(struct call *call)
{
	uint32_t interface = number(call), timeout = number(call), reason;

	memset(&reason, UNTOUCHED, sizeof(reason));
	answer_status(call, PXIMC_waitForInterfaceEvent(interface, timeout,
							pointer(call, &reason)));
	answer_number(call, "reason", reason);
}

static void find_windows(struct call *call)
{
	uint32_t interface = number(call), capacity = number(call), actual;
	struct buffer ids;
	uint32_t *array = buffer(call, &ids);

	memset(&actual, UNTOUCHED, sizeof(actual));
	answer_status(call, PXIMC_findWindows(interface, capacity, array, pointer(call, &actual)));
	answer_number(call, "actual", actual);
	answer_buffer(call, &ids, capacity < ROOM / 4 ? 4 * capacity : ROOM);
}

static void query_window(struct call *call)
{
	uint32_t interface = number(call), window = number(call), attribute = number(call);
	uint32_t size = number(call), actual;
	struct buffer value;
	void *start = buffer(call, &value);

	memset(&actual, UNTOUCHED, sizeof(actual));
	answer_status(call, PXIMC_queryWindowInformation(interface, window, attribute, size, start,
							 pointer(call, &actual)));
	answer_number(call, "actual", actual);
	answer_buffer(call, &value, size);
}

/* The arguments that all requests for logical windows begin with. */
struct logical {
	uint32_t interface, protocol, uid;
	uint64_t max_local, min_local, max_remote, min_remote;
};

static struct logical logical(struct call *call)
{
	struct logical l;

	l.interface = number(call);
	l.protocol = number(call);
	l.max_local = number(call);
	l.min_local = number(call);
	l.max_remote = number(call);
	l.min_remote = number(call);
	l.uid = number(call);
	return l;
}

static void request_as_server(struct call *call)
{
	struct logical l = logical(call);
	uint8_t room[ROOM];
	uint32_t session, size;
	uint8_t *data = data_of(call, room);

	memset(&session, UNTOUCHED, sizeof(session));
	size = number(call);
	answer_status(call, PXIMC_requestWindowLogicalAsServer(l.interface, l.protocol, l.max_local,
							       l.min_local, l.max_remote,
							       l.min_remote, l.uid, data, size,
							       pointer(call, &session)));
	answer_number(call, "session", session);
}

static void request_as_client(struct call *call)
{
	struct logical l = logical(call);
	uint32_t session;

	memset(&session, UNTOUCHED, sizeof(session));
	answer_status(call, PXIMC_requestWindowLogicalAsClient(l.interface, l.protocol, l.max_local,
							       l.min_local, l.max_remote,
							       l.min_remote, l.uid,
							       pointer(call, &session)));
	answer_number(call, "session", session);
}

static void request_as_peer(struct call *call)
{
	struct logical l = logical(call);
	uint8_t room[ROOM];
	uint32_t session, size;
	uint8_t *data = data_of(call, room);

	memset(&session, UNTOUCHED, sizeof(session));
	size = number(call);
	answer_status(call, PXIMC_requestWindowLogicalAsPeer(l.interface, l.protocol, l.max_local,
							     l.min_local, l.max_remote,
							     l.min_remote, l.uid, data, size,
							     pointer(call, &session)));
	answer_number(call, "session", session);
}

static void request_as_physical_server(struct call *call)
{
	uint32_t interface = number(call), protocol = number(call), uid, size, session;
	uint64_t local = number(call), address;
	uint8_t room[ROOM];
	uint8_t *data;

	memset(&session, UNTOUCHED, sizeof(session));
	uid = number(call);
	address = number(call);
	data = data_of(call, room);
	size = number(call);
	answer_status(call, PXIMC_requestWindowPhysicalAsServer(interface, protocol, local, uid,
								address, data, size,
								pointer(call, &session)));
	answer_number(call, "session", session);
}

static void request_as_physical_client(struct call *call)
{
	uint32_t interface = number(call), protocol = number(call), uid, session;
	uint64_t max_remote = number(call), min_remote = number(call);

	memset(&session, UNTOUCHED, sizeof(session));
	uid = number(call);
	answer_status(call, PXIMC_requestWindowPhysicalAsClient(interface, protocol, max_remote,
								min_remote, uid,
								pointer(call, &session)));
	answer_number(call, "session", session);
}

static void wait_for_connection(struct call *call)
{
	uint32_t session = number(call), timeout = number(call);
	uint64_t remote_size, local_size, *sizes[2];
	void *remote, *local, **addresses[2];

	memset(&remote, UNTOUCHED, sizeof(remote));
	memset(&local, UNTOUCHED, sizeof(local));
	memset(&remote_size, UNTOUCHED, sizeof(remote_size));
	memset(&local_size, UNTOUCHED, sizeof(local_size));
	addresses[0] = pointer(call, &remote);
	sizes[0] = pointer(call, &remote_size);
	addresses[1] = pointer(call, &local);
	sizes[1] = pointer(call, &local_size);
	answer_status(call, PXIMC_waitForConnection(session, timeout, addresses[0], sizes[0],
						    addresses[1], sizes[1]));
	answer_number(call, "remote", (uintptr_t)remote);
	answer_number(call, "remote_size", remote_size);
	answer_number(call, "local", (uintptr_t)local);
	answer_number(call, "local_size", local_size);
}

static void get_physical_address(struct call *call)
{
	uint32_t session = number(call);
	uint64_t address;

	memset(&address, UNTOUCHED, sizeof(address));
	answer_status(call, PXIMC_getPhysicalAddress(session, pointer(call, &address)));
	answer_number(call, "address", address);
}

static void enable_device_access(struct call *call)
{
	uint32_t session = number(call), mode = number(call), bus = number(call);
	uint32_t device = number(call), function = number(call);

	answer_status(call, PXIMC_enableDeviceAccess(session, mode, bus, device, function));
}

static void assert_event(struct call *call)
{
	answer_status(call, PXIMC_assertEvent(number(call)));
}

static void wait_for_session_event(struct call *call)
{
	uint32_t session = number(call), timeout = number(call), reason;

	memset(&reason, UNTOUCHED, sizeof(reason));
	answer_status(call, PXIMC_waitForSessionEvent(session, timeout, pointer(call, &reason)));
	answer_number(call, "reason", reason);
}

static void close_window(struct call *call)
{
	answer_status(call, PXIMC_closeWindow(number(call)));
}

static void cleanup(struct call *call)
{
	answer_status(call, PXIMC_cleanup());
}

/* --- rounds of data and events */

/* Waits for an event that has to be `expected`; whether it was. */
static int expect_event(struct call *call, uint32_t session, uint32_t expected)
{
	uint32_t reason = 0;
	tPXIMC_Status status = PXIMC_waitForSessionEvent(session, PXIMC_TIMEOUT_INFINITE, &reason);

	if (status == PXIMC_SUCCESS && reason == expected)
		return 1;
	answer(call, ", \"failed\": %d, \"reason\": %u", status, reason);
	return 0;
}

/* Fills a window and asserts, then waits until the other side has looked. */
static void produce(struct call *call)
{
	uint32_t session = number(call), round;
	struct span s = span(call);
	uint32_t rounds = number(call);

	for (round = 0; round < rounds; round++) {
		s.value = round + 1;
		if (use(fill_pattern, &s) || PXIMC_assertEvent(session) != PXIMC_SUCCESS ||
		    !expect_event(call, session, PXIMC_EVENT_ASSERTED))
			break;
	}
	answer_number(call, "rounds", round);
}

static void consume(struct call *call)
{
	uint32_t session = number(call), round;
	struct span s = span(call);
	uint32_t rounds = number(call);

	for (round = 0; round < rounds; round++) {
		s.value = round + 1;
		if (!expect_event(call, session, PXIMC_EVENT_ASSERTED) || use(check_pattern, &s) ||
		    PXIMC_assertEvent(session) != PXIMC_SUCCESS)
			break;
	}
	answer_number(call, "rounds", round);
	answer_wrong(call, &s);
}

/* --- the process */

/* A child that has everything that this process had, and lives until it is killed. */
static void linger(struct call *call)
{
	/* With the very same descriptors, or with copies of them. */
	unsigned long flags = number(call) ? CLONE_FILES : 0;
	pid_t child = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	if (!child)
		for (;;)
			pause();
	answer(call, ", \"pid\": %d", child);
}

/* The calling thread has descriptors of its own from now on. */
static void part(struct call *call)
{
	answer(call, ", \"failed\": %d", unshare(CLONE_FILES));
}

static void die(struct call *call)
{
	(void)call;
	kill(getpid(), SIGKILL);
}

static const struct command commands[] = {
	{ "findInterfaces", find_interfaces },
	{ "queryInterfaceInformation", query_interface },
	{ "waitForInterfaceEvent", wait_for_interface_event },
	{ "findWindows", find_windows },
	{ "queryWindowInformation", query_window },
	{ "requestWindowLogicalAsServer", request_as_server },
	{ "requestWindowLogicalAsClient", request_as_client },
	{ "requestWindowLogicalAsPeer", request_as_peer },
	{ "requestWindowPhysicalAsServer", request_as_physical_server },
	{ "requestWindowPhysicalAsClient", request_as_physical_client },
	{ "waitForConnection", wait_for_connection },
	{ "getPhysicalAddress", get_physical_address },
	{ "enableDeviceAccess", enable_device_access },
	{ "assertEvent", assert_event },
	{ "waitForSessionEvent", wait_for_session_event },
	{ "closeWindow", close_window },
	{ "cleanup", cleanup },
	{ "produce", produce },		/* SESSION ADDRESS LENGTH ROUNDS */
	{ "consume", consume },		/* SESSION ADDRESS LENGTH ROUNDS */
	{ "linger", linger },		/* SHARED */
	{ "part", part },
	{ "die", die },			/* by SIGKILL */
	{ NULL, NULL },
};

int main(void)
{
	return shell(commands);
}
