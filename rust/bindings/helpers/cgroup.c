// SPDX-License-Identifier: GPL-2.0-only

#include <linux/cgroup_dmem.h>
#include <linux/err.h>
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

/*
 * Regions of the device memory controller: NULL without it, and for no bytes. Pools, which are what
 * is charged, are NULL where nothing is.
 */

__mp_helper int mp_helper_dmem_region_register(u64 size, const char *name, void **ret)
{
	struct dmem_cgroup_region *region;
#ifdef MP_DMEM_HAS_INIT
	const struct dmem_cgroup_init init = { .size = size };

	region = dmem_cgroup_register_region(&init, "%s", name);
#else
	region = dmem_cgroup_register_region(size, "%s", name);
#endif
	if (IS_ERR(region))
		return PTR_ERR(region);
	*ret = region;
	return 0;
}

__mp_helper void mp_helper_dmem_region_unregister(void *region)
{
	dmem_cgroup_unregister_region(region);
}

/* Charge the group of the calling process; -EAGAIN if it may not have so much. */
__mp_helper int mp_helper_dmem_charge(void *region, u64 size, void **ret)
{
	struct dmem_cgroup_pool_state *pool;
	int err;

	err = dmem_cgroup_try_charge(region, size, &pool, NULL);
	*ret = pool;
	return err;
}

__mp_helper void mp_helper_dmem_uncharge(void *pool, u64 size)
{
	dmem_cgroup_uncharge(pool, size);
}
