/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mcapi.h - the Multicore Communications API 2.000 between processes of the hosts of a fabric
 *
 * Programs include this file and are linked to libmcapi (-lmcapi). The manual page mcapi(3) says
 * what each function does. Programs that were written to 1.0 are compiled with the flags that
 * pkg-config has for mcapi-1.0.
 *
 * Sizes are bytes, times milliseconds. Each function writes a status; what it returns counts only
 * if that is MCAPI_SUCCESS. All may be called by any number of threads at once. Handles are
 * numbers: nothing follows them.
 */
#ifndef MCAPI_H
#define MCAPI_H

#include <stddef.h>

#include "mca.h"
#include "mcapi_impl_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the specification; in mcapi_info_t it is hexadecimal, with three digits minor. */
#define MCAPI_VERSION 2000

typedef mca_int_t mcapi_int_t;
typedef mca_int8_t mcapi_int8_t;
typedef mca_int16_t mcapi_int16_t;
typedef mca_int32_t mcapi_int32_t;
typedef mca_int64_t mcapi_int64_t;
typedef mca_uint_t mcapi_uint_t;
typedef mca_uint8_t mcapi_uint8_t;
typedef mca_uint16_t mcapi_uint16_t;
typedef mca_uint32_t mcapi_uint32_t;
typedef mca_uint64_t mcapi_uint64_t;
typedef mca_boolean_t mcapi_boolean_t;
typedef mca_domain_t mcapi_domain_t;
typedef mca_node_t mcapi_node_t;
typedef mca_status_t mcapi_status_t;
typedef mca_timeout_t mcapi_timeout_t;

typedef unsigned int mcapi_port_t;
typedef unsigned int mcapi_priority_t;

#define MCAPI_TRUE MCA_TRUE
#define MCAPI_FALSE MCA_FALSE
#define MCAPI_NULL MCA_NULL
#define MCAPI_PORT_ANY (~0U)
#define MCAPI_TIMEOUT_IMMEDIATE 0
#define MCAPI_TIMEOUT_INFINITE (~0U)
#define MCAPI_INFINITE MCAPI_TIMEOUT_INFINITE
#define MCAPI_NODE_INVALID MCA_NODE_INVALID
#define MCAPI_DOMAIN_INVALID MCA_DOMAIN_INVALID
#define MCAPI_RETURN_VALUE_INVALID MCA_RETURN_VALUE_INVALID

/* The highest priority, in the specification's spelling and in the usual one. */
#define MCAPI_MAX_PRORITY 0
#define MCAPI_MAX_PRIORITY MCAPI_MAX_PRORITY

/* Room for the name of any status, with the NUL. */
#define MCAPI_MAX_STATUS_MSG_LEN 32
#define MCAPI_MAX_STATUS_SIZE MCAPI_MAX_STATUS_MSG_LEN

/* What a function does with an argument. */
#ifndef MCAPI_IN
#define MCAPI_IN const
#endif
#ifndef MCAPI_OUT
#define MCAPI_OUT
#endif

#define MCAPI_DECL_ALIGNED MCA_DECL_ALIGNED

