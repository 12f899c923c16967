/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the windows of a session give without any library: two processes of two hosts write
 * messages into each other's memory and look at their own.
 *
 *   window server [OPTION...]
 *   window client [OPTION...]
 *
 *   --interface N  of the local end of a link; without it, the first one to another host
 *   --uid N        of the server's window
 *   --size N       bytes of a message, a multiple of 8
 *   --rounds N     round trips that are measured
 *   --stream N     messages that are sent one after the other, and copied out by the server
 *
 * The server plays with one client, and is told nothing but interface and uid: everything else
 * comes with the client's first message. The client prints JSON: half a round trip in
 * microseconds, messages per second and MB/s.
 *
 * A message ends in a word that numbers it, which is stored behind all others. The reader looks
 * at that word, and copies the message. A stream has SLOTS places; its reader says in a word
 * how many messages it has copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/mp_fabric.h>

#define PROTOCOL 0xF111D00Cu
#define WINDOW (1u << 20)
#define SIZE_MAX_MESSAGE (64u << 10)
#define SLOTS 8u
/* The clock is read once for so many rounds, which are shorter than reading it. */
#define BATCH 50u
/* How often a window is looked at before somebody has gone. */
#define LOOKS (1ul << 34)

/* At the start of a window: what is to be played, and how much of a stream was copied. */
struct head {
	uint64_t size;
	uint64_t rounds;
	uint64_t stream;
	uint64_t begin;			/* behind the others */
	uint64_t other_line[4];
	uint64_t copied;
};

#define SLOT(n) (4096u + (n) % SLOTS * SIZE_MAX_MESSAGE)

static int fabric;
static uint8_t *near, *far;

static void fail(const char *what)
{
	fprintf(stderr, "window: %s: %s\n", what, errno ? strerror(errno) : "not possible");
	exit(1);
}

static int call(unsigned long number, void *argument)
{
	return ioctl(fabric, number, argument);
}

static void must(unsigned long number, void *argument, const char *what)
{
	if (call(number, argument) < 0)
		fail(what);
}

/* Behind it, what was stored before is on its way ahead of all later stores. */
static inline void flush(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void store(uint32_t at, uint64_t word)
{
	__atomic_store_n((uint64_t *)(far + at), word, __ATOMIC_RELAXED);
}

/* Looks until a word of the own window is at least this. */
static inline uint64_t await(uint32_t at, uint64_t word)
{
	const uint64_t *place = (const uint64_t *)(near + at);
	unsigned long look;

	for (look = 0; look < LOOKS; look++) {
		uint64_t found = __atomic_load_n(place, __ATOMIC_ACQUIRE);

		if (found >= word)
			return found;
#if defined(__x86_64__)
		__asm__ volatile("pause");
#endif
	}
	errno = ETIMEDOUT;
	fail("the partner");
	return 0;
}

/* Writes a message and its number, which leave at once. */
static inline void put(uint32_t at, const uint8_t *message, uint32_t size, uint64_t number)
{
	if (size > 8) {
		memcpy(far + at, message, size - 8);
		flush();
	}
	store(at + size - 8, number);
	flush();
}

static inline void take(uint32_t at, uint8_t *copy, uint32_t size, uint64_t number)
{
	await(at + size - 8, number);
	memcpy(copy, near + at, size);
}

static uint32_t interface_to_another_host(void)
{
	uint32_t ids[64], n;
	struct mp_interfaces all = { .size = sizeof(all), .capacity = 64 };

	all.ids = (uintptr_t)ids;
	must(MP_IOC_INTERFACES, &all, "interfaces");
	for (n = 0; n < all.count; n++) {
		struct mp_interface one = { .size = sizeof(one), .id = ids[n] };

		if (call(MP_IOC_INTERFACE, &one) == 0 && one.flags & MP_INTERFACE_UP &&
		    !(one.flags & MP_INTERFACE_LOOPBACK))
			return one.id;
	}
	fail("no interface to another host is up");
	return 0;
}

static uint8_t *map_window(uint64_t offset, uint64_t size)
{
	void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fabric, (off_t)offset);

	if (start == MAP_FAILED)
		fail("a window");
	return start;
}

