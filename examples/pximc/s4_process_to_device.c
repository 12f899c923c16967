// SPDX-License-Identifier: GPL-2.0
/*
 * S-4: a process of System 0 reaches the memory of a device of System 1, which --address and
 * --length name on both systems. With --variant write, S0 writes a byte to its start and end.
 *
 * S-7 is this one and s5_device_to_process at the same time.
 */
#include "scenario.h"

#include <string.h>

#define DATA "Vendor XYZ Digitizer 123"

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a process writes to a remote device");
	if (s.s1) {
		c = scenario_device_server(&s, DATA);
	} else {
		c = scenario_device_client(&s, DATA);
		if (!strcmp(s.variant, "write")) {
			window_write(c.remote, 0x5a);
			window_write(c.remote + c.remote_size - 1, 0xa5);
		}
	}
	scenario_close(&s, &c);
	return 0;
}
