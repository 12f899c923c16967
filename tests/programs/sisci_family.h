/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What headers of other implementations do to a program: functions go by a name with the
 * FAMILY in it, ST or MT, and flags are objects.
 */
#ifndef SISCI_FAMILY_H
#define SISCI_FAMILY_H

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

#include "sisci_api.h"

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

#endif /* SISCI_FAMILY_H */
