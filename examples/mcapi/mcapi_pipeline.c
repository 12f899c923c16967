// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stages that each do a part of the work, on as many hosts as there are.
 *
 *	mcapi_pipeline stage NODE
 *	mcapi_pipeline source NODE STAGE... [--rounds N] [--size N] [--json]
 *
 * Packets go from the source through all stages and back to it. Each stage adds one to all bytes,
 * where they have arrived, and passes them on. The source connects them all: stages do not know
 * each other. It prints how long one packet takes that is alone on its way, in microseconds, and
 * how many bytes pass when there are as many on their way as all channels have room for.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define STAGES_MAX 16
#define ROOM 2		/* packets that each channel has room for, whatever their size */

enum port { IN = 1, OUT };

struct options {
	unsigned long rounds;
	size_t size;
	int json;
};

static mcapi_pktchan_recv_hndl_t in;
static mcapi_pktchan_send_hndl_t out;
static mcapi_status_t status;

static void open_ends(mcapi_endpoint_t receiving, mcapi_endpoint_t sending)
{
	mcapi_request_t receives, sends;

	mcapi_pktchan_recv_open_i(&in, receiving, &receives, &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	mcapi_pktchan_send_open_i(&out, sending, &sends, &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	finish("nobody sends", receives);
	finish("nobody receives", sends);
}

static void close_ends(void)
{
	mcapi_request_t receives, sends;

	mcapi_pktchan_send_close_i(out, &sends, &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	mcapi_pktchan_recv_close_i(in, &receives, &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	finish("the way out does not close", sends);
	finish("the way in does not close", receives);
}

static void put(const void *bytes, size_t size)
{
	mcapi_pktchan_send(out, bytes, size, &status);
	check("mcapi_pktchan_send", status);
}

static unsigned char *take(size_t *size)
{
	void *packet;

	mcapi_pktchan_recv(in, &packet, size, &status);
	check("mcapi_pktchan_recv", status);
	return packet;
}

static void give_back(unsigned char *packet)
{
	mcapi_pktchan_release(packet, &status);
	check("mcapi_pktchan_release", status);
}

/* Passes packets on until one without bytes has been passed on. */
static void work(mcapi_node_t node)
{
	mcapi_endpoint_t receiving, sending;
	unsigned char *packet;
	size_t size, at;

	become(node);
	receiving = patient_endpoint(IN);
	sending = patient_endpoint(OUT);
	printf("ready\n");
	fflush(stdout);
	open_ends(receiving, sending);
	do {
		packet = take(&size);
		for (at = 0; at < size; at++)
			packet[at]++;
		put(packet, size);
		give_back(packet);
	} while (size);
	close_ends();
}

static void connect(mcapi_endpoint_t from, mcapi_endpoint_t to)
{
	mcapi_request_t request;

	mcapi_pktchan_connect_i(from, to, &request, &status);
	check_begun("a channel is not connected", status);
	finish("a channel is not connected", request);
}

/* Connects the node's own ends with those of the stages, one after the other. */
static void connect_all(const mcapi_node_t *stages, unsigned int count)
{
	mcapi_endpoint_t receiving = patient_endpoint(IN), sending = patient_endpoint(OUT);
	mcapi_endpoint_t from = sending;
	unsigned int n;

	for (n = 0; n < count; n++) {
		connect(from, found(stages[n], IN));
		from = found(stages[n], OUT);
	}
	connect(from, receiving);
	open_ends(receiving, sending);
}

/* Takes a packet that was sent with bytes of one value, and compares it. */
static void expect(size_t size, unsigned char byte)
{
	size_t back, at;
	unsigned char *packet = take(&back);

	if (back != size)
		fail("a packet has another size");
	for (at = 0; at < size; at++)
		if (packet[at] != byte)
			fail("a packet has other bytes");
	give_back(packet);
}

/* Sends packets, with so many on their way at most; microseconds for all of them. */
static double run(unsigned long rounds, size_t size, unsigned int stages, unsigned int most)
{
	static unsigned char bytes[MCAPI_MAX_PACKET_SIZE];
	unsigned long sent, back = 0;
	double start = now_us();

	for (sent = 0; sent < rounds; sent++) {
		memset(bytes, (int)(sent & 0xFF), size);
		put(bytes, size);
		if (sent + 1 - back == most)
			expect(size, (back++ + stages) & 0xFF);
	}
	while (back < rounds)
		expect(size, (back++ + stages) & 0xFF);
	return now_us() - start;
}

static void play(mcapi_node_t node, char **words, unsigned int count, const struct options *options)
{
	mcapi_node_t stages[STAGES_MAX];
	double alone, together;
	unsigned int n;

	for (n = 0; n < count; n++)
		stages[n] = number(words[n], MCAPI_MAX_NODE);
	become(node);
	connect_all(stages, count);
	alone = run(options->rounds, options->size, count, 1) / options->rounds;
	together = run(options->rounds, options->size, count, ROOM * (count + 1));
	put(NULL, 0);
	expect(0, 0);
	close_ends();
	printf(options->json ?
	       "{\"stages\": %u, \"bytes\": %zu, \"rounds\": %lu, \"us\": %.3f, \"mb_s\": %.1f}\n" :
	       "%u stages, %zu bytes, %lu rounds: %.3f us for one, %.1f MB/s for many\n",
	       count, options->size, options->rounds, alone,
	       options->rounds * options->size / together);
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "size", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == 'r')
			options->rounds = number(optarg, 10000000);
		else if (option == 's')
			options->size = number(optarg, MCAPI_MAX_PACKET_SIZE);
		else if (option == 'j')
			options->json = 1;
		else
			return 0;
	}
	return options->rounds > 0 && options->size > 0;
}

int main(int argc, char **argv)
{
	struct options options = { 1000, 4096, 0 };
	int is_good = parse(argc, argv, &options), left = argc - optind;
	char **words = argv + optind;

	if (is_good && left == 2 && strcmp(words[0], "stage") == 0) {
		work(number(words[1], MCAPI_MAX_NODE));
	} else if (is_good && left > 2 && left <= 2 + STAGES_MAX && strcmp(words[0], "source") == 0) {
		play(number(words[1], MCAPI_MAX_NODE), words + 2, left - 2, &options);
	} else {
		fprintf(stderr, "usage: %s stage NODE | source NODE STAGE... [--rounds N] [--size N]\n"
			"       [--json]\n", argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
