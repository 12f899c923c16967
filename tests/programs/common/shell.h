/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program that does what its input tells, for tests; tests/rig/shell.py is the other end.
 * Each line of input is a command, each line of output the answer to one:
 *
 *	TAG [&] [fork] COMMAND [ARGUMENT...]
 *	{"tag": TAG, "us": MICROSECONDS, ...}
 *	{"tag": TAG, "complaint": TEXT}
 *
 * With "&", the command is run in a thread, and the next line is read at once. With "fork",
 * it is run in a child, which then ends. Signals USR1 are handled, and interrupt what
 * threads wait for; after USR2 their system calls are made again. A complaint says that the command itself was wrong.
 *
 * Beside its own commands each program has those for memory, see memory.h, and
 *
 *	identify		the id of the process
 *	exit STATUS		ends it without what is to be done at exits
 *	exec PROGRAM ARGUMENT	becomes another program
 *
 * At the end of its input the program returns without closing anything.
 */
#ifndef SHELL_H
#define SHELL_H

#include <stddef.h>
#include <stdint.h>

#define UNTOUCHED 0xEE		/* what memory holds that nobody has written to */
#define ROOM 8192		/* most bytes that are shown at once */
#define LONGEST_ANSWER (4 * ROOM)
#define MAX_WORDS 20

/* What a command is given, and what it answers. */
struct call {
	char *words[MAX_WORDS];
	unsigned int count, next;
	const char *complaint;
	char answer[LONGEST_ANSWER];
	size_t used;
};

/* The last one of a table has no name. */
struct command {
	const char *name;
	void (*run)(struct call *call);
};

/* Does what the input tells, until it ends; the status of the program. */
int shell(const struct command *commands);

/* Microseconds. */
uint64_t now(void);

/* The next argument, whatever it is. */
const char *word(struct call *call);
uint64_t number(struct call *call);
void *address(struct call *call);

/* The bytes that a text says in hexadecimal, "-" for none; how many there are. */
size_t bytes(struct call *call, const char *text, uint8_t *room, size_t most);

/* Adds to the answer. */
void answer(struct call *call, const char *format, ...);
void answer_number(struct call *call, const char *name, uint64_t value);
void answer_bytes(struct call *call, const char *name, const uint8_t *bytes, size_t length);
/* A string of bytes without a name. */
void answer_hex(struct call *call, const uint8_t *bytes, size_t length);

/* Prints whole lines, between those of others. */
void print_lines(const char *lines, size_t length);

#endif /* SHELL_H */
