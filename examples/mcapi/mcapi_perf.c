// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures messages, packets or scalars between two nodes: how long one takes, and how many bytes
 * pass.
 *
 *	mcapi_perf server NODE
 *	mcapi_perf client NODE SERVER [--kind messages|packets|scalars] [--rounds N]
 *		[--sizes N,...] [--pause MS] [--json]
 *
 * Half a round trip is printed for each size: the least, the median and the 99th percentile, in
 * microseconds; then the bytes that go one way, in MB/s. Scalars have 8 bytes. The bytes of each round
 * trip are others than those of the one before, and are compared after its time was taken; buffers of
 * packets are given back then. With a pause between two round trips the server sleeps by then, if it is
 * longer than 10 ms.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ports of the server: for orders and messages, and for the ends of two channels. */
#define SERVER_PORT 1
#define SERVER_IN 2
#define SERVER_OUT 3
#define WARM_UP 100
#define SIZE MCAPI_MAX_MESSAGE_SIZE
#define ROUNDS_MAX 10000000UL
#define PAUSE_MAX 10000UL

/* What the server shall do with what follows. */
enum task { OPEN, ECHO, COUNT, END };

struct order {
	mcapi_endpoint_t client;
	mcapi_uint64_t count;
	mcapi_uint32_t task, kind;
};

/* The ways to another node and from it. */
struct ways {
	enum data_kind kind;
	mcapi_endpoint_t own, there; /* for messages, and for orders */
	mcapi_endpoint_t out, in; /* of channels */
	mcapi_pktchan_send_hndl_t pkt_out;
	mcapi_pktchan_recv_hndl_t pkt_in;
	mcapi_sclchan_send_hndl_t scl_out;
	mcapi_sclchan_recv_hndl_t scl_in;
};

struct options {
	enum data_kind kind;
	unsigned long rounds;
	const char *sizes;
	unsigned long pause; /* in milliseconds */
	int json;
};

static unsigned char sent[SIZE], received[SIZE];

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

/* Opens both channels, if there are any; they have to be connected by somebody. */
static void open_ways(struct ways *ways)
{
	mcapi_request_t out, in;
	mcapi_status_t status;

	if (ways->kind == PACKETS) {
		mcapi_pktchan_send_open_i(&ways->pkt_out, ways->out, &out, &status);
		check_begun("mcapi_pktchan_send_open_i", status);
		mcapi_pktchan_recv_open_i(&ways->pkt_in, ways->in, &in, &status);
		check_begun("mcapi_pktchan_recv_open_i", status);
	} else if (ways->kind == SCALARS) {
		mcapi_sclchan_send_open_i(&ways->scl_out, ways->out, &out, &status);
		check_begun("mcapi_sclchan_send_open_i", status);
		mcapi_sclchan_recv_open_i(&ways->scl_in, ways->in, &in, &status);
		check_begun("mcapi_sclchan_recv_open_i", status);
	} else {
		return;
	}
	finish("the way there is not open", out);
	finish("the way back is not open", in);
}

static void close_ways(struct ways *ways)
{
	mcapi_request_t out, in;
	mcapi_status_t status;

	if (ways->kind == PACKETS) {
		mcapi_pktchan_send_close_i(ways->pkt_out, &out, &status);
		check_begun("mcapi_pktchan_send_close_i", status);
		mcapi_pktchan_recv_close_i(ways->pkt_in, &in, &status);
		check_begun("mcapi_pktchan_recv_close_i", status);
	} else if (ways->kind == SCALARS) {
		mcapi_sclchan_send_close_i(ways->scl_out, &out, &status);
		check_begun("mcapi_sclchan_send_close_i", status);
		mcapi_sclchan_recv_close_i(ways->scl_in, &in, &status);
		check_begun("mcapi_sclchan_recv_close_i", status);
	} else {
		return;
	}
	finish("the way there does not close", out);
	finish("the way back does not close", in);
}

static void put(const struct ways *ways, const void *bytes, size_t size)
{
	mcapi_status_t status;
	mcapi_uint64_t scalar;

	if (ways->kind == MESSAGES) {
		send(ways->own, ways->there, bytes, size);
	} else if (ways->kind == PACKETS) {
		mcapi_pktchan_send(ways->pkt_out, bytes, size, &status);
		check("mcapi_pktchan_send", status);
	} else {
		memcpy(&scalar, bytes, sizeof(scalar));
		mcapi_sclchan_send_uint64(ways->scl_out, scalar, &status);
		check("mcapi_sclchan_send_uint64", status);
	}
}

