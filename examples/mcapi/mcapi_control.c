// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A control loop of three nodes, as in a car's engine.
 *
 *	mcapi_control tpu NODE		counts teeth: flags, by a scalar channel
 *	mcapi_control signal NODE	conditions signals: blocks of samples, by packets
 *	mcapi_control control NODE TPU SIGNAL LOOPS
 *
 * The control node tells the other two by a message how long they run, connects them to itself, and
 * loops: it takes the flag of each period, and the newest block of samples that is there. It never
 * waits for a block; without a new one it goes on with the one that it has.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Ports are planned for all nodes. */
#define ORDERS 1		/* of the tpu and of the signal node: messages */
#define DATA 2			/* the same: what the node sends */
#define FLAGS 1			/* of the control node */
#define BLOCKS 2
#define PERIOD_NS 1000000L
#define SAMPLES 32

struct block {
	mcapi_uint32_t period;
	mcapi_uint32_t samples[SAMPLES];
};

static mcapi_status_t status;

static void wait_period(void)
{
	struct timespec period = { 0, PERIOD_NS };

	nanosleep(&period, NULL);
}

/* How many loops the control node wants; its message comes before it connects anything. */
static mcapi_uint32_t loops_wanted(mcapi_endpoint_t orders)
{
	mcapi_uint32_t loops;
	size_t size;

	mcapi_msg_recv(orders, &loops, sizeof(loops), &size, &status);
	check("the order", status);
	if (size != sizeof(loops))
		fail("that is no order");
	return loops;
}

static void be_tpu(mcapi_node_t node)
{
	mcapi_sclchan_send_hndl_t flags;
	mcapi_endpoint_t orders, data;
	mcapi_request_t request;
	mcapi_uint32_t loops, n;

	become(node);
	data = patient_endpoint(DATA);
	orders = patient_endpoint(ORDERS);
	loops = loops_wanted(orders);
	mcapi_sclchan_send_open_i(&flags, data, &request, &status);
	check_begun("mcapi_sclchan_send_open_i", status);
	finish("the control node does not open its end", request);
	for (n = 0; n < loops; n++) {
		wait_period();
		mcapi_sclchan_send_uint8(flags, n & 0xFF, &status);
		check("mcapi_sclchan_send_uint8", status);
	}
	mcapi_sclchan_send_close_i(flags, &request, &status);
	check_begun("mcapi_sclchan_send_close_i", status);
	finish("the control node does not close its end", request);
}

/* Sends blocks until the control node has had enough and closes its end. */
static void be_signal(mcapi_node_t node)
{
	mcapi_pktchan_send_hndl_t blocks;
	struct block block = { 0, { 0 } };
	mcapi_endpoint_t orders, data;
	mcapi_request_t request;
	unsigned int n;

	become(node);
	data = patient_endpoint(DATA);
	orders = patient_endpoint(ORDERS);
	loops_wanted(orders);
	mcapi_pktchan_send_open_i(&blocks, data, &request, &status);
	check_begun("mcapi_pktchan_send_open_i", status);
	finish("the control node does not open its end", request);
	for (status = MCAPI_SUCCESS; status == MCAPI_SUCCESS; block.period++) {
		wait_period();
		for (n = 0; n < SAMPLES; n++)
			block.samples[n] = block.period * SAMPLES + n;
		mcapi_pktchan_send(blocks, &block, sizeof(block), &status);
	}
	if (status != MCAPI_ERR_CHAN_INVALID)
		check("mcapi_pktchan_send", status);
	mcapi_pktchan_send_close_i(blocks, &request, &status);
	check_begun("mcapi_pktchan_send_close_i", status);
	finish("the control node does not close its end", request);
}

/* Takes the newest block, if there is a new one; whether there was. */
static int take_newest(mcapi_pktchan_recv_hndl_t blocks, struct block *newest)
{
	mcapi_uint_t left = mcapi_pktchan_available(blocks, &status), found = left;
	void *packet;
	size_t size;

	check("mcapi_pktchan_available", status);
	for (; left; left--) {
		mcapi_pktchan_recv(blocks, &packet, &size, &status);
		check("mcapi_pktchan_recv", status);
		if (size != sizeof(*newest))
			fail("a block has another size");
		memcpy(newest, packet, sizeof(*newest));
		mcapi_pktchan_release(packet, &status);
		check("mcapi_pktchan_release", status);
	}
	return found > 0;
}

static void control(mcapi_node_t node, mcapi_node_t tpu, mcapi_node_t signal, mcapi_uint32_t loops)
{
	mcapi_endpoint_t from, flags_end, blocks_end;
	mcapi_pktchan_recv_hndl_t blocks;
	mcapi_sclchan_recv_hndl_t flags;
	mcapi_request_t requests[2];
	struct block newest = { 0, { 0 } };
	unsigned long fresh = 0, wrong = 0;
	mcapi_uint32_t n;

	become(node);
	from = patient_endpoint(MCAPI_PORT_ANY);
	flags_end = patient_endpoint(FLAGS);
	blocks_end = patient_endpoint(BLOCKS);
	mcapi_msg_send(from, found(tpu, ORDERS), &loops, sizeof(loops), 0, &status);
	check("mcapi_msg_send", status);
	mcapi_msg_send(from, found(signal, ORDERS), &loops, sizeof(loops), 0, &status);
	check("mcapi_msg_send", status);
	mcapi_sclchan_connect_i(found(tpu, DATA), flags_end, &requests[0], &status);
	check_begun("mcapi_sclchan_connect_i", status);
	mcapi_pktchan_connect_i(found(signal, DATA), blocks_end, &requests[1], &status);
	check_begun("mcapi_pktchan_connect_i", status);
	finish("the flags are not connected", requests[0]);
	finish("the blocks are not connected", requests[1]);
	mcapi_sclchan_recv_open_i(&flags, flags_end, &requests[0], &status);
	check_begun("mcapi_sclchan_recv_open_i", status);
	mcapi_pktchan_recv_open_i(&blocks, blocks_end, &requests[1], &status);
	check_begun("mcapi_pktchan_recv_open_i", status);
	finish("the flags are not open", requests[0]);
	finish("the blocks are not open", requests[1]);

	for (n = 0; n < loops; n++) {
		wrong += mcapi_sclchan_recv_uint8(flags, &status) != (n & 0xFF);
		check("mcapi_sclchan_recv_uint8", status);
		fresh += take_newest(blocks, &newest);
		wrong += newest.samples[SAMPLES - 1] - newest.samples[0] !=
			(fresh ? SAMPLES - 1 : 0);
	}
	mcapi_pktchan_recv_close_i(blocks, &requests[1], &status);
	check_begun("mcapi_pktchan_recv_close_i", status);
	mcapi_sclchan_recv_close_i(flags, &requests[0], &status);
	check_begun("mcapi_sclchan_recv_close_i", status);
	finish("the tpu does not close its end", requests[0]);
	finish("the signal node does not close its end", requests[1]);
	printf("%u loops, %lu with new samples, %lu wrong\n", loops, fresh, wrong);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "tpu") == 0) {
		be_tpu(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 3 && strcmp(argv[1], "signal") == 0) {
		be_signal(number(argv[2], MCAPI_MAX_NODE));
	} else if (argc == 6 && strcmp(argv[1], "control") == 0) {
		control(number(argv[2], MCAPI_MAX_NODE), number(argv[3], MCAPI_MAX_NODE),
			number(argv[4], MCAPI_MAX_NODE), number(argv[5], 1000000));
	} else {
		fprintf(stderr, "usage: %s tpu NODE | signal NODE | control NODE TPU SIGNAL LOOPS\n",
			argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
