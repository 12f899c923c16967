// SPDX-License-Identifier: GPL-2.0

#include <linux/spinlock.h>

__mp_helper void mp_helper_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

__mp_helper void mp_helper_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
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