/* What has arrived is where *bytes says, until it is given back. */
static size_t take(const struct ways *ways, void **bytes)
{
	mcapi_status_t status;
	mcapi_uint64_t scalar;
	size_t size;

	*bytes = received;
	if (ways->kind == MESSAGES)
		return receive(ways->own, received, sizeof(received));
	if (ways->kind == SCALARS) {
		scalar = mcapi_sclchan_recv_uint64(ways->scl_in, &status);
		check("mcapi_sclchan_recv_uint64", status);
		memcpy(received, &scalar, sizeof(scalar));
		return sizeof(scalar);
	}
	mcapi_pktchan_recv(ways->pkt_in, bytes, &size, &status);
	check("mcapi_pktchan_recv", status);
	return size;
}

static void give_back(const struct ways *ways, void *bytes)
{
	mcapi_status_t status;

	if (ways->kind != PACKETS)
		return;
	mcapi_pktchan_release(bytes, &status);
	check("mcapi_pktchan_release", status);
}

static void carry_out(struct ways *ways, struct order *order)
{
	size_t size;
	void *bytes;

	if (order->task == OPEN) {
		ways->there = order->client;
		ways->kind = order->kind;
		open_ways(ways);
	}
	for (; order->count; order->count--) {
		size = take(ways, &bytes);
		if (order->task == ECHO)
			put(ways, bytes, size);
		give_back(ways, bytes);
	}
	/* The last word, also when nothing has come back. */
	send(ways->own, ways->there, order, sizeof(*order));
	if (order->task == END)
		close_ways(ways);
}

static mcapi_endpoint_t endpoint(mcapi_port_t port)
{
	mcapi_status_t status;
	mcapi_endpoint_t made = mcapi_endpoint_create(port, &status);

	check("mcapi_endpoint_create", status);
	return made;
}

static void serve(mcapi_node_t node)
{
	struct ways ways = { MESSAGES, 0, 0, 0, 0, 0, 0, 0, 0 };
	struct order order = { 0, 0, OPEN, MESSAGES };

	become(node);
	ways.own = endpoint(SERVER_PORT);
	ways.in = endpoint(SERVER_IN);
	ways.out = endpoint(SERVER_OUT);
	printf("ready\n");
	fflush(stdout);
	while (order.task != END) {
		if (receive(ways.own, &order, sizeof(order)) != sizeof(order) ||
			order.kind >= KINDS)
			fail("that is no order");
		carry_out(&ways, &order);
	}
}

static void begin_order(const struct ways *ways, enum task task, unsigned long count)
{
	struct order order = { ways->own, count, task, ways->kind };

	send(ways->own, ways->there, &order, sizeof(order));
}

