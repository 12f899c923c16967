/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The fabric's character device, /dev/mp_fabric.
 *
 * The only place where its structures, numbers and limits are defined: the kernel
 * module and the libraries in userlib generate theirs from this file.
 *
 * An open file is a context: it owns objects, which are named by handles and end
 * with it. A context belongs to the process that opened the file and is useless to
 * all others, also to children that inherit the descriptor; it ends when that
 * process exits or has closed all its descriptors of the file.
 *
 * Every structure starts with its size in bytes, which the caller sets. A kernel
 * that knows more fields takes those that are missing as zero; one that knows less
 * refuses with E2BIG if any that it does not know is not zero. Fields marked "out"
 * are ignored on the way in and untouched unless the call succeeds, unless stated
 * otherwise. Addresses of user memory are 64 bits wide for all callers, and the
 * layout is the same for 32-bit and 64-bit callers.
 *
 * Errors of all calls: EFAULT, EINVAL (size too small, unknown flag, reserved field
 * not zero), E2BIG (see above), EACCES (the context belongs to another process),
 * ESHUTDOWN (it has ended), ENOTTY (unknown number).
 */
#ifndef _UAPI_LINUX_MP_FABRIC_H
#define _UAPI_LINUX_MP_FABRIC_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MP_FABRIC_DEVICE "mp_fabric"
#define MP_FABRIC_VERSION 1

#define MP_IOC_MAGIC 0xBB

/* Deadlines are times of CLOCK_MONOTONIC in nanoseconds. */
#define MP_DEADLINE_PAST 0ULL			/* do not wait */
#define MP_DEADLINE_NEVER 0xFFFFFFFFFFFFFFFFULL

/* Most bytes of opaque data that a window is posted with. */
#define MP_WINDOW_DATA_MAX 1024

/* A size as large as can be had. */
#define MP_SIZE_MAX 0xFFFFFFFFFFFFFFFFULL

/* Types of objects that have handles; the other numbers are reserved. */
enum {
	MP_OBJECT_SESSION = 1,	/* a use of windows that is shared with one peer process */
	MP_OBJECT_SEGMENT = 2,	/* reserved: memory that many peers may connect to */
	MP_OBJECT_CONNECTION = 3, /* reserved: a use of a remote segment */
	MP_OBJECT_PORT = 4,	/* reserved: an addressed queue of messages */
	MP_OBJECT_EVENT = 5,	/* reserved: a flag or counter that peers trigger */
	MP_OBJECT_REGION = 6,	/* reserved: user memory that is registered */
	MP_OBJECT_QUEUE = 7,	/* reserved: asynchronous copies */
};

/*
 * What may have happened to an object, as bits. PAIRED, CLOSED and DOWN stay set,
 * except for DOWN of a session without a partner, which ends when the link is back;
 * the others are taken by MP_IOC_WAIT. A pair whose link was down, and one whose
 * interface has been removed, has both CLOSED and DOWN from then on.
 */
#define MP_EVENT_STATE		0x01	/* interface: it has gone up or down */
#define MP_EVENT_WINDOWS	0x02	/* interface: the peer's windows have changed */
#define MP_EVENT_PAIRED		0x04	/* session: has a partner, or has had one */
#define MP_EVENT_SIGNAL		0x08	/* session: the partner has signalled */
#define MP_EVENT_CLOSED		0x10	/* session: the partner is gone for good */
#define MP_EVENT_DOWN		0x20	/* session: the link is down */

/* MP_IOC_INFO */
struct mp_info {
	__u32 size;
	__u32 version;			/* out: MP_FABRIC_VERSION */
	__aligned_u64 features;		/* out: MP_FEATURE_* */
	__u32 sessions_max;		/* out: most sessions of a context */
	__u32 user_sessions_max;	/* out: most sessions of all contexts of a user */
};

#define MP_FEATURE_SESSIONS	0x1

