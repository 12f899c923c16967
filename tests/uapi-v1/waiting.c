// SPDX-License-Identifier: GPL-2.0-only
/* A program of version 1: interfaces, windows, and all ways to wait. */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "common.h"

#define FEATURES (MP_FEATURE_SESSIONS | MP_FEATURE_SEGMENTS | MP_FEATURE_EVENTS | MP_FEATURE_PORTS | \
	MP_FEATURE_QUEUES | MP_FEATURE_REGISTER | MP_FEATURE_PINNED | MP_FEATURE_ACCEPT | \
	MP_FEATURE_PARK | MP_FEATURE_PLACED | MP_FEATURE_GRANTS | MP_FEATURE_REGISTER_ANY | \
	MP_FEATURE_STORE | MP_FEATURE_NAMES | MP_FEATURE_ARRIVALS | MP_FEATURE_HANDOVER | \
	MP_FEATURE_REGISTER_BAR | MP_FEATURE_ONE_PEER | MP_FEATURE_PRIVATE)

static void knows_what_it_knew(void)
{
	struct mp_info info = { .size = sizeof(info) };

	GOES(MP_IOC_INFO, &info);
	HOLDS(info.version == MP_FABRIC_VERSION);
	HOLDS((info.features & FEATURES) == FEATURES);
	HOLDS(info.sessions_max && info.user_sessions_max && info.objects_max);
	HOLDS(info.user_objects_max && info.user_contexts_max && info.user_segments_max);
	HOLDS(info.user_connections_max && info.user_memory_max);
	HOLDS(info.message_max >= MP_MESSAGE_MAX && info.messages_max);
	HOLDS(info.queue_entries_max >= MP_QUEUE_ENTRIES_MAX);
	HOLDS(info.park_entries_max >= MP_PARK_ENTRIES_MAX);
	HOLDS(info.stores_max >= MP_STORES_MAX && info.stores_bytes_max >= MP_STORES_BYTES_MAX);
}

static void lists_interfaces(uint32_t interface)
{
	struct mp_interfaces none = { .size = sizeof(none) };
	struct mp_interface info = { .size = sizeof(info), .id = interface };

	GIVES(ENOSPC, MP_IOC_INTERFACES, &none);
	HOLDS(none.count >= 1);
	GOES(MP_IOC_INTERFACE, &info);
	HOLDS(info.flags & MP_INTERFACE_UP && !(info.flags & MP_INTERFACE_ROUTED));
	HOLDS(info.peer != MP_PEER_NONE && info.epoch && info.local_total && info.remote_total);
	HOLDS(info.name[0] && !info.name[sizeof(info.name) - 1]);
}

static void waits_for_interfaces(uint32_t interface)
{
	struct mp_wait wait = {
		.size = sizeof(wait), .flags = MP_WAIT_INTERFACE, .target = MP_INTERFACE_ANY,
		.mask = MP_EVENT_STATE,
	};

	GOES(MP_IOC_WAIT, &wait);
	HOLDS(wait.events == MP_EVENT_STATE);
	wait.target = interface;
	wait.mask = MP_EVENT_STATE | MP_EVENT_WINDOWS;
	GOES(MP_IOC_WAIT, &wait);
	HOLDS(wait.events == wait.mask);
	GIVES(ETIMEDOUT, MP_IOC_WAIT, &wait);
}

static void shows_windows(uint32_t interface)
{
	static const char data[] = "what a partner is told";
	char read[sizeof(data)] = "";
	uint32_t ids[64], n, is_there = 0;
	struct mp_session_open open = session_at(interface, MP_ROLE_SERVER, PAGE);
	struct mp_windows windows = {
		.size = sizeof(windows), .interface = interface, .capacity = 64, .ids = address(ids),
	};
	struct mp_window window = {
		.size = sizeof(window), .interface = interface, .data_size = sizeof(read) - 1,
		.data = address(read),
	};

	open.data = address(data);
	open.data_size = sizeof(data);
	GOES(MP_IOC_SESSION_OPEN, &open);
	GOES(MP_IOC_WINDOWS, &windows);
	for (n = 0; n < windows.count; n++)
		is_there |= ids[n] == open.uid;
	HOLDS(is_there);
	window.id = open.uid;
	GIVES(ENOSPC, MP_IOC_WINDOW, &window);
	HOLDS(window.data_size == sizeof(data));
	GOES(MP_IOC_WINDOW, &window);
	HOLDS(!strcmp(read, data));
	HOLDS(window.role == MP_ROLE_SERVER && window.location == MP_LOCATION_LOGICAL);
	HOLDS(window.protocol == open.protocol && !window.paired && window.local_max == PAGE);
	on_handle(MP_IOC_CLOSE, open.handle);
	GIVES(ENOENT, MP_IOC_WINDOW, &window);
}

static void reports_events(uint32_t interface)
{
	uint32_t server, client;
	uint64_t count = 0;
	struct mp_event event;
	struct mp_watch watch = { .size = sizeof(watch), .cookie = 0x123456789abcdefULL };
	struct mp_eventfd notify = { .size = sizeof(notify), .mask = MP_EVENT_SIGNAL };
	struct pollfd poll_fd = { .fd = fabric, .events = POLLIN };

	make_pair(interface, 0, &server, &client);
	watch.target = notify.target = server;
	watch.mask = MP_EVENT_SIGNAL;
	GOES(MP_IOC_WATCH, &watch);
	notify.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	GOES(MP_IOC_EVENTFD, &notify);
	HOLDS(poll(&poll_fd, 1, 0) == 0);
	on_handle(MP_IOC_SIGNAL, client);
	HOLDS(poll(&poll_fd, 1, -1) == 1);
	HOLDS(read(fabric, &event, sizeof(event)) == sizeof(event));
	HOLDS(event.cookie == watch.cookie && event.target == server);
	HOLDS(event.events == MP_EVENT_SIGNAL);
	HOLDS(wait_for(server, MP_EVENT_SIGNAL, MP_DEADLINE_PAST) == MP_EVENT_SIGNAL);
	HOLDS(read(notify.eventfd, &count, sizeof(count)) == sizeof(count) && count == 1);
	has_nothing(server, MP_EVENT_SIGNAL);
	on_handle(MP_IOC_CLOSE, client);
	HOLDS(wait_for(server, MP_EVENT_SIGNAL | MP_EVENT_CLOSED, MP_DEADLINE_NEVER) == MP_EVENT_CLOSED);
	close(notify.eventfd);
}

static void is_of_no_use_to_a_child(void)
{
	struct mp_info info = { .size = sizeof(info) };
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(error_of(MP_IOC_INFO, &info) == EACCES ? 0 : 1);
	HOLDS(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	uint32_t interface;

	fabric = open_context();
	interface = loopback();
	knows_what_it_knew();
	lists_interfaces(interface);
	waits_for_interfaces(interface);
	shows_windows(interface);
	reports_events(interface);
	is_of_no_use_to_a_child();
	return 0;
}