/* Status codes. */
enum mcapi_status_codes {
	MCAPI_SUCCESS = 1,
	MCAPI_PENDING,
	MCAPI_TIMEOUT,
	MCAPI_ERR_PARAMETER,
	MCAPI_ERR_DOMAIN_INVALID,
	MCAPI_ERR_NODE_INVALID,
	MCAPI_ERR_NODE_INITFAILED,
	MCAPI_ERR_NODE_INITIALIZED,
	MCAPI_ERR_NODE_NOTINIT,
	MCAPI_ERR_NODE_FINALFAILED,
	MCAPI_ERR_PORT_INVALID,
	MCAPI_ERR_ENDP_INVALID,
	MCAPI_ERR_ENDP_EXISTS,
	MCAPI_ERR_ENDP_GET_LIMIT,
	MCAPI_ERR_ENDP_DELETED,
	MCAPI_ERR_ENDP_NOTOWNER,
	MCAPI_ERR_ENDP_REMOTE,
	MCAPI_ERR_ATTR_INCOMPATIBLE,
	MCAPI_ERR_ATTR_SIZE,
	MCAPI_ERR_ATTR_NUM,
	MCAPI_ERR_ATTR_VALUE,
	MCAPI_ERR_ATTR_NOTSUPPORTED,
	MCAPI_ERR_ATTR_READONLY,
	MCAPI_ERR_MSG_SIZE,
	MCAPI_ERR_MSG_TRUNCATED,
	MCAPI_ERR_CHAN_OPEN,
	MCAPI_ERR_CHAN_TYPE,
	MCAPI_ERR_CHAN_DIRECTION,
	MCAPI_ERR_CHAN_CONNECTED,
	MCAPI_ERR_CHAN_OPENPENDING,
	MCAPI_ERR_CHAN_CLOSEPENDING,
	MCAPI_ERR_CHAN_NOTOPEN,
	MCAPI_ERR_CHAN_INVALID,
	MCAPI_ERR_PKT_SIZE,
	MCAPI_ERR_TRANSMISSION,
	MCAPI_ERR_PRIORITY,
	MCAPI_ERR_BUF_INVALID,
	MCAPI_ERR_MEM_LIMIT,
	MCAPI_ERR_REQUEST_INVALID,
	MCAPI_ERR_REQUEST_LIMIT,
	MCAPI_ERR_REQUEST_CANCELLED,
	MCAPI_ERR_WAIT_PENDING,
	MCAPI_ERR_GENERAL,
	MCAPI_STATUSCODE_END
};
#define MCAPI_ERR_ENDP_GET_INVALID MCAPI_ERR_ENDP_GET_LIMIT

/* Attributes of nodes. */
enum mcapi_node_attribute_numbers {
	MCAPI_NODE_ATTR_TYPE,
	MCAPI_NODE_ATTR_END
};

enum mcapi_node_attribute_types {
	MCAPI_NODE_ATTR_TYPE_REGULAR,
	MCAPI_NODE_ATTR_TYPE_END
};

typedef mcapi_uint_t mcapi_node_attr_type_t;

/* Attributes of endpoints. */
enum mcapi_endp_attribute_numbers {
	MCAPI_ENDP_ATTR_TYPE,
	MCAPI_ENDP_ATTR_GET_COUNT,
	MCAPI_ENDP_ATTR_GET_SOURCE,
	MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE,
	MCAPI_ENDP_ATTR_BUFFER_TYPE,
	MCAPI_ENDP_ATTR_MEMORY_TYPE,
	MCAPI_ENDP_ATTR_NUM_PRIORITIES,
	MCAPI_ENDP_ATTR_PRIORITY,
	MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS,
	MCAPI_ENDP_ATTR_NUM_RECV_BUFFERS,
	MCAPI_ENDP_ATTR_STATUS,
	MCAPI_ENDP_ATTR_TIMEOUT,
	MCAPI_ENDP_ATTR_END
};
#define MCAPI_ENDP_ATTR_ENDP_STATUS MCAPI_ENDP_ATTR_STATUS

typedef mcapi_uint_t mcapi_endp_attr_type_t;
typedef mcapi_uint_t mcapi_endp_attr_get_count_t;
typedef struct {
	mcapi_domain_t domain_id;
	mcapi_node_t node_id;
} mcapi_endp_attr_get_source_t;
typedef mcapi_int_t mcapi_endp_attr_max_payload_size_t;
typedef mcapi_uint_t mcapi_endp_attr_buffer_type_t;
typedef mcapi_uint_t mcapi_endp_attr_memory_type_t;
typedef mcapi_int_t mcapi_endp_attr_num_priorities_t;
typedef mcapi_uint_t mcapi_endp_attr_priority_t;
typedef mcapi_int_t mcapi_endp_attr_num_send_buffers_t;
typedef mcapi_uint_t mcapi_endp_attr_num_recv_buffers_t;
typedef mcapi_uint_t mcapi_endp_attr_status_t;
typedef mcapi_timeout_t mcapi_endp_attr_timeout_t;

/* Values of MCAPI_ENDP_ATTR_TYPE. */
#define MCAPI_ENDP_ATTR_TYPE_MESSAGE 0x1
#define MCAPI_ENDP_ATTR_TYPE_PKTCHAN 0x2
#define MCAPI_ENDP_ATTR_TYPE_SCLCHAN 0x4

/* Values of MCAPI_ENDP_ATTR_BUFFER_TYPE. */
enum mcapi_buffer_type {
	MCAPI_ENDP_ATTR_FIFO_BUFFER,
	MCAPI_ENDP_ATTR_STATE_BUFFER
};

