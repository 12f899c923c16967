/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pximc.h - the interface of PXImc, PXI MultiComputing, revision 1.1
 *
 * Programs include it, are linked to the Dispatcher (libpximc64, or libpximc32 for 32-bit
 * processes) and reach the bridges of all vendors. The manual page pximc(3) has examples; ids
 * like PXI-FI-6 are those of Documentation/conformance/pximc.md.
 *
 * Names and numbers are those of the specification. Statuses are negative ints where the number
 * tells of an error, so that they compare equal to a tPXIMC_Status of any width and may stand in
 * a switch in C and in C++. What does not fit into an int is a macro.
 *
 * All functions may be called by any number of threads at once. Sizes are bytes, times
 * milliseconds. Everything is in the byte order of the calling processor. Memory for outputs is
 * the caller's.
 */
#ifndef __pximc_h__
#define __pximc_h__

#if defined(__GNUC__)
#include <stdint.h>
#if __STDC_HOSTED__
#include <limits.h>
#include <sys/types.h>
#endif
#define _PXIMC_FUNC
#else
#error "pximc.h needs a compiler that is compatible with GCC"
#endif

#ifndef UINT64_MAX
#define UINT64_MAX 18446744073709551615ULL
#endif
#ifndef UINT32_MAX
#define UINT32_MAX 0xFFFFFFFFU
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returned by all functions: 0 success, negative an error, positive a warning (PXI-GEN-6). */
typedef int32_t tPXIMC_Status;

enum {
	/* Major revision << 16 | minor one; revision 1.1 has kept that of 1.0. */
	PXIMC_SPEC_VERSION = 0x00010000
};

/* Attributes by the type of their values; those of vendors begin at 0xF0000000 (PXI-QI-5). */
enum {
	_PXIMC_STR_BASE = 0x10000000,	/* text of 0x20..0x7E that ends in NUL, which counts */
	_PXIMC_U8_BASE = 0x20000000,	/* bytes */
	_PXIMC_U32_BASE = 0x30000000,	/* uint32_t, to a multiple of 4 */
	_PXIMC_U64_BASE = 0x40000000	/* uint64_t, to a multiple of 8 */
};

/*
 * Attributes of interfaces, for PXIMC_queryInterfaceInformation. The numbers are of another kind
 * than those of windows below, although some are equal.
 */
enum ePXIMC_QueryInterfaceInformation_StrAttribute {
	/* All of them are optional. */
	PXIMC_STR_MANF_NAME = _PXIMC_STR_BASE + 0x1,	/* who has made the Logic Block */
	PXIMC_STR_MODEL_NAME = _PXIMC_STR_BASE + 0x2,
	PXIMC_STR_SERIAL_NUM = _PXIMC_STR_BASE + 0x3,
	PXIMC_STR_LOG_DATA = _PXIMC_STR_BASE + 0x4,
	PXIMC_STR_INTERFACE_NAME = _PXIMC_STR_BASE + 0x5,
	PXIMC_STR_REMOTE_OS = _PXIMC_STR_BASE + 0x6
};

enum ePXIMC_QueryInterfaceInformation_U32Attribute {
	/* Every interface has the first three (PXI-QI-3). */
	PXIMC_U32_PROTOCOL_VERSION = _PXIMC_U32_BASE + 0x1,	/* PXIMC_SPEC_VERSION */
	PXIMC_U32_MANF_ID = _PXIMC_U32_BASE + 0x2,		/* PCI vendor id, 16 bits */
	PXIMC_U32_INTERFACE_STATE = _PXIMC_U32_BASE + 0x3,	/* PXIMC_STATE_* */
	/* The local end as a PCI device. */
	PXIMC_U32_INTERFACE_DEVICE_ID = _PXIMC_U32_BASE + 0x4,
	PXIMC_U32_INTERFACE_VENDOR_ID = _PXIMC_U32_BASE + 0x5,
	PXIMC_U32_INTERFACE_SS_ID = _PXIMC_U32_BASE + 0x6,
	PXIMC_U32_INTERFACE_SS_VENDOR_ID = _PXIMC_U32_BASE + 0x7,
	PXIMC_U32_INTERFACE_BUS = _PXIMC_U32_BASE + 0x8,
	PXIMC_U32_INTERFACE_DEV = _PXIMC_U32_BASE + 0x9,
	PXIMC_U32_INTERFACE_FUNC = _PXIMC_U32_BASE + 0xA,
	/* Where the hardware is: PXIMC_LOCAL or PXIMC_REMOTE. */
	PXIMC_U32_INTERFACE_LOCAL = _PXIMC_U32_BASE + 0xB,
	/* 0x78563412 if the other system is little-endian, 0x12345678 if it is big-endian. */
	PXIMC_U32_REMOTE_ENDIANNESS = _PXIMC_U32_BASE + 0xC,
	PXIMC_U32_REMOTE_WORD_SIZE = _PXIMC_U32_BASE + 0xD	/* bits: 32 or 64 */
};

