// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Looks at the library that is named on the command line, on a system without the fabric: its
 * names, its numbers, and what functions answer. Exits with 0 if all is as it should be.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sisci_api.h"

/* What the interface counts on. */
_Static_assert(sizeof(short) >= 2 && sizeof(int) >= 4, "the sizes of native types");

/* Numbers and layouts that programs elsewhere have been built with. */
_Static_assert((unsigned int)SCI_ERR_OK == 0x00000000U, "SCI_ERR_OK");
_Static_assert((unsigned int)SCI_ERR_BUSY == 0x40000900U, "SCI_ERR_BUSY");
_Static_assert((unsigned int)SCI_ERR_FLAG_NOT_IMPLEMENTED == 0x40000901U, "SCI_ERR_FLAG_NOT_IMPLEMENTED");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_FLAG == 0x40000902U, "SCI_ERR_ILLEGAL_FLAG");
_Static_assert((unsigned int)SCI_ERR_NOSPC == 0x40000904U, "SCI_ERR_NOSPC");
_Static_assert((unsigned int)SCI_ERR_API_NOSPC == 0x40000905U, "SCI_ERR_API_NOSPC");
_Static_assert((unsigned int)SCI_ERR_HW_NOSPC == 0x40000906U, "SCI_ERR_HW_NOSPC");
_Static_assert((unsigned int)SCI_ERR_NOT_IMPLEMENTED == 0x40000907U, "SCI_ERR_NOT_IMPLEMENTED");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_ADAPTERNO == 0x40000908U, "SCI_ERR_ILLEGAL_ADAPTERNO");
_Static_assert((unsigned int)SCI_ERR_NO_SUCH_ADAPTERNO == 0x40000909U, "SCI_ERR_NO_SUCH_ADAPTERNO");
_Static_assert((unsigned int)SCI_ERR_TIMEOUT == 0x4000090AU, "SCI_ERR_TIMEOUT");
_Static_assert((unsigned int)SCI_ERR_OUT_OF_RANGE == 0x4000090BU, "SCI_ERR_OUT_OF_RANGE");
_Static_assert((unsigned int)SCI_ERR_NO_SUCH_SEGMENT == 0x4000090CU, "SCI_ERR_NO_SUCH_SEGMENT");
_Static_assert((unsigned int)SCI_ERR_NO_SUCH_INTNO == 0x4000090CU, "SCI_ERR_NO_SUCH_INTNO");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_NODEID == 0x4000090DU, "SCI_ERR_ILLEGAL_NODEID");
_Static_assert((unsigned int)SCI_ERR_CONNECTION_REFUSED == 0x4000090EU, "SCI_ERR_CONNECTION_REFUSED");
_Static_assert((unsigned int)SCI_ERR_SEGMENT_NOT_CONNECTED == 0x4000090FU, "SCI_ERR_SEGMENT_NOT_CONNECTED");
_Static_assert((unsigned int)SCI_ERR_SIZE_ALIGNMENT == 0x40000910U, "SCI_ERR_SIZE_ALIGNMENT");
_Static_assert((unsigned int)SCI_ERR_OFFSET_ALIGNMENT == 0x40000911U, "SCI_ERR_OFFSET_ALIGNMENT");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_PARAMETER == 0x40000912U, "SCI_ERR_ILLEGAL_PARAMETER");
_Static_assert((unsigned int)SCI_ERR_MAX_ENTRIES == 0x40000913U, "SCI_ERR_MAX_ENTRIES");
_Static_assert((unsigned int)SCI_ERR_SEGMENT_NOT_PREPARED == 0x40000914U, "SCI_ERR_SEGMENT_NOT_PREPARED");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_ADDRESS == 0x40000915U, "SCI_ERR_ILLEGAL_ADDRESS");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_OPERATION == 0x40000916U, "SCI_ERR_ILLEGAL_OPERATION");
_Static_assert((unsigned int)SCI_ERR_ILLEGAL_QUERY == 0x40000917U, "SCI_ERR_ILLEGAL_QUERY");
_Static_assert((unsigned int)SCI_ERR_SEGMENTID_USED == 0x40000918U, "SCI_ERR_SEGMENTID_USED");
_Static_assert((unsigned int)SCI_ERR_SYSTEM == 0x40000919U, "SCI_ERR_SYSTEM");
_Static_assert((unsigned int)SCI_ERR_CANCELLED == 0x4000091AU, "SCI_ERR_CANCELLED");
_Static_assert((unsigned int)SCI_ERR_NOT_CONNECTED == 0x4000091BU, "SCI_ERR_NOT_CONNECTED");
_Static_assert((unsigned int)SCI_ERR_NOT_AVAILABLE == 0x4000091CU, "SCI_ERR_NOT_AVAILABLE");
_Static_assert((unsigned int)SCI_ERR_INCONSISTENT_VERSIONS == 0x4000091DU, "SCI_ERR_INCONSISTENT_VERSIONS");
_Static_assert((unsigned int)SCI_ERR_OVERFLOW == 0x4000091FU, "SCI_ERR_OVERFLOW");
_Static_assert((unsigned int)SCI_ERR_NOT_INITIALIZED == 0x40000920U, "SCI_ERR_NOT_INITIALIZED");
_Static_assert((unsigned int)SCI_ERR_ACCESS == 0x40000921U, "SCI_ERR_ACCESS");
_Static_assert((unsigned int)SCI_ERR_NOT_SUPPORTED == 0x40000922U, "SCI_ERR_NOT_SUPPORTED");
_Static_assert((unsigned int)SCI_ERR_DEPRECATED == 0x40000923U, "SCI_ERR_DEPRECATED");
_Static_assert((unsigned int)SCI_ERR_DMA_NOT_AVAILABLE == 0x40000924U, "SCI_ERR_DMA_NOT_AVAILABLE");
_Static_assert((unsigned int)SCI_ERR_DMA_DISABLED == 0x40000925U, "SCI_ERR_DMA_DISABLED");
_Static_assert((unsigned int)SCI_ERR_NO_SUCH_NODEID == 0x40000A00U, "SCI_ERR_NO_SUCH_NODEID");
_Static_assert((unsigned int)SCI_ERR_NODE_NOT_RESPONDING == 0x40000A02U, "SCI_ERR_NODE_NOT_RESPONDING");
_Static_assert((unsigned int)SCI_ERR_NO_REMOTE_LINK_ACCESS == 0x40000A04U, "SCI_ERR_NO_REMOTE_LINK_ACCESS");
_Static_assert((unsigned int)SCI_ERR_NO_LINK_ACCESS == 0x40000A05U, "SCI_ERR_NO_LINK_ACCESS");
_Static_assert((unsigned int)SCI_ERR_TRANSFER_FAILED == 0x40000A06U, "SCI_ERR_TRANSFER_FAILED");
_Static_assert((unsigned int)SCI_ERR_REMOTE_BUSY == 0x40000B00U, "SCI_ERR_REMOTE_BUSY");
_Static_assert((unsigned int)SCI_ERR_EWOULD_BLOCK == 0x40000B00U, "SCI_ERR_EWOULD_BLOCK");
_Static_assert((unsigned int)SCI_ERR_IRQL_ILLEGAL == 0x40000B02U, "SCI_ERR_IRQL_ILLEGAL");
_Static_assert((unsigned int)SCI_ERR_LOCAL_BUSY == 0x40000B03U, "SCI_ERR_LOCAL_BUSY");
_Static_assert((unsigned int)SCI_ERR_ALL_BUSY == 0x40000B04U, "SCI_ERR_ALL_BUSY");
_Static_assert((unsigned int)SCI_ERR_NO_SUCH_FDID == 0x40000B05U, "SCI_ERR_NO_SUCH_FDID");
_Static_assert((unsigned int)SCI_ERR_INTNO_USED == 0x40000918U, "SCI_ERR_INTNO_USED");
_Static_assert((unsigned int)SCI_CB_CONNECT == 0x1U, "SCI_CB_CONNECT");
_Static_assert((unsigned int)SCI_CB_DISCONNECT == 0x2U, "SCI_CB_DISCONNECT");
_Static_assert((unsigned int)SCI_CB_NOT_OPERATIONAL == 0x3U, "SCI_CB_NOT_OPERATIONAL");
_Static_assert((unsigned int)SCI_CB_OPERATIONAL == 0x4U, "SCI_CB_OPERATIONAL");
_Static_assert((unsigned int)SCI_CB_LOST == 0x5U, "SCI_CB_LOST");
_Static_assert((unsigned int)SCI_CB_FATAL == 0x6U, "SCI_CB_FATAL");
_Static_assert((unsigned int)SCI_SEQ_OK == 0x0U, "SCI_SEQ_OK");
_Static_assert((unsigned int)SCI_SEQ_RETRIABLE == 0x1U, "SCI_SEQ_RETRIABLE");
_Static_assert((unsigned int)SCI_SEQ_NOT_RETRIABLE == 0x2U, "SCI_SEQ_NOT_RETRIABLE");
_Static_assert((unsigned int)SCI_SEQ_PENDING == 0x3U, "SCI_SEQ_PENDING");
_Static_assert((unsigned int)SCI_CALLBACK_CANCEL == 0x1U, "SCI_CALLBACK_CANCEL");
_Static_assert((unsigned int)SCI_CALLBACK_CONTINUE == 0x2U, "SCI_CALLBACK_CONTINUE");
_Static_assert((unsigned int)SCI_DMAQUEUE_IDLE == 0x0U, "SCI_DMAQUEUE_IDLE");
_Static_assert((unsigned int)SCI_DMAQUEUE_GATHER == 0x1U, "SCI_DMAQUEUE_GATHER");
_Static_assert((unsigned int)SCI_DMAQUEUE_POSTED == 0x2U, "SCI_DMAQUEUE_POSTED");
_Static_assert((unsigned int)SCI_DMAQUEUE_DONE == 0x3U, "SCI_DMAQUEUE_DONE");
_Static_assert((unsigned int)SCI_DMAQUEUE_ABORTED == 0x4U, "SCI_DMAQUEUE_ABORTED");
_Static_assert((unsigned int)SCI_DMAQUEUE_ERROR == 0x5U, "SCI_DMAQUEUE_ERROR");
_Static_assert((unsigned int)SCI_DMA_TYPE_DONTCARE == 0x1U, "SCI_DMA_TYPE_DONTCARE");
_Static_assert((unsigned int)SCI_DMA_TYPE_ADAPTER == 0x2U, "SCI_DMA_TYPE_ADAPTER");
_Static_assert((unsigned int)SCI_DMA_TYPE_GLOBAL == 0x3U, "SCI_DMA_TYPE_GLOBAL");
_Static_assert((unsigned int)SCI_DMA_TYPE_SYSTEM == 0x4U, "SCI_DMA_TYPE_SYSTEM");
_Static_assert((unsigned int)SCI_INFINITE_TIMEOUT == 0xFFFFFFFFU, "SCI_INFINITE_TIMEOUT");
_Static_assert((unsigned int)DIS_BROADCAST_NODEID_GROUP_ALL == 0xFCU, "DIS_BROADCAST_NODEID_GROUP_ALL");
_Static_assert((unsigned int)SCI_FLAG_USE_CALLBACK == 0x1U, "SCI_FLAG_USE_CALLBACK");
_Static_assert((unsigned int)SCI_FLAG_EMPTY == 0x2U, "SCI_FLAG_EMPTY");
_Static_assert((unsigned int)SCI_FLAG_PRIVATE == 0x4U, "SCI_FLAG_PRIVATE");
_Static_assert((unsigned int)SCI_FLAG_FIXED_INTNO == 0x2U, "SCI_FLAG_FIXED_INTNO");
_Static_assert((unsigned int)SCI_FLAG_FIXED_MAP_ADDR == 0x1U, "SCI_FLAG_FIXED_MAP_ADDR");
_Static_assert((unsigned int)SCI_FLAG_READONLY_MAP == 0x2U, "SCI_FLAG_READONLY_MAP");
_Static_assert((unsigned int)SCI_FLAG_DMA_READ == 0x10U, "SCI_FLAG_DMA_READ");
_Static_assert((unsigned int)SCI_FLAG_DMA_WAIT == 0x4U, "SCI_FLAG_DMA_WAIT");
_Static_assert(sizeof(sci_query_string_t) == 16, "sci_query_string_t");
_Static_assert(offsetof(sci_query_string_t, length) == 8, "sci_query_string_t.length");
_Static_assert(sizeof(sci_query_adapter_t) == 24, "sci_query_adapter_t");
_Static_assert(offsetof(sci_query_adapter_t, portNo) == 4, "sci_query_adapter_t.portNo");
_Static_assert(offsetof(sci_query_adapter_t, subcommand) == 8, "sci_query_adapter_t.subcommand");
_Static_assert(offsetof(sci_query_adapter_t, data) == 16, "sci_query_adapter_t.data");
_Static_assert(sizeof(sci_query_system_t) == 16, "sci_query_system_t");
_Static_assert(offsetof(sci_query_system_t, data) == 8, "sci_query_system_t.data");
_Static_assert(sizeof(sci_query_dma_t) == 16, "sci_query_dma_t");
_Static_assert(offsetof(sci_query_dma_t, subcommand) == 4, "sci_query_dma_t.subcommand");
_Static_assert(offsetof(sci_query_dma_t, data) == 8, "sci_query_dma_t.data");
_Static_assert(sizeof(sci_dma_capabilities_t) == 32, "sci_dma_capabilities_t");
_Static_assert(offsetof(sci_dma_capabilities_t, suggested_align_bytes) == 28, "sci_dma_capabilities_t.suggested_align_bytes");
_Static_assert(sizeof(sci_query_local_segment_t) == 24, "sci_query_local_segment_t");
_Static_assert(offsetof(sci_query_local_segment_t, subcommand) == 8, "sci_query_local_segment_t.subcommand");
_Static_assert(offsetof(sci_query_local_segment_t, data) == 16, "sci_query_local_segment_t.data");
_Static_assert(sizeof(sci_query_remote_segment_t) == 24, "sci_query_remote_segment_t");
_Static_assert(offsetof(sci_query_remote_segment_t, subcommand) == 8, "sci_query_remote_segment_t.subcommand");
_Static_assert(offsetof(sci_query_remote_segment_t, data) == 16, "sci_query_remote_segment_t.data");
_Static_assert(sizeof(sci_query_map_t) == 24, "sci_query_map_t");
_Static_assert(offsetof(sci_query_map_t, subcommand) == 8, "sci_query_map_t.subcommand");
_Static_assert(offsetof(sci_query_map_t, data) == 16, "sci_query_map_t.data");
_Static_assert(sizeof(dis_dma_vec_t) == 16, "dis_dma_vec_t");
_Static_assert(offsetof(dis_dma_vec_t, local_offset) == 4, "dis_dma_vec_t.local_offset");
_Static_assert(offsetof(dis_dma_vec_t, remote_offset) == 8, "dis_dma_vec_t.remote_offset");
_Static_assert(offsetof(dis_dma_vec_t, flags) == 12, "dis_dma_vec_t.flags");
_Static_assert(sizeof(sci_address_t) == 8, "sci_address_t");
_Static_assert(offsetof(sci_address_t, offsLo) == 4, "sci_address_t.offsLo");
_Static_assert(sizeof(sci_smartio_device_info_t) == 152, "sci_smartio_device_info_t");
_Static_assert(offsetof(sci_smartio_device_info_t, pci_vendor_id) == 10, "sci_smartio_device_info_t.pci_vendor_id");
_Static_assert(offsetof(sci_smartio_device_info_t, pci_class) == 12, "sci_smartio_device_info_t.pci_class");
_Static_assert(offsetof(sci_smartio_device_info_t, pci_serial_number) == 24, "sci_smartio_device_info_t.pci_serial_number");
_Static_assert(offsetof(sci_smartio_device_info_t, remote_bdf) == 32, "sci_smartio_device_info_t.remote_bdf");
_Static_assert(offsetof(sci_smartio_device_info_t, adapter) == 36, "sci_smartio_device_info_t.adapter");
_Static_assert(offsetof(sci_smartio_device_info_t, physical_slot) == 44, "sci_smartio_device_info_t.physical_slot");
_Static_assert(offsetof(sci_smartio_device_info_t, user_name) == 48, "sci_smartio_device_info_t.user_name");
_Static_assert(offsetof(sci_smartio_device_info_t, uuid) == 112, "sci_smartio_device_info_t.uuid");

