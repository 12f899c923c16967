// SPDX-License-Identifier: GPL-2.0-only
/*
 * What keeps programs from memory, as tests want it:
 *
 *	start=, length=		a range that this module has requested, as a driver has its
 *				registers
 *	exclusive=		1: for itself alone; 0: as most drivers do
 *	largest=		bytes: who may not sleep gets no larger piece of memory, as on a
 *				host whose memory is in small pieces. It may be written to at any
 *				time; 0: no limit
 *	sleepers=		1: nor does who may sleep. It may be written to at any time
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

/* What Rust code asks for: krealloc_node_align(old, size, align, flags, node). */
static int ask_for_memory(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	bool is_new = !regs_get_kernel_argument(regs, 0);
	ulong size = regs_get_kernel_argument(regs, 1);
	gfp_t flags = (__force gfp_t)regs_get_kernel_argument(regs, 3);

	/* Nonzero: the answer stands. */
	if (!largest || !is_new || size <= largest)
		return 1;
	return gfpflags_allow_blocking(flags) && !sleepers;
}

static int answer_with_none(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	kfree((void *)regs_return_value(regs));
	regs_set_return_value(regs, 0);
	return 0;
}

static struct kretprobe allocation_probe = {
	.kp.symbol_name = "krealloc_node_align_noprof",
	.entry_handler = ask_for_memory,
	.handler = answer_with_none,
};

static struct kretprobe *probes[] = { &memory_probe, &devices_probe, &allocation_probe };

static int __init guard_init(void)
{
	int err;

	if (length && !__request_region(&iomem_resource, start, length, KBUILD_MODNAME,
					exclusive ? IORESOURCE_EXCLUSIVE : 0))
		return -EBUSY;
	err = register_kretprobes(probes, ARRAY_SIZE(probes));
	if (err && length)
		release_mem_region(start, length);
	return err;
}
module_init(guard_init);

static void __exit guard_exit(void)
{
	unregister_kretprobes(probes, ARRAY_SIZE(probes));
	if (length)
		release_mem_region(start, length);
}
module_exit(guard_exit);

MODULE_DESCRIPTION("Test of what programs may do with physical memory");
MODULE_LICENSE("GPL");
