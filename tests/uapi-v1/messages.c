// SPDX-License-Identifier: GPL-2.0-only
/* A program of version 1: events and ports. */
#include "common.h"

static uint32_t offer(uint32_t interface, uint32_t object, uint32_t flags, uint32_t *number)
{
	struct mp_offer offer = {
		.size = sizeof(offer), .flags = flags | MP_OFFER_ANY, .interface = interface,
		.object = object,
	};

	GOES(MP_IOC_OFFER, &offer);
	*number = offer.number;
	return offer.handle;
}

static void carries_messages(uint32_t interface)
{
	char data[16] = "";
	uint32_t number;
	uint32_t port = offer(interface, MP_OBJECT_PORT, 0, &number);
	struct mp_message sent = {
		.size = sizeof(sent), .handle = connect_to(interface, MP_OBJECT_PORT, number, 0),
		.data = address("message"), .length = 7, .deadline = MP_DEADLINE_NEVER,
	};
	struct mp_message taken = {
		.size = sizeof(taken), .handle = port, .data = address(data), .length = 3,
		.deadline = MP_DEADLINE_NEVER,
	};

	GOES(MP_IOC_SEND, &sent);
	HOLDS(wait_for(port, MP_EVENT_MESSAGE, MP_DEADLINE_NEVER) == MP_EVENT_MESSAGE);
	GIVES(EMSGSIZE, MP_IOC_RECEIVE, &taken);
	HOLDS(taken.length == 7);
	GOES(MP_IOC_RECEIVE, &taken);
	HOLDS(!strcmp(data, "message") && taken.length == 7);
	taken.deadline = MP_DEADLINE_PAST;
	GIVES(ETIMEDOUT, MP_IOC_RECEIVE, &taken);
	sent.length = MP_MESSAGE_MAX + 1;
	GIVES(EMSGSIZE, MP_IOC_SEND, &sent);
}

static void counts_triggers(uint32_t interface)
{
	uint32_t number, n;
	uint32_t event = offer(interface, MP_OBJECT_EVENT, MP_OFFER_COUNTED, &number);
	uint32_t to = connect_to(interface, MP_OBJECT_EVENT, number, MP_CONNECT_COUNTED);

	for (n = 0; n < 3; n++)
		on_handle(MP_IOC_SIGNAL, to);
	for (n = 0; n < 3; n++)
		wait_for(event, MP_EVENT_SIGNAL, MP_DEADLINE_NEVER);
	has_nothing(event, MP_EVENT_SIGNAL);
	on_handle(MP_IOC_CLOSE, event);
	HOLDS(wait_for(to, MP_EVENT_CLOSED, MP_DEADLINE_NEVER) == MP_EVENT_CLOSED);
}

int main(void)
{
	uint32_t interface;

	fabric = open_context();
	interface = loopback();
	carries_messages(interface);
	counts_triggers(interface);
	return 0;
}
