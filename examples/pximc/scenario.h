/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the examples have in common: options, printed steps, the way to a partner.
 *
 * Each example is a scenario of two systems, S0 and S1; the same program is run on both, with
 * the system it is to be as its first argument. It prints every step and ends with status 0 if
 * all steps went as they should, with 1 at the first one that did not, and with 2 if the system
 * cannot do what the scenario is about.
 */
#ifndef PXIMC_SCENARIO_H
#define PXIMC_SCENARIO_H

#include "engine.h"

#include <pximc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scenario {
	bool s1;			/* this is System 1 */
	uint32_t interface;		/* 0: the first one that is up */
	uint32_t protocol;
	uint32_t uid;
	uint64_t max;			/* bytes of each window */
	uint64_t min;
	uint32_t timeout;		/* for the partner, in milliseconds */
	const char *variant;
	bool has_target, has_engine;
	struct place target;		/* a device with memory that the other system reaches */
	uint64_t length;		/* most bytes of it */
	struct place engine;		/* one that reaches the other system */
};

struct connection {
	uint32_t session;
	uint8_t *remote;
	uint64_t remote_size;
	uint8_t *local;
	uint64_t local_size;
};

/*
 * Windows change at any time, and what is written has to go out: every access is an atomic one.
 */
static inline void window_write(uint8_t *to, uint8_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
}

static inline uint8_t window_read(const uint8_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* Sizes and the unique identifier are those of the scenario, unless an option says otherwise. */
void scenario_start(struct scenario *s, int argc, char **argv, const char *about);

/* Ends the program unless it is so. */
void ensure(bool condition, const char *what);
/* Prints a call and what it returned; ends the program if that is not what was expected. */
void outcome(const char *call, tPXIMC_Status found, tPXIMC_Status expected);
#define CALL(function, expected, ...)	\
	outcome(#function, PXIMC_##function(__VA_ARGS__), expected)

/* The interface, once it is up. */
uint32_t scenario_interface(const struct scenario *s);
/* The other system's unpaired window with these data; by its unique identifier, or 0 for any. */
uint32_t scenario_window(const struct scenario *s, uint32_t interface, uint32_t uid,
			 const char *data, size_t size);
/* Checks an attribute of a window that is a number. */
void scenario_attribute(uint32_t interface, uint32_t window, uint32_t attribute,
			const char *name, uint32_t expected);

/* The two windows of a session that has a partner within that time. */
struct connection scenario_connect(uint32_t session, uint32_t timeout);
/* S1 serves a window of each kind, S0 pairs with it; both connect. */
struct connection scenario_pair(const struct scenario *s);
/*
 * Offers the memory of the device of --target, whose partner comes within the time of the
 * scenario; the device's driver, which is this process as well, sees it at `memory`.
 */
struct connection scenario_device_server(const struct scenario *s, const char *data,
					 struct device_memory *memory);
/* Reaches the memory that the other system offers, all of it. */
struct connection scenario_device_client(const struct scenario *s, const char *data);
/*
 * Lets the device of --engine reach the remote window, and has it write what the other
 * system expects; tells that by an event, which devices cannot do.
 */
void scenario_engine_writes(const struct scenario *s, const struct connection *c);
/* The event, and what a device of the other system has written. */
void scenario_verify_engine(const struct scenario *s, const struct connection *c,
			    const uint8_t *bytes, uint64_t size);
/* Each side sees what the other one has written to all bytes, and their sizes. */
void scenario_exchange(const struct scenario *s, const struct connection *c);
/* S0 closes; S1 is told and closes as well. */
void scenario_close(const struct scenario *s, const struct connection *c);
void scenario_event(const struct connection *c, uint32_t timeout, uint32_t expected);

/* A byte of the window that is this system's to write, for steps without events. */
void scenario_flag(const struct connection *c, uint8_t value);
void scenario_wait_flag(const struct scenario *s, const struct connection *c, uint8_t value);

#endif /* PXIMC_SCENARIO_H */
