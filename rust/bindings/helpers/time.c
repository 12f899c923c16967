// SPDX-License-Identifier: GPL-2.0-only

#include <linux/jiffies.h>

__mp_helper u64 mp_helper_jiffies_ns(void)
{
	return jiffies64_to_nsecs(get_jiffies_64());
}