/* Values of MCAPI_ENDP_ATTR_MEMORY_TYPE: one of the first three, and one of the others. */
enum mcapi_memory_type {
	MCAPI_ENDP_ATTR_LOCAL_MEMORY = 0,
	MCAPI_ENDP_ATTR_SHARED_MEMORY = 1,
	MCAPI_ENDP_ATTR_REMOTE_MEMORY = 2,
	MCAPI_ENDP_ATTR_BLOCK_ON_MEM_LIMIT = 0x00000000,
	MCAPI_ENDP_ATTR_FAIL_ON_MEM_LIMIT = 0x00010000
};

/* Flags of MCAPI_ENDP_ATTR_STATUS. The upper 16 bits are the implementation's. */
#define MCAPI_ENDP_ATTR_STATUS_CONNECTED 0x0001
#define MCAPI_ENDP_ATTR_STATUS_OPEN 0x0002
#define MCAPI_ENDP_ATTR_STATUS_OPEN_PENDING 0x0004
#define MCAPI_ENDP_ATTR_STATUS_CLOSE_PENDING 0x0008
#define MCAPI_ENDP_ATTR_STATUS_PKTCHAN 0x0010
#define MCAPI_ENDP_ATTR_STATUS_SCLCHAN 0x0020
#define MCAPI_ENDP_ATTR_STATUS_SEND 0x0040
#define MCAPI_ENDP_ATTR_STATUS_RECEIVE 0x0080
#define MCAPI_ENDP_ATTR_STATUS_GET_PENDING 0x0100

/* A range of numbers of attributes, from the first one to before the end. */
typedef struct {
	mcapi_uint_t organization_id;
	mcapi_uint_t start_endp_attr_num;
	mcapi_uint_t end_endp_attr_num;
} mcapi__endp_attr_range_t;

/* What mcapi_initialize() tells. */
typedef struct {
	mcapi_uint_t mcapi_version; /* 0x2000 */
	mcapi_uint_t organization_id;
	mcapi_uint_t implementation_version; /* as mcapi_version */
	mcapi_uint_t number_of_domains; /* of the configuration file, or as many as can be */
	mcapi_uint_t number_of_nodes; /* most of a domain: how many there are is not known */
	mcapi_uint_t number_of_ports; /* most of this node */
	impl_info_t *impl_info;
} mcapi_info_t;

