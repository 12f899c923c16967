/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the examples have in common: becoming a node, and an end when something fails.
 */
#ifndef COMMON_H
#define COMMON_H

#include <mcapi.h>

#define DOMAIN 0		/* of all nodes; mcapi.conf(5) says which hosts it is on */
#define PATIENCE_MS 30000	/* how long another node may take to be there */

/* Ends the program unless it is MCAPI_SUCCESS; says what has failed. */
void check(const char *what, mcapi_status_t status);

/* Ends the program with a message. */
void fail(const char *what);

/* A number of a command line, up to a limit. */
unsigned long number(const char *text, unsigned long most);

/* In what way data is sent; KINDS is none. */
enum data_kind { MESSAGES, PACKETS, SCALARS, KINDS };

extern const char *const kind_names[KINDS];

/* The kind of a name; KINDS if there is none. */
enum data_kind kind_of(const char *name);

/* Becomes a node. */
void become(mcapi_node_t node);

/* Ends the program unless an operation has begun, or is complete already. */
void check_begun(const char *what, mcapi_status_t status);

/* Waits until an operation is complete. */
void finish(const char *what, mcapi_request_t request);

/* An endpoint that waits no longer than PATIENCE_MS for a message. */
mcapi_endpoint_t patient_endpoint(mcapi_port_t port);

/* The endpoint of another node, once there is one. */
mcapi_endpoint_t found(mcapi_node_t node, mcapi_port_t port);

/* Microseconds. */
double now_us(void);

#endif /* COMMON_H */
