/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mca.h - types and constants that interfaces of the Multicore Association have in common
 *
 * Types and status only: there are no functions of this family.
 */
#ifndef MCA_H
#define MCA_H

#include <stddef.h>

#include "mca_impl_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int mca_int_t;
typedef signed char mca_int8_t;
typedef short mca_int16_t;
typedef int mca_int32_t;
__extension__ typedef long long mca_int64_t;
typedef unsigned int mca_uint_t;
typedef unsigned char mca_uint8_t;
typedef unsigned short mca_uint16_t;
typedef unsigned int mca_uint32_t;
__extension__ typedef unsigned long long mca_uint64_t;
typedef unsigned char mca_boolean_t;
typedef unsigned int mca_domain_t;
typedef unsigned int mca_node_t;
typedef unsigned int mca_status_t;
typedef unsigned int mca_timeout_t;

#define MCA_TRUE 1
#define MCA_FALSE 0
#define MCA_NULL 0
#define MCA_INFINITE (~0U)
#define MCA_RETURN_VALUE_INVALID (~0U)
#define MCA_NODE_INVALID (~0U)
#define MCA_DOMAIN_INVALID (~0U)

/* What a function does with an argument. */
#ifndef MCA_IN
#define MCA_IN const
#endif
#ifndef MCA_OUT
#define MCA_OUT
#endif

/* Numbers of organisations. */
#define MCA_ORG_ID_PSI 0
#define MCA_ORG_ID_FSL 1
#define MCA_ORG_ID_MGC 2
#define MCA_ORG_ID_TBA 3

/*
 * Numbers of attributes of endpoints: the first 64 are the specification's, and each organisation
 * has 32 more. The macros give the first number of the range x, and the one after its last.
 */
#define MCAPI_MAX_NUM_ENDP_ATTRS_MCA 64
#define MCAPI_MAX_NUM_ENDP_ATTRS_OTHER 32
#define mcapi_start_endp_attribute(x) \
	(MCAPI_MAX_NUM_ENDP_ATTRS_MCA + (x) * MCAPI_MAX_NUM_ENDP_ATTRS_OTHER)
#define mcapi_end_endp_attribute(x) \
	(MCAPI_MAX_NUM_ENDP_ATTRS_MCA + ((x) + 1) * MCAPI_MAX_NUM_ENDP_ATTRS_OTHER)

#ifdef __cplusplus
}
#endif

#endif
