/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that was written to MCAPI 1.0, and uses all of its calls. Without the fabric it is told
 * that its node cannot be initialized, and that there is none. Prints what differs.
 */

#include <mcapi.h>

#include <stdio.h>

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
