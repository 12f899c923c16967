/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mcapi_v1000_to_v2000.h - names, statuses and orders of arguments of MCAPI 1.0, over 2.000
 *
 * A program that was written to 1.0 includes <mcapi.h> as before, and is compiled with the flags
 * that pkg-config has for mcapi-1.0. Nodes of 1.0 are in domain 0, which mcapi.conf has to put on
 * the hosts that they run on.
 */
#ifndef MCAPI_V1000_TO_V2000_H
#define MCAPI_V1000_TO_V2000_H

#include <stdlib.h>

#include "mcapi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define MCAPI_1000_FUNCTION static __inline__ __attribute__((__unused__))
#else
#define MCAPI_1000_FUNCTION static inline
#endif

typedef mcapi_uint_t mcapi_version_t;

/* The domain of all nodes of 1.0. */
#define MCAPI_1000_DOMAIN 0

MCAPI_1000_FUNCTION void mcapi_1000_initialize(mcapi_node_t node_id, mcapi_version_t *mcapi_version,
	mcapi_status_t *mcapi_status)
{
	mcapi_info_t info;

	if (!mcapi_status)
		return;
	if (!mcapi_version) {
		*mcapi_status = MCAPI_ERR_PARAMETER;
		return;
	}
	mcapi_initialize(MCAPI_1000_DOMAIN, node_id, MCAPI_NULL, MCAPI_NULL, &info, mcapi_status);
	if (*mcapi_status == MCAPI_SUCCESS)
		*mcapi_version = info.mcapi_version;
}

MCAPI_1000_FUNCTION mcapi_endpoint_t mcapi_1000_create_anonymous_endpoint(
	mcapi_status_t *mcapi_status)
{
	return mcapi_endpoint_create(MCAPI_PORT_ANY, mcapi_status);
}

MCAPI_1000_FUNCTION void mcapi_1000_endpoint_get_i(mcapi_node_t node_id, mcapi_port_t port_id,
	mcapi_endpoint_t *endpoint, mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	mcapi_endpoint_get_i(MCAPI_1000_DOMAIN, node_id, port_id, endpoint, request, mcapi_status);
}

MCAPI_1000_FUNCTION mcapi_endpoint_t mcapi_1000_endpoint_get(mcapi_node_t node_id,
	mcapi_port_t port_id, mcapi_status_t *mcapi_status)
{
	return mcapi_endpoint_get(MCAPI_1000_DOMAIN, node_id, port_id, MCAPI_TIMEOUT_INFINITE,
		mcapi_status);
}

MCAPI_1000_FUNCTION mcapi_boolean_t mcapi_1000_wait(const mcapi_request_t *request, size_t *size,
	mcapi_status_t *mcapi_status, mcapi_timeout_t timeout)
{
	return mcapi_wait(request, size, timeout, mcapi_status);
}

/* As mcapi_wait_any() of 2.000, with pointers to the requests. */
MCAPI_1000_FUNCTION mcapi_uint_t mcapi_wait_any_ptrs(size_t number,
	mcapi_request_t *const *requests, size_t *size, mcapi_timeout_t timeout, mcapi_status_t *mcapi_status)
{
	mcapi_request_t few[16], *all = few;
	mcapi_uint_t index = MCAPI_RETURN_VALUE_INVALID;
	size_t next;

	if (!mcapi_status)
		return index;
	/* NULL and too many are refused by the function, which looks for the node first. */
	if (!requests || number > (size_t)-1 / sizeof(*all))
		return mcapi_wait_any(0, MCAPI_NULL, size, timeout, mcapi_status);
	if (number > sizeof(few) / sizeof(few[0]))
		all = (mcapi_request_t *)malloc(number * sizeof(*all));
	if (!all) {
		*mcapi_status = MCAPI_ERR_MEM_LIMIT;
		return index;
	}
	for (next = 0; next < number && requests[next]; next++)
		all[next] = *requests[next];
	if (next == number)
		index = mcapi_wait_any(number, all, size, timeout, mcapi_status);
	else
		index = mcapi_wait_any(0, MCAPI_NULL, size, timeout, mcapi_status);
	if (all != few)
		free(all);
	return index;
}

MCAPI_1000_FUNCTION mcapi_int_t mcapi_1000_wait_any(size_t number, mcapi_request_t *const *requests,
	size_t *size, mcapi_status_t *mcapi_status, mcapi_timeout_t timeout)
{
	return (mcapi_int_t)mcapi_wait_any_ptrs(number, requests, size, timeout, mcapi_status);
}

