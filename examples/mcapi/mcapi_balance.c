// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A load balancer gives packets to whichever worker is free.
 *
 *	mcapi_balance worker NODE
 *	mcapi_balance balancer NODE PACKETS WORKER...
 *
 * Each worker has a packet channel to it and a scalar channel back, by which it says that it has
 * done with a packet: that is all the flow control there is. Without one of these words in hand the
 * balancer gives it none, so that nothing ever waits behind a slow worker. A packet without bytes is
 * the last one.
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define WORKERS_MAX 16
#define LONGEST 1024
#define WORK 0			/* ports of workers */
#define ACKS 1
#define CREDIT 2		/* packets that a worker may have at a time */

struct worker {
	mcapi_endpoint_t out, in;
	mcapi_pktchan_send_hndl_t work;
	mcapi_sclchan_recv_hndl_t acks;
	unsigned int free;
	unsigned long given;
	mcapi_uint64_t sum;	/* as the worker says */
};

static mcapi_status_t status;

static mcapi_uint64_t sum_of(const unsigned char *bytes, size_t size)
{
	mcapi_uint64_t sum = 0;
	size_t n;

	for (n = 0; n < size; n++)
		sum += bytes[n];
	return sum;
}

/* --- a worker */

static void work(mcapi_node_t node)
{
	mcapi_endpoint_t in, out;
	mcapi_pktchan_recv_hndl_t work;
	mcapi_sclchan_send_hndl_t acks;
	mcapi_request_t requests[2];
	mcapi_uint64_t sum;
	size_t size;
	void *packet;

	become(node);
	in = patient_endpoint(WORK);
	out = patient_endpoint(ACKS);
	printf("ready\n");
	fflush(stdout);
	mcapi_pktchan_recv_open_i(&work, in, &requests[0], &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	mcapi_sclchan_send_open_i(&acks, out, &requests[1], &status);
	check_begun("mcapi_sclchan_send_open_i", status);
	finish("the balancer does not open its end", requests[0]);
	finish("the balancer does not open its end", requests[1]);
	do {
		mcapi_pktchan_recv(work, &packet, &size, &status);
		check("mcapi_pktchan_recv", status);
		sum = sum_of(packet, size);
		mcapi_pktchan_release(packet, &status);
		check("mcapi_pktchan_release", status);
		mcapi_sclchan_send_uint64(acks, sum, &status);
		check("mcapi_sclchan_send_uint64", status);
	} while (size);
	mcapi_sclchan_send_close_i(acks, &requests[1], &status);
	check_begun("mcapi_sclchan_send_close_i", status);
	mcapi_pktchan_recv_close_i(work, &requests[0], &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	finish("the balancer does not close its end", requests[0]);
	finish("the balancer does not close its end", requests[1]);
}

/* --- the balancer */

static void connect_worker(struct worker *worker, mcapi_node_t node)
{
	mcapi_request_t requests[2];

	worker->out = patient_endpoint(MCAPI_PORT_ANY);
	worker->in = patient_endpoint(MCAPI_PORT_ANY);
	mcapi_pktchan_connect_i(worker->out, found(node, WORK), &requests[0], &status);
	check_begun("mcapi_pktchan_connect_i", status);
	mcapi_sclchan_connect_i(found(node, ACKS), worker->in, &requests[1], &status);
	check_begun("mcapi_sclchan_connect_i", status);
	finish("the way to a worker is not connected", requests[0]);
	finish("the way back is not connected", requests[1]);
	mcapi_pktchan_send_open_i(&worker->work, worker->out, &requests[0], &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	mcapi_sclchan_recv_open_i(&worker->acks, worker->in, &requests[1], &status);
	check_begun("mcapi_sclchan_recv_open_i", status);
	finish("the way to a worker is not open", requests[0]);
	finish("the way back is not open", requests[1]);
	worker->free = CREDIT;
}

static void take_acks(struct worker *worker)
{
	mcapi_uint_t left = mcapi_sclchan_available(worker->acks, &status);

	check("mcapi_sclchan_available", status);
	for (; left; left--) {
		worker->sum += mcapi_sclchan_recv_uint64(worker->acks, &status);
		check("mcapi_sclchan_recv_uint64", status);
		worker->free++;
	}
}

static void give(struct worker *worker, const void *bytes, size_t size)
{
	mcapi_pktchan_send(worker->work, bytes, size, &status);
	check("mcapi_pktchan_send", status);
	worker->free--;
	worker->given += size > 0;
}

/* The next worker that is free, once there is one. */
static struct worker *next_free(struct worker *workers, unsigned int count)
{
	static unsigned int next;

	for (;; next++) {
		struct worker *worker = &workers[next % count];

		take_acks(worker);
		if (worker->free) {
			next++;
			return worker;
		}
	}
}

static void close_worker(struct worker *worker)
{
	mcapi_request_t requests[2];

	mcapi_pktchan_send_close_i(worker->work, &requests[0], &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	mcapi_sclchan_recv_close_i(worker->acks, &requests[1], &status);
	check_begun("mcapi_sclchan_recv_close_i", status);
	finish("a worker does not close its end", requests[0]);
	finish("a worker does not close its end", requests[1]);
}

static void balance(mcapi_node_t node, unsigned long packets, char **words, unsigned int count)
{
	static struct worker workers[WORKERS_MAX];
	static unsigned char bytes[LONGEST];
	mcapi_uint64_t expected = 0, sum = 0;
	unsigned int n, idle = 0;
	unsigned long packet;
	size_t size;

	become(node);
	for (n = 0; n < count; n++)
		connect_worker(&workers[n], number(words[n], MCAPI_MAX_NODE));
	for (packet = 0; packet < packets; packet++) {
		size = 1 + packet * 37 % LONGEST;
		memset(bytes, (int)(packet & 0xFF), size);
		expected += sum_of(bytes, size);
		give(next_free(workers, count), bytes, size);
	}
	for (n = 0; n < count; n++) {
		while (workers[n].free < CREDIT)
			take_acks(&workers[n]);
		give(&workers[n], NULL, 0);
		while (workers[n].free < CREDIT)
			take_acks(&workers[n]);
		close_worker(&workers[n]);
		sum += workers[n].sum;
		idle += workers[n].given == 0;
	}
	printf("%lu packets, %u workers without work, the sum is %s\n", packets, idle,
		sum == expected ? "right" : "wrong");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "worker") == 0) {
		work(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc > 4 && argc <= 4 + WORKERS_MAX && strcmp(argv[1], "balancer") == 0) {
		balance(number(argv[2], MCAPI_MAX_NODE), number(argv[3], 100000000), argv + 4,
			argc - 4);
	} else {
		fprintf(stderr, "usage: %s worker NODE | balancer NODE PACKETS WORKER...\n", argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
