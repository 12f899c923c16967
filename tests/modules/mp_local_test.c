// SPDX-License-Identifier: GPL-2.0-only
/*
 * The local processor's functions, by commands of the tests: each is written to
 * /sys/kernel/mp_local_test/command, and `result` there says what came of it.
 * Numbers as in C.
 *
 *	in START END STEP	the first physical address in that range which a peer
 *	out START END STEP	reaches, or which reaches a peer; later commands mean the
 *				memory from there on. Result: physical and PCI address,
 *				and the number of conversions that were right, of 6
 *	dma DIR OFFSET LEN N	copies N pieces of LEN bytes each to OFFSET of the
 *				peer's memory. Result: what mp_dma_start() returned,
 *				calls of the callback within a second, its status
 *	rate OFFSET LEN N ROUNDS
 *				copies N pieces of LEN bytes each to OFFSET of the peer's
 *				memory, one time after the other. Result: status of the
 *				last one, calls of the callback, nanoseconds in all
 *	check OFFSET LEN	bytes at OFFSET of the memory that a peer reaches which
 *				are as "dma" writes them
 *	spoil OFFSET LEN	overwrites these
 *	end 0 0			calls of the callback by now, its status
 *	channel BUS DEVFN STATE	what the PCI error handling thinks of that function:
 *				1 it works, 3 it has failed for good
 */

#include <linux/completion.h>
#include <linux/io.h>
#include <linux/kobject.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <mp/mp.h>

#define MAX_FRAGS	32
#define MAX_LEN		(256U << 10)

static char result[128];
static u64 in_pci, out_pci;

/* The end of the last copy. */
static DECLARE_COMPLETION(copied);
static int calls, status;

static u8 pattern(u32 at)
{
	return at * 13 + (at >> 8) + 5;
}

static int find_in(unsigned long phys)
{
	u64 pci = mp_in_phys_to_pci(phys);
	void *virt;

	if (pci == ~0ULL)
		return 0;
	in_pci = pci;
	virt = mp_in_pci_to_virt(pci);
	return 1 + (mp_in_pci_to_phys(pci) == phys) + (virt != NULL) +
	       (mp_in_virt_to_pci(virt) == pci) +
	       (mp_in_virt_to_pci(virt + 100) == pci + 100) +
	       (mp_in_pci_to_virt(pci + 100) == virt + 100);
}

static int find_out(unsigned long phys)
{
	u64 pci = mp_out_phys_to_pci(phys);
	void *virt;

	if (pci == ~0ULL)
		return 0;
	out_pci = pci;
	virt = mp_out_pci_to_virt(pci);
	return 1 + (mp_out_pci_to_phys(pci) == phys) + (virt != NULL) +
	       (mp_out_virt_to_pci(virt) == pci) +
	       (mp_out_virt_to_pci(virt + 100) == pci + 100) +
	       (mp_out_pci_to_virt(pci + 100) == virt + 100);
}

static void find(int (*try)(unsigned long), const u64 *pci, u64 start, u64 end, u64 step)
{
	unsigned long phys;
	int right;

	for (phys = start; step && phys < end; phys += step) {
		right = try(phys);
		if (right) {
			sprintf(result, "%#lx %#llx %d", phys, *pci, right);
			return;
		}
	}
	sprintf(result, "none");
}

/* The buffer belongs to the copy until this. */
static void end_of_copy(int how, void *buf)
{
	kfree(buf);
	calls++;
	status = how;
	complete(&copied);
}

static void dma(u32 dir, u32 offset, u32 len, u32 count)
{
	mp_dma_frag frags[MAX_FRAGS + 1];
	u8 *buf;
	u32 i;
	int ret;

	if (len > MAX_LEN || count > MAX_FRAGS + 1 || (u64)len * count > MAX_LEN)
		return;
	buf = kmalloc(max(len * count, 1U), GFP_KERNEL);
	if (!buf)
		return;
	for (i = 0; i < len * count; i++)
		buf[i] = pattern(i);
	for (i = 0; i < count; i++) {
		frags[i].src = virt_to_phys(buf + i * len);
		frags[i].dst = out_pci + offset + i * len;
		frags[i].len = len;
	}
	reinit_completion(&copied);
	calls = 0;
	status = 1;
	ret = mp_dma_start(dir, count, frags, end_of_copy, buf, 0, 0);
	if (ret)
		kfree(buf);
	else
		wait_for_completion_timeout(&copied, HZ);
	sprintf(result, "%d %d %d", ret, calls, status);
}

