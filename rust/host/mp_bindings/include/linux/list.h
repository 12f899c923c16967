/* SPDX-License-Identifier: GPL-2.0-only */
/* Lists of the kernel, of which include/mp/mp.h has one. */
struct list_head {
	struct list_head *next, *prev;
};