/* MP_IOC_INTERFACES: the local ends of all links. ENOSPC: see count. */
struct mp_interfaces {
	__u32 size;
	__u32 capacity;			/* in ids */
	__u32 count;			/* out, also with ENOSPC: ids present */
	__u32 reserved;
	__aligned_u64 ids;		/* address of an array of __u32; never 0 in it */
};

#define MP_INTERFACE_UP		0x1	/* both hosts reach each other */
#define MP_INTERFACE_LOOPBACK	0x2	/* the host itself */
#define MP_INTERFACE_PCI	0x4	/* the PCI fields are valid */
#define MP_INTERFACE_REMOTE	0x8	/* the remote fields are valid */

/* MP_IOC_INTERFACE. ENODEV: no such interface. */
struct mp_interface {
	__u32 size;
	__u32 id;			/* in; the same as long as the hardware is */
	__u32 flags;			/* out: MP_INTERFACE_* */
	__u32 peer;			/* out: id of the peer; MP_PEER_NONE if not up */
	__aligned_u64 epoch;		/* out: number of this life of the link; 0 if not up */
	__aligned_u64 local_total;	/* out: bytes of this host for windows; 0 if not up */
	__aligned_u64 local_free;	/* out: longest piece of it that is free */
	__aligned_u64 remote_total;	/* out: bytes of the peer for windows */
	__u16 vendor;			/* out: PCI ids of the bridge */
	__u16 device;
	__u16 subsystem_vendor;
	__u16 subsystem_device;
	__u16 pci_domain;		/* out: where the bridge is */
	__u8 pci_bus;
	__u8 pci_devfn;
	__u8 remote_word_size;		/* out: 32 or 64 */
	__u8 remote_big_endian;		/* out: 0 or 1 */
	__u16 reserved;
	char name[32];			/* out: ends with a zero byte */
};

#define MP_PEER_NONE 0xFFFFFFFF

/*
 * MP_IOC_WAIT: waits until an event of the mask is there, and takes what can be
 * taken. With MP_WAIT_INTERFACE the target is an interface, whose first wait in a
 * context finds both its events.
 *
 * ENOENT: no such object; also if it is closed meanwhile. ENODEV: no such interface.
 * ETIMEDOUT. ENOTCONN: a session without a partner, and the mask has not PAIRED.
 * EINTR: the process is being killed.
 */
struct mp_wait {
	__u32 size;
	__u32 flags;			/* MP_WAIT_* */
	__u32 target;			/* handle, or id of an interface */
	__u32 mask;			/* MP_EVENT_* */
	__aligned_u64 deadline;
	__u32 events;			/* out: those of the mask that are there */
	__u32 reserved;
};

#define MP_WAIT_INTERFACE	0x1
#define MP_WAIT_ONE		0x2	/* only the most important: CLOSED, DOWN, SIGNAL */

/*
 * MP_IOC_NOTIFY: signals an eventfd whenever an event of the mask comes, and at once
 * if one is there; -1 ends that. One eventfd for each object.
 *
 * ENOENT, ENODEV: as MP_IOC_WAIT. EBADF: not an eventfd.
 */
struct mp_notify {
	__u32 size;
	__u32 flags;			/* MP_WAIT_INTERFACE */
	__u32 target;
	__u32 mask;
	__s32 eventfd;
	__u32 reserved;
};

/* MP_IOC_WINDOWS: ids of all windows of the peer. ENODEV, ENETDOWN, ENOSPC. */
struct mp_windows {
	__u32 size;
	__u32 interface;
	__u32 capacity;			/* in ids */
	__u32 count;			/* out, also with ENOSPC: ids present */
	__aligned_u64 ids;		/* address of an array of __u32 */
};

/* Who pairs with whom. */
enum {
	MP_ROLE_SERVER = 1,	/* waits for a client */
	MP_ROLE_CLIENT = 2,	/* pairs with a server at once or fails */
	MP_ROLE_PEER = 3,	/* pairs with a peer at once, or waits for one */
};

