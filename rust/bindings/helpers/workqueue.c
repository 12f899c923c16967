// SPDX-License-Identifier: GPL-2.0-only

#include <linux/workqueue.h>

/* Lock classes are the callers': here, all work would share one. */
__mp_helper void mp_helper_init_delayed_work(struct delayed_work *dwork,
					     work_func_t func, const char *name,
					     struct lock_class_key *key)
{
	INIT_DELAYED_WORK(dwork, func);
	lockdep_init_map(&dwork->work.lockdep_map, name, key, 0);
}

static inline struct workqueue_struct *mp_workqueue(bool urgent)
{
	return urgent ? system_highpri_wq : system_percpu_wq;
}

__mp_helper void mp_helper_requeue_delayed(struct delayed_work *dwork,
					   unsigned int ms, bool urgent)
{
	mod_delayed_work(mp_workqueue(urgent), dwork, msecs_to_jiffies(ms));
}

__mp_helper void mp_helper_queue_delayed_once(struct delayed_work *dwork,
					      unsigned int ms, bool urgent)
{
	queue_delayed_work(mp_workqueue(urgent), dwork, msecs_to_jiffies(ms));
}
