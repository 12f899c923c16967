// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Many nodes send to one.
 *
 *	mcapi_many sink NODE SOURCES [--kind messages|packets|scalars] [--rounds N] [--size N] [--json]
 *	mcapi_many source NODE SINK
 *
 * Each source announces itself by a message, is told what to send, and sends it. Messages of all
 * sources go to one endpoint; packets and scalars have a channel for each source. The sink prints how
 * many items arrived each second, how many bytes, and how much later the last source was done than
 * the first one: all of them get their turn.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define SOURCES_MAX 32
#define SINK_PORT 1		/* for announcements, and for messages */
#define CHANNEL_PORT 1		/* of each source */
#define SIZE MCAPI_MAX_MESSAGE_SIZE

/* What a source has to do; it has the number that the sink knows it by. */
struct order {
	mcapi_uint64_t rounds, size;
	mcapi_uint32_t kind, source;
};

/* The first bytes of what a source sends, but for scalars, which are this number. */
struct item {
	mcapi_uint32_t source, number;
};

struct source {
	mcapi_endpoint_t there;	/* where it is told what to do */
	mcapi_endpoint_t in;	/* of its channel */
	mcapi_pktchan_recv_hndl_t packets;
	mcapi_sclchan_recv_hndl_t scalars;
	unsigned long received;
	double done;
};

struct options {
	enum data_kind kind;
	unsigned long rounds, size;
	int json;
};

static unsigned char bytes[SIZE];
static mcapi_status_t status;

/* --- the source */

static void send_all(const struct order *order, mcapi_endpoint_t own, mcapi_endpoint_t sink,
	mcapi_pktchan_send_hndl_t packets, mcapi_sclchan_send_hndl_t scalars)
{
	struct item item = { order->source, 0 };
	mcapi_uint64_t scalar;

	for (; item.number < order->rounds; item.number++) {
		memcpy(bytes, &item, sizeof(item));
		memcpy(&scalar, &item, sizeof(item));
		if (order->kind == MESSAGES)
			mcapi_msg_send(own, sink, bytes, order->size, 0, &status);
		else if (order->kind == PACKETS)
			mcapi_pktchan_send(packets, bytes, order->size, &status);
		else
			mcapi_sclchan_send_uint64(scalars, scalar, &status);
		check("a send", status);
	}
}

static void be_source(mcapi_node_t node, mcapi_node_t sink_node)
{
	mcapi_pktchan_send_hndl_t packets = 0;
	mcapi_sclchan_send_hndl_t scalars = 0;
	mcapi_endpoint_t own, out, sink;
	mcapi_request_t request;
	struct order order;
	size_t size;

	become(node);
	own = patient_endpoint(MCAPI_PORT_ANY);
	out = patient_endpoint(CHANNEL_PORT);
	sink = found(sink_node, SINK_PORT);
	mcapi_msg_send(own, sink, (mcapi_endpoint_t[]){ own, out }, 2 * sizeof(own), 0, &status);
	check("the announcement", status);
	mcapi_msg_recv(own, &order, sizeof(order), &size, &status);
	check("the order", status);
	if (size != sizeof(order) || order.size > SIZE || order.kind >= KINDS)
		fail("that is no order");
	/* The sink connects. */
	if (order.kind == PACKETS)
		mcapi_pktchan_send_open_i(&packets, out, &request, &status);
	else if (order.kind == SCALARS)
		mcapi_sclchan_send_open_i(&scalars, out, &request, &status);
	if (order.kind != MESSAGES) {
		check_begun("the way is not open", status);
		finish("the way is not open", request);
	}
	send_all(&order, own, sink, packets, scalars);
	/* Until the sink has everything. */
	mcapi_msg_recv(own, &order, sizeof(order), &size, &status);
	check("the sink's last word", status);
}

/* --- the sink */

static void connect_source(struct source *source, mcapi_endpoint_t out, enum data_kind kind)
{
	mcapi_request_t request;

	source->in = patient_endpoint(MCAPI_PORT_ANY);
	if (kind == PACKETS)
		mcapi_pktchan_connect_i(out, source->in, &request, &status);
	else
		mcapi_sclchan_connect_i(out, source->in, &request, &status);
	check_begun("a channel is not connected", status);
	finish("a channel is not connected", request);
}

static void open_source(struct source *source, enum data_kind kind)
{
	mcapi_request_t request;

	if (kind == PACKETS)
		mcapi_pktchan_recv_open_i(&source->packets, source->in, &request, &status);
	else
		mcapi_sclchan_recv_open_i(&source->scalars, source->in, &request, &status);
	check_begun("a channel is not open", status);
	finish("a channel is not open", request);
}

/* Counts an item, which has to be the next one of its source. */
static void count(struct source *sources, unsigned long how_many, const struct item *item,
	unsigned long rounds)
{
	struct source *source = sources + (item->source < how_many ? item->source : 0);

	if (item->source >= how_many || item->number != source->received)
		fail("something came that is not the next of its source");
	if (++source->received == rounds)
		source->done = now_us();
}

