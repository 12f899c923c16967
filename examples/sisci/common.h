/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the example programs have in common: options, errors, what each of them does first and last,
 * and results as a table or JSON.
 */
#ifndef COMMON_H
#define COMMON_H

#include <sisci_api.h>
#include <stddef.h>

#define MOST_SIZES 16

/* What a program is for, and which options it has besides those of all. */
struct program {
	const char *about;
	const char *sizes;	/* those without --sizes; NULL: it has none */
	unsigned int pieces;	/* those without --pieces; 0: it has none */
};

struct options {
	int server;		/* or client */
	unsigned int node;	/* the other one */
	unsigned int adapter;
	unsigned int id;	/* of the segment or interrupt */
	unsigned int rounds;
	unsigned int patience;	/* milliseconds until the other one is there */
	unsigned int pieces;	/* entries of a vector */
	size_t sizes[MOST_SIZES];	/* bytes */
	unsigned int count;	/* of sizes */
	int json;
};

/* Takes the command line apart: PROGRAM server|client NODE [options]; ends the program if wrong. */
void options_read(struct options *options, int argc, char **argv, const struct program *program);

/* The largest size. */
size_t largest(const struct options *options);

/* A number that a word of the command line is; 0 if it is none. */
int number_read(const char *word, unsigned int *number);

/*
 * Takes the command line apart: PROGRAM [--adapter N] [--json] NODE..., of at least so many nodes;
 * ends the program if wrong. Gives the index of the first node.
 */
int nodes_read(struct options *options, int argc, char **argv, const char *about, int least);

/* Ends the program with the function's name if there is an error. */
void expect(const char *function, sci_error_t error);

/* Ends the program because the other node has not done its part. */
void give_up(void);

/* Opens the library, and closes it again. */
sci_desc_t library_open(void);
void library_close(sci_desc_t sd);

/* Waits 10 ms. */
void pause_shortly(void);

/* Whether the patience that began at a time is over. */
int too_late(const struct options *options, double start);

/* Connects to a segment of the other node, as soon as it has it. */
sci_remote_segment_t segment_connect(const struct options *options, sci_desc_t sd,
				     unsigned int id);

/* Whether a function that connects is to be called again; waits a little. */
int again(const struct options *options, double start, sci_error_t error);

/* Whether a function that removes is to be called again, since the other node is connected yet. */
int busy(const struct options *options, double start, sci_error_t error);

/* Seconds of a clock that does not go back. */
double now(void);

/* Prints the head of a table: of times, or of rates. */
void report_head(const struct options *options, const char *columns);
#define TIMES "        min us     median us        99 % us"
#define RATES "          MB/s"

/* Sorts so many times and prints the least, the median and the 99th percentile. */
void report(const struct options *options, const char *name, size_t bytes, double *seconds,
	    size_t count);

/* Prints a rate. */
void report_rate(const struct options *options, const char *name, size_t bytes, double seconds);

/* Prints what has happened, and at which node; at none if that is 0. */
void report_event(const struct options *options, const char *event, unsigned int node);

#endif
