// SPDX-License-Identifier: GPL-2.0
/*
 * A program as it is customary: everything in main(), names for what is not given, a loop
 * that connects until the other side is there. It is compiled as it is, and with the macros
 * that other headers have, by which the same source is linked to other names. On a system
 * without the fabric it says what is missing; on two hosts of one, each finds the other.
 */
#ifdef FAMILY
/* Functions go by another name, and flags are objects. */
#define JOIN(family, name) _SISCI_PUBLIC_FUNC_##family##_##name
#define NAME(family, name) JOIN(family, name)
#define SCIInitialize NAME(FAMILY, SCIInitialize)
#define SCITerminate NAME(FAMILY, SCITerminate)
#define SCIOpen NAME(FAMILY, SCIOpen)
#define SCIClose NAME(FAMILY, SCIClose)
#define SCIGetLocalNodeId NAME(FAMILY, SCIGetLocalNodeId)
#define SCIQuery NAME(FAMILY, SCIQuery)
#define SCIProbeNode NAME(FAMILY, SCIProbeNode)
#define SCICreateSegment NAME(FAMILY, SCICreateSegment)
#define SCIPrepareSegment NAME(FAMILY, SCIPrepareSegment)
#define SCIMapLocalSegment NAME(FAMILY, SCIMapLocalSegment)
#define SCISetSegmentAvailable NAME(FAMILY, SCISetSegmentAvailable)
#define SCISetSegmentUnavailable NAME(FAMILY, SCISetSegmentUnavailable)
#define SCIConnectSegment NAME(FAMILY, SCIConnectSegment)
#define SCIGetRemoteSegmentSize NAME(FAMILY, SCIGetRemoteSegmentSize)
#define SCIMapRemoteSegment NAME(FAMILY, SCIMapRemoteSegment)
#define SCICreateMapSequence NAME(FAMILY, SCICreateMapSequence)
#define SCIStartSequence NAME(FAMILY, SCIStartSequence)
#define SCICheckSequence NAME(FAMILY, SCICheckSequence)
#define SCIRemoveSequence NAME(FAMILY, SCIRemoveSequence)
#define SCIMemCpy NAME(FAMILY, SCIMemCpy)
#define SCIFlush NAME(FAMILY, SCIFlush)
#define SCIConnectInterrupt NAME(FAMILY, SCIConnectInterrupt)
#define SCITriggerInterrupt NAME(FAMILY, SCITriggerInterrupt)
#define SCIDisconnectInterrupt NAME(FAMILY, SCIDisconnectInterrupt)
#define SCICreateInterrupt NAME(FAMILY, SCICreateInterrupt)
#define SCIWaitForInterrupt NAME(FAMILY, SCIWaitForInterrupt)
#define SCIRemoveInterrupt NAME(FAMILY, SCIRemoveInterrupt)
#define SCICreateDMAQueue NAME(FAMILY, SCICreateDMAQueue)
#define SCIStartDmaTransfer NAME(FAMILY, SCIStartDmaTransfer)
#define SCIWaitForDMAQueue NAME(FAMILY, SCIWaitForDMAQueue)
#define SCIDMAQueueState NAME(FAMILY, SCIDMAQueueState)
#define SCIRemoveDMAQueue NAME(FAMILY, SCIRemoveDMAQueue)
#define SCIUnmapSegment NAME(FAMILY, SCIUnmapSegment)
#define SCIDisconnectSegment NAME(FAMILY, SCIDisconnectSegment)
#define SCIRemoveSegment NAME(FAMILY, SCIRemoveSegment)
#define SCIGetErrorString NAME(FAMILY, SCIGetErrorString)
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sisci_api.h"

#ifdef FAMILY
extern const unsigned int _SISCI_PUBLIC_CONST_SCI_FLAG_FIXED_INTNO;
extern const unsigned int _SISCI_PUBLIC_CONST_SCI_FLAG_USE_CALLBACK;
extern const unsigned int _SISCI_PUBLIC_CONST_SCI_FLAG_ERROR_CHECK;
extern const unsigned int _SISCI_PUBLIC_CONST_SCI_Q_ADAPTER;
extern const unsigned int _SISCI_PUBLIC_CONST_SCI_Q_ADAPTER_NODEID;
#undef SCI_FLAG_FIXED_INTNO
#undef SCI_FLAG_USE_CALLBACK
#undef SCI_FLAG_ERROR_CHECK
#undef SCI_Q_ADAPTER
#undef SCI_Q_ADAPTER_NODEID
#define SCI_FLAG_FIXED_INTNO _SISCI_PUBLIC_CONST_SCI_FLAG_FIXED_INTNO
#define SCI_FLAG_USE_CALLBACK _SISCI_PUBLIC_CONST_SCI_FLAG_USE_CALLBACK
#define SCI_FLAG_ERROR_CHECK _SISCI_PUBLIC_CONST_SCI_FLAG_ERROR_CHECK
#define SCI_Q_ADAPTER _SISCI_PUBLIC_CONST_SCI_Q_ADAPTER
#define SCI_Q_ADAPTER_NODEID _SISCI_PUBLIC_CONST_SCI_Q_ADAPTER_NODEID
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

static int failed(const char *what, sci_error_t error)
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
		return failed("SCIInitialize", error);
	SCIOpen(&sd, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return failed("SCIOpen", error);

	memset(&queryAdapter, 0, sizeof(queryAdapter));
	queryAdapter.localAdapterNo = ADAPTER;
	queryAdapter.subcommand = SCI_Q_ADAPTER_NODEID;
	queryAdapter.data = &localNodeId;
	SCIQuery(SCI_Q_ADAPTER, &queryAdapter, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return failed("SCIQuery", error);
	SCIGetLocalNodeId(ADAPTER, &localNodeId, NO_FLAGS, &error);
	if (!SCIProbeNode(sd, ADAPTER, remoteNodeId, NO_FLAGS, &error))
		return failed("SCIProbeNode", error);

	SCICreateSegment(sd, &localSegment, localNodeId << 8 | remoteNodeId, size, local_callback,
			 NO_ARG, SCI_FLAG_USE_CALLBACK, &error);
	if (error != SCI_ERR_OK)
		return failed("SCICreateSegment", error);
	SCIPrepareSegment(localSegment, ADAPTER, NO_FLAGS, &error);
	localBuffer = SCIMapLocalSegment(localSegment, &localMap, 0, size, NULL, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return failed("SCIMapLocalSegment", error);
	memset(localBuffer, 0, size);
	SCICreateInterrupt(sd, &localInterrupt, ADAPTER, &interruptNo, NO_CALLBACK, NO_ARG,
			   SCI_FLAG_FIXED_INTNO, &error);
	SCISetSegmentAvailable(localSegment, ADAPTER, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return failed("SCISetSegmentAvailable", error);

	do {
		SCIConnectSegment(sd, &remoteSegment, remoteNodeId, remoteNodeId << 8 | localNodeId,
				  ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS,
				  &error);
	} while (error != SCI_ERR_OK);
	size = SCIGetRemoteSegmentSize(remoteSegment);
	remoteBuffer = (volatile unsigned int *)SCIMapRemoteSegment(remoteSegment, &remoteMap, 0,
								    size, NULL, NO_FLAGS, &error);
	if (error != SCI_ERR_OK)
		return failed("SCIMapRemoteSegment", error);
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
		return failed("SCIStartDmaTransfer", error);

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
		return failed("SCIClose", error);
	SCITerminate();
	return EXIT_SUCCESS;
}