/* Takes an item of one source, if there is one. */
static int take(const struct source *source, enum data_kind kind, struct item *item)
{
	mcapi_uint64_t scalar;
	void *packet;
	size_t size;

	if (kind == PACKETS) {
		if (!mcapi_pktchan_available(source->packets, &status))
			return 0;
		mcapi_pktchan_recv(source->packets, &packet, &size, &status);
		check("mcapi_pktchan_recv", status);
		memcpy(item, packet, sizeof(*item));
		mcapi_pktchan_release(packet, &status);
	} else {
		if (!mcapi_sclchan_available(source->scalars, &status))
			return 0;
		scalar = mcapi_sclchan_recv_uint64(source->scalars, &status);
		memcpy(item, &scalar, sizeof(*item));
	}
	check("what a channel carries", status);
	return 1;
}

static void receive_all(mcapi_endpoint_t own, struct source *sources, unsigned long how_many,
	const struct options *options)
{
	unsigned long left = how_many * options->rounds, n;
	struct item item;
	size_t size;

	while (left) {
		for (n = 0; n < how_many && left; n++) {
			if (options->kind == MESSAGES) {
				mcapi_msg_recv(own, bytes, sizeof(bytes), &size, &status);
				check("mcapi_msg_recv", status);
				memcpy(&item, bytes, sizeof(item));
			} else if (!take(&sources[n], options->kind, &item)) {
				continue;
			}
			count(sources, how_many, &item, options->rounds);
			left--;
		}
	}
}

static void tell(const struct source *sources, unsigned long how_many, double start,
	const struct options *options)
{
	double first = sources[0].done, last = sources[0].done, items = how_many * options->rounds;
	unsigned long n;

	for (n = 1; n < how_many; n++) {
		first = sources[n].done < first ? sources[n].done : first;
		last = sources[n].done > last ? sources[n].done : last;
	}
	printf(options->json ?
	       "{\"sources\": %lu, \"bytes\": %lu, \"items_s\": %.0f, \"mb_s\": %.1f, \"spread\": %.3f}\n" :
	       "%lu sources, %lu bytes: %.0f each second, %.1f MB/s, the last one %.3f times as late\n",
	       how_many, options->size, items * 1e6 / (last - start),
	       items * options->size / (last - start), (last - start) / (first - start));
}

static void be_sink(mcapi_node_t node, unsigned long how_many, const struct options *options)
{
	struct order order = { options->rounds, options->size, options->kind, 0 };
	static struct source sources[SOURCES_MAX];
	mcapi_endpoint_t own, ends[2];
	double start;
	size_t size;

	become(node);
	if (how_many == 0)
		fail("a sink needs a source");
	own = patient_endpoint(SINK_PORT);
	printf("ready\n");
	fflush(stdout);
	for (order.source = 0; order.source < how_many; order.source++) {
		mcapi_msg_recv(own, ends, sizeof(ends), &size, &status);
		check("an announcement", status);
		sources[order.source].there = ends[0];
		if (options->kind != MESSAGES)
			connect_source(&sources[order.source], ends[1], options->kind);
	}
	start = now_us();
	for (order.source = 0; order.source < how_many; order.source++) {
		mcapi_msg_send(own, sources[order.source].there, &order, sizeof(order), 0, &status);
		check("an order", status);
	}
	if (options->kind != MESSAGES)
		for (order.source = 0; order.source < how_many; order.source++)
			open_source(&sources[order.source], options->kind);
	receive_all(own, sources, how_many, options);
	tell(sources, how_many, start, options);
	for (order.source = 0; order.source < how_many; order.source++)
		mcapi_msg_send(own, sources[order.source].there, NULL, 0, 0, &status);
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{ "kind", required_argument, NULL, 'k' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "size", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == 'k')
			options->kind = kind_of(optarg);
		else if (option == 'r')
			options->rounds = number(optarg, 10000000);
		else if (option == 's')
			options->size = number(optarg, SIZE);
		else if (option == 'j')
			options->json = 1;
		else
			return 0;
	}
	if (options->kind == SCALARS)
		options->size = sizeof(struct item);
	return options->rounds > 0 && options->kind < KINDS && options->size >= sizeof(struct item);
}

int main(int argc, char **argv)
{
	struct options options = { MESSAGES, 10000, 64, 0 };
	int is_good = parse(argc, argv, &options) && argc - optind == 3;
	char **words = argv + optind;

	if (is_good && strcmp(words[0], "sink") == 0) {
		be_sink(number(words[1], MCAPI_MAX_NODE), number(words[2], SOURCES_MAX), &options);
	} else if (is_good && strcmp(words[0], "source") == 0) {
		be_source(number(words[1], MCAPI_MAX_NODE), number(words[2], MCAPI_MAX_NODE));
	} else {
		fprintf(stderr, "usage: %s sink NODE SOURCES [--kind messages|packets|scalars]\n"
			"       [--rounds N] [--size N] [--json]\n"
			"       %s source NODE SINK\n", argv[0], argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
