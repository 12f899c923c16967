// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver of a device that uses a dma-buf, by commands of a process that has a descriptor FD of it.
 * Each is written to /sys/kernel/mp_dmabuf_test/command, and `result` there says what came of it.
 *
 *	check FD VALUE	whether all pages of the buffer are in the device's list, and begin with
 *			VALUE, which the device adds one to. Result: bytes of the buffer, bytes of the
 *			list, pages that were so
 *	read FD VALUE	the same, but the device only reads
 *	hold FD		attaches the device, and stays so
 *	release 0	what was held is let go of
 *
 * It exports dma-bufs as well, of memory in one run:
 *
 *	make 0 PAGES		Result: a descriptor of the process
 *	make-readable 0 PAGES	the same, only to be read
 *	slow 0 MS		mapping one for a device takes so long from now on
 *	mapped 0		Result: how many mappings for devices there are
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/sysfs.h>

MODULE_IMPORT_NS("DMA_BUF");

static struct platform_device *device;
static struct kobject *directory;
static struct dma_buf *held;
static struct dma_buf_attachment *held_attachment;
static char result[128];

/* The device reads and writes the first word of each page. */
static unsigned long use_pages(struct sg_table *table, u64 value, bool writes, size_t *length)
{
	unsigned long right = 0;
	struct scatterlist *entry;
	unsigned int n, at;

	/* Nothing translates the addresses of this device. */
	for_each_sgtable_dma_sg(table, entry, n) {
		*length += sg_dma_len(entry);
		for (at = 0; at < sg_dma_len(entry); at += PAGE_SIZE) {
			u64 *word = phys_to_virt(sg_dma_address(entry) + at);

			right += *word == value;
			if (writes)
				*word += 1;
		}
	}
	return right;
}

static int check(struct dma_buf *buffer, u64 value, bool writes)
{
	enum dma_data_direction direction = writes ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	size_t length = 0;
	int err;

	attachment = dma_buf_attach(buffer, &device->dev);
	if (IS_ERR(attachment))
		return PTR_ERR(attachment);
	table = dma_buf_map_attachment_unlocked(attachment, direction);
	if (IS_ERR(table)) {
		err = PTR_ERR(table);
		goto detach;
	}
	err = dma_buf_begin_cpu_access(buffer, direction);
	if (!err) {
		unsigned long right = use_pages(table, value, writes, &length);

		err = dma_buf_end_cpu_access(buffer, direction);
		snprintf(result, sizeof(result), "%zu %zu %lu", buffer->size, length, right);
	}
	dma_buf_unmap_attachment_unlocked(attachment, table, direction);
detach:
	dma_buf_detach(buffer, attachment);
	return err;
}

static void release_held(void)
{
	if (!held)
		return;
	dma_buf_detach(held, held_attachment);
	dma_buf_put(held);
	held = NULL;
}

static unsigned int delay;
static atomic_t mappings;

static struct sg_table *map_memory(struct dma_buf_attachment *attachment,
				  enum dma_data_direction direction)
{
	struct page *pages = virt_to_page(attachment->dmabuf->priv);
	struct sg_table *table;
	int err;

	if (msleep_interruptible(delay))
		return ERR_PTR(-EINTR);
	table = kzalloc_obj(*table);
	if (!table)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table(table, 1, GFP_KERNEL);
	if (err)
		goto free;
	sg_set_page(table->sgl, pages, attachment->dmabuf->size, 0);
	err = dma_map_sgtable(attachment->dev, table, direction, 0);
	if (err)
		goto free_table;
	atomic_inc(&mappings);
	return table;
free_table:
	sg_free_table(table);
free:
	kfree(table);
	return ERR_PTR(err);
}

static void unmap_memory(struct dma_buf_attachment *attachment, struct sg_table *table,
			enum dma_data_direction direction)
{
	dma_unmap_sgtable(attachment->dev, table, direction, 0);
	sg_free_table(table);
	kfree(table);
	atomic_dec(&mappings);
}

