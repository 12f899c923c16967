/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sisci_types.h - the types and constants of SISCI
 *
 * sisci_api.h includes it. Handles are opaque: the library makes them, and only the library can
 * tell what they stand for. Ids like SI-ABI-6 are those of Documentation/conformance/sisci.md.
 */
#ifndef SISCI_TYPES_H
#define SISCI_TYPES_H

#include "sisci_error.h"

/* What can be created; NULL is never one of them. */
typedef struct sci_desc *sci_desc_t;
typedef struct sci_local_segment *sci_local_segment_t;
typedef struct sci_remote_segment *sci_remote_segment_t;
typedef struct sci_map *sci_map_t;
typedef struct sci_sequence *sci_sequence_t;
typedef struct sci_dma_queue *sci_dma_queue_t;
typedef struct sci_dma_channel *sci_dma_channel_t;
typedef struct sci_local_interrupt *sci_local_interrupt_t;
typedef struct sci_remote_interrupt *sci_remote_interrupt_t;
typedef struct sci_local_data_interrupt *sci_local_data_interrupt_t;
typedef struct sci_remote_data_interrupt *sci_remote_data_interrupt_t;
typedef struct sci_smartio_device *sci_smartio_device_t;

/* An address on the PCI bus. */
typedef unsigned long long sci_ioaddr_t;

/* A place in the memory of another node; nothing uses it any longer. */
typedef struct {
	unsigned short nodeId;
	unsigned short offsHi;
	unsigned int offsLo;
} sci_address_t;

/* Adapters are numbered from 0 to DIS_MAX_NSCIS - 1. */
#define DIS_MAX_NSCIS 4

/* Node ids by slot; an empty slot is 0. */
typedef unsigned int dis_nodeId_list_t[DIS_MAX_NSCIS];

typedef enum dis_adapter_type {
	DIS_ADAPTER_UNKNOWN = 0,
	DIS_ADAPTER_NTB = 1
} dis_adapter_type_t;
typedef dis_adapter_type_t dis_virt_adapter_t;

/* Times are milliseconds; this one never comes. A timeout of 0 only looks. */
#define SCI_INFINITE_TIMEOUT 0xFFFFFFFFU

/* Node ids of hosts are 1 to 251; this one is all that share a segment. */
#define DIS_BROADCAST_NODEID_GROUP_ALL 252

/* Most bytes of the message of a data interrupt, and how many wait at least. */
#define SCI_DATA_INTERRUPT_MAX 4096
#define SCI_DATA_INTERRUPT_QUEUE 64

/* Most entries of a vector for SCIStartDmaTransferVec(). */
#define DIS_DMA_MAX_VECLEN 256

/* One piece of a transfer; offsets and sizes are bytes, flags are 0. */
typedef struct {
	unsigned int size;
	unsigned int local_offset;
	unsigned int remote_offset;
	unsigned int flags;
} dis_dma_vec_t;

#define SCI_DMA_CHANNEL_ID_DONTCARE 0xFFFFFFFFU

typedef enum sci_dma_type {
	SCI_DMA_TYPE_DONTCARE = 1,
	SCI_DMA_TYPE_ADAPTER = 2,
	SCI_DMA_TYPE_GLOBAL = 3,
	SCI_DMA_TYPE_SYSTEM = 4
} sci_dma_type_t;

/* Why a callback of a segment runs, or a wait for it returns. */
typedef enum sci_segment_cb_reason {
	SCI_CB_CONNECT = 1,		/* local segments: somebody has connected */
	SCI_CB_DISCONNECT = 2,		/* the other side has let go, or asks to */
	SCI_CB_NOT_OPERATIONAL = 3,	/* the link is down, perhaps for a short time */
	SCI_CB_OPERATIONAL = 4,		/* the link is back, and the connection with it */
	SCI_CB_LOST = 5,		/* the connection is gone for good */
	SCI_CB_FATAL = 6		/* the adapter is out of order */
} sci_segment_cb_reason_t;

