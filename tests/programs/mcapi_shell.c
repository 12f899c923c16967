// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the functions of MCAPI as its input tells, for tests; tests/rig/mcapi.py is the other end.
 * What the input looks like is said in common/shell.h.
 *
 * The command "call" takes the name of a function and its arguments but for the status, one word
 * each: a number, "cell=NUMBER", which is the address of 64 bits that hold the number, or
 * "requests=NUMBER,...", which is the address of such requests. The answer has the function's
 * value, its status, and the cells. Operations that are complete later write into memory that tests
 * have allocated. "repeat COUNT" in front of a function's name calls it so often, or until it does
 * not succeed. "alarms MICROSECONDS" interrupts the thread that calls it by a signal, again and again;
 * the answer has how often. "silent" passes no place for the status.
 *
 * The other commands move many items, so that time is not lost between calls. The item N of SIZE
 * bytes is a pattern with the seed N:
 *
 *	put messages FROM TO PRIORITY FIRST COUNT SIZE
 *	put packets HANDLE FIRST COUNT SIZE
 *	put scalars HANDLE FIRST COUNT
 *	take messages AT FIRST COUNT SIZE	how many are there, and are not as expected
 *	take packets HANDLE FIRST COUNT SIZE
 *	take scalars HANDLE FIRST COUNT
 *
 * and one looks at two packet channels:
 *
 *	overtaken HANDLE OTHER		how many packets of the second one can be received when there
 *					is one of the first
 *
 * For a child, "visit DOMAIN NODE TO" becomes a node, sends its number from port 1 to an endpoint, and
 * answers with the number that it gets back; then the node is finalized.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <mcapi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/alarms.h"
#include "common/memory.h"
#include "common/shell.h"

#define MOST_ARGUMENTS 7	/* of a function, with the status */
#define MOST_REQUESTS 64

/* --- calls of the library */

/* Every argument of the library is an integer or pointer of one word. */
typedef uint64_t function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
	uintptr_t);

/* The arguments of a function, and what they lead to. */
struct arguments {
	uintptr_t words[MOST_ARGUMENTS];
	unsigned int count;
	uint64_t cells[MOST_ARGUMENTS];
	unsigned int cells_used;
	mcapi_request_t requests[MOST_REQUESTS];
};

static uintptr_t requests_of(struct call *call, const char *text, mcapi_request_t *requests)
{
	char *end = (char *)text;
	unsigned int n;

	for (n = 0; *end && n < MOST_REQUESTS; n++) {
		requests[n] = strtoul(end, &end, 0);
		end += *end == ',';
	}
	if (*end)
		call->complaint = "there are too many requests";
	return (uintptr_t)requests;
}

static uintptr_t argument(struct call *call, struct arguments *arguments)
{
	const char *text = call->words[call->next];
	uint64_t *cell;

	if (!strncmp(text, "requests=", 9)) {
		call->next++;
		return requests_of(call, text + 9, arguments->requests);
	}
	if (strncmp(text, "cell=", 5))
		return number(call);
	call->next++;
	cell = &arguments->cells[arguments->cells_used++];
	*cell = strtoull(text + 5, NULL, 0);
	return (uintptr_t)cell;
}

static void answer_status(struct call *call, mcapi_status_t status)
{
	answer_number(call, "status", status);
}

static void call_function(struct call *call)
{
	uint64_t times = 1, done = 0, value = 0, often = 0;
	const char *name = word(call);
	int is_silent = 0;
	timer_t timer = NULL;
	struct arguments a = { 0 };
	mcapi_status_t status;
	function *function;
	unsigned int n;
	void *found;

	if (!strcmp(name, "repeat")) {
		times = number(call);
		name = word(call);
	} else if (!strcmp(name, "alarms")) {
		often = number(call);
		name = word(call);
	} else if (!strcmp(name, "silent")) {
		is_silent = 1;
		name = word(call);
	}
	found = dlsym(RTLD_DEFAULT, name);
	if (!found) {
		call->complaint = "there is no such function";
		return;
	}
	memcpy(&function, &found, sizeof(found));
	while (call->next < call->count && a.count < MOST_ARGUMENTS - 1)
		a.words[a.count++] = argument(call, &a);
	a.words[a.count] = is_silent ? 0 : (uintptr_t)&status;
	if (often && !call->complaint)
		start_alarms(call, often, &timer);
	if (call->complaint)
		return;
	do {
		status = 0;
		value = function(a.words[0], a.words[1], a.words[2], a.words[3], a.words[4],
			a.words[5], a.words[6]);
		done += status == MCAPI_SUCCESS;
	} while (status == MCAPI_SUCCESS && done < times);
	if (often)
		timer_delete(timer);
	answer_number(call, "value", value);
	answer_status(call, status);
	answer_number(call, "done", done);
	answer_number(call, "alarms", alarms_handled());
	answer(call, ", \"cells\": [");
	for (n = 0; n < a.cells_used; n++)
		answer(call, "%s%llu", n ? ", " : "", (unsigned long long)a.cells[n]);
	answer(call, "]");
}

/* --- many items */

/* Where items go, or come from. */
struct way {
	char kind;		/* the first letter of its name */
	mcapi_endpoint_t from, to;
	mcapi_priority_t priority;
	uint32_t handle;
	uint64_t first, count, size;
	uint8_t *item;
	mcapi_status_t status;
};

