// SPDX-License-Identifier: GPL-2.0-only

#include <asm/barrier.h>

__mp_helper void mp_helper_mb(void)
{
	mb();
}

__mp_helper void mp_helper_rmb(void)
{
	rmb();
}

__mp_helper void mp_helper_wmb(void)
{
	wmb();
}
