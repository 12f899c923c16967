/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Asserts each constant, size and offset of the headers: compiles only if all of them are right.
 */

#include <mca.h>

#define GLUE(a, b) a##b
#define NAME(line) GLUE(assertion_, line)
#define HOLDS(condition) extern char NAME(__LINE__)[(condition) ? 1 : -1]
#define IS(constant, value) HOLDS((constant) == (value))
#define SIZE(type, size) HOLDS(sizeof(type) == (size))
#define AT(type, field, offset) HOLDS(offsetof(type, field) == (offset))

/* What mca.h has alone, ranges of numbers of attributes among it. */
IS(MCA_TRUE, 1);
IS(MCA_FALSE, 0);
IS(MCA_NULL, 0);
IS(MCA_INFINITE, 4294967295U);
IS(MCA_RETURN_VALUE_INVALID, 4294967295U);
IS(MCA_NODE_INVALID, 4294967295U);
IS(MCA_DOMAIN_INVALID, 4294967295U);
IS(MCA_ORG_ID_PSI, 0);
IS(MCA_ORG_ID_FSL, 1);
IS(MCA_ORG_ID_MGC, 2);
IS(MCA_ORG_ID_TBA, 3);
IS(MCAPI_MAX_NUM_ENDP_ATTRS_MCA, 64);
IS(MCAPI_MAX_NUM_ENDP_ATTRS_OTHER, 32);
IS(mcapi_start_endp_attribute(0), 64);
IS(mcapi_end_endp_attribute(0), 96);
IS(mcapi_start_endp_attribute(1 + 1), 128);
IS(mcapi_end_endp_attribute(1 + 1), 160);

#include <mcapi.h>

/* Constants. */
IS(MCAPI_VERSION, 2000);
IS(MCAPI_TRUE, 1);
IS(MCAPI_FALSE, 0);
IS(MCAPI_NULL, 0);
IS(MCAPI_PORT_ANY, 4294967295U);
IS(MCAPI_TIMEOUT_INFINITE, 4294967295U);
IS(MCAPI_INFINITE, 4294967295U);
IS(MCAPI_TIMEOUT_IMMEDIATE, 0);
IS(MCAPI_NODE_INVALID, 4294967295U);
IS(MCAPI_DOMAIN_INVALID, 4294967295U);
IS(MCAPI_RETURN_VALUE_INVALID, 4294967295U);
IS(MCAPI_MAX_PRORITY, 0);
IS(MCAPI_MAX_PRIORITY, 0);
IS(MCAPI_MAX_STATUS_MSG_LEN, 32);
IS(MCAPI_MAX_STATUS_SIZE, 32);

/* Statuses. */
IS(MCAPI_SUCCESS, 1);
IS(MCAPI_PENDING, 2);
IS(MCAPI_TIMEOUT, 3);
IS(MCAPI_ERR_PARAMETER, 4);
IS(MCAPI_ERR_DOMAIN_INVALID, 5);
IS(MCAPI_ERR_NODE_INVALID, 6);
IS(MCAPI_ERR_NODE_INITFAILED, 7);
IS(MCAPI_ERR_NODE_INITIALIZED, 8);
IS(MCAPI_ERR_NODE_NOTINIT, 9);
IS(MCAPI_ERR_NODE_FINALFAILED, 10);
IS(MCAPI_ERR_PORT_INVALID, 11);
IS(MCAPI_ERR_ENDP_INVALID, 12);
IS(MCAPI_ERR_ENDP_EXISTS, 13);
IS(MCAPI_ERR_ENDP_GET_LIMIT, 14);
IS(MCAPI_ERR_ENDP_DELETED, 15);
IS(MCAPI_ERR_ENDP_NOTOWNER, 16);
IS(MCAPI_ERR_ENDP_REMOTE, 17);
IS(MCAPI_ERR_ATTR_INCOMPATIBLE, 18);
IS(MCAPI_ERR_ATTR_SIZE, 19);
IS(MCAPI_ERR_ATTR_NUM, 20);
IS(MCAPI_ERR_ATTR_VALUE, 21);
IS(MCAPI_ERR_ATTR_NOTSUPPORTED, 22);
IS(MCAPI_ERR_ATTR_READONLY, 23);
IS(MCAPI_ERR_MSG_SIZE, 24);
IS(MCAPI_ERR_MSG_TRUNCATED, 25);
IS(MCAPI_ERR_CHAN_OPEN, 26);
IS(MCAPI_ERR_CHAN_TYPE, 27);
IS(MCAPI_ERR_CHAN_DIRECTION, 28);
IS(MCAPI_ERR_CHAN_CONNECTED, 29);
IS(MCAPI_ERR_CHAN_OPENPENDING, 30);
IS(MCAPI_ERR_CHAN_CLOSEPENDING, 31);
IS(MCAPI_ERR_CHAN_NOTOPEN, 32);
IS(MCAPI_ERR_CHAN_INVALID, 33);
IS(MCAPI_ERR_PKT_SIZE, 34);
IS(MCAPI_ERR_TRANSMISSION, 35);
IS(MCAPI_ERR_PRIORITY, 36);
IS(MCAPI_ERR_BUF_INVALID, 37);
IS(MCAPI_ERR_MEM_LIMIT, 38);
IS(MCAPI_ERR_REQUEST_INVALID, 39);
IS(MCAPI_ERR_REQUEST_LIMIT, 40);
IS(MCAPI_ERR_REQUEST_CANCELLED, 41);
IS(MCAPI_ERR_WAIT_PENDING, 42);
IS(MCAPI_ERR_GENERAL, 43);
IS(MCAPI_STATUSCODE_END, 44);
IS(MCAPI_ERR_ENDP_GET_INVALID, 14);

