// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the functions of the VI Provider Library as its input tells, for tests; tests/rig/vipl.py
 * is the other end. What the input looks like is said in common/shell.h; a handler that has run is
 * a line of output as well:
 *
 *	{"handler": CONTEXT, "thread": ID, "values": [...]}
 *
 * The command "call" takes the name of a function and its arguments, one word each: a number,
 * "text=TEXT", or "handler=KIND". Structures lie in memory that tests have allocated and written.
 * The other commands wait in the program itself, so that time is not lost between calls.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/alarms.h"
#include "common/memory.h"
#include "common/shell.h"
#include "vipl.h"

#define MOST_ARGUMENTS 6	/* of a function */
#define PATIENCE 20000	/* milliseconds that something may take */

/* --- handlers */

static void tell(void *context, unsigned int count, const uint64_t *values)
{
	char line[512];
	size_t used;
	unsigned int n;

	used = sprintf(line, "{\"handler\": %llu, \"thread\": %d, \"values\": [",
		       (unsigned long long)(uintptr_t)context, (int)gettid());
	for (n = 0; n < count; n++)
		used += sprintf(line + used, "%s%llu", n ? ", " : "",
				(unsigned long long)values[n]);
	used += sprintf(line + used, "]}\n");
	print_lines(line, used);
}

static void on_queue(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
		     VIP_DESCRIPTOR *descriptor)
{
	uint64_t values[] = { (uintptr_t)nic, (uintptr_t)vi, (uintptr_t)descriptor };

	tell(context, 3, values);
}

static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN receive)
{
	uint64_t values[] = { (uintptr_t)nic, (uintptr_t)vi, receive };

	tell(context, 3, values);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	VIP_VI_STATE state = VIP_STATE_IDLE;
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN send, receive;
	uint64_t values[] = { (uintptr_t)error->NicHandle, (uintptr_t)error->ViHandle,
		(uintptr_t)error->CQHandle, (uintptr_t)error->DescriptorPtr, error->OpCode,
		error->ResourceCode, error->ErrorCode, 0 };

	/* What the VI says of itself while the handler runs. */
	if (VipQueryVi(error->ViHandle, &state, &attributes, &send, &receive) == VIP_SUCCESS)
		values[7] = state;
	tell(context, 8, values);
}

/* Disconnects a VI whose connection was lost, from inside. */
static void on_error_disconnect(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	VIP_RETURN result = VipDisconnect(error->ViHandle);

	if (result != VIP_SUCCESS)
		error->ErrorCode = (VIP_ERROR_CODE)~0U;
	on_error(context, error);
}

/* Takes a second, at the end of which it tells again. */
static void on_queue_slow(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
			  VIP_DESCRIPTOR *descriptor)
{
	on_queue(context, nic, vi, descriptor);
	sleep(1);
	on_queue(context, nic, vi, descriptor);
}

/* Takes itself up again, as programs do that are driven by notifications. */
static void on_queue_again(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
			   VIP_DESCRIPTOR *descriptor)
{
	on_queue(context, nic, vi, descriptor);
	if (descriptor)
		VipRecvNotify(vi, context, on_queue_again);
}

/*
 * Returns each message, by a descriptor behind that of the receive: there is room for two, in
 * memory that is registered with the data.
 */
static void on_queue_echo(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
			  VIP_DESCRIPTOR *descriptor)
{
	VIP_DESCRIPTOR *reply = descriptor + 1, *before;

	on_queue(context, nic, vi, descriptor);
	if (!descriptor || descriptor->CS.Status & VIP_STATUS_ERROR_MASK)
		return;
	VipSendDone(vi, &before);
	memset(reply, 0, sizeof(*reply));
	reply->CS.SegCount = 1;
	reply->CS.Length = descriptor->CS.Length;
	reply->DS[0].Local = descriptor->DS[0].Local;
	reply->DS[0].Local.Length = descriptor->CS.Length;
	VipPostSend(vi, reply, descriptor->DS[0].Local.Handle);
	VipRecvNotify(vi, context, on_queue_echo);
}

