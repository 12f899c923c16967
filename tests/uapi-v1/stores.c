// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of version 1: stores to a host that another one forwards to.
 *
 *   stores server|client INTERFACE
 */
#include "common.h"

static uint64_t sent[2] = { 0x1122334455667788ULL, 0x99aabbccddeeff00ULL };

static void serve(uint32_t interface)
{
	struct mp_session_open open = session_at(interface, MP_ROLE_SERVER, PAGE);
	struct mp_session info = { .size = sizeof(info) };
	volatile uint64_t *near;

	GOES(MP_IOC_SESSION_OPEN, &open);
	wait_for(open.handle, MP_EVENT_PAIRED, MP_DEADLINE_NEVER);
	wait_for(open.handle, MP_EVENT_SIGNAL | MP_EVENT_CLOSED, MP_DEADLINE_NEVER);
	info.handle = open.handle;
	GOES(MP_IOC_SESSION, &info);
	HOLDS(info.local_offset && !info.remote_offset && info.remote_size == PAGE);
	near = map_at(info.local_offset, info.local_size);
	HOLDS(near[5] == sent[0] && near[400] == sent[1]);
	on_handle(MP_IOC_SIGNAL, open.handle);
	wait_for(open.handle, MP_EVENT_CLOSED, MP_DEADLINE_NEVER);
}

static void store(uint32_t interface)
{
	struct mp_session_open open = session_at(interface, MP_ROLE_CLIENT, PAGE);
	struct mp_copy copies[2] = {
		{ .local = address(&sent[0]), .remote = 40, .length = 8 },
		{ .local = address(&sent[1]), .remote = 3200, .length = 8 },
	};
	struct mp_session_store store = {
		.size = sizeof(store), .count = 2, .stores = address(copies),
	};
	int error, tries = 0;

	/* The server may begin a little later. */
	while ((error = error_of(MP_IOC_SESSION_OPEN, &open)) == ECONNREFUSED && tries++ < 3000)
		usleep(10000);
	HOLDS(error == 0);
	store.handle = open.handle;
	GOES(MP_IOC_SESSION_STORE, &store);
	on_handle(MP_IOC_SIGNAL, open.handle);
	HOLDS(wait_for(open.handle, MP_EVENT_SIGNAL | MP_EVENT_CLOSED, MP_DEADLINE_NEVER) ==
	      MP_EVENT_SIGNAL);
}

int main(int argc, char **argv)
{
	uint32_t interface;

	HOLDS(argc == 3);
	interface = strtoul(argv[2], NULL, 0);
	fabric = open_context();
	if (!strcmp(argv[1], "server"))
		serve(interface);
	else
		store(interface);
	return 0;
}
