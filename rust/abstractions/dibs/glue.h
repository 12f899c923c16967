/* SPDX-License-Identifier: GPL-2.0-only */
/* Between glue.c and dibs.rs, which declares the same. */
#ifndef MP_DIBS_GLUE_H
#define MP_DIBS_GLUE_H

#include <linux/types.h>

#define MP_DIBS_FABRIC 0xff4d
#define MP_DIBS_BUFFERS 1024

struct mp_dibs;

struct mp_dibs_buffer {
	void *address;
	u64 token;
	u32 index;
};

/* Return 0 or a negative errno. Names are of 16 bytes. */
struct mp_dibs_calls {
	int (*query)(void *data, const u8 *gid);
	int (*add)(void *data, const u8 *gid, u32 len, struct mp_dibs_buffer *buffer);
	int (*remove)(void *data, u32 index, u64 token);
	int (*move)(void *data, u64 token, u32 signal, bool sf, u32 offset, const void *bytes,
		    u32 len);
	int (*event)(void *data, const u8 *gid, u32 code, u64 info);
};

struct mp_dibs *mp_dibs_new(void);
void mp_dibs_free(struct mp_dibs *mp);
int mp_dibs_add(struct mp_dibs *mp, const u8 *gid, const struct mp_dibs_calls *calls, void *data,
		u32 domain, u8 bus, u8 devfn);
void mp_dibs_del(struct mp_dibs *mp);
void mp_dibs_signal(struct mp_dibs *mp, u32 index, u32 signal);
void mp_dibs_event(struct mp_dibs *mp, const u8 *gid, u32 code, u64 info);
void mp_dibs_gone(struct mp_dibs *mp, const u8 *gid);

#endif
