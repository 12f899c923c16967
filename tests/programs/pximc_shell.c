// SPDX-License-Identifier: GPL-2.0
/*
 * Calls the functions of PXImc as its input tells, for tests; tests/rig/pximc.py is the
 * other end. Each line of input is a command, each line of output the answer to one:
 *
 *	TAG [&] [fork] COMMAND [ARGUMENT...]
 *	{"tag": TAG, "us": MICROSECONDS, ...}
 *
 * With "&", the command is run in a thread, and the next line is read at once. With
 * "fork", it is run in a child, which then ends. Commands that are named like functions
 * take the arguments of the header, in its order; the status and everything that the
 * function may have written is answered. Outputs and buffers are filled with UNTOUCHED
 * before. A pointer is "null", "-" for one that is aligned, or "+N" for one that is N
 * bytes off; bytes are "-" for none or hexadecimal. The other commands use memory, or
 * end the process; see the table below.
 *
 * At the end of its input the program returns without closing anything.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pximc.h"

#define UNTOUCHED 0xEE
#define ROOM 4096		/* most bytes of a function's output that are shown */
#define GUARD 16		/* bytes before and after a buffer that nobody may write */
#define LONGEST_ANSWER (4 * ROOM)
#define MAX_WORDS 20

/* What a command is given, and what it answers. */
struct call {
	char *words[MAX_WORDS];
	unsigned int count, next;
	const char *complaint;
	char answer[LONGEST_ANSWER];
	size_t used;
};

struct command {
	const char *name;
	void (*run)(struct call *call);
};

/* One line of input. */
struct job {
	char *line;
	const struct command *command;
	const char *tag;
	struct call call;
	int forks;
};

/* A buffer for a function to write to, with its guards. */
struct buffer {
	_Alignas(16) uint8_t bytes[GUARD + ROOM + GUARD];
	uint8_t *start;
};

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
/* Where a thread goes on that has touched memory that is not there. */
static __thread sigjmp_buf *escape;

/* --- arguments */

static const char *word(struct call *call)
{
	if (call->next < call->count)
		return call->words[call->next++];
	call->complaint = "an argument is missing";
	return "0";
}

static uint64_t number(struct call *call)
{
	const char *text = word(call);
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end)
		call->complaint = "an argument is wrong";
	return value;
}

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

/* Bytes; their number is not limited to what functions allow. */
static uint8_t *bytes(struct call *call, uint8_t room[ROOM], size_t *length)
{
	const char *text = word(call);
	unsigned int byte;

	*length = 0;
	if (!strcmp(text, "null"))
		return NULL;
	while (*length < ROOM && sscanf(text, "%2x", &byte) == 1 && text[1]) {
		room[(*length)++] = byte;
		text += 2;
	}
	if (*text && strcmp(text, "-"))
		call->complaint = "an argument is not hexadecimal";
	return room;
}

/* --- answers */