#define mcapi_initialize mcapi_1000_initialize
#define mcapi_get_node_id mcapi_node_id_get
#define mcapi_create_endpoint mcapi_endpoint_create
#define mcapi_create_anonymous_endpoint mcapi_1000_create_anonymous_endpoint
#define mcapi_get_endpoint_i mcapi_1000_endpoint_get_i
#define mcapi_get_endpoint mcapi_1000_endpoint_get
#define mcapi_delete_endpoint mcapi_endpoint_delete
#define mcapi_get_endpoint_attribute mcapi_endpoint_get_attribute
#define mcapi_set_endpoint_attribute mcapi_endpoint_set_attribute
#define mcapi_connect_pktchan_i mcapi_pktchan_connect_i
#define mcapi_open_pktchan_recv_i mcapi_pktchan_recv_open_i
#define mcapi_open_pktchan_send_i mcapi_pktchan_send_open_i
#define mcapi_packetchan_recv_close_i mcapi_pktchan_recv_close_i
#define mcapi_packetchan_send_close_i mcapi_pktchan_send_close_i
#define mcapi_pktchan_free mcapi_pktchan_release
#define mcapi_connect_sclchan_i mcapi_sclchan_connect_i
#define mcapi_open_sclchan_recv_i mcapi_sclchan_recv_open_i
#define mcapi_open_sclchan_send_i mcapi_sclchan_send_open_i
#define mcapi_wait mcapi_1000_wait
#define mcapi_wait_any mcapi_1000_wait_any

/* Statuses of 1.0. Those that have no twin are the general error. */
#define MCAPI_INCOMPLETE MCAPI_PENDING
#define MCAPI_ENO_INIT MCAPI_ERR_NODE_INITFAILED
#define MCAPI_INITIALIZED MCAPI_ERR_NODE_INITIALIZED
#define MCAPI_ENODE_NOTVALID MCAPI_ERR_NODE_INVALID
#define MCAPI_EPARAM MCAPI_ERR_PARAMETER
#define MCAPI_ENO_FINAL MCAPI_ERR_NODE_FINALFAILED
#define MCAPI_ENODE_NOTINIT MCAPI_ERR_NODE_NOTINIT
#define MCAPI_EPORT_NOTVALID MCAPI_ERR_PORT_INVALID
#define MCAPI_EEP_NOTALLOWED MCAPI_ERR_PORT_INVALID
#define MCAPI_EENDP_LIMIT MCAPI_ERR_PORT_INVALID
#define MCAPI_EENDP_ISCREATED MCAPI_ERR_ENDP_EXISTS
#define MCAPI_ENOT_ENDP MCAPI_ERR_ENDP_INVALID
#define MCAPI_ENO_ENDPOINT MCAPI_ERR_ENDP_INVALID
#define MCAPI_ENOT_OWNER MCAPI_ERR_ENDP_NOTOWNER
#define MCAPI_ECHAN_OPEN MCAPI_ERR_CHAN_OPEN
#define MCAPI_ECONNECTED MCAPI_ERR_CHAN_CONNECTED
#define MCAPI_ECHAN_TYPE MCAPI_ERR_CHAN_TYPE
#define MCAPI_EDIR MCAPI_ERR_CHAN_DIRECTION
#define MCAPI_ENOT_OPEN MCAPI_ERR_CHAN_NOTOPEN
#define MCAPI_ENOT_HANDLE MCAPI_ERR_CHAN_INVALID
#define MCAPI_EATTR_NUM MCAPI_ERR_ATTR_NUM
#define MCAPI_EATTR_SIZE MCAPI_ERR_ATTR_SIZE
#define MCAPI_EREAD_ONLY MCAPI_ERR_ATTR_READONLY
#define MCAPI_EATTR_INCOMP MCAPI_ERR_ATTR_INCOMPATIBLE
#define MCAPI_EMESS_LIMIT MCAPI_ERR_MSG_SIZE
#define MCAPI_ETRUNCATED MCAPI_ERR_MSG_TRUNCATED
#define MCAPI_EPACK_LIMIT MCAPI_ERR_PKT_SIZE
#define MCAPI_ENO_BUFFER MCAPI_ERR_MEM_LIMIT
#define MCAPI_ENO_MEM MCAPI_ERR_MEM_LIMIT
#define MCAPI_EPRIO MCAPI_ERR_PRIORITY
#define MCAPI_ENOT_VALID_BUF MCAPI_ERR_BUF_INVALID
#define MCAPI_ENO_REQUEST MCAPI_ERR_REQUEST_LIMIT
#define MCAPI_ENOTREQ_HANDLE MCAPI_ERR_REQUEST_INVALID
#define MCAPI_EREQ_CANCELED MCAPI_ERR_REQUEST_CANCELLED
#define MCAPI_EREQ_TIMEOUT MCAPI_TIMEOUT
#define MCAPI_EREQ_PENDING MCAPI_PENDING
#define MCAPI_ESCL_SIZE MCAPI_ERR_GENERAL
#define MCAPI_ENOT_CONNECTED MCAPI_ERR_GENERAL

#ifdef __cplusplus
}
#endif

#endif
