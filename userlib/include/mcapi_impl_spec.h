/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mcapi_impl_spec.h - types and limits of this implementation, for mcapi.h, which includes it
 */
#ifndef MCAPI_IMPL_SPEC_H
#define MCAPI_IMPL_SPEC_H

#include "mca.h"

/*
 * The handle of an endpoint is a value that means the same on all nodes: domain, node and port, of
 * 16 bits each, the domain the most significant one. It may be sent in a message, in the order of
 * bytes that both ends agree on. <0,0,0> is 0, which is a handle like any other.
 */
typedef mca_uint64_t mcapi_endpoint_t;

/* Handles of a node. None is 0. */
typedef mca_request_t mcapi_request_t;
typedef mca_uint32_t mcapi_pktchan_recv_hndl_t;
typedef mca_uint32_t mcapi_pktchan_send_hndl_t;
typedef mca_uint32_t mcapi_sclchan_recv_hndl_t;
typedef mca_uint32_t mcapi_sclchan_send_hndl_t;

/* Ports that programs may not use, from 0 on: none. */
#define MCAPI_NUM_RESERVED_PORTS 0
#define MCAPI_MIN_PORT 0
#define MCAPI_MAX_PORT 0xFFFE
#define MCAPI_MAX_DOMAIN 0xFFFF
#define MCAPI_MAX_NODE 0x7FFF

/* Bytes. */
#define MCAPI_MAX_MESSAGE_SIZE 65536
#define MCAPI_MAX_PACKET_SIZE 65536

/* The lowest priority, in the specification's spelling and in the usual one. */
#define MCAPI_MIN_PRORITY 7
#define MCAPI_MIN_PRIORITY MCAPI_MIN_PRORITY

/* An alignment that suits the processor's cache; none is needed. */
#define MCAPI_BUF_ALIGN 64

/*
 * What a program may pass to mcapi_initialize(): a structure without MCAPI_PARAM_MAGIC is taken for
 * none, so that one which is not initialized does no harm. With it, the size must be that of the
 * structure, and what is reserved 0. The limits are those of this node; 0 stands for as many as the
 * library has.
 *
 *	mcapi_param_t parameters = {MCAPI_PARAM_MAGIC, sizeof(mcapi_param_t), 0, 0, 0, {0}};
 *	parameters.max_requests = 100;
 */
#define MCAPI_PARAM_MAGIC 0x4D435031U
typedef struct {
	mca_uint_t magic;
	mca_uint_t size;
	mca_uint_t max_endpoints;	/* up to 256 */
	mca_uint_t max_requests;	/* up to 4096 */
	mca_uint_t flags;		/* MCAPI_PARAM_* */
	mca_uint_t reserved[11];
} mcapi_param_t;

/* No endpoint for messages is connected that a node has got: MCAPI_ERR_ENDP_GET_LIMIT. */
#define MCAPI_PARAM_STRICT 0x1U

/*
 * What mcapi_initialize() tells of this implementation, valid until mcapi_finalize():
 *
 *	printf("host %#x\n", info.impl_info->host);
 */
typedef struct {
	mca_uint_t size; /* of the structure */
	mca_uint_t host; /* number of this host in the fabric, its domain if none is configured */
} impl_info_t;

/* Attributes of a node, for mcapi_node_init_attributes() and mcapi_node_set_attribute() alone. */
typedef struct {
	mca_uint_t magic;
	mca_uint_t version;
	struct {
		mca_uint8_t valid;
		mca_uint8_t reserved[3];
		mca_uint32_t bytes;
		mca_uint64_t value;
	} entries[8];
} mcapi_node_attributes_t;

#endif
