// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures messages between two nodes: how long one takes, and how many bytes pass.
 *
 *	mcapi_perf server NODE
 *	mcapi_perf client NODE SERVER [--rounds N] [--sizes N,...] [--json]
 *
 * Half a round trip is printed for each size: the least, the median and the 99th percentile, in
 * microseconds; then the bytes of messages that go one way, in MB/s.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVER_PORT 1
#define WARM_UP 100
#define SIZE MCAPI_MAX_MESSAGE_SIZE
#define ROUNDS_MAX 10000000UL

/* What the server shall do with the messages that follow. */
enum kind { ECHO, COUNT, END };

struct order {
	mcapi_endpoint_t client;
	mcapi_uint64_t messages;
	mcapi_uint32_t kind;
};

struct options {
	unsigned long rounds;
	const char *sizes;
	int json;
};

static char data[SIZE];

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void send(mcapi_endpoint_t from, mcapi_endpoint_t to, const void *bytes, size_t size)
{
	mcapi_status_t status;

	mcapi_msg_send(from, to, bytes, size, 0, &status);
	check("mcapi_msg_send", status);
}

static size_t receive(mcapi_endpoint_t at, void *bytes, size_t room)
{
	mcapi_status_t status;
	size_t size;

	mcapi_msg_recv(at, bytes, room, &size, &status);
	check("mcapi_msg_recv", status);
	return size;
}

static void serve(mcapi_node_t node)
{
	mcapi_endpoint_t own;
	struct order order;
	mcapi_status_t status;
	size_t size;

	become(node);
	own = mcapi_endpoint_create(SERVER_PORT, &status);
	check("mcapi_endpoint_create", status);
	printf("ready\n");
	fflush(stdout);
	do {
		if (receive(own, &order, sizeof(order)) != sizeof(order))
			fail("that is no order");
		for (; order.messages; order.messages--) {
			size = receive(own, data, sizeof(data));
			if (order.kind == ECHO)
				send(own, order.client, data, size);
		}
		/* The last word, also when messages were only counted. */
		send(own, order.client, &order, sizeof(order));
	} while (order.kind != END);
}

static void begin_order(mcapi_endpoint_t own, mcapi_endpoint_t server, enum kind kind,
	unsigned long messages)
{
	struct order order = { own, messages, kind };

	send(own, server, &order, sizeof(order));
}

static void end_order(mcapi_endpoint_t own)
{
	struct order done;

	if (receive(own, &done, sizeof(done)) != sizeof(done) || done.messages)
		fail("the server has not had all messages");
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static void latency(mcapi_endpoint_t own, mcapi_endpoint_t server, size_t size,
	unsigned long rounds, double *times)
{
	unsigned long n;
	double start;

	begin_order(own, server, ECHO, rounds + WARM_UP);
	for (n = 0; n < rounds + WARM_UP; n++) {
		start = now_us();
		send(own, server, data, size);
		if (receive(own, data, sizeof(data)) != size)
			fail("a message came back with another size");
		times[n < WARM_UP ? 0 : n - WARM_UP] = (now_us() - start) / 2;
	}
	end_order(own);
	qsort(times, rounds, sizeof(*times), compare);
}

/* Bytes each microsecond, which are MB each second. */
static double throughput(mcapi_endpoint_t own, mcapi_endpoint_t server, size_t size,
	unsigned long rounds)
{
	unsigned long n;
	double start;

	begin_order(own, server, COUNT, rounds);
	start = now_us();
	for (n = 0; n < rounds; n++)
		send(own, server, data, size);
	end_order(own);
	return rounds * size / (now_us() - start);
}

static void measure(mcapi_endpoint_t own, mcapi_endpoint_t server, size_t size,
	const struct options *options)
{
	unsigned long rounds = options->rounds;
	double *times = calloc(rounds, sizeof(*times)), bytes;

	if (!times)
		fail("no memory");
	latency(own, server, size, rounds, times);
	bytes = throughput(own, server, size, rounds);
	printf(options->json ?
	       "{\"bytes\": %zu, \"rounds\": %lu, \"min\": %.3f, \"median\": %.3f, \"p99\": %.3f, "
	       "\"mb_s\": %.1f}\n" :
	       "%10zu %10lu %13.3f %13.3f %14.3f %10.1f\n",
	       size, rounds, times[0], times[rounds / 2], times[rounds * 99 / 100], bytes);
	free(times);
}

static void run(mcapi_node_t node, mcapi_node_t there, const struct options *options)
{
	mcapi_endpoint_t own, server;
	mcapi_status_t status;
	const char *at;
	char *next;

	become(node);
	own = patient_endpoint(MCAPI_PORT_ANY);
	server = mcapi_endpoint_get(DOMAIN, there, SERVER_PORT, PATIENCE_MS, &status);
	check("mcapi_endpoint_get", status);
	if (!options->json)
		printf("%10s %10s %13s %13s %14s %10s\n", "bytes", "rounds", "min us", "median us",
			"99 % us", "MB/s");
	for (at = options->sizes; *at; at = *next ? next + 1 : next) {
		unsigned long size = strtoul(at, &next, 10);

		if (next == at || size > SIZE || (*next && *next != ','))
			fail("sizes are 0 to 65536");
		measure(own, server, size, options);
	}
	begin_order(own, server, END, 0);
	end_order(own);
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "sizes", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 'r':
			options->rounds = number(optarg, ROUNDS_MAX);
			break;
		case 's':
			options->sizes = optarg;
			break;
		case 'j':
			options->json = 1;
			break;
		default:
			return 0;
		}
	}
	return options->rounds > 0;
}

int main(int argc, char **argv)
{
	struct options options = { 1000, "8,64,1024,4096,65536", 0 };
	mcapi_status_t status;
	int is_good = parse(argc, argv, &options);
	char **words = argv + optind;

	if (is_good && argc - optind == 2 && strcmp(words[0], "server") == 0) {
		serve(number(words[1], MCAPI_MAX_NODE));
	} else if (is_good && argc - optind == 3 && strcmp(words[0], "client") == 0) {
		run(number(words[1], MCAPI_MAX_NODE), number(words[2], MCAPI_MAX_NODE), &options);
	} else {
		fprintf(stderr, "usage: %s server NODE | client NODE SERVER [--rounds N]\n", argv[0]);
		fprintf(stderr, "       [--sizes N,...] [--json]\n");
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
