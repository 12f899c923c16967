// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two programs that were written to MCAPI 1.0, for tests: names, orders of arguments and statuses are
 * those of 1.0. A client sends messages, packets and scalars to a server, which sends back what it has
 * received.
 *
 *	mcapi_version1 server NODE
 *	mcapi_version1 client NODE SERVER COUNT
 *
 * The server says "ready". The client says how much was not as expected, and fails then.
 */

#include <mcapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Endpoints of a server; the anonymous ones of a client are told in a message. */
enum { MESSAGES, PACKETS_IN, SCALARS_IN, PACKETS_OUT, SCALARS_OUT, ENDPOINTS };

#define LENGTH 300

static mcapi_status_t status;

static void check(const char *call)
{
	char name[MCAPI_MAX_STATUS_SIZE];

	if (status == MCAPI_SUCCESS || status == MCAPI_INCOMPLETE)
		return;
	fprintf(stderr, "FAILED: %s: %s\n", call,
		mcapi_display_status(status, name, sizeof(name)));
	exit(EXIT_FAILURE);
}

#define DO(call) ((call), check(#call))

/* Waits for an operation that moves no data. */
static void complete(mcapi_request_t request)
{
	size_t size;

	DO(mcapi_wait(&request, &size, &status, MCAPI_INFINITE));
}

/* Both ends of two channels, one for packets and one for scalars. */
struct channels {
	mcapi_pktchan_send_hndl_t packets_out;
	mcapi_pktchan_recv_hndl_t packets_in;
	mcapi_sclchan_send_hndl_t scalars_out;
	mcapi_sclchan_recv_hndl_t scalars_in;
};

/* Opens the own ends, and waits for all of them in whatever order they are open. */
static struct channels opened(const mcapi_endpoint_t *own)
{
	mcapi_request_t requests[4], *left[4];
	struct channels all;
	unsigned int count;
	size_t size;
	mcapi_int_t index;

	DO(mcapi_open_pktchan_recv_i(&all.packets_in, own[PACKETS_IN], &requests[0], &status));
	DO(mcapi_open_sclchan_recv_i(&all.scalars_in, own[SCALARS_IN], &requests[1], &status));
	DO(mcapi_open_pktchan_send_i(&all.packets_out, own[PACKETS_OUT], &requests[2], &status));
	DO(mcapi_open_sclchan_send_i(&all.scalars_out, own[SCALARS_OUT], &requests[3], &status));
	for (count = 0; count < 4; count++)
		left[count] = &requests[count];
	while (count) {
		DO(index = mcapi_wait_any(count, left, &size, &status, MCAPI_INFINITE));
		left[index] = left[--count];
	}
	return all;
}

static void closed(const struct channels *all)
{
	mcapi_request_t requests[4];
	unsigned int n;

	DO(mcapi_packetchan_send_close_i(all->packets_out, &requests[0], &status));
	DO(mcapi_sclchan_send_close_i(all->scalars_out, &requests[1], &status));
	DO(mcapi_packetchan_recv_close_i(all->packets_in, &requests[2], &status));
	DO(mcapi_sclchan_recv_close_i(all->scalars_in, &requests[3], &status));
	for (n = 0; n < 4; n++)
		complete(requests[n]);
}

static void initialize(mcapi_node_t node)
{
	mcapi_version_t version = 0;

	DO(mcapi_initialize(node, &version, &status));
	if (mcapi_get_node_id(&status) != node || !version) {
		fprintf(stderr, "FAILED: this is not node %u\n", node);
		exit(EXIT_FAILURE);
	}
}

