// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * S-4: a process of System 0 writes to the memory of a device of System 1, which --target
 * names there.
 *
 * S-7 is this one and s5_device_to_process at the same time.
 */
#include "scenario.h"

#define DATA "Vendor XYZ Digitizer 123"

static uint8_t value(uint64_t place)
{
	return (uint8_t)(place * 5 + place / 239 + 2);
}

static struct connection s0(const struct scenario *s)
{
	struct connection c = scenario_device_client(s, DATA);

	for (uint64_t place = 0; place < c.remote_size; place++)
		window_write(c.remote + place, value(place));
	CALL(assertEvent, PXIMC_SUCCESS, c.session);
	/* Who closes at once may be gone before S1 has seen that it was there. */
	scenario_event(&c, s->timeout, PXIMC_EVENT_ASSERTED);
	return c;
}

static struct connection s1(const struct scenario *s)
{
	struct device_memory memory;
	struct connection c = scenario_device_server(s, DATA, &memory);

	scenario_event(&c, s->timeout, PXIMC_EVENT_ASSERTED);
	for (uint64_t place = 0; place < memory.size; place++)
		ensure(window_read(memory.bytes + place) == value(place),
		       "what was written is in the device");
	CALL(assertEvent, PXIMC_SUCCESS, c.session);
	return c;
}

int main(int argc, char **argv)
{
	struct connection c;
	struct scenario s;

	scenario_start(&s, argc, argv, "a process writes to a remote device");
	c = s.s1 ? s1(&s) : s0(&s);
	scenario_close(&s, &c);
	return 0;
}
