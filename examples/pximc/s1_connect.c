// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-1: a process of System 0 finds the window that a process of System 1 has posted, and pairs
 * with it. Both write to the other's memory.
 */
#include "scenario.h"

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a client connects to a server");
	c = scenario_pair(&s);
	scenario_exchange(&s, &c);
	scenario_close(&s, &c);
	return 0;
}
