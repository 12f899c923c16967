// SPDX-License-Identifier: GPL-2.0
/*
 * Ping-pong over shared memory: each node polls a word of its own segment and writes the next
 * number into that of the other one. Neither makes a system call meanwhile.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

static volatile unsigned int *own, *other;

/* Waits for a number, or ends the program. */
static void await(const struct options *options, unsigned int number)
{
	double start = now();

	while (*own != number) {
		if ((now() - start) * 1000 > options->patience) {
			fprintf(stderr, "FAILED: the other node has fallen silent\n");
			exit(1);
		}
	}
}

static void play(const struct options *options)
{
	double *seconds = calloc(options->rounds, sizeof(*seconds));
	unsigned int round;

	if (!seconds)
		exit(1);
	for (round = 1; round <= options->rounds; round++) {
		double start = now();

		if (options->server) {
			await(options, round);
			*other = round;
			SCIFlush(NULL, 0);
		} else {
			*other = round;
			SCIFlush(NULL, 0);
			await(options, round);
		}
		seconds[round - 1] = (now() - start) / 2;
	}
	if (!options->server)
		report(options, "scipp", seconds, options->rounds);
	free(seconds);
}

int main(int argc, char **argv)
{
	sci_local_segment_t local;
	sci_remote_segment_t remote;
	sci_map_t local_map, remote_map;
	sci_sequence_t sequence;
	struct options options;
	unsigned int ids[2];
	sci_error_t error;
	sci_desc_t sd;
	double start;

	options_read(&options, argc, argv, "latency of stores to another node");
	ids[0] = options.id;
	ids[1] = options.id + 1;
	SCIInitialize(0, &error);
	expect("SCIInitialize", error);
	SCIOpen(&sd, 0, &error);
	expect("SCIOpen", error);
	SCICreateSegment(sd, &local, ids[options.server], options.size, NULL, NULL, 0, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(local, options.adapter, 0, &error);
	expect("SCIPrepareSegment", error);
	own = SCIMapLocalSegment(local, &local_map, 0, options.size, NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	SCISetSegmentAvailable(local, options.adapter, 0, &error);
	expect("SCISetSegmentAvailable", error);

	start = now();
	do {
		SCIConnectSegment(sd, &remote, options.node, ids[!options.server],
				  options.adapter, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(&options, start, error));
	expect("SCIConnectSegment", error);
	other = SCIMapRemoteSegment(remote, &remote_map, 0, options.size, NULL, 0, &error);
	expect("SCIMapRemoteSegment", error);
	SCICreateMapSequence(remote_map, &sequence, 0, &error);
	expect("SCICreateMapSequence", error);
	if (SCIStartSequence(sequence, 0, &error) != SCI_SEQ_OK)
		expect("SCIStartSequence", error ? error : SCI_ERR_TRANSFER_FAILED);
	play(&options);
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
	/* As long as the other node has not disconnected. */
	start = now();
	do {
		SCIRemoveSegment(local, 0, &error);
	} while (error == SCI_ERR_BUSY && (now() - start) * 1000 < options.patience);
	expect("SCIRemoveSegment", error);
	SCIClose(sd, 0, &error);
	expect("SCIClose", error);
	SCITerminate();
	return 0;
}
