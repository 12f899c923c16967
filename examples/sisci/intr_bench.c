// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Ping-pong with interrupts: each node waits for one of its own and triggers that of the other.
 */
#include "common.h"

#include <stdlib.h>

static const struct program about = { .about = "latency of interrupts to another node" };

static void trigger(sci_remote_interrupt_t remote)
{
	sci_error_t error;

	SCITriggerInterrupt(remote, 0, &error);
	expect("SCITriggerInterrupt", error);
}

static void play(const struct options *options, sci_local_interrupt_t local,
		 sci_remote_interrupt_t remote)
{
	double *seconds = calloc(options->rounds, sizeof(*seconds));
	unsigned int round;
	sci_error_t error;

	if (!seconds)
		exit(1);
	for (round = 0; round < options->rounds; round++) {
		double start = now();

		if (!options->server)
			trigger(remote);
		SCIWaitForInterrupt(local, options->patience, 0, &error);
		expect("SCIWaitForInterrupt", error);
		if (options->server)
			trigger(remote);
		seconds[round] = (now() - start) / 2;
	}
	if (!options->server) {
		report_head(options, TIMES);
		report(options, "intr_bench", 0, seconds, options->rounds);
	}
	free(seconds);
}

int main(int argc, char **argv)
{
	sci_remote_interrupt_t remote;
	sci_local_interrupt_t local;
	struct options options;
	unsigned int number, other;
	sci_error_t error;
	sci_desc_t sd;
	double start;

	options_read(&options, argc, argv, &about);
	number = options.id + !!options.server;
	other = options.id + !options.server;
	sd = library_open();
	SCICreateInterrupt(sd, &local, options.adapter, &number, NULL, NULL,
			   SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateInterrupt", error);
	start = now();
	do {
		SCIConnectInterrupt(sd, &remote, options.node, options.adapter, other,
				    SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(&options, start, error));
	expect("SCIConnectInterrupt", error);

	play(&options, local, remote);

	SCIDisconnectInterrupt(remote, 0, &error);
	expect("SCIDisconnectInterrupt", error);
	start = now();
	do {
		SCIRemoveInterrupt(local, 0, &error);
	} while (busy(&options, start, error));
	expect("SCIRemoveInterrupt", error);
	library_close(sd);
	return 0;
}
