// SPDX-License-Identifier: GPL-2.0-only

#include <linux/jiffies.h>
#include <linux/time_namespace.h>

__mp_helper u64 mp_helper_jiffies_ns(void)
{
	return jiffies64_to_nsecs(get_jiffies_64());
}

/* How far the monotonic clock of the calling process is ahead of the host's own, in nanoseconds. */
__mp_helper s64 mp_helper_monotonic_ahead_ns(void)
{
	struct timespec64 ahead = {};

	timens_add_monotonic(&ahead);
	return timespec64_to_ns(&ahead);
}
