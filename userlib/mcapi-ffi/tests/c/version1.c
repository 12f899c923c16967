/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that was written to MCAPI 1.0, and uses all of its calls. Without the fabric it is told
 * that its node cannot be initialized, and that there is none. Prints what differs.
 */

#include <mcapi.h>

#include <stdio.h>

/* Statuses of 1.0, by the names that a header of 1.0 has, and those of 2.000. */
static const struct {
	const char *name;
	mcapi_status_t status, expected;
} statuses[] = {
	{ "ENO_INIT", MCAPI_ENO_INIT, MCAPI_ERR_NODE_INITFAILED },
	{ "INITIALIZED", MCAPI_INITIALIZED, MCAPI_ERR_NODE_INITIALIZED },
	{ "ENODE_NOTVALID", MCAPI_ENODE_NOTVALID, MCAPI_ERR_NODE_INVALID },
	{ "EPARAM", MCAPI_EPARAM, MCAPI_ERR_PARAMETER },
	{ "ENO_FINAL", MCAPI_ENO_FINAL, MCAPI_ERR_NODE_FINALFAILED },
	{ "ENODE_NOTINIT", MCAPI_ENODE_NOTINIT, MCAPI_ERR_NODE_NOTINIT },
	{ "EPORT_NOTVALID", MCAPI_EPORT_NOTVALID, MCAPI_ERR_PORT_INVALID },
	{ "EEP_NOTALLOWED", MCAPI_EEP_NOTALLOWED, MCAPI_ERR_PORT_INVALID },
	{ "EENDP_LIMIT", MCAPI_EENDP_LIMIT, MCAPI_ERR_PORT_INVALID },
	{ "EENDP_ISCREATED", MCAPI_EENDP_ISCREATED, MCAPI_ERR_ENDP_EXISTS },
	{ "ENOT_ENDP", MCAPI_ENOT_ENDP, MCAPI_ERR_ENDP_INVALID },
	{ "ENOT_OWNER", MCAPI_ENOT_OWNER, MCAPI_ERR_ENDP_NOTOWNER },
	{ "ECHAN_OPEN", MCAPI_ECHAN_OPEN, MCAPI_ERR_CHAN_OPEN },
	{ "ECONNECTED", MCAPI_ECONNECTED, MCAPI_ERR_CHAN_CONNECTED },
	{ "ECHAN_TYPE", MCAPI_ECHAN_TYPE, MCAPI_ERR_CHAN_TYPE },
	{ "EDIR", MCAPI_EDIR, MCAPI_ERR_CHAN_DIRECTION },
	{ "ENOT_OPEN", MCAPI_ENOT_OPEN, MCAPI_ERR_CHAN_NOTOPEN },
	{ "ENOT_HANDLE", MCAPI_ENOT_HANDLE, MCAPI_ERR_CHAN_INVALID },
	{ "EATTR_NUM", MCAPI_EATTR_NUM, MCAPI_ERR_ATTR_NUM },
	{ "EATTR_SIZE", MCAPI_EATTR_SIZE, MCAPI_ERR_ATTR_SIZE },
	{ "EREAD_ONLY", MCAPI_EREAD_ONLY, MCAPI_ERR_ATTR_READONLY },
	{ "EATTR_INCOMP", MCAPI_EATTR_INCOMP, MCAPI_ERR_ATTR_INCOMPATIBLE },
	{ "EMESS_LIMIT", MCAPI_EMESS_LIMIT, MCAPI_ERR_MSG_SIZE },
	{ "ETRUNCATED", MCAPI_ETRUNCATED, MCAPI_ERR_MSG_TRUNCATED },
	{ "EPACK_LIMIT", MCAPI_EPACK_LIMIT, MCAPI_ERR_PKT_SIZE },
	{ "ENO_BUFFER", MCAPI_ENO_BUFFER, MCAPI_ERR_MEM_LIMIT },
	{ "ENO_MEM", MCAPI_ENO_MEM, MCAPI_ERR_MEM_LIMIT },
	{ "EPRIO", MCAPI_EPRIO, MCAPI_ERR_PRIORITY },
	{ "ENOT_VALID_BUF", MCAPI_ENOT_VALID_BUF, MCAPI_ERR_BUF_INVALID },
	{ "ENO_REQUEST", MCAPI_ENO_REQUEST, MCAPI_ERR_REQUEST_LIMIT },
	{ "ENOTREQ_HANDLE", MCAPI_ENOTREQ_HANDLE, MCAPI_ERR_REQUEST_INVALID },
	{ "EREQ_CANCELED", MCAPI_EREQ_CANCELED, MCAPI_ERR_REQUEST_CANCELLED },
	{ "EREQ_TIMEOUT", MCAPI_EREQ_TIMEOUT, MCAPI_TIMEOUT },
	{ "EREQ_PENDING", MCAPI_EREQ_PENDING, MCAPI_PENDING },
	{ "INCOMPLETE", MCAPI_INCOMPLETE, MCAPI_PENDING },
	{ "ESCL_SIZE", MCAPI_ESCL_SIZE, MCAPI_ERR_GENERAL },
	{ "ENOT_CONNECTED", MCAPI_ENOT_CONNECTED, MCAPI_ERR_GENERAL },
};

static int failures;

static void is(const char *call, mcapi_status_t status, mcapi_status_t expected)
{
	if (status != expected) {
		printf("%s: %u, not %u\n", call, status, expected);
		failures++;
	}
}

#define NO_NODE(call) ((call), is(#call, status, MCAPI_ENODE_NOTINIT))

