// SPDX-License-Identifier: GPL-2.0
/*
 * See common.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As JSON; times are microseconds. */
#define NUMBERS "{\"name\": \"%s\", \"rounds\": %zu, \"min\": %f, \"median\": %f, \"p99\": %f}\n"

static const struct option long_options[] = {
	{ "adapter", required_argument, NULL, 'a' },
	{ "id", required_argument, NULL, 'i' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "patience", required_argument, NULL, 'p' },
	{ "size", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'j' },
	{ NULL, 0, NULL, 0 },
};

static void help(const char *program, const char *about)
{
	fprintf(stderr,
		"%s: %s\n\n"
		"usage: %s server|client NODE [options]\n"
		"  --adapter N     local adapter, 0\n"
		"  --id N          of the segment or interrupt, 4096\n"
		"  --rounds N      1000\n"
		"  --patience MS   until the other node is there, 30000\n"
		"  --size BYTES    65536\n"
		"  --json          instead of a table\n",
		program, about, program);
	exit(2);
}

void options_read(struct options *options, int argc, char **argv, const char *about)
{
	int option;

	memset(options, 0, sizeof(*options));
	options->id = 4096;
	options->rounds = 1000;
	options->patience = 30000;
	options->size = 65536;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		unsigned long number = optarg ? strtoul(optarg, NULL, 0) : 0;

		switch (option) {
		case 'a':
			options->adapter = (unsigned int)number;
			break;
		case 'i':
			options->id = (unsigned int)number;
			break;
		case 'r':
			options->rounds = (unsigned int)number;
			break;
		case 'p':
			options->patience = (unsigned int)number;
			break;
		case 's':
			options->size = number;
			break;
		case 'j':
			options->json = 1;
			break;
		default:
			help(argv[0], about);
		}
	}
	if (argc - optind != 2 || !options->rounds || options->size < 64)
		help(argv[0], about);
	if (!strcmp(argv[optind], "server"))
		options->server = 1;
	else if (strcmp(argv[optind], "client"))
		help(argv[0], about);
	options->node = (unsigned int)strtoul(argv[optind + 1], NULL, 0);
}

void expect(const char *function, sci_error_t error)
{
	if (error == SCI_ERR_OK)
		return;
	fprintf(stderr, "FAILED: %s: %s (0x%08X)\n", function, SCIGetErrorString(error),
		(unsigned int)error);
	exit(1);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int again(const struct options *options, double start, sci_error_t error)
{
	const struct timespec little = { 0, 10 * 1000 * 1000 };

	switch (error) {
	case SCI_ERR_NO_SUCH_SEGMENT:
	case SCI_ERR_NO_LINK_ACCESS:
	case SCI_ERR_NO_REMOTE_LINK_ACCESS:
	case SCI_ERR_NODE_NOT_RESPONDING:
		break;
	default:
		return 0;
	}
	if ((now() - start) * 1000 > options->patience)
		return 0;
	nanosleep(&little, NULL);
	return 1;
}

static int compare(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

void report(const struct options *options, const char *name, double *seconds, size_t count)
{
	double least, median, p99;

	qsort(seconds, count, sizeof(*seconds), compare);
	least = seconds[0] * 1e6;
	median = seconds[count / 2] * 1e6;
	p99 = seconds[count * 99 / 100] * 1e6;
	if (options->json)
		printf(NUMBERS, name, count, least, median, p99);
	else
		printf("%-20s %8zu rounds  min %10.3f us  median %10.3f us  99 %% %10.3f us\n",
		       name, count, least, median, p99);
}

void report_rate(const struct options *options, const char *name, double megabytes)
{
	if (options->json)
		printf("{\"name\": \"%s\", \"bytes\": %zu, \"mb_s\": %.3f}\n", name,
		       options->size, megabytes);
	else
		printf("%-20s %8zu bytes  %12.3f MB/s\n", name, options->size, megabytes);
}