typedef enum sci_sequence_status {
	SCI_SEQ_OK = 0,
	SCI_SEQ_RETRIABLE = 1,		/* repeat the transfer at once */
	SCI_SEQ_NOT_RETRIABLE = 2,	/* no access until SCIStartSequence() is OK */
	SCI_SEQ_PENDING = 3		/* the same, and what happened is not known yet */
} sci_sequence_status_t;

/* What a callback returns: never again, or for every further event. */
typedef enum sci_callback_action {
	SCI_CALLBACK_CANCEL = 1,
	SCI_CALLBACK_CONTINUE = 2
} sci_callback_action_t;

typedef enum sci_dma_queue_state {
	SCI_DMAQUEUE_IDLE = 0,
	SCI_DMAQUEUE_GATHER = 1,	/* never returned */
	SCI_DMAQUEUE_POSTED = 2,
	SCI_DMAQUEUE_DONE = 3,
	SCI_DMAQUEUE_ABORTED = 4,
	SCI_DMAQUEUE_ERROR = 5
} sci_dma_queue_state_t;

typedef sci_callback_action_t (*sci_cb_local_segment_t)(void *arg, sci_local_segment_t segment,
	sci_segment_cb_reason_t reason, unsigned int nodeId, unsigned int localAdapterNo,
	sci_error_t error);
typedef sci_callback_action_t (*sci_cb_remote_segment_t)(void *arg, sci_remote_segment_t segment,
	sci_segment_cb_reason_t reason, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_dma_t)(void *arg, sci_dma_queue_t queue,
	sci_error_t status);
typedef sci_callback_action_t (*sci_cb_interrupt_t)(void *arg, sci_local_interrupt_t interrupt,
	sci_error_t status);
typedef sci_callback_action_t (*sci_cb_data_interrupt_t)(void *arg,
	sci_local_data_interrupt_t interrupt, void *data, unsigned int length,
	sci_error_t status);
typedef sci_callback_action_t (*sci_cb_device_segment_t)(void *arg, sci_smartio_device_t device,
	sci_error_t status);
typedef sci_callback_action_t (*sci_cb_device_mapping_t)(void *arg, sci_smartio_device_t device,
	sci_error_t status);

/* Memory of a borrowed device, and who is to reach it. */
#define SCI_MEMTYPE_BAR 1U
#define SCI_MEMTYPE_PRIVATE 2U
#define SCI_MEMTYPE_SHARED 4U
#define SCI_MEMACCESS_DEVICE_READ 0x01U
#define SCI_MEMACCESS_DEVICE_WRITE 0x02U
#define SCI_MEMACCESS_HOST_READ 0x04U
#define SCI_MEMACCESS_HOST_WRITE 0x08U
#define SCI_MEMACCESS_MULTIHOST_READ 0x14U
#define SCI_MEMACCESS_MULTIHOST_WRITE 0x18U

typedef struct {
	unsigned long long fdid;
	unsigned short pci_device_id;
	unsigned short pci_vendor_id;
	union {
		unsigned int pci_class;
		unsigned int pci_class_id;
	};
	unsigned short pci_subsystem_device_id;
	unsigned short pci_subsystem_vendor_id;
	unsigned long long pci_serial_number;
	unsigned short remote_bdf;
	unsigned short local_bdf;
	unsigned int adapter;
	unsigned int nodeid;
	int physical_slot;
	char user_name[64];
	char uuid[37];
} sci_smartio_device_info_t;

/* What SCIQuery() takes, by its command. */
#define SCI_Q_VENDORID 1U		/* sci_query_string_t */
#define SCI_Q_API 2U			/* sci_query_string_t */
#define SCI_Q_ADAPTER 3U		/* sci_query_adapter_t */
#define SCI_Q_SYSTEM 4U			/* sci_query_system_t */
#define SCI_Q_LOCAL_SEGMENT 5U		/* sci_query_local_segment_t */
#define SCI_Q_REMOTE_SEGMENT 6U		/* sci_query_remote_segment_t */
#define SCI_Q_MAP 7U			/* sci_query_map_t */
#define SCI_Q_DMA 8U			/* sci_query_dma_t */