static void answer(struct call *call, const char *format, ...)
{
	size_t room = sizeof(call->answer) - call->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(call->answer + call->used, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		call->complaint = "there is no room for all of it";
	else
		call->used += length;
}

static void answer_status(struct call *call, tPXIMC_Status status)
{
	answer(call, ", \"status\": %d", status);
}

static void answer_number(struct call *call, const char *name, uint64_t value)
{
	answer(call, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void answer_bytes(struct call *call, const char *name, const uint8_t *bytes, size_t length)
{
	size_t i;

	answer(call, ", \"%s\": \"", name);
	for (i = 0; i < length; i++)
		answer(call, "%02x", bytes[i]);
	answer(call, "\"");
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
	size_t length;
	uint8_t *data = bytes(call, room, &length);

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
	size_t length;
	uint8_t *data = bytes(call, room, &length);

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
	size_t length;

	memset(&session, UNTOUCHED, sizeof(session));
	uid = number(call);
	address = number(call);
	data = bytes(call, room, &length);
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

/* --- memory that others write as well, and that may be gone */

/* The bytes to be used, and what is found or put there. */
struct span {
	uint8_t *start;
	size_t length;
	uint64_t value;
	const uint8_t *source;
	uint8_t *target;
	uint64_t deadline;	/* in microseconds */
	uint64_t wrong, first;	/* bytes that are not as expected */
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

static uint8_t load(const uint8_t *byte)
{
	return __atomic_load_n(byte, __ATOMIC_RELAXED);
}

static void store(uint8_t *byte, uint8_t value)
{
	__atomic_store_n(byte, value, __ATOMIC_RELAXED);
}

/* The eight bytes of a pattern at a multiple of eight; all differ, for any seed. */
static uint64_t pattern(uint64_t seed, uint64_t offset)
{
	uint64_t value = (seed + offset / 8 + 1) * 0x9E3779B97F4A7C15ULL;

	return value ^ value >> 29;
}

static uint8_t pattern_byte(uint64_t seed, uint64_t offset)
{
	return pattern(seed, offset) >> 8 * (offset % 8);
}

/* How much of a span can be used eight bytes at a time. */
static size_t in_words(const struct span *span)
{
	return (uintptr_t)span->start % 8 ? 0 : span->length & ~(size_t)7;
}

static void fill_pattern(struct span *span)
{
	size_t at, words = in_words(span);

	for (at = 0; at < words; at += 8)
		__atomic_store_n((uint64_t *)(span->start + at), pattern(span->value, at),
				 __ATOMIC_RELAXED);
	for (; at < span->length; at++)
		store(span->start + at, pattern_byte(span->value, at));
}

static void expect_byte(struct span *span, size_t at, uint8_t expected)
{
	if (load(span->start + at) == expected)
		return;
	if (!span->wrong++)
		span->first = at;
}

static void check_pattern(struct span *span)
{
	size_t at, i, words = in_words(span);

	for (at = 0; at < words; at += 8) {
		if (__atomic_load_n((uint64_t *)(span->start + at), __ATOMIC_RELAXED) ==
		    pattern(span->value, at))
			continue;
		for (i = at; i < at + 8; i++)
			expect_byte(span, i, pattern_byte(span->value, i));
	}
	for (; at < span->length; at++)
		expect_byte(span, at, pattern_byte(span->value, at));
}

static void check_same(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		expect_byte(span, at, span->value);
}

static void copy_in(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		store(span->start + at, span->source[at]);
}

static void copy_out(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		span->target[at] = load(span->start + at);
}

/* Waits until the word is another than `value`, which it becomes. */
static void await_change(struct span *span)
{
	uint64_t value;

	do {
		value = __atomic_load_n((uint64_t *)span->start, __ATOMIC_ACQUIRE);
	} while (value == span->value && now() < span->deadline);
	span->value = value;
}

static void on_fault(int signal)
{
	if (escape)
		siglongjmp(*escape, signal);
	/* A fault of its own: the next one ends the program. */
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

/* Uses memory; returns the signal that has ended that, or 0. */
static int use(void (*how)(struct span *span), struct span *span)
{
	sigjmp_buf here;
	int signal = sigsetjmp(here, 1);

	if (!signal) {
		escape = &here;
		how(span);
	}
	escape = NULL;
	return signal;
}

static struct span span(struct call *call)
{
	struct span s = { .start = (uint8_t *)(uintptr_t)number(call) };

	s.length = number(call);
	return s;
}

static void fill(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(fill_pattern, &s));
}

static void answer_wrong(struct call *call, const struct span *s)
{
	answer_number(call, "wrong", s->wrong);
	answer_number(call, "first", s->first);
}

static void check(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(check_pattern, &s));
	answer_wrong(call, &s);
}

static void same(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(check_same, &s));
	answer_wrong(call, &s);
}

static void write_bytes(struct call *call)
{
	struct span s = { .start = (uint8_t *)(uintptr_t)number(call) };
	uint8_t room[ROOM];

	s.source = bytes(call, room, &s.length);
	answer_number(call, "fault", use(copy_in, &s));
}

static void read_bytes(struct call *call)
{
	struct span s = span(call);
	uint8_t room[ROOM];

	if (s.length > sizeof(room))
		s.length = sizeof(room);
	s.target = room;
	memset(room, UNTOUCHED, sizeof(room));
	answer_number(call, "fault", use(copy_out, &s));
	answer_bytes(call, "bytes", room, s.length);
}

static void poll_word(struct call *call)
{
	struct span s = { .start = (uint8_t *)(uintptr_t)number(call) };

	s.value = number(call);
	s.deadline = now() + 1000 * number(call);
	answer_number(call, "fault", use(await_change, &s));
	answer_number(call, "word", s.value);
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

static void identify(struct call *call)
{
	answer(call, ", \"pid\": %d", getpid());
}

static void quit(struct call *call)
{
	_exit(number(call));
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
	{ "fill", fill },		/* ADDRESS LENGTH SEED */
	{ "check", check },		/* ADDRESS LENGTH SEED: what differs from that */
	{ "same", same },		/* ADDRESS LENGTH BYTE: what differs from that */
	{ "write", write_bytes },	/* ADDRESS BYTES */
	{ "read", read_bytes },		/* ADDRESS LENGTH */
	{ "poll", poll_word },		/* ADDRESS WORD MILLISECONDS: until it is another */
	{ "produce", produce },		/* SESSION ADDRESS LENGTH ROUNDS */
	{ "consume", consume },		/* SESSION ADDRESS LENGTH ROUNDS */
	{ "linger", linger },		/* SHARED */
	{ "part", part },
	{ "identify", identify },
	{ "exit", quit },		/* STATUS: without what is to be done at exits */
	{ "die", die },			/* by SIGKILL */
	{ NULL, NULL },
};

/* --- jobs */

static void put(const char *line, size_t length)
{
	ssize_t written;

	while (length) {
		written = write(STDOUT_FILENO, line, length);
		if (written < 0)
			_exit(EXIT_FAILURE);
		line += written;
		length -= written;
	}
}

static void run(struct job *job)
{
	struct call *call = &job->call;
	uint64_t start = now(), end;
	char head[128];
	int length;

	if (job->command)
		job->command->run(call);
	else
		call->complaint = "there is no such command";
	end = now();
	if (call->complaint)
		length = snprintf(head, sizeof(head), "{\"tag\": %s, \"error\": \"%s\"}\n", job->tag,
				  call->complaint);
	else
		length = snprintf(head, sizeof(head), "{\"tag\": %s, \"us\": %llu", job->tag,
				  (unsigned long long)(end - start));
	pthread_mutex_lock(&output);
	put(head, length);
	if (!call->complaint) {
		put(call->answer, call->used);
		put("}\n", 2);
	}
	pthread_mutex_unlock(&output);
}

static void run_in_child(struct job *job)
{
	pid_t child;

	/* The child gets the lock in a state in which it can take it. */
	pthread_mutex_lock(&output);
	child = fork();
	pthread_mutex_unlock(&output);
	if (!child) {
		run(job);
		_exit(EXIT_SUCCESS);
	}
	waitpid(child, NULL, 0);
}

static void finish(struct job *job)
{
	if (job->forks)
		run_in_child(job);
	else
		run(job);
	free(job->line);
	free(job);
}

/* Signals interrupt what threads wait for; the first thread has to read its input. */
static void *thread(void *job)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	finish(job);
	return NULL;
}

static void start(struct job *job)
{
	pthread_t id;

	if (pthread_create(&id, NULL, thread, job))
		exit(EXIT_FAILURE);
	pthread_detach(id);
}

static const struct command *find(const char *name)
{
	const struct command *command = commands;

	while (command->name && strcmp(command->name, name))
		command++;
	return command->name ? command : NULL;
}

/* Takes a line apart and runs it. */
static void take(char *line)
{
	struct job *job = calloc(1, sizeof(*job));
	int in_thread = 0;
	char *rest, *text;

	if (!job)
		exit(EXIT_FAILURE);
	job->line = line;
	job->tag = strtok_r(line, "\n ", &rest);
	if (!job->tag) {
		free(line);
		free(job);
		return;
	}
	text = strtok_r(NULL, "\n ", &rest);
	if (text && !strcmp(text, "&")) {
		in_thread = 1;
		text = strtok_r(NULL, "\n ", &rest);
	}
	if (text && !strcmp(text, "fork")) {
		job->forks = 1;
		text = strtok_r(NULL, "\n ", &rest);
	}
	job->command = text ? find(text) : NULL;
	while (job->call.count < MAX_WORDS && (text = strtok_r(NULL, "\n ", &rest)))
		job->call.words[job->call.count++] = text;
	if (in_thread)
		start(job);
	else
		finish(job);
}

static void ignore(int signal)
{
	(void)signal;
}

int main(void)
{
	struct sigaction fault = { .sa_handler = on_fault };
	struct sigaction interruption = { .sa_handler = ignore };
	char *line = NULL;
	size_t room = 0;
	sigset_t set;

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	/* Without SA_RESTART: system calls that a signal meets end with EINTR. */
	sigaction(SIGUSR1, &interruption, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	while (getline(&line, &room, stdin) > 0) {
		take(line);
		line = NULL;
		room = 0;
	}
	return EXIT_SUCCESS;
}