static void end_order(const struct ways *ways)
{
	struct order done;

	if (receive(ways->own, &done, sizeof(done)) != sizeof(done) || done.count)
		fail("the server has not had all");
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Fills what is sent: each byte is another one than in the turn before. */
static void fill(size_t size, unsigned long turn)
{
	size_t n;

	for (n = 0; n < size; n++)
		sent[n] = (unsigned char)(turn + n * 7 + (n >> 8));
}

static void rest(unsigned long milliseconds)
{
	struct timespec time;

	time.tv_sec = milliseconds / 1000;
	time.tv_nsec = milliseconds % 1000 * 1000000;
	nanosleep(&time, NULL);
}

static void latency(const struct ways *ways, size_t size, const struct options *options, double *times)
{
	unsigned long n, rounds = options->rounds;
	double start;
	size_t back;
	void *bytes;

	begin_order(ways, ECHO, rounds + WARM_UP);
	for (n = 0; n < rounds + WARM_UP; n++) {
		fill(size, n);
		start = now_us();
		put(ways, sent, size);
		back = take(ways, &bytes);
		times[n < WARM_UP ? 0 : n - WARM_UP] = (now_us() - start) / 2;
		if (back != size)
			fail("something came back with another size");
		if (memcmp(bytes, sent, size) != 0)
			fail("other bytes came back");
		give_back(ways, bytes);
		if (options->pause)
			rest(options->pause);
	}
	end_order(ways);
	qsort(times, rounds, sizeof(*times), compare);
}

/* Bytes each microsecond, which are MB each second. */
static double throughput(const struct ways *ways, size_t size, unsigned long rounds)
{
	unsigned long n;
	double start;

	begin_order(ways, COUNT, rounds);
	start = now_us();
	for (n = 0; n < rounds; n++)
		put(ways, sent, size);
	end_order(ways);
	return rounds * size / (now_us() - start);
}

static void measure(const struct ways *ways, size_t size, const struct options *options)
{
	unsigned long rounds = options->rounds;
	double *times = calloc(rounds, sizeof(*times)), bytes;

	if (!times)
		fail("no memory");
	latency(ways, size, options, times);
	bytes = throughput(ways, size, rounds);
	printf(options->json ?
	       "{\"bytes\": %zu, \"rounds\": %lu, \"min\": %.3f, \"median\": %.3f, \"p99\": %.3f, \"mb_s\": %.1f}\n" :
	       "%10zu %10lu %13.3f %13.3f %14.3f %10.1f\n",
	       size, rounds, times[0], times[rounds / 2], times[rounds * 99 / 100], bytes);
	free(times);
}

/* Connects an endpoint that sends with one that receives. */
static void connect_way(enum data_kind kind, mcapi_endpoint_t from, mcapi_endpoint_t to)
{
	mcapi_request_t request;
	mcapi_status_t status;

	if (kind == PACKETS)
		mcapi_pktchan_connect_i(from, to, &request, &status);
	else
		mcapi_sclchan_connect_i(from, to, &request, &status);
	check_begun("a channel is not connected", status);
	finish("a channel is not connected", request);
}

static void set_up(struct ways *ways, mcapi_node_t there)
{
	ways->own = patient_endpoint(MCAPI_PORT_ANY);
	ways->there = found(there, SERVER_PORT);
	if (ways->kind != MESSAGES) {
		ways->out = patient_endpoint(MCAPI_PORT_ANY);
		ways->in = patient_endpoint(MCAPI_PORT_ANY);
		/* What has to be alike at both ends is: the server's endpoints have defaults as well. */
		connect_way(ways->kind, ways->out, found(there, SERVER_IN));
		connect_way(ways->kind, found(there, SERVER_OUT), ways->in);
	}
	begin_order(ways, OPEN, 0);
	open_ways(ways);
	end_order(ways);
}

static void run(mcapi_node_t node, mcapi_node_t there, const struct options *options)
{
	struct ways ways = { options->kind, 0, 0, 0, 0, 0, 0, 0, 0 };
	const char *at;
	char *next;

	become(node);
	set_up(&ways, there);
	if (!options->json)
		printf("%10s %10s %13s %13s %14s %10s\n", "bytes", "rounds", "min us", "median us",
			"99 % us", "MB/s");
	fflush(stdout);
	for (at = options->sizes; *at; at = *next ? next + 1 : next) {
		unsigned long size = strtoul(at, &next, 10);

		if (next == at || size > SIZE || (*next && *next != ',') ||
			(options->kind == SCALARS && size != sizeof(mcapi_uint64_t)))
			fail("sizes are 0 to 65536, or 8 of scalars");
		measure(&ways, size, options);
	}
	begin_order(&ways, END, 0);
	end_order(&ways);
	close_ways(&ways);
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{ "kind", required_argument, NULL, 'k' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "sizes", required_argument, NULL, 's' },
		{ "pause", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 'k':
			options->kind = kind_of(optarg);
			break;
		case 'r':
			options->rounds = number(optarg, ROUNDS_MAX);
			break;
		case 's':
			options->sizes = optarg;
			break;
		case 'p':
			options->pause = number(optarg, PAUSE_MAX);
			break;
		case 'j':
			options->json = 1;
			break;
		default:
			return 0;
		}
	}
	if (!options->sizes)
		options->sizes = options->kind == SCALARS ? "8" : "8,64,1024,4096,65536";
	return options->rounds > 0 && options->kind < KINDS;
}

int main(int argc, char **argv)
{
	struct options options = { MESSAGES, 1000, NULL, 0, 0 };
	mcapi_status_t status;
	int is_good = parse(argc, argv, &options);
	char **words = argv + optind;

	if (is_good && argc - optind == 2 && strcmp(words[0], "server") == 0) {
		serve(number(words[1], MCAPI_MAX_NODE));
	} else if (is_good && argc - optind == 3 && strcmp(words[0], "client") == 0) {
		run(number(words[1], MCAPI_MAX_NODE), number(words[2], MCAPI_MAX_NODE), &options);
	} else {
		fprintf(stderr, "usage: %s server NODE | client NODE SERVER\n", argv[0]);
		fprintf(stderr, "       [--kind messages|packets|scalars] [--rounds N] [--sizes N,...]\n");
		fprintf(stderr, "       [--pause MS] [--json]\n");
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
