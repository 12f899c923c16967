/* SPDX-License-Identifier: GPL-2.0-only */
/* Types of the kernel that include/mp/mp.h uses. */
#include <stdbool.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 __le32;
typedef u64 __le64;
