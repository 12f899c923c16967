// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages between all endpoints of many nodes, everything counted.
 *
 *	mcapi_all NODE NODES ENDPOINTS SECONDS
 *
 * Nodes have the numbers 0 to NODES - 1; each sends from all its endpoints to all endpoints of all
 * nodes, its own ones included, for so long, while another thread of it receives. Then it tells each
 * node how many messages it has sent from each endpoint to each of that one's, and waits until it has
 * had as many itself. Messages have numbers for each two endpoints, sizes of all kinds, and bytes
 * that follow from both. What was sent and received is printed, and the least number of messages that
 * one of its endpoints has had from one of any node.
 */
#define _POSIX_C_SOURCE 200809L

#include <mcapi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES_MAX 64
#define ENDPOINTS_MAX 32
#define LONGEST 6000		/* bytes of a message, which has two frames then */
#define PATIENCE_MS 120000	/* how long others may take to begin, and to end */
#define PORT 1			/* of the first endpoint */
#define TABLES ENDPOINTS_MAX	/* the endpoint for tables of counts, of another port */

struct message {
	uint16_t node, endpoint;
	uint32_t number;
	unsigned char rest[LONGEST];
};

/* How many messages from each endpoint of a node to each one of another. */
struct table {
	uint32_t node;
	uint32_t counts[ENDPOINTS_MAX][ENDPOINTS_MAX];
};

#define HEAD (sizeof(struct message) - LONGEST)

static unsigned int own_number, nodes, endpoints;
static mcapi_endpoint_t own[ENDPOINTS_MAX + 1], others[NODES_MAX][ENDPOINTS_MAX + 1];
static struct table sent[NODES_MAX], received[NODES_MAX];
static uint64_t sent_total, wrong;
static _Atomic uint64_t received_total;

static void fail(const char *what, mcapi_status_t status)
{
	char name[MCAPI_MAX_STATUS_MSG_LEN];

	fprintf(stderr, "FAILED: %s: %s\n", what, status == MCAPI_SUCCESS ? "it is wrong" :
		mcapi_display_status(status, name, sizeof(name)));
	exit(EXIT_FAILURE);
}

