// SPDX-License-Identifier: GPL-2.0-only

#include <linux/memcontrol.h>
#include <linux/sched/mm.h>

/* The memory control group of the calling process; NULL without such groups. */
__mp_helper void *mp_helper_memory_group_get(void)
{
	return get_mem_cgroup_from_mm(current->mm);
}

__mp_helper void mp_helper_memory_group_put(void *group)
{
	mem_cgroup_put(group);
}

/* Charge a group for what this context allocates from now on; the group before. */
__mp_helper void *mp_helper_memory_group_charge(void *group)
{
	return set_active_memcg(group);
}
