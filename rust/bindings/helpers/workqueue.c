// SPDX-License-Identifier: GPL-2.0

#include <linux/workqueue.h>

__mp_helper void mp_helper_init_delayed_work(struct delayed_work *dwork,
					     work_func_t func)
{
	INIT_DELAYED_WORK(dwork, func);
}

__mp_helper void mp_helper_queue_highpri_delayed(struct delayed_work *dwork,
						 unsigned int ms)
{
	mod_delayed_work(system_highpri_wq, dwork, msecs_to_jiffies(ms));
}

__mp_helper void mp_helper_queue_highpri_delayed_once(struct delayed_work *dwork,
						      unsigned int ms)
{
	queue_delayed_work(system_highpri_wq, dwork, msecs_to_jiffies(ms));
}
