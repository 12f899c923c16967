/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sisci_api.h - memory, interrupts and copies between the nodes of a fabric, as SISCI has them
 *
 * Programs include this file alone and are linked to libsisci (-lsisci). The manual page sisci(3)
 * has an example and what each function does; sisci.conf(5) tells how nodes get their ids.
 *
 * Every function writes the error, also on success; a NULL there is tolerated. Flags that a
 * function does not take are refused. Sizes and offsets are bytes, times milliseconds. All
 * functions may be called by any number of threads at once.
 */
#ifndef SISCI_API_H
#define SISCI_API_H

#include <stddef.h>

#include "sisci_error.h"
#include "sisci_types.h"

#ifndef SISCI_API_EXPORT
#define SISCI_API_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The library, and the way to the driver. */
SISCI_API_EXPORT void SCIInitialize(unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCITerminate(void);
SISCI_API_EXPORT void SCIOpen(sci_desc_t *sd, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIClose(sci_desc_t sd, unsigned int flags, sci_error_t *error);

/* Local segments: memory that other nodes connect to. */
SISCI_API_EXPORT void SCICreateSegment(sci_desc_t sd, sci_local_segment_t *segment,
	unsigned int segmentId, size_t size, sci_cb_local_segment_t callback, void *callbackArg,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIRegisterSegmentMemory(void *address, size_t size,
	sci_local_segment_t segment, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIAttachPhysicalMemory(sci_ioaddr_t ioaddress, void *address,
	unsigned int busNo, size_t size, sci_local_segment_t segment, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIAttachLocalSegment(sci_desc_t sd, sci_local_segment_t *segment,
	unsigned int segmentId, size_t *size, sci_cb_local_segment_t callback, void *callbackArg,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIShareSegment(sci_local_segment_t segment, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIPrepareSegment(sci_local_segment_t segment, unsigned int localAdapterNo,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCISetSegmentAvailable(sci_local_segment_t segment,
	unsigned int localAdapterNo, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCISetSegmentUnavailable(sci_local_segment_t segment,
	unsigned int localAdapterNo, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIRemoveSegment(sci_local_segment_t segment, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT sci_segment_cb_reason_t SCIWaitForLocalSegmentEvent(sci_local_segment_t segment,
	unsigned int *sourcenodeId, unsigned int *localAdapterNo, unsigned int timeout,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT size_t SCIGetLocalSegmentSize(sci_local_segment_t segment);
SISCI_API_EXPORT unsigned int SCIGetLocalSegmentId(sci_local_segment_t segment);
SISCI_API_EXPORT void *SCIMapLocalSegment(sci_local_segment_t segment, sci_map_t *map,
	size_t offset, size_t size, void *addr, unsigned int flags, sci_error_t *error);

/* Remote segments, and maps of either kind. */
SISCI_API_EXPORT void SCIConnectSegment(sci_desc_t sd, sci_remote_segment_t *segment,
	unsigned int nodeId, unsigned int segmentId, unsigned int localAdapterNo,
	sci_cb_remote_segment_t callback, void *callbackArg, unsigned int timeout,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIDisconnectSegment(sci_remote_segment_t segment, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT size_t SCIGetRemoteSegmentSize(sci_remote_segment_t segment);
SISCI_API_EXPORT unsigned int SCIGetRemoteSegmentId(sci_remote_segment_t segment);
SISCI_API_EXPORT unsigned int SCIGetRemoteSegmentNodeId(sci_remote_segment_t segment);
SISCI_API_EXPORT sci_segment_cb_reason_t SCIWaitForRemoteSegmentEvent(sci_remote_segment_t segment,
	sci_error_t *status, unsigned int timeout, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT volatile void *SCIMapRemoteSegment(sci_remote_segment_t segment, sci_map_t *map,
	size_t offset, size_t size, void *addr, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIUnmapSegment(sci_map_t map, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT volatile void *SCIGetMapPointer(sci_map_t map);
SISCI_API_EXPORT sci_ioaddr_t SCIGetMapPhysAddr(sci_map_t map);

/* Transfers by stores and loads, and what makes them certain. */
SISCI_API_EXPORT void SCICreateMapSequence(sci_map_t map, sci_sequence_t *sequence,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIRemoveSequence(sci_sequence_t sequence, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT sci_sequence_status_t SCIStartSequence(sci_sequence_t sequence,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT sci_sequence_status_t SCICheckSequence(sci_sequence_t sequence,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIStoreBarrier(sci_sequence_t sequence, unsigned int flags);
SISCI_API_EXPORT void SCIFlush(sci_sequence_t sequence, unsigned int flags);
SISCI_API_EXPORT void SCIMemWrite(void *memAddr, volatile void *remoteAddr, size_t size,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIMemCpy(sci_sequence_t sequence, void *memAddr, sci_map_t remoteMap,
	size_t remoteOffset, size_t size, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCICacheSync(sci_map_t map, void *addr, size_t length, unsigned int flags,
	sci_error_t *error);

/* DMA. */
SISCI_API_EXPORT void SCICreateDMAQueue(sci_desc_t sd, sci_dma_queue_t *dq,
	unsigned int localAdapterNo, unsigned int maxEntries, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIRemoveDMAQueue(sci_dma_queue_t dq, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIStartDmaTransfer(sci_dma_queue_t dq, sci_local_segment_t localSegment,
	sci_remote_segment_t remoteSegment, size_t localOffset, size_t size, size_t remoteOffset,
	sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIStartDmaTransferMem(sci_dma_queue_t dq, void *localAddress,
	sci_remote_segment_t remoteSegment, size_t size, size_t remoteOffset,
	sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIStartDmaTransferVec(sci_dma_queue_t dq, sci_local_segment_t localSegment,
	sci_remote_segment_t remoteSegment, size_t vecLength, dis_dma_vec_t *disDmaVec,
	sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT sci_dma_queue_state_t SCIDMAQueueState(sci_dma_queue_t dq);
SISCI_API_EXPORT sci_dma_queue_state_t SCIWaitForDMAQueue(sci_dma_queue_t dq,
	unsigned int timeout, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIAbortDMAQueue(sci_dma_queue_t dq, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIRequestDMAChannel(sci_desc_t sd, sci_dma_channel_t *channel,
	unsigned int localAdapterNo, sci_dma_type_t type, unsigned int channelId,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIReturnDMAChannel(sci_dma_channel_t channel, sci_error_t *error);
SISCI_API_EXPORT void SCIAssignDMAChannel(sci_dma_channel_t channel, sci_dma_queue_t dq,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT sci_dma_type_t SCIGetDMAChannelType(sci_dma_channel_t channel);
SISCI_API_EXPORT void SCIPrepareLocalSegmentForDMA(sci_dma_channel_t channel,
	sci_local_segment_t local_segment, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIUnprepareLocalSegmentForDMA(sci_dma_channel_t channel,
	sci_local_segment_t local_segment, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIPrepareRemoteSegmentForDMA(sci_dma_channel_t channel,
	sci_remote_segment_t remote_segment, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIUnprepareRemoteSegmentForDMA(sci_dma_channel_t channel,
	sci_remote_segment_t remote_segment, unsigned int flags, sci_error_t *error);

/* Interrupts, plain ones and those with a message. */
SISCI_API_EXPORT void SCICreateInterrupt(sci_desc_t sd, sci_local_interrupt_t *interrupt,
	unsigned int localAdapterNo, unsigned int *interruptNo, sci_cb_interrupt_t callback,
	void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIRemoveInterrupt(sci_local_interrupt_t interrupt, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIWaitForInterrupt(sci_local_interrupt_t interrupt, unsigned int timeout,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIConnectInterrupt(sci_desc_t sd, sci_remote_interrupt_t *interrupt,
	unsigned int nodeId, unsigned int localAdapterNo, unsigned int interruptNo,
	unsigned int timeout, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIDisconnectInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCITriggerInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCICreateDataInterrupt(sci_desc_t sd, sci_local_data_interrupt_t *interrupt,
	unsigned int localAdapterNo, unsigned int *interruptNo, sci_cb_data_interrupt_t callback,
	void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIRemoveDataInterrupt(sci_local_data_interrupt_t interrupt,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIWaitForDataInterrupt(sci_local_data_interrupt_t interrupt, void *data,
	unsigned int *length, unsigned int timeout, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIConnectDataInterrupt(sci_desc_t sd,
	sci_remote_data_interrupt_t *interrupt, unsigned int nodeId, unsigned int localAdapterNo,
	unsigned int interruptNo, unsigned int timeout, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIDisconnectDataInterrupt(sci_remote_data_interrupt_t interrupt,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCITriggerDataInterrupt(sci_remote_data_interrupt_t interrupt, void *data,
	unsigned int length, unsigned int flags, sci_error_t *error);

/* Nodes, adapters, and what is known of them. */
SISCI_API_EXPORT int SCIProbeNode(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIQuery(unsigned int command, void *data, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIGetLocalNodeId(unsigned int adapterNo, unsigned int *nodeId,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIGetNodeIdByAdapterName(char *adaptername, dis_nodeId_list_t *nodeId,
	dis_adapter_type_t *type, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIGetNodeInfoByAdapterName(char *adaptername, unsigned int *adapterNo,
	dis_nodeId_list_t *nodeIdlist, dis_adapter_type_t *type, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT const char *SCIGetErrorString(sci_error_t error);

/* Devices that send through the bridge themselves. */
SISCI_API_EXPORT void SCIRegisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo,
	unsigned int bus, unsigned int devfn, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIUnregisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo,
	unsigned int bus, unsigned int devfn, unsigned int flags, sci_error_t *error);

/* Devices of other nodes. */
SISCI_API_EXPORT void SCIBorrowDevice(sci_desc_t sd, sci_smartio_device_t *device,
	unsigned long long fdid, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIReturnDevice(sci_smartio_device_t device, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIReleaseExclusiveBorrow(sci_smartio_device_t device, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIConnectDeviceSegment(sci_smartio_device_t device,
	sci_remote_segment_t *segment, unsigned int segmentId, unsigned int segmentType,
	sci_cb_device_segment_t callback, void *callbackArg, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIConnectDeviceSegmentPath(sci_smartio_device_t device,
	sci_remote_segment_t *segment, unsigned int nodeId, unsigned int segmentId,
	unsigned int segmentType, unsigned int localAdapterNo, sci_cb_device_segment_t callback,
	void *callbackArg, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCICreateDeviceSegment(sci_smartio_device_t device, unsigned int segmentId,
	size_t size, unsigned int type, unsigned int accessHints, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIMapLocalSegmentForDevice(sci_local_segment_t segment,
	unsigned int localAdapterNo, sci_smartio_device_t device, sci_ioaddr_t *remoteAddr,
	size_t offset, size_t size, sci_cb_device_mapping_t callback, void *callbackArg,
	unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT void SCIUnmapLocalSegmentForDevice(sci_local_segment_t segment,
	unsigned int localAdapterNo, sci_smartio_device_t device, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIMapRemoteSegmentForDevice(sci_remote_segment_t segment,
	sci_smartio_device_t device, sci_ioaddr_t *remoteAddr, size_t offset, size_t size,
	sci_cb_device_mapping_t callback, void *callbackArg, unsigned int flags,
	sci_error_t *error);
SISCI_API_EXPORT void SCIUnmapRemoteSegmentForDevice(sci_remote_segment_t segment,
	sci_smartio_device_t device, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT size_t SCIGetDeviceList(sci_desc_t sd, unsigned long long *fdids, size_t length,
	const sci_smartio_device_info_t *filter, unsigned int flags, sci_error_t *error);
SISCI_API_EXPORT unsigned long long SCIGetFabricDeviceId(sci_smartio_device_t device);

#ifdef __cplusplus
}
#endif

#endif /* SISCI_API_H */
