// SPDX-License-Identifier: GPL-2.0-only

#include <linux/eventfd.h>

__mp_helper void *mp_helper_eventfd_get(int fd)
{
	return eventfd_ctx_fdget(fd);
}

__mp_helper void mp_helper_eventfd_signal(void *ctx)
{
	eventfd_signal(ctx);
}

__mp_helper void mp_helper_eventfd_put(void *ctx)
{
	eventfd_ctx_put(ctx);
}
