/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mcapi_abb.h - extensions of MCAPI 2.000 that let nodes start and end together
 *
 * A node says how far it is, and other nodes ask for that by mcapi_node_get_attribute(). What a node
 * may do does not depend on it. mcapi_node_collect(), mcapi_node_connect() and mcapi_node_disconnect()
 * are not here: the specification uses types for them that it does not define.
 */
#ifndef MCAPI_ABB_H
#define MCAPI_ABB_H

#include "mcapi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far a node is: an attribute that is only asked for, of any node. */
#define MCAPI_NODE_ATTR_STATE 64
typedef mcapi_uint_t mcapi_node_attr_state_t;
#define MCAPI_NODE_ATTR_STATE_INITIALIZED 0
#define MCAPI_NODE_ATTR_STATE_RUNNING 1
#define MCAPI_NODE_ATTR_STATE_RUNDOWN 2

/* As mcapi_initialize(). With MCAPI_FALSE the node is not running before mcapi_node_start(). */
extern void mcapi_initialize2(MCAPI_IN mcapi_domain_t domain_id, MCAPI_IN mcapi_node_t node_id,
	MCAPI_IN mcapi_node_attributes_t *mcapi_node_attributes,
	MCAPI_IN mcapi_param_t *mcapi_parameters, MCAPI_OUT mcapi_info_t *mcapi_info,
	MCAPI_IN mcapi_boolean_t start, MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_node_start(MCAPI_OUT mcapi_status_t *mcapi_status);
extern void mcapi_node_rundown(MCAPI_OUT mcapi_status_t *mcapi_status);

#ifdef __cplusplus
}
#endif

#endif
