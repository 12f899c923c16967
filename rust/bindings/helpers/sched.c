// SPDX-License-Identifier: GPL-2.0-only

#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <uapi/linux/sched/types.h>

/* Whether this processor has a task to run besides the current one. */
__mp_helper bool mp_helper_other_task_runnable(void)
{
	return !single_task_running();
}

/* A thread that runs where no other task wants to; NULL without memory. */
__mp_helper void *mp_helper_idle_thread_run(int (*fn)(void *), void *data,
					    const char *name)
{
	const struct sched_attr idle = {
		.size = sizeof(idle),
		.sched_policy = SCHED_IDLE,
	};
	struct task_struct *task = kthread_create(fn, data, "%s", name);

	if (IS_ERR(task))
		return NULL;
	sched_setattr_nocheck(task, &idle);
	wake_up_process(task);
	return task;
}

__mp_helper void mp_helper_idle_thread_wake(void *task)
{
	wake_up_process(task);
}

/* Waits until the thread has returned from its function. */
__mp_helper void mp_helper_idle_thread_stop(void *task)
{
	kthread_stop(task);
}

__mp_helper bool mp_helper_idle_thread_must_stop(void)
{
	return kthread_should_stop();
}

/* The thread sleeps with the next schedule(), unless it is woken before. */
__mp_helper void mp_helper_about_to_sleep(void)
{
	set_current_state(TASK_IDLE);
}

__mp_helper void mp_helper_stay_awake(void)
{
	__set_current_state(TASK_RUNNING);
}

__mp_helper void mp_helper_schedule(void)
{
	schedule();
}

/* Whether another task is to run here, at once or at the next occasion. */
__mp_helper bool mp_helper_resched_wanted(void)
{
	return need_resched() || test_thread_flag(TIF_NEED_RESCHED_LAZY);
}

__mp_helper void mp_helper_preempt_disable(void)
{
	preempt_disable();
}

__mp_helper void mp_helper_preempt_enable(void)
{
	preempt_enable();
}
