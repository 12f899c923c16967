/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Everything in pximc.h, to be compiled as C and as C++ of any age: the value of each constant,
 * the type of each function, and a switch over statuses.
 */

#include "statuses.h"

#define CHECK(name, value) \
	typedef char check_##name[(name) == (value) ? 1 : -1]

CHECK(PXIMC_SPEC_VERSION, 65536);
CHECK(_PXIMC_STR_BASE, 268435456);
CHECK(_PXIMC_U8_BASE, 536870912);
CHECK(_PXIMC_U32_BASE, 805306368);
CHECK(_PXIMC_U64_BASE, 1073741824);
CHECK(PXIMC_STR_MANF_NAME, 268435457);
CHECK(PXIMC_STR_MODEL_NAME, 268435458);
CHECK(PXIMC_STR_SERIAL_NUM, 268435459);
CHECK(PXIMC_STR_LOG_DATA, 268435460);
CHECK(PXIMC_STR_INTERFACE_NAME, 268435461);
CHECK(PXIMC_STR_REMOTE_OS, 268435462);
CHECK(PXIMC_U32_PROTOCOL_VERSION, 805306369);
CHECK(PXIMC_U32_MANF_ID, 805306370);
CHECK(PXIMC_U32_INTERFACE_STATE, 805306371);
CHECK(PXIMC_U32_INTERFACE_DEVICE_ID, 805306372);
CHECK(PXIMC_U32_INTERFACE_VENDOR_ID, 805306373);
CHECK(PXIMC_U32_INTERFACE_SS_ID, 805306374);
CHECK(PXIMC_U32_INTERFACE_SS_VENDOR_ID, 805306375);
CHECK(PXIMC_U32_INTERFACE_BUS, 805306376);
CHECK(PXIMC_U32_INTERFACE_DEV, 805306377);
CHECK(PXIMC_U32_INTERFACE_FUNC, 805306378);
CHECK(PXIMC_U32_INTERFACE_LOCAL, 805306379);
CHECK(PXIMC_U32_REMOTE_ENDIANNESS, 805306380);
CHECK(PXIMC_U32_REMOTE_WORD_SIZE, 805306381);
CHECK(PXIMC_STATE_UP, 1);
CHECK(PXIMC_STATE_DOWN, 2);
CHECK(PXIMC_LOCAL, 1);
CHECK(PXIMC_REMOTE, 2);
CHECK(PXIMC_EVENT_INTERFACE_STATE_CHANGE, 1);
CHECK(PXIMC_EVENT_WINDOW_STATE_CHANGE, 2);
CHECK(PXIMC_U8_WINDOW_DATA, 536870913);
CHECK(PXIMC_U32_WINDOW_CONNECTION_TYPE, 805306369);
CHECK(PXIMC_U32_WINDOW_LOCATION_TYPE, 805306370);
CHECK(PXIMC_U32_WINDOW_PROTOCOL_NUMBER, 805306371);
CHECK(PXIMC_U32_WINDOW_PAIRING_STATE, 805306372);
CHECK(PXIMC_U32_SESSION_EVENT_STATUS, 805306373);
CHECK(PXIMC_U64_WINDOW_MIN_REMOTE_SIZE, 1073741825);
CHECK(PXIMC_U64_WINDOW_MAX_REMOTE_SIZE, 1073741826);
CHECK(PXIMC_U64_WINDOW_MIN_LOCAL_SIZE, 1073741827);
CHECK(PXIMC_U64_WINDOW_MAX_LOCAL_SIZE, 1073741828);
CHECK(PXIMC_CONNECTION_SERVER, 1);
CHECK(PXIMC_CONNECTION_CLIENT, 2);
CHECK(PXIMC_CONNECTION_PEER, 3);
CHECK(PXIMC_LOCATION_LOGICAL, 1);
CHECK(PXIMC_LOCATION_PHYSICAL, 2);
CHECK(PXIMC_WINDOW_PAIRED, 1);
CHECK(PXIMC_WINDOW_UNPAIRED, 2);
CHECK(PXIMC_WINDOW_REMOTE_EVENT_PENDING, 1);
CHECK(PXIMC_WINDOW_REMOTE_SESSION_WAITING, 2);
CHECK(PXIMC_WINDOW_LOCAL_EVENT_PENDING, 4);
CHECK(PXIMC_WINDOW_LOCAL_SESSION_WAITING, 8);
CHECK(PXIMC_MAXIMUM_WINDOW_SIZE, 18446744073709551615ULL);
CHECK(PXIMC_TIMEOUT_INFINITE, 4294967295U);
CHECK(PXIMC_DEVICE_ACCESS_READ, 1);
CHECK(PXIMC_DEVICE_ACCESS_WRITE, 2);
CHECK(PXIMC_DEVICE_ACCESS_CLEAR_ALL, 2147483648U);
CHECK(PXIMC_EVENT_ASSERTED, 1);
CHECK(PXIMC_EVENT_CONNECTION_CLOSED, 2);
CHECK(PXIMC_EVENT_INTERFACE_DOWN, 3);
CHECK(_PXIMC_ERROR_BASE, (-2147483647 - 1));
CHECK(_PXIMC_WARNING_BASE, 268435456);
CHECK(PXIMC_SUCCESS, 0);
CHECK(PXIMC_INSUFFICIENT_SPACE, -2147479552);
CHECK(PXIMC_INVALID_INTERFACE, -2147479551);
CHECK(PXIMC_INTERFACE_DOWN, -2147479550);
CHECK(PXIMC_NSUP_ATTRIBUTE, -2147479549);
CHECK(PXIMC_INVALID_ARGUMENT, -2147479548);
CHECK(PXIMC_SPACE_NOT_AVAILABLE, -2147479547);
CHECK(PXIMC_UID_CONFLICT, -2147479546);
CHECK(PXIMC_NO_PAIRING, -2147479545);
CHECK(PXIMC_PHY_RESOURCE_NOT_AVAILABLE, -2147479544);
CHECK(PXIMC_INVALID_SESSION, -2147479543);
CHECK(PXIMC_NO_WINDOW, -2147479542);
CHECK(PXIMC_SESSION_CLOSED, -2147479541);
CHECK(PXIMC_INVALID_WINDOW, -2147479540);
CHECK(PXIMC_INVALID_RESOURCE, -2147479539);
CHECK(PXIMC_ALIGNMENT_ERROR, -2147479538);
CHECK(PXIMC_NO_PROVIDER, 268439552);
CHECK(PXIMC_TIMEOUT, 268439553);

