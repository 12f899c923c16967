// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See mirror.h.
 */
#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>

/* What the client asks. */
struct question {
	unsigned int turn;
	unsigned int size;	/* 0: nothing, and never again */
};

static unsigned char pattern(size_t at, unsigned int turn)
{
	return (unsigned char)(at * 7 + at / 256 + turn);
}

void mirror_look(const volatile void *memory, size_t size, unsigned int turn)
{
	const volatile unsigned char *bytes = memory;
	size_t at;

	for (at = 0; at < size; at++) {
		if (bytes[at] == pattern(at, turn))
			continue;
		fprintf(stderr, "FAILED: byte %zu of %zu is %u\n", at, size, bytes[at]);
		exit(1);
	}
}

void mirror_fill(struct mirror *mirror, void *memory, size_t size)
{
	unsigned char *bytes = memory;
	size_t at;

	mirror->turn++;
	for (at = 0; at < size; at++)
		bytes[at] = pattern(at, mirror->turn);
}

static void answer_all(const struct options *options, sci_desc_t sd,
		       sci_local_data_interrupt_t questions, const volatile void *memory)
{
	sci_remote_interrupt_t answer = NULL;
	struct question question;
	sci_error_t error;

	for (;;) {
		unsigned int length = sizeof(question);

		SCIWaitForDataInterrupt(questions, &question, &length, options->patience, 0,
					&error);
		expect("SCIWaitForDataInterrupt", error);
		if (length != sizeof(question) || question.size > largest(options)) {
			fprintf(stderr, "FAILED: the client is given other options\n");
			exit(1);
		}
		if (!question.size)
			break;
		mirror_look(memory, question.size, question.turn);
		if (!answer) {
			SCIConnectInterrupt(sd, &answer, options->node, options->adapter,
					    options->id, SCI_INFINITE_TIMEOUT, 0, &error);
			expect("SCIConnectInterrupt", error);
		}
		SCITriggerInterrupt(answer, 0, &error);
		expect("SCITriggerInterrupt", error);
	}
	if (!answer)
		return;
	SCIDisconnectInterrupt(answer, 0, &error);
	expect("SCIDisconnectInterrupt", error);
}

void mirror_serve(const struct options *options, sci_desc_t sd)
{
	unsigned int number = options->id;
	sci_local_data_interrupt_t questions;
	const volatile void *memory;
	sci_local_segment_t segment;
	sci_error_t error;
	double start;
	sci_map_t map;

	SCICreateDataInterrupt(sd, &questions, options->adapter, &number, NULL, NULL,
			       SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateDataInterrupt", error);
	SCICreateSegment(sd, &segment, options->id, largest(options), NULL, NULL, 0, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(segment, options->adapter, 0, &error);
	expect("SCIPrepareSegment", error);
	memory = SCIMapLocalSegment(segment, &map, 0, largest(options), NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	SCISetSegmentAvailable(segment, options->adapter, 0, &error);
	expect("SCISetSegmentAvailable", error);

	answer_all(options, sd, questions, memory);

	SCIUnmapSegment(map, 0, &error);
	expect("SCIUnmapSegment", error);
	start = now();
	do {
		SCIRemoveSegment(segment, 0, &error);
	} while (busy(options, start, error));
	expect("SCIRemoveSegment", error);
	do {
		SCIRemoveDataInterrupt(questions, 0, &error);
	} while (busy(options, start, error));
	expect("SCIRemoveDataInterrupt", error);
}

void mirror_open(struct mirror *mirror, const struct options *options, sci_desc_t sd)
{
	unsigned int number = options->id;
	sci_error_t error;

	mirror->options = options;
	mirror->sd = sd;
	mirror->turn = 0;
	SCICreateInterrupt(sd, &mirror->answer, options->adapter, &number, NULL, NULL,
			   SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateInterrupt", error);
	mirror->segment = segment_connect(options, sd, options->id);
	SCIConnectDataInterrupt(sd, &mirror->question, options->node, options->adapter,
				options->id, SCI_INFINITE_TIMEOUT, 0, &error);
	expect("SCIConnectDataInterrupt", error);
	mirror->memory = SCIMapRemoteSegment(mirror->segment, &mirror->map, 0, largest(options),
					     NULL, 0, &error);
	expect("SCIMapRemoteSegment", error);
}

static void ask(struct mirror *mirror, size_t size)
{
	struct question question = { mirror->turn, (unsigned int)size };
	sci_error_t error;

	SCITriggerDataInterrupt(mirror->question, &question, sizeof(question), 0, &error);
	expect("SCITriggerDataInterrupt", error);
}

void mirror_check(struct mirror *mirror, size_t size)
{
	sci_error_t error;

	ask(mirror, size);
	SCIWaitForInterrupt(mirror->answer, mirror->options->patience, 0, &error);
	expect("SCIWaitForInterrupt", error);
}

void mirror_close(struct mirror *mirror)
{
	sci_error_t error;
	double start;

	ask(mirror, 0);
	SCIUnmapSegment(mirror->map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIDisconnectDataInterrupt(mirror->question, 0, &error);
	expect("SCIDisconnectDataInterrupt", error);
	SCIDisconnectSegment(mirror->segment, 0, &error);
	expect("SCIDisconnectSegment", error);
	start = now();
	do {
		SCIRemoveInterrupt(mirror->answer, 0, &error);
	} while (busy(mirror->options, start, error));
	expect("SCIRemoveInterrupt", error);
}
