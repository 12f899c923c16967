/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that others change and take away at any time. The commands for it:
 *
 *	fill ADDRESS LENGTH SEED		with a pattern
 *	check ADDRESS LENGTH SEED		what differs from that
 *	same ADDRESS LENGTH BYTE		what differs from that
 *	write ADDRESS BYTES
 *	read ADDRESS LENGTH
 *	find ADDRESS LENGTH BYTES		where they begin, or LENGTH
 *	storm ADDRESS LENGTH BYTE MILLISECONDS	stores it everywhere, again and again
 *	allocate LENGTH				memory of the program, in whole pages
 *	runs LENGTH				in huge pages, if there are such
 *	protect ADDRESS LENGTH			from being read and written, in whole pages
 *	unmap ADDRESS LENGTH			in whole pages
 *	renew ADDRESS LENGTH			other memory at the same addresses, all zero
 *
 * Those that use memory answer with the signal that has ended that, or 0.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "shell.h"

/* The bytes to be used, and what is found or put there. */
struct span {
	uint8_t *start;
	size_t length;
	uint64_t value;
	const uint8_t *source;
	uint8_t *target;
	uint64_t deadline;	/* in microseconds */
	uint64_t wrong, first;	/* bytes that are not as expected */
	uint64_t rounds;
};

extern const struct command memory_commands[];

/* Has faults end what `use` does, and not the program. */
void catch_faults(void);

/* Uses memory; the signal that has ended that, or 0. */
int use(void (*how)(struct span *span), struct span *span);

/* The next two arguments. */
struct span span(struct call *call);

/* With or against the pattern of which the value is the seed. */
void fill_pattern(struct span *span);
void check_pattern(struct span *span);

void answer_wrong(struct call *call, const struct span *span);

#endif /* MEMORY_H */