/* Errors are negative ints also where a status has been widened. */
typedef char check_sign[(PXIMC_ALIGNMENT_ERROR) < 0 ? 1 : -1];
typedef char check_width[(long long)(PXIMC_TIMEOUT) == 268439553 ? 1 : -1];
typedef char check_size[sizeof(tPXIMC_Status) == 4 && sizeof(PXIMC_MAXIMUM_WINDOW_SIZE) == 8 ? 1 : -1];
typedef char check_serial[(PXIMC_STR_SERIAL_NAME) == (PXIMC_STR_SERIAL_NUM) ? 1 : -1];
typedef char check_event[(PXIMC_U32_WINDOW_EVENT_STATUS) == (PXIMC_U32_SESSION_EVENT_STATUS) ? 1 : -1];

/* A conversion that does not fit is an error. */
struct functions {
	int32_t (*find)(uint32_t a, uint32_t *b, uint32_t *c);
	int32_t (*query)(uint32_t a, uint32_t b, uint32_t c, void *d, uint32_t *e);
	int32_t (*wait_interface)(uint32_t a, uint32_t b, uint32_t *c);
	int32_t (*windows)(uint32_t a, uint32_t b, uint32_t *c, uint32_t *d);
	int32_t (*window)(uint32_t a, uint32_t b, uint32_t c, uint32_t d, void *e, uint32_t *f);
	int32_t (*server)(uint32_t a, uint32_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
				uint32_t g, const uint8_t *h, uint32_t i, uint32_t *j);
	int32_t (*client)(uint32_t a, uint32_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
				uint32_t g, uint32_t *h);
	int32_t (*peer)(uint32_t a, uint32_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
			      uint32_t g, const uint8_t *h, uint32_t i, uint32_t *j);
	int32_t (*physical_server)(uint32_t a, uint32_t b, uint64_t c, uint32_t d, uint64_t e,
					 const uint8_t *f, uint32_t g, uint32_t *h);
	int32_t (*physical_client)(uint32_t a, uint32_t b, uint64_t c, uint64_t d, uint32_t e,
					 uint32_t *f);
	int32_t (*connection)(uint32_t a, uint32_t b, void **c, uint64_t *d, void **e, uint64_t *f);
	int32_t (*address)(uint32_t a, uint64_t *b);
	int32_t (*access)(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e);
	int32_t (*assert_event)(uint32_t a);
	int32_t (*wait_session)(uint32_t a, uint32_t b, uint32_t *c);
	int32_t (*close_window)(uint32_t a);
	int32_t (*cleanup)(void);
};

static const struct functions functions = {
	PXIMC_findInterfaces,
	PXIMC_queryInterfaceInformation,
	PXIMC_waitForInterfaceEvent,
	PXIMC_findWindows,
	PXIMC_queryWindowInformation,
	PXIMC_requestWindowLogicalAsServer,
	PXIMC_requestWindowLogicalAsClient,
	PXIMC_requestWindowLogicalAsPeer,
	PXIMC_requestWindowPhysicalAsServer,
	PXIMC_requestWindowPhysicalAsClient,
	PXIMC_waitForConnection,
	PXIMC_getPhysicalAddress,
	PXIMC_enableDeviceAccess,
	PXIMC_assertEvent,
	PXIMC_waitForSessionEvent,
	PXIMC_closeWindow,
	PXIMC_cleanup
};

int main(void)
{
	return functions.cleanup && status_name(PXIMC_SUCCESS) ? 0 : 1;
}
