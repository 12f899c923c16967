// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes calls of the fabric's device as its input tells, for tests; tests/rig/sharing.py
 * is the other end, and common/shell.h says what the input looks like.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/shell.h"

#define DEVICE "/dev/mp_fabric"
#define PAGE 4096

static int device;
/* What structures may point to. */
static uint8_t buffer[ROOM];

/* A call of the device, with its structure. */
struct request {
	unsigned long number;
	uint8_t data[ROOM];
	size_t length;
};

static void take_request(struct call *call, struct request *request)
{
	request->number = number(call);
	request->length = bytes(call, word(call), request->data, sizeof(request->data));
}

/* The errno of it, or 0. */
static int perform(struct request *request)
{
	return ioctl(device, request->number, request->data) ? errno : 0;
}

static void call_device(struct call *call)
{
	struct request request;

	take_request(call, &request);
	answer_number(call, "errno", perform(&request));
	answer_bytes(call, "bytes", request.data, request.length);
}

/* As call_device(), with the structure where it is. */
static void call_at(struct call *call)
{
	unsigned long request = number(call);

	answer_number(call, "errno",
		      ioctl(device, request, (void *)(uintptr_t)number(call)) ? errno : 0);
}

/* Many calls; how many succeeded before one failed. */
static void repeat(struct call *call)
{
	uint64_t count = number(call), done = 0;
	struct request request;

	take_request(call, &request);
	while (done < count && !perform(&request))
		done++;
	answer_number(call, "done", done);
}

/* Calls with so many handles; how many have not failed with ENOENT. */
static void guess(struct call *call)
{
	uint32_t handle = number(call), step;
	uint64_t count = number(call), found = 0;
	struct request request;
	uint8_t fresh[ROOM];

	step = number(call);
	take_request(call, &request);
	memcpy(fresh, request.data, request.length);
	while (count--) {
		/* A call that has succeeded may have changed it. */
		memcpy(request.data, fresh, request.length);
		memcpy(request.data + sizeof(handle), &handle, sizeof(handle));
		found += perform(&request) != ENOENT;
		handle += step;
	}
	answer_number(call, "done", found);
}

/* --- files and children */

static void open_device(struct call *call)
{
	uint64_t count = number(call), done = 0;

	while (done < count && open(DEVICE, O_RDWR | O_CLOEXEC) >= 0)
		done++;
	answer_number(call, "done", done);
}

/* Takes a file from a socket, and passes it on if it is given one. */
static int over_socket(int socket, int file)
{
	char byte = 0;
	struct iovec vector = { &byte, 1 };
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	struct cmsghdr *header;

	if (file < 0) {
		if (recvmsg(socket, &message, 0) != 1)
			return -1;
		header = CMSG_FIRSTHDR(&message);
		if (header)
			memcpy(&file, CMSG_DATA(header), sizeof(file));
		return file;
	}
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(file));
	memcpy(CMSG_DATA(header), &file, sizeof(file));
	return sendmsg(socket, &message, 0) == 1 ? file : -1;
}

