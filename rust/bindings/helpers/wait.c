// SPDX-License-Identifier: GPL-2.0-only

#include <linux/poll.h>
#include <linux/wait.h>

/* Full ordering: either the sleeper is seen, or it sees what was stored before. */
__mp_helper void mp_helper_wait_queue_wake(void *queue, u32 events)
{
	struct wait_queue_head *head = queue;

	if (wq_has_sleeper(head))
		__wake_up(head, TASK_NORMAL, 0, poll_to_key((__force __poll_t)events));
}
