// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See common.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void fail(const char *what)
{
	fprintf(stderr, "FAILED: %s\n", what);
	exit(EXIT_FAILURE);
}

void check(const char *what, mcapi_status_t status)
{
	char name[MCAPI_MAX_STATUS_MSG_LEN];

	if (status == MCAPI_SUCCESS)
		return;
	fprintf(stderr, "FAILED: %s: %s\n", what,
		mcapi_display_status(status, name, sizeof(name)));
	exit(EXIT_FAILURE);
}

unsigned long number(const char *text, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (end == text || *end || value > most)
		fail("an argument makes no sense");
	return value;
}

const char *const kind_names[KINDS] = { "messages", "packets", "scalars" };

enum data_kind kind_of(const char *name)
{
	enum data_kind kind = MESSAGES;

	while (kind < KINDS && strcmp(name, kind_names[kind]) != 0)
		kind++;
	return kind;
}

void become(mcapi_node_t node)
{
	mcapi_status_t status;
	mcapi_info_t info;

	mcapi_initialize(DOMAIN, node, MCAPI_NULL, MCAPI_NULL, &info, &status);
	check("mcapi_initialize", status);
}

void check_begun(const char *what, mcapi_status_t status)
{
	if (status != MCAPI_PENDING)
		check(what, status);
}

void finish(const char *what, mcapi_request_t request)
{
	mcapi_status_t status;
	size_t size;

	mcapi_wait(&request, &size, PATIENCE_MS, &status);
	check(what, status);
}

mcapi_endpoint_t patient_endpoint(mcapi_port_t port)
{
	mcapi_endp_attr_timeout_t patience = PATIENCE_MS;
	mcapi_endpoint_t endpoint;
	mcapi_status_t status;

	endpoint = mcapi_endpoint_create(port, &status);
	check("mcapi_endpoint_create", status);
	mcapi_endpoint_set_attribute(endpoint, MCAPI_ENDP_ATTR_TIMEOUT, &patience,
		sizeof(patience), &status);
	check("mcapi_endpoint_set_attribute", status);
	return endpoint;
}

mcapi_endpoint_t found(mcapi_node_t node, mcapi_port_t port)
{
	mcapi_endpoint_t endpoint;
	mcapi_status_t status;

	endpoint = mcapi_endpoint_get(DOMAIN, node, port, PATIENCE_MS, &status);
	check("mcapi_endpoint_get", status);
	return endpoint;
}

double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}
