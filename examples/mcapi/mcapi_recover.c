// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A node that goes on when the one that works for it is lost and comes back.
 *
 *	mcapi_recover worker NODE
 *	mcapi_recover client NODE WORKER PACKETS
 *
 * The client sends packets by a channel, and the worker acknowledges each by a message. No wait of the
 * client is for ever. When one takes too long, or a call says that the worker has gone, the client
 * cancels what it waits for, finalizes, is initialized again with the same numbers, finds the worker
 * again and makes the channel again. It goes on with the first packet that was not acknowledged. A
 * worker whose client has gone waits for the next one.
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define WORKER_PORT 1
#define LOST_MS 1000		/* a worker that is silent for so long counts as lost */
#define PACKETS_MAX 100000000UL

struct packet {
	mcapi_uint64_t number;
	mcapi_endpoint_t reply_to;
};

static mcapi_status_t status;

/* --- the worker */

/* Acknowledges packets; whether the client has had all that it wants. */
static int serve_client(mcapi_pktchan_recv_hndl_t channel, mcapi_endpoint_t replies)
{
	struct packet packet;
	void *bytes;
	size_t size;

	for (;;) {
		mcapi_pktchan_recv(channel, &bytes, &size, &status);
		if (status == MCAPI_ERR_CHAN_INVALID)
			return 1; /* it has closed its end */
		if (status == MCAPI_ERR_TRANSMISSION)
			return 0; /* it has gone */
		if (status == MCAPI_TIMEOUT)
			continue;
		check("mcapi_pktchan_recv", status);
		if (size != sizeof(packet))
			fail("a packet has another size");
		memcpy(&packet, bytes, sizeof(packet));
		mcapi_pktchan_release(bytes, &status);
		check("mcapi_pktchan_release", status);
		/* Whether the client is there is told by the next packet. */
		mcapi_msg_send(replies, packet.reply_to, &packet.number, sizeof(packet.number), 0,
			&status);
	}
}

/* Opens the end that a client has connected, or will connect; whether it is there still. */
static int open_end(mcapi_endpoint_t endpoint, mcapi_pktchan_recv_hndl_t *channel)
{
	mcapi_request_t request;
	size_t size;

	mcapi_pktchan_recv_open_i(channel, endpoint, &request, &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	mcapi_wait(&request, &size, MCAPI_TIMEOUT_INFINITE, &status);
	if (status == MCAPI_ERR_GENERAL)
		return 0; /* it has gone between connecting and opening */
	check("mcapi_pktchan_recv_open_i", status);
	return 1;
}

static void work(mcapi_node_t node)
{
	mcapi_pktchan_recv_hndl_t channel;
	mcapi_endpoint_t endpoint, replies;
	mcapi_request_t request;
	int is_done;

	become(node);
	endpoint = patient_endpoint(WORKER_PORT);
	replies = patient_endpoint(MCAPI_PORT_ANY);
	printf("ready\n");
	fflush(stdout);
	do {
		while (!open_end(endpoint, &channel))
			continue;
		is_done = serve_client(channel, replies);
		mcapi_pktchan_recv_close_i(channel, &request, &status);
		check_begun("mcapi_pktchan_recv_close_i", status);
		finish("the channel does not close", request);
	} while (!is_done);
}

/* --- the client */

struct session {
	mcapi_pktchan_send_hndl_t channel;
	mcapi_endpoint_t replies;
};

/* Whether a request was completed in time; otherwise it is cancelled, and nothing is left of it. */
static int is_completed(mcapi_request_t request)
{
	size_t size;

	mcapi_wait(&request, &size, LOST_MS, &status);
	if (status == MCAPI_TIMEOUT)
		mcapi_cancel(&request, &status);
	else if (status == MCAPI_SUCCESS)
		return 1;
	return 0;
}

/* Makes the channel; whether there was a worker to make it with. */
static int connect_to(mcapi_node_t worker, struct session *session)
{
	mcapi_endpoint_t own = patient_endpoint(MCAPI_PORT_ANY), there = found(worker, WORKER_PORT);
	mcapi_endp_attr_timeout_t limit = LOST_MS;
	mcapi_request_t request;

	session->replies = patient_endpoint(MCAPI_PORT_ANY);
	/* A send that finds no room waits no longer than this. */
	mcapi_endpoint_set_attribute(own, MCAPI_ENDP_ATTR_TIMEOUT, &limit, sizeof(limit), &status);
	check("mcapi_endpoint_set_attribute", status);
	mcapi_pktchan_connect_i(own, there, &request, &status);
	if ((status != MCAPI_PENDING && status != MCAPI_SUCCESS) || !is_completed(request))
		return 0;
	mcapi_pktchan_send_open_i(&session->channel, own, &request, &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	return is_completed(request);
}

/* Sends a packet; whether it was acknowledged. */
static int is_acknowledged(const struct session *session, mcapi_uint64_t number)
{
	struct packet packet = { number, session->replies };
	mcapi_uint64_t told;
	mcapi_request_t request;

	mcapi_pktchan_send(session->channel, &packet, sizeof(packet), &status);
	if (status != MCAPI_SUCCESS)
		return 0;
	do {
		mcapi_msg_recv_i(session->replies, &told, sizeof(told), &request, &status);
		check_begun("mcapi_msg_recv_i", status);
		if (!is_completed(request))
			return 0;
		/* A worker that was slow may acknowledge the one before a second time. */
	} while (told != number);
	return 1;
}

static void finalize(void)
{
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
}

static void run(mcapi_node_t node, mcapi_node_t worker, mcapi_uint64_t packets)
{
	unsigned long recoveries = 0;
	mcapi_uint64_t acknowledged = 0;
	struct session session;
	mcapi_request_t request;
	int is_good;

	become(node);
	is_good = connect_to(worker, &session);
	while (!is_good || acknowledged < packets) {
		if (is_good && is_acknowledged(&session, acknowledged)) {
			if (acknowledged++ == 0) {
				printf("begun\n");
				fflush(stdout);
			}
			continue;
		}
		/* Endpoints, channels and requests end with the node. */
		finalize();
		become(node);
		recoveries++;
		is_good = connect_to(worker, &session);
	}
	printf("%llu packets, recovered %lu times\n", (unsigned long long)acknowledged, recoveries);
	mcapi_pktchan_send_close_i(session.channel, &request, &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	finish("the worker does not close", request);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "worker") == 0) {
		work(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 5 && strcmp(argv[1], "client") == 0) {
		run(number(argv[2], MCAPI_MAX_NODE), number(argv[3], MCAPI_MAX_NODE),
			number(argv[4], PACKETS_MAX));
	} else {
		fprintf(stderr, "usage: %s worker NODE | client NODE WORKER PACKETS\n", argv[0]);
		return 2;
	}
	finalize();
	return 0;
}
