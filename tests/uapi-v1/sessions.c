// SPDX-License-Identifier: GPL-2.0-only
/* A program of version 1: sessions, with both ends in one process. */
#include "common.h"

static uint32_t interface;

static struct mp_session session(uint32_t handle)
{
	struct mp_session info = { .size = sizeof(info), .handle = handle };

	GOES(MP_IOC_SESSION, &info);
	return info;
}

static void shares_windows(void)
{
	const volatile uint64_t *words = status_words();
	volatile uint64_t *far, *near;
	struct mp_session at, of;
	uint32_t server, client;

	make_pair(interface, 2 * PAGE, &server, &client);
	at = session(server);
	of = session(client);
	HOLDS(at.local_size == 2 * PAGE && of.remote_size == 2 * PAGE);
	HOLDS(at.uid && of.uid && at.interface == interface);
	HOLDS(at.events & MP_EVENT_PAIRED);
	near = map_at(at.local_offset, at.local_size);
	far = map_at(of.remote_offset, of.remote_size);
	far[1000] = 0x1234;
	on_handle(MP_IOC_SIGNAL, client);
	wait_for(server, MP_EVENT_SIGNAL, MP_DEADLINE_NEVER);
	HOLDS(near[1000] == 0x1234);
	HOLDS(state_in(words, at.status) & MP_EVENT_PAIRED);
	on_handle(MP_IOC_CLOSE, client);
	wait_for(server, MP_EVENT_CLOSED, MP_DEADLINE_NEVER);
	HOLDS(state_in(words, at.status) & MP_EVENT_CLOSED);
	on_handle(MP_IOC_CLOSE, server);
}

/* A server that answers itself, and a client that has asked it. */
static uint32_t ask(uint32_t *server, const char *name, const char *data)
{
	struct mp_session_open open = session_at(interface, MP_ROLE_SERVER, PAGE);

	open.flags = MP_SESSION_DEFER;
	open.name = address(name);
	open.name_size = strlen(name);
	GOES(MP_IOC_SESSION_OPEN, &open);
	*server = open.handle;
	open.role = MP_ROLE_CLIENT;
	open.uid = 0;
	open.flags = MP_SESSION_NONBLOCK;
	open.data = address(data);
	open.data_size = strlen(data);
	GOES(MP_IOC_SESSION_OPEN, &open);
	wait_for(*server, MP_EVENT_REQUEST, MP_DEADLINE_NEVER);
	return open.handle;
}

static struct mp_session_partner partner(uint32_t handle, char *data, uint32_t room)
{
	struct mp_session_partner info = {
		.size = sizeof(info), .handle = handle, .data = address(data), .data_size = room,
	};

	GOES(MP_IOC_SESSION_PARTNER, &info);
	return info;
}

static void answers(uint32_t flags, uint32_t reason, uint32_t event, uint32_t state)
{
	char data[64] = "";
	uint32_t server, client = ask(&server, "version 1", "hello");
	struct mp_session_partner of = partner(server, data, sizeof(data));
	struct mp_session_answer answer = {
		.size = sizeof(answer), .handle = server, .request = of.request, .flags = flags,
		.reason = reason, .data = address("again"), .data_size = 5,
		.deadline = MP_DEADLINE_NEVER,
	};

	HOLDS(of.state == MP_PARTNER_REQUEST && of.request && of.remote_max == PAGE);
	HOLDS(of.data_size == 5 && !memcmp(data, "hello", 5));
	GOES(MP_IOC_SESSION_ANSWER, &answer);
	wait_for(client, event, MP_DEADLINE_NEVER);
	of = partner(client, data, sizeof(data));
	HOLDS(of.state == state && of.reason == reason);
	HOLDS(of.data_size == 5 && !memcmp(data, "again", 5));
	on_handle(MP_IOC_CLOSE, client);
	on_handle(MP_IOC_CLOSE, server);
}

static void sleeps_on_words(void)
{
	volatile uint64_t *near;
	struct mp_park_entry entry = { .word = 64, .value = 1, .arm = 128, .arm_value = 7 };
	struct mp_park park = {
		.size = sizeof(park), .count = 1, .entry_size = sizeof(entry),
		.entries = address(&entry), .deadline = MP_DEADLINE_NEVER,
	};
	struct mp_session of;
	uint32_t server, client;

	make_pair(interface, PAGE, &server, &client);
	entry.handle = server;
	GOES(MP_IOC_PARK, &park);
	HOLDS(park.index == 0 && park.events & MP_PARK_CHANGED);
	entry.value = 0;
	park.flags = MP_PARK_ARMED;
	GOES(MP_IOC_PARK, &park);
	HOLDS(park.index == MP_PARK_NONE && park.events == 0);
	of = session(client);
	near = map_at(of.local_offset, of.local_size);
	HOLDS(near[16] == 7);
	on_handle(MP_IOC_SIGNAL, client);
	park.flags = 0;
	GOES(MP_IOC_PARK, &park);
	HOLDS(park.index == 0 && park.events & MP_EVENT_SIGNAL);
}

static void has_no_address_where_no_device_gets(void)
{
	uint64_t word = 1;
	struct mp_copy copy = { .local = address(&word), .length = sizeof(word) };
	struct mp_session_store store = {
		.size = sizeof(store), .count = 1, .stores = address(&copy), .store_size = sizeof(copy),
	};
	struct mp_session_address at = { .size = sizeof(at) };
	struct mp_session_access access = { .size = sizeof(access), .mode = MP_ACCESS_CLEAR };
	uint32_t server;

	make_pair(interface, PAGE, &server, &at.handle);
	access.handle = store.handle = at.handle;
	GIVES(EOPNOTSUPP, MP_IOC_SESSION_ADDRESS, &at);
	GIVES(EOPNOTSUPP, MP_IOC_SESSION_ACCESS, &access);
	GIVES(EOPNOTSUPP, MP_IOC_SESSION_STORE, &store);
}

int main(void)
{
	fabric = open_context();
	interface = loopback();
	shares_windows();
	answers(MP_ANSWER_ACCEPT, 0, MP_EVENT_PAIRED, MP_PARTNER_PAIRED);
	answers(MP_ANSWER_REJECT, 42, MP_EVENT_REFUSED, MP_PARTNER_REJECTED);
	sleeps_on_words();
	has_no_address_where_no_device_gets();
	return 0;
}