enum ePXIMC_QueryInterfaceInformation_InterfaceState {
	PXIMC_STATE_UP = 1,	/* both ends are ready and reach each other (PXI-QI-11) */
	PXIMC_STATE_DOWN = 2
};

enum ePXIMC_QueryInterfaceInformation_InterfaceLocal {
	PXIMC_LOCAL = 1,
	PXIMC_REMOTE = 2
};

/* Bits of what PXIMC_waitForInterfaceEvent returns; there may be several. */
enum ePXIMC_WaitForInterfaceEvent_ReasonCode {
	PXIMC_EVENT_INTERFACE_STATE_CHANGE = 0x1,	/* query PXIMC_U32_INTERFACE_STATE */
	PXIMC_EVENT_WINDOW_STATE_CHANGE = 0x2		/* call PXIMC_findWindows */
};

/*
 * Attributes of windows, for PXIMC_queryWindowInformation: what the other system has passed to
 * its request (PXI-QW-1). "Local" and "remote" are as that system sees it.
 */
enum ePXIMC_QueryWindowInformation_U8Attribute {
	PXIMC_U8_WINDOW_DATA = _PXIMC_U8_BASE + 0x1	/* 0..1024 bytes */
};

enum ePXIMC_QueryWindowInformation_U32Attribute {
	PXIMC_U32_WINDOW_CONNECTION_TYPE = _PXIMC_U32_BASE + 0x1,	/* PXIMC_CONNECTION_* */
	PXIMC_U32_WINDOW_LOCATION_TYPE = _PXIMC_U32_BASE + 0x2,		/* PXIMC_LOCATION_* */
	PXIMC_U32_WINDOW_PROTOCOL_NUMBER = _PXIMC_U32_BASE + 0x3,
	PXIMC_U32_WINDOW_PAIRING_STATE = _PXIMC_U32_BASE + 0x4,		/* PXIMC_WINDOW_*PAIRED */
	/* Optional: PXIMC_WINDOW_*_PENDING, _WAITING. "Local" is the system that asks. */
	PXIMC_U32_SESSION_EVENT_STATUS = _PXIMC_U32_BASE + 0x5
};

/* Smallest and largest size; of a paired window, both are its size (PXI-QW-12, PXI-QW-13). */
enum ePXIMC_QueryWindowInformation_U64Attribute {
	PXIMC_U64_WINDOW_MIN_REMOTE_SIZE = _PXIMC_U64_BASE + 0x1,
	PXIMC_U64_WINDOW_MAX_REMOTE_SIZE = _PXIMC_U64_BASE + 0x2,
	PXIMC_U64_WINDOW_MIN_LOCAL_SIZE = _PXIMC_U64_BASE + 0x3,
	PXIMC_U64_WINDOW_MAX_LOCAL_SIZE = _PXIMC_U64_BASE + 0x4
};

/* Other names that the specification has for two attributes. */
#define PXIMC_STR_SERIAL_NAME PXIMC_STR_SERIAL_NUM
#define PXIMC_U32_WINDOW_EVENT_STATUS PXIMC_U32_SESSION_EVENT_STATUS

