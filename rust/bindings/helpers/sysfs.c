// SPDX-License-Identifier: GPL-2.0-only

#include <linux/sysfs.h>

__mp_helper void mp_helper_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}
