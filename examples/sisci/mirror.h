/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A segment of the server that the client writes into, and a server that looks whether all of it
 * has arrived: what the programs that measure copies have in common.
 *
 * The client sends a message, by a data interrupt, once it has written; the server answers by an
 * interrupt once it has found what was to be there.
 */
#ifndef MIRROR_H
#define MIRROR_H

#include "common.h"

struct mirror {
	const struct options *options;
	sci_desc_t sd;
	sci_local_interrupt_t answer;
	sci_remote_data_interrupt_t question;
	sci_remote_segment_t segment;
	sci_map_t map;
	volatile void *memory;	/* of the server */
	unsigned int turn;	/* of the pattern */
};

/* Serves one client. */
void mirror_serve(const struct options *options, sci_desc_t sd);

/* Connects to the server. */
void mirror_open(struct mirror *mirror, const struct options *options, sci_desc_t sd);

/* Fills memory with a pattern that it has not had yet. */
void mirror_fill(struct mirror *mirror, void *memory, size_t size);

/* Whether memory has the pattern of that filling; ends the program if not. */
void mirror_look(const volatile void *memory, size_t size, unsigned int turn);

/* Has the server look for the pattern of the last filling at the start of the segment. */
void mirror_check(struct mirror *mirror, size_t size);

/* Disconnects, and has the server end. */
void mirror_close(struct mirror *mirror);

#endif
