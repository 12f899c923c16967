// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls of a function on another node, by data interrupts there and back. The function adds up
 * bytes. A call of no bytes ends the server.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct program about = {
	.about = "calls of a function on another node, by data interrupts",
	.sizes = "4,64,1024,4088",
};

struct call {
	unsigned int number;
	unsigned int length;
	unsigned char bytes[SCI_DATA_INTERRUPT_MAX - 2 * sizeof(unsigned int)];
};

struct answer {
	unsigned int number;
	unsigned int sum;
};

static unsigned int add_up(const unsigned char *bytes, unsigned int length)
{
	unsigned int i, sum = 0;

	for (i = 0; i < length; i++)
		sum += bytes[i];
	return sum;
}

static size_t call_size(const struct call *call)
{
	return offsetof(struct call, bytes) + call->length;
}

static void transmit(sci_remote_data_interrupt_t to, void *data, size_t size)
{
	sci_error_t error;

	SCITriggerDataInterrupt(to, data, (unsigned int)size, 0, &error);
	expect("SCITriggerDataInterrupt", error);
}

static unsigned int receive(const struct options *options, sci_local_data_interrupt_t from,
			    void *data, size_t room)
{
	unsigned int length = (unsigned int)room;
	sci_error_t error;

	SCIWaitForDataInterrupt(from, data, &length, options->patience, 0, &error);
	expect("SCIWaitForDataInterrupt", error);
	return length;
}

static void serve(const struct options *options, sci_local_data_interrupt_t calls,
		  sci_remote_data_interrupt_t answers)
{
	struct call call;

	for (;;) {
		unsigned int length = receive(options, calls, &call, sizeof(call));
		struct answer answer;

		if (length < offsetof(struct call, bytes) || length != call_size(&call)) {
			fprintf(stderr, "FAILED: a call of %u bytes makes no sense\n", length);
			exit(1);
		}
		answer.number = call.number;
		answer.sum = add_up(call.bytes, call.length);
		transmit(answers, &answer, sizeof(answer));
		if (!call.length)
			break;
	}
}

static void call_one(const struct options *options, sci_local_data_interrupt_t answers,
		     sci_remote_data_interrupt_t calls, struct call *call)
{
	struct answer answer;
	unsigned int length;

	call->number++;
	memset(call->bytes, (int)(call->number % 251), call->length);
	transmit(calls, call, call_size(call));
	length = receive(options, answers, &answer, sizeof(answer));
	if (length == sizeof(answer) && answer.number == call->number &&
	    answer.sum == add_up(call->bytes, call->length))
		return;
	fprintf(stderr, "FAILED: call %u has a wrong answer\n", call->number);
	exit(1);
}

static void call_all(const struct options *options, sci_local_data_interrupt_t answers,
		     sci_remote_data_interrupt_t calls)
{
	double *seconds = calloc(options->rounds, sizeof(*seconds));
	struct call call = { .number = 0 };
	unsigned int i, round;

	if (!seconds)
		exit(1);
	report_head(options, TIMES);
	for (i = 0; i < options->count; i++) {
		call.length = (unsigned int)options->sizes[i];
		for (round = 0; round < options->rounds; round++) {
			double start = now();

			call_one(options, answers, calls, &call);
			seconds[round] = now() - start;
		}
		report(options, "rpc", options->sizes[i], seconds, options->rounds);
	}
	call.length = 0;
	call_one(options, answers, calls, &call);
	free(seconds);
}

int main(int argc, char **argv)
{
	sci_remote_data_interrupt_t remote;
	sci_local_data_interrupt_t local;
	struct options options;
	unsigned int number, other;
	sci_error_t error;
	sci_desc_t sd;
	double start;

	options_read(&options, argc, argv, &about);
	if (largest(&options) > sizeof(((struct call *)NULL)->bytes)) {
		fprintf(stderr, "%s: a call is at most %zu bytes\n", argv[0],
			sizeof(((struct call *)NULL)->bytes));
		return 2;
	}
	number = options.id + !!options.server;
	other = options.id + !options.server;
	sd = library_open();
	SCICreateDataInterrupt(sd, &local, options.adapter, &number, NULL, NULL,
			       SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateDataInterrupt", error);
	start = now();
	do {
		SCIConnectDataInterrupt(sd, &remote, options.node, options.adapter, other,
					SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(&options, start, error));
	expect("SCIConnectDataInterrupt", error);

	if (options.server)
		serve(&options, local, remote);
	else
		call_all(&options, local, remote);

	SCIDisconnectDataInterrupt(remote, 0, &error);
	expect("SCIDisconnectDataInterrupt", error);
	start = now();
	do {
		SCIRemoveDataInterrupt(local, 0, &error);
	} while (busy(&options, start, error));
	expect("SCIRemoveDataInterrupt", error);
	library_close(sd);
	return 0;
}