/* Attributes of nodes. */
IS(MCAPI_NODE_ATTR_TYPE, 0);
IS(MCAPI_NODE_ATTR_END, 1);
IS(MCAPI_NODE_ATTR_TYPE_REGULAR, 0);
IS(MCAPI_NODE_ATTR_TYPE_END, 1);

/* Attributes of endpoints, their types and values. */
IS(MCAPI_ENDP_ATTR_TYPE, 0);
IS(MCAPI_ENDP_ATTR_GET_COUNT, 1);
IS(MCAPI_ENDP_ATTR_GET_SOURCE, 2);
IS(MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE, 3);
IS(MCAPI_ENDP_ATTR_BUFFER_TYPE, 4);
IS(MCAPI_ENDP_ATTR_MEMORY_TYPE, 5);
IS(MCAPI_ENDP_ATTR_NUM_PRIORITIES, 6);
IS(MCAPI_ENDP_ATTR_PRIORITY, 7);
IS(MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS, 8);
IS(MCAPI_ENDP_ATTR_NUM_RECV_BUFFERS, 9);
IS(MCAPI_ENDP_ATTR_STATUS, 10);
IS(MCAPI_ENDP_ATTR_TIMEOUT, 11);
IS(MCAPI_ENDP_ATTR_END, 12);
IS(MCAPI_ENDP_ATTR_ENDP_STATUS, 10);
SIZE(mcapi_endp_attr_type_t, 4);
SIZE(mcapi_endp_attr_get_count_t, 4);
SIZE(mcapi_endp_attr_get_source_t, 8);
SIZE(mcapi_endp_attr_max_payload_size_t, 4);
SIZE(mcapi_endp_attr_buffer_type_t, 4);
SIZE(mcapi_endp_attr_memory_type_t, 4);
SIZE(mcapi_endp_attr_num_priorities_t, 4);
SIZE(mcapi_endp_attr_priority_t, 4);
SIZE(mcapi_endp_attr_num_send_buffers_t, 4);
SIZE(mcapi_endp_attr_num_recv_buffers_t, 4);
SIZE(mcapi_endp_attr_status_t, 4);
SIZE(mcapi_endp_attr_timeout_t, 4);
IS(MCAPI_ENDP_ATTR_TYPE_MESSAGE, 1);
IS(MCAPI_ENDP_ATTR_TYPE_PKTCHAN, 2);
IS(MCAPI_ENDP_ATTR_TYPE_SCLCHAN, 4);
IS(MCAPI_ENDP_ATTR_FIFO_BUFFER, 0);
IS(MCAPI_ENDP_ATTR_STATE_BUFFER, 1);
IS(MCAPI_ENDP_ATTR_LOCAL_MEMORY, 0);
IS(MCAPI_ENDP_ATTR_SHARED_MEMORY, 1);
IS(MCAPI_ENDP_ATTR_REMOTE_MEMORY, 2);
IS(MCAPI_ENDP_ATTR_BLOCK_ON_MEM_LIMIT, 0x00000000);
IS(MCAPI_ENDP_ATTR_FAIL_ON_MEM_LIMIT, 0x00010000);
IS(MCAPI_ENDP_ATTR_STATUS_CONNECTED, 0x0001);
IS(MCAPI_ENDP_ATTR_STATUS_OPEN, 0x0002);
IS(MCAPI_ENDP_ATTR_STATUS_OPEN_PENDING, 0x0004);
IS(MCAPI_ENDP_ATTR_STATUS_CLOSE_PENDING, 0x0008);
IS(MCAPI_ENDP_ATTR_STATUS_PKTCHAN, 0x0010);
IS(MCAPI_ENDP_ATTR_STATUS_SCLCHAN, 0x0020);
IS(MCAPI_ENDP_ATTR_STATUS_SEND, 0x0040);
IS(MCAPI_ENDP_ATTR_STATUS_RECEIVE, 0x0080);
IS(MCAPI_ENDP_ATTR_STATUS_GET_PENDING, 0x0100);

