// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Functions that are called when messages arrive, on top of mcapi_wait_any(), and a sender that does
 * not flood its receiver.
 *
 *	mcapi_callbacks server NODE
 *	mcapi_callbacks client NODE SERVER MESSAGES
 *
 * One thread of the server waits for a message at any endpoint that somebody has subscribed, and
 * calls a function with it. Other threads subscribe and unsubscribe meanwhile: a new subscription
 * is told to the thread by a message to an endpoint of its own, one that ends by cancelling its
 * receive. The client sends bulk data only while the receiver has more than half of its buffers free; what is
 * urgent has the highest priority, and does not wait for that.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define BULK_PORT 1
#define URGENT_PORT 2
#define MOST 16			/* subscriptions */
#define ROOM 64			/* bytes of a message */
#define RESERVE 16		/* buffers that the client leaves free */

typedef void (*callback)(const void *bytes, size_t size);

/* --- callbacks */

struct subscription {
	mcapi_endpoint_t endpoint;
	mcapi_request_t receive;
	callback call;		/* NULL: the place is free */
	int is_new;		/* its receive has not begun */
	char bytes[ROOM];
};

static struct subscription subscriptions[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mcapi_endpoint_t wake;	/* of the thread that waits */

static void begin(struct subscription *at)
{
	mcapi_status_t status;

	mcapi_msg_recv_i(at->endpoint, at->bytes, sizeof(at->bytes), &at->receive, &status);
	check_begun("mcapi_msg_recv_i", status);
	at->is_new = 0;
}

/* Lets `call` be called with each message to an endpoint. */
static struct subscription *subscribe(mcapi_endpoint_t endpoint, callback call)
{
	struct subscription *at = subscriptions;
	mcapi_status_t status;

	pthread_mutex_lock(&lock);
	while (at->call)
		if (++at == subscriptions + MOST)
			fail("too many subscriptions");
	at->endpoint = endpoint;
	at->is_new = 1;
	at->call = call;
	pthread_mutex_unlock(&lock);
	mcapi_msg_send(endpoint, wake, NULL, 0, 0, &status);
	check("the thread that waits", status);
	return at;
}

/* Whoever waits for the message is told that it does not come. */
static void unsubscribe(struct subscription *at)
{
	mcapi_status_t status;

	pthread_mutex_lock(&lock);
	at->call = NULL;
	if (!at->is_new) {
		mcapi_cancel(&at->receive, &status);
		check("mcapi_cancel", status);
	}
	pthread_mutex_unlock(&lock);
}

/* The receives that there are now; those of new subscriptions begin. */
static size_t receives(mcapi_request_t *requests, struct subscription **of)
{
	struct subscription *at;
	size_t count = 0;

	pthread_mutex_lock(&lock);
	for (at = subscriptions; at < subscriptions + MOST; at++) {
		if (!at->call)
			continue;
		if (at->is_new)
			begin(at);
		requests[count] = at->receive;
		of[count++] = at;
	}
	pthread_mutex_unlock(&lock);
	return count;
}

/* Calls functions until the thread's own endpoint is unsubscribed. */
static void *dispatch(void *own)
{
	struct subscription *of[MOST];
	mcapi_request_t requests[MOST];
	mcapi_status_t status;
	mcapi_uint_t which;
	char bytes[ROOM];
	callback call;
	size_t size;

	while (((struct subscription *)own)->call) {
		which = mcapi_wait_any(receives(requests, of), requests, &size,
			MCAPI_TIMEOUT_INFINITE, &status);
		/* One was withdrawn before the wait began, or since. */
		if (status == MCAPI_ERR_REQUEST_INVALID || status == MCAPI_ERR_REQUEST_CANCELLED)
			continue;
		check("mcapi_wait_any", status);
		pthread_mutex_lock(&lock);
		call = of[which]->call;
		memcpy(bytes, of[which]->bytes, size);
		if (call)
			begin(of[which]);
		pthread_mutex_unlock(&lock);
		if (call)
			call(bytes, size);
	}
	return NULL;
}

static void look_again(const void *bytes, size_t size)
{
	(void)bytes;
	(void)size;
}

/* --- the server */

static unsigned long bulk, urgent;
static struct subscription *own, *bulk_data;

static void count_bulk(const void *bytes, size_t size)
{
	(void)bytes;
	bulk += size == ROOM;
}

/* The client has nothing more to say when it says "end". */
static void count_urgent(const void *bytes, size_t size)
{
	urgent++;
	if (size == 3 && memcmp(bytes, "end", 3) == 0) {
		unsubscribe(bulk_data);
		unsubscribe(own);
	}
}

static void serve(mcapi_node_t node)
{
	mcapi_status_t status;
	pthread_t thread;

	become(node);
	wake = patient_endpoint(MCAPI_PORT_ANY);
	own = subscribe(wake, look_again);
	if (pthread_create(&thread, NULL, dispatch, own))
		fail("no thread");
	bulk_data = subscribe(patient_endpoint(BULK_PORT), count_bulk);
	subscribe(patient_endpoint(URGENT_PORT), count_urgent);
	printf("ready\n");
	fflush(stdout);
	pthread_join(thread, NULL);
	printf("%lu bulk, %lu urgent\n", bulk, urgent);
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
}

/* --- the client */

/* Buffers that an endpoint has free for this node. */
static unsigned int room_at(mcapi_endpoint_t endpoint)
{
	mcapi_endp_attr_num_recv_buffers_t buffers;
	mcapi_status_t status;

	mcapi_endpoint_get_attribute(endpoint, MCAPI_ENDP_ATTR_NUM_RECV_BUFFERS, &buffers,
		sizeof(buffers), &status);
	check("mcapi_endpoint_get_attribute", status);
	return buffers;
}

static void say(mcapi_endpoint_t from, mcapi_endpoint_t to, const void *bytes, size_t size,
	mcapi_priority_t priority)
{
	mcapi_status_t status;

	mcapi_msg_send(from, to, bytes, size, priority, &status);
	check("mcapi_msg_send", status);
}

static void run(mcapi_node_t node, mcapi_node_t server, unsigned long messages)
{
	mcapi_endpoint_t from, to, control;
	unsigned long n, waited = 0;
	mcapi_status_t status;
	char data[ROOM] = { 0 };

	become(node);
	from = patient_endpoint(MCAPI_PORT_ANY);
	to = found(server, BULK_PORT);
	control = found(server, URGENT_PORT);
	for (n = 0; n < messages; n++) {
		/* A look for every few messages is enough: so many have room. */
		while (n % RESERVE == 0 && room_at(to) <= RESERVE)
			waited++;
		say(from, to, data, sizeof(data), MCAPI_MIN_PRORITY);
		if (n % 100 == 0)
			say(from, control, "still there", 11, MCAPI_MAX_PRORITY);
	}
	/* Until everything has been taken: what is urgent overtakes the rest. */
	while (room_at(to) < 2 * RESERVE)
		waited++;
	say(from, control, "end", 3, MCAPI_MAX_PRORITY);
	printf("%lu sent, waited %lu times\n", n, waited);
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "server") == 0) {
		serve(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 5 && strcmp(argv[1], "client") == 0) {
		run(number(argv[2], MCAPI_MAX_NODE), number(argv[3], MCAPI_MAX_NODE),
			number(argv[4], 1000000));
	} else {
		fprintf(stderr, "usage: %s server NODE | client NODE SERVER MESSAGES\n", argv[0]);
		return 2;
	}
	return 0;
}
