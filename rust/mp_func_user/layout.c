// SPDX-License-Identifier: GPL-2.0-only
/*
 * No structure of the header has padding that a compiler puts there: its bytes would be the
 * kernel's, or could never get a meaning. This file does not compile otherwise, and has nothing
 * else in it.
 */

#include <linux/ioctl.h>
#include <linux/types.h>

#pragma GCC diagnostic error "-Wpadded"
#include "../../uapi/linux/mp_fabric.h"