static int mmap_memory(struct dma_buf *buffer, struct vm_area_struct *vma)
{
	return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(virt_to_phys(buffer->priv)) + vma->vm_pgoff,
			       vma->vm_end - vma->vm_start, vma->vm_page_prot);
}

static void free_memory(struct dma_buf *buffer)
{
	free_pages_exact(buffer->priv, buffer->size);
}

static const struct dma_buf_ops operations = {
	.map_dma_buf = map_memory,
	.unmap_dma_buf = unmap_memory,
	.mmap = mmap_memory,
	.release = free_memory,
};

/* A dma-buf of new pages; a descriptor of it for the calling process. */
static int make(u64 pages, int access)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buffer;
	void *memory;
	int fd;

	if (!pages || pages > 512)
		return -EINVAL;
	memory = alloc_pages_exact(pages * PAGE_SIZE, GFP_KERNEL | __GFP_ZERO);
	if (!memory)
		return -ENOMEM;
	info.ops = &operations;
	info.size = pages * PAGE_SIZE;
	info.flags = access;
	info.priv = memory;
	buffer = dma_buf_export(&info);
	if (IS_ERR(buffer)) {
		free_pages_exact(memory, info.size);
		return PTR_ERR(buffer);
	}
	fd = dma_buf_fd(buffer, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buffer);
	return fd;
}

/* A command without a dma-buf; whether it is one. */
static bool is_own(const char *what, u64 value, int *err)
{
	if (sysfs_streq(what, "release")) {
		release_held();
	} else if (sysfs_streq(what, "slow")) {
		delay = value;
	} else if (sysfs_streq(what, "mapped")) {
		snprintf(result, sizeof(result), "%d", atomic_read(&mappings));
	} else if (sysfs_streq(what, "make") || sysfs_streq(what, "make-readable")) {
		int fd = make(value, sysfs_streq(what, "make") ? O_RDWR : O_RDONLY);

		snprintf(result, sizeof(result), "%d", fd);
		*err = min(fd, 0);
	} else {
		return false;
	}
	return true;
}

static ssize_t command_store(struct kobject *kobj, struct kobj_attribute *attr, const char *text,
			     size_t count)
{
	struct dma_buf *buffer;
	char what[20];
	u64 value = 0;
	int fd, err = 0;

	if (sscanf(text, "%19s %d %llu", what, &fd, &value) < 2)
		return -EINVAL;
	if (is_own(what, value, &err))
		return err ?: count;
	buffer = dma_buf_get(fd);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	if (sysfs_streq(what, "hold") && !held) {
		held_attachment = dma_buf_attach(buffer, &device->dev);
		if (!IS_ERR(held_attachment)) {
			held = buffer;
			return count;
		}
		err = PTR_ERR(held_attachment);
	} else {
		err = check(buffer, value, !sysfs_streq(what, "read"));
	}
	dma_buf_put(buffer);
	return err ?: count;
}
static struct kobj_attribute command = __ATTR_WO(command);

static ssize_t result_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	return sysfs_emit(text, "%s\n", result);
}
static struct kobj_attribute result_attribute = __ATTR_RO(result);

static int __init dmabuf_test_init(void)
{
	int err;

	device = platform_device_register_simple("mp_dmabuf_test", -1, NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	err = dma_coerce_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));
	if (err)
		goto unregister;
	directory = kobject_create_and_add("mp_dmabuf_test", kernel_kobj);
	if (!directory) {
		err = -ENOMEM;
		goto unregister;
	}
	err = sysfs_create_file(directory, &command.attr);
	if (!err)
		err = sysfs_create_file(directory, &result_attribute.attr);
	if (!err)
		return 0;
	kobject_put(directory);
unregister:
	platform_device_unregister(device);
	return err;
}
module_init(dmabuf_test_init);

static void __exit dmabuf_test_exit(void)
{
	kobject_put(directory);
	release_held();
	platform_device_unregister(device);
}
module_exit(dmabuf_test_exit);

MODULE_DESCRIPTION("Test of dma-bufs of segments");
MODULE_LICENSE("GPL");
