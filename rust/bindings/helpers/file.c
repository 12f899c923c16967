// SPDX-License-Identifier: GPL-2.0-only

#include <linux/anon_inodes.h>
#include <linux/fs.h>

__mp_helper struct file *mp_helper_anon_file(const char *name, const void *operations, void *data)
{
	return anon_inode_getfile(name, operations, data, O_RDWR);
}
