// SPDX-License-Identifier: GPL-2.0
/*
 * S-6: a device of System 1, which --master names, writes to the memory of a device of System 0,
 * which --address and --length name on both systems.
 *
 * S-8 is this one twice at the same time, with the systems exchanged.
 */
#include "scenario.h"

#define DATA "ABC Vendor DAQ Card 123"

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a device writes to a remote device");
	if (s.s1) {
		c = scenario_device_client(&s, DATA);
		scenario_master(&s, &c);
		CALL(assertEvent, PXIMC_SUCCESS, c.session);
	} else {
		c = scenario_device_server(&s, DATA);
		scenario_event(&c, s.timeout, PXIMC_EVENT_ASSERTED);
	}
	scenario_close(&s, &c);
	return 0;
}
