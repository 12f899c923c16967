/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Passes handles by value, compares them and asks for aligned memory, as programs in C and in C++ do.
 * Needs no function of the library. Prints what differs, and fails then.
 */

#define _POSIX_C_SOURCE 200112L
#include <mcapi.h>

#include <stdio.h>
#include <stdlib.h>

/* What declarations are aligned to at least. */
#define ALIGNMENT 32

static int failures;

static void check(const char *what, int is_good)
{
	if (!is_good) {
		printf("%s\n", what);
		failures++;
	}
}

#define IS(condition) check(#condition, condition)

/* A type of handles: numbers near the ends of its range stay what they are and differ. */
#define TYPE(name) \
	struct name##_pair { \
		name first, second; \
	}; \
	static name name##_passed(name value) \
	{ \
		return value; \
	} \
	static void name##_compares(void) \
	{ \
		struct name##_pair one, copy; \
		\
		one.first = (name)1; \
		one.second = (name)-1; \
		copy = one; \
		check(#name " is equal to itself", name##_passed(copy.first) == one.first && \
			name##_passed(copy.second) == one.second); \
		check(#name " differs from others", one.first != copy.second && \
			!(name##_passed(one.first) == one.second)); \
	}

TYPE(mcapi_endpoint_t)
TYPE(mcapi_request_t)
TYPE(mcapi_pktchan_recv_hndl_t)
TYPE(mcapi_pktchan_send_hndl_t)
TYPE(mcapi_sclchan_recv_hndl_t)
TYPE(mcapi_sclchan_send_hndl_t)

/* How far an address is from the alignment before it. */
static size_t offset(const void *address, size_t alignment)
{
	return (size_t)address % alignment;
}

/* Where declarations may be aligned: of variables and arrays, in structures, and on the stack. */
static char MCAPI_DECL_ALIGNED array[3];
static struct {
	char before;
	mcapi_uint8_t buffer[5] MCAPI_DECL_ALIGNED;
} inside;

static void declarations(void)
{
	mcapi_uint64_t scalar MCAPI_DECL_ALIGNED = 1;
	char local[7] MCA_DECL_ALIGNED;

	local[0] = array[0];
	IS(offset(array, ALIGNMENT) == 0);
	IS(offset(inside.buffer, ALIGNMENT) == 0);
	IS(offset(&scalar, ALIGNMENT) == 0);
	IS(offset(local, ALIGNMENT) == 0);
}

static void allocations(void)
{
	void *buffer = MCAPI_NULL;

	IS(MCAPI_BUF_ALIGN % sizeof(void *) == 0 && MCAPI_BUF_ALIGN % ALIGNMENT == 0);
	IS(posix_memalign(&buffer, MCAPI_BUF_ALIGN, MCAPI_MAX_PACKET_SIZE) == 0);
	IS(offset(buffer, MCAPI_BUF_ALIGN) == 0);
	free(buffer);
}

int main(void)
{
	mcapi_endpoint_t_compares();
	mcapi_request_t_compares();
	mcapi_pktchan_recv_hndl_t_compares();
	mcapi_pktchan_send_hndl_t_compares();
	mcapi_sclchan_recv_hndl_t_compares();
	mcapi_sclchan_send_hndl_t_compares();
	declarations();
	allocations();
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
