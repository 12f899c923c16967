// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the functions of SISCI as its input tells, for tests; tests/rig/sisci.py is the
 * other end, which knows their arguments from the header. What the input looks like is said
 * in common/shell.h; a callback that has run is a line of output as well:
 *
 *	{"callback": COOKIE, "values": [...], "data": HEX}
 *
 * The command "call" takes the name of a function and its arguments, one word each: a
 * number, "out" for a pointer to SLOT bytes that are UNTOUCHED, "out=HEX" for one to those
 * bytes, "text=TEXT", or "cb=KIND" for a callback, whose cookie is the next argument. What is
 * in the slots afterwards is answered. The other commands use memory, or repeat calls many
 * times; see the table below.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/shell.h"
#include "sisci_api.h"

#define SLOT 64			/* bytes that a function may write to at a pointer */
#define MOST_ARGUMENTS 10	/* of a function */

/* A callback with this bit in its cookie wants no further events. */
#define CANCEL (1ULL << 32)

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
	print_lines(line, used);
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
				bytes(call, text + 4, p->slots[p->count], SLOT);
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
		answer_hex(call, p.slots[n], SLOT);
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

/* --- transfers and their order */

/*
 * Stores numbers into a map, has each checked, and then stores it where the observer looks
 * first: from there on, it has to be in the map. So many at least, and until a word is not zero.
 */
static void announce(struct call *call)
{
	sci_sequence_t sequence = address(call);
	volatile uint64_t *data = address(call), *flag = address(call);
	unsigned int how = number(call);
	uint64_t count = number(call), n = 0;
	volatile uint64_t *enough = address(call);
	sci_error_t error = SCI_ERR_OK;
	int works = SCIStartSequence(sequence, 0, &error) == SCI_SEQ_OK;

	while (works && (n < count || !*enough)) {
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

/*
 * Looks at what is announced until so much has been, and has been seen to change so often; how often
 * the numbers were older.
 */
static void observe(struct call *call)
{
	volatile uint64_t *data = address(call), *flag = address(call);
	uint64_t count = number(call), enough = number(call), seen = 0, changes = 0, stale = 0;
	uint64_t until = now() + 1000 * number(call);

	while ((seen < count || changes < enough) && now() < until) {
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
 * each until a check says that it has arrived. It ends after so many outages and blocks,
 * with one that has arrived.
 */
static void transfer(struct call *call)
{
	sci_sequence_t sequence = address(call);
	struct span s = span(call);
	uint64_t rounds = number(call), wanted = number(call), until = now() + 1000 * number(call);
	uint64_t done = 0, outages = 0, repeats = 0, pendings = 0, broken = 0;
	uint8_t *start = s.start;
	sci_sequence_status_t status;
	sci_error_t error = SCI_ERR_OK;
	int ready = 0, arrived = 0;

	while ((done < rounds || outages < wanted || !arrived) && now() < until && !broken) {
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
		outages += arrived && status != SCI_SEQ_OK;
		arrived = status == SCI_SEQ_OK;
		done += arrived;
		repeats += status == SCI_SEQ_RETRIABLE;
		pendings += status == SCI_SEQ_PENDING;
		broken = status == SCI_SEQ_NOT_RETRIABLE;
		ready = arrived || status == SCI_SEQ_RETRIABLE;
	}
	answer_number(call, "done", done);
	answer_number(call, "outages", outages);
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

/* Interrupts a thread that waits, after some milliseconds. */
static void interrupt(struct call *call)
{
	usleep(1000 * number(call));
	kill(getpid(), SIGUSR1);
}

static const struct command commands[] = {
	{ "call", call_function },	/* FUNCTION ARGUMENT... */
	{ "repeat", repeat },		/* COUNT FUNCTION ARGUMENT... */
	{ "cycle", cycle },		/* DESC NODE ID COUNT */
	{ "drain", drain },		/* SEGMENT COUNT */
	{ "announce", announce },	/* SEQUENCE DATA FLAG BARRIER COUNT ENOUGH */
	{ "observe", observe },		/* DATA FLAG COUNT CHANGES MILLISECONDS */
	{ "transfer", transfer },	/* SEQUENCE ADDRESS LENGTH ROUNDS OUTAGES MILLISECONDS */
	{ "churn", churn },		/* QUEUE SEGMENT REMOTE LENGTH */
	{ "post", post },		/* REMOTE LOCAL DATA ROUNDS */
	{ "collect", collect },		/* LOCAL REMOTE DATA ROUNDS */
	{ "interrupt", interrupt },	/* MILLISECONDS */
	{ NULL, NULL },
};

int main(void)
{
	return shell(commands);
}
