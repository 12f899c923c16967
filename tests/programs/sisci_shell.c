// SPDX-License-Identifier: GPL-2.0
/*
 * Calls the functions of SISCI as its input tells, for tests; tests/rig/sisci.py is the
 * other end, which knows their arguments from the header. Each line of input is a command,
 * each line of output the answer to one, or a callback that has run:
 *
 *	TAG [&] COMMAND [ARGUMENT...]
 *	{"tag": TAG, "us": MICROSECONDS, ...}
 *	{"callback": COOKIE, "values": [...], "data": HEX}
 *
 * With "&", the command is run in a thread, and the next line is read at once. The command
 * "call" takes the name of a function and its arguments, one word each: a number, "out" for
 * a pointer to SLOT bytes that are UNTOUCHED, "out=HEX" for one to those bytes, "text=TEXT",
 * or "cb=KIND" for a callback, whose cookie is the next argument. What is in the slots
 * afterwards is answered. The other commands use memory, or repeat calls many times; see the
 * table below.
 *
 * At the end of its input the program returns without closing anything.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sisci_api.h"

#define UNTOUCHED 0xEE
#define SLOT 64			/* bytes that a function may write to at a pointer */
#define ROOM 8192		/* most bytes of memory that are shown */
#define LONGEST_ANSWER (4 * ROOM)
#define MOST_ARGUMENTS 10	/* of a function */
#define MAX_WORDS 16

/* A callback with this bit in its cookie wants no further events. */
#define CANCEL (1ULL << 32)

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
};

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
/* Where a thread goes on that has touched memory that is not there. */
static __thread sigjmp_buf *escape;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

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

static void *address(struct call *call)
{
	return (void *)(uintptr_t)number(call);
}

