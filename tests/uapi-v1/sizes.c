// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of version 1: each call with its structure as it was first, as it is in version 1, and
 * as a later release may have it.
 */
#include "common.h"

#define SOME_ID 90

/* A call that gets beyond its structure, and then gives this. */
struct form {
	const char *name;
	unsigned long number;
	uint32_t size;
	uint32_t first;			/* bytes of the structure's first release */
	int error;
	const void *value;
};

#define FORM(call, type, first, error, ...)                                    \
	{ #call, MP_IOC_##call, sizeof(struct type), first, error, &(const struct type) { __VA_ARGS__ } }

static const struct form forms[] = {
	FORM(INFO, mp_info, 24, 0, 0),
	FORM(CLOSE, mp_handle, 8, ENOENT, 0),
	FORM(WAIT, mp_wait, 32, ENOENT, .mask = MP_EVENT_SIGNAL),
	FORM(EVENTFD, mp_eventfd, 24, ENOENT, .eventfd = -1),
	FORM(WATCH, mp_watch, 24, ENOENT, 0),
	FORM(SIGNAL, mp_handle, 8, ENOENT, 0),
	FORM(EXPORT, mp_export, 24, ENOENT, .rights = MP_GRANT_READ),
	FORM(IMPORT, mp_import, 32, EBADF, .fd = -1),
	FORM(INTERFACES, mp_interfaces, 24, ENOSPC, 0),
	FORM(INTERFACE, mp_interface, 96, ENODEV, 0),
	FORM(WINDOWS, mp_windows, 24, ENODEV, 0),
	FORM(WINDOW, mp_window, 72, ENODEV, 0),
	FORM(SESSION_OPEN, mp_session_open, 80, ENODEV, 0),
	FORM(SESSION, mp_session, 48, ENOENT, 0),
	FORM(SESSION_ADDRESS, mp_session_address, 16, ENOENT, 0),
	FORM(SESSION_ACCESS, mp_session_access, 16, ENOENT, 0),
	FORM(SESSION_PARTNER, mp_session_partner, 72, ENOENT, 0),
	FORM(SESSION_ANSWER, mp_session_answer, 40, ENOENT, 0),
	FORM(PARK, mp_park, 40, EFAULT, .count = 1, .entries = 8),
	FORM(SESSION_STORE, mp_session_store, 32, ENOENT, 0),
	FORM(SEGMENT_CREATE, mp_segment_create, 32, EADDRINUSE, .id = SOME_ID, .length = PAGE),
	FORM(SEGMENT_SHARE, mp_handle, 8, ENOENT, 0),
	FORM(SEGMENT_ATTACH, mp_segment_attach, 24, ENOENT, .id = SOME_ID + 1),
	FORM(SEGMENT_PREPARE, mp_segment_interface, 16, ENOENT, 0),
	FORM(SEGMENT_PUBLISH, mp_segment_interface, 16, ENOENT, 0),
	FORM(SEGMENT_WITHDRAW, mp_segment_interface, 16, ENOENT, 0),
	FORM(SEGMENT, mp_segment, 48, ENOENT, 0),
	FORM(SEGMENT_REGISTER, mp_segment_register, 32, ENOENT, .length = PAGE),
	FORM(SEGMENT_GRANT, mp_segment_grant, 24, ENOENT, .rights = MP_GRANT_READ),
	FORM(SEGMENT_DMABUF, mp_segment_dmabuf, 24, ENOENT, .rights = MP_GRANT_READ),
	FORM(REMOVE, mp_remove, 16, ENOENT, 0),
	FORM(OFFER, mp_offer, 24, ENODEV, .object = MP_OBJECT_EVENT),
	FORM(CONNECT, mp_connect, 32, ENODEV, .object = MP_OBJECT_SEGMENT),
	FORM(CONNECTION, mp_connection, 48, ENOENT, 0),
	FORM(NOTICE, mp_notice, 32, ENOENT, 0),
	FORM(SEND, mp_message, 32, ENOENT, 0),
	FORM(RECEIVE, mp_message, 32, ENOENT, 0),
	FORM(BARRIER, mp_barrier, 24, ENOENT, 0),
	FORM(ADDRESS, mp_address, 32, ENOENT, 0),
	FORM(EXCHANGE, mp_exchange, 48, ENOENT, 0),
	FORM(QUEUE_CREATE, mp_queue_create, 16, ENODEV, 0),
	FORM(QUEUE_START, mp_queue_start, 32, ENOENT, 0),
	FORM(QUEUE_ABORT, mp_handle, 8, ENOENT, 0),
	FORM(QUEUE, mp_queue, 24, ENOENT, 0),
};

/* Calls with that size, and with a last byte of that value. */
static void gives(const struct form *form, uint32_t size, uint8_t last, int error)
{
	static uint8_t buffer[2 * PAGE];
	uint32_t n;
	int found;

	memset(buffer, 0, sizeof(buffer));
	memcpy(buffer, form->value, form->size);
	memcpy(buffer, &size, sizeof(size));
	if (last)
		buffer[size - 1] = last;
	/* Behind it is something else. */
	memset(buffer + size, 0xa5, sizeof(buffer) - size);
	found = error_of(form->number, buffer);
	if (found != error) {
		fprintf(stderr, "%s of %u bytes: %s, and not: %s\n", form->name, size,
			strerror(found), strerror(error));
		exit(1);
	}
	for (n = size; n < sizeof(buffer); n++)
		HOLDS(buffer[n] == 0xa5);
}

static void grows(const struct form *form)
{
	gives(form, form->size, 0, form->error);
	gives(form, form->first, 0, form->error);
	gives(form, form->first - 4, 0, EINVAL);
	gives(form, PAGE, 0, form->error);
	gives(form, PAGE, 1, E2BIG);
	gives(form, PAGE + 8, 0, E2BIG);
}

/* Entries and records that are longer than the kernel knows, and shorter than they ever were. */
static void elements_grow(uint32_t interface)
{
	struct {
		struct mp_park_entry entry;
		uint64_t later;
	} longer = { .later = 0 };
	struct mp_park park = {
		.size = sizeof(park), .count = 1, .entry_size = sizeof(longer),
		.entries = address(&longer),
	};
	struct {
		struct mp_event event;
		uint64_t later;
	} record = { .later = 1 };
	struct mp_watch watch = {
		.size = sizeof(watch), .mask = MP_EVENT_PAIRED, .record_size = sizeof(record),
	};
	uint32_t client;

	GIVES(ENOENT, MP_IOC_PARK, &park);
	longer.later = 1;
	GIVES(E2BIG, MP_IOC_PARK, &park);
	park.entry_size = sizeof(struct mp_park_entry) - 8;
	GIVES(EINVAL, MP_IOC_PARK, &park);

	make_pair(interface, 0, &watch.target, &client);
	GOES(MP_IOC_WATCH, &watch);
	HOLDS(read(fabric, &record, sizeof(record)) == sizeof(record));
	HOLDS(record.event.target == watch.target && record.later == 0);
}

int main(void)
{
	uint32_t n;

	fabric = open_context();
	publish(loopback(), SOME_ID, PAGE);
	for (n = 0; n < sizeof(forms) / sizeof(forms[0]); n++)
		grows(&forms[n]);
	elements_grow(loopback());
	printf("%u calls\n", n);
	return 0;
}
