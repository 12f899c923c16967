// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program as it is customary: everything in main(), names for what is not given, a loop
 * that connects until the other side is there. It is compiled as it is, and with the macros
 * of sisci_family.h, by which the same source is linked to other names. On a system
 * without the fabric it says what is missing; on two hosts of one, each finds the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAMILY
#include "sisci_family.h"
#else
#include "sisci_api.h"
#endif

#define NO_CALLBACK NULL
#define NO_ARG NULL
#define NO_FLAGS 0
#define ADAPTER 0
#define INTERRUPT 12345

static sci_callback_action_t local_callback(void *arg, sci_local_segment_t segment,
					    sci_segment_cb_reason_t reason, unsigned int nodeId,
					    unsigned int localAdapterNo, sci_error_t error)
{
	(void)arg;
	(void)segment;
	printf("reason %d node %u adapter %u error 0x%x\n", (int)reason, nodeId, localAdapterNo,
	       (unsigned int)error);
	return reason == SCI_CB_LOST ? SCI_CALLBACK_CANCEL : SCI_CALLBACK_CONTINUE;
}

static int complain(const char *what, sci_error_t error)
{
	fprintf(stderr, "%s failed - Error code 0x%x - %s\n", what, (unsigned int)error,
		SCIGetErrorString(error));
	return EXIT_FAILURE;
}

int main(int argc, char *argv[])
{
	sci_desc_t sd;
	sci_error_t error;
	sci_local_segment_t localSegment;
	sci_remote_segment_t remoteSegment;
	sci_map_t localMap, remoteMap;
	sci_sequence_t sequence;
	sci_dma_queue_t dmaQueue;
	sci_local_interrupt_t localInterrupt;
	sci_remote_interrupt_t remoteInterrupt;
	sci_query_adapter_t queryAdapter;
	unsigned int localNodeId, remoteNodeId, interruptNo = INTERRUPT, size = 4096;
	volatile unsigned int *remoteBuffer;
	unsigned int *localBuffer;

	if (argc < 2)
		return EXIT_FAILURE;
	remoteNodeId = strtoul(argv[1], NULL, 0);

	SCIInitialize(NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIInitialize", error);
	SCIOpen(&sd, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIOpen", error);

	memset(&queryAdapter, 0, sizeof(queryAdapter));
	queryAdapter.localAdapterNo = ADAPTER;
	queryAdapter.subcommand = SCI_Q_ADAPTER_NODEID;
	queryAdapter.data = &localNodeId;
	SCIQuery(SCI_Q_ADAPTER, &queryAdapter, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIQuery", error);
	SCIGetLocalNodeId(ADAPTER, &localNodeId, NO_FLAGS, &error);
	if (!SCIProbeNode(sd, ADAPTER, remoteNodeId, NO_FLAGS, &error))
		return complain("SCIProbeNode", error);

	SCICreateSegment(sd, &localSegment, localNodeId << 8 | remoteNodeId, size, local_callback,
			 NO_ARG, SCI_FLAG_USE_CALLBACK, &error);
	if (error != SCI_ERR_OK)
		return complain("SCICreateSegment", error);
	SCIPrepareSegment(localSegment, ADAPTER, NO_FLAGS, &error);
	localBuffer = SCIMapLocalSegment(localSegment, &localMap, 0, size, NULL, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIMapLocalSegment", error);
	memset(localBuffer, 0, size);
	SCICreateInterrupt(sd, &localInterrupt, ADAPTER, &interruptNo, NO_CALLBACK, NO_ARG,
			   SCI_FLAG_FIXED_INTNO, &error);
	SCISetSegmentAvailable(localSegment, ADAPTER, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCISetSegmentAvailable", error);

	do {
		SCIConnectSegment(sd, &remoteSegment, remoteNodeId, remoteNodeId << 8 | localNodeId,
				  ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS,
				  &error);
	} while (error != SCI_ERR_OK);
	size = SCIGetRemoteSegmentSize(remoteSegment);
	remoteBuffer = (volatile unsigned int *)SCIMapRemoteSegment(remoteSegment, &remoteMap, 0,
								    size, NULL, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIMapRemoteSegment", error);
	SCICreateMapSequence(remoteMap, &sequence, NO_FLAGS, &error);
	while (SCIStartSequence(sequence, NO_FLAGS, &error) != SCI_SEQ_OK)
		;
	do {
		remoteBuffer[0] = localNodeId;
		SCIFlush(sequence, NO_FLAGS);
	} while (SCICheckSequence(sequence, NO_FLAGS, &error) != SCI_SEQ_OK);
	SCIMemCpy(sequence, localBuffer, remoteMap, 64, 64, SCI_FLAG_ERROR_CHECK, &error);

	SCICreateDMAQueue(sd, &dmaQueue, ADAPTER, 1, NO_FLAGS, &error);
	SCIStartDmaTransfer(dmaQueue, localSegment, remoteSegment, 0, 64, 128, NO_CALLBACK, NO_ARG,
			    NO_FLAGS, &error);
	SCIWaitForDMAQueue(dmaQueue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
	if (SCIDMAQueueState(dmaQueue) != SCI_DMAQUEUE_DONE)
		return complain("SCIStartDmaTransfer", error);

	do {
		SCIConnectInterrupt(sd, &remoteInterrupt, remoteNodeId, ADAPTER, INTERRUPT,
				    SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
	} while (error != SCI_ERR_OK);
	SCITriggerInterrupt(remoteInterrupt, NO_FLAGS, &error);
	SCIWaitForInterrupt(localInterrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
	printf("node %u has been here\n", localBuffer[0]);

	SCIDisconnectInterrupt(remoteInterrupt, NO_FLAGS, &error);
	do {
		SCIRemoveInterrupt(localInterrupt, NO_FLAGS, &error);
	} while (error == SCI_ERR_BUSY);
	SCIRemoveDMAQueue(dmaQueue, NO_FLAGS, &error);
	SCIRemoveSequence(sequence, NO_FLAGS, &error);
	SCIUnmapSegment(remoteMap, NO_FLAGS, &error);
	SCIDisconnectSegment(remoteSegment, NO_FLAGS, &error);
	SCISetSegmentUnavailable(localSegment, ADAPTER, NO_FLAGS, &error);
	SCIUnmapSegment(localMap, NO_FLAGS, &error);
	do {
		SCIRemoveSegment(localSegment, NO_FLAGS, &error);
	} while (error == SCI_ERR_BUSY);
	SCIClose(sd, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return complain("SCIClose", error);
	SCITerminate();
	return EXIT_SUCCESS;
}