int main(void)
{
	mcapi_version_t version = 0;
	mcapi_status_t status = MCAPI_SUCCESS;
	mcapi_endpoint_t one = 0, other = 0;
	mcapi_request_t request = 0, more[20], *requests[20];
	mcapi_pktchan_recv_hndl_t pkt_recv = 0;
	mcapi_pktchan_send_hndl_t pkt_send = 0;
	mcapi_sclchan_recv_hndl_t scl_recv = 0;
	mcapi_sclchan_send_hndl_t scl_send = 0;
	mcapi_int_t index;
	mcapi_uint_t attribute = 0;
	mcapi_boolean_t done;
	char buffer[8] = "";
	void *packet = buffer;
	size_t size = 0, next;

	for (next = 0; next < sizeof(statuses) / sizeof(statuses[0]); next++)
		is(statuses[next].name, statuses[next].status, statuses[next].expected);

	mcapi_initialize(1, &version, &status);
	is("mcapi_initialize", status, MCAPI_ENO_INIT);
	mcapi_initialize(1, NULL, &status);
	is("mcapi_initialize without a version", status, MCAPI_EPARAM);

	NO_NODE(mcapi_get_node_id(&status));
	NO_NODE(one = mcapi_create_endpoint(5, &status));
	NO_NODE(other = mcapi_create_anonymous_endpoint(&status));
	NO_NODE(mcapi_get_endpoint_i(1, 5, &one, &request, &status));
	NO_NODE(one = mcapi_get_endpoint(1, 5, &status));
	NO_NODE(mcapi_get_endpoint_attribute(one, 0, &attribute, sizeof(attribute), &status));
	NO_NODE(mcapi_set_endpoint_attribute(one, 0, &attribute, sizeof(attribute), &status));
	NO_NODE(mcapi_delete_endpoint(one, &status));

	NO_NODE(mcapi_msg_send_i(one, other, buffer, sizeof(buffer), 0, &request, &status));
	NO_NODE(mcapi_msg_send(one, other, buffer, sizeof(buffer), 0, &status));
	NO_NODE(mcapi_msg_recv_i(one, buffer, sizeof(buffer), &request, &status));
	NO_NODE(mcapi_msg_recv(one, buffer, sizeof(buffer), &size, &status));
	NO_NODE(mcapi_msg_available(one, &status));

	NO_NODE(mcapi_connect_pktchan_i(one, other, &request, &status));
	NO_NODE(mcapi_open_pktchan_recv_i(&pkt_recv, other, &request, &status));
	NO_NODE(mcapi_open_pktchan_send_i(&pkt_send, one, &request, &status));
	NO_NODE(mcapi_pktchan_send_i(pkt_send, buffer, sizeof(buffer), &request, &status));
	NO_NODE(mcapi_pktchan_send(pkt_send, buffer, sizeof(buffer), &status));
	NO_NODE(mcapi_pktchan_recv_i(pkt_recv, &packet, &request, &status));
	NO_NODE(mcapi_pktchan_recv(pkt_recv, &packet, &size, &status));
	NO_NODE(mcapi_pktchan_available(pkt_recv, &status));
	NO_NODE(mcapi_pktchan_free(packet, &status));
	NO_NODE(mcapi_packetchan_recv_close_i(pkt_recv, &request, &status));
	NO_NODE(mcapi_packetchan_send_close_i(pkt_send, &request, &status));

	NO_NODE(mcapi_connect_sclchan_i(one, other, &request, &status));
	NO_NODE(mcapi_open_sclchan_recv_i(&scl_recv, other, &request, &status));
	NO_NODE(mcapi_open_sclchan_send_i(&scl_send, one, &request, &status));
	NO_NODE(mcapi_sclchan_send_uint64(scl_send, 1, &status));
	NO_NODE(mcapi_sclchan_send_uint32(scl_send, 1, &status));
	NO_NODE(mcapi_sclchan_send_uint16(scl_send, 1, &status));
	NO_NODE(mcapi_sclchan_send_uint8(scl_send, 1, &status));
	NO_NODE(mcapi_sclchan_recv_uint64(scl_recv, &status));
	NO_NODE(mcapi_sclchan_recv_uint32(scl_recv, &status));
	NO_NODE(mcapi_sclchan_recv_uint16(scl_recv, &status));
	NO_NODE(mcapi_sclchan_recv_uint8(scl_recv, &status));
	NO_NODE(mcapi_sclchan_available(scl_recv, &status));
	NO_NODE(mcapi_sclchan_recv_close_i(scl_recv, &request, &status));
	NO_NODE(mcapi_sclchan_send_close_i(scl_send, &request, &status));

	/* The status is before the time, and requests are named by pointers. */
	for (next = 0; next < 20; next++) {
		more[next] = 0;
		requests[next] = &more[next];
	}
	NO_NODE(done = mcapi_test(&request, &size, &status));
	NO_NODE(done = mcapi_wait(&request, &size, &status, MCAPI_INFINITE));
	NO_NODE(index = mcapi_wait_any(2, requests, &size, &status, 0));
	NO_NODE(index = mcapi_wait_any(20, requests, &size, &status, MCAPI_INFINITE));
	requests[3] = NULL;
	NO_NODE(index = mcapi_wait_any(20, requests, &size, &status, MCAPI_INFINITE));
	NO_NODE(mcapi_cancel(&request, &status));
	NO_NODE(mcapi_finalize(&status));
	if (done || index >= 0 || version) {
		printf("%d, %d, %u\n", done, index, version);
		failures++;
	}
	return failures;
}
