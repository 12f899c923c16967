// SPDX-License-Identifier: GPL-2.0-only
/*
 * What keeps programs from memory, as tests want it:
 *
 *	start=, length=		a range that this module has requested, as a driver has its
 *				registers
 *	exclusive=		1: for itself alone; 0: as most drivers do
 *	largest=		bytes: who may not sleep gets no larger piece of memory, as on a
 *				host whose memory is in small pieces, nor a piece that grows beyond
 *				that. It may be written to at any time; 0: no limit
 *	sleepers=		1: nor does who may sleep. It may be written to at any time
 *	spared=			so many pieces are had before that begins. What is left of them can
 *				be read
 *	refused=		how many were not had. Only to be read
 *	memory_locked=, devices_locked=
 *				1: the modules are told that the kernel is locked down. They
 *				may be written to at any time
 *
 * The answer of the security modules is replaced where mp_kernel asks for it, so that a kernel
 * without any will do.
 */

#include <linux/gfp.h>
#include <linux/ioport.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>

static ulong start, length;
module_param(start, ulong, 0);
module_param(length, ulong, 0);

static bool exclusive = true;
module_param(exclusive, bool, 0);

static ulong largest;
module_param(largest, ulong, 0644);

static bool sleepers;
module_param(sleepers, bool, 0644);

static uint spared;
module_param(spared, uint, 0644);

static uint refused;
module_param(refused, uint, 0444);

/* Of the counts above. */
static DEFINE_RAW_SPINLOCK(counts);

static bool memory_locked, devices_locked;
module_param(memory_locked, bool, 0644);
module_param(devices_locked, bool, 0644);

static int answer_for_memory(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (memory_locked)
		regs_set_return_value(regs, true);
	return 0;
}

static int answer_for_devices(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (devices_locked)
		regs_set_return_value(regs, true);
	return 0;
}

static struct kretprobe memory_probe = {
	.kp.symbol_name = "mp_helper_memory_is_locked_down",
	.handler = answer_for_memory,
};

static struct kretprobe devices_probe = {
	.kp.symbol_name = "mp_helper_devices_are_locked_down",
	.handler = answer_for_devices,
};

/* Whether one piece more is refused. */
static bool refuse(void)
{
	unsigned long flags;
	bool is_refused;

	raw_spin_lock_irqsave(&counts, flags);
	is_refused = !spared;
	if (is_refused)
		refused++;
	else
		spared--;
	raw_spin_unlock_irqrestore(&counts, flags);
	return is_refused;
}

/*
 * What Rust code asks for: krealloc_node_align(old, size, align, flags, node). What is refused is
 * asked for with a size that nobody gets: the old piece stays as it is.
 */
static int ask_for_memory(struct kprobe *probe, struct pt_regs *regs)
{
	void *old = (void *)regs_get_kernel_argument(regs, 0);
	ulong size = regs_get_kernel_argument(regs, 1);
	gfp_t flags = (__force gfp_t)regs_get_kernel_argument(regs, 3);

	if (!largest || size <= largest || size <= (old ? ksize(old) : 0))
		return 0;
	if (gfpflags_allow_blocking(flags) && !sleepers)
		return 0;
	if (refuse()) {
		regs->si = 2 * KMALLOC_MAX_SIZE;
		regs->cx = (__force ulong)(flags | __GFP_NOWARN);
	}
	return 0;
}

static struct kprobe allocation_probe = {
	.symbol_name = "krealloc_node_align_noprof",
	.pre_handler = ask_for_memory,
};

static struct kretprobe *probes[] = { &memory_probe, &devices_probe };

static int __init guard_init(void)
{
	int err;

	if (length && !__request_region(&iomem_resource, start, length, KBUILD_MODNAME,
					exclusive ? IORESOURCE_EXCLUSIVE : 0))
		return -EBUSY;
	err = register_kretprobes(probes, ARRAY_SIZE(probes));
	if (err)
		goto release;
	err = register_kprobe(&allocation_probe);
	if (err)
		goto unregister;
	return 0;

unregister:
	unregister_kretprobes(probes, ARRAY_SIZE(probes));
release:
	if (length)
		release_mem_region(start, length);
	return err;
}
module_init(guard_init);

static void __exit guard_exit(void)
{
	unregister_kprobe(&allocation_probe);
	unregister_kretprobes(probes, ARRAY_SIZE(probes));
	if (length)
		release_mem_region(start, length);
}
module_exit(guard_exit);

MODULE_DESCRIPTION("Test of what programs may do with physical memory");
MODULE_LICENSE("GPL");