/* Sends back everything, until a message without bytes comes. */
static void serve(mcapi_node_t node)
{
	mcapi_endpoint_t own[ENDPOINTS], back;
	struct channels all;
	char bytes[LENGTH];
	unsigned int n;
	size_t size;
	void *packet;

	initialize(node);
	for (n = 0; n < ENDPOINTS; n++)
		DO(own[n] = mcapi_create_endpoint(n, &status));
	puts("ready");
	fflush(stdout);
	DO(mcapi_msg_recv(own[MESSAGES], &back, sizeof(back), &size, &status));
	all = opened(own);
	for (;;) {
		DO(mcapi_msg_recv(own[MESSAGES], bytes, sizeof(bytes), &size, &status));
		if (!size)
			break;
		DO(mcapi_msg_send(own[MESSAGES], back, bytes, size, 1, &status));
		DO(mcapi_pktchan_recv(all.packets_in, &packet, &size, &status));
		DO(mcapi_pktchan_send(all.packets_out, packet, size, &status));
		DO(mcapi_pktchan_free(packet, &status));
		DO(mcapi_sclchan_send_uint64(all.scalars_out,
			mcapi_sclchan_recv_uint64(all.scalars_in, &status), &status));
		DO(mcapi_sclchan_send_uint32(all.scalars_out,
			mcapi_sclchan_recv_uint32(all.scalars_in, &status), &status));
		DO(mcapi_sclchan_send_uint16(all.scalars_out,
			mcapi_sclchan_recv_uint16(all.scalars_in, &status), &status));
		DO(mcapi_sclchan_send_uint8(all.scalars_out,
			mcapi_sclchan_recv_uint8(all.scalars_in, &status), &status));
	}
	closed(&all);
	for (n = 0; n < ENDPOINTS; n++)
		DO(mcapi_delete_endpoint(own[n], &status));
	DO(mcapi_finalize(&status));
}

/* One message, packet and pair of scalars there and back; how many are wrong. */
static unsigned int round_trip(const struct channels *all, mcapi_endpoint_t own,
	mcapi_endpoint_t server, unsigned int n)
{
	char sent[LENGTH], bytes[LENGTH];
	size_t length = n % LENGTH + 1, size;
	mcapi_request_t receive, send;
	unsigned int wrong = 0;
	mcapi_boolean_t done;
	void *packet;

	memset(sent, n, sizeof(sent));
	DO(mcapi_msg_recv_i(own, bytes, sizeof(bytes), &receive, &status));
	DO(mcapi_msg_send_i(own, server, sent, length, 1, &send, &status));
	DO(done = mcapi_wait(&send, &size, &status, MCAPI_INFINITE));
	wrong += !done || size != length;
	DO(mcapi_pktchan_send_i(all->packets_out, sent, length, &send, &status));
	DO(mcapi_wait(&send, &size, &status, MCAPI_INFINITE));
	DO(mcapi_sclchan_send_uint64(all->scalars_out, ~(mcapi_uint64_t)n, &status));
	DO(mcapi_sclchan_send_uint32(all->scalars_out, ~n, &status));
	DO(mcapi_sclchan_send_uint16(all->scalars_out, n * 7, &status));
	DO(mcapi_sclchan_send_uint8(all->scalars_out, n, &status));
	do {
		DO(done = mcapi_test(&receive, &size, &status));
	} while (status == MCAPI_INCOMPLETE);
	DO(mcapi_wait(&receive, &size, &status, 0));
	wrong += size != length || memcmp(bytes, sent, length);
	while (!mcapi_pktchan_available(all->packets_in, &status))
		check("mcapi_pktchan_available");
	DO(mcapi_pktchan_recv_i(all->packets_in, &packet, &receive, &status));
	DO(mcapi_wait(&receive, &size, &status, MCAPI_INFINITE));
	wrong += size != length || memcmp(packet, sent, length);
	DO(mcapi_pktchan_free(packet, &status));
	while (!mcapi_sclchan_available(all->scalars_in, &status))
		check("mcapi_sclchan_available");
	wrong += mcapi_sclchan_recv_uint64(all->scalars_in, &status) != ~(mcapi_uint64_t)n;
	wrong += mcapi_sclchan_recv_uint32(all->scalars_in, &status) != ~n;
	wrong += mcapi_sclchan_recv_uint16(all->scalars_in, &status) != (n * 7 & 0xFFFF);
	wrong += mcapi_sclchan_recv_uint8(all->scalars_in, &status) != (n & 0xFF);
	return wrong;
}

