// SPDX-License-Identifier: GPL-2.0-only
/*
 * The commands for memory; memory.h says what they are.
 */

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

/* Where a thread goes on that has touched memory that is not there, while it may do so. */
static __thread sigjmp_buf escape;
static __thread volatile sig_atomic_t may_escape;

static void on_fault(int signal)
{
	if (may_escape)
		siglongjmp(escape, signal);
	/* A fault of its own: the next one ends the program. */
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

void catch_faults(void)
{
	struct sigaction fault = { .sa_handler = on_fault };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
}

int use(void (*how)(struct span *span), struct span *span)
{
	int signal = sigsetjmp(escape, 1);

	if (!signal) {
		may_escape = 1;
		how(span);
	}
	may_escape = 0;
	return signal;
}

/* --- what is done with it */

static uint8_t load(const uint8_t *byte)
{
	return __atomic_load_n(byte, __ATOMIC_RELAXED);
}

static void store(uint8_t *byte, uint8_t value)
{
	__atomic_store_n(byte, value, __ATOMIC_RELAXED);
}

/* The eight bytes of a pattern at a multiple of eight; all differ, for any seed. */
static uint64_t pattern(uint64_t seed, uint64_t offset)
{
	uint64_t value = (seed + offset / 8 + 1) * 0x9E3779B97F4A7C15ULL;

	return value ^ value >> 29;
}

static uint8_t pattern_byte(uint64_t seed, uint64_t offset)
{
	return pattern(seed, offset) >> 8 * (offset % 8);
}

/* How much of a span can be used eight bytes at a time. */
static size_t in_words(const struct span *span)
{
	return (uintptr_t)span->start % 8 ? 0 : span->length & ~(size_t)7;
}

void fill_pattern(struct span *span)
{
	size_t at, words = in_words(span);

	for (at = 0; at < words; at += 8)
		__atomic_store_n((uint64_t *)(span->start + at), pattern(span->value, at),
				 __ATOMIC_RELAXED);
	for (; at < span->length; at++)
		store(span->start + at, pattern_byte(span->value, at));
}

static void expect_byte(struct span *span, size_t at, uint8_t expected)
{
	if (load(span->start + at) == expected)
		return;
	if (!span->wrong++)
		span->first = at;
}

void check_pattern(struct span *span)
{
	size_t at, i, words = in_words(span);

	for (at = 0; at < words; at += 8) {
		if (__atomic_load_n((uint64_t *)(span->start + at), __ATOMIC_RELAXED) ==
		    pattern(span->value, at))
			continue;
		for (i = at; i < at + 8; i++)
			expect_byte(span, i, pattern_byte(span->value, i));
	}
	for (; at < span->length; at++)
		expect_byte(span, at, pattern_byte(span->value, at));
}

static void check_same(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		expect_byte(span, at, span->value);
}

static void copy_in(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		store(span->start + at, span->source[at]);
}

static void copy_out(struct span *span)
{
	size_t at;

	for (at = 0; at < span->length; at++)
		span->target[at] = load(span->start + at);
}

/* Stores the byte everywhere, until it is time. */
static void store_on(struct span *span)
{
	size_t at;

	for (span->rounds = 0; now() < span->deadline; span->rounds++)
		for (at = 0; at < span->length; at++)
			store(span->start + at, span->value);
}

/* --- commands */

struct span span(struct call *call)
{
	struct span s = { .start = address(call) };

	s.length = number(call);
	return s;
}

void answer_wrong(struct call *call, const struct span *s)
{
	answer_number(call, "wrong", s->wrong);
	answer_number(call, "first", s->first);
}

static void fill(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(fill_pattern, &s));
}

static void check(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(check_pattern, &s));
	answer_wrong(call, &s);
}

static void same(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	answer_number(call, "fault", use(check_same, &s));
	answer_wrong(call, &s);
}

static void write_bytes(struct call *call)
{
	struct span s = { .start = address(call) };
	uint8_t room[ROOM];

	s.source = room;
	s.length = bytes(call, word(call), room, sizeof(room));
	answer_number(call, "fault", use(copy_in, &s));
}

static void read_bytes(struct call *call)
{
	struct span s = span(call);
	uint8_t room[ROOM];

	if (s.length > sizeof(room))
		s.length = sizeof(room);
	s.target = room;
	memset(room, UNTOUCHED, sizeof(room));
	answer_number(call, "fault", use(copy_out, &s));
	answer_bytes(call, "bytes", room, s.length);
}

/* Tells where bytes lie; at the end of the span if they do not. */
static void find_in_span(struct span *span)
{
	const uint8_t *found = memmem(span->start, span->length, span->source, span->value);

	span->first = found ? (uint64_t)(found - span->start) : span->length;
}

static void find_bytes(struct call *call)
{
	struct span s = span(call);
	uint8_t room[ROOM];

	s.source = room;
	s.value = bytes(call, word(call), room, sizeof(room));
	answer_number(call, "fault", use(find_in_span, &s));
	answer_number(call, "first", s.first);
}

static void storm(struct call *call)
{
	struct span s = span(call);

	s.value = number(call);
	s.deadline = now() + 1000 * number(call);
	answer_number(call, "fault", use(store_on, &s));
	answer_number(call, "rounds", s.rounds);
}

static void allocate(struct call *call)
{
	void *at = mmap(NULL, number(call), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	answer_number(call, "address", at == MAP_FAILED ? 0 : (uintptr_t)at);
}

/* In huge pages, which are runs of the machine's memory. */
static void allocate_runs(struct call *call)
{
	const size_t huge = 2 << 20;
	size_t length = number(call);
	uint8_t *at = mmap(NULL, length + huge, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED) {
		madvise(at, length + huge, MADV_HUGEPAGE);
		at += -(uintptr_t)at & (huge - 1);
	}
	answer_number(call, "address", at == MAP_FAILED ? 0 : (uintptr_t)at);
}

static void protect(struct call *call)
{
	struct span s = span(call);

	answer_number(call, "failed", mprotect(s.start, s.length, PROT_NONE) != 0);
}

/* In one step: nobody else takes the addresses meanwhile. */
static void renew(struct call *call)
{
	struct span s = span(call);
	void *at = mmap(s.start, s.length, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	answer_number(call, "failed", at == MAP_FAILED);
}

static void unmap(struct call *call)
{
	struct span s = span(call);

	answer_number(call, "failed", munmap(s.start, s.length) != 0);
}

const struct command memory_commands[] = {
	{ "fill", fill },
	{ "check", check },
	{ "same", same },
	{ "write", write_bytes },
	{ "read", read_bytes },
	{ "find", find_bytes },
	{ "storm", storm },
	{ "allocate", allocate },
	{ "runs", allocate_runs },
	{ "protect", protect },
	{ "unmap", unmap },
	{ "renew", renew },
	{ NULL, NULL },
};
