// SPDX-License-Identifier: GPL-2.0-only
/*
 * What suites in Rust ask of tasks.
 */

#include <linux/sched.h>

bool mp_kunit_has_ended(const struct task_struct *task);

/* Whether a task, which the caller has a reference to, has ended. */
bool mp_kunit_has_ended(const struct task_struct *task)
{
	return READ_ONCE(task->exit_state) != 0;
}
