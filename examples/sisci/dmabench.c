// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * How fast a DMA queue copies into a segment of another node:
 *
 *	dma		SCIStartDmaTransfer(), from a segment of this node
 *	vector		SCIStartDmaTransferVec(), the same in pieces
 *	series		SCIStartDmaTransferVec(), the same many times over by one start
 *	memory		SCIStartDmaTransferMem(), from memory of the program
 */
#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>

static const struct program about = {
	.about = "rate of copies to another node, by DMA",
	.sizes = "4096,65536,262144",
	.pieces = 16,
};

enum kind { DMA, VECTOR, SERIES, MEMORY, KINDS };

static const char *const names[KINDS] = { "dma", "vector", "series", "memory" };

struct source {
	sci_local_segment_t segment;
	sci_map_t map;
	void *mapped;
	void *memory;
};

static void source_open(struct source *source, const struct options *options, sci_desc_t sd)
{
	size_t size = largest(options);
	sci_error_t error;

	SCICreateSegment(sd, &source->segment, 0, size, NULL, NULL, SCI_FLAG_PRIVATE, &error);
	expect("SCICreateSegment", error);
	SCIPrepareSegment(source->segment, options->adapter, SCI_FLAG_DMA_SOURCE_ONLY, &error);
	expect("SCIPrepareSegment", error);
	source->mapped = SCIMapLocalSegment(source->segment, &source->map, 0, size, NULL, 0,
					    &error);
	expect("SCIMapLocalSegment", error);
	source->memory = calloc(1, size);
	if (!source->memory)
		exit(1);
}

static void source_close(struct source *source)
{
	sci_error_t error;

	SCIUnmapSegment(source->map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIRemoveSegment(source->segment, 0, &error);
	expect("SCIRemoveSegment", error);
	free(source->memory);
}

/* Cuts a size into pieces; how many they are. */
static size_t cut(dis_dma_vec_t *vector, unsigned int pieces, size_t size)
{
	size_t count = 0, end = 0;
	unsigned int i;

	for (i = 0; i < pieces; i++) {
		size_t start = end;

		end = size * (i + 1) / pieces;
		if (start == end)
			continue;
		vector[count].local_offset = (unsigned int)start;
		vector[count].remote_offset = (unsigned int)start;
		vector[count].size = (unsigned int)(end - start);
		vector[count++].flags = 0;
	}
	return count;
}

/* The whole, so many times; how many they are. */
static size_t repeat(dis_dma_vec_t *vector, unsigned int times, size_t size)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		cut(&vector[i], 1, size);
	return times;
}

static void start(struct mirror *mirror, sci_dma_queue_t queue, const struct source *source,
		  enum kind kind, size_t size)
{
	unsigned int entries = mirror->options->pieces;
	dis_dma_vec_t vector[DIS_DMA_MAX_VECLEN];
	sci_error_t error;
	size_t count;

	switch (kind) {
	case VECTOR:
	case SERIES:
		count = kind == VECTOR ? cut(vector, entries, size) :
					 repeat(vector, entries, size);
		SCIStartDmaTransferVec(queue, source->segment, mirror->segment, count, vector,
				       NULL, NULL, 0, &error);
		expect("SCIStartDmaTransferVec", error);
		break;
	case MEMORY:
		SCIStartDmaTransferMem(queue, source->memory, mirror->segment, size, 0, NULL,
				       NULL, 0, &error);
		expect("SCIStartDmaTransferMem", error);
		break;
	default:
		SCIStartDmaTransfer(queue, source->segment, mirror->segment, 0, size, 0, NULL,
				    NULL, 0, &error);
		expect("SCIStartDmaTransfer", error);
	}
}

static void finish(const struct mirror *mirror, sci_dma_queue_t queue)
{
	sci_dma_queue_state_t state;
	sci_error_t error;

	state = SCIWaitForDMAQueue(queue, mirror->options->patience, 0, &error);
	expect("SCIWaitForDMAQueue", error);
	if (state != SCI_DMAQUEUE_DONE)
		expect("SCIWaitForDMAQueue", SCI_ERR_TRANSFER_FAILED);
}

static void measure(struct mirror *mirror, sci_dma_queue_t queue, const struct source *source,
		    enum kind kind, size_t size)
{
	unsigned int round, times = kind == SERIES ? mirror->options->pieces : 1;
	double begin;

	mirror_fill(mirror, kind == MEMORY ? source->memory : source->mapped, size);
	begin = now();
	for (round = 0; round < mirror->options->rounds; round++) {
		start(mirror, queue, source, kind, size);
		finish(mirror, queue);
	}
	report_rate(mirror->options, names[kind], size, (now() - begin) / times);
	mirror_check(mirror, size);
}

static void measure_all(const struct options *options, sci_desc_t sd)
{
	struct mirror mirror;
	struct source source;
	sci_dma_queue_t queue;
	sci_error_t error;
	unsigned int i;
	enum kind kind;

	mirror_open(&mirror, options, sd);
	source_open(&source, options, sd);
	SCICreateDMAQueue(sd, &queue, options->adapter, options->pieces, 0, &error);
	expect("SCICreateDMAQueue", error);
	report_head(options, RATES);
	for (i = 0; i < options->count; i++) {
		for (kind = 0; kind < KINDS; kind++)
			measure(&mirror, queue, &source, kind, options->sizes[i]);
	}
	SCIRemoveDMAQueue(queue, 0, &error);
	expect("SCIRemoveDMAQueue", error);
	mirror_close(&mirror);
	source_close(&source);
}

int main(int argc, char **argv)
{
	struct options options;
	sci_desc_t sd;

	options_read(&options, argc, argv, &about);
	if (options.pieces > DIS_DMA_MAX_VECLEN) {
		fprintf(stderr, "%s: more than %d pieces\n", argv[0], DIS_DMA_MAX_VECLEN);
		return 2;
	}
	sd = library_open();
	if (options.server)
		mirror_serve(&options, sd);
	else
		measure_all(&options, sd);
	library_close(sd);
	return 0;
}
