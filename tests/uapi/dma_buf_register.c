// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments over dma-bufs of other drivers.
 *
 *   dma_buf_register SCENARIO
 *
 * Each scenario ends with an error if anything is not as it has to be. There is a peer, and a bridge
 * whose windows this host leads.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "../uapi-v1/common.h"

#define RIGHTS (MP_GRANT_READ | MP_GRANT_WRITE)
#define TEST "/sys/kernel/mp_dmabuf_test/"
/* Milliseconds that a driver takes which has other things to do. */
#define LONG 4000

static uint32_t interface;

static uint32_t first_bridge(void)
{
	uint32_t ids[64], n;
	struct mp_interfaces all = { .size = sizeof(all), .capacity = 64, .ids = address(ids) };

	GOES(MP_IOC_INTERFACES, &all);
	for (n = 0; n < all.count; n++) {
		struct mp_interface one = { .size = sizeof(one), .id = ids[n] };

		GOES(MP_IOC_INTERFACE, &one);
		if (one.flags & MP_INTERFACE_UP && !(one.flags & MP_INTERFACE_LOOPBACK))
			return one.id;
	}
	HOLDS(!"an interface to a peer");
	return 0;
}

static void command(const char *what, unsigned long value)
{
	FILE *file = fopen(TEST "command", "w");

	HOLDS(file);
	HOLDS(fprintf(file, "%s 0 %lu", what, value) > 0);
	HOLDS(fclose(file) == 0);
}

static unsigned long result(void)
{
	FILE *file = fopen(TEST "result", "r");
	unsigned long value;

	HOLDS(file && fscanf(file, "%lu", &value) == 1);
	fclose(file);
	return value;
}

/* A dma-buf of the test's driver, of so many pages. */
static int make(unsigned long pages)
{
	command("make", pages);
	return (int)result();
}

/* How many devices the driver has the memory mapped for. */
static unsigned long mapped(void)
{
	command("mapped", 0);
	return result();
}

static uint32_t empty_segment(uint32_t id, uint64_t length)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .flags = MP_SEGMENT_EMPTY, .id = id, .length = length,
	};

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	return create.handle;
}

static struct mp_segment_register part(uint32_t handle, int fd, uint64_t at, uint64_t length)
{
	return (struct mp_segment_register) {
		.size = sizeof(struct mp_segment_register), .handle = handle,
		.flags = MP_REGISTER_DMABUF, .fd = fd, .address = at, .length = length,
	};
}

static int at_interface(unsigned long number, uint32_t handle, uint32_t at)
{
	struct mp_segment_interface place = { .size = sizeof(place), .handle = handle, .interface = at };

	return error_of(number, &place);
}

/* Its errors, in order. */
static void refuses_what_cannot_be(void)
{
	uint32_t handle = empty_segment(820, 2 * PAGE);
	int fd = make(2), other = open("/dev/null", O_RDWR);
	struct mp_segment_register given = part(handle, fd, 0, PAGE);
	int readable;

	given.flags |= MP_REGISTER_READ_ONLY;
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given.flags = 0;
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, 8, PAGE);
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, 0, PAGE + 8);
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, 0, 3 * PAGE);
	GIVES(ERANGE, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, 1000, 0, PAGE);
	GIVES(EBADF, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, other, 0, PAGE);
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fabric, 0, PAGE);
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, PAGE, 2 * PAGE);
	GIVES(ERANGE, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, ~0ull << 12, PAGE);
	GIVES(ERANGE, MP_IOC_SEGMENT_REGISTER, &given);
	command("make-readable", 1);
	readable = (int)result();
	given = part(handle, readable, 0, PAGE);
	GIVES(EACCES, MP_IOC_SEGMENT_REGISTER, &given);
	given = part(handle, fd, PAGE, PAGE);
	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GIVES(EEXIST, MP_IOC_SEGMENT_REGISTER, &given);
}

/* The kernel neither copies it nor maps it, and it is no dma-buf of the segment's. */
static void is_for_windows_only(void)
{
	uint32_t handle = empty_segment(821, PAGE), own = loopback();
	struct mp_segment_register given = part(handle, make(1), 0, PAGE);
	struct mp_segment info = { .size = sizeof(info), .handle = handle };
	struct mp_segment_dmabuf again = { .size = sizeof(again), .handle = handle, .rights = RIGHTS };
	struct mp_segment_interface placed = {
		.size = sizeof(placed), .handle = handle, .interface = own, .flags = MP_PUBLISH_PLACED,
	};

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GOES(MP_IOC_SEGMENT, &info);
	HOLDS(info.length == PAGE && info.offset == 0);
	GIVES(EOPNOTSUPP, MP_IOC_SEGMENT_DMABUF, &again);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, own) == 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PUBLISH, handle, own) == EOPNOTSUPP);
	GIVES(EOPNOTSUPP, MP_IOC_SEGMENT_PUBLISH, &placed);
}