enum ePXIMC_QueryWindowInformation_WindowConnectionType {
	PXIMC_CONNECTION_SERVER = 1,
	PXIMC_CONNECTION_CLIENT = 2,
	PXIMC_CONNECTION_PEER = 3
};

enum ePXIMC_QueryWindowInformation_WindowLocationType {
	PXIMC_LOCATION_LOGICAL = 1,	/* memory of a process */
	PXIMC_LOCATION_PHYSICAL = 2	/* a physical address that the server has named */
};

enum ePXIMC_QueryWindowInformation_WindowPairingState {
	PXIMC_WINDOW_PAIRED = 1,
	PXIMC_WINDOW_UNPAIRED = 2
};

enum ePXIMC_QueryWindowInformation_WindowEventStatus {
	PXIMC_WINDOW_REMOTE_EVENT_PENDING = 0x1,
	PXIMC_WINDOW_REMOTE_SESSION_WAITING = 0x2,
	PXIMC_WINDOW_LOCAL_EVENT_PENDING = 0x4,
	PXIMC_WINDOW_LOCAL_SESSION_WAITING = 0x8
};

/* As a largest size: as large as possible (PXI-REQLS-17). */
#define PXIMC_MAXIMUM_WINDOW_SIZE UINT64_MAX

/* As a time: wait for ever. 0 does not wait at all. */
#define PXIMC_TIMEOUT_INFINITE 0xFFFFFFFFU

/* Bits for PXIMC_enableDeviceAccess; PXIMC_DEVICE_ACCESS_CLEAR_ALL stands alone (PXI-EDA-2). */
enum ePXINTB_EnableDeviceAccess_AccessMode {
	PXIMC_DEVICE_ACCESS_READ = 0x1,
	PXIMC_DEVICE_ACCESS_WRITE = 0x2
};
#define PXIMC_DEVICE_ACCESS_CLEAR_ALL 0x80000000U

/* What PXIMC_waitForSessionEvent returns: one of them, not bits (PXI-WSE-12). */
enum ePXIMC_WaitForSessionEvent_ReasonCode {
	PXIMC_EVENT_ASSERTED = 1,		/* the other side has called PXIMC_assertEvent */
	PXIMC_EVENT_CONNECTION_CLOSED = 2,	/* it has closed; this side still has to */
	PXIMC_EVENT_INTERFACE_DOWN = 3		/* the other system is out of reach */
};

enum {
	_PXIMC_ERROR_BASE = (-2147483647 - 1),	/* 0x80000000 */
	_PXIMC_WARNING_BASE = 0x10000000
};

enum ePXIMC_Status {
	PXIMC_SUCCESS = 0,
	/* The buffer is too small; what it would take is told. */
	PXIMC_INSUFFICIENT_SPACE = _PXIMC_ERROR_BASE + 0x1000,
	/* There is no such interface. */
	PXIMC_INVALID_INTERFACE = _PXIMC_ERROR_BASE + 0x1001,
	/* The other system is out of reach. */
	PXIMC_INTERFACE_DOWN = _PXIMC_ERROR_BASE + 0x1002,
	/* There is no such attribute, here at least. */
	PXIMC_NSUP_ATTRIBUTE = _PXIMC_ERROR_BASE + 0x1003,
	PXIMC_INVALID_ARGUMENT = _PXIMC_ERROR_BASE + 0x1004,
	/* The smallest sizes cannot be had. */
	PXIMC_SPACE_NOT_AVAILABLE = _PXIMC_ERROR_BASE + 0x1005,
	/* Another window of this system has this unique identifier. */
	PXIMC_UID_CONFLICT = _PXIMC_ERROR_BASE + 0x1006,
	/* There is no partner: for a client now, for other calls yet. */
	PXIMC_NO_PAIRING = _PXIMC_ERROR_BASE + 0x1007,
	/* What was asked of the hardware cannot be had. */
	PXIMC_PHY_RESOURCE_NOT_AVAILABLE = _PXIMC_ERROR_BASE + 0x1008,
	/* This process has no such session. */
	PXIMC_INVALID_SESSION = _PXIMC_ERROR_BASE + 0x1009,
	/* The session has no remote window. */
	PXIMC_NO_WINDOW = _PXIMC_ERROR_BASE + 0x100A,
	/* The other side has closed. */
	PXIMC_SESSION_CLOSED = _PXIMC_ERROR_BASE + 0x100B,
	/* The other system has no such window. */
	PXIMC_INVALID_WINDOW = _PXIMC_ERROR_BASE + 0x100C,
	/* No function returns it. */
	PXIMC_INVALID_RESOURCE = _PXIMC_ERROR_BASE + 0x100D,
	/* The buffer for the value is not aligned to the value's size. */
	PXIMC_ALIGNMENT_ERROR = _PXIMC_ERROR_BASE + 0x100E,
	/* The Dispatcher has found no library of a vendor. */
	PXIMC_NO_PROVIDER = _PXIMC_WARNING_BASE + 0x1000,
	/* The time has passed. */
	PXIMC_TIMEOUT = _PXIMC_WARNING_BASE + 0x1001
};

