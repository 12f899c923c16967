// SPDX-License-Identifier: GPL-2.0-only

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

/* The pages that a user of the calling process may lock; all there are with CAP_IPC_LOCK. */
__mp_helper unsigned long mp_helper_memlock_most(void)
{
	if (capable(CAP_IPC_LOCK))
		return LONG_MAX;
	return min(rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT, (unsigned long)LONG_MAX);
}

/*
 * Charges pages to the calling process's user, who may have so many, and to whom a reference
 * is returned; NULL if that is too much. The process shows them as pinned: *mm is its memory, with
 * a reference.
 */
__mp_helper void *mp_helper_memlock_charge(unsigned long pages, unsigned long most, void **mm)
{
	struct user_struct *user = current_user();
	long had = atomic_long_read(&user->locked_vm);

	do {
		if (pages > most || had > most - pages)
			return NULL;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &had, had + (long)pages));
	mmgrab(current->mm);
	atomic64_add(pages, &current->mm->pinned_vm);
	*mm = current->mm;
	return get_uid(user);
}

__mp_helper void mp_helper_memlock_give_back(void *who, void *whose, unsigned long pages)
{
	struct user_struct *user = who;
	struct mm_struct *mm = whose;

	atomic64_sub(pages, &mm->pinned_vm);
	mmdrop(mm);
	atomic_long_sub(pages, &user->locked_vm);
	free_uid(user);
}

/* Pins pages of the calling process; how many from the start, or an error. */
__mp_helper long mp_helper_pin_pages(unsigned long start, unsigned int count, bool write,
				     struct page **pages)
{
	return pin_user_pages_fast(start, count, FOLL_LONGTERM | (write ? FOLL_WRITE : 0),
				   pages);
}

__mp_helper void mp_helper_unpin_pages(struct page **pages, unsigned long count, bool dirty)
{
	unpin_user_pages_dirty_lock(pages, count, dirty);
}

__mp_helper void mp_helper_page_load(struct page *page, size_t off, void *to, size_t len)
{
	memcpy_from_page(to, page, off, len);
}

__mp_helper void mp_helper_page_store(struct page *page, size_t off, const void *from,
				      size_t len)
{
	memcpy_to_page(page, off, from, len);
}
