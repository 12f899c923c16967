/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What programs of version 1 have in common. They are built against the headers beside them, which
 * stay as they are, and run on modules of later releases.
 */
#ifndef UAPI_V1_COMMON_H
#define UAPI_V1_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/mp_fabric.h>

#define PAGE 0x1000u

/* The context that calls are made on. */
static int fabric = -1;

/* Ends the program unless something is so. */
#define HOLDS(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                               \
		}                                                              \
	} while (0)

static inline int error_of(unsigned long number, void *argument)
{
	return ioctl(fabric, number, argument) < 0 ? errno : 0;
}

/* Ends the program unless a call succeeds, or fails with this. */
#define GIVES(error, number, argument)                                         \
	do {                                                                   \
		int found_ = error_of(number, argument);                       \
									       \
		if (found_ != (error)) {                                       \
			fprintf(stderr, "%s:%d: %s: %s, and not: %s\n", __FILE__, __LINE__, \
				#number, strerror(found_), strerror(error));   \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define GOES(number, argument) GIVES(0, number, argument)

static inline uint64_t address(const void *of)
{
	return (uintptr_t)of;
}

static inline int open_context(void)
{
	int file = open("/dev/" MP_FABRIC_DEVICE, O_RDWR | O_CLOEXEC);

	HOLDS(file >= 0);
	return file;
}

/* The interface to this host itself, which is always up. */
static inline uint32_t loopback(void)
{
	uint32_t ids[64], n;
	struct mp_interfaces all = { .size = sizeof(all), .capacity = 64, .ids = address(ids) };

	GOES(MP_IOC_INTERFACES, &all);
	for (n = 0; n < all.count; n++) {
		struct mp_interface one = { .size = sizeof(one), .id = ids[n] };

		GOES(MP_IOC_INTERFACE, &one);
		if (one.flags & MP_INTERFACE_LOOPBACK)
			return one.id;
	}
	HOLDS(!"an interface to itself");
	return 0;
}

static inline uint32_t wait_for(uint32_t handle, uint32_t mask, uint64_t deadline)
{
	struct mp_wait wait = {
		.size = sizeof(wait), .target = handle, .mask = mask, .deadline = deadline,
	};

	GOES(MP_IOC_WAIT, &wait);
	return wait.events;
}

static inline void has_nothing(uint32_t handle, uint32_t mask)
{
	struct mp_wait wait = { .size = sizeof(wait), .target = handle, .mask = mask };

	GIVES(ETIMEDOUT, MP_IOC_WAIT, &wait);
}

static inline void on_handle(unsigned long number, uint32_t handle)
{
	struct mp_handle of = { .size = sizeof(of), .handle = handle };

	GOES(number, &of);
}

static inline struct mp_session_open session_at(uint32_t interface, uint32_t role, uint64_t bytes)
{
	return (struct mp_session_open) {
		.size = sizeof(struct mp_session_open), .interface = interface, .role = role,
		.location = MP_LOCATION_LOGICAL, .protocol = 0x56310001,
		.local_min = bytes, .local_max = bytes, .remote_min = bytes, .remote_max = bytes,
		.flags = bytes ? 0 : MP_SESSION_NO_WINDOWS,
	};
}

/* Two sessions of this context that are a pair, with windows of that size. */
static inline void make_pair(uint32_t interface, uint64_t bytes, uint32_t *server, uint32_t *client)
{
	struct mp_session_open open = session_at(interface, MP_ROLE_SERVER, bytes);

	GOES(MP_IOC_SESSION_OPEN, &open);
	*server = open.handle;
	open = session_at(interface, MP_ROLE_CLIENT, bytes);
	GOES(MP_IOC_SESSION_OPEN, &open);
	*client = open.handle;
	HOLDS(wait_for(*server, MP_EVENT_PAIRED, MP_DEADLINE_NEVER) == MP_EVENT_PAIRED);
}

static inline volatile uint64_t *map_at(uint64_t offset, uint64_t length)
{
	void *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fabric, (off_t)offset);

	HOLDS(start != MAP_FAILED);
	return start;
}

/* The status words of the context. */
static inline const volatile uint64_t *status_words(void)
{
	struct mp_info info = { .size = sizeof(info) };
	void *start;

	GOES(MP_IOC_INFO, &info);
	HOLDS(info.status_length != 0);
	start = mmap(NULL, info.status_length, PROT_READ, MAP_SHARED, fabric,
		     (off_t)info.status_offset);
	HOLDS(start != MAP_FAILED);
	return start;
}

static inline uint32_t state_in(const volatile uint64_t *words, uint32_t status)
{
	return MP_STATUS_STATE(words[status / sizeof(*words)]);
}

/* A segment with that id, which is published at an interface. */
static inline uint32_t publish(uint32_t interface, uint32_t id, uint64_t length)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .id = id, .length = length,
	};
	struct mp_segment_interface at = { .size = sizeof(at), .interface = interface };

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	at.handle = create.handle;
	GOES(MP_IOC_SEGMENT_PREPARE, &at);
	GOES(MP_IOC_SEGMENT_PUBLISH, &at);
	return create.handle;
}

static inline uint32_t connect_to(uint32_t interface, uint32_t object, uint32_t number, uint32_t flags)
{
	struct mp_connect connect = {
		.size = sizeof(connect), .flags = flags, .interface = interface,
		.object = object, .number = number, .deadline = MP_DEADLINE_NEVER,
	};

	GOES(MP_IOC_CONNECT, &connect);
	return connect.handle;
}

static inline int remove_error(uint32_t handle, uint32_t flags)
{
	struct mp_remove remove = { .size = sizeof(remove), .handle = handle, .flags = flags };

	return error_of(MP_IOC_REMOVE, &remove);
}

#endif
