// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The life of a segment, told by callbacks: the server makes it, the client connects, writes a
 * greeting and stays until the server wants it to go.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM 4096
#define TEXT 8
#define GREETING "greetings"

static const struct program about = { .about = "the life of a segment, told by callbacks" };

/* What callbacks tell; they run on a thread of the library. */
struct news {
	sem_t connected;
	sem_t disconnected;
	unsigned int node;	/* that has connected */
};

static sci_callback_action_t at_server(void *arg, sci_local_segment_t segment,
				       sci_segment_cb_reason_t reason, unsigned int node,
				       unsigned int adapter, sci_error_t error)
{
	struct news *news = arg;

	(void)segment;
	(void)adapter;
	(void)error;
	news->node = node;
	if (reason == SCI_CB_CONNECT)
		sem_post(&news->connected);
	if (reason == SCI_CB_DISCONNECT || reason == SCI_CB_LOST)
		sem_post(&news->disconnected);
	return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t at_client(void *arg, sci_remote_segment_t segment,
				       sci_segment_cb_reason_t reason, sci_error_t status)
{
	struct news *news = arg;

	(void)segment;
	(void)status;
	if (reason != SCI_CB_DISCONNECT && reason != SCI_CB_LOST)
		return SCI_CALLBACK_CONTINUE;
	sem_post(&news->disconnected);
	return SCI_CALLBACK_CANCEL;
}

static void await(const struct options *options, sem_t *news)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += options->patience / 1000 + 1;
	while (sem_timedwait(news, &end)) {
		if (errno != EINTR)
			give_up();
	}
}

static void read_greeting(const struct options *options, const volatile char *memory)
{
	double start = now();
	size_t i;

	/* The first word is written last. */
	while (!*(const volatile unsigned int *)memory) {
		if (too_late(options, start))
			give_up();
		pause_shortly();
	}
	for (i = 0; i < sizeof(GREETING); i++) {
		if (memory[TEXT + i] == GREETING[i])
			continue;
		fprintf(stderr, "FAILED: the greeting has not arrived\n");
		exit(1);
	}
}

static void serve(const struct options *options, sci_desc_t sd, struct news *news)
{
	const volatile char *memory;
	sci_local_segment_t segment;
	sci_error_t error;
	double start;
	sci_map_t map;

	SCICreateSegment(sd, &segment, options->id, ROOM, at_server, news, SCI_FLAG_USE_CALLBACK,
			 &error);
	expect("SCICreateSegment", error);
	report_event(options, "created", 0);
	SCIPrepareSegment(segment, options->adapter, 0, &error);
	expect("SCIPrepareSegment", error);
	report_event(options, "prepared", 0);
	memory = SCIMapLocalSegment(segment, &map, 0, ROOM, NULL, 0, &error);
	expect("SCIMapLocalSegment", error);
	SCISetSegmentAvailable(segment, options->adapter, 0, &error);
	expect("SCISetSegmentAvailable", error);
	report_event(options, "available", 0);

	await(options, &news->connected);
	report_event(options, "connected", news->node);
	read_greeting(options, memory);
	report_event(options, "greeted", news->node);
	SCISetSegmentUnavailable(segment, options->adapter, SCI_FLAG_NOTIFY, &error);
	expect("SCISetSegmentUnavailable", error);
	report_event(options, "unavailable", 0);
	await(options, &news->disconnected);
	report_event(options, "disconnected", news->node);

	SCIUnmapSegment(map, 0, &error);
	expect("SCIUnmapSegment", error);
	start = now();
	do {
		SCIRemoveSegment(segment, 0, &error);
	} while (busy(options, start, error));
	expect("SCIRemoveSegment", error);
	report_event(options, "removed", 0);
}

static void visit(const struct options *options, sci_desc_t sd, struct news *news)
{
	char greeting[] = GREETING;
	unsigned int written = 1;
	sci_remote_segment_t segment;
	volatile char *memory;
	sci_error_t error;
	double start;
	sci_map_t map;

	start = now();
	do {
		SCIConnectSegment(sd, &segment, options->node, options->id, options->adapter,
				  at_client, news, SCI_INFINITE_TIMEOUT, SCI_FLAG_USE_CALLBACK,
				  &error);
	} while (again(options, start, error));
	expect("SCIConnectSegment", error);
	report_event(options, "connected", options->node);
	memory = SCIMapRemoteSegment(segment, &map, 0, ROOM, NULL, 0, &error);
	expect("SCIMapRemoteSegment", error);
	report_event(options, "mapped", 0);
	SCIMemWrite(greeting, memory + TEXT, sizeof(greeting), 0, &error);
	expect("SCIMemWrite", error);
	SCIMemWrite(&written, memory, sizeof(written), 0, &error);
	expect("SCIMemWrite", error);
	report_event(options, "written", 0);

	await(options, &news->disconnected);
	report_event(options, "unavailable", options->node);
	SCIUnmapSegment(map, 0, &error);
	expect("SCIUnmapSegment", error);
	SCIDisconnectSegment(segment, 0, &error);
	expect("SCIDisconnectSegment", error);
	report_event(options, "disconnected", 0);
}

int main(int argc, char **argv)
{
	struct options options;
	struct news news;
	sci_desc_t sd;

	options_read(&options, argc, argv, &about);
	memset(&news, 0, sizeof(news));
	if (sem_init(&news.connected, 0, 0) || sem_init(&news.disconnected, 0, 0))
		return 1;
	sd = library_open();
	if (options.server)
		serve(&options, sd, &news);
	else
		visit(&options, sd, &news);
	library_close(sd);
	return 0;
}
