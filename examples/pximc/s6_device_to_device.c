// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-6: a device of System 1, which --engine names there, writes to the memory of a device of
 * System 0, which --target names there.
 *
 * S-8 is this one twice at the same time, with the systems exchanged.
 */
#include "scenario.h"

#define DATA "ABC Vendor DAQ Card 123"

int main(int argc, char **argv)
{
	struct device_memory memory;
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a device writes to a remote device");
	if (s.s1) {
		c = scenario_device_client(&s, DATA);
		scenario_engine_writes(&s, &c);
	} else {
		c = scenario_device_server(&s, DATA, &memory);
		scenario_verify_engine(&s, &c, memory.bytes, memory.size);
	}
	scenario_close(&s, &c);
	return 0;
}
