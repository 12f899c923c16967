/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the example programs have in common: options, errors, and results as a table or JSON.
 */
#ifndef COMMON_H
#define COMMON_H

#include <sisci_api.h>
#include <stddef.h>

struct options {
	int server;		/* or client */
	unsigned int node;	/* the other one */
	unsigned int adapter;
	unsigned int id;	/* of the segment or interrupt */
	unsigned int rounds;
	unsigned int patience;	/* milliseconds until the other one is there */
	size_t size;		/* bytes */
	int json;
};

/* Takes the command line apart: PROGRAM server|client NODE [options]; ends the program if wrong. */
void options_read(struct options *options, int argc, char **argv, const char *about);

/* Ends the program with the function's name if there is an error. */
void expect(const char *function, sci_error_t error);

/* Whether a function that connects is to be called again; waits a little. */
int again(const struct options *options, double start, sci_error_t error);

/* Seconds of a clock that does not go back. */
double now(void);

/* Sorts times and prints the least, the median and the 99th percentile, in microseconds. */
void report(const struct options *options, const char *name, double *seconds, size_t count);

/* Prints a rate. */
void report_rate(const struct options *options, const char *name, double megabytes);

#endif
