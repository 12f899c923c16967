// SPDX-License-Identifier: GPL-2.0-only

#include <linux/cpumask.h>

__mp_helper unsigned int mp_helper_num_online_cpus(void)
{
	return num_online_cpus();
}
