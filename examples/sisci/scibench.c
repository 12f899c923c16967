// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * How fast the processor copies into a segment of another node, and out of it:
 *
 *	write		SCIMemWrite()
 *	barrier		the same, with SCIStoreBarrier() after each
 *	memcpy		SCIMemCpy(), which looks whether it has arrived
 *	read		SCIMemCpy() out of the segment
 */
#include "mirror.h"

#include <stdlib.h>
#include <string.h>

/*
 * Where software emulates the memory management unit, pages whose numbers end alike evict each
 * other from a table: the own memory is shifted by so many bytes, so many times, and the best
 * rate counts.
 */
#define SHIFT (13 * 4096)
#define SHIFTS 4

static const struct program about = {
	.about = "rate of copies to another node and from it, by the processor",
	.sizes = "64,1024,16384,65536",
};

enum kind { WRITE, BARRIER, MEMCPY, READ, KINDS };

static const char *const names[KINDS] = { "write", "barrier", "memcpy", "read" };

static void copy(struct mirror *mirror, sci_sequence_t sequence, enum kind kind, void *memory,
		 size_t size)
{
	sci_error_t error;

	if (kind == WRITE || kind == BARRIER) {
		SCIMemWrite(memory, mirror->memory, size, 0, &error);
		expect("SCIMemWrite", error);
		if (kind == BARRIER)
			SCIStoreBarrier(sequence, 0);
		return;
	}
	SCIMemCpy(sequence, memory, mirror->map, 0, size,
		  kind == READ ? SCI_FLAG_BLOCK_READ : SCI_FLAG_ERROR_CHECK, &error);
	expect("SCIMemCpy", error);
}

/* The least time that all rounds have taken, of any of the places. */
static double least_time(struct mirror *mirror, sci_sequence_t sequence, enum kind kind,
			 unsigned char *memory, size_t size)
{
	unsigned int rounds = mirror->options->rounds, shift, round;
	double start, seconds, least = 0;

	for (shift = 0; shift < SHIFTS; shift++) {
		unsigned char *place = memory + shift * SHIFT;

		if (kind == READ)
			memset(place, 0, size);
		else
			mirror_fill(mirror, place, size);
		start = now();
		for (round = 0; round < rounds; round++)
			copy(mirror, sequence, kind, place, size);
		seconds = now() - start;
		if (!shift || seconds < least)
			least = seconds;
		if (kind == READ)
			mirror_look(place, size, mirror->turn);
		else
			mirror_check(mirror, size);
	}
	return least;
}

static void measure(const struct options *options, sci_desc_t sd)
{
	unsigned char *memory = calloc(1, largest(options) + (SHIFTS - 1) * SHIFT);
	sci_sequence_t sequence;
	struct mirror mirror;
	sci_error_t error;
	unsigned int i;
	enum kind kind;

	if (!memory)
		exit(1);
	mirror_open(&mirror, options, sd);
	SCICreateMapSequence(mirror.map, &sequence, 0, &error);
	expect("SCICreateMapSequence", error);
	report_head(options, RATES);
	for (i = 0; i < options->count; i++) {
		size_t size = options->sizes[i];

		for (kind = 0; kind < KINDS; kind++)
			report_rate(options, names[kind], size,
				    least_time(&mirror, sequence, kind, memory, size));
	}
	SCIRemoveSequence(sequence, 0, &error);
	expect("SCIRemoveSequence", error);
	mirror_close(&mirror);
	free(memory);
}

int main(int argc, char **argv)
{
	struct options options;
	sci_desc_t sd;

	options_read(&options, argc, argv, &about);
	sd = library_open();
	if (options.server)
		mirror_serve(&options, sd);
	else
		measure(&options, sd);
	library_close(sd);
	return 0;
}