/* Neither out of it nor into it, in the background or not. */
static void is_not_copied(void)
{
	struct mp_queue_create create = {
		.size = sizeof(create), .interface = loopback(), .entries = 1,
	};
	struct mp_copy copy = { .length = 8 };
	struct mp_queue_start start = {
		.size = sizeof(start), .count = 1, .copies = address(&copy), .copy_size = sizeof(copy),
	};
	struct mp_queue info = { .size = sizeof(info) };
	struct mp_segment_register given;
	uint32_t handle = empty_segment(828, PAGE);

	given = part(handle, make(1), 0, PAGE);
	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GOES(MP_IOC_QUEUE_CREATE, &create);
	info.handle = start.handle = create.handle;
	publish(create.interface, 829, PAGE);
	start.connection = connect_to(create.interface, MP_OBJECT_SEGMENT, 829, 0);
	start.segment = handle;
	GIVES(ENXIO, MP_IOC_QUEUE_START, &start);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, create.interface) == 0);
	GIVES(EOPNOTSUPP, MP_IOC_QUEUE_START, &start);
	start.flags = MP_QUEUE_READ;
	GIVES(EOPNOTSUPP, MP_IOC_QUEUE_START, &start);
	GOES(MP_IOC_QUEUE, &info);
	HOLDS(info.state == MP_QUEUE_IDLE);
	HOLDS(mapped() == 0);
	on_handle(MP_IOC_CLOSE, handle);
}

/* The driver keeps the memory where it is from preparing on until the segment is gone. */
static void is_mapped_from_preparing_on(void)
{
	uint32_t handle = empty_segment(822, PAGE);
	int fd = make(1);
	struct mp_segment_register given = part(handle, fd, 0, PAGE);

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	close(fd);
	HOLDS(mapped() == 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, interface) == 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, interface) == 0);
	HOLDS(mapped() == 1);
	HOLDS(at_interface(MP_IOC_SEGMENT_PUBLISH, handle, interface) == 0);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(mapped() == 0);
}

/* Also if a descriptor has the segment for others: for peers it has ended with its owner. */
static void is_not_mapped_for_what_has_ended(void)
{
	uint32_t handle = empty_segment(827, PAGE);
	int fd = make(1);
	struct mp_segment_register given = part(handle, fd, 0, PAGE);
	struct mp_export export = { .size = sizeof(export), .handle = handle, .rights = MP_GRANT_READ };
	struct mp_import import = { .size = sizeof(import) };

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	close(fd);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, interface) == 0);
	GOES(MP_IOC_EXPORT, &export);
	HOLDS(mapped() == 1);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(mapped() == 0);
	import.fd = export.fd;
	GOES(MP_IOC_IMPORT, &import);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, import.handle, interface) == EACCES);
	on_handle(MP_IOC_CLOSE, import.handle);
	close(export.fd);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static void *prepares(void *handle)
{
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, *(uint32_t *)handle, interface) == 0);
	return NULL;
}

/* While a driver takes its time, others go on. */
static void holds_up_nobody(void)
{
	uint32_t handle = empty_segment(823, PAGE), other;
	struct mp_segment_register given = part(handle, make(1), 0, PAGE);
	struct mp_segment_create create = { .size = sizeof(create), .id = 824, .length = PAGE };
	struct timespec nap = { .tv_nsec = 300000000 };
	uint64_t begin = now_ms();
	pthread_t thread;

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	command("slow", LONG);
	HOLDS(pthread_create(&thread, NULL, prepares, &handle) == 0);
	nanosleep(&nap, NULL);
	GOES(MP_IOC_SEGMENT_CREATE, &create);
	other = create.handle;
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, other, interface) == 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PUBLISH, other, interface) == 0);
	on_handle(MP_IOC_CLOSE, other);
	HOLDS(at_interface(MP_IOC_SEGMENT_PUBLISH, handle, interface) == ENXIO);
	HOLDS(mapped() == 0);
	HOLDS(now_ms() - begin < LONG);
	HOLDS(pthread_join(thread, NULL) == 0);
	HOLDS(now_ms() - begin >= LONG && mapped() == 1);
	command("slow", 0);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(mapped() == 0);
}

static void ignore(int number)
{
	(void)number;
}

/* A signal ends the wait for a driver. */
static void is_ended_by_a_signal(void)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerval soon = { .it_value.tv_usec = 200000, .it_interval.tv_usec = 200000 };
	struct itimerval never = { 0 };
	uint32_t handle = empty_segment(825, PAGE);
	struct mp_segment_register given = part(handle, make(1), 0, PAGE);
	uint64_t begin = now_ms();

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	command("slow", LONG);
	HOLDS(sigaction(SIGALRM, &action, NULL) == 0);
	HOLDS(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, interface) == EINTR);
	HOLDS(setitimer(ITIMER_REAL, &never, NULL) == 0);
	HOLDS(now_ms() - begin < LONG && mapped() == 0);
	command("slow", 0);
	HOLDS(at_interface(MP_IOC_SEGMENT_PUBLISH, handle, interface) == ENXIO);
	HOLDS(at_interface(MP_IOC_SEGMENT_PREPARE, handle, interface) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "refused", refuses_what_cannot_be },
	{ "windows", is_for_windows_only },
	{ "copies", is_not_copied },
	{ "mapped", is_mapped_from_preparing_on },
	{ "ended", is_not_mapped_for_what_has_ended },
	{ "slow", holds_up_nobody },
	{ "signal", is_ended_by_a_signal },
};

int main(int argc, char **argv)
{
	uint32_t n;

	HOLDS(argc == 2);
	fabric = open_context();
	interface = first_bridge();
	for (n = 0; n < sizeof(scenarios) / sizeof(scenarios[0]); n++) {
		if (!strcmp(argv[1], scenarios[n].name)) {
			scenarios[n].run();
			return 0;
		}
	}
	HOLDS(!"a scenario of that name");
	return 1;
}
