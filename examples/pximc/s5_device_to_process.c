// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-5: a device of System 1, which --engine names there, writes into the memory of a process
 * of System 0. Devices raise no events: a process of System 1 does that for them.
 */
#include "scenario.h"

#include <string.h>

#define DATA "ABC Vendor Digitizer Source"

static struct connection s1(const struct scenario *s)
{
	uint32_t interface = scenario_interface(s);
	struct connection c;
	uint32_t session;

	CALL(requestWindowLogicalAsServer, PXIMC_SUCCESS, interface, s->protocol, 0, 0, s->max,
	     s->min, 0, (const uint8_t *)DATA, strlen(DATA), &session);
	c = scenario_connect(session, s->timeout);
	ensure(c.remote && s->min <= c.remote_size && c.remote_size <= s->max,
	       "the size of the remote window");
	ensure(!c.local && !c.local_size, "there is no local window");
	scenario_engine_writes(s, &c);
	return c;
}

static struct connection s0(const struct scenario *s)
{
	uint32_t interface = scenario_interface(s);
	uint32_t window = scenario_window(s, interface, 0, DATA, strlen(DATA));
	struct connection c;
	uint32_t session;
	uint64_t address;

	/* What is remote there is local here. */
	CALL(requestWindowLogicalAsClient, PXIMC_SUCCESS, interface, s->protocol, s->max, s->min, 0,
	     0, window, &session);
	c = scenario_connect(session, 0);
	ensure(c.local && s->min <= c.local_size && c.local_size <= s->max,
	       "the size of the local window");
	ensure(!c.remote && !c.remote_size, "there is no remote window");
	CALL(getPhysicalAddress, PXIMC_NO_WINDOW, session, &address);
	scenario_verify_engine(s, &c, c.local, c.local_size);
	return c;
}

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a device writes to a remote process");
	c = s.s1 ? s1(&s) : s0(&s);
	scenario_close(&s, &c);
	return 0;
}
