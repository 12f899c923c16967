// SPDX-License-Identifier: GPL-2.0

#include <linux/compat.h>
#include <linux/fdtable.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

/*
 * What is known of the calling task is read here: where a member with an alignment
 * of its own is empty, bindgen gets the members behind it wrong, and a task has one
 * in kernels without CONFIG_SCHEDSTATS.
 */

/* The address space of the calling task, not to be given to another; or NULL. */
__mp_helper void *mp_helper_current_mm_grab(void)
{
	struct mm_struct *mm = current->mm;

	if (mm)
		mmgrab(mm);
	return mm;
}

__mp_helper bool mp_helper_current_mm_is(const void *mm)
{
	return current->mm == mm;
}

/* The thread group of the calling task; its identity is not given to another. */
__mp_helper void *mp_helper_thread_group_get(void)
{
	return get_pid(task_tgid(current));
}

__mp_helper bool mp_helper_thread_group_is_current(const void *pid)
{
	return task_tgid(current) == pid;
}

__mp_helper void mp_helper_thread_group_put(void *pid)
{
	put_pid(pid);
}

__mp_helper bool mp_helper_current_is_exiting(void)
{
	return current->flags & PF_EXITING;
}

static int mp_is_file(const void *wanted, struct file *file, unsigned int fd)
{
	return file == wanted;
}

/* Whether the calling process has a descriptor of the file; not while it exits. */
__mp_helper bool mp_helper_current_has_file(const void *file)
{
	return current->files && iterate_fd(current->files, 0, mp_is_file, file);
}

__mp_helper bool mp_helper_in_compat_syscall(void)
{
	return in_compat_syscall();
}
