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

/* That of the kernel, for short work that is little. */
__mp_helper void *mp_helper_system_workqueue(bool urgent)
{
	return urgent ? system_highpri_wq : system_percpu_wq;
}

/* One that runs its work on any processor, so much of it at a time; 0: the kernel's default. */
__mp_helper void *mp_helper_alloc_unbound_workqueue(const char *name, int most)
{
	return alloc_workqueue("%s", WQ_UNBOUND, most, name);
}

/* All of its work has ended. */
__mp_helper void mp_helper_destroy_workqueue(void *queue)
{
	destroy_workqueue(queue);
}

__mp_helper void mp_helper_requeue_delayed(void *queue, struct delayed_work *dwork,
					   unsigned int ms)
{
	mod_delayed_work(queue, dwork, msecs_to_jiffies(ms));
}

__mp_helper void mp_helper_queue_delayed_once(void *queue, struct delayed_work *dwork,
					      unsigned int ms)
{
	queue_delayed_work(queue, dwork, msecs_to_jiffies(ms));
}
