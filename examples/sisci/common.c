// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See common.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As JSON; times are microseconds. */
#define NUMBERS "{\"name\": \"%s\", \"bytes\": %zu, \"rounds\": %u, " \
		"\"min\": %f, \"median\": %f, \"p99\": %f}\n"
#define RATE "{\"name\": \"%s\", \"bytes\": %zu, \"rounds\": %u, \"mb_s\": %.6f}\n"

static const struct option long_options[] = {
	{ "adapter", required_argument, NULL, 'a' },
	{ "id", required_argument, NULL, 'i' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "patience", required_argument, NULL, 'p' },
	{ "sizes", required_argument, NULL, 's' },
	{ "pieces", required_argument, NULL, 'v' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void help(FILE *to, const char *name, const struct program *program)
{
	fprintf(to, "%s\n\n", program->about);
	fprintf(to, "usage: %s server|client NODE [options]\n", name);
	fprintf(to, "NODE is the other node; both are given the same options\n");
	fprintf(to, "  --adapter N     local adapter, 0\n");
	fprintf(to, "  --id N          first of the numbers of segments and interrupts, 4096\n");
	fprintf(to, "  --rounds N      of each measurement, 1000\n");
	fprintf(to, "  --patience MS   with the other node, 30000\n");
	if (program->sizes)
		fprintf(to, "  --sizes LIST    bytes, %s\n", program->sizes);
	if (program->pieces)
		fprintf(to, "  --pieces N      entries of a vector, %u\n", program->pieces);
	fprintf(to, "  --json          a line for each result\n");
}

static void usage(const char *name, const struct program *program)
{
	help(stderr, name, program);
	exit(2);
}

int number_read(const char *word, unsigned int *number)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(word, &end, 0);
	*number = (unsigned int)value;
	return end != word && !*end && !errno && *word != '-' && value <= UINT_MAX;
}

int nodes_read(struct options *options, int argc, char **argv, const char *about, int least)
{
	int at = 1, right = 1, i, wanted = 0;
	unsigned int node;

	memset(options, 0, sizeof(*options));
	for (; right && at < argc && !strncmp(argv[at], "--", 2); at++) {
		if (!strcmp(argv[at], "--json"))
			options->json = 1;
		else if (!strcmp(argv[at], "--adapter") && at + 1 < argc)
			right = number_read(argv[++at], &options->adapter);
		else
			right = 0;
		wanted |= !strcmp(argv[at], "--help");
	}
	for (i = at; i < argc; i++)
		right &= number_read(argv[i], &node);
	if (right && argc - at >= least)
		return at;
	fprintf(wanted ? stdout : stderr, "%s\n\nusage: %s [--adapter N] [--json] NODE...\n", about,
		argv[0]);
	exit(wanted ? 0 : 2);
}

static int sizes_read(struct options *options, const char *list)
{
	char word[16];

	for (options->count = 0; options->count < MOST_SIZES; list++) {
		size_t length = strcspn(list, ",");
		unsigned int number;

		if (length >= sizeof(word))
			return 0;
		memcpy(word, list, length);
		word[length] = 0;
		if (!number_read(word, &number) || !number || number > INT_MAX)
			return 0;
		options->sizes[options->count++] = number;
		list += length;
		if (!*list)
			return 1;
	}
	return 0;
}

void options_read(struct options *options, int argc, char **argv, const struct program *program)
{
	unsigned int number;
	int option;

	memset(options, 0, sizeof(*options));
	options->id = 4096;
	options->rounds = 1000;
	options->patience = 30000;
	options->pieces = program->pieces;
	if (program->sizes)
		sizes_read(options, program->sizes);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == 'h') {
			help(stdout, argv[0], program);
			exit(0);
		}
		if (option == 'j') {
			options->json = 1;
			continue;
		}
		if (option == 's') {
			if (!program->sizes || !sizes_read(options, optarg))
				usage(argv[0], program);
			continue;
		}
		if (option == '?' || !number_read(optarg, &number))
			usage(argv[0], program);
		if (option == 'a')
			options->adapter = number;
		else if (option == 'i')
			options->id = number;
		else if (option == 'r' && number)
			options->rounds = number;
		else if (option == 'p')
			options->patience = number;
		else if (option == 'v' && program->pieces && number)
			options->pieces = number;
		else
			usage(argv[0], program);
	}
	if (argc - optind != 2 || !number_read(argv[optind + 1], &number))
		usage(argv[0], program);
	options->node = number;
	options->server = !strcmp(argv[optind], "server");
	if (!options->server && strcmp(argv[optind], "client"))
		usage(argv[0], program);
}