/* Attributes are read and written, an operation is cancelled; how much is wrong. */
static unsigned int use_the_rest(mcapi_endpoint_t own, mcapi_node_t server)
{
	mcapi_uint_t limit = 5, told = 0;
	mcapi_request_t request;
	mcapi_endpoint_t got = 0;
	unsigned int wrong = 0;
	char bytes[8] = "same";
	size_t size;

	DO(mcapi_set_endpoint_attribute(own, MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS, &limit,
		sizeof(limit), &status));
	DO(mcapi_get_endpoint_attribute(own, MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS, &told,
		sizeof(told), &status));
	wrong += told != limit;
	DO(mcapi_get_endpoint_i(server, MESSAGES, &got, &request, &status));
	complete(request);
	DO(wrong += got != mcapi_get_endpoint(server, MESSAGES, &status));
	wrong += mcapi_msg_available(own, &status) != 0;
	check("mcapi_msg_available");
	DO(mcapi_msg_recv_i(own, bytes, sizeof(bytes), &request, &status));
	mcapi_wait(&request, &size, &status, 10);
	wrong += status != MCAPI_EREQ_TIMEOUT;
	DO(mcapi_cancel(&request, &status));
	mcapi_wait(&request, &size, &status, 10);
	wrong += status != MCAPI_ENOTREQ_HANDLE || strcmp(bytes, "same");
	return wrong;
}

static unsigned int ask(mcapi_node_t node, mcapi_node_t server, unsigned int count)
{
	mcapi_endpoint_t own[ENDPOINTS], there[ENDPOINTS];
	mcapi_request_t request;
	struct channels all;
	unsigned int n, wrong = 0;

	initialize(node);
	for (n = 0; n < ENDPOINTS; n++) {
		DO(own[n] = mcapi_create_anonymous_endpoint(&status));
		DO(there[n] = mcapi_get_endpoint(server, n, &status));
	}
	wrong += use_the_rest(own[MESSAGES], server);
	DO(mcapi_connect_pktchan_i(own[PACKETS_OUT], there[PACKETS_IN], &request, &status));
	complete(request);
	DO(mcapi_connect_pktchan_i(there[PACKETS_OUT], own[PACKETS_IN], &request, &status));
	complete(request);
	DO(mcapi_connect_sclchan_i(own[SCALARS_OUT], there[SCALARS_IN], &request, &status));
	complete(request);
	DO(mcapi_connect_sclchan_i(there[SCALARS_OUT], own[SCALARS_IN], &request, &status));
	complete(request);
	DO(mcapi_msg_send(own[MESSAGES], there[MESSAGES], &own[MESSAGES], sizeof(own[0]), 0,
		&status));
	all = opened(own);
	for (n = 0; n < count; n++)
		wrong += round_trip(&all, own[MESSAGES], there[MESSAGES], n);
	DO(mcapi_msg_send(own[MESSAGES], there[MESSAGES], NULL, 0, 0, &status));
	closed(&all);
	mcapi_create_endpoint(MCAPI_MAX_PORT + 1, &status);
	wrong += status != MCAPI_EPORT_NOTVALID;
	DO(mcapi_finalize(&status));
	printf("%u rounds, %u wrong\n", count, wrong);
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "server")) {
		serve(atoi(argv[2]));
		return EXIT_SUCCESS;
	}
	if (argc == 5 && !strcmp(argv[1], "client"))
		return ask(atoi(argv[2]), atoi(argv[3]), atoi(argv[4])) ? EXIT_FAILURE : EXIT_SUCCESS;
	fprintf(stderr, "usage: %s server NODE | client NODE SERVER COUNT\n", argv[0]);
	return 2;
}
