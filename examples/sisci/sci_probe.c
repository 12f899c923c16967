// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Whether nodes answer, and how long that takes: sci_probe [--adapter N] [--json] NODE...
 * The exit status is 0 if all do.
 */
#include "common.h"

#include <stdio.h>

/* Microseconds. */
#define ANSWER "{\"node\": %u, \"answers\": true, \"us\": %.3f}\n"
#define SILENCE "{\"node\": %u, \"answers\": false, \"error\": \"%s\"}\n"

static int probe(sci_desc_t sd, unsigned int adapter, unsigned int node, int json)
{
	double start = now();
	sci_error_t error;

	if (SCIProbeNode(sd, adapter, node, 0, &error)) {
		double microseconds = (now() - start) * 1e6;

		printf(json ? ANSWER : "node %-5u answers after %.3f us\n", node, microseconds);
		return 1;
	}
	printf(json ? SILENCE : "node %-5u %s\n", node, SCIGetErrorString(error));
	return 0;
}

int main(int argc, char **argv)
{
	struct options options;
	unsigned int node;
	int all = 1, at;
	sci_desc_t sd;

	at = nodes_read(&options, argc, argv, "whether nodes answer", 1);
	sd = library_open();
	for (; at < argc && number_read(argv[at], &node); at++)
		all &= probe(sd, options.adapter, node, options.json);
	library_close(sd);
	return !all;
}