static void end_of_round(int how, void *data)
{
	calls++;
	status = how;
	complete(&copied);
}

static int copy_round(mp_dma_frag *frags, u32 count)
{
	int ret;

	reinit_completion(&copied);
	status = 1;
	ret = mp_dma_start(MP_DMA_DIR_L2P, count, frags, end_of_round, NULL, 0, 0);
	if (ret)
		return ret;
	return wait_for_completion_timeout(&copied, HZ) ? status : -ETIMEDOUT;
}

static void rate(u32 offset, u32 len, u32 count, u32 rounds)
{
	mp_dma_frag frags[MAX_FRAGS];
	u64 start;
	int ret = 0;
	u8 *buf;
	u32 i;

	if (!len || len > MAX_LEN || count > MAX_FRAGS)
		return;
	buf = kmalloc(len, GFP_KERNEL);
	if (!buf)
		return;
	memset(buf, 1, len);
	for (i = 0; i < count; i++) {
		frags[i].src = virt_to_phys(buf);
		frags[i].dst = out_pci + offset + i * len;
		frags[i].len = len;
	}
	calls = 0;
	start = ktime_get_ns();
	for (i = 0; i < rounds && !ret; i++)
		ret = copy_round(frags, count);
	sprintf(result, "%d %d %llu", ret, calls, ktime_get_ns() - start);
	/* An engine that has stopped may come back to it. */
	if (ret != -ETIMEDOUT)
		kfree(buf);
}

static void channel(u32 bus, u32 devfn, u32 state)
{
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(0, bus, devfn);

	sprintf(result, "%d", pdev ? 1 : 0);
	if (pdev)
		WRITE_ONCE(pdev->error_state, (__force pci_channel_state_t)state);
	pci_dev_put(pdev);
}

static void check(u32 offset, u32 len)
{
	const u8 *memory = mp_in_pci_to_virt(in_pci + offset);
	u32 i, right = 0;

	for (i = 0; memory && mp_in_pci_to_virt(in_pci + offset + len - 1) && i < len; i++)
		right += READ_ONCE(memory[i]) == pattern(i);
	sprintf(result, "%u", right);
}

static void spoil(u32 offset, u32 len)
{
	u8 *memory = mp_in_pci_to_virt(in_pci + offset);

	if (memory && mp_in_pci_to_virt(in_pci + offset + len - 1))
		memset(memory, 0, len);
	sprintf(result, "0");
}

static ssize_t command_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t size)
{
	long long a, b, c = 0, d = 0;
	char word[8];

	sprintf(result, "failed");
	if (sscanf(buf, "%7s %lli %lli %lli %lli", word, &a, &b, &c, &d) < 3)
		return -EINVAL;
	if (!strcmp(word, "in"))
		find(find_in, &in_pci, a, b, c);
	else if (!strcmp(word, "out"))
		find(find_out, &out_pci, a, b, c);
	else if (!strcmp(word, "dma"))
		dma(a, b, c, d);
	else if (!strcmp(word, "rate"))
		rate(a, b, c, d);
	else if (!strcmp(word, "check"))
		check(a, b);
	else if (!strcmp(word, "spoil"))
		spoil(a, b);
	else if (!strcmp(word, "channel"))
		channel(a, b, c);
	else if (!strcmp(word, "end"))
		sprintf(result, "%d %d", calls, status);
	else
		return -EINVAL;
	return size;
}

static ssize_t result_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", result);
}

static struct kobj_attribute command_attr = __ATTR_WO(command);
static struct kobj_attribute result_attr = __ATTR_RO(result);
static struct attribute *attrs[] = { &command_attr.attr, &result_attr.attr, NULL };
static const struct attribute_group group = { .attrs = attrs };
static struct kobject *directory;

static int __init local_test_init(void)
{
	int err;

	directory = kobject_create_and_add(KBUILD_MODNAME, kernel_kobj);
	if (!directory)
		return -ENOMEM;
	err = sysfs_create_group(directory, &group);
	if (err)
		kobject_put(directory);
	return err;
}

static void __exit local_test_exit(void)
{
	kobject_put(directory);
}

module_init(local_test_init);
module_exit(local_test_exit);
MODULE_DESCRIPTION("Test of the local processor's functions");
MODULE_AUTHOR("The pximc-ntb authors");
MODULE_LICENSE("GPL");
