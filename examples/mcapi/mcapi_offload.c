// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One node computes for another one: commands by a scalar channel, data and results by packets.
 *
 *	mcapi_offload worker NODE
 *	mcapi_offload client NODE WORKER JOBS
 *
 * A job is some packets of data and the command to execute it. The worker keeps the packets where
 * they have arrived until then, and answers with one packet: how many bytes they had, and what is
 * the sum of them.
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define PACKETS 4	/* of a job */
#define LONGEST 4096
#define JOBS_MAX 1000000

enum command { DATA = 1, EXECUTE, TERMINATE };

/* Ports are the same at both nodes: the channel of a port of one leads to that of the other. */
enum port { COMMANDS, PACKETS_OUT, RESULTS, PORTS };

struct result {
	mcapi_uint64_t bytes, sum;
};

static mcapi_endpoint_t own[PORTS];
static mcapi_status_t status;

static void create_endpoints(void)
{
	mcapi_port_t port;

	for (port = 0; port < PORTS; port++)
		own[port] = patient_endpoint(port);
}

/* Endpoints are free when both ends of their channels are closed. */
static void close_channels(mcapi_request_t requests[PORTS])
{
	mcapi_port_t port;

	for (port = 0; port < PORTS; port++) {
		finish("a channel does not close", requests[port]);
		mcapi_endpoint_delete(own[port], &status);
		check("mcapi_endpoint_delete", status);
	}
}

static struct result compute(void *const *packets, const size_t *sizes, unsigned int count)
{
	struct result result = { 0, 0 };
	const unsigned char *bytes;
	unsigned int n;
	size_t at;

	for (n = 0; n < count; n++) {
		bytes = packets[n];
		for (at = 0; at < sizes[n]; at++)
			result.sum += bytes[at];
		result.bytes += sizes[n];
	}
	return result;
}