/* What a local window is. */
enum {
	MP_LOCATION_LOGICAL = 1,	/* memory that the fabric provides */
	MP_LOCATION_PHYSICAL = 2,	/* physical addresses that the server names */
};

/*
 * MP_IOC_WINDOW: a window of the peer, as the peer's session sees it. The sizes of
 * a paired one are the actual ones. ENODEV, ENETDOWN, ENOENT: no such window,
 * ENOSPC: data_size is too small, everything else has been filled in.
 */
struct mp_window {
	__u32 size;
	__u32 interface;		/* in */
	__u32 id;			/* in */
	__u32 role;			/* out: MP_ROLE_* */
	__u32 location;			/* out: MP_LOCATION_* */
	__u32 protocol;			/* out */
	__u32 paired;			/* out: 0 or 1 */
	__u32 data_size;		/* in: room at data; out: bytes of data */
	__aligned_u64 data;		/* address; 0 if data_size is 0 */
	__aligned_u64 local_min;	/* out, in bytes */
	__aligned_u64 local_max;
	__aligned_u64 remote_min;
	__aligned_u64 remote_max;
};

/*
 * MP_IOC_SESSION_OPEN: posts a window, or pairs with one of the peer. A session that
 * is posted is visible to the peer when the call returns.
 *
 * In this order: ENODEV: no such interface. EINVAL: both maxima 0, a maximum below
 * its minimum, too much data. ENETDOWN: the interface is down. ENOSPC: the minima
 * cannot be had. EPERM: physical addresses need CAP_SYS_RAWIO. EOPNOTSUPP: the
 * physical addresses cannot be reached by the peer. EADDRINUSE: the uid is taken.
 * ECONNREFUSED: a client found nobody. EDQUOT: too many sessions. ENOMEM. EINTR: the
 * process is being killed.
 */
struct mp_session_open {
	__u32 size;
	__u32 interface;
	__u32 role;			/* MP_ROLE_* */
	__u32 location;			/* MP_LOCATION_* */
	__u32 protocol;
	__u32 uid;			/* in: 0 for any; out: that of the session */
	__aligned_u64 data;		/* address; of servers and peers */
	__u32 data_size;		/* in bytes, at most MP_WINDOW_DATA_MAX */
	__u32 handle;			/* out: unique on this host, never 0 */
	__aligned_u64 local_min;	/* bytes that the peer shall reach */
	__aligned_u64 local_max;
	__aligned_u64 remote_min;	/* bytes of the peer that this process shall reach */
	__aligned_u64 remote_max;
	__aligned_u64 address;		/* of a physical server */
};

/*
 * MP_IOC_SESSION. ENOENT: no such session.
 *
 * mmap() with MAP_SHARED takes the offset of a window and at most its size, rounded
 * up to pages. ENOENT: no such session, or it is closed, EINVAL: beyond the window,
 * EACCES, ESHUTDOWN, ENOMEM.
 */
struct mp_session {
	__u32 size;
	__u32 handle;			/* in */
	__u32 events;			/* out: all MP_EVENT_* that are there; takes none */
	__u32 interface;		/* out */
	__aligned_u64 local_size;	/* out, in bytes; 0: no such window, or not paired */
	__aligned_u64 local_offset;	/* out: for mmap(); not of a physical server */
	__aligned_u64 remote_size;
	__aligned_u64 remote_offset;
};

/* MP_IOC_CLOSE and MP_IOC_SIGNAL. ENOENT: no such object. */
struct mp_handle {
	__u32 size;
	__u32 handle;
};

/*
 * MP_IOC_SIGNAL: the partner's SIGNAL is set once all that this process has written
 * before is in the partner's memory. In this order: ECONNRESET: the partner is gone,
 * ENETDOWN, ENOTCONN: no partner yet.
 */