/* Limits of this implementation. */
IS(MCAPI_NUM_RESERVED_PORTS, 0);
IS(MCAPI_MIN_PORT, 0);
IS(MCAPI_MAX_PORT, 65534);
IS(MCAPI_MAX_DOMAIN, 65535);
IS(MCAPI_MAX_NODE, 32767);
IS(MCAPI_MAX_MESSAGE_SIZE, 65536);
IS(MCAPI_MAX_PACKET_SIZE, 65536);
IS(MCAPI_MIN_PRORITY, 7);
IS(MCAPI_MIN_PRIORITY, 7);
IS(MCAPI_BUF_ALIGN, 64);
IS(MCAPI_PARAM_MAGIC, 0x4D435031);
IS(MCAPI_PARAM_STRICT, 1);

/* Types. */
SIZE(mca_int_t, 4);
SIZE(mcapi_int_t, 4);
SIZE(mca_int8_t, 1);
SIZE(mcapi_int8_t, 1);
SIZE(mca_int16_t, 2);
SIZE(mcapi_int16_t, 2);
SIZE(mca_int32_t, 4);
SIZE(mcapi_int32_t, 4);
SIZE(mca_int64_t, 8);
SIZE(mcapi_int64_t, 8);
SIZE(mca_uint_t, 4);
SIZE(mcapi_uint_t, 4);
SIZE(mca_uint8_t, 1);
SIZE(mcapi_uint8_t, 1);
SIZE(mca_uint16_t, 2);
SIZE(mcapi_uint16_t, 2);
SIZE(mca_uint32_t, 4);
SIZE(mcapi_uint32_t, 4);
SIZE(mca_uint64_t, 8);
SIZE(mcapi_uint64_t, 8);
SIZE(mca_boolean_t, 1);
SIZE(mcapi_boolean_t, 1);
SIZE(mca_domain_t, 4);
SIZE(mcapi_domain_t, 4);
SIZE(mca_node_t, 4);
SIZE(mcapi_node_t, 4);
SIZE(mca_status_t, 4);
SIZE(mcapi_status_t, 4);
SIZE(mca_timeout_t, 4);
SIZE(mcapi_timeout_t, 4);
SIZE(mca_request_t, 4);
SIZE(mcapi_port_t, 4);
SIZE(mcapi_priority_t, 4);
SIZE(mcapi_endpoint_t, 8);
SIZE(mcapi_request_t, 4);
SIZE(mcapi_pktchan_recv_hndl_t, 4);
SIZE(mcapi_pktchan_send_hndl_t, 4);
SIZE(mcapi_sclchan_recv_hndl_t, 4);
SIZE(mcapi_sclchan_send_hndl_t, 4);
SIZE(mcapi_node_attr_type_t, 4);
SIZE(mcapi_info_t, 32);
SIZE(impl_info_t, 8);
SIZE(mcapi_param_t, 64);
SIZE(mcapi_node_attributes_t, 136);
SIZE(mcapi__endp_attr_range_t, 12);
IS((mca_int8_t)-1 < 0, 1);
IS((mcapi_int_t)-1 < 0, 1);
IS((mcapi_int64_t)-1 < 0, 1);
IS((mca_uint8_t)-1 > 0, 1);
IS((mcapi_port_t)-1 > 0, 1);
IS((mcapi_status_t)-1 > 0, 1);
IS((mcapi_timeout_t)-1 > 0, 1);
IS((mcapi_boolean_t)-1 > 0, 1);

/* Structures. */
AT(mcapi_info_t, mcapi_version, 0);
AT(mcapi_info_t, organization_id, 4);
AT(mcapi_info_t, implementation_version, 8);
AT(mcapi_info_t, number_of_domains, 12);
AT(mcapi_info_t, number_of_nodes, 16);
AT(mcapi_info_t, number_of_ports, 20);
AT(mcapi_info_t, impl_info, 24);
AT(mcapi_endp_attr_get_source_t, domain_id, 0);
AT(mcapi_endp_attr_get_source_t, node_id, 4);
AT(mcapi__endp_attr_range_t, organization_id, 0);
AT(mcapi__endp_attr_range_t, start_endp_attr_num, 4);
AT(mcapi__endp_attr_range_t, end_endp_attr_num, 8);

#include <mcapi_abb.h>

/* Extensions. */
IS(MCAPI_NODE_ATTR_STATE, 64);
IS(MCAPI_NODE_ATTR_STATE_INITIALIZED, 0);
IS(MCAPI_NODE_ATTR_STATE_RUNNING, 1);
IS(MCAPI_NODE_ATTR_STATE_RUNDOWN, 2);
SIZE(mcapi_node_attr_state_t, 4);

/* Names of enumerations, and what may be empty. */
SIZE(enum mcapi_status_codes, 4);
SIZE(enum mcapi_node_attribute_numbers, 4);
SIZE(enum mcapi_node_attribute_types, 4);
SIZE(enum mcapi_endp_attribute_numbers, 4);
SIZE(enum mcapi_buffer_type, 4);
SIZE(enum mcapi_memory_type, 4);
extern char MCAPI_DECL_ALIGNED aligned[64];
extern char MCA_DECL_ALIGNED as_well[64];
extern void pointers(MCAPI_IN char *read, MCAPI_OUT char *written);
extern void others(MCA_IN char *read, MCA_OUT char *written);