static uintptr_t handler_of(struct call *call, const char *kind)
{
	if (!strcmp(kind, "queue"))
		return (uintptr_t)on_queue;
	if (!strcmp(kind, "slow"))
		return (uintptr_t)on_queue_slow;
	if (!strcmp(kind, "again"))
		return (uintptr_t)on_queue_again;
	if (!strcmp(kind, "echo"))
		return (uintptr_t)on_queue_echo;
	if (!strcmp(kind, "cq"))
		return (uintptr_t)on_cq;
	if (!strcmp(kind, "error"))
		return (uintptr_t)on_error;
	if (!strcmp(kind, "disconnect"))
		return (uintptr_t)on_error_disconnect;
	call->complaint = "there is no such handler";
	return 0;
}

/* --- calls of the library */

/* Every argument of the library is an integer or pointer of one word. */
typedef unsigned int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static void call_function(struct call *call)
{
	void *found = dlsym(RTLD_DEFAULT, word(call));
	uintptr_t a[MOST_ARGUMENTS] = { 0 };
	function *function;
	const char *text;
	unsigned int n;

	if (!found) {
		call->complaint = "there is no such function";
		return;
	}
	memcpy(&function, &found, sizeof(found));
	for (n = 0; call->next < call->count && n < MOST_ARGUMENTS; n++) {
		text = call->words[call->next];
		if (!strncmp(text, "text=", 5))
			a[n] = (uintptr_t)(text + 5);
		else if (!strncmp(text, "handler=", 8))
			a[n] = handler_of(call, text + 8);
		else {
			a[n] = number(call);
			continue;
		}
		call->next++;
	}
	if (!call->complaint)
		answer_number(call, "value", function(a[0], a[1], a[2], a[3], a[4], a[5]));
}

static void *call_in_thread(void *call)
{
	call_function(call);
	return NULL;
}

static void *call_in_cancelled_thread(void *call)
{
	pthread_cancel(pthread_self());
	call_function(call);
	return NULL;
}

/*
 * Calls a function in a thread that is cancelled after a while, with 0 before it calls; whether it
 * has ended by that.
 */
static void cancel(struct call *call)
{
	useconds_t time = 1000 * number(call);
	void *result = NULL;
	pthread_t id;

	if (pthread_create(&id, NULL, time ? call_in_thread : call_in_cancelled_thread, call)) {
		call->complaint = "there is no thread";
		return;
	}
	if (time) {
		usleep(time);
		pthread_cancel(id);
	}
	pthread_join(id, &result);
	answer_number(call, "cancelled", result == PTHREAD_CANCELED);
}

/* Calls a function in a thread that is interrupted again and again; how often it was. */
static void storm(struct call *call)
{
	uint64_t often = number(call);
	timer_t timer;

	start_alarms(call, often, &timer);
	if (call->complaint)
		return;
	call_function(call);
	timer_delete(timer);
	answer_number(call, "alarms", alarms_handled());
}

/* Looks at a queue until its first descriptor is complete. */
static void poll_done(struct call *call)
{
	void *vi = address(call);
	int receive = number(call);
	uint64_t until = now() + 1000 * number(call);
	VIP_DESCRIPTOR *descriptor = NULL;
	VIP_RETURN result;

	do
		result = receive ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);
	while (result == VIP_NOT_DONE && now() < until);
	answer_number(call, "value", result);
	answer_number(call, "descriptor", (uintptr_t)descriptor);
}

/* Posts many descriptors without data, which lie side by side. */
static void post_many(struct call *call)
{
	void *vi = address(call);
	int receive = number(call);
	VIP_DESCRIPTOR *descriptor = address(call);
	VIP_MEM_HANDLE handle = number(call);
	uint64_t count = number(call);
	VIP_RETURN result = VIP_SUCCESS;

	for (; count && result == VIP_SUCCESS; count--, descriptor++) {
		memset(descriptor, 0, sizeof(*descriptor));
		result = receive ? VipPostRecv(vi, descriptor, handle) :
				   VipPostSend(vi, descriptor, handle);
	}
	answer_number(call, "value", result);
}

/* Takes what a work queue gives; how many descriptors were flushed, and how many were not. */
static void drain(struct call *call)
{
	void *vi = address(call);
	int receive = number(call);
	VIP_DESCRIPTOR *descriptor;
	uint64_t flushed = 0, others = 0;

	for (;;) {
		descriptor = NULL;
		if (receive)
			VipRecvDone(vi, &descriptor);
		else
			VipSendDone(vi, &descriptor);
		if (!descriptor)
			break;
		if (descriptor->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR)
			flushed++;
		else
			others++;
	}
	answer_number(call, "flushed", flushed);
	answer_number(call, "others", others);
}

