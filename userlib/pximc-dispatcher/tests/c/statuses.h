/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The names of statuses, by a switch as programs have it. */
#ifndef TESTS_STATUSES_H
#define TESTS_STATUSES_H

#include "pximc.h"

static const char *status_name(tPXIMC_Status status)
{
	switch (status) {
	case PXIMC_SUCCESS:
		return "SUCCESS";
	case PXIMC_INSUFFICIENT_SPACE:
		return "INSUFFICIENT_SPACE";
	case PXIMC_INVALID_INTERFACE:
		return "INVALID_INTERFACE";
	case PXIMC_INTERFACE_DOWN:
		return "INTERFACE_DOWN";
	case PXIMC_NSUP_ATTRIBUTE:
		return "NSUP_ATTRIBUTE";
	case PXIMC_INVALID_ARGUMENT:
		return "INVALID_ARGUMENT";
	case PXIMC_SPACE_NOT_AVAILABLE:
		return "SPACE_NOT_AVAILABLE";
	case PXIMC_UID_CONFLICT:
		return "UID_CONFLICT";
	case PXIMC_NO_PAIRING:
		return "NO_PAIRING";
	case PXIMC_PHY_RESOURCE_NOT_AVAILABLE:
		return "PHY_RESOURCE_NOT_AVAILABLE";
	case PXIMC_INVALID_SESSION:
		return "INVALID_SESSION";
	case PXIMC_NO_WINDOW:
		return "NO_WINDOW";
	case PXIMC_SESSION_CLOSED:
		return "SESSION_CLOSED";
	case PXIMC_INVALID_WINDOW:
		return "INVALID_WINDOW";
	case PXIMC_INVALID_RESOURCE:
		return "INVALID_RESOURCE";
	case PXIMC_ALIGNMENT_ERROR:
		return "ALIGNMENT_ERROR";
	case PXIMC_NO_PROVIDER:
		return "NO_PROVIDER";
	case PXIMC_TIMEOUT:
		return "TIMEOUT";
	default:
		return "?";
	}
}

#endif /* TESTS_STATUSES_H */
