// SPDX-License-Identifier: GPL-2.0
/*
 * Ping-pong with interrupts: each node waits for one of its own and triggers that of the other.
 */
#include "common.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
	sci_remote_interrupt_t remote;
	sci_local_interrupt_t local;
	struct options options;
	unsigned int round, number, other;
	double *seconds, start;
	sci_error_t error;
	sci_desc_t sd;

	options_read(&options, argc, argv, "latency of interrupts to another node");
	number = options.id + (unsigned int)options.server;
	other = options.id + !options.server;
	seconds = calloc(options.rounds, sizeof(*seconds));
	if (!seconds)
		return 1;
	SCIInitialize(0, &error);
	expect("SCIInitialize", error);
	SCIOpen(&sd, 0, &error);
	expect("SCIOpen", error);
	SCICreateInterrupt(sd, &local, options.adapter, &number, NULL, NULL,
			   SCI_FLAG_FIXED_INTNO, &error);
	expect("SCICreateInterrupt", error);
	start = now();
	do {
		SCIConnectInterrupt(sd, &remote, options.node, options.adapter, other,
				    SCI_INFINITE_TIMEOUT, 0, &error);
	} while (again(&options, start, error));
	expect("SCIConnectInterrupt", error);

	for (round = 0; round < options.rounds; round++) {
		start = now();
		if (!options.server) {
			SCITriggerInterrupt(remote, 0, &error);
			expect("SCITriggerInterrupt", error);
		}
		SCIWaitForInterrupt(local, options.patience, 0, &error);
		expect("SCIWaitForInterrupt", error);
		if (options.server) {
			SCITriggerInterrupt(remote, 0, &error);
			expect("SCITriggerInterrupt", error);
		}
		seconds[round] = (now() - start) / 2;
	}
	if (!options.server)
		report(&options, "intr_bench", seconds, options.rounds);

	SCIDisconnectInterrupt(remote, 0, &error);
	expect("SCIDisconnectInterrupt", error);
	/* As long as the other node has not disconnected. */
	start = now();
	do {
		SCIRemoveInterrupt(local, 0, &error);
	} while (error == SCI_ERR_BUSY && (now() - start) * 1000 < options.patience);
	expect("SCIRemoveInterrupt", error);
	SCIClose(sd, 0, &error);
	expect("SCIClose", error);
	SCITerminate();
	free(seconds);
	return 0;
}