static int failures;
static void *library;

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "not so: %s\n", what);
	failures++;
}

static void *lookup(const char *prefix, const char *name)
{
	char symbol[128];
	void *found;

	snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
	found = dlsym(library, symbol);
	if (!found) {
		fprintf(stderr, "%s is missing\n", symbol);
		exit(1);
	}
	return found;
}

#define CHECK(what) check(what, #what)
#define CONSTANT(name) \
	CHECK(*(const unsigned int *)lookup("_SISCI_PUBLIC_CONST_", #name) == (name))

/* A function by one of its names; the type is the header's. */
#define GET(function, prefix, name) \
	(*(void **)&(function) = lookup(prefix, #name))

static void check_constants(void)
{
	CONSTANT(SCI_INFINITE_TIMEOUT);
	CONSTANT(SCI_Q_VENDORID);
	CONSTANT(SCI_Q_API);
	CONSTANT(SCI_Q_ADAPTER);
	CONSTANT(SCI_Q_SYSTEM);
	CONSTANT(SCI_Q_LOCAL_SEGMENT);
	CONSTANT(SCI_Q_REMOTE_SEGMENT);
	CONSTANT(SCI_Q_MAP);
	CONSTANT(SCI_Q_DMA);
	CONSTANT(SCI_Q_ADAPTER_SERIAL_NUMBER);
	CONSTANT(SCI_Q_ADAPTER_CARD_TYPE);
	CONSTANT(SCI_Q_ADAPTER_NODEID);
	CONSTANT(SCI_Q_ADAPTER_CONFIGURED);
	CONSTANT(SCI_Q_ADAPTER_LINK_OPERATIONAL);
	CONSTANT(SCI_Q_ADAPTER_LINK_WIDTH);
	CONSTANT(SCI_Q_ADAPTER_LINK_SPEED);
	CONSTANT(SCI_Q_ADAPTER_LINK_UPTIME);
	CONSTANT(SCI_Q_ADAPTER_LINK_DOWNTIME);
	CONSTANT(SCI_Q_ADAPTER_LINK_CABLE_INSERTED);
	CONSTANT(SCI_Q_ADAPTER_LINK_ENABLED);
	CONSTANT(SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO);
	CONSTANT(SCI_Q_ADAPTER_NUMBER_OF_LINKS);
	CONSTANT(SCI_Q_ADAPTER_DMA_MTU);
	CONSTANT(SCI_Q_ADAPTER_MCAST_MAX_GROUPS);
	CONSTANT(SCI_Q_ADAPTER_BDF);
	CONSTANT(SCI_Q_ADAPTER_SERIAIL_NUMBER);
	CONSTANT(SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE);
	CONSTANT(SCI_Q_LOCAL_SEGMENT_IOADDR);
	CONSTANT(SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR);
	CONSTANT(SCI_Q_LOCAL_SEGMENT_PHYS_ADDR);
	CONSTANT(SCI_Q_REMOTE_SEGMENT_IOADDR);
	CONSTANT(SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET);
	CONSTANT(SCI_Q_MAP_PHYS_ADDR);
	CONSTANT(SCI_Q_MAP_IOADDR);
	CONSTANT(SCI_Q_DMA_AVAILABLE);
	CONSTANT(SCI_Q_DMA_CAPABILITIES);
	CONSTANT(SCI_FLAG_USE_CALLBACK);
	CONSTANT(SCI_FLAG_EMPTY);
	CONSTANT(SCI_FLAG_PRIVATE);
	CONSTANT(SCI_FLAG_DMA_GLOBAL);
	CONSTANT(SCI_FLAG_ALLOW_UNICAST);
	CONSTANT(SCI_FLAG_BROADCAST);
	CONSTANT(SCI_FLAG_AUTO_ID);
	CONSTANT(SCI_FLAG_DMA_SOURCE_ONLY);
	CONSTANT(SCI_FLAG_FORCE_REMOVE);
	CONSTANT(SCI_FLAG_FORCE_DISCONNECT);
	CONSTANT(SCI_FLAG_NOTIFY);
	CONSTANT(SCI_FLAG_LOCK_USER_MEM);
	CONSTANT(SCI_FLAG_CUDA_BUFFER);
	CONSTANT(SCI_FLAG_SCIF_BUFFER);
	CONSTANT(SCI_FLAG_ASYNCHRONOUS_CONNECT);
	CONSTANT(SCI_FLAG_FIXED_MAP_ADDR);
	CONSTANT(SCI_FLAG_READONLY_MAP);
	CONSTANT(SCI_FLAG_IO_MAP_IOSPACE);
	CONSTANT(SCI_FLAG_SHARED_MAP);
	CONSTANT(SCI_FLAG_WRITE_BACK_CACHE_MAP);
	CONSTANT(SCI_FLAG_NO_FLUSH);
	CONSTANT(SCI_FLAG_NO_STORE_BARRIER);
	CONSTANT(SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY);
	CONSTANT(SCI_FLAG_BLOCK_READ);
	CONSTANT(SCI_FLAG_ERROR_CHECK);
	CONSTANT(SCI_FLAG_CACHE_FLUSH);
	CONSTANT(SCI_FLAG_CACHE_INVALIDATE);
	CONSTANT(SCI_FLAG_DMA_WAIT);
	CONSTANT(SCI_FLAG_DMA_READ);
	CONSTANT(SCI_FLAG_DMA_SYSDMA);
	CONSTANT(SCI_FLAG_DMA_ADAPTER);
	CONSTANT(SCI_FLAG_DMA_CHANNEL_SHARED);
	CONSTANT(SCI_FLAG_FIXED_INTNO);
	CONSTANT(SCI_FLAG_SHARED_INT);
	CONSTANT(SCI_FLAG_COUNTING_INT);
	CONSTANT(SCI_FLAG_PCIE_REQUESTER_GLOBAL);
	CONSTANT(SCI_FLAG_EXCLUSIVE);
	CONSTANT(SCI_FLAG_DEVICE_SIDE_ONLY);
	CONSTANT(SCI_FLAG_LOCAL_ONLY);
	CONSTANT(SCI_FLAG_DEVICE_PREFER_BANDWIDTH);
	CONSTANT(SCI_FLAG_HOST_PREFER_BANDWIDTH);
	CONSTANT(SCI_FLAG_SPECIFY_PATH);
	CONSTANT(SCI_FLAG_SPECIFY_SLOT);
}

static void check_names(void)
{
	static const char * const names[] = {
		"SCIInitialize",
		"SCITerminate",
		"SCIOpen",
		"SCIClose",
		"SCICreateSegment",
		"SCIRegisterSegmentMemory",
		"SCIAttachPhysicalMemory",
		"SCIAttachLocalSegment",
		"SCIShareSegment",
		"SCIPrepareSegment",
		"SCISetSegmentAvailable",
		"SCISetSegmentUnavailable",
		"SCIRemoveSegment",
		"SCIWaitForLocalSegmentEvent",
		"SCIGetLocalSegmentSize",
		"SCIGetLocalSegmentId",
		"SCIMapLocalSegment",
		"SCIConnectSegment",
		"SCIDisconnectSegment",
		"SCIGetRemoteSegmentSize",
		"SCIGetRemoteSegmentId",
		"SCIGetRemoteSegmentNodeId",
		"SCIWaitForRemoteSegmentEvent",
		"SCIMapRemoteSegment",
		"SCIUnmapSegment",
		"SCIGetMapPointer",
		"SCIGetMapPhysAddr",
		"SCICreateMapSequence",
		"SCIRemoveSequence",
		"SCIStartSequence",
		"SCICheckSequence",
		"SCIStoreBarrier",
		"SCIFlush",
		"SCIMemWrite",
		"SCIMemCpy",
		"SCICacheSync",
		"SCICreateDMAQueue",
		"SCIRemoveDMAQueue",
		"SCIStartDmaTransfer",
		"SCIStartDmaTransferMem",
		"SCIStartDmaTransferVec",
		"SCIDMAQueueState",
		"SCIWaitForDMAQueue",
		"SCIAbortDMAQueue",
		"SCIRequestDMAChannel",
		"SCIReturnDMAChannel",
		"SCIAssignDMAChannel",
		"SCIGetDMAChannelType",
		"SCIPrepareLocalSegmentForDMA",
		"SCIUnprepareLocalSegmentForDMA",
		"SCIPrepareRemoteSegmentForDMA",
		"SCIUnprepareRemoteSegmentForDMA",
		"SCICreateInterrupt",
		"SCIRemoveInterrupt",
		"SCIWaitForInterrupt",
		"SCIConnectInterrupt",
		"SCIDisconnectInterrupt",
		"SCITriggerInterrupt",
		"SCICreateDataInterrupt",
		"SCIRemoveDataInterrupt",
		"SCIWaitForDataInterrupt",
		"SCIConnectDataInterrupt",
		"SCIDisconnectDataInterrupt",
		"SCITriggerDataInterrupt",
		"SCIProbeNode",
		"SCIQuery",
		"SCIGetLocalNodeId",
		"SCIGetNodeIdByAdapterName",
		"SCIGetNodeInfoByAdapterName",
		"SCIGetErrorString",
		"SCIRegisterPCIeRequester",
		"SCIUnregisterPCIeRequester",
		"SCIBorrowDevice",
		"SCIReturnDevice",
		"SCIReleaseExclusiveBorrow",
		"SCIConnectDeviceSegment",
		"SCIConnectDeviceSegmentPath",
		"SCICreateDeviceSegment",
		"SCIMapLocalSegmentForDevice",
		"SCIUnmapLocalSegmentForDevice",
		"SCIMapRemoteSegmentForDevice",
		"SCIUnmapRemoteSegmentForDevice",
		"SCIGetDeviceList",
		"SCIGetFabricDeviceId",
		NULL,
	};
	size_t i;

	for (i = 0; names[i]; i++) {
		lookup("", names[i]);
		lookup("_SISCI_PUBLIC_FUNC_ST_", names[i]);
		lookup("_SISCI_PUBLIC_FUNC_MT_", names[i]);
	}
}

/* By each name, the functions work on the same library. */
static void check_calls(const char *prefix)
{
	__typeof__(&SCIInitialize) initialize;
	__typeof__(&SCITerminate) terminate;
	__typeof__(&SCIOpen) open_it;
	__typeof__(&SCIClose) close_it;
	__typeof__(&SCIGetErrorString) string;
	__typeof__(&SCIFlush) flush;
	__typeof__(&SCIBorrowDevice) borrow;
	__typeof__(&SCIGetLocalSegmentSize) size;
	sci_error_t error = SCI_ERR_BUSY;
	sci_desc_t sd = (sci_desc_t)&error;
	sci_smartio_device_t device;

	GET(initialize, prefix, SCIInitialize);
	GET(terminate, prefix, SCITerminate);
	GET(open_it, prefix, SCIOpen);
	GET(close_it, prefix, SCIClose);
	GET(string, prefix, SCIGetErrorString);
	GET(flush, prefix, SCIFlush);
	GET(borrow, prefix, SCIBorrowDevice);
	GET(size, prefix, SCIGetLocalSegmentSize);

	open_it(&sd, 0, &error);
	CHECK(error == SCI_ERR_NOT_INITIALIZED);
	CHECK(!sd);
	initialize(1, &error);
	CHECK(error == SCI_ERR_ILLEGAL_FLAG);
	initialize(0, &error);
	CHECK(error == SCI_ERR_OK);
	/* There is no driver. */
	errno = 0;
	open_it(&sd, 0, &error);
	CHECK(error == SCI_ERR_SYSTEM);
	CHECK(errno == ENODEV || errno == EACCES);
	CHECK(!sd);
	open_it(&sd, 0, NULL);
	close_it((sci_desc_t)&error, 0, &error);
	CHECK(error == SCI_ERR_ILLEGAL_PARAMETER);
	close_it(NULL, 0, NULL);
	borrow(NULL, &device, 0, 0, &error);
	CHECK(error == SCI_ERR_NOT_IMPLEMENTED);
	borrow(NULL, &device, 0, 1, &error);
	CHECK(error == SCI_ERR_ILLEGAL_FLAG);
	CHECK(size(NULL) == 0);
	flush(NULL, 0);
	CHECK(!strcmp(string(SCI_ERR_BUSY), "resource in use"));
	CHECK(string((sci_error_t)1) != NULL);
	terminate();
	close_it(NULL, 0, &error);
	CHECK(error == SCI_ERR_NOT_INITIALIZED);
}

int main(int argc, char **argv)
{
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	check_names();
	check_constants();
	check_calls("");
	check_calls("_SISCI_PUBLIC_FUNC_ST_");
	check_calls("_SISCI_PUBLIC_FUNC_MT_");
	return failures != 0;
}