static void check(const char *what, mcapi_status_t status)
{
	if (status != MCAPI_SUCCESS)
		fail(what, status);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* The size of a message between two endpoints: one of sixteen is long. */
static size_t size_of(const struct message *message)
{
	unsigned int most = message->number % 16 ? 64 : LONGEST;

	return HEAD + (message->number * 37 + message->endpoint * 5) % most;
}

/* What its bytes are. */
static int byte_of(const struct message *message)
{
	return (message->node + message->endpoint * 3 + message->number) & 0xFF;
}

/* --- receiving */

/* Counts a message; those of two endpoints come in the order of their numbers. */
static void count(unsigned int at, const struct message *message, size_t size)
{
	uint32_t *counted;
	size_t n, rest = size - HEAD;

	if (size < HEAD || message->node >= nodes || message->endpoint >= endpoints) {
		wrong++;
		return;
	}
	counted = &received[message->node].counts[message->endpoint][at];
	wrong += message->number != *counted || size != size_of(message);
	++*counted;
	for (n = 0; n < rest; n++)
		wrong += message->rest[n] != byte_of(message);
	received_total++;
}

/* Receives at all endpoints, until the node is finalized. */
static void *receive(void *unused)
{
	static struct message messages[ENDPOINTS_MAX];
	mcapi_request_t requests[ENDPOINTS_MAX];
	mcapi_status_t status;
	unsigned int n;
	size_t size;

	for (n = 0; n < endpoints; n++)
		mcapi_msg_recv_i(own[n], &messages[n], sizeof(messages[n]), &requests[n],
			&status);
	for (;;) {
		n = mcapi_wait_any(endpoints, requests, &size, MCAPI_TIMEOUT_INFINITE, &status);
		if (status != MCAPI_SUCCESS)
			return unused;
		count(n, &messages[n], size);
		mcapi_msg_recv_i(own[n], &messages[n], sizeof(messages[n]), &requests[n],
			&status);
	}
}

/* --- sending */

static void send_one(unsigned int to, unsigned int from, unsigned int at)
{
	static struct message message;
	mcapi_status_t status;

	message.node = own_number;
	message.endpoint = from;
	message.number = sent[to].counts[from][at]++;
	memset(message.rest, byte_of(&message), sizeof(message.rest));
	/* Order is that of one priority. */
	mcapi_msg_send(own[from], others[to][at], &message, size_of(&message),
		from % (MCAPI_MIN_PRIORITY + 1), &status);
	check("mcapi_msg_send", status);
	sent_total++;
}

/*
 * Each round goes to one endpoint of each node, from another one of its own each time. There are as many
 * rounds that each endpoint has sent to each one, however slow the machine.
 */
static void send_for(double seconds)
{
	double end = now() + seconds;
	unsigned int round, to, least = endpoints * endpoints;

	for (round = 0; round < least || now() < end; round++)
		for (to = 0; to < nodes; to++)
			send_one((to + own_number) % nodes, round % endpoints,
				(round / endpoints + to) % endpoints);
}

/* --- counting */

static void send_tables(void)
{
	mcapi_status_t status;
	unsigned int to;

	for (to = 0; to < nodes; to++) {
		sent[to].node = own_number;
		mcapi_msg_send(own[TABLES], others[to][TABLES], &sent[to], sizeof(sent[to]), 0,
			&status);
		check("a table", status);
	}
}

/* What all others have sent to this node. */
static uint64_t take_tables(struct table *tables)
{
	mcapi_status_t status;
	uint64_t total = 0;
	struct table table;
	unsigned int n, from, at;
	size_t size;

	for (n = 0; n < nodes; n++) {
		mcapi_msg_recv(own[TABLES], &table, sizeof(table), &size, &status);
		check("a table", status);
		if (size != sizeof(table) || table.node >= nodes)
			fail("a table", status);
		tables[table.node] = table;
		for (from = 0; from < endpoints; from++)
			for (at = 0; at < endpoints; at++)
				total += table.counts[from][at];
	}
	return total;
}

/* The least number of messages from one endpoint of any node to one of this node. */
static uint32_t least_received(void)
{
	uint32_t least = UINT32_MAX, counted;
	unsigned int n, from, at;

	for (n = 0; n < nodes; n++)
		for (from = 0; from < endpoints; from++)
			for (at = 0; at < endpoints; at++) {
				counted = received[n].counts[from][at];
				least = counted < least ? counted : least;
			}
	return least;
}

/* Waits until so many messages were received, or until none has come for a long time. */
static void await(uint64_t total)
{
	struct timespec soon = { 0, 1000000 };
	uint64_t before = 0, received;
	double end = 0;

	while ((received = received_total) < total) {
		if (received != before || !end)
			end = now() + PATIENCE_MS / 1000;
		else if (now() > end)
			return;
		before = received;
		nanosleep(&soon, NULL);
	}
}

static void compare(void)
{
	static struct table expected[NODES_MAX];
	uint64_t total = take_tables(expected);
	unsigned int n;

	await(total);
	for (n = 0; n < nodes; n++)
		wrong += memcmp(expected[n].counts, received[n].counts,
			sizeof(expected[n].counts)) != 0;
	printf("{\"node\": %u, \"sent\": %llu, ", own_number, (unsigned long long)sent_total);
	printf("\"received\": %llu, \"expected\": %llu, \"wrong\": %llu, ",
	       (unsigned long long)received_total, (unsigned long long)total,
	       (unsigned long long)wrong);
	printf("\"least\": %lu}\n", (unsigned long)least_received());
	fflush(stdout);
}

/* --- beginning and ending */

static mcapi_port_t port_of(unsigned int endpoint)
{
	return PORT + endpoint;
}

static void create(void)
{
	mcapi_endp_attr_timeout_t patience = PATIENCE_MS;
	mcapi_status_t status;
	unsigned int n;

	for (n = 0; n <= TABLES; n++) {
		if (n >= endpoints && n != TABLES)
			continue;
		own[n] = mcapi_endpoint_create(port_of(n), &status);
		check("mcapi_endpoint_create", status);
		mcapi_endpoint_set_attribute(own[n], MCAPI_ENDP_ATTR_TIMEOUT, &patience,
			sizeof(patience), &status);
		check("mcapi_endpoint_set_attribute", status);
	}
}

/* Finds all endpoints of all nodes; all of them exist then. */
static void find(void)
{
	mcapi_status_t status;
	unsigned int node, n;

	for (node = 0; node < nodes; node++) {
		for (n = 0; n <= TABLES; n++) {
			if (n >= endpoints && n != TABLES)
				continue;
			others[node][n] = mcapi_endpoint_get(0, node, port_of(n), PATIENCE_MS,
				&status);
			check("mcapi_endpoint_get", status);
		}
	}
}

static unsigned int number(const char *text, unsigned int least, unsigned int most)
{
	unsigned long value = strtoul(text, NULL, 10);

	if (value < least || value > most) {
		fprintf(stderr, "usage: mcapi_all NODE NODES ENDPOINTS SECONDS\n");
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	mcapi_status_t status;
	mcapi_info_t info;
	pthread_t receiver;
	double seconds;

	nodes = number(argc == 5 ? argv[2] : "", 1, NODES_MAX);
	own_number = number(argv[1], 0, nodes - 1);
	endpoints = number(argv[3], 1, ENDPOINTS_MAX);
	seconds = number(argv[4], 1, 3600);
	mcapi_initialize(0, own_number, NULL, NULL, &info, &status);
	check("mcapi_initialize", status);
	create();
	find();
	if (pthread_create(&receiver, NULL, receive, NULL))
		fail("a thread", MCAPI_SUCCESS);
	send_for(seconds);
	send_tables();
	compare();
	/* Others may not have had everything yet. */
	getchar();
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	pthread_join(receiver, NULL);
	return EXIT_SUCCESS;
}