/* Nodes. */
extern void mcapi_initialize(MCAPI_IN mcapi_domain_t domain_id, MCAPI_IN mcapi_node_t node_id,
	MCAPI_IN mcapi_node_attributes_t *mcapi_node_attributes,
	MCAPI_IN mcapi_param_t *mcapi_parameters, MCAPI_OUT mcapi_info_t *mcapi_info,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_finalize(MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_domain_t mcapi_domain_id_get(MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_node_t mcapi_node_id_get(MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_node_init_attributes(MCAPI_OUT mcapi_node_attributes_t *mcapi_node_attributes,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_node_set_attribute(MCAPI_OUT mcapi_node_attributes_t *mcapi_node_attributes,
	MCAPI_IN mcapi_uint_t attribute_num, MCAPI_IN void *attribute,
	MCAPI_IN size_t attribute_size, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_node_get_attribute(MCAPI_IN mcapi_domain_t domain_id,
	MCAPI_IN mcapi_node_t node_id, MCAPI_IN mcapi_uint_t attribute_num,
	MCAPI_OUT void *attribute, MCAPI_IN size_t attribute_size,
	MCAPI_OUT mcapi_status_t *mcapi_status);

/* Endpoints. */
extern mcapi_endpoint_t mcapi_endpoint_create(MCAPI_IN mcapi_port_t port_id,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_endpoint_get_i(MCAPI_IN mcapi_domain_t domain_id,
	MCAPI_IN mcapi_node_t node_id, MCAPI_IN mcapi_port_t port_id,
	MCAPI_OUT mcapi_endpoint_t *endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_endpoint_t mcapi_endpoint_get(MCAPI_IN mcapi_domain_t domain_id,
	MCAPI_IN mcapi_node_t node_id, MCAPI_IN mcapi_port_t port_id,
	MCAPI_IN mcapi_timeout_t timeout, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_endpoint_delete(MCAPI_IN mcapi_endpoint_t endpoint,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_endpoint_get_attribute(MCAPI_IN mcapi_endpoint_t endpoint,
	MCAPI_IN mcapi_uint_t attribute_num, MCAPI_OUT void *attribute,
	MCAPI_IN size_t attribute_size, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_endpoint_set_attribute(MCAPI_IN mcapi_endpoint_t endpoint,
	MCAPI_IN mcapi_uint_t attribute_num, MCAPI_IN void *attribute,
	MCAPI_IN size_t attribute_size, MCAPI_OUT mcapi_status_t *mcapi_status);

/* Messages. */
extern void mcapi_msg_send_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_IN void *buffer,
	MCAPI_IN size_t buffer_size, MCAPI_IN mcapi_priority_t priority,
	MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_msg_send(MCAPI_IN mcapi_endpoint_t send_endpoint,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_IN void *buffer,
	MCAPI_IN size_t buffer_size, MCAPI_IN mcapi_priority_t priority,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_msg_recv_i(MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT void *buffer,
	MCAPI_IN size_t buffer_size, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_msg_recv(MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT void *buffer,
	MCAPI_IN size_t buffer_size, MCAPI_OUT size_t *received_size,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint_t mcapi_msg_available(MCAPI_IN mcapi_endpoint_t receive_endpoint,
	MCAPI_OUT mcapi_status_t *mcapi_status);

/* Packet channels. */
extern void mcapi_pktchan_connect_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_recv_open_i(MCAPI_OUT mcapi_pktchan_recv_hndl_t *receive_handle,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_send_open_i(MCAPI_OUT mcapi_pktchan_send_hndl_t *send_handle,
	MCAPI_IN mcapi_endpoint_t send_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_send_i(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle,
	MCAPI_IN void *buffer, MCAPI_IN size_t size, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_send(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle,
	MCAPI_IN void *buffer, MCAPI_IN size_t size, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_recv_i(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
	MCAPI_OUT void **buffer, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_recv(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
	MCAPI_OUT void **buffer, MCAPI_OUT size_t *received_size,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint_t mcapi_pktchan_available(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_release(MCAPI_IN void *buffer,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_boolean_t mcapi_pktchan_release_test(MCAPI_IN void *buffer,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_recv_close_i(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_pktchan_send_close_i(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle,
	MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);

/* Scalar channels. */
extern void mcapi_sclchan_connect_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_recv_open_i(MCAPI_OUT mcapi_sclchan_recv_hndl_t *receive_handle,
	MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_open_i(MCAPI_OUT mcapi_sclchan_send_hndl_t *send_handle,
	MCAPI_IN mcapi_endpoint_t send_endpoint, MCAPI_OUT mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_uint64(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
	MCAPI_IN mcapi_uint64_t dataword, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_uint32(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
	MCAPI_IN mcapi_uint32_t dataword, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_uint16(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
	MCAPI_IN mcapi_uint16_t dataword, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_uint8(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
	MCAPI_IN mcapi_uint8_t dataword, MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint64_t mcapi_sclchan_recv_uint64(
	MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint32_t mcapi_sclchan_recv_uint32(
	MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint16_t mcapi_sclchan_recv_uint16(
	MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint8_t mcapi_sclchan_recv_uint8(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint_t mcapi_sclchan_available(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_recv_close_i(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
	MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_sclchan_send_close_i(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
	MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);

/* Requests. */
extern mcapi_boolean_t mcapi_test(MCAPI_IN mcapi_request_t *request, MCAPI_OUT size_t *size,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_boolean_t mcapi_wait(MCAPI_IN mcapi_request_t *request, MCAPI_OUT size_t *size,
	MCAPI_IN mcapi_timeout_t timeout, MCAPI_OUT mcapi_status_t *mcapi_status);
extern mcapi_uint_t mcapi_wait_any(MCAPI_IN size_t number, MCAPI_IN mcapi_request_t *requests,
	MCAPI_OUT size_t *size, MCAPI_IN mcapi_timeout_t timeout,
	MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_cancel(MCAPI_IN mcapi_request_t *request,
	MCAPI_OUT mcapi_status_t *mcapi_status);

/* Names of status codes. */
extern char *mcapi_display_status(MCAPI_IN mcapi_status_t mcapi_status,
	MCAPI_OUT char *status_message, MCAPI_IN size_t size);

#ifdef __cplusplus
}
#endif

#endif
