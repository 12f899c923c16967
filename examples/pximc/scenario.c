// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See scenario.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "scenario.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOWS_MAX 256

/* The last byte of the header that scenario_exchange() puts before its pattern. */
#define FLAG 23
#define HEADER 24

static const struct option long_options[] = {
	{ "interface", required_argument, NULL, 'i' },
	{ "protocol", required_argument, NULL, 'p' },
	{ "uid", required_argument, NULL, 'u' },
	{ "max", required_argument, NULL, 'M' },
	{ "min", required_argument, NULL, 'm' },
	{ "timeout", required_argument, NULL, 't' },
	{ "variant", required_argument, NULL, 'v' },
	{ "target", required_argument, NULL, 'T' },
	{ "length", required_argument, NULL, 'l' },
	{ "engine", required_argument, NULL, 'e' },
	{ NULL, 0, NULL, 0 },
};

static void help(const char *program, const char *about)
{
	fprintf(stderr,
		"%s: %s\n\n"
		"usage: %s s0|s1 [options]\n"
		"  --interface N    instead of the first one that is up\n"
		"  --protocol N     0xABCD1000\n"
		"  --uid N          unique identifier, 1587\n"
		"  --max BYTES      largest size of each window, 0x1000\n"
		"  --min BYTES      smallest one, 0x400\n"
		"  --timeout MS     for the partner, 60000\n"
		"  --variant NAME   where the scenario has any\n"
		"  --target B:D.F   device of this system whose memory the other one reaches\n"
		"  --length BYTES   most bytes of it, 0x10000\n"
		"  --engine B:D.F   device of this system that reaches the other one\n",
		program, about, program);
	exit(1);
}

void scenario_start(struct scenario *s, int argc, char **argv, const char *about)
{
	int option;

	memset(s, 0, sizeof(*s));
	s->protocol = 0xABCD1000;
	s->uid = 1587;
	s->max = 0x1000;
	s->min = 0x400;
	s->timeout = 60000;
	s->length = 0x10000;
	s->variant = "";
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;

		switch (option) {
		case 'i':
			s->interface = (uint32_t)number;
			break;
		case 'p':
			s->protocol = (uint32_t)number;
			break;
		case 'u':
			s->uid = (uint32_t)number;
			break;
		case 'M':
			s->max = number;
			break;
		case 'm':
			s->min = number;
			break;
		case 't':
			s->timeout = (uint32_t)number;
			break;
		case 'v':
			s->variant = optarg;
			break;
		case 'l':
			s->length = number;
			break;
		case 'T':
			s->has_target = place_parse(&s->target, optarg);
			if (s->has_target)
				break;
			help(argv[0], about);
			break;
		case 'e':
			s->has_engine = place_parse(&s->engine, optarg);
			if (s->has_engine)
				break;
			/* fall through */
		default:
			help(argv[0], about);
		}
	}
	if (optind + 1 != argc)
		help(argv[0], about);
	if (!strcmp(argv[optind], "s1"))
		s->s1 = true;
	else if (strcmp(argv[optind], "s0"))
		help(argv[0], about);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("System %d: %s\n", s->s1, about);
}

static const char *status_name(tPXIMC_Status status)
{
#define NAME(name) { PXIMC_##name, #name }
	static const struct {
		tPXIMC_Status status;
		const char *name;
	} names[] = {
		NAME(SUCCESS), NAME(INSUFFICIENT_SPACE), NAME(INVALID_INTERFACE),
		NAME(INTERFACE_DOWN), NAME(NSUP_ATTRIBUTE), NAME(INVALID_ARGUMENT),
		NAME(SPACE_NOT_AVAILABLE), NAME(UID_CONFLICT), NAME(NO_PAIRING),
		NAME(PHY_RESOURCE_NOT_AVAILABLE), NAME(INVALID_SESSION), NAME(NO_WINDOW),
		NAME(SESSION_CLOSED), NAME(INVALID_WINDOW), NAME(INVALID_RESOURCE),
		NAME(ALIGNMENT_ERROR), NAME(NO_PROVIDER), NAME(TIMEOUT), { 0, NULL },
	};
#undef NAME

	for (int i = 0; names[i].name; i++)
		if (names[i].status == status)
			return names[i].name;
	return "an unknown status";
}

void ensure(bool condition, const char *what)
{
	if (condition)
		return;
	printf("FAILED: %s\n", what);
	exit(1);
}

