// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-2: events. An event that somebody waits for, one that nobody waits for, and three that are
 * told as one.
 */
#define _POSIX_C_SOURCE 200809L

#include "scenario.h"

#include <time.h>

/* Time for events to overtake memory, which they do not have to. */
static void settle(void)
{
	struct timespec time = { .tv_nsec = 200000000 };

	nanosleep(&time, NULL);
}

static void s0(const struct scenario *s, const struct connection *c)
{
	/* Steps 2 and 4: S1 waits, then this side does. */
	window_write(c->remote, 0x5a);
	CALL(assertEvent, PXIMC_SUCCESS, c->session);
	scenario_event(c, s->timeout, PXIMC_EVENT_ASSERTED);
	scenario_flag(c, 1);
	/* Step 7: the event came while nobody waited. */
	scenario_wait_flag(s, c, 2);
	settle();
	scenario_event(c, s->timeout, PXIMC_EVENT_ASSERTED);
	for (int i = 0; i < 3; i++)
		CALL(assertEvent, PXIMC_SUCCESS, c->session);
	scenario_flag(c, 3);
	scenario_wait_flag(s, c, 4);
}

static void s1(const struct scenario *s, const struct connection *c)
{
	uint32_t event = 0;

	/* Steps 1 and 3 */
	scenario_event(c, PXIMC_TIMEOUT_INFINITE, PXIMC_EVENT_ASSERTED);
	ensure(window_read(c->local) == 0x5a, "what was written before the event is there");
	/* Steps 5 and 6: once while S0 waits, once while it does not. */
	CALL(assertEvent, PXIMC_SUCCESS, c->session);
	scenario_wait_flag(s, c, 1);
	CALL(assertEvent, PXIMC_SUCCESS, c->session);
	scenario_flag(c, 2);
	/* The variant: three events are one. */
	scenario_wait_flag(s, c, 3);
	settle();
	scenario_event(c, s->timeout, PXIMC_EVENT_ASSERTED);
	CALL(waitForSessionEvent, PXIMC_TIMEOUT, c->session, 0, &event);
	ensure(event == 0, "no reason is written without success");
	scenario_flag(c, 4);
}

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "events");
	c = scenario_pair(&s);
	if (s.s1)
		s1(&s, &c);
	else
		s0(&s, &c);
	scenario_close(&s, &c);
	return 0;
}