/* The bytes that a text says; how many there are. */
static size_t bytes(const char *text, uint8_t *room, size_t most)
{
	unsigned int byte;
	size_t n;

	for (n = 0; n < most && sscanf(text, "%2x", &byte) == 1 && text[1]; n++) {
		room[n] = byte;
		text += 2;
	}
	return n;
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

static void answer_number(struct call *call, const char *name, uint64_t value)
{
	answer(call, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void answer_bytes(struct call *call, const uint8_t *bytes, size_t length)
{
	size_t i;

	answer(call, "\"");
	for (i = 0; i < length; i++)
		answer(call, "%02x", bytes[i]);
	answer(call, "\"");
}

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

/* --- callbacks */

static sci_callback_action_t tell(void *cookie, unsigned int count, const unsigned int *values,
				  const uint8_t *data, unsigned int length)
{
	char line[2 * SCI_DATA_INTERRUPT_MAX + 256];
	size_t used = 0;
	unsigned int n;

	used += sprintf(line, "{\"callback\": %llu, \"values\": [",
			(unsigned long long)(uintptr_t)cookie);
	for (n = 0; n < count; n++)
		used += sprintf(line + used, "%s%u", n ? ", " : "", values[n]);
	used += sprintf(line + used, "], \"data\": \"");
	for (n = 0; n < length && n < SCI_DATA_INTERRUPT_MAX; n++)
		used += sprintf(line + used, "%02x", data[n]);
	used += sprintf(line + used, "\"}\n");
	pthread_mutex_lock(&output);
	put(line, used);
	pthread_mutex_unlock(&output);
	return (uintptr_t)cookie & CANCEL ? SCI_CALLBACK_CANCEL : SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t on_local(void *arg, sci_local_segment_t segment,
				      sci_segment_cb_reason_t reason, unsigned int node,
				      unsigned int adapter, sci_error_t error)
{
	unsigned int values[] = { reason, node, adapter, error };

	(void)segment;
	return tell(arg, 4, values, NULL, 0);
}

static sci_callback_action_t on_remote(void *arg, sci_remote_segment_t segment,
				       sci_segment_cb_reason_t reason, sci_error_t status)
{
	unsigned int values[] = { reason, status };

	(void)segment;
	return tell(arg, 2, values, NULL, 0);
}

static sci_callback_action_t on_dma(void *arg, sci_dma_queue_t queue, sci_error_t status)
{
	unsigned int values[] = { status };

	(void)queue;
	return tell(arg, 1, values, NULL, 0);
}

static sci_callback_action_t on_interrupt(void *arg, sci_local_interrupt_t interrupt,
					  sci_error_t status)
{
	unsigned int values[] = { status };

	(void)interrupt;
	return tell(arg, 1, values, NULL, 0);
}

static sci_callback_action_t on_data(void *arg, sci_local_data_interrupt_t interrupt, void *data,
				     unsigned int length, sci_error_t status)
{
	unsigned int values[] = { status };

	(void)interrupt;
	return tell(arg, 1, values, data, length);
}

static uintptr_t callback_of(struct call *call, const char *kind)
{
	if (!strcmp(kind, "local"))
		return (uintptr_t)on_local;
	if (!strcmp(kind, "remote"))
		return (uintptr_t)on_remote;
	if (!strcmp(kind, "dma"))
		return (uintptr_t)on_dma;
	if (!strcmp(kind, "interrupt"))
		return (uintptr_t)on_interrupt;
	if (!strcmp(kind, "data"))
		return (uintptr_t)on_data;
	call->complaint = "there is no such callback";
	return 0;
}

/* --- calls of the library */

/* Every argument of the library is an integer or pointer of one word. */
typedef uintptr_t function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			   uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* A function with its arguments. */
struct prepared {
	function *function;
	uintptr_t a[MOST_ARGUMENTS];
	uint8_t slots[MOST_ARGUMENTS][SLOT];
	unsigned int count;		/* of slots */
};

static void prepare(struct call *call, struct prepared *p)
{
	void *found = dlsym(RTLD_DEFAULT, word(call));
	const char *text;
	unsigned int n;

	memset(p, 0, sizeof(*p));
	memset(p->slots, UNTOUCHED, sizeof(p->slots));
	if (!found) {
		call->complaint = "there is no such function";
		return;
	}
	memcpy(&p->function, &found, sizeof(found));
	for (n = 0; call->next < call->count && n < MOST_ARGUMENTS; n++) {
		text = call->words[call->next];
		if (!strncmp(text, "out", 3)) {
			if (text[3] == '=')
				bytes(text + 4, p->slots[p->count], SLOT);
			p->a[n] = (uintptr_t)p->slots[p->count++];
		} else if (!strncmp(text, "text=", 5)) {
			p->a[n] = (uintptr_t)(text + 5);
		} else if (!strncmp(text, "cb=", 3)) {
			p->a[n] = callback_of(call, text + 3);
		} else {
			p->a[n] = number(call);
			continue;
		}
		call->next++;
	}
}

static uintptr_t perform(const struct prepared *p)
{
	const uintptr_t *a = p->a;

	return p->function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
}

static void call_function(struct call *call)
{
	struct prepared p;
	unsigned int n;

	prepare(call, &p);
	if (call->complaint)
		return;
	errno = 0;
	answer_number(call, "value", perform(&p));
	answer_number(call, "errno", errno);
	answer(call, ", \"out\": [");
	for (n = 0; n < p.count; n++) {
		answer(call, n ? ", " : "");
		answer_bytes(call, p.slots[n], SLOT);
	}
	answer(call, "]");
}

/* The same call again and again, until its last slot, the error, is not OK. */
static void repeat(struct call *call)
{
	uint64_t count = number(call), done;
	unsigned int error = SCI_ERR_OK;
	struct prepared p;

	prepare(call, &p);
	if (call->complaint || !p.count) {
		call->complaint = "no call that has an error";
		return;
	}
	for (done = 0; done < count; done++) {
		perform(&p);
		memcpy(&error, p.slots[p.count - 1], sizeof(error));
		if (error != SCI_ERR_OK)
			break;
	}
	answer_number(call, "done", done);
	answer_number(call, "error", error);
}

/* Connects and disconnects again and again. */
static void cycle(struct call *call)
{
	sci_desc_t sd = address(call);
	unsigned int node = number(call), id = number(call);
	uint64_t count = number(call), done;
	sci_remote_segment_t segment;
	sci_error_t error = SCI_ERR_OK;

	for (done = 0; done < count && error == SCI_ERR_OK; done++) {
		SCIConnectSegment(sd, &segment, node, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0,
				  &error);
		if (error == SCI_ERR_OK)
			SCIDisconnectSegment(segment, 0, &error);
	}
	answer_number(call, "done", done);
	answer_number(call, "error", error);
}

/* Takes events of a local segment, which alternate, beginning with a connection. */
static void drain(struct call *call)
{
	sci_local_segment_t segment = address(call);
	uint64_t count = number(call), taken;
	unsigned int node, adapter, reason, disorder = 0;
	sci_error_t error = SCI_ERR_OK;

	for (taken = 0; taken < count; taken++) {
		reason = SCIWaitForLocalSegmentEvent(segment, &node, &adapter, 5000, 0, &error);
		if (error != SCI_ERR_OK)
			break;
		disorder += reason != (taken % 2 ? SCI_CB_DISCONNECT : SCI_CB_CONNECT);
	}
	answer_number(call, "taken", taken);
	answer_number(call, "disorder", disorder);
	answer_number(call, "error", error);
}

/* --- memory, which others change and take away at any time */

struct span {
	volatile uint8_t *start;
	size_t length;
	uint64_t value;
	uint8_t *data;
	uint64_t wrong, first, rounds, until;
};

static uint8_t pattern(size_t offset, uint64_t seed)
{
	return (offset * 7 + (offset >> 8) * 13 + seed * 31) ^ seed;
}

static void fill_pattern(struct span *span)
{
	size_t n;

	for (n = 0; n < span->length; n++)
		span->start[n] = pattern(n, span->value);
}

static void compare(struct span *span, size_t n, uint8_t wanted)
{
	if (span->start[n] == wanted)
		return;
	if (!span->wrong++)
		span->first = n;
}

static void check_pattern(struct span *span)
{
	size_t n;

	for (n = 0; n < span->length; n++)
		compare(span, n, pattern(n, span->value));
}

static void check_same(struct span *span)
{
	size_t n;

	for (n = 0; n < span->length; n++)
		compare(span, n, span->value);
}

static void copy_in(struct span *span)
{
	size_t n;

	for (n = 0; n < span->length; n++)
		span->start[n] = span->data[n];
}

static void copy_out(struct span *span)
{
	size_t n;

	for (n = 0; n < span->length; n++)
		span->data[n] = span->start[n];
}

/* Stores the byte everywhere, until it is time. */
static void store_on(struct span *span)
{
	size_t n;

	for (span->rounds = 0; now() < span->until; span->rounds++)
		for (n = 0; n < span->length; n++)
			span->start[n] = span->value;
}

static void await_change(struct span *span)
{
	volatile uint64_t *word = (volatile uint64_t *)span->start;
	uint64_t value;

	do {
		value = *word;
	} while (value == span->value && now() < span->until);
	span->value = value;
}

static void on_fault(int signal)
{
	if (escape)
		siglongjmp(*escape, signal);
	/* A fault of its own: the next one ends the program. */
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

/* Uses memory; answers the signal that has ended that, or 0. */
static void use(struct call *call, void (*how)(struct span *span), struct span *span)
{
	sigjmp_buf here;
	int signal = sigsetjmp(here, 1);

	if (!signal) {
		escape = &here;
		how(span);
	}
	escape = NULL;
	answer_number(call, "fault", signal);
}

static struct span span(struct call *call)
{
	struct span s = { .start = address(call) };

	s.length = number(call);
	return s;
}

static void fill(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	use(call, fill_pattern, &s);
}

static void check(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	use(call, check_pattern, &s);
	answer_number(call, "wrong", s.wrong);
	answer_number(call, "first", s.first);
}

static void same(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	use(call, check_same, &s);
	answer_number(call, "wrong", s.wrong);
	answer_number(call, "first", s.first);
}

static void write_bytes(struct call *call)
{
	struct span s = { .start = address(call) };
	uint8_t room[ROOM];

	s.data = room;
	s.length = bytes(word(call), room, sizeof(room));
	use(call, copy_in, &s);
}

static void read_bytes(struct call *call)
{
	struct span s = span(call);
	uint8_t room[ROOM];

	if (s.length > sizeof(room))
		s.length = sizeof(room);
	s.data = room;
	memset(room, UNTOUCHED, sizeof(room));
	use(call, copy_out, &s);
	answer(call, ", \"bytes\": ");
	answer_bytes(call, room, s.length);
}

static void storm(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	s.until = now() + 1000 * number(call);
	use(call, store_on, &s);
	answer_number(call, "rounds", s.rounds);
}

static void await(struct call *call)
{
	struct span s = { .start = address(call) };

	s.value = number(call);
	s.until = now() + 1000 * number(call);
	use(call, await_change, &s);
	answer_number(call, "word", s.value);
}

/* Memory of the program, in whole pages. */
static void allocate(struct call *call)
{
	void *at = mmap(NULL, number(call), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	answer_number(call, "address", at == MAP_FAILED ? 0 : (uintptr_t)at);
}

/* Has nobody read or write pages of memory any more. */
static void protect(struct call *call)
{
	struct span s = span(call);

	answer_number(call, "failed", mprotect((void *)s.start, s.length, PROT_NONE) != 0);
}

/* --- transfers and their order */

/*
 * Stores numbers into a map, has each checked, and then stores it where the observer looks
 * first: from there on, it has to be in the map.
 */
static void announce(struct call *call)
{
	sci_sequence_t sequence = address(call);
	volatile uint64_t *data = address(call), *flag = address(call);
	unsigned int how = number(call);
	uint64_t count = number(call), n = 0;
	sci_error_t error = SCI_ERR_OK;

	if (SCIStartSequence(sequence, 0, &error) != SCI_SEQ_OK)
		count = 0;
	while (n < count) {
		*data = ++n;
		if (how)
			SCIStoreBarrier(sequence, 0);
		else if (SCICheckSequence(sequence, 0, &error) != SCI_SEQ_OK)
			break;
		*flag = n;
	}
	answer_number(call, "done", n);
	answer_number(call, "error", error);
}

/* Looks at what is announced until all has been; how often the numbers were older. */
static void observe(struct call *call)
{
	volatile uint64_t *data = address(call), *flag = address(call);
	uint64_t count = number(call), seen = 0, changes = 0, stale = 0;
	uint64_t until = now() + 1000 * number(call);

	while (seen < count && now() < until) {
		uint64_t announced = __atomic_load_n(flag, __ATOMIC_ACQUIRE);

		stale += *data < announced;
		changes += announced != seen;
		seen = announced;
	}
	answer_number(call, "seen", seen);
	answer_number(call, "changes", changes);
	answer_number(call, "stale", stale);
}

/*
 * A client that lives through outages: blocks of a pattern go to a map one after the other,
 * each until a check says that it has arrived.
 */
static void transfer(struct call *call)
{
	sci_sequence_t sequence = address(call);
	struct span s = span(call);
	uint64_t rounds = number(call), until = now() + 1000 * number(call);
	uint64_t done = 0, repeats = 0, pendings = 0, broken = 0;
	volatile uint8_t *start = s.start;
	sci_sequence_status_t status;
	sci_error_t error = SCI_ERR_OK;
	int ready = 0;

	while (done < rounds && now() < until && !broken) {
		if (!ready) {
			ready = SCIStartSequence(sequence, 0, &error) == SCI_SEQ_OK;
			broken = error != SCI_ERR_OK;
			if (!ready)
				usleep(1000);
			continue;
		}
		/* Never twice the same: what is left of the round before is wrong. */
		s.start = start + (done % 16) * s.length;
		s.value = done;
		fill_pattern(&s);
		status = SCICheckSequence(sequence, 0, &error);
		done += status == SCI_SEQ_OK;
		repeats += status == SCI_SEQ_RETRIABLE;
		pendings += status == SCI_SEQ_PENDING;
		broken = status == SCI_SEQ_NOT_RETRIABLE;
		ready = status == SCI_SEQ_OK || status == SCI_SEQ_RETRIABLE;
	}
	answer_number(call, "done", done);
	answer_number(call, "repeats", repeats);
	answer_number(call, "pendings", pendings);
	answer_number(call, "broken", broken);
}

/* Keeps a queue busy with the same transfer, until one does not come to a good end. */
static void churn(struct call *call)
{
	sci_dma_queue_t queue = address(call);
	sci_local_segment_t from = address(call);
	sci_remote_segment_t to = address(call);
	unsigned int length = number(call), n;
	dis_dma_vec_t vector[DIS_DMA_MAX_VECLEN];
	sci_error_t error = SCI_ERR_OK;
	uint64_t done;

	for (n = 0; n < DIS_DMA_MAX_VECLEN; n++)
		vector[n] = (dis_dma_vec_t){ .size = length };
	for (done = 0; error == SCI_ERR_OK; done++)
		SCIStartDmaTransferVec(queue, from, to, DIS_DMA_MAX_VECLEN, vector, NULL, NULL,
				       SCI_FLAG_DMA_WAIT, &error);
	answer_number(call, "done", done - 1);
	answer_number(call, "error", error);
}

/* Stores a number and triggers, for one that looks when it is told. */
static void post(struct call *call)
{
	sci_remote_interrupt_t to = address(call);
	sci_local_interrupt_t back = address(call);
	volatile uint64_t *data = address(call);
	uint64_t rounds = number(call), n;
	sci_error_t error = SCI_ERR_OK;

	for (n = 0; n < rounds && error == SCI_ERR_OK; n++) {
		*data = n + 1;
		SCITriggerInterrupt(to, 0, &error);
		if (error == SCI_ERR_OK)
			SCIWaitForInterrupt(back, 10000, 0, &error);
	}
	answer_number(call, "done", n);
	answer_number(call, "error", error);
}

static void collect(struct call *call)
{
	sci_local_interrupt_t interrupt = address(call);
	sci_remote_interrupt_t back = address(call);
	volatile uint64_t *data = address(call);
	uint64_t rounds = number(call), n, stale = 0;
	sci_error_t error = SCI_ERR_OK;

	for (n = 0; n < rounds && error == SCI_ERR_OK; n++) {
		SCIWaitForInterrupt(interrupt, 10000, 0, &error);
		stale += *data != n + 1;
		if (error == SCI_ERR_OK)
			SCITriggerInterrupt(back, 0, &error);
	}
	answer_number(call, "done", n);
	answer_number(call, "stale", stale);
	answer_number(call, "error", error);
}

/* --- the process */

static void identify(struct call *call)
{
	answer_number(call, "pid", getpid());
}

/* Interrupts a thread that waits, after some milliseconds. */
static void interrupt(struct call *call)
{
	usleep(1000 * number(call));
	kill(getpid(), SIGUSR1);
}

static void quit(struct call *call)
{
	_exit(number(call));
}

static const struct command commands[] = {
	{ "call", call_function },	/* FUNCTION ARGUMENT... */
	{ "repeat", repeat },		/* COUNT FUNCTION ARGUMENT... */
	{ "cycle", cycle },		/* DESC NODE ID COUNT */
	{ "drain", drain },		/* SEGMENT COUNT */
	{ "fill", fill },		/* ADDRESS LENGTH SEED */
	{ "check", check },		/* ADDRESS LENGTH SEED: what differs from that */
	{ "same", same },		/* ADDRESS LENGTH BYTE: what differs from that */
	{ "write", write_bytes },	/* ADDRESS BYTES */
	{ "read", read_bytes },		/* ADDRESS LENGTH */
	{ "storm", storm },		/* ADDRESS LENGTH BYTE MILLISECONDS */
	{ "await", await },		/* ADDRESS WORD MILLISECONDS: until it is another */
	{ "allocate", allocate },	/* LENGTH */
	{ "protect", protect },		/* ADDRESS LENGTH */
	{ "announce", announce },	/* SEQUENCE DATA FLAG BARRIER COUNT */
	{ "observe", observe },		/* DATA FLAG COUNT MILLISECONDS */
	{ "transfer", transfer },	/* SEQUENCE ADDRESS LENGTH ROUNDS MILLISECONDS */
	{ "churn", churn },		/* QUEUE SEGMENT REMOTE LENGTH */
	{ "post", post },		/* REMOTE LOCAL DATA ROUNDS */
	{ "collect", collect },		/* LOCAL REMOTE DATA ROUNDS */
	{ "identify", identify },
	{ "interrupt", interrupt },	/* MILLISECONDS */
	{ "exit", quit },		/* STATUS: without what is to be done at exits */
	{ NULL, NULL },
};

/* --- jobs */

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
		length = snprintf(head, sizeof(head), "{\"tag\": %s, \"complaint\": \"%s\"}\n",
				  job->tag, call->complaint);
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
	run(job);
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
	job->command = text ? find(text) : NULL;
	while (job->call.count < MAX_WORDS && (text = strtok_r(NULL, "\n ", &rest)))
		job->call.words[job->call.count++] = text;
	if (in_thread)
		start(job);
	else
		run(job);
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