size_t largest(const struct options *options)
{
	size_t found = 0;
	unsigned int i;

	for (i = 0; i < options->count; i++) {
		if (options->sizes[i] > found)
			found = options->sizes[i];
	}
	return found;
}

void expect(const char *function, sci_error_t error)
{
	if (error == SCI_ERR_OK)
		return;
	fprintf(stderr, "FAILED: %s: %s (0x%08X)\n", function, SCIGetErrorString(error),
		(unsigned int)error);
	exit(1);
}

void give_up(void)
{
	fprintf(stderr, "FAILED: the other node has fallen silent\n");
	exit(1);
}

sci_desc_t library_open(void)
{
	sci_error_t error;
	sci_desc_t sd;

	/* A line at a time, also for a reader that is a program. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	SCIInitialize(0, &error);
	expect("SCIInitialize", error);
	SCIOpen(&sd, 0, &error);
	expect("SCIOpen", error);
	return sd;
}

void library_close(sci_desc_t sd)
{
	sci_error_t error;

	SCIClose(sd, 0, &error);
	expect("SCIClose", error);
	SCITerminate();
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void pause_shortly(void)
{
	const struct timespec little = { 0, 10 * 1000 * 1000 };

	nanosleep(&little, NULL);
}

int too_late(const struct options *options, double start)
{
	return (now() - start) * 1000 > options->patience;
}

int again(const struct options *options, double start, sci_error_t error)
{
	switch (error) {
	case SCI_ERR_NO_SUCH_SEGMENT:
	case SCI_ERR_NO_LINK_ACCESS:
	case SCI_ERR_NO_REMOTE_LINK_ACCESS:
	case SCI_ERR_NODE_NOT_RESPONDING:
		break;
	default:
		return 0;
	}
	if (too_late(options, start))
		return 0;
	pause_shortly();
	return 1;
}

int busy(const struct options *options, double start, sci_error_t error)
{
	if (error != SCI_ERR_BUSY || too_late(options, start))
		return 0;
	pause_shortly();
	return 1;
}

sci_remote_segment_t segment_connect(const struct options *options, sci_desc_t sd,
				     unsigned int id)
{
	sci_remote_segment_t segment;
	double start = now();
	sci_error_t error;

	do {
		SCIConnectSegment(sd, &segment, options->node, id, options->adapter, NULL, NULL,
				  SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(options, start, error));
	expect("SCIConnectSegment", error);
	return segment;
}

static int compare(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

void report_head(const struct options *options, const char *columns)
{
	if (!options->json)
		printf("%-12s %10s %10s%s\n", "name", "bytes", "rounds", columns);
}

void report(const struct options *options, const char *name, size_t bytes, double *seconds,
	    size_t count)
{
	double least, median, p99;

	qsort(seconds, count, sizeof(*seconds), compare);
	least = seconds[0] * 1e6;
	median = seconds[count / 2] * 1e6;
	p99 = seconds[count * 99 / 100] * 1e6;
	if (options->json)
		printf(NUMBERS, name, bytes, options->rounds, least, median, p99);
	else
		printf("%-12s %10zu %10u %13.3f %13.3f %14.3f\n", name, bytes, options->rounds,
		       least, median, p99);
}

void report_rate(const struct options *options, const char *name, size_t bytes, double seconds)
{
	double megabytes = (double)bytes * options->rounds / seconds / 1e6;

	if (options->json)
		printf(RATE, name, bytes, options->rounds, megabytes);
	else
		printf("%-12s %10zu %10u %13.3f\n", name, bytes, options->rounds, megabytes);
}

void report_event(const struct options *options, const char *event, unsigned int node)
{
	if (options->json)
		printf("{\"event\": \"%s\", \"node\": %u}\n", event, node);
	else if (node)
		printf("%-14s node %u\n", event, node);
	else
		printf("%s\n", event);
}