void outcome(const char *call, tPXIMC_Status found, tPXIMC_Status expected)
{
	printf("  %s: %s\n", call, status_name(found));
	if (found == expected)
		return;
	printf("FAILED: %s should have returned %s\n", call, status_name(expected));
	exit(found == PXIMC_PHY_RESOURCE_NOT_AVAILABLE ? 2 : 1);
}

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The rest of a time that ends at a moment. */
static uint32_t left(uint64_t end)
{
	uint64_t now = milliseconds();

	return now < end ? (uint32_t)(end - now) : 0;
}

static void nap(void)
{
	struct timespec time = { .tv_nsec = 1000000 };

	nanosleep(&time, NULL);
}

static bool is_up(uint32_t interface)
{
	uint32_t state, size;

	return PXIMC_queryInterfaceInformation(interface, PXIMC_U32_INTERFACE_STATE, sizeof(state),
					       &state, &size) == PXIMC_SUCCESS &&
	       state == PXIMC_STATE_UP;
}

uint32_t scenario_interface(const struct scenario *s)
{
	uint64_t end = milliseconds() + s->timeout;
	uint32_t ids[100], count = 0;

	do {
		tPXIMC_Status found = PXIMC_findInterfaces(100, ids, &count);

		if (found != PXIMC_SUCCESS)
			outcome("findInterfaces", found, PXIMC_SUCCESS);
		for (uint32_t i = 0; i < count; i++) {
			if ((s->interface && ids[i] != s->interface) || !is_up(ids[i]))
				continue;
			printf("  findInterfaces: SUCCESS, %u, interface %u is up\n", count, ids[i]);
			return ids[i];
		}
		nap();
	} while (left(end));
	ensure(false, "no interface is up");
	return 0;
}

static bool is_wanted(uint32_t interface, uint32_t window, const char *data, size_t size)
{
	uint32_t state, actual;
	uint8_t found[1024];

	return PXIMC_queryWindowInformation(interface, window, PXIMC_U32_WINDOW_PAIRING_STATE,
					    sizeof(state), &state, &actual) == PXIMC_SUCCESS &&
	       state == PXIMC_WINDOW_UNPAIRED &&
	       PXIMC_queryWindowInformation(interface, window, PXIMC_U8_WINDOW_DATA, sizeof(found),
					    found, &actual) == PXIMC_SUCCESS &&
	       actual == size && !memcmp(found, data, size);
}

uint32_t scenario_window(const struct scenario *s, uint32_t interface, uint32_t uid,
			 const char *data, size_t size)
{
	uint64_t end = milliseconds() + s->timeout;
	uint32_t windows[WINDOWS_MAX], count, events;

	/* The first wait returns at once, the others whenever the list has changed. */
	while (PXIMC_waitForInterfaceEvent(interface, left(end), &events) == PXIMC_SUCCESS) {
		if (PXIMC_findWindows(interface, WINDOWS_MAX, windows, &count) != PXIMC_SUCCESS)
			continue;
		for (uint32_t i = 0; i < count; i++) {
			if ((uid && windows[i] != uid) ||
			    !is_wanted(interface, windows[i], data, size))
				continue;
			printf("  findWindows: SUCCESS, %u, window %u has \"%.*s\"\n", count,
			       windows[i], (int)size, data);
			return windows[i];
		}
	}
	ensure(false, "the other system has not posted its window");
	return 0;
}

void scenario_attribute(uint32_t interface, uint32_t window, uint32_t attribute,
			const char *name, uint32_t expected)
{
	uint32_t value = 0, size = 0;

	CALL(queryWindowInformation, PXIMC_SUCCESS, interface, window, attribute, sizeof(value),
	     &value, &size);
	printf("    %s is %u\n", name, value);
	ensure(value == expected && size == sizeof(value), name);
}

struct connection scenario_connect(uint32_t session, uint32_t timeout)
{
	struct connection c = { .session = session };
	void *remote = &c, *local = &c;

	CALL(waitForConnection, PXIMC_SUCCESS, session, timeout, &remote, &c.remote_size, &local,
	     &c.local_size);
	c.remote = remote;
	c.local = local;
	printf("    remote: %llu bytes at %p, local: %llu bytes at %p\n",
	       (unsigned long long)c.remote_size, remote, (unsigned long long)c.local_size, local);
	return c;
}

struct connection scenario_pair(const struct scenario *s)
{
	static const char data[] = "System 1 Server Process";
	size_t size = sizeof(data) - 1;
	uint32_t interface = scenario_interface(s);
	struct connection c;
	uint32_t session;