/* Sub-commands; what they answer is an unsigned int where data leads to. */
#define SCI_Q_ADAPTER_SERIAL_NUMBER 0x301U
#define SCI_Q_ADAPTER_CARD_TYPE 0x302U		/* a dis_adapter_type_t */
#define SCI_Q_ADAPTER_NODEID 0x303U
#define SCI_Q_ADAPTER_CONFIGURED 0x304U		/* 0 or 1 */
#define SCI_Q_ADAPTER_LINK_OPERATIONAL 0x305U	/* 0 or 1; of the link portNo, as below */
#define SCI_Q_ADAPTER_LINK_WIDTH 0x306U		/* lanes */
#define SCI_Q_ADAPTER_LINK_SPEED 0x307U		/* generation of PCI Express */
#define SCI_Q_ADAPTER_LINK_UPTIME 0x308U	/* seconds */
#define SCI_Q_ADAPTER_LINK_DOWNTIME 0x309U	/* seconds */
#define SCI_Q_ADAPTER_LINK_CABLE_INSERTED 0x30AU
#define SCI_Q_ADAPTER_LINK_ENABLED 0x30BU
#define SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO 0x30CU
#define SCI_Q_ADAPTER_NUMBER_OF_LINKS 0x30DU
#define SCI_Q_ADAPTER_DMA_MTU 0x30EU
#define SCI_Q_ADAPTER_MCAST_MAX_GROUPS 0x30FU
#define SCI_Q_ADAPTER_BDF 0x310U		/* bus << 8 | device << 3 | function */
#define SCI_Q_ADAPTER_SERIAIL_NUMBER SCI_Q_ADAPTER_SERIAL_NUMBER

#define SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE 0x401U	/* bytes */

#define SCI_Q_LOCAL_SEGMENT_IOADDR 0x501U
#define SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR 0x502U	/* always 0 */
#define SCI_Q_LOCAL_SEGMENT_PHYS_ADDR 0x503U

#define SCI_Q_REMOTE_SEGMENT_IOADDR 0x601U

#define SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET 0x701U	/* 0 or 1 */
#define SCI_Q_MAP_PHYS_ADDR 0x702U
#define SCI_Q_MAP_IOADDR 0x703U

#define SCI_Q_DMA_AVAILABLE 0x801U		/* 0 or 1 */
#define SCI_Q_DMA_CAPABILITIES 0x802U		/* a sci_dma_capabilities_t */

typedef struct {
	char *str;
	unsigned int length;		/* bytes at str, the NUL included */
} sci_query_string_t;

typedef struct {
	unsigned int localAdapterNo;
	unsigned int portNo;
	unsigned int subcommand;
	void *data;
} sci_query_adapter_t;

typedef struct {
	unsigned int subcommand;
	void *data;
} sci_query_system_t;

typedef struct {
	unsigned int localAdapterNo;
	unsigned int subcommand;
	void *data;
} sci_query_dma_t;

typedef struct {
	unsigned int num_channels;
	unsigned int max_transfer_size;
	unsigned int max_vector_length;
	unsigned int support_mem2io;
	unsigned int support_io2mem;
	unsigned int support_io2io;
	unsigned int min_align_bytes;
	unsigned int suggested_align_bytes;
} sci_dma_capabilities_t;

typedef struct {
	sci_local_segment_t segment;
	unsigned int subcommand;
	union {
		sci_ioaddr_t ioaddr;
	} data;
} sci_query_local_segment_t;

typedef struct {
	sci_remote_segment_t segment;
	unsigned int subcommand;
	union {
		sci_ioaddr_t ioaddr;
	} data;
} sci_query_remote_segment_t;

typedef struct {
	sci_map_t map;
	unsigned int subcommand;
	unsigned long long data;
} sci_query_map_t;

/*
 * Flags. A number means something else for every function: each of them is followed by the
 * functions that take it, without SCI. The library has them as objects as well (SI-ABI-4), by
 * the names that programs for other implementations look for.
 */
#define SCI_FLAG_USE_CALLBACK 0x00000001U	/* Create*, Attach*, ConnectSegment, StartDma* */

