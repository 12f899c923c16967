/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls every function of the library on a system without the fabric, as a program in C does. Prints
 * what differs from what it should be, and fails then.
 */

#include <mcapi.h>
#include <mcapi_abb.h>

#include <stdio.h>
#include <string.h>

/* What functions may not write to. */
static struct places {
	mcapi_endpoint_t endpoint;
	mcapi_request_t request;
	size_t size;
	void *packet;
	mcapi_uint32_t handle;
	char bytes[64];
} places, untouched;

/* What the status is before a call: none. */
#define NOTHING 99

static mcapi_status_t status;
static int failures;

static void check(const char *call, mcapi_status_t expected, int is_good)
{
	if (status != expected || !is_good) {
		printf("%s: status %u, not %u%s\n", call, status, expected,
			is_good ? "" : ", or something else is wrong");
		failures++;
	}
	status = NOTHING;
}

/* The status, and what a function returns with it. */
#define IS(call, returned, expected) check(#call, expected, (call) == (returned))
#define GIVES(call, expected) ((call), check(#call, expected, 1))
/* The same, of a request: there is none then. Without a place for the status it is not written. */
#define BEGINS(call, expected) \
	(places.request = 7, (call), check(#call, expected, places.request == (st ? 0 : 7)), \
		places.request = untouched.request)
/* Without a node, each function says so, whatever else is wrong. Without st, nothing is said. */
static void without_a_node(mcapi_status_t *st)
{
	const mcapi_status_t none = st ? MCAPI_ERR_NODE_NOTINIT : NOTHING;
	mcapi_endpoint_t a = 1, b = 2;
	mcapi_request_t requests[2] = {3, 4}, *rq = &places.request;
	void *bytes = places.bytes;
	size_t len = sizeof(places.bytes);

	GIVES(mcapi_finalize(st), none);
	GIVES(mcapi_node_start(st), none);
	GIVES(mcapi_node_rundown(st), none);
	GIVES(mcapi_node_get_attribute(0, 1, 0, bytes, 4, st), none);
	BEGINS(mcapi_endpoint_get_i(0, 1, 2, &places.endpoint, rq, st), none);
	GIVES(mcapi_endpoint_delete(a, st), none);
	GIVES(mcapi_endpoint_get_attribute(a, 0, bytes, 4, st), none);
	GIVES(mcapi_endpoint_set_attribute(a, 0, bytes, 4, st), none);
	BEGINS(mcapi_msg_send_i(a, b, bytes, len, 0, rq, st), none);
	GIVES(mcapi_msg_send(a, b, bytes, len, 0, st), none);
	BEGINS(mcapi_msg_recv_i(a, bytes, len, rq, st), none);
	GIVES(mcapi_msg_recv(a, bytes, len, &places.size, st), none);
	BEGINS(mcapi_pktchan_connect_i(a, b, rq, st), none);
	BEGINS(mcapi_pktchan_recv_open_i(&places.handle, a, rq, st), none);
	BEGINS(mcapi_pktchan_send_open_i(&places.handle, a, rq, st), none);
	BEGINS(mcapi_pktchan_send_i(1, bytes, len, rq, st), none);
	GIVES(mcapi_pktchan_send(1, bytes, len, st), none);
	BEGINS(mcapi_pktchan_recv_i(1, &places.packet, rq, st), none);
	GIVES(mcapi_pktchan_recv(1, &places.packet, &places.size, st), none);
	GIVES(mcapi_pktchan_release(bytes, st), none);
	BEGINS(mcapi_pktchan_recv_close_i(1, rq, st), none);
	BEGINS(mcapi_pktchan_send_close_i(1, rq, st), none);
	BEGINS(mcapi_sclchan_connect_i(a, b, rq, st), none);
	BEGINS(mcapi_sclchan_recv_open_i(&places.handle, a, rq, st), none);
	BEGINS(mcapi_sclchan_send_open_i(&places.handle, a, rq, st), none);
	GIVES(mcapi_sclchan_send_uint64(1, 1, st), none);
	GIVES(mcapi_sclchan_send_uint32(1, 1, st), none);
	GIVES(mcapi_sclchan_send_uint16(1, 1, st), none);
	GIVES(mcapi_sclchan_send_uint8(1, 1, st), none);
	BEGINS(mcapi_sclchan_recv_close_i(1, rq, st), none);
	BEGINS(mcapi_sclchan_send_close_i(1, rq, st), none);
	GIVES(mcapi_cancel(requests, st), none);

	/* What they return is of no use, and always the same. */
	IS(mcapi_domain_id_get(st), MCAPI_DOMAIN_INVALID, none);
	IS(mcapi_node_id_get(st), MCAPI_NODE_INVALID, none);
	IS(mcapi_endpoint_create(1, st), 0, none);
	IS(mcapi_endpoint_get(0, 1, 2, MCAPI_TIMEOUT_INFINITE, st), 0, none);
	IS(mcapi_msg_available(a, st), 0, none);
	IS(mcapi_pktchan_available(1, st), 0, none);
	IS(mcapi_pktchan_release_test(bytes, st), MCAPI_FALSE, none);
	IS(mcapi_sclchan_recv_uint64(1, st), 0, none);
	IS(mcapi_sclchan_recv_uint32(1, st), 0, none);
	IS(mcapi_sclchan_recv_uint16(1, st), 0, none);
	IS(mcapi_sclchan_recv_uint8(1, st), 0, none);
	IS(mcapi_sclchan_available(1, st), 0, none);
	IS(mcapi_test(requests, &places.size, st), MCAPI_FALSE, none);
	IS(mcapi_wait(requests, &places.size, MCAPI_TIMEOUT_INFINITE, st), MCAPI_FALSE, none);
	IS(mcapi_wait_any(2, requests, &places.size, MCAPI_TIMEOUT_INFINITE, st),
		MCAPI_RETURN_VALUE_INVALID, none);
}

/* Functions that need no node. */
static void anywhere(mcapi_status_t *st)
{
	mcapi_node_attributes_t attributes;
	mcapi_node_attr_type_t type = MCAPI_NODE_ATTR_TYPE_REGULAR, other = 7;
	mcapi_param_t parameters = {MCAPI_PARAM_MAGIC, 4, 0, 0, 0, {0}};
	mcapi_info_t info;

	memset(&attributes, 0x5A, sizeof(attributes));
	GIVES(mcapi_node_set_attribute(&attributes, 0, &type, sizeof(type), st),
		MCAPI_ERR_PARAMETER);
	GIVES(mcapi_node_init_attributes(MCAPI_NULL, st), MCAPI_ERR_PARAMETER);
	GIVES(mcapi_node_init_attributes(&attributes, st), MCAPI_SUCCESS);
	GIVES(mcapi_node_set_attribute(&attributes, MCAPI_NODE_ATTR_TYPE, &type, sizeof(type), st),
		MCAPI_SUCCESS);
	GIVES(mcapi_node_set_attribute(&attributes, MCAPI_NODE_ATTR_TYPE, &other, sizeof(other),
		st), MCAPI_ERR_ATTR_VALUE);
	GIVES(mcapi_initialize(0, 1, &attributes, &parameters, &info, st), MCAPI_ERR_PARAMETER);
	GIVES(mcapi_initialize(0, 1, &attributes, MCAPI_NULL, MCAPI_NULL, st),
		MCAPI_ERR_PARAMETER);
	GIVES(mcapi_initialize2(0, 1, &attributes, MCAPI_NULL, MCAPI_NULL, MCAPI_TRUE, st),
		MCAPI_ERR_PARAMETER);
	/* There is no fabric here. */
	GIVES(mcapi_initialize(0, 1, &attributes, MCAPI_NULL, &info, st),
		MCAPI_ERR_NODE_INITFAILED);
	GIVES(mcapi_initialize2(0, 1, &attributes, MCAPI_NULL, &info, MCAPI_FALSE, st),
		MCAPI_ERR_NODE_INITFAILED);
}

/* Without a place for the status, functions that need no node do nothing either. */
static void without_a_status(void)
{
	mcapi_node_attributes_t attributes, before;
	mcapi_info_t info;

	memset(&attributes, 0x5A, sizeof(attributes));
	before = attributes;
	GIVES(mcapi_initialize(0, 1, MCAPI_NULL, MCAPI_NULL, &info, MCAPI_NULL), NOTHING);
	GIVES(mcapi_initialize2(0, 1, MCAPI_NULL, MCAPI_NULL, &info, MCAPI_TRUE, MCAPI_NULL),
		NOTHING);
	GIVES(mcapi_node_init_attributes(&attributes, MCAPI_NULL), NOTHING);
	GIVES(mcapi_node_set_attribute(&attributes, 0, &before, 4, MCAPI_NULL), NOTHING);
	IS(memcmp(&attributes, &before, sizeof(before)), 0, NOTHING);
}

/* Each status has the name that it has in the header. */
static void names(void)
{
	char name[MCAPI_MAX_STATUS_MSG_LEN];

#define NAMED(code) \
	IS(strcmp(mcapi_display_status(code, name, sizeof(name)), #code), 0, NOTHING)
	NAMED(MCAPI_SUCCESS);
	NAMED(MCAPI_PENDING);
	NAMED(MCAPI_TIMEOUT);
	NAMED(MCAPI_ERR_PARAMETER);
	NAMED(MCAPI_ERR_DOMAIN_INVALID);
	NAMED(MCAPI_ERR_NODE_INVALID);
	NAMED(MCAPI_ERR_NODE_INITFAILED);
	NAMED(MCAPI_ERR_NODE_INITIALIZED);
	NAMED(MCAPI_ERR_NODE_NOTINIT);
	NAMED(MCAPI_ERR_NODE_FINALFAILED);
	NAMED(MCAPI_ERR_PORT_INVALID);
	NAMED(MCAPI_ERR_ENDP_INVALID);
	NAMED(MCAPI_ERR_ENDP_EXISTS);
	NAMED(MCAPI_ERR_ENDP_GET_LIMIT);
	NAMED(MCAPI_ERR_ENDP_DELETED);
	NAMED(MCAPI_ERR_ENDP_NOTOWNER);
	NAMED(MCAPI_ERR_ENDP_REMOTE);
	NAMED(MCAPI_ERR_ATTR_INCOMPATIBLE);
	NAMED(MCAPI_ERR_ATTR_SIZE);
	NAMED(MCAPI_ERR_ATTR_NUM);
	NAMED(MCAPI_ERR_ATTR_VALUE);
	NAMED(MCAPI_ERR_ATTR_NOTSUPPORTED);
	NAMED(MCAPI_ERR_ATTR_READONLY);
	NAMED(MCAPI_ERR_MSG_SIZE);
	NAMED(MCAPI_ERR_MSG_TRUNCATED);
	NAMED(MCAPI_ERR_CHAN_OPEN);
	NAMED(MCAPI_ERR_CHAN_TYPE);
	NAMED(MCAPI_ERR_CHAN_DIRECTION);
	NAMED(MCAPI_ERR_CHAN_CONNECTED);
	NAMED(MCAPI_ERR_CHAN_OPENPENDING);
	NAMED(MCAPI_ERR_CHAN_CLOSEPENDING);
	NAMED(MCAPI_ERR_CHAN_NOTOPEN);
	NAMED(MCAPI_ERR_CHAN_INVALID);
	NAMED(MCAPI_ERR_PKT_SIZE);
	NAMED(MCAPI_ERR_TRANSMISSION);
	NAMED(MCAPI_ERR_PRIORITY);
	NAMED(MCAPI_ERR_BUF_INVALID);
	NAMED(MCAPI_ERR_MEM_LIMIT);
	NAMED(MCAPI_ERR_REQUEST_INVALID);
	NAMED(MCAPI_ERR_REQUEST_LIMIT);
	NAMED(MCAPI_ERR_REQUEST_CANCELLED);
	NAMED(MCAPI_ERR_WAIT_PENDING);
	NAMED(MCAPI_ERR_GENERAL);
	IS(strcmp(mcapi_display_status(MCAPI_STATUSCODE_END, name, sizeof(name)), ""), 0, NOTHING);
	IS(strcmp(mcapi_display_status(0, name, sizeof(name)), ""), 0, NOTHING);
	IS(!mcapi_display_status(1, MCAPI_NULL, 8), 1, NOTHING);
	IS(!mcapi_display_status(1, name, 0), 1, NOTHING);
	IS(mcapi_display_status(1, name, 1) == name, 1, NOTHING);
}

int main(void)
{
	memset(&places, 0x5A, sizeof(places));
	untouched = places;
	status = NOTHING;
	without_a_node(&status);
	anywhere(&status);
	without_a_node(&status);
	without_a_node(MCAPI_NULL);
	without_a_status();
	names();
	if (memcmp(&places, &untouched, sizeof(places))) {
		printf("something was written\n");
		failures++;
	}
	return failures ? 1 : 0;
}
