// SPDX-License-Identifier: GPL-2.0-only

#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/fdtable.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

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

/*
 * The user namespace of the calling task that is `up` levels above its own, with the user who has
 * made it, as the initial one knows him, and its number; false for the initial one and beyond.
 */
__mp_helper bool mp_helper_user_namespace(unsigned int up, unsigned int *owner,
					  unsigned int *number)
{
	const struct user_namespace *ns = current_user_ns();

	while (up-- && ns != &init_user_ns)
		ns = ns->parent;
	if (ns == &init_user_ns)
		return false;
	*owner = __kuid_val(ns->owner);
	*number = ns->ns.inum;
	return true;
}

/* The calling task's table of descriptors, for comparisons only; NULL once it has given it up. */
__mp_helper const void *mp_helper_current_table(void)
{
	return current->files;
}

/*
 * Whether the calling task's table is this one and has a descriptor of the file. What is not
 * open costs one bit: a table may have a million of places.
 */
__mp_helper bool mp_helper_current_table_has_file(const void *table, const void *file)
{
	struct files_struct *files = current->files;
	struct fdtable *fdt;
	unsigned int fd;

	if (!files || files != table)
		return false;
	guard(spinlock)(&files->file_lock);
	fdt = files_fdtable(files);
	for_each_set_bit(fd, fdt->open_fds, fdt->max_fds)
		if (rcu_access_pointer(fdt->fd[fd]) == file)
			return true;
	return false;
}

/* Whether all threads of a group have begun to exit. */
__mp_helper bool mp_helper_thread_group_is_over(void *pid)
{
	struct task_struct *leader;

	guard(rcu)();
	leader = pid_task(pid, PIDTYPE_TGID);
	return !leader || !atomic_read(&leader->signal->live);
}

/* Has a function called, in any context, when a group may have ended. */
__mp_helper void mp_helper_thread_group_watch(void *pid,
					      struct wait_queue_entry *entry,
					      wait_queue_func_t func)
{
	struct pid *group = pid;

	init_waitqueue_func_entry(entry, func);
	add_wait_queue(&group->wait_pidfd, entry);
}

/* It is not being called any more when this returns. */
__mp_helper void mp_helper_thread_group_unwatch(void *pid,
						struct wait_queue_entry *entry)
{
	struct pid *group = pid;

	remove_wait_queue(&group->wait_pidfd, entry);
}

__mp_helper bool mp_helper_in_compat_syscall(void)
{
	return in_compat_syscall();
}
