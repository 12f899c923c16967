// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Ping-pong over shared memory: each node polls its own segment and writes messages into that of
 * the other one. A message ends with its number, which is written once all else of it has left.
 * Neither node makes a system call meanwhile.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

#define WORD sizeof(unsigned int)
/* The clock is read once for so many parts of all rounds, which are shorter than that. */
#define PARTS 50
/* And once for so many looks at memory: a second, or less. */
#define LOOKS (1U << 22)

static const struct program about = {
	.about = "latency of messages to another node, by stores",
	.sizes = "4,64,1024,8192",
};

struct court {
	const struct options *options;
	volatile unsigned int *own;
	volatile unsigned int *other;
	unsigned int number;	/* of the last message */
};

/* Waits for a message, or ends the program. */
static void await(const struct court *court, size_t words)
{
	const volatile unsigned int *end = court->own + words - 1;
	unsigned int looks = 0;
	double start = 0;

	while (*end != court->number) {
		if (++looks % LOOKS)
			continue;
		if (looks == LOOKS)
			start = now();
		else if (too_late(court->options, start))
			give_up();
	}
	if (court->own[0] == court->number)
		return;
	fprintf(stderr, "FAILED: the end of a message has come before its beginning\n");
	exit(1);
}

static void send_message(const struct court *court, size_t words)
{
	size_t at;

	for (at = 0; at + 1 < words; at++)
		court->other[at] = court->number;
	if (words > 1)
		SCIFlush(NULL, 0);
	court->other[words - 1] = court->number;
	SCIFlush(NULL, 0);
}

static void play_round(struct court *court, size_t words)
{
	court->number++;
	if (court->options->server) {
		await(court, words);
		send_message(court, words);
	} else {
		send_message(court, words);
		await(court, words);
	}
}

static void play(struct court *court, size_t bytes)
{
	unsigned int rounds = court->options->rounds, round = 0, part;
	unsigned int parts = rounds < PARTS ? rounds : PARTS;
	double seconds[PARTS];

	for (part = 0; part < parts; part++) {
		unsigned int first = round;
		unsigned int end = (unsigned int)((size_t)rounds * (part + 1) / parts);
		double start = now();

		for (; round < end; round++)
			play_round(court, bytes / WORD);
		seconds[part] = (now() - start) / (end - first) / 2;
	}
	if (!court->options->server)
		report(court->options, "scipp", bytes, seconds, parts);
}

static void play_all(const struct options *options, volatile void *own, volatile void *other)
{
	struct court court = { .options = options, .own = own, .other = other };
	unsigned int i;

	if (!options->server)
		report_head(options, TIMES);
	for (i = 0; i < options->count; i++)
		play(&court, options->sizes[i]);
}

int main(int argc, char **argv)
{
	sci_local_segment_t local;
	sci_remote_segment_t remote;
	sci_map_t local_map, remote_map;
	volatile void *own, *other;
	sci_sequence_t sequence;
	struct options options;
	sci_error_t error;
	sci_desc_t sd;
	double start;
	size_t room;
	unsigned int i;

	options_read(&options, argc, argv, &about);
	for (i = 0; i < options.count; i++) {
		if (options.sizes[i] % WORD == 0)
			continue;
		fprintf(stderr, "%s: sizes are multiples of %zu\n", argv[0], WORD);
		return 2;
	}
	room = largest(&options);
	sd = library_open();
	SCICreateSegment(sd, &local, options.id + !!options.server, room, NULL, NULL, 0, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(local, options.adapter, 0, &error);
	expect("SCIPrepareSegment", error);
	own = SCIMapLocalSegment(local, &local_map, 0, room, NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	SCISetSegmentAvailable(local, options.adapter, 0, &error);
	expect("SCISetSegmentAvailable", error);

	remote = segment_connect(&options, sd, options.id + !options.server);
	other = SCIMapRemoteSegment(remote, &remote_map, 0, room, NULL, 0, &error);
	expect("SCIMapRemoteSegment", error);
	SCICreateMapSequence(remote_map, &sequence, 0, &error);
	expect("SCICreateMapSequence", error);
	if (SCIStartSequence(sequence, 0, &error) != SCI_SEQ_OK)
		expect("SCIStartSequence", error ? error : SCI_ERR_TRANSFER_FAILED);
	play_all(&options, own, other);
	if (SCICheckSequence(sequence, 0, &error) != SCI_SEQ_OK)
		expect("SCICheckSequence", error ? error : SCI_ERR_TRANSFER_FAILED);

	SCIRemoveSequence(sequence, 0, &error);
	expect("SCIRemoveSequence", error);
	SCIUnmapSegment(remote_map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIDisconnectSegment(remote, 0, &error);
	expect("SCIDisconnectSegment", error);
	SCIUnmapSegment(local_map, 0, &error);
	expect("SCIUnmapSegment", error);
	start = now();
	do {
		SCIRemoveSegment(local, 0, &error);
	} while (busy(&options, start, error));
	expect("SCIRemoveSegment", error);
	library_close(sd);
	return 0;
}