#define MOST_FILES 1024

/* Whether a descriptor is of a path. */
static int is_of(int fd, const char *path)
{
	char link[32], found[256];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, found, sizeof(found) - 1);
	if (length < 0)
		return 0;
	found[length] = '\0';
	return !strcmp(found, path);
}

/* Closes what the process has open of a path; how many descriptors that were. */
static void close_path(struct call *call)
{
	const char *path = word(call);
	uint64_t count = 0;
	int fd;

	for (fd = 3; fd < MOST_FILES; fd++)
		count += is_of(fd, path) && !close(fd);
	answer_number(call, "closed", count);
}

/*
 * Maps a part of what the process has open of a path, by the first descriptor that has it. The
 * library knows nothing of that, and leaves it.
 */
static void map_path(struct call *call)
{
	const char *path = word(call);
	uint64_t offset = number(call), length = number(call);
	void *at = MAP_FAILED;
	int fd;

	for (fd = 3; fd < MOST_FILES && at == MAP_FAILED; fd++)
		if (is_of(fd, path))
			at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	answer_number(call, "address", at == MAP_FAILED ? 0 : (uintptr_t)at);
}

/* Whether a receive is not what "watch" expects of the n-th one. */
static int incomplete(const VIP_CONTROL_SEGMENT *control, const uint8_t *data, uint64_t length,
		      uint64_t n)
{
	uint64_t at;

	if (control->Length != length || control->ImmediateData != n)
		return 1;
	for (at = 0; at < length; at++)
		if (data[at] != (uint8_t)n)
			return 1;
	return 0;
}

/*
 * Looks at descriptors of receives, STRIDE bytes apart, one after the other: as soon as one says
 * that it is done, all that it says and its data have to be there. The message for the n-th one is
 * LENGTH bytes of n, with n as immediate data.
 */