/*
 * Interfaces and the windows at their other end. Arrays are written only if they are large
 * enough; otherwise *actual... is how many elements, or bytes, it takes, and the status is
 * PXIMC_INSUFFICIENT_SPACE (PXI-FI-6, PXI-QI-2, PXI-FW-5, PXI-QW-3).
 */

/* The interfaces of this system, whether or not anybody is at their other end. */
tPXIMC_Status _PXIMC_FUNC PXIMC_findInterfaces(uint32_t maxNumberOfInterfaces,
					       uint32_t *interfaceIDs,
					       uint32_t *actualNumberOfInterfaces);

/* An attribute of an interface. */
tPXIMC_Status _PXIMC_FUNC PXIMC_queryInterfaceInformation(uint32_t interfaceID,
							  uint32_t attributeID,
							  uint32_t maxSizeOfAttributeValue,
							  void *attributeValue,
							  uint32_t *actualSizeOfAttributeValue);

/*
 * Waits until something has changed since this process has called it last for the interface; the
 * first call returns at once (PXI-WIE-4). *reasonCode is written with success only.
 */
tPXIMC_Status _PXIMC_FUNC PXIMC_waitForInterfaceEvent(uint32_t interfaceID,
						      uint32_t timeoutInMilliseconds,
						      uint32_t *reasonCode);

/* The windows of the other system, by their unique identifiers. */
tPXIMC_Status _PXIMC_FUNC PXIMC_findWindows(uint32_t interfaceID,
					    uint32_t maxNumberOfWindowIDs,
					    uint32_t *windowIDs,
					    uint32_t *actualNumberOfWindowIDs);

/* An attribute of a window of the other system. */
tPXIMC_Status _PXIMC_FUNC PXIMC_queryWindowInformation(uint32_t interfaceID,
						       uint32_t windowID,
						       uint32_t attributeID,
						       uint32_t maxSizeOfAttributeValue,
						       void *attributeValue,
						       uint32_t *actualSizeOfAttributeValue);

/*
 * Requests. Each opens a session and, with success only, writes its number, which means something
 * in this process alone (PXI-SES-2, PXI-SES-3). A largest size of 0 is no such window. The unique
 * identifier 0 is "choose one" for what waits, and "any" for what looks for a partner. windowData
 * may be NULL if windowDataSize is 0; that is at most 1024.
 */

/* Waits for a client. */
tPXIMC_Status _PXIMC_FUNC PXIMC_requestWindowLogicalAsServer(uint32_t interfaceID,
							     uint32_t protocolNumber,
							     uint64_t maxLocalSize,
							     uint64_t minLocalSize,
							     uint64_t maxRemoteSize,
							     uint64_t minRemoteSize,
							     uint32_t uniqueIdentifier,
							     const uint8_t *windowData,
							     uint32_t windowDataSize,
							     uint32_t *sessionNumber);

