// SPDX-License-Identifier: GPL-2.0-only
/* A program of version 1: queues, which copy in both directions. */
#include "common.h"

static uint32_t queue;

static void done(const volatile uint64_t *words)
{
	struct mp_queue info = { .size = sizeof(info), .handle = queue };

	wait_for(queue, MP_EVENT_DONE, MP_DEADLINE_NEVER);
	GOES(MP_IOC_QUEUE, &info);
	HOLDS(info.state == MP_QUEUE_DONE && info.entries == 4);
	HOLDS(state_in(words, info.status) == MP_QUEUE_DONE);
}

int main(void)
{
	/* An element that is longer than the kernel knows. */
	struct {
		struct mp_copy copy;
		uint64_t later;
	} copies[2] = {
		{ .copy = { .local = 0, .remote = 64, .length = 8 } },
		{ .copy = { .local = 8, .remote = PAGE, .length = 8 } },
	};
	uint64_t own[2] = { 3, 4 };
	struct mp_copy copy = { .local = address(own), .remote = 128, .length = sizeof(own) };
	struct mp_queue_create create = { .size = sizeof(create), .entries = 4 };
	struct mp_queue_start start = {
		.size = sizeof(start), .count = 2, .copies = address(copies),
		.copy_size = sizeof(copies[0]),
	};
	struct mp_handle abort = { .size = sizeof(abort) };
	struct mp_segment segment = { .size = sizeof(segment) };
	volatile uint64_t *from, *to;
	const volatile uint64_t *words;
	uint32_t target;

	fabric = open_context();
	words = status_words();
	create.interface = loopback();
	GOES(MP_IOC_QUEUE_CREATE, &create);
	queue = start.handle = abort.handle = create.handle;
	GIVES(ENXIO, MP_IOC_QUEUE_ABORT, &abort);
	start.segment = segment.handle = publish(create.interface, 81, PAGE);
	GOES(MP_IOC_SEGMENT, &segment);
	from = map_at(segment.offset, segment.length);
	segment.handle = target = publish(create.interface, 82, 2 * PAGE);
	GOES(MP_IOC_SEGMENT, &segment);
	to = map_at(segment.offset, segment.length);
	start.connection = connect_to(create.interface, MP_OBJECT_SEGMENT, 82, 0);

	from[0] = 1;
	from[1] = 2;
	GOES(MP_IOC_QUEUE_START, &start);
	done(words);
	HOLDS(to[8] == 1 && to[PAGE / 8] == 2);
	copies[1].later = 1;
	GIVES(E2BIG, MP_IOC_QUEUE_START, &start);

	start.segment = 0;
	start.count = 1;
	start.copies = address(&copy);
	start.copy_size = 0;
	start.flags = MP_QUEUE_PINNED;
	GOES(MP_IOC_QUEUE_START, &start);
	done(words);
	HOLDS(to[16] == 3 && to[17] == 4);
	to[16] = 5;
	start.flags = MP_QUEUE_PINNED | MP_QUEUE_READ;
	GOES(MP_IOC_QUEUE_START, &start);
	done(words);
	HOLDS(own[0] == 5 && own[1] == 4);
	GOES(MP_IOC_QUEUE_ABORT, &abort);
	on_handle(MP_IOC_CLOSE, queue);
	GIVES(ENOENT, MP_IOC_QUEUE_ABORT, &abort);
	return 0;
}
