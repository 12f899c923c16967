// SPDX-License-Identifier: GPL-2.0-only

#include <linux/bottom_half.h>
#include <linux/spinlock.h>

__mp_helper void mp_helper_local_bh_disable(void)
{
	local_bh_disable();
}

__mp_helper void mp_helper_local_bh_enable(void)
{
	local_bh_enable();
}

/*
 * Where bottom halves are off already, they stay so: turning them on again costs
 * more than the lock. Returns whether unlocking has to do it.
 */
__mp_helper bool mp_helper_spin_lock_bh_nested(spinlock_t *lock)
{
	bool enabled = !softirq_count();

	if (enabled)
		spin_lock_bh(lock);
	else
		spin_lock(lock);
	return enabled;
}

__mp_helper void mp_helper_spin_unlock_bh_nested(spinlock_t *lock, bool enable)
{
	if (enable)
		spin_unlock_bh(lock);
	else
		spin_unlock(lock);
}

__mp_helper int mp_helper_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

__mp_helper unsigned long mp_helper_spin_lock_irqsave_flags(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

__mp_helper void mp_helper_spin_unlock_irqrestore_flags(spinlock_t *lock,
							unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

__mp_helper bool mp_helper_spin_trylock_irqsave_flags(spinlock_t *lock,
						      unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}