/* Takes a server that waits, or fails. */
tPXIMC_Status _PXIMC_FUNC PXIMC_requestWindowLogicalAsClient(uint32_t interfaceID,
							     uint32_t protocolNumber,
							     uint64_t maxLocalSize,
							     uint64_t minLocalSize,
							     uint64_t maxRemoteSize,
							     uint64_t minRemoteSize,
							     uint32_t uniqueIdentifier,
							     uint32_t *sessionNumber);

/* Takes a peer that waits, or waits for one. */
tPXIMC_Status _PXIMC_FUNC PXIMC_requestWindowLogicalAsPeer(uint32_t interfaceID,
							   uint32_t protocolNumber,
							   uint64_t maxLocalSize,
							   uint64_t minLocalSize,
							   uint64_t maxRemoteSize,
							   uint64_t minRemoteSize,
							   uint32_t uniqueIdentifier,
							   const uint8_t *windowData,
							   uint32_t windowDataSize,
							   uint32_t *sessionNumber);

/* Offers localSize bytes at a physical address of this system, and waits for a client. */
tPXIMC_Status _PXIMC_FUNC PXIMC_requestWindowPhysicalAsServer(uint32_t interfaceID,
							      uint32_t protocolNumber,
							      uint64_t localSize,
							      uint32_t uniqueIdentifier,
							      uint64_t physicalAddress,
							      const uint8_t *windowData,
							      uint32_t windowDataSize,
							      uint32_t *sessionNumber);

/* Takes a physical server that waits, or fails. */
tPXIMC_Status _PXIMC_FUNC PXIMC_requestWindowPhysicalAsClient(uint32_t interfaceID,
							      uint32_t protocolNumber,
							      uint64_t maxRemoteSize,
							      uint64_t minRemoteSize,
							      uint32_t uniqueIdentifier,
							      uint32_t *sessionNumber);

/*
 * Sessions. Numbers that this process has not been given, or has closed, are refused with
 * PXIMC_INVALID_SESSION (PXI-SES-5, PXI-SES-6).
 */

/*
 * Waits for a partner. With success only, the windows' addresses in this process and their sizes
 * are written; NULL and 0 for a window that there is not. The pointers for a window whose largest
 * size was 0 in the request may be NULL (PXI-WFC-16).
 */
tPXIMC_Status _PXIMC_FUNC PXIMC_waitForConnection(uint32_t sessionNumber,
						  uint32_t timeoutInMilliseconds,
						  void **mappedRemoteAddress,
						  uint64_t *remoteSizeInBytes,
						  void **mappedLocalAddress,
						  uint64_t *localSizeInBytes);

/* Where a device of this system reaches the remote window. */
tPXIMC_Status _PXIMC_FUNC PXIMC_getPhysicalAddress(uint32_t sessionNumber,
						   uint64_t *physicalAddress);

/* Lets a device of this system reach the remote window, PXIMC_DEVICE_ACCESS_*; since 1.1. */
tPXIMC_Status _PXIMC_FUNC PXIMC_enableDeviceAccess(uint32_t sessionNumber,
						   uint32_t accessMode,
						   uint32_t deviceBusNumber,
						   uint32_t deviceDevNumber,
						   uint32_t deviceFuncNumber);

/* Wakes the other side, which then sees all that was written before (PXI-AE-1). */
tPXIMC_Status _PXIMC_FUNC PXIMC_assertEvent(uint32_t sessionNumber);

/* Waits for an event; *reasonCode is written with success only (PXI-WSE-5). */
tPXIMC_Status _PXIMC_FUNC PXIMC_waitForSessionEvent(uint32_t sessionNumber,
						    uint32_t timeoutInMilliseconds,
						    uint32_t *reasonCode);

/* Closes this side, without waiting for the other one (PXI-CW-4). */
tPXIMC_Status _PXIMC_FUNC PXIMC_closeWindow(uint32_t sessionNumber);

/* Closes all sessions of this process, which have to be idle (PXI-CL-1, PXI-CL-3). */
tPXIMC_Status _PXIMC_FUNC PXIMC_cleanup(void);

#ifdef __cplusplus
}
#endif

#endif /* __pximc_h__ */