static void work(mcapi_node_t node)
{
	mcapi_sclchan_recv_hndl_t commands;
	mcapi_pktchan_recv_hndl_t data;
	mcapi_pktchan_send_hndl_t results;
	mcapi_request_t requests[PORTS];
	void *packets[PACKETS];
	size_t sizes[PACKETS];
	unsigned int held = 0;
	struct result result;
	mcapi_uint32_t command;

	become(node);
	create_endpoints();
	mcapi_sclchan_recv_open_i(&commands, own[COMMANDS], &requests[COMMANDS], &status);
	check_begun("mcapi_sclchan_recv_open_i", status);
	mcapi_pktchan_recv_open_i(&data, own[PACKETS_OUT], &requests[PACKETS_OUT], &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	mcapi_pktchan_send_open_i(&results, own[RESULTS], &requests[RESULTS], &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	printf("ready\n");
	fflush(stdout);
	for (command = 0; command < PORTS; command++)
		finish("nobody opens the other end", requests[command]);

	while ((command = mcapi_sclchan_recv_uint32(commands, &status)) != TERMINATE) {
		check("mcapi_sclchan_recv_uint32", status);
		if (command == DATA && held < PACKETS) {
			mcapi_pktchan_recv(data, &packets[held], &sizes[held], &status);
			check("mcapi_pktchan_recv", status);
			held++;
		} else if (command == EXECUTE) {
			result = compute(packets, sizes, held);
			mcapi_pktchan_send(results, &result, sizeof(result), &status);
			check("mcapi_pktchan_send", status);
			/* The last one first: any order will do. */
			while (held) {
				mcapi_pktchan_release(packets[--held], &status);
				check("mcapi_pktchan_release", status);
			}
		} else {
			fail("that is no command, or there are too many packets");
		}
	}
	mcapi_sclchan_recv_close_i(commands, &requests[COMMANDS], &status);
	check_begun("mcapi_sclchan_recv_close_i", status);
	mcapi_pktchan_recv_close_i(data, &requests[PACKETS_OUT], &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	mcapi_pktchan_send_close_i(results, &requests[RESULTS], &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	close_channels(requests);
}

/* Connect all endpoints with those of the worker, and waits until they are. */
static void connect_to(mcapi_node_t worker)
{
	mcapi_request_t requests[PORTS];
	mcapi_endpoint_t there;
	mcapi_port_t port;

	for (port = 0; port < PORTS; port++) {
		there = found(worker, port);
		if (port == COMMANDS)
			mcapi_sclchan_connect_i(own[port], there, &requests[port], &status);
		else if (port == PACKETS_OUT)
			mcapi_pktchan_connect_i(own[port], there, &requests[port], &status);
		else
			mcapi_pktchan_connect_i(there, own[port], &requests[port], &status);
		check_begun("a channel is not connected", status);
	}
	for (port = 0; port < PORTS; port++)
		finish("a channel is not connected", requests[port]);
}

/* Send a job and look at its result; whether that is right. */
static int do_job(unsigned long job, mcapi_sclchan_send_hndl_t commands,
	mcapi_pktchan_send_hndl_t data, mcapi_pktchan_recv_hndl_t results)
{
	static unsigned char bytes[LONGEST];
	struct result expected = { 0, 0 }, *result;
	unsigned int n;
	size_t size;
	int is_right;

	for (n = 0; n < PACKETS; n++) {
		size = (job * PACKETS + n) * 37 % (LONGEST + 1);
		memset(bytes, (int)(job + n) & 0xFF, size);
		expected.bytes += size;
		expected.sum += size * ((job + n) & 0xFF);
		mcapi_sclchan_send_uint32(commands, DATA, &status);
		check("mcapi_sclchan_send_uint32", status);
		mcapi_pktchan_send(data, bytes, size, &status);
		check("mcapi_pktchan_send", status);
	}
	mcapi_sclchan_send_uint32(commands, EXECUTE, &status);
	check("mcapi_sclchan_send_uint32", status);
	mcapi_pktchan_recv(results, (void **)&result, &size, &status);
	check("the result", status);
	is_right = size == sizeof(*result) && memcmp(result, &expected, size) == 0;
	mcapi_pktchan_release(result, &status);
	check("mcapi_pktchan_release", status);
	return is_right;
}

static void run(mcapi_node_t node, mcapi_node_t worker, unsigned long jobs)
{
	mcapi_sclchan_send_hndl_t commands;
	mcapi_pktchan_send_hndl_t data;
	mcapi_pktchan_recv_hndl_t results;
	mcapi_request_t requests[PORTS];
	unsigned long job, wrong = 0;

	become(node);
	create_endpoints();
	connect_to(worker);
	mcapi_sclchan_send_open_i(&commands, own[COMMANDS], &requests[COMMANDS], &status);
	check_begun("mcapi_sclchan_send_open_i", status);
	mcapi_pktchan_send_open_i(&data, own[PACKETS_OUT], &requests[PACKETS_OUT], &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	mcapi_pktchan_recv_open_i(&results, own[RESULTS], &requests[RESULTS], &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	for (job = 0; job < PORTS; job++)
		finish("the worker does not open its end", requests[job]);

	for (job = 0; job < jobs; job++)
		wrong += !do_job(job, commands, data, results);
	printf("%lu jobs, %lu wrong\n", jobs, wrong);

	mcapi_sclchan_send_uint32(commands, TERMINATE, &status);
	check("mcapi_sclchan_send_uint32", status);
	mcapi_sclchan_send_close_i(commands, &requests[COMMANDS], &status);
	check_begun("mcapi_sclchan_send_close_i", status);
	mcapi_pktchan_send_close_i(data, &requests[PACKETS_OUT], &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	mcapi_pktchan_recv_close_i(results, &requests[RESULTS], &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	close_channels(requests);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "worker") == 0) {
		work(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 5 && strcmp(argv[1], "client") == 0) {
		run(number(argv[2], MCAPI_MAX_NODE), number(argv[3], MCAPI_MAX_NODE),
			number(argv[4], JOBS_MAX));
	} else {
		fprintf(stderr, "usage: %s worker NODE | client NODE WORKER JOBS\n", argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
