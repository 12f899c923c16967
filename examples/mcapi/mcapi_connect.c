// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two nodes that a third one connects, by numbers that all of them know.
 *
 *	mcapi_connect source NODE PACKETS
 *	mcapi_connect sink NODE
 *	mcapi_connect connector NODE SOURCE SINK
 *
 * The source creates the endpoint of port 17 and sends packets, the sink that of port 37 and receives
 * them. Neither knows the other. The connector gets both endpoints, connects them and ends. They may be
 * started in any order: a get waits until the endpoint exists, an open until somebody connects it.
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define SOURCE_PORT 17
#define SINK_PORT 37
#define PACKETS_MAX 100000000UL

static mcapi_status_t status;

static void be_source(mcapi_node_t node, mcapi_uint64_t packets)
{
	mcapi_pktchan_send_hndl_t channel;
	mcapi_endpoint_t endpoint;
	mcapi_request_t request;
	mcapi_uint64_t n;

	become(node);
	endpoint = patient_endpoint(SOURCE_PORT);
	mcapi_pktchan_send_open_i(&channel, endpoint, &request, &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	finish("nobody connects the source with an open sink", request);
	for (n = 0; n < packets; n++) {
		mcapi_pktchan_send(channel, &n, sizeof(n), &status);
		check("mcapi_pktchan_send", status);
	}
	/* What was sent is received all the same. */
	mcapi_pktchan_send_close_i(channel, &request, &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	finish("the sink does not close", request);
}

static void be_sink(mcapi_node_t node)
{
	mcapi_pktchan_recv_hndl_t channel;
	mcapi_uint64_t number, received = 0;
	mcapi_endpoint_t endpoint;
	mcapi_request_t request;
	void *packet;
	size_t size;

	become(node);
	endpoint = patient_endpoint(SINK_PORT);
	mcapi_pktchan_recv_open_i(&channel, endpoint, &request, &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	finish("nobody connects the sink with an open source", request);
	for (;;) {
		mcapi_pktchan_recv(channel, &packet, &size, &status);
		if (status == MCAPI_ERR_CHAN_INVALID)
			break; /* the source has closed, and that was all */
		check("mcapi_pktchan_recv", status);
		if (size != sizeof(number))
			fail("a packet has another size");
		memcpy(&number, packet, sizeof(number));
		if (number != received++)
			fail("a packet is not the next one");
		mcapi_pktchan_release(packet, &status);
		check("mcapi_pktchan_release", status);
	}
	printf("%llu packets\n", (unsigned long long)received);
	mcapi_pktchan_recv_close_i(channel, &request, &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	finish("the channel does not close", request);
}

static void be_connector(mcapi_node_t node, mcapi_node_t source, mcapi_node_t sink)
{
	mcapi_endpoint_t from, to;
	mcapi_request_t request;

	become(node);
	from = found(source, SOURCE_PORT);
	to = found(sink, SINK_PORT);
	mcapi_pktchan_connect_i(from, to, &request, &status);
	check_begun("mcapi_pktchan_connect_i", status);
	finish("the endpoints are not connected", request);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "source") == 0) {
		be_source(number(argv[2], MCAPI_MAX_NODE), number(argv[3], PACKETS_MAX));
	} else if (argc == 3 && strcmp(argv[1], "sink") == 0) {
		be_sink(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 5 && strcmp(argv[1], "connector") == 0) {
		be_connector(number(argv[2], MCAPI_MAX_NODE), number(argv[3], MCAPI_MAX_NODE),
			number(argv[4], MCAPI_MAX_NODE));
	} else {
		fprintf(stderr, "usage: %s source NODE PACKETS | sink NODE\n", argv[0]);
		fprintf(stderr, "       %s connector NODE SOURCE SINK\n", argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
