// SPDX-License-Identifier: GPL-2.0
/*
 * Writes a pattern into a segment of another node by SCIMemCpy() and by DMA, and has that node look
 * whether it has arrived.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned char pattern(size_t at, unsigned int turn)
{
	return (unsigned char)(at * 7 + at / 256 + turn);
}

/* Exits if the segment has not got the pattern. */
static void look(const volatile unsigned char *memory, size_t size, unsigned int turn)
{
	size_t at;

	for (at = 0; at < size; at++) {
		if (memory[at] == pattern(at, turn))
			continue;
		fprintf(stderr, "FAILED: byte %zu is %u\n", at, memory[at]);
		exit(1);
	}
}

static void serve(const struct options *options, sci_desc_t sd)
{
	unsigned int turn, length, number = options->id;
	sci_remote_interrupt_t answer = NULL;
	sci_local_data_interrupt_t message;
	volatile unsigned char *memory;
	sci_local_segment_t segment;
	sci_error_t error;
	double start;
	sci_map_t map;

	SCICreateDataInterrupt(sd, &message, options->adapter, &number, NULL, NULL,
			       SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateDataInterrupt", error);
	SCICreateSegment(sd, &segment, options->id, options->size, NULL, NULL, 0, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(segment, options->adapter, 0, &error);
	expect("SCIPrepareSegment", error);
	memory = SCIMapLocalSegment(segment, &map, 0, options->size, NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	SCISetSegmentAvailable(segment, options->adapter, 0, &error);
	expect("SCISetSegmentAvailable", error);
	/* One message for each way of writing, and an answer once the pattern was looked at. */
	do {
		length = sizeof(turn);
		SCIWaitForDataInterrupt(message, &turn, &length, options->patience, 0, &error);
		expect("SCIWaitForDataInterrupt", error);
		look(memory, options->size, turn);
		if (turn == 1) {
			SCIConnectInterrupt(sd, &answer, options->node, options->adapter,
					    options->id, SCI_INFINITE_TIMEOUT, 0, &error);
			expect("SCIConnectInterrupt", error);
		}
		SCITriggerInterrupt(answer, 0, &error);
		expect("SCITriggerInterrupt", error);
	} while (turn != 2);
	SCIDisconnectInterrupt(answer, 0, &error);
	expect("SCIDisconnectInterrupt", error);
	SCIUnmapSegment(map, 0, &error);
	expect("SCIUnmapSegment", error);
	start = now();
	do {
		SCIRemoveSegment(segment, 0, &error);
	} while (error == SCI_ERR_BUSY && (now() - start) * 1000 < options->patience);
	expect("SCIRemoveSegment", error);
	start = now();
	do {
		SCIRemoveDataInterrupt(message, 0, &error);
	} while (error == SCI_ERR_BUSY && (now() - start) * 1000 < options->patience);
	expect("SCIRemoveDataInterrupt", error);
}

static void fill(volatile unsigned char *memory, size_t size, unsigned int turn)
{
	size_t at;

	for (at = 0; at < size; at++)
		memory[at] = pattern(at, turn);
}

static void measure(const struct options *options, sci_desc_t sd)
{
	unsigned int round, turn, number = options->id;
	sci_map_t map, source_map;
	sci_local_interrupt_t answer;
	sci_remote_data_interrupt_t message;
	volatile unsigned char *source;
	sci_local_segment_t local;
	sci_remote_segment_t remote;
	sci_sequence_t sequence;
	sci_dma_queue_t queue;
	sci_error_t error;
	double start;

	SCICreateInterrupt(sd, &answer, options->adapter, &number, NULL, NULL,
			   SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateInterrupt", error);
	SCICreateSegment(sd, &local, 0, options->size, NULL, NULL, SCI_FLAG_PRIVATE, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(local, options->adapter, SCI_FLAG_DMA_SOURCE_ONLY, &error);
	expect("SCIPrepareSegment", error);
	source = SCIMapLocalSegment(local, &source_map, 0, options->size, NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	start = now();
	do {
		SCIConnectSegment(sd, &remote, options->node, options->id, options->adapter,
				  NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(options, start, error));
	expect("SCIConnectSegment", error);
	SCIConnectDataInterrupt(sd, &message, options->node, options->adapter, options->id,
				SCI_INFINITE_TIMEOUT, 0, &error);
	expect("SCIConnectDataInterrupt", error);
	SCIMapRemoteSegment(remote, &map, 0, options->size, NULL, 0, &error);
	expect("SCIMapRemoteSegment", error);
	SCICreateMapSequence(map, &sequence, 0, &error);
	expect("SCICreateMapSequence", error);
	SCICreateDMAQueue(sd, &queue, options->adapter, 1, 0, &error);
	expect("SCICreateDMAQueue", error);

	for (turn = 1; turn <= 2; turn++) {
		fill(source, options->size, turn);
		start = now();
		for (round = 0; round < options->rounds; round++) {
			if (turn == 1) {
				SCIMemCpy(sequence, (void *)source, map, 0, options->size,
					  SCI_FLAG_ERROR_CHECK, &error);
				expect("SCIMemCpy", error);
			} else {
				SCIStartDmaTransfer(queue, local, remote, 0, options->size, 0,
						    NULL, NULL, SCI_FLAG_DMA_WAIT, &error);
				expect("SCIStartDmaTransfer", error);
			}
		}
		report_rate(options, turn == 1 ? "memcpy" : "dma",
			    (double)options->size * options->rounds / (now() - start) / 1e6);
		SCITriggerDataInterrupt(message, &turn, sizeof(turn), 0, &error);
		expect("SCITriggerDataInterrupt", error);
		SCIWaitForInterrupt(answer, options->patience, 0, &error);
		expect("SCIWaitForInterrupt", error);
	}
	SCIRemoveDMAQueue(queue, 0, &error);
	expect("SCIRemoveDMAQueue", error);
	SCIRemoveSequence(sequence, 0, &error);
	expect("SCIRemoveSequence", error);
	SCIUnmapSegment(map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIDisconnectDataInterrupt(message, 0, &error);
	expect("SCIDisconnectDataInterrupt", error);
	SCIDisconnectSegment(remote, 0, &error);
	expect("SCIDisconnectSegment", error);
	SCIUnmapSegment(source_map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIRemoveSegment(local, 0, &error);
	expect("SCIRemoveSegment", error);
	start = now();
	do {
		SCIRemoveInterrupt(answer, 0, &error);
	} while (error == SCI_ERR_BUSY && (now() - start) * 1000 < options->patience);
	expect("SCIRemoveInterrupt", error);
}

int main(int argc, char **argv)
{
	struct options options;
	sci_error_t error;
	sci_desc_t sd;

	options_read(&options, argc, argv, "rate of copies to another node");
	SCIInitialize(0, &error);
	expect("SCIInitialize", error);
	SCIOpen(&sd, 0, &error);
	expect("SCIOpen", error);
	if (options.server)
		serve(&options, sd);
	else
		measure(&options, sd);
	SCIClose(sd, 0, &error);
	expect("SCIClose", error);
	SCITerminate();
	return 0;
}