#define SCI_FLAG_EMPTY 0x00000002U		/* CreateSegment */
#define SCI_FLAG_PRIVATE 0x00000004U		/* CreateSegment */
#define SCI_FLAG_DMA_GLOBAL 0x00000040U		/* CreateSegment, StartDma*, Query */
#define SCI_FLAG_ALLOW_UNICAST 0x00000080U	/* CreateSegment */
#define SCI_FLAG_BROADCAST 0x00040000U		/* CreateSegment, AttachLocalSegment, Connect*, ... */
#define SCI_FLAG_AUTO_ID 0x20000000U		/* CreateSegment */
#define SCI_FLAG_DMA_SOURCE_ONLY 0x00000008U	/* PrepareSegment */
#define SCI_FLAG_FORCE_REMOVE 0x00000020U	/* RemoveSegment */
#define SCI_FLAG_FORCE_DISCONNECT 0x00000001U	/* SetSegmentUnavailable */
#define SCI_FLAG_NOTIFY 0x00000002U		/* SetSegmentUnavailable */
#define SCI_FLAG_LOCK_USER_MEM 0x00000400U	/* RegisterSegmentMemory */
#define SCI_FLAG_CUDA_BUFFER 0x00002000U	/* AttachPhysicalMemory */
#define SCI_FLAG_SCIF_BUFFER 0x00004000U	/* AttachPhysicalMemory */

#define SCI_FLAG_ASYNCHRONOUS_CONNECT 0x00000002U	/* ConnectSegment */

#define SCI_FLAG_FIXED_MAP_ADDR 0x00000001U	/* Map*Segment */
#define SCI_FLAG_READONLY_MAP 0x00000002U	/* Map*Segment */
#define SCI_FLAG_IO_MAP_IOSPACE 0x00000080U	/* MapRemoteSegment */
#define SCI_FLAG_SHARED_MAP 0x00002000U		/* MapRemoteSegment */
#define SCI_FLAG_WRITE_BACK_CACHE_MAP 0x08000000U	/* MemWrite */

#define SCI_FLAG_NO_FLUSH 0x00000001U		/* CheckSequence */
#define SCI_FLAG_NO_STORE_BARRIER 0x00000002U	/* CheckSequence */
#define SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY 0x00000001U	/* Flush */
#define SCI_FLAG_BLOCK_READ 0x00000001U		/* MemCpy */
#define SCI_FLAG_ERROR_CHECK 0x00000002U	/* MemCpy */
#define SCI_FLAG_CACHE_FLUSH 0x00100000U	/* CacheSync */
#define SCI_FLAG_CACHE_INVALIDATE 0x00200000U	/* CacheSync */

#define SCI_FLAG_DMA_WAIT 0x00000004U		/* StartDma* */
#define SCI_FLAG_DMA_READ 0x00000010U		/* StartDma* */
#define SCI_FLAG_DMA_SYSDMA 0x00000100U		/* StartDma*, Query */
#define SCI_FLAG_DMA_ADAPTER 0x00000800U	/* StartDma*, Query */
#define SCI_FLAG_DMA_CHANNEL_SHARED 0x00000001U	/* RequestDMAChannel */

#define SCI_FLAG_FIXED_INTNO 0x00000002U	/* Create*Interrupt */
#define SCI_FLAG_SHARED_INT 0x00000004U		/* Create*Interrupt */
#define SCI_FLAG_COUNTING_INT 0x00000020U	/* CreateInterrupt, ConnectInterrupt */

#define SCI_FLAG_PCIE_REQUESTER_GLOBAL 0x00000001U	/* RegisterPCIeRequester */

#define SCI_FLAG_EXCLUSIVE 0x01000000U		/* BorrowDevice */
/* These four are two bits each: a flag is set if all of it is. CreateDeviceSegment */
#define SCI_FLAG_DEVICE_SIDE_ONLY 0x02001000U
#define SCI_FLAG_LOCAL_ONLY 0x02002000U
#define SCI_FLAG_DEVICE_PREFER_BANDWIDTH 0x04000001U
#define SCI_FLAG_HOST_PREFER_BANDWIDTH 0x04000002U
#define SCI_FLAG_SPECIFY_PATH 0x10000000U	/* GetDeviceList */
#define SCI_FLAG_SPECIFY_SLOT 0x20000000U	/* GetDeviceList */

#endif /* SISCI_TYPES_H */
