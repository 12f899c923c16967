// SPDX-License-Identifier: GPL-2.0-only

#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>

/* "MPfs" */
#define MP_FS_MAGIC 0x4d506673

static struct vfsmount *mp_fs_mount;
static int mp_fs_users;

static int mp_fs_init_context(struct fs_context *fc)
{
	return init_pseudo(fc, MP_FS_MAGIC) ? 0 : -ENOMEM;
}

static struct file_system_type mp_fs_type = {
	.name = "mp_kernel",
	.owner = THIS_MODULE,
	.init_fs_context = mp_fs_init_context,
	.kill_sb = kill_anon_super,
};

/* An inode of no file, for the address space that it has. NULL without memory. */
__mp_helper void *mp_helper_map_inode_new(void)
{
	struct inode *inode;

	if (simple_pin_fs(&mp_fs_type, &mp_fs_mount, &mp_fs_users))
		return NULL;
	inode = alloc_anon_inode(mp_fs_mount->mnt_sb);
	if (!IS_ERR(inode))
		return inode;
	simple_release_fs(&mp_fs_mount, &mp_fs_users);
	return NULL;
}

__mp_helper void mp_helper_map_inode_put(void *inode)
{
	iput(inode);
	simple_release_fs(&mp_fs_mount, &mp_fs_users);
}

/* From now on, mappings of the file belong to the inode's address space. */
__mp_helper void mp_helper_map_inode_adopt(void *inode, struct file *file)
{
	file->f_mapping = ((struct inode *)inode)->i_mapping;
}

/* The file's mappings belong to its own inode again; it must have none. */
__mp_helper void mp_helper_map_inode_forget(struct file *file)
{
	file->f_mapping = file_inode(file)->i_mapping;
}

/* Takes the pages out of all page tables, and returns once no processor has them. */
__mp_helper void mp_helper_map_inode_unmap(void *inode, unsigned long first,
					   unsigned long pages)
{
	unmap_mapping_pages(((struct inode *)inode)->i_mapping, first, pages, true);
}

/*
 * In an mmap() callback: makes the area one of page frames without reference
 * counts. False if it is private, or of a file of another address space.
 */
__mp_helper bool mp_helper_vma_become_frames(struct vm_area_struct *vma, void *inode)
{
	if (!(vma->vm_flags & VM_MAYSHARE) ||
	    vma->vm_file->f_mapping != ((struct inode *)inode)->i_mapping)
		return false;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	return true;
}

/* In a fault() callback: has the address show a page frame, unless it has one. */
__mp_helper unsigned int mp_helper_vma_insert_frame(struct vm_area_struct *vma,
						    unsigned long address,
						    unsigned long pfn, bool combine)
{
	pgprot_t prot = vma->vm_page_prot;

	if (combine)
		prot = pgprot_writecombine(prot);
	return (__force unsigned int)vmf_insert_pfn_prot(vma, address, pfn, prot);
}

__mp_helper unsigned long mp_helper_page_frame(struct page *page)
{
	return page_to_pfn(page);
}

__mp_helper unsigned long mp_helper_phys_frame(phys_addr_t address)
{
	return PHYS_PFN(address);
}