static void watch(struct call *call)
{
	uint8_t *descriptor = address(call);
	uint64_t stride = number(call);
	uint8_t *data = address(call);
	uint64_t length = number(call), count = number(call);
	uint64_t until = now() + 1000 * PATIENCE, wrong = 0, late = 0, n;

	for (n = 0; n < count && !late; n++) {
		const VIP_CONTROL_SEGMENT *control = (const void *)(descriptor + n * stride);

		while (!(__atomic_load_n(&control->Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE))
			if (now() > until) {
				late = 1;
				break;
			}
		wrong += incomplete(control, data + n * length, length, n);
	}
	answer_number(call, "late", late);
	answer_number(call, "wrong", wrong);
}

/*
 * Posts copies of a descriptor, STRIDE bytes apart behind it, and itself as the first one. The
 * pieces of the n-th copy lie n * LENGTH bytes behind its own, remote ones too, and n is the
 * immediate data of a send; a receive has something else there.
 */
static void post_copies(struct call *call)
{
	void *vi = address(call);
	int receive = number(call);
	uint8_t *model = address(call);
	uint64_t stride = number(call), length = number(call);
	VIP_MEM_HANDLE handle = number(call);
	uint64_t count = number(call), n;
	VIP_RETURN result = VIP_SUCCESS;
	VIP_DESCRIPTOR first = *(VIP_DESCRIPTOR *)model;
	unsigned int piece;

	for (n = 0; n < count && result == VIP_SUCCESS; n++) {
		VIP_DESCRIPTOR *descriptor = (void *)(model + n * stride);

		*descriptor = first;
		descriptor->CS.ImmediateData = receive ? ~n : n;
		for (piece = 0; piece < first.CS.SegCount && piece < 2; piece++)
			descriptor->DS[piece].Local.Data.AddressBits += n * length;
		result = receive ? VipPostRecv(vi, descriptor, handle) :
				   VipPostSend(vi, descriptor, handle);
	}
	answer_number(call, "value", result);
}

/* Waits for so many descriptors of a queue; how many came, and how many of them had an error. */
static void collect(struct call *call)
{
	void *vi = address(call);
	int receive = number(call);
	uint64_t count = number(call), errors = 0, n;
	VIP_DESCRIPTOR *descriptor;

	for (n = 0; n < count; n++) {
		descriptor = NULL;
		if (receive)
			VipRecvWait(vi, PATIENCE, &descriptor);
		else
			VipSendWait(vi, PATIENCE, &descriptor);
		if (!descriptor)
			break;
		errors += (descriptor->CS.Status & VIP_STATUS_ERROR_MASK) != 0;
	}
	answer_number(call, "taken", n);
	answer_number(call, "errors", errors);
}

/* Takes what a completion queue gives; how many entries that were. */
static void drain_cq(struct call *call)
{
	void *cq = address(call);
	VIP_BOOLEAN receive;
	VIP_VI_HANDLE vi;
	uint64_t entries = 0;

	while (VipCQDone(cq, &vi, &receive) == VIP_SUCCESS)
		entries++;
	answer_number(call, "entries", entries);
}

/*
 * Takes entries of a completion queue, each with its descriptor at once, which has to be the next
 * one of those STRIDE bytes apart, and complete as "watch" says.
 */
static void take_entries(struct call *call)
{
	void *cq = address(call);
	uint8_t *next = address(call);
	uint64_t stride = number(call);
	uint8_t *data = address(call);
	uint64_t length = number(call), count = number(call);
	uint64_t until = now() + 1000 * PATIENCE, wrong = 0, late = 0, n;

	for (n = 0; n < count && !late; n++) {
		VIP_DESCRIPTOR *descriptor = NULL;
		VIP_BOOLEAN receive = VIP_FALSE;
		VIP_VI_HANDLE vi;

		while (VipCQDone(cq, &vi, &receive) != VIP_SUCCESS && !late)
			late = now() > until;
		if (late)
			break;
		wrong += VipRecvDone(vi, &descriptor) != VIP_SUCCESS || !receive ||
			 (uint8_t *)descriptor != next + n * stride ||
			 incomplete((void *)(next + n * stride), data + n * length, length, n);
	}
	answer_number(call, "late", late);
	answer_number(call, "wrong", wrong);
}

/*
 * Posts a write of one word again and again, with another value each time, and looks into the
 * memory of the target's process, which is on the same host, as soon as it is complete; how often
 * the word was not there.
 */
static void write_and_look(struct call *call)
{
	void *vi = address(call);
	VIP_DESCRIPTOR *descriptor = address(call);
	VIP_MEM_HANDLE handle = number(call);
	uint64_t *word_of_own = address(call);
	int pid = number(call);
	uint64_t count = number(call), late = 0, done = 0, found, n;
	VIP_DESCRIPTOR first = *descriptor, *taken;
	char path[32];
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDONLY);
	for (n = 1; n <= count && memory >= 0; n++) {
		*descriptor = first;
		*word_of_own = n;
		if (VipPostSend(vi, descriptor, handle) != VIP_SUCCESS)
			break;
		while (VipSendDone(vi, &taken) == VIP_NOT_DONE)
			;
		if (pread(memory, &found, sizeof(found), first.DS[0].Remote.Data.AddressBits) !=
		    sizeof(found))
			break;
		done += taken->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
		late += found != n;
	}
	if (memory >= 0)
		close(memory);
	answer_number(call, "done", done);
	answer_number(call, "late", late);
}

static const struct command commands[] = {
	{ "call", call_function },	/* FUNCTION [ARGUMENT...] */
	{ "cancel", cancel },		/* MILLISECONDS FUNCTION [ARGUMENT...] */
	{ "alarms", storm },		/* MICROSECONDS FUNCTION [ARGUMENT...] */
	{ "many", post_many },		/* VI RECEIVE DESCRIPTOR HANDLE COUNT */
	{ "drain", drain },		/* VI RECEIVE */
	{ "close", close_path },	/* PATH */
	{ "map", map_path },		/* PATH OFFSET LENGTH */
	{ "poll", poll_done },		/* VI RECEIVE MILLISECONDS */
	{ "watch", watch },		/* DESCRIPTOR STRIDE DATA LENGTH COUNT */
	{ "copies", post_copies },	/* VI RECEIVE DESCRIPTOR STRIDE LENGTH HANDLE COUNT */
	{ "collect", collect },		/* VI RECEIVE COUNT */
	{ "drain_cq", drain_cq },	/* CQ */
	{ "entries", take_entries },	/* CQ DESCRIPTOR STRIDE DATA LENGTH COUNT */
	{ "look", write_and_look },	/* VI DESCRIPTOR HANDLE WORD PID COUNT */
	{ NULL, NULL },
};

int main(void)
{
	return shell(commands);
}
