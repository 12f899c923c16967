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
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/shell.h"
#include "vipl.h"

#define MOST_ARGUMENTS 6	/* of a function */

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

/* Calls a function in a thread that is cancelled after a while; whether it has ended by that. */
static void cancel(struct call *call)
{
	useconds_t time = 1000 * number(call);
	void *result = NULL;
	pthread_t id;

	if (pthread_create(&id, NULL, call_in_thread, call)) {
		call->complaint = "there is no thread";
		return;
	}
	usleep(time);
	pthread_cancel(id);
	pthread_join(id, &result);
	answer_number(call, "cancelled", result == PTHREAD_CANCELED);
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

/* Closes what the process has open of a path; how many descriptors that were. */
static void close_path(struct call *call)
{
	const char *path = word(call);
	char link[32], found[256];
	uint64_t count = 0;
	ssize_t length;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, found, sizeof(found) - 1);
		if (length < 0)
			continue;
		found[length] = '\0';
		if (!strcmp(found, path) && !close(fd))
			count++;
	}
	answer_number(call, "closed", count);
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
	uint64_t until = now() + 20000000, wrong = 0, late = 0, n, at;

	for (n = 0; n < count && !late; n++) {
		const VIP_CONTROL_SEGMENT *control = (const void *)(descriptor + n * stride);
		const uint8_t *bytes = data + n * length;

		while (!(__atomic_load_n(&control->Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE))
			if (now() > until) {
				late = 1;
				break;
			}
		wrong += control->Length != length || control->ImmediateData != n;
		for (at = 0; at < length; at++)
			wrong += bytes[at] != (uint8_t)n;
	}
	answer_number(call, "late", late);
	answer_number(call, "wrong", wrong);
}

static const struct command commands[] = {
	{ "call", call_function },	/* FUNCTION [ARGUMENT...] */
	{ "cancel", cancel },		/* MILLISECONDS FUNCTION [ARGUMENT...] */
	{ "many", post_many },		/* VI RECEIVE DESCRIPTOR HANDLE COUNT */
	{ "drain", drain },		/* VI RECEIVE */
	{ "close", close_path },	/* PATH */
	{ "poll", poll_done },		/* VI RECEIVE MILLISECONDS */
	{ "watch", watch },		/* DESCRIPTOR STRIDE DATA LENGTH COUNT */
	{ NULL, NULL },
};

int main(void)
{
	return shell(commands);
}