	if (s->s1) {
		CALL(requestWindowLogicalAsServer, PXIMC_SUCCESS, interface, s->protocol, s->max,
		     s->min, s->max, s->min, s->uid, (const uint8_t *)data, size, &session);
		c = scenario_connect(session, s->timeout);
	} else {
		uint32_t window = scenario_window(s, interface, s->uid, data, size);

		scenario_attribute(interface, window, PXIMC_U32_WINDOW_CONNECTION_TYPE,
				   "CONNECTION_TYPE", PXIMC_CONNECTION_SERVER);
		scenario_attribute(interface, window, PXIMC_U32_WINDOW_PAIRING_STATE,
				   "PAIRING_STATE", PXIMC_WINDOW_UNPAIRED);
		CALL(requestWindowLogicalAsClient, PXIMC_SUCCESS, interface, s->protocol, s->max,
		     s->min, s->max, s->min, window, &session);
		c = scenario_connect(session, 0);
	}
	ensure(c.remote && s->min <= c.remote_size && c.remote_size <= s->max,
	       "the size of the remote window");
	ensure(c.local && s->min <= c.local_size && c.local_size <= s->max,
	       "the size of the local window");
	return c;
}

struct connection scenario_device_server(const struct scenario *s, const char *data,
					 struct device_memory *memory)
{
	uint32_t interface = scenario_interface(s);
	struct connection c;
	uint32_t session;

	ensure(s->has_target, "--target names the device");
	if (!device_memory_open(memory, &s->target))
		exit(1);
	memory->size = memory->size < s->length ? memory->size : s->length;
	printf("    %llu bytes of the device are at %#llx\n",
	       (unsigned long long)memory->size, (unsigned long long)memory->address);
	/* What an earlier run has left. */
	for (uint64_t place = 0; place < memory->size; place++)
		window_write(memory->bytes + place, 0);
	CALL(requestWindowPhysicalAsServer, PXIMC_SUCCESS, interface, s->protocol, memory->size, 0,
	     memory->address, (const uint8_t *)data, strlen(data), &session);
	c = scenario_connect(session, s->timeout);
	ensure(!c.remote && !c.local && !c.remote_size, "this process reaches nothing");
	ensure(c.local_size == memory->size, "the other system reaches the device's memory");
	return c;
}

/* The size of what the other system offers. */
static uint64_t offered_size(uint32_t interface, uint32_t window)
{
	uint64_t size = 0;
	uint32_t actual;

	CALL(queryWindowInformation, PXIMC_SUCCESS, interface, window,
	     PXIMC_U64_WINDOW_MAX_LOCAL_SIZE, sizeof(size), &size, &actual);
	return size;
}

struct connection scenario_device_client(const struct scenario *s, const char *data)
{
	uint32_t interface = scenario_interface(s), session = 0;
	uint32_t window = scenario_window(s, interface, 0, data, strlen(data));
	uint64_t size = offered_size(interface, window);
	struct connection c;

	scenario_attribute(interface, window, PXIMC_U32_WINDOW_CONNECTION_TYPE,
			   "CONNECTION_TYPE", PXIMC_CONNECTION_SERVER);
	scenario_attribute(interface, window, PXIMC_U32_WINDOW_PAIRING_STATE, "PAIRING_STATE",
			   PXIMC_WINDOW_UNPAIRED);
	scenario_attribute(interface, window, PXIMC_U32_WINDOW_LOCATION_TYPE, "LOCATION_TYPE",
			   PXIMC_LOCATION_PHYSICAL);
	CALL(requestWindowPhysicalAsClient, PXIMC_INVALID_ARGUMENT, interface, s->protocol, size, 0,
	     window, &session);
	CALL(requestWindowPhysicalAsClient, PXIMC_SUCCESS, interface, s->protocol, size, size,
	     window, &session);
	c = scenario_connect(session, 0);
	ensure(c.remote && c.remote_size == size, "the device's memory is reached");
	ensure(!c.local && !c.local_size, "the other system reaches nothing");
	return c;
}

/* What an engine writes to a place. */
static uint8_t engine_pattern(uint64_t place)
{
	return (uint8_t)(place * 3 + place / 241 + 1);
}

/* The engine's memory is smaller than a window may be. */
static void engine_fill(struct engine *engine, uint64_t address, uint64_t window_size)
{
	uint8_t data[ENGINE_SIZE];
	size_t size;

	for (uint64_t from = 0; from < window_size; from += size) {
		size = window_size - from < sizeof(data) ? window_size - from : sizeof(data);
		for (size_t i = 0; i < size; i++)
			data[i] = engine_pattern(from + i);
		if (!engine_load(engine, data, size) ||
		    !engine_store(engine, address + from, size))
			exit(1);
	}
}