/* The errno of a call by a child, which has the file from its parent, or over a socket. */
static int by_child(int is_passed, struct request *request)
{
	int sockets[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return -1;
	child = fork();
	if (!child) {
		if (is_passed) {
			close(device);
			device = over_socket(sockets[1], -1);
		}
		_exit(device < 0 ? 255 : perform(request));
	}
	if (is_passed)
		over_socket(sockets[0], device);
	close(sockets[0]);
	close(sockets[1]);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void answer_by_child(struct call *call, int is_passed)
{
	struct request request;

	take_request(call, &request);
	answer(call, ", \"done\": %d", by_child(is_passed, &request));
}

/* What a child is told that polls the file. */
static void poll_in_child(struct call *call)
{
	struct pollfd polled = { .fd = device, .events = POLLIN };
	int status;
	pid_t child = fork();

	if (!child)
		_exit(poll(&polled, 1, 0) < 0 ? 255 : polled.revents & 0xFF);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		call->complaint = "no child";
	else
		answer_number(call, "done", WEXITSTATUS(status));
}

/* What the process is told that polls the file for some of what there may be. */
static void poll_for(struct call *call)
{
	struct pollfd polled = { .fd = device, .events = number(call) };

	if (poll(&polled, 1, 0) < 0)
		call->complaint = "no poll";
	else
		answer_number(call, "done", polled.revents);
}

static void inherit(struct call *call)
{
	answer_by_child(call, 0);
}

static void pass(struct call *call)
{
	answer_by_child(call, 1);
}

/* --- descriptors */

static uint64_t places;
static pthread_barrier_t crowded;

/* Gives the calling thread a table of descriptors of its own, with that many places. */
static int part(void)
{
	struct rlimit limit = { places, places };

	return unshare(CLONE_FILES) || setrlimit(RLIMIT_NOFILE, &limit) ||
	       dup2(STDIN_FILENO, places - 1) < 0 || close(places - 1);
}

static void *stay(void *parted)
{
	*(int *)parted = !part();
	pthread_barrier_wait(&crowded);
	while (pause())
		;
	return NULL;
}

/* Threads with tables of their own; how many have one. */
static void crowd(struct call *call)
{
	uint64_t count = number(call), found = 0;
	int parted[64] = { 0 };
	pthread_t thread;

	places = number(call);
	if (count > 64 || pthread_barrier_init(&crowded, NULL, count + 1)) {
		call->complaint = "too many threads";
		return;
	}
	for (uint64_t n = 0; n < count; n++)
		if (pthread_create(&thread, NULL, stay, &parted[n]))
			abort();
	pthread_barrier_wait(&crowded);
	for (uint64_t n = 0; n < count; n++)
		found += parted[n];
	answer_number(call, "done", found);
}

/*
 * Opens a file in a table of this thread's own, at its last place, and duplicates and closes
 * that so many times; how often, and the microseconds.
 */
static void copies(struct call *call)
{
	uint64_t count = number(call), done = 0, start;
	int file = part() ? -1 : open(word(call), O_RDWR | O_CLOEXEC);
	int last = dup2(file, places - 1);

	close(file);
	start = now();
	while (done < count && !close(dup(last)))
		done++;
	answer_number(call, "spent", now() - start);
	answer_number(call, "done", done);
	close(last);
}

/* The device by another descriptor, and by no other. */
static void move(struct call *call)
{
	int before = device;

	device = fcntl(before, F_DUPFD_CLOEXEC, 0);
	answer_number(call, "errno", device < 0 || close(before) ? errno : 0);
}

static void leave(struct call *call)
{
	answer_number(call, "errno", close(device) ? errno : 0);
}

/* A child that inherits all descriptors and stays; its id. */
static void linger(struct call *call)
{
	pid_t child = fork();

	while (!child)
		pause();
	answer_number(call, "done", child);
}

/* --- memory */

static void tell_buffer(struct call *call)
{
	answer_number(call, "address", (uintptr_t)buffer);
}

static void map(struct call *call)
{
	uint64_t offset = number(call), length = number(call);
	const char *how = call->next < call->count ? word(call) : "rw";
	int access = PROT_READ | (strcmp(how, "rw") ? 0 : PROT_WRITE) |
		     (strcmp(how, "rx") ? 0 : PROT_EXEC);
	void *at = mmap(NULL, length, access, MAP_SHARED, device, offset);

	answer_number(call, "errno", at == MAP_FAILED ? errno : 0);
	answer_number(call, "address", (uintptr_t)at);
}

/* The first bytes of this program's file, which is mapped to be read. */
static void program(struct call *call)
{
	uint64_t length = number(call);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);

	answer_number(call, "errno", at == MAP_FAILED ? errno : 0);
	answer_number(call, "address", (uintptr_t)at);
	close(file);
}

static void unmap(struct call *call)
{
	struct span s = span(call);

	answer_number(call, "errno", munmap(s.start, s.length) ? errno : 0);
}

/* Asks for the permission to execute what is mapped there. */
static void execute(struct call *call)
{
	struct span s = span(call);

	answer_number(call, "errno", mprotect(s.start, s.length, PROT_READ | PROT_EXEC) ? errno : 0);
}

/* Maps so many pages one by one; how many are there. */
static void guess_pages(struct call *call)
{
	uint64_t page = number(call), count = number(call), found = 0;
	void *at;

	for (; count--; page++) {
		at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, device, page * PAGE);
		if (at == MAP_FAILED)
			continue;
		munmap(at, PAGE);
		found++;
	}
	answer_number(call, "done", found);
}

/* Reads records of events, and waits for the first one; how many bytes there are. */
static void records(struct call *call)
{
	struct span s = span(call);
	ssize_t got = read(device, s.start, s.length);

	answer_number(call, "errno", got < 0 ? errno : 0);
	answer_number(call, "done", got < 0 ? 0 : got);
}

/* How many words are not zero. */
static void scan(struct call *call)
{
	struct span s = span(call);
	const volatile uint64_t *at = (const volatile uint64_t *)s.start;
	const volatile uint64_t *end = at + s.length / sizeof(*at);
	uint64_t found = 0;

	while (at < end)
		found += *at++ != 0;
	answer_number(call, "done", found);
}

/* Memory that begins where a huge page can. */
static void *aligned(size_t length)
{
	const size_t huge = 2 << 20;
	uint8_t *start = mmap(NULL, length + huge, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	madvise(start, length + huge, length < huge ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	start += -(uintptr_t)start & (huge - 1);
	/* The kernel gives pages in a row as a rule: not in this direction. */
	for (size_t at = length; at; at -= at < PAGE ? at : PAGE)
		((volatile uint8_t *)start)[at - 1] = 0;
	return start;
}

static void memory(struct call *call)
{
	answer_number(call, "address", (uintptr_t)aligned(number(call)));
}

static const struct command commands[] = {
	{ "ioctl", call_device },	/* NUMBER BYTES */
	{ "at", call_at },		/* NUMBER ADDRESS */
	{ "repeat", repeat },		/* COUNT NUMBER BYTES */
	{ "guess", guess },		/* FIRST COUNT STEP NUMBER BYTES */
	{ "open", open_device },	/* COUNT: how often that has succeeded */
	{ "child", inherit },		/* NUMBER BYTES */
	{ "pass", pass },		/* NUMBER BYTES */
	{ "childpoll", poll_in_child },
	{ "poll", poll_for },		/* EVENTS: those of them that there are */
	{ "crowd", crowd },		/* COUNT PLACES: threads with tables of their own */
	{ "copies", copies },		/* COUNT FILE: of a descriptor, closed at once; with "&" */
	{ "move", move },
	{ "leave", leave },
	{ "linger", linger },		/* its id */
	{ "buffer", tell_buffer },	/* its address */
	{ "map", map },			/* OFFSET LENGTH [ro|rx] */
	{ "unmap", unmap },		/* ADDRESS LENGTH */
	{ "execute", execute },		/* ADDRESS LENGTH */
	{ "guessmap", guess_pages },	/* FIRST COUNT */
	{ "records", records },		/* ADDRESS LENGTH */
	{ "scan", scan },		/* ADDRESS LENGTH */
	{ "program", program },		/* LENGTH: of its file, to be read */
	{ "memory", memory },		/* LENGTH: huge pages, or pages that are no run */
	{ NULL, NULL },
};

int main(void)
{
	device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0) {
		perror(DEVICE);
		return 1;
	}
	return shell(commands);
}
