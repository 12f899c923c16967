/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mcapi.h - MCAPI 1.0, for programs that were written to it
 */
#include "../mcapi.h"
#include "../mcapi_v1000_to_v2000.h"
