// SPDX-License-Identifier: GPL-2.0-only

#include <linux/jiffies.h>
#include <linux/time_namespace.h>

__mp_helper u64 mp_helper_jiffies_ns(void)
{
	return jiffies64_to_nsecs(get_jiffies_64());
}

/* A time of CLOCK_MONOTONIC as the calling process counts it, by the clock of the host. */
__mp_helper s64 mp_helper_time_from_process(s64 at)
{
	return timens_ktime_to_host(CLOCK_MONOTONIC, at);
}
