// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-1 with peers: both systems make the same request. Whoever comes first waits; it does not
 * matter who that is.
 */
#include "scenario.h"

int main(int argc, char **argv)
{
	uint32_t interface, session;
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "two peers connect");
	interface = scenario_interface(&s);
	CALL(requestWindowLogicalAsPeer, PXIMC_SUCCESS, interface, s.protocol, s.max, s.min, s.max,
	     s.min, 0, NULL, 0, &session);
	c = scenario_connect(session, s.timeout);
	scenario_exchange(&s, &c);
	scenario_close(&s, &c);
	return 0;
}
