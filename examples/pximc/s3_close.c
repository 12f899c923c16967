// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-3: the end of a connection. Variants: "close", which is that of the specification, "exit",
 * where S0's process ends without closing, and "server", where S1 closes first.
 */
#define _POSIX_C_SOURCE 200809L

#include "scenario.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void leave(const struct connection *c)
{
	CALL(closeWindow, PXIMC_SUCCESS, c->session);
	CALL(closeWindow, PXIMC_INVALID_SESSION, c->session);
}

/* The other side has left. */
static void stay(const struct scenario *s, const struct connection *c)
{
	scenario_event(c, s->timeout, PXIMC_EVENT_CONNECTION_CLOSED);
	CALL(assertEvent, PXIMC_SESSION_CLOSED, c->session);
	/* Told again, until this side closes as well; its memory is still there. */
	scenario_event(c, PXIMC_TIMEOUT_INFINITE, PXIMC_EVENT_CONNECTION_CLOSED);
	window_write(c->remote, 1);
	window_write(c->local, 1);
	leave(c);
}

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "the end of a connection");
	c = scenario_pair(&s);
	scenario_exchange(&s, &c);
	/* Step 1: S1 has seen everything but the end. */
	if (s.s1)
		scenario_wait_flag(&s, &c, 1);
	else
		scenario_flag(&c, 1);
	if (!strcmp(s.variant, "exit") && !s.s1) {
		printf("  exit without closeWindow\n");
		_exit(0);
	}
	if (!strcmp(s.variant, "server") == s.s1)
		leave(&c);
	else
		stay(&s, &c);
	CALL(cleanup, PXIMC_SUCCESS);
	printf("done\n");
	return 0;
}