/*
 * MP_IOC_SESSION_ADDRESS: where a device of this host reaches the remote window.
 * EPERM, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO: no remote window, EOPNOTSUPP:
 * devices cannot reach it.
 */
struct mp_session_address {
	__u32 size;
	__u32 handle;
	__aligned_u64 address;		/* out: on the PCI bus */
};

#define MP_ACCESS_READ		0x1
#define MP_ACCESS_WRITE		0x2
#define MP_ACCESS_CLEAR		0x80000000	/* alone: takes back what the device has */

/*
 * MP_IOC_SESSION_ACCESS: lets a device of this host reach the remote window, at its
 * address on the PCI bus, as long as the session is open and paired. Without an IOMMU
 * between the device and the bus nothing has to be done. Whether there is such a device is
 * not looked at.
 * EINVAL, and those of MP_IOC_SESSION_ADDRESS; EOPNOTSUPP also: another process says what
 * the device reaches, or too many devices do.
 */
struct mp_session_access {
	__u32 size;
	__u32 handle;
	__u32 mode;			/* MP_ACCESS_* */
	__u16 pci_domain;
	__u8 pci_bus;
	__u8 pci_devfn;
};

/*
 * read() gives as many of these as there are and fit. It waits for the first one,
 * unless the file was opened with O_NONBLOCK, which concerns no other call: EAGAIN.
 * EINVAL: there is no room for one. Only objects of MP_IOC_WATCH are reported; poll()
 * finds the file readable while there are any.
 */
struct mp_event {
	__aligned_u64 cookie;
	__u32 target;			/* handle, or id of an interface */
	__u32 events;			/* MP_EVENT_*; they are not taken by that */
};

/* MP_IOC_WATCH: reports events of the mask by read(); 0 ends that. ENOENT, ENODEV. */
struct mp_watch {
	__u32 size;
	__u32 flags;			/* MP_WAIT_INTERFACE */
	__u32 target;
	__u32 mask;			/* MP_EVENT_* */
	__aligned_u64 cookie;		/* what read() names it by */
};

/* The calls; the argument is the address of the structure beside. */
enum {
	MP_IOC_INFO = _IO(MP_IOC_MAGIC, 0x00),	/* struct mp_info */
	MP_IOC_CLOSE = _IO(MP_IOC_MAGIC, 0x01),	/* struct mp_handle */
	MP_IOC_WAIT = _IO(MP_IOC_MAGIC, 0x02),	/* struct mp_wait */
	MP_IOC_NOTIFY = _IO(MP_IOC_MAGIC, 0x03),	/* struct mp_notify */
	MP_IOC_WATCH = _IO(MP_IOC_MAGIC, 0x04),	/* struct mp_watch */
	MP_IOC_SIGNAL = _IO(MP_IOC_MAGIC, 0x05),	/* struct mp_handle */
	MP_IOC_INTERFACES = _IO(MP_IOC_MAGIC, 0x10),	/* struct mp_interfaces */
	MP_IOC_INTERFACE = _IO(MP_IOC_MAGIC, 0x11),	/* struct mp_interface */
	MP_IOC_WINDOWS = _IO(MP_IOC_MAGIC, 0x12),	/* struct mp_windows */
	MP_IOC_WINDOW = _IO(MP_IOC_MAGIC, 0x13),	/* struct mp_window */
	MP_IOC_SESSION_OPEN = _IO(MP_IOC_MAGIC, 0x20),	/* struct mp_session_open */
	MP_IOC_SESSION = _IO(MP_IOC_MAGIC, 0x21),	/* struct mp_session */
	MP_IOC_SESSION_ADDRESS = _IO(MP_IOC_MAGIC, 0x22),	/* struct mp_session_address */
	MP_IOC_SESSION_ACCESS = _IO(MP_IOC_MAGIC, 0x23),	/* struct mp_session_access */
};

#endif /* _UAPI_LINUX_MP_FABRIC_H */
