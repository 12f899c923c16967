// SPDX-License-Identifier: GPL-2.0

#include <linux/ntb.h>

__mp_helper u64 mp_helper_ntb_link_is_up(struct ntb_dev *ntb,
					 enum ntb_speed *speed,
					 enum ntb_width *width)
{
	return ntb_link_is_up(ntb, speed, width);
}