void scenario_engine_writes(const struct scenario *s, const struct connection *c)
{
	struct engine engine;
	uint64_t address = 0;

	ensure(s->has_engine, "--engine names the device");
	if (!engine_open(&engine, &s->engine))
		exit(1);
	CALL(enableDeviceAccess, PXIMC_SUCCESS, c->session, PXIMC_DEVICE_ACCESS_WRITE,
	     s->engine.bus, s->engine.device, s->engine.function);
	CALL(getPhysicalAddress, PXIMC_SUCCESS, c->session, &address);
	engine_fill(&engine, address, c->remote_size);
	printf("    the device has written %llu bytes at %#llx\n",
	       (unsigned long long)c->remote_size, (unsigned long long)address);
	CALL(assertEvent, PXIMC_SUCCESS, c->session);
}

void scenario_verify_engine(const struct scenario *s, const struct connection *c,
			    const uint8_t *bytes, uint64_t size)
{
	scenario_event(c, s->timeout, PXIMC_EVENT_ASSERTED);
	for (uint64_t place = 0; place < size; place++)
		ensure(window_read(bytes + place) == engine_pattern(place),
		       "what the device has written arrives there");
	printf("    all %llu bytes have arrived\n", (unsigned long long)size);
}

/* What a system writes to a place. */
static uint8_t pattern(bool s1, uint64_t place)
{
	return (uint8_t)(place * 7 + place / 251 + (s1 ? 101 : 13));
}

static void put(uint8_t *to, uint64_t number)
{
	for (int i = 0; i < 8; i++)
		window_write(to + i, (uint8_t)(number >> 8 * i));
}

static uint64_t get(const uint8_t *from)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number |= (uint64_t)window_read(from + i) << 8 * i;
	return number;
}

/* Writes the sizes as this side has them, and a pattern. */
static void fill(const struct scenario *s, const struct connection *c)
{
	put(c->remote, c->remote_size);
	put(c->remote + 8, c->local_size);
	for (uint64_t place = HEADER; place < c->remote_size; place++)
		window_write(c->remote + place, pattern(s->s1, place));
	CALL(assertEvent, PXIMC_SUCCESS, c->session);
}

static void verify(const struct scenario *s, const struct connection *c)
{
	scenario_event(c, s->timeout, PXIMC_EVENT_ASSERTED);
	ensure(get(c->local) == c->local_size, "one's local size is the other's remote size");
	ensure(get(c->local + 8) == c->remote_size, "one's remote size is the other's local size");
	for (uint64_t place = HEADER; place < c->local_size; place++)
		ensure(window_read(c->local + place) == pattern(!s->s1, place),
		       "what was written arrives there");
	printf("    all %llu bytes have arrived\n", (unsigned long long)c->local_size);
}

void scenario_exchange(const struct scenario *s, const struct connection *c)
{
	ensure(c->remote_size > HEADER && c->local_size > HEADER, "windows are large enough");
	if (s->s1) {
		verify(s, c);
		fill(s, c);
	} else {
		fill(s, c);
		verify(s, c);
	}
}

void scenario_event(const struct connection *c, uint32_t timeout, uint32_t expected)
{
	static const char *const names[] = { "none", "ASSERTED", "CONNECTION_CLOSED",
					     "INTERFACE_DOWN" };
	uint32_t event = 0;

	CALL(waitForSessionEvent, PXIMC_SUCCESS, c->session, timeout, &event);
	printf("    event %s\n", event < 4 ? names[event] : "unknown");
	ensure(event == expected, "it is the expected event");
}

void scenario_flag(const struct connection *c, uint8_t value)
{
	window_write(c->remote + FLAG, value);
}

void scenario_wait_flag(const struct scenario *s, const struct connection *c, uint8_t value)
{
	uint64_t end = milliseconds() + s->timeout;

	while (window_read(c->local + FLAG) != value) {
		ensure(left(end), "the other system gets on");
		nap();
	}
}

void scenario_close(const struct scenario *s, const struct connection *c)
{
	if (s->s1)
		scenario_event(c, s->timeout, PXIMC_EVENT_CONNECTION_CLOSED);
	CALL(closeWindow, PXIMC_SUCCESS, c->session);
	CALL(cleanup, PXIMC_SUCCESS);
	printf("done\n");
}