static struct way way_of(struct call *call, int is_out)
{
	struct way way = { .kind = word(call)[0], .size = sizeof(uint64_t) };

	if (way.kind == 'm') {
		way.from = number(call);
		if (is_out) {
			way.to = number(call);
			way.priority = number(call);
		}
	} else {
		way.handle = number(call);
	}
	way.first = number(call);
	way.count = number(call);
	if (way.kind != 's')
		way.size = number(call);
	way.item = malloc(way.size + 1);
	if (!way.item)
		call->complaint = "there is no memory";
	return way;
}

static void put_one(struct way *way)
{
	uint64_t scalar;

	if (way->kind == 'm') {
		mcapi_msg_send(way->from, way->to, way->item, way->size, way->priority,
			&way->status);
	} else if (way->kind == 'p') {
		mcapi_pktchan_send(way->handle, way->item, way->size, &way->status);
	} else {
		memcpy(&scalar, way->item, sizeof(scalar));
		mcapi_sclchan_send_uint64(way->handle, scalar, &way->status);
	}
}

static void put(struct call *call)
{
	struct way way = way_of(call, 1);
	struct span span = { .start = way.item, .length = way.size, .value = way.first };
	uint64_t n;

	for (n = 0; !call->complaint && n < way.count; n++, span.value++) {
		fill_pattern(&span);
		put_one(&way);
		if (way.status != MCAPI_SUCCESS)
			break;
	}
	free(way.item);
	answer_number(call, "done", n);
	answer_status(call, way.status);
}

/* Compares bytes with the item of a number. */
static int is_wrong(const void *bytes, size_t size, const struct way *way, uint64_t n)
{
	struct span span = { .start = (void *)bytes, .length = size, .value = n };

	check_pattern(&span);
	return span.wrong || size != way->size;
}

/* Takes an item; whether it is not as expected. */
static int take_one(struct way *way, uint64_t n)
{
	mcapi_status_t status;
	void *bytes = way->item;
	uint64_t scalar;
	size_t size = 0;
	int wrong;

	if (way->kind == 'm') {
		mcapi_msg_recv(way->from, bytes, way->size + 1, &size, &way->status);
	} else if (way->kind == 'p') {
		mcapi_pktchan_recv(way->handle, &bytes, &size, &way->status);
	} else {
		scalar = mcapi_sclchan_recv_uint64(way->handle, &way->status);
		memcpy(bytes, &scalar, size = sizeof(scalar));
	}
	if (way->status != MCAPI_SUCCESS)
		return 0;
	wrong = is_wrong(bytes, size, way, n);
	if (way->kind == 'p') {
		mcapi_pktchan_release(bytes, &status);
		wrong |= status != MCAPI_SUCCESS;
	}
	return wrong;
}

static void take(struct call *call)
{
	struct way way = way_of(call, 0);
	uint64_t n, wrong = 0;

	for (n = 0; !call->complaint && n < way.count; n++) {
		wrong += take_one(&way, way.first + n);
		if (way.status != MCAPI_SUCCESS)
			break;
	}
	free(way.item);
	answer_number(call, "done", n);
	answer_number(call, "wrong", wrong);
	answer_status(call, way.status);
}

/* --- two channels */

static void overtaken(struct call *call)
{
	uint32_t handle = number(call), other = number(call);
	mcapi_status_t status;
	mcapi_uint_t there;

	do {
		there = mcapi_pktchan_available(handle, &status);
	} while (!there && status == MCAPI_SUCCESS);
	if (status == MCAPI_SUCCESS)
		there = mcapi_pktchan_available(other, &status);
	answer_number(call, "done", there);
	answer_status(call, status);
}

/* --- a node of its own */

/* Sends a number and receives one. */
static mcapi_status_t talk(mcapi_endpoint_t to, uint64_t *number)
{
	mcapi_endpoint_t own;
	mcapi_status_t status;
	size_t size;

	own = mcapi_endpoint_create(1, &status);
	if (status == MCAPI_SUCCESS)
		mcapi_msg_send(own, to, number, sizeof(*number), 1, &status);
	if (status == MCAPI_SUCCESS)
		mcapi_msg_recv(own, number, sizeof(*number), &size, &status);
	return status;
}

static void visit(struct call *call)
{
	mcapi_domain_t domain = number(call);
	mcapi_node_t node = number(call);
	mcapi_endpoint_t to = number(call);
	mcapi_status_t status, ended;
	uint64_t told = node;
	mcapi_info_t info;

	if (call->complaint)
		return;
	mcapi_initialize(domain, node, NULL, NULL, &info, &status);
	if (status == MCAPI_SUCCESS) {
		status = talk(to, &told);
		mcapi_finalize(&ended);
		if (status == MCAPI_SUCCESS)
			status = ended;
	}
	answer_number(call, "done", told);
	answer_status(call, status);
}

static const struct command commands[] = {
	{ "call", call_function },
	{ "overtaken", overtaken },
	{ "put", put },
	{ "take", take },
	{ "visit", visit },
	{ NULL, NULL },
};

int main(void)
{
	return shell(commands);
}