static void pair(uint32_t role, uint32_t interface, uint32_t uid)
{
	struct mp_session_open open = {
		.size = sizeof(open), .interface = interface, .role = role,
		.location = MP_LOCATION_LOGICAL, .protocol = PROTOCOL, .uid = uid,
		.local_min = WINDOW, .local_max = WINDOW,
		.remote_min = WINDOW, .remote_max = WINDOW,
	};
	struct mp_wait wait = { .size = sizeof(wait), .mask = MP_EVENT_PAIRED };
	struct mp_session session = { .size = sizeof(session) };
	int attempt;

	/* The server may begin a little later. */
	for (attempt = 0; call(MP_IOC_SESSION_OPEN, &open) < 0; attempt++) {
		if (errno != ECONNREFUSED || attempt == 2000)
			fail("a session");
		usleep(10000);
	}
	wait.target = session.handle = open.handle;
	wait.deadline = MP_DEADLINE_NEVER;
	must(MP_IOC_WAIT, &wait, "a partner");
	must(MP_IOC_SESSION, &session, "the session");
	near = map_window(session.local_offset, session.local_size);
	far = map_window(session.remote_offset, session.remote_size);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void serve(void)
{
	const struct head *head = (const struct head *)near;
	static uint8_t message[SIZE_MAX_MESSAGE];
	uint64_t size, n;

	await(offsetof(struct head, begin), 1);
	size = head->size;
	if (size < 8 || size > SIZE_MAX_MESSAGE || size % 8)
		fail("the client's size");
	for (n = 1; n <= head->rounds; n++) {
		take(SLOT(0), message, (uint32_t)size, n);
		put(SLOT(0), message, (uint32_t)size, n);
	}
	for (n = 0; n < head->stream; n++) {
		take(SLOT(n), message, (uint32_t)size, head->rounds + 1 + n);
		if (n % (SLOTS / 4) == SLOTS / 4 - 1 || n + 1 == head->stream) {
			store(offsetof(struct head, copied), n + 1);
			flush();
		}
	}
	/* Until the client has gone. */
	await(offsetof(struct head, begin), 2);
}

static void play(uint32_t size, uint64_t rounds, uint64_t stream)
{
	static uint8_t message[SIZE_MAX_MESSAGE], copy[SIZE_MAX_MESSAGE];
	uint64_t n = 0, batches = rounds / BATCH, batch, copied = 0;
	double *times = calloc(batches + 1, sizeof(*times)), start, took;

	if (!times || size < 8 || size > SIZE_MAX_MESSAGE || size % 8)
		fail("the size");
	memset(message, 0x5a, sizeof(message));
	store(offsetof(struct head, size), size);
	store(offsetof(struct head, rounds), batches * BATCH);
	store(offsetof(struct head, stream), stream);
	flush();
	store(offsetof(struct head, begin), 1);
	flush();
	for (batch = 0; batch < batches; batch++) {
		uint32_t round;

		start = now();
		for (round = 0; round < BATCH; round++) {
			n++;
			put(SLOT(0), message, size, n);
			take(SLOT(0), copy, size, n);
		}
		times[batch] = (now() - start) / BATCH;
	}
	if (batches && memcmp(message, copy, size - 8))
		fail("what came back");
	qsort(times, batches, sizeof(*times), by_size);
	start = now();
	for (n = 0; n < stream; n++) {
		while (n - copied >= SLOTS)
			copied = await(offsetof(struct head, copied), copied + 1);
		put(SLOT(n), message, size, batches * BATCH + 1 + n);
	}
	if (stream)
		await(offsetof(struct head, copied), stream);
	took = now() - start;
	printf("{\"size\": %u, \"rounds\": %llu, \"one_way_us\": %.4f, ", size,
	       (unsigned long long)(batches * BATCH), batches ? times[batches / 2] * 5e5 : 0.0);
	printf("\"stream\": %llu, \"messages_s\": %.1f, \"mb_s\": %.2f}\n",
	       (unsigned long long)stream, stream ? (double)stream / took : 0.0,
	       stream ? (double)stream * size / took / 1e6 : 0.0);
	store(offsetof(struct head, begin), 2);
	flush();
}

int main(int count, char **words)
{
	unsigned long interface = 0, uid = 4713, size = 8, rounds = 0, stream = 0;
	const struct { const char *name; unsigned long *value; } options[] = {
		{ "--interface", &interface }, { "--uid", &uid }, { "--size", &size },
		{ "--rounds", &rounds }, { "--stream", &stream },
	};
	int server = count > 1 && !strcmp(words[1], "server"), n;
	unsigned int option;

	if (!server && (count < 2 || strcmp(words[1], "client")))
		fail("server or client");
	for (n = 2; n + 1 < count; n += 2) {
		for (option = 0; option < sizeof(options) / sizeof(*options); option++)
			if (!strcmp(words[n], options[option].name))
				break;
		if (option == sizeof(options) / sizeof(*options))
			fail(words[n]);
		*options[option].value = strtoul(words[n + 1], NULL, 0);
	}
	if (n < count)
		fail(words[n]);
	fabric = open("/dev/" MP_FABRIC_DEVICE, O_RDWR | O_CLOEXEC);
	if (fabric < 0)
		fail(MP_FABRIC_DEVICE);
	if (!interface)
		interface = interface_to_another_host();
	pair(server ? MP_ROLE_SERVER : MP_ROLE_CLIENT, (uint32_t)interface, (uint32_t)uid);
	if (server)
		serve();
	else
		play((uint32_t)size, rounds, stream);
	return 0;
}
