/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The fabric's character device, /dev/mp_fabric.
 *
 * The only place where its structures, numbers and limits are defined: the kernel
 * module and the libraries in userlib generate theirs from this file.
 *
 * An open file is a context: it owns objects, which are named by handles and end
 * with it. A context belongs to the process that opened the file and is useless to
 * all others, also to children that inherit the descriptor; it ends when that
 * process exits, or when the table of descriptors in which it was opened has none of the file
 * any more. All threads of a process share one table, unless one has unshared it.
 *
 * Every structure starts with its size in bytes, which the caller sets. A kernel
 * that knows more fields takes those that are missing as zero; one that knows less
 * refuses with E2BIG if any that it does not know is not zero. Fields marked "out"
 * are ignored on the way in and untouched unless the call succeeds, unless stated
 * otherwise. Addresses of user memory are 64 bits wide for all callers, and the
 * layout is the same for 32-bit and 64-bit callers: no structure has padding that is not
 * named here.
 *
 * Elements of arrays, and records, have a size as well, which the caller names beside them; 0
 * is that of the first version. The same holds for what only one of the two sides knows.
 *
 * open(): EDQUOT: too many contexts of the user. ENOMEM.
 *
 * Errors of all calls: EFAULT, EINVAL (size too small, unknown flag, reserved field
 * not zero), E2BIG (see above), EACCES (the context belongs to another process),
 * ESHUTDOWN (it has ended), ENOTTY (unknown number).
 *
 * MP_IOC_WAIT, MP_IOC_NOTICE, MP_IOC_SEND, MP_IOC_RECEIVE, MP_IOC_PARK and read() end early when
 * a signal is handled: they have done nothing then, and are made again by the kernel if the
 * handler was installed with SA_RESTART, and fail with EINTR otherwise. A process that sleeps in
 * them can be stopped, traced and frozen. The same holds for MP_IOC_QUEUE_ABORT, and for
 * MP_IOC_CLOSE and MP_IOC_REMOVE of a queue, of which copies stop all the same. All other calls see
 * the end of what they have begun: only a signal that kills the process ends them.
 *
 * A call that fails with EFAULT has taken nothing, sent nothing, and closed again what it
 * had made, as MP_IOC_CLOSE does; a peer may have seen that. Arrays may have been written
 * in part.
 */
#ifndef _UAPI_LINUX_MP_FABRIC_H
#define _UAPI_LINUX_MP_FABRIC_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MP_FABRIC_DEVICE "mp_fabric"
#define MP_FABRIC_VERSION 1

#define MP_IOC_MAGIC 0xBB

/* Deadlines are times of the caller's CLOCK_MONOTONIC, in nanoseconds. */
#define MP_DEADLINE_PAST 0ULL			/* do not wait */
#define MP_DEADLINE_NEVER 0xFFFFFFFFFFFFFFFFULL

/* Most bytes of opaque data that a session has, and that it is answered with. */
#define MP_WINDOW_DATA_MAX 1024

/*
 * Most bytes of a name: of a session, segment, event or port. Names are any bytes, and equal if
 * they are in length and in all bytes.
 */
#define MP_NAME_MAX 64

/* A size as large as can be had. */
#define MP_SIZE_MAX 0xFFFFFFFFFFFFFFFFULL

/* Types of objects that have handles; the other numbers are reserved. */
enum {
	MP_OBJECT_SESSION = 1,	/* a use of windows that is shared with one peer process */
	MP_OBJECT_SEGMENT = 2,	/* memory with an id that many peers may connect to */
	MP_OBJECT_CONNECTION = 3, /* a use of a segment, event or port of a peer */
	MP_OBJECT_PORT = 4,	/* a numbered queue of messages */
	MP_OBJECT_EVENT = 5,	/* a numbered flag or counter that peers trigger */
	MP_OBJECT_REGION = 6,	/* reserved: user memory that is registered */
	MP_OBJECT_QUEUE = 7,	/* asynchronous copies */
	MP_OBJECT_GRANT = 8,	/* what one partner may do with a segment */
};

/*
 * What may have happened to an object, as bits. PAIRED, REFUSED, CLOSED and DOWN stay set,
 * except for DOWN of a session without a partner, and of a connection, which ends when
 * the link is back. NOTICE, MESSAGE and REQUEST are there as long as there is one, DONE
 * until a queue is started again. The others are taken by MP_IOC_WAIT: SIGNAL of an
 * event that counts once for each time that it was triggered. A pair whose link was
 * down, and one whose interface has been removed, has both CLOSED and DOWN from then on.
 */
#define MP_EVENT_STATE		0x01	/* interface: it has gone up or down */
#define MP_EVENT_WINDOWS	0x02	/* interface: the peer's windows have changed */
#define MP_EVENT_PAIRED		0x04	/* session: has a partner, or has had one */
#define MP_EVENT_SIGNAL		0x08	/* session: the partner has signalled; event: triggered */
#define MP_EVENT_CLOSED		0x10	/* the partner, the owner or the interface is gone for good */
#define MP_EVENT_DOWN		0x20	/* session, connection: the link is down */
#define MP_EVENT_NOTICE		0x40	/* segment, connection: MP_IOC_NOTICE has something */
#define MP_EVENT_MESSAGE	0x80	/* port: MP_IOC_RECEIVE has something */
#define MP_EVENT_DONE		0x100	/* queue: it is in a final state */
#define MP_EVENT_REQUEST	0x200	/* session, MP_SESSION_DEFER: a client's request is at hand */
#define MP_EVENT_REFUSED	0x400	/* session, MP_SESSION_NONBLOCK: it will have no partner */

/* MP_IOC_INFO */
struct mp_info {
	__u32 size;
	__u32 version;			/* out: MP_FABRIC_VERSION */
	__aligned_u64 features;		/* out: MP_FEATURE_* */
	__u32 sessions_max;		/* out: most sessions of a context */
	__u32 user_sessions_max;	/* out: most sessions of all contexts of a user */
	__u32 objects_max;		/* out: most other objects of a context */
	__u32 user_objects_max;		/* out: most other objects of a user */
	__aligned_u64 status_offset;	/* out: for mmap() of the status words, PROT_READ only */
	__aligned_u64 status_length;	/* out: their bytes, whole pages; 0 without */
	__u32 user_contexts_max;	/* out: most open files of a user */
	__u32 user_segments_max;	/* out: most uses of segments of a user */
	__u32 user_connections_max;	/* out: most connections of a user */
	__u32 user_memory_max;		/* out: most of the memory that peers reach, in percent */
	__u32 message_max;		/* out: most bytes of a message */
	__u32 messages_max;		/* out: most messages of a connection that wait at a port */
	__u32 queue_entries_max;	/* out: most copies of one start */
	__u32 park_entries_max;		/* out: most sessions to sleep on */
	__u32 stores_max;		/* out: most stores of one call */
	__u32 stores_bytes_max;		/* out: most bytes of them */
};

/* What this kernel has; the calls of the others are unknown numbers. */
#define MP_FEATURE_SESSIONS	0x1
#define MP_FEATURE_SEGMENTS	0x2	/* also connections, notices and status words */
#define MP_FEATURE_EVENTS	0x4
#define MP_FEATURE_PORTS	0x8
#define MP_FEATURE_QUEUES	0x10
#define MP_FEATURE_REGISTER		0x20	/* MP_SEGMENT_EMPTY */
#define MP_FEATURE_PINNED	0x40	/* MP_QUEUE_PINNED */
#define MP_FEATURE_ACCEPT	0x80	/* names and flags of sessions, MP_IOC_SESSION_ANSWER */
#define MP_FEATURE_PARK		0x100	/* MP_IOC_PARK */
#define MP_FEATURE_PLACED	0x200	/* MP_PUBLISH_PLACED, MP_CONNECT_PLACED, MP_QUEUE_READ */
#define MP_FEATURE_GRANTS	0x400	/* MP_IOC_SEGMENT_GRANT */
#define MP_FEATURE_REGISTER_ANY	0x800	/* MP_REGISTER_READ_ONLY, and any address and length */
#define MP_FEATURE_STORE	0x1000	/* MP_IOC_SESSION_STORE, MP_INTERFACE_ROUTED */
#define MP_FEATURE_NAMES	0x2000	/* names of segments, events and ports */
#define MP_FEATURE_ARRIVALS	0x4000	/* MP_INTERFACE_ANY */
#define MP_FEATURE_HANDOVER	0x8000	/* MP_IOC_EXPORT, MP_IOC_IMPORT */
#define MP_FEATURE_DMABUF	0x10000	/* MP_IOC_SEGMENT_DMABUF, MP_REGISTER_DMABUF */
#define MP_FEATURE_REGISTER_BAR	0x20000	/* MP_REGISTER_BAR, MP_LOCATION_BAR */
#define MP_FEATURE_ONE_PEER	0x40000	/* MP_SEGMENT_ONE_PEER */
#define MP_FEATURE_PRIVATE	0x80000	/* MP_SEGMENT_PRIVATE: no window */
#define MP_FEATURE_EXCHANGE	0x100000	/* MP_IOC_EXCHANGE */

/*
 * A status word is an aligned __u64 that tells the state of a connection, queue or session of
 * the context without a call. The lower half is its state, the upper half counts how often a
 * connection has ceased to be operational, or how often a queue was started, modulo 2^32; it
 * is 0 for a session.
 *
 * The state of a session is those of its events that no wait takes: MP_EVENT_PAIRED, CLOSED,
 * DOWN, REQUEST and REFUSED.
 */
#define MP_STATUS_STATE(word) ((__u32)(word))
#define MP_STATUS_COUNT(word) ((__u32)((word) >> 32))

/* MP_IOC_INTERFACES: the local ends of all links. ENOSPC: see count. */
struct mp_interfaces {
	__u32 size;
	__u32 capacity;			/* in ids */
	__u32 count;			/* out, also with ENOSPC: ids present */
	__u32 reserved;
	__aligned_u64 ids;		/* address of an array of __u32; never 0 in it; those with
					 * MP_INTERFACE_ROUTED come last
					 */
};

#define MP_INTERFACE_UP		0x1	/* both hosts reach each other */
#define MP_INTERFACE_LOOPBACK	0x2	/* the host itself */
#define MP_INTERFACE_PCI	0x4	/* the PCI fields are valid */
#define MP_INTERFACE_REMOTE	0x8	/* the remote fields are valid */
#define MP_INTERFACE_ROUTED	0x10	/* to a host that another one forwards to: without windows */

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
	__u16 pci_domain;		/* out: where the bridge is; see MP_PCI_DOMAIN() */
	__u8 pci_bus;
	__u8 pci_devfn;
	__u8 remote_word_size;		/* out: 32 or 64 */
	__u8 remote_big_endian;		/* out: 0 or 1 */
	__u16 pci_domain_high;		/* out */
	char name[32];			/* out: ends with a zero byte */
};

#define MP_PEER_NONE 0xFFFFFFFF

/* A PCI domain has 32 bits, in two fields of a structure. */
#define MP_PCI_DOMAIN(of) ((__u32)(of)->pci_domain_high << 16 | (of)->pci_domain)

/*
 * MP_IOC_WAIT: waits until an event of the mask is there, and takes what can be
 * taken. With MP_WAIT_INTERFACE the target is an interface, whose first wait in a
 * context finds both its events; or MP_INTERFACE_ANY, which has MP_EVENT_STATE
 * whenever an interface is added, and at the first wait.
 *
 * ENOENT: no such object; also if it is closed meanwhile. ENODEV: no such interface.
 * ETIMEDOUT. ENOTCONN: a session without a partner, and the mask has none of PAIRED, REQUEST
 * and REFUSED. EINTR: a signal was handled.
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
 * As a target with MP_WAIT_INTERFACE, also of MP_IOC_EVENTFD and MP_IOC_WATCH: all interfaces, for
 * MP_EVENT_STATE when there is a new one. Another mask is EINVAL; without MP_FEATURE_ARRIVALS it is
 * ENODEV. No interface has this id.
 */
#define MP_INTERFACE_ANY	0

/*
 * MP_IOC_EVENTFD: signals an eventfd whenever an event of the mask comes, and at once
 * if one is there; -1 ends that. One eventfd for each object.
 *
 * ENOENT, ENODEV: as MP_IOC_WAIT. EBADF: not an eventfd.
 */
struct mp_eventfd {
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
	MP_LOCATION_BAR = 3,		/* the same, of a PCI function; only to open a server */
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

#define MP_SESSION_DEFER	0x1	/* server: its owner answers each request */
#define MP_SESSION_ONCE		0x2	/* with DEFER: one request, then the session is over */
#define MP_SESSION_NONBLOCK	0x4	/* client, peer: the call does not wait for an answer */
#define MP_SESSION_NO_WINDOWS	0x8	/* has no windows: both maxima are 0 */

/*
 * MP_IOC_SESSION_OPEN: posts a window, or pairs with one of the peer. A session that
 * is posted is visible to the peer when the call returns.
 *
 * Two sessions fit only if their names are equal, in length and in bytes; one without a name
 * fits only others without. name_own divides the names of peers: the first name_own bytes
 * are a peer's own name, the rest is that of the peer it wants. Two peers with such names fit
 * if each has the name that the other one wants. A name does not replace protocol and uid,
 * which have to fit as well. With MP_SESSION_NO_WINDOWS a session fits only others with that flag.
 *
 * A server with MP_SESSION_DEFER has no partner before MP_IOC_SESSION_ANSWER gives it one. It has
 * one request at a time; meanwhile it is not there for other clients, who take the next
 * server that fits, in the order of posting, or find nobody. When a request has been
 * rejected or withdrawn, the server waits for the next one; with MP_SESSION_ONCE it is over:
 * it has CLOSED, and no client finds it.
 *
 * The call of a client that finds such a server returns when the request is accepted; without
 * a deadline: a signal that kills the process ends it. With MP_SESSION_NONBLOCK it returns as
 * soon as the server has the request: PAIRED or REFUSED tell what has become of it, and
 * MP_IOC_CLOSE withdraws it; MP_IOC_SESSION tells the uid once there is a partner. A server that
 * is closed before it answers has refused.
 *
 * In this order: ENODEV: no such interface. EINVAL: both maxima 0, unless MP_SESSION_NO_WINDOWS,
 * a maximum below its minimum, too much data, a name too long, a flag that is for other roles.
 * EPERM: physical addresses need CAP_SYS_RAWIO and a kernel that is not locked down. EDQUOT: too
 * many sessions. ENETDOWN: the interface is down. EOPNOTSUPP: the physical addresses are not all
 * memory of devices, or reserved, or cannot be reached by the peer. ENOSPC: the minima cannot be
 * had. EOPNOTSUPP: the peer's service is of a release that knows no names, MP_SESSION_DEFER or
 * MP_SESSION_NO_WINDOWS. EADDRINUSE: the uid is taken. ECONNREFUSED: a client found nobody, or its
 * request was rejected. ENETDOWN: the peer has not answered for 10 seconds. ENOMEM.
 * EINTR: the process is being killed.
 *
 * With MP_LOCATION_BAR (MP_FEATURE_REGISTER_BAR) the address is an offset in a BAR of a PCI function,
 * and the session is one with MP_LOCATION_PHYSICAL from then on. Before the others but the
 * interface's: EINVAL: no server. EPERM. EINVAL: no bytes, no multiple of a page. ENODEV, ERANGE,
 * EOPNOTSUPP: see MP_IOC_SEGMENT_REGISTER.
 */
struct mp_session_open {
	__u32 size;
	__u32 interface;
	__u32 role;			/* MP_ROLE_* */
	__u32 location;			/* MP_LOCATION_* */
	__u32 protocol;
	__u32 uid;			/* in: 0 for any; out: that of the session, 0 if none yet */
	__aligned_u64 data;		/* address; what the partner is told */
	__u32 data_size;		/* in bytes, at most MP_WINDOW_DATA_MAX */
	__u32 handle;			/* out: unique on this host, never 0 */
	__aligned_u64 local_min;	/* bytes that the peer shall reach */
	__aligned_u64 local_max;
	__aligned_u64 remote_min;	/* bytes of the peer that this process shall reach */
	__aligned_u64 remote_max;
	__aligned_u64 address;		/* of a physical server; of MP_LOCATION_BAR: in the BAR */
	__aligned_u64 name;		/* address */
	__u32 name_size;		/* in bytes, at most MP_NAME_MAX; 0 for none */
	__u32 name_own;			/* bytes of it, of a peer; else 0 */
	__u32 flags;			/* MP_SESSION_* */
	__u32 reserved;
	__u16 pci_domain;		/* of MP_LOCATION_BAR, else 0; see MP_PCI_DOMAIN() */
	__u8 pci_bus;
	__u8 pci_devfn;
	__u16 pci_domain_high;
	__u16 pci_bar;			/* its number */
};

/*
 * MP_IOC_SESSION. ENOENT: no such session.
 *
 * mmap() with MAP_SHARED takes the offset of a window and at most its size, rounded
 * up to pages. ENOENT: no such session, or it is closed, EINVAL: beyond the window,
 * EACCES (also for PROT_EXEC, by mprotect() as well), ESHUTDOWN, ENOMEM.
 *
 * A window with a size and the offset 0 cannot be mapped: see MP_IOC_SESSION_STORE.
 */
struct mp_session {
	__u32 size;
	__u32 handle;			/* in */
	__u32 events;			/* out: all MP_EVENT_* that are there; takes none */
	__u32 interface;		/* out */
	__aligned_u64 local_size;	/* out, in bytes; 0: no such window, or not paired */
	__aligned_u64 local_offset;	/* out: for mmap(); not of a physical server */
	__aligned_u64 remote_size;
	__aligned_u64 remote_offset;	/* 0 where the interface has MP_INTERFACE_ROUTED */
	__u32 status;			/* out: bytes from the status words' start to its own */
	__u32 uid;			/* out: 0 as long as it has none; older kernels: always */
};

/* Most stores of one call, and most bytes of all of them. */
#define MP_STORES_MAX 256
#define MP_STORES_BYTES_MAX 0x100000

/*
 * MP_IOC_SESSION_STORE: stores into the remote window of a session at an interface with
 * MP_INTERFACE_ROUTED. No bridge leads to that window: it cannot be mapped (remote_offset is 0),
 * and no device reaches it. The stores are sent, and the partner's kernel makes them in the order
 * of the array, each after the one before. Words that are aligned, of 8 bytes, are stored in one
 * piece each, if a store has nothing else and at most 64 bytes. They may be under way when
 * the call returns. What is stored, signalled, parked for or closed after that, by the same
 * thread or one that it has told, comes behind them.
 *
 * In this order: ENOENT: no such session. EINVAL: no stores, or too many. ENOTCONN: no
 * partner yet. ECONNRESET: the partner is gone, ENETDOWN. ENXIO: no remote window. EOPNOTSUPP: it
 * can be mapped. Of each store: EFAULT, EINVAL: their size is less than that of the first
 * version, or there are too many bytes, E2BIG: see MP_IOC_QUEUE_START. ERANGE: outside of the
 * window. ENOMEM. Up to here nothing was sent. Then some stores may have been made, from the first
 * one on: EFAULT: what is to be stored cannot be copied. ENOBUFS: no memory for the others.
 * ETIMEDOUT: the way takes nothing from anybody for 5 seconds, or there is no memory for so long.
 * EINTR: the process is being killed.
 */
struct mp_session_store {
	__u32 size;
	__u32 handle;
	__u32 count;			/* of stores */
	__u32 flags;			/* 0 */
	__aligned_u64 stores;		/* address of an array of struct mp_copy: from an address */
	__u32 store_size;		/* of one of them; 0: 24 bytes */
	__u32 reserved;
};

/* Who a session's partner is, or was. */
enum {
	MP_PARTNER_REQUEST = 1,		/* a client, which has not been answered */
	MP_PARTNER_PAIRED = 2,		/* the session has it, or has had it */
	MP_PARTNER_REJECTED = 3,	/* a server that has rejected the request */
	MP_PARTNER_GONE = 4,		/* a server that has gone, or its link, before it answered */
};

/*
 * MP_IOC_SESSION_PARTNER: whom a session has to do with. Of a server with MP_SESSION_DEFER: the
 * request at hand, before it is answered. The sizes are as that client has asked for them, of
 * a pair as they are, seen from the other host, and 0 of a server that has refused. The data is
 * what that session was opened with; for a client that a server has answered, what it was
 * answered with.
 *
 * ENOENT: no such session. ENOTCONN: it has nobody. ENOSPC: data_size is too small,
 * everything else has been filled in.
 */
struct mp_session_partner {
	__u32 size;
	__u32 handle;			/* in */
	__u32 state;			/* out: MP_PARTNER_* */
	__u32 request;			/* out: number of the request, never 0; 0 if there is none */
	__u32 peer;			/* out: id of its host */
	__u32 reason;			/* out: of a rejection; else 0 */
	__aligned_u64 data;		/* address; 0 if data_size is 0 */
	__u32 data_size;		/* in: room at data; out: bytes of data */
	__u32 reserved;
	__aligned_u64 local_min;	/* out, in bytes */
	__aligned_u64 local_max;
	__aligned_u64 remote_min;
	__aligned_u64 remote_max;
};

#define MP_ANSWER_ACCEPT	0x1
#define MP_ANSWER_REJECT	0x2

/*
 * MP_IOC_SESSION_ANSWER: accepts or rejects the request that a server has at hand.
 *
 * Accepting returns when both have a partner: the client's kernel has confirmed that the
 * client is still there. Rejecting does not wait.
 *
 * In this order: ENOENT: no such session. EINVAL: neither or both flags, too much data, a
 * reason without MP_ANSWER_REJECT, a session without MP_SESSION_DEFER. ENETDOWN: the link is
 * down. ECONNRESET: the request is not there any more: it was answered, or the client has
 * withdrawn it, or has gone. EBUSY: it is being accepted. ENOSPC: the memory cannot be had;
 * the request stays. ETIMEDOUT: the client's kernel has not confirmed in time; EINTR: the
 * process is being killed: the session is over and has CLOSED. The client is refused, or, if
 * its kernel confirms all the same, has a partner that is gone. ENOMEM: the request stays.
 */
struct mp_session_answer {
	__u32 size;
	__u32 handle;
	__u32 request;			/* of MP_IOC_SESSION_PARTNER */
	__u32 flags;			/* MP_ANSWER_* */
	__u32 reason;			/* of a rejection: any */
	__u32 data_size;		/* in bytes, at most MP_WINDOW_DATA_MAX */
	__aligned_u64 data;		/* address; what the client is told */
	__aligned_u64 deadline;
};

/*
 * MP_IOC_CLOSE and MP_IOC_SIGNAL. ENOENT: no such object. A segment, event or port is
 * closed as MP_IOC_REMOVE does it by force, a connection is disconnected, a queue aborted.
 * Closing: EINPROGRESS, EINTR: it is closed; see there. A queue is not closed with EINTR, and
 * cannot be started any more.
 */
struct mp_handle {
	__u32 size;
	__u32 handle;
};

/*
 * MP_IOC_SIGNAL: the partner's SIGNAL is set once all that this process has written
 * before is in the partner's memory. In this order: ECONNRESET: the partner is gone,
 * ENETDOWN, ENOTCONN: no partner yet.
 *
 * Of a connection to an event: the event is triggered once all that this process has
 * written before is in the memory of the event's host. ECONNRESET: the connection is
 * lost, ENETDOWN, EINVAL: not to an event.
 */

/*
 * MP_IOC_SESSION_ADDRESS: where a device of this host reaches the remote window.
 * EPERM, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO: no remote window, EOPNOTSUPP:
 * devices cannot reach it. EPERM: see MP_IOC_SESSION_OPEN.
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
 * not looked at. A device behind an IOMMU also loses it when one of its group gets a driver that
 * lets processes say what the group reaches, as VFIO's does.
 * EINVAL, and those of MP_IOC_SESSION_ADDRESS; EOPNOTSUPP also: there is such a driver, the
 * device has another host bridge, or too many devices reach the window.
 */
struct mp_session_access {
	__u32 size;
	__u32 handle;
	__u32 mode;			/* MP_ACCESS_* */
	__u16 pci_domain;		/* see MP_PCI_DOMAIN() */
	__u8 pci_bus;
	__u8 pci_devfn;
	__u16 pci_domain_high;
	__u16 reserved;
};

/*
 * read() gives as many of these as there are and fit, each of the size that the context has
 * named by MP_IOC_WATCH. It waits for the first one,
 * unless the file was opened with O_NONBLOCK, which concerns no other call: EAGAIN.
 * EINVAL: there is no room for one. Only objects of MP_IOC_WATCH are reported; poll()
 * finds the file readable while there are any.
 */
struct mp_event {
	__aligned_u64 cookie;
	__u32 target;			/* handle, or id of an interface */
	__u32 events;			/* MP_EVENT_*; they are not taken by that */
};

/*
 * MP_IOC_WATCH: reports events of the mask by read(); 0 ends that. ENOENT, ENODEV. EINVAL: the
 * size of records is less than that of their first version, or not that which the context has
 * named before. E2BIG: it is more than a page.
 */
struct mp_watch {
	__u32 size;
	__u32 flags;			/* MP_WAIT_INTERFACE */
	__u32 target;
	__u32 mask;			/* MP_EVENT_* */
	__aligned_u64 cookie;		/* what read() names it by */
	__u32 record_size;		/* of struct mp_event; 0: 16 bytes */
	__u32 reserved;
};

/* A word that a thread sleeps on, of a session. Both words are aligned, of 8 bytes. */
struct mp_park_entry {
	__u32 handle;			/* of a session */
	__u32 reserved;
	__aligned_u64 word;		/* bytes from the start of the own local window */
	__aligned_u64 value;		/* sleeps as long as the word is this */
	__aligned_u64 arm;		/* bytes from the start of the remote window */
	__aligned_u64 arm_value;	/* what the kernel stores there */
};

#define MP_PARK_ARMED		0x1	/* returns instead of sleeping */

/* Most entries of one call. */
#define MP_PARK_ENTRIES_MAX 1024

/* In index: there was nothing to tell. Only with MP_PARK_ARMED. */
#define MP_PARK_NONE 0xFFFFFFFF

/* In events, instead of MP_EVENT_*. */
#define MP_PARK_CHANGED		0x40000000	/* the word is not what it was to be */
#define MP_PARK_LATE		0x80000000	/* with CHANGED: and that for long; a signal got lost */

/*
 * MP_IOC_PARK: sleeps until one of the sessions has SIGNAL, CLOSED or DOWN, or until one of
 * the words has changed. Takes SIGNAL of the entry that it returns. A session may be in
 * several entries.
 *
 * If there is nothing to tell at the beginning, the kernel stores each arm_value in the
 * partner's memory, asks the hosts of the partners, and looks again when they have answered.
 * The answer proves that the partner sees the arm word, and that whatever it had stored
 * before it could see it has arrived. So a partner that stores, makes a full barrier, loads
 * its arm word, and makes MP_IOC_SIGNAL if it has not answered that value yet, wakes the
 * caller; no wake-up is lost, and nothing is read across the bridge. Arm words stay as they
 * are when the call returns.
 *
 * A word that changes without a signal when the hosts have answered is noticed by a look of
 * the kernel, within 100 ms: MP_PARK_LATE.
 *
 * With MP_DEADLINE_PAST the kernel arms, asks, and looks once without waiting for answers.
 * With MP_PARK_ARMED it returns when the answers are there: the caller sleeps in MP_IOC_WAIT, or
 * where MP_IOC_WATCH or MP_IOC_EVENTFD reach it, until SIGNAL, CLOSED or DOWN. It also returns
 * when there will be no answer; DOWN follows then. No look of the kernel makes up for a signal
 * that is lost while the caller sleeps there.
 *
 * ENOENT: no such session; also if it is closed meanwhile. EINVAL: no entries, or too many,
 * or an offset that is not a multiple of 8. Of each entry: EFAULT, EINVAL: their size is less
 * than that of the first version, E2BIG: see MP_IOC_QUEUE_START. ERANGE: outside of the window.
 * EOPNOTSUPP: the window is of physical addresses. ENOTCONN: a session has no partner yet.
 * ETIMEDOUT. EINTR: a signal was handled. ENOMEM.
 */
struct mp_park {
	__u32 size;
	__u32 flags;			/* MP_PARK_ARMED */
	__u32 count;			/* of entries */
	__u32 entry_size;		/* of one of them; 0: 40 bytes */
	__aligned_u64 entries;		/* address of an array of struct mp_park_entry */
	__aligned_u64 deadline;
	__u32 index;			/* out: of the first entry that has something to tell */
	__u32 events;			/* out: the most important of MP_EVENT_*, or MP_PARK_* */
};

#define MP_SEGMENT_PRIVATE	0x1	/* has no id, and is never published */
#define MP_SEGMENT_EMPTY	0x4	/* without memory; see MP_IOC_SEGMENT_REGISTER */
#define MP_SEGMENT_ONE_PEER	0x8	/* in memory that one interface leads to */

/*
 * MP_IOC_SEGMENT_CREATE: memory of this host, all zero, with an id that is unique on this
 * host. No peer is told of it yet. An empty one has no memory: its length is
 * the most that can be registered. It may have a name as well, which is unique among the
 * segments of this host: peers find it by either.
 *
 * The memory is that which all peers have a window to: a peer whose kernel does not keep to what it
 * is told can read and write it, also of segments that are for another peer.
 * With MP_SEGMENT_ONE_PEER it is memory that only the window of the interface's peer leads to, as
 * that of sessions, and with the interface to this host itself none: other peers cannot reach it
 * by windows whatever they do, and it cannot be published for them without MP_PUBLISH_PLACED. It
 * goes with the interface, as its bridge does. A private segment without that flag is in the same
 * memory as with the interface to this host itself, but can be prepared at any interface: for
 * copies of queues, and for grants to be read or with MP_PUBLISH_PLACED.
 *
 * In this order: EINVAL: no bytes, an empty one for one peer, a name too long, or one of a private
 * segment. ENODEV: no such interface. ENETDOWN: it is down. EDQUOT: too many objects. EADDRINUSE: all
 * ids that would do are taken, or the name is. ENOSPC: so much memory cannot be had. ENOMEM.
 */
struct mp_segment_create {
	__u32 size;
	__u32 flags;			/* MP_SEGMENT_PRIVATE, _EMPTY, _ONE_PEER */
	__u32 id;			/* in: wanted, not looked at if private; out: that it has */
	__u32 id_more;			/* in: how many ids after that would do as well; 0 if private */
	__aligned_u64 length;		/* bytes */
	__u32 handle;			/* out */
	__u32 reserved;
	__aligned_u64 name;		/* address */
	__u32 name_size;		/* in bytes, at most MP_NAME_MAX; 0 for none */
	__u32 interface;		/* of MP_SEGMENT_ONE_PEER, else 0 */
};

/*
 * MP_IOC_SEGMENT_ATTACH: one more handle of a segment that another context of the same
 * user has shared by MP_IOC_SEGMENT_SHARE (struct mp_handle; EOPNOTSUPP: it is private).
 * All handles are equal, and the segment goes with the last one. Each has notices of its
 * own, from now on.
 *
 * ENOENT: no such id. EPERM: it is not shared, or another user's. EDQUOT, ENOMEM.
 */
struct mp_segment_attach {
	__u32 size;
	__u32 id;
	__u32 handle;			/* out */
	__u32 reserved;
	__aligned_u64 length;		/* out: bytes */
};

#define MP_REGISTER_PHYSICAL	0x1	/* the address is a physical one */
#define MP_REGISTER_READ_ONLY	0x2	/* memory of the process that nobody writes by the segment */
#define MP_REGISTER_BAR		0x4	/* the address is an offset in a BAR of a PCI function */
#define MP_REGISTER_DMABUF	0x8	/* the address is an offset in a dma-buf */

/*
 * MP_IOC_SEGMENT_REGISTER: gives a segment that is empty its memory, once: that of the calling
 * process at an address, or physical memory of a device. Memory of a process may begin and end
 * anywhere, and must be writable, unless MP_REGISTER_READ_ONLY: then it may also be mapped without
 * write access, or from a file. Physical addresses and lengths are multiples of a page.
 *
 * Memory of a process is pinned, and counts for RLIMIT_MEMLOCK of its user, and of those who
 * have made the user namespaces around it, until nobody reaches it any more: the process may
 * unmap it. What is mapped there later is other memory.
 * Physical memory is named by its address, or as a part of what a PCI function has, which whoever
 * has enabled the function keeps enabled. The kernel does not copy to it or from it, and refuses
 * queues, grants and connections that are for that. As long as it is in a segment or a session, no
 * driver can request it ("mp_fabric" in /proc/iomem), and no memory can be plugged there.
 *
 * A dma-buf is memory that a driver has exported, of which the process has the descriptor fd, also
 * to write it. Whole pages of it are reached by windows of peers. The driver keeps it where it is from
 * MP_IOC_SEGMENT_PREPARE on, which may wait for that, until the segment is gone and no peer reaches it.
 * It is not mapped by the segment, nor copied by the kernel.
 *
 * Each host can use such a segment itself, also for copies of queues, unless it is a dma-buf; whether
 * peers reach it is found when it is published, of a dma-buf when it is prepared.
 *
 * A window and a mapping show whole pages, and let everything be written. So nobody is shown
 * memory that begins or ends inside of a page, as there are other bytes of the process beside
 * it, nor memory of MP_REGISTER_READ_ONLY: such a segment cannot be mapped, not even by its owner
 * (offset is 0 in MP_IOC_SEGMENT), no window is led there, and publishing it without
 * MP_PUBLISH_PLACED fails with EOPNOTSUPP, also on this host itself. It is only reached by copies
 * that this host's kernel makes, which checks each of them: those of queues, from it, and, once it
 * is published with MP_PUBLISH_PLACED, those for connections, which never reach bytes beside it, and
 * never write to memory of MP_REGISTER_READ_ONLY.
 *
 * In this order: ENOENT. EINVAL: no bytes, no multiples of a page (physical), or several flags.
 * ERANGE: more than it can be filled with. EEXIST: it has memory. Of a process: EFAULT: there is
 * none, it is not writable as it has to be, or it cannot be pinned, EDQUOT: RLIMIT_MEMLOCK.
 * Physical: EPERM: that needs CAP_SYS_RAWIO and a kernel that is not locked down, EOPNOTSUPP: by
 * the kernel's resource tree (/proc/iomem) not all of it is memory of devices, or reserved: it
 * is RAM or nowhere, belongs to firmware, a driver has requested it, or has the function whose it
 * is; or it is only in part what one device has. Of a BAR: ENODEV: there is no such function, or
 * it has no memory there, ERANGE: it has less. Of a dma-buf: EINVAL: no whole pages, or a descriptor
 * of something else, EOPNOTSUPP: this kernel has none, EBADF: no descriptor, EACCES: it is only to be
 * read, ERANGE: it has less. ENOMEM.
 */
struct mp_segment_register {
	__u32 size;
	__u32 handle;
	__u32 flags;			/* one of MP_REGISTER_* */
	__s32 fd;			/* of MP_REGISTER_DMABUF, else 0 */
	__aligned_u64 address;
	__aligned_u64 length;		/* bytes */
	__u16 pci_domain;		/* of MP_REGISTER_BAR, else 0; see MP_PCI_DOMAIN() */
	__u8 pci_bus;
	__u8 pci_devfn;
	__u16 pci_domain_high;
	__u16 pci_bar;			/* its number */
};

/* What peers at an interface may do with a segment. */
enum {
	MP_SEGMENT_UNPREPARED = 0,	/* nothing */
	MP_SEGMENT_PREPARED = 1,	/* nothing new; it can be published */
	MP_SEGMENT_PUBLISHED = 2,	/* connect to it */
};

#define MP_WITHDRAW_NOTIFY	0x1	/* asks those who are connected to leave */
#define MP_WITHDRAW_FORCE	0x2	/* ends their connections */

#define MP_PUBLISH_PLACED		0x1	/* no window has to lead there */

/*
 * MP_IOC_SEGMENT_PREPARE: has the memory reachable at an interface, now and whenever a peer is
 * there. MP_IOC_SEGMENT_PUBLISH: lets peers connect. Both do nothing if that is so.
 * MP_IOC_SEGMENT_WITHDRAW: lets no more peers connect; those that are stay, unless the flags say
 * otherwise. Grants end by themselves, see MP_IOC_SEGMENT_GRANT. When a call with
 * MP_WITHDRAW_FORCE succeeds, no connection by publishing is left, and nobody stores into the
 * memory by one any more: the peer's kernel has taken the mappings of its processes away and
 * ended their copies, and has said so. A peer that does not for 5 seconds loses its link, and
 * the next life of the link is the proof as well.
 *
 * EINPROGRESS: the connections have ended, but there is no proof: the peer does not answer and
 * has not come back for 5 seconds more, or the link was down. It may still store into the
 * memory, if it stands still and does not know that the link is down. The same call can be made
 * again, and MP_IOC_SEGMENT tells in ending whether it is needed. Memory of the fabric is not
 * given to others before that, and memory of a process stays pinned.
 *
 * ENOENT, ENODEV. Preparing: ENXIO: it is empty, ENOSPC: the peers there do not reach the
 * memory, of a segment with an id; of a dma-buf also ENETDOWN: the interface is down, EOPNOTSUPP:
 * it is not one run for the bridge, not where that reaches it, or the peer leads the windows, EINTR:
 * a signal has ended the wait for its driver, ENOMEM. Publishing: EOPNOTSUPP: it is private, ENXIO: not prepared there. Of
 * registered memory also ENOSPC: the bridge has no window to lead there that is free and large enough,
 * EOPNOTSUPP: none can be led there: pages of a process must be one run for the bridge, which
 * they are on one page, on a huge page, or behind an IOMMU, and it must be whole pages that may
 * be written: see MP_IOC_SEGMENT_REGISTER. Withdrawing: ENXIO: not published
 * there. EINPROGRESS: see above. EINTR: the process is being killed.
 *
 * With MP_PUBLISH_PLACED the two calls do not ask whether a window leads to the memory: there may
 * be none for those who connect without MP_CONNECT_PLACED. Publishing asks for one later, when
 * it is called again without. Publishing physical memory in this way fails with EOPNOTSUPP.
 */
struct mp_segment_interface {
	__u32 size;
	__u32 handle;
	__u32 interface;
	__u32 flags;			/* MP_WITHDRAW_* or MP_PUBLISH_PLACED, for those calls */
};

#define MP_GRANT_READ		0x1	/* its host may copy from the segment */
#define MP_GRANT_WRITE		0x2	/* the process may map it, and store into it */

/*
 * MP_IOC_SEGMENT_GRANT: lets one process connect to a segment: the partner of a session of the
 * caller. The segment need not be published, may be private, and may be granted to many
 * partners, each with rights of its own. The partner connects with MP_CONNECT_GRANTED to the
 * grant's handle, which the caller tells it, and with its own end of that session. Both kernels
 * look at that: the partner's whether the session is its own, the caller's whether it is the
 * partner of this one. Everybody else is refused, and so is the partner once it has parted.
 *
 * Only MP_GRANT_WRITE leads a window to the memory. Nobody reads across a bridge, and a window
 * cannot keep a process from storing: with MP_GRANT_READ alone there is nothing to map (offset
 * is 0 in MP_IOC_CONNECTION), also on this host itself, and MP_IOC_QUEUE_START fails with EACCES
 * unless it reads.
 * What such a connection is for are copies that the kernel of the segment's host makes.
 *
 * With MP_PUBLISH_PLACED the call does not ask whether a window leads to the memory: the partner
 * connects with MP_CONNECT_PLACED as well, and writes by copies too. The kernel has to make all
 * of them: there are none into memory of MP_REGISTER_READ_ONLY, and none of physical memory.
 *
 * MP_IOC_REMOVE and MP_IOC_CLOSE end the grant and its connections, and no others: they return
 * as for a segment of registered memory, and the segment's ending counts those connections as well.
 * Connections outlive the session that they were made by, until the grant ends.
 *
 * In this order: EINVAL: no rights or others. ENOENT: no such segment or session. EOPNOTSUPP:
 * the partner's host is of a release that knows no grants. EDQUOT: too many objects. ENXIO: the
 * segment is not prepared at the session's interface. ENOTCONN: the session has no partner,
 * ECONNRESET, ENETDOWN. To be written by a window, those of publishing; else EOPNOTSUPP: the
 * kernel does not make such copies. ENOMEM.
 */
struct mp_segment_grant {
	__u32 size;
	__u32 segment;			/* handle */
	__u32 session;			/* handle */
	__u32 rights;			/* MP_GRANT_* */
	__u32 handle;			/* out: of the grant */
	__u32 flags;			/* MP_PUBLISH_PLACED */
};

/*
 * MP_IOC_SEGMENT_DMABUF: a file descriptor of a dma-buf, whose memory is that of the segment, in whole
 * pages: to be mapped, and to be given to drivers of devices, which read it and, with
 * MP_GRANT_WRITE, write it; else a driver that would let its device write gets EACCES. The memory
 * neither moves nor is it taken back, as long as flags are 0. The dma-buf keeps the segment's memory,
 * as a descriptor of MP_IOC_EXPORT does, until nobody has it any more, and counts as one.
 *
 * In this order: EINVAL: no rights, others, or none to read. ENOENT. EACCES: the handle has not
 * these rights. ENXIO: the segment is empty. EOPNOTSUPP: its memory may go before it does, as that of a
 * host's only bridge, without windows for more; it was registered, and is not whole pages, only
 * read, or physical; or the kernel has no dma-bufs. EDQUOT. EMFILE, ENFILE: too many descriptors or
 * files. ENOMEM.
 */
struct mp_segment_dmabuf {
	__u32 size;
	__u32 flags;			/* 0 */
	__u32 handle;			/* in */
	__u32 rights;			/* in: MP_GRANT_READ, also MP_GRANT_WRITE */
	__s32 fd;			/* out */
	__u32 reserved;
};

#define MP_SEGMENT_SHARED	0x2	/* only in mp_segment */

/*
 * MP_IOC_SEGMENT. ENOENT; ENODEV: there is no such interface. mmap() is that of
 * MP_IOC_SESSION.
 */
struct mp_segment {
	__u32 size;
	__u32 handle;			/* in */
	__u32 interface;		/* in: 0 for none */
	__u32 state;			/* out: there, MP_SEGMENT_* */
	__u32 id;			/* out */
	__u32 flags;			/* out: MP_SEGMENT_*; EMPTY also once it has memory */
	__u32 connections;		/* out: of all peers, this host's included */
	__u32 ending;			/* out: that have ended, and may still store: see above */
	__aligned_u64 length;		/* out: bytes; 0 as long as it is empty */
	__aligned_u64 offset;		/* out: for mmap(); 0 if it is empty, or cannot be mapped */
};

#define MP_REMOVE_FORCE		0x1

/*
 * MP_IOC_REMOVE: of a segment, event, port or grant. EBUSY: there are connections, or a queue
 * that is not in a final state uses it; an event or port takes no new connections from
 * then on, nothing else has changed. With MP_REMOVE_FORCE the connections are lost. A
 * segment with other handles is never busy; of one that has ended, nobody stores into the memory
 * any more, as after MP_WITHDRAW_FORCE. ENOENT: no such object, EINVAL: another kind.
 *
 * It has ended with these errors: EINPROGRESS: of registered memory: that nobody stores into it
 * is not proven: see MP_WITHDRAW_FORCE. EINTR: the process is being killed.
 */
struct mp_remove {
	__u32 size;
	__u32 handle;
	__u32 flags;			/* MP_REMOVE_FORCE */
	__u32 reserved;
};

#define MP_OFFER_ANY		0x1	/* a number that nobody uses */
#define MP_OFFER_SHARED		0x2	/* with its user's processes that say so: all get all */
#define MP_OFFER_COUNTED	0x4	/* of an event: no trigger is merged with another one */

/*
 * MP_IOC_OFFER: an event or a port to which peers at an interface may connect at once.
 * Each of the two has numbers of its own at each interface, and names of its own. What is offered
 * has a number in any case; with a name as well, peers find it by either. Those who share it, all
 * of them processes of one user, offer it under the same name, or all without one, and under the
 * same number, or, with a name, say MP_OFFER_ANY: then it is the number that the name has.
 *
 * In this order: EINVAL: another object, a name too long. ENODEV. EDQUOT: too many objects.
 * EADDRINUSE: the number or the name is used, and it is not the same that both share, or another
 * user's, or one counts and the other does not. ENOMEM.
 */
struct mp_offer {
	__u32 size;
	__u32 flags;			/* MP_OFFER_* */
	__u32 interface;
	__u32 object;			/* MP_OBJECT_EVENT or MP_OBJECT_PORT */
	__u32 number;			/* in, unless MP_OFFER_ANY; out */
	__u32 handle;			/* out */
	__aligned_u64 name;		/* address */
	__u32 name_size;		/* in bytes, at most MP_NAME_MAX; 0 for none */
	__u32 reserved;
};

#define MP_CONNECT_COUNTED	0x1	/* to an event: fails unless it counts */
#define MP_CONNECT_PLACED	0x2	/* to a segment: needs no window */
#define MP_CONNECT_GRANTED	0x4	/* to a segment: by a grant to this process */

/*
 * MP_IOC_CONNECT: to a segment, event or port of the peer, or of this host itself, which has that
 * number or, with name_size, that name; the number is 0 then. Never waits for one to appear.
 *
 * In this order: EINVAL: another object, a name too long, a number or MP_CONNECT_GRANTED beside a
 * name. ENODEV. EDQUOT: too many objects. ENETDOWN. EOPNOTSUPP: with a name: the peer's service is of
 * a release that knows none of what is offered. ENOENT: none of that number or name is there, or
 * it is not published. ECONNREFUSED: there is
 * one, but it cannot have more connections, or does not count, or was granted to somebody else.
 * With MP_CONNECT_GRANTED, before EDQUOT: ENOENT: no such session, EINVAL: of another interface,
 * ENOTCONN, ECONNRESET, EOPNOTSUPP: see MP_IOC_SEGMENT_GRANT. ENOSPC: this host does not
 * reach the memory. ETIMEDOUT: no answer. EINTR: the process is being killed. ENOMEM.
 *
 * With MP_CONNECT_PLACED no window leads to the segment: memory of any length, and pages of a
 * process wherever they are. The connection cannot be mapped and has no address; queues copy, by
 * frames, which the kernel of the segment's host stores and reads. EOPNOTSUPP, in the place of
 * ENOENT: the peer's service is of a release that does not know of that. ENOSPC: it is physical
 * memory.
 */
struct mp_connect {
	__u32 size;
	__u32 flags;			/* MP_CONNECT_* */
	__u32 interface;
	__u32 object;			/* MP_OBJECT_SEGMENT, _EVENT or _PORT */
	__u32 number;			/* the segment's id, or the grant's handle */
	__u32 handle;			/* out */
	__aligned_u64 deadline;
	__u32 session;			/* with MP_CONNECT_GRANTED: handle; else 0 */
	__u32 reserved;
	__aligned_u64 name;		/* address */
	__u32 name_size;		/* in bytes, at most MP_NAME_MAX; 0 for none */
	__u32 reserved2;
};

/* The state of a connection, as bits: the status word has them, too. */
#define MP_CONNECTION_OPERATIONAL 0x1	/* what is written arrives */
#define MP_CONNECTION_WITHDRAWN	0x2	/* the owner would like it to end */
#define MP_CONNECTION_LOST	0x4	/* it has ended for good */
#define MP_CONNECTION_PLACED	0x8	/* made with MP_CONNECT_PLACED; never changes */

/*
 * MP_IOC_CONNECTION. ENOENT: no such connection. mmap() is that of MP_IOC_SESSION.
 *
 * A connection to a segment that is published has all rights, unless the memory has not: nobody
 * reads physical memory, and nobody writes to memory of MP_REGISTER_READ_ONLY.
 *
 * As long as a connection is not operational, and when it is lost, mappings are scrap.
 * When the link is back, and both services are those that they were, it is operational
 * again, with the same mappings; else, and when the link stays away for long, it is lost.
 */
struct mp_connection {
	__u32 size;
	__u32 handle;			/* in */
	__u32 interface;		/* out */
	__u32 object;			/* out: what it leads to, MP_OBJECT_* */
	__u32 number;			/* out: by which it was asked for; 0 if by a name */
	__u32 state;			/* out: MP_CONNECTION_* */
	__u32 status;			/* out: bytes from the status words' start to its own */
	__u32 reserved;
	__aligned_u64 length;		/* out: bytes of the segment; else 0 */
	__aligned_u64 offset;		/* out: for mmap(); 0 of MP_CONNECT_PLACED, or without MP_GRANT_WRITE */
	__u32 rights;			/* out: MP_GRANT_*; see below */
	__u32 reserved2;
};

/* What has happened to a connection. */
enum {
	MP_NOTICE_CONNECTED = 1,	/* segment: a peer's process has connected */
	MP_NOTICE_DISCONNECTED = 2,	/* segment: it has left; connection: asked to leave */
	MP_NOTICE_DOWN = 3,		/* not operational: the link is down */
	MP_NOTICE_UP = 4,		/* operational again */
	MP_NOTICE_LOST = 5,		/* ended for good */
	MP_NOTICE_FATAL = 6,		/* the bridge has failed, at which it was */
};

/*
 * MP_IOC_NOTICE: waits for the next thing that has happened, and takes it. Of a segment:
 * one for each connection. They are kept in order, and none is lost, except for UP
 * directly after a DOWN that nobody has taken: both vanish.
 *
 * FATAL: an error at the slot of the bridge was not corrected. Connections there are lost,
 * and have it before LOST; segments that are prepared there have it once, whether or not
 * there are connections. The interface stays down until the bridge is taken into use anew.
 *
 * ENOENT: no such object; also if it is closed meanwhile. EINVAL: it has no notices. EACCES: a
 * segment that was handed over.
 * ETIMEDOUT. EINTR: a signal was handled.
 */
struct mp_notice {
	__u32 size;
	__u32 handle;			/* in: segment or connection */
	__aligned_u64 deadline;		/* in */
	__u32 notice;			/* out: MP_NOTICE_* */
	__u32 interface;		/* out: where it came from */
	__u32 peer;			/* out: id of the peer there */
	__u32 reserved;
};

/* Most bytes of a message. */
#define MP_MESSAGE_MAX 4096

/*
 * MP_IOC_SEND: a message to the port of a connection. It arrives once and in order, as
 * long as the connection is not lost. MP_IOC_RECEIVE: takes the next message of a port.
 *
 * ENOENT, EINVAL: not to a port, or no port. EMSGSIZE: longer than MP_MESSAGE_MAX; or
 * than the room, then length has been filled in, and the message can be taken again.
 * ETIMEDOUT: no message, or no room for one at the port's host. EINTR: a signal was handled.
 * Sending: ECONNRESET: the connection is lost, ENETDOWN. ENOMEM.
 */
struct mp_message {
	__u32 size;
	__u32 handle;
	__aligned_u64 data;		/* address */
	__u32 length;			/* in: bytes or room at data; out, receiving: bytes */
	__u32 peer;			/* out, receiving: id of the sender's host */
	__aligned_u64 deadline;
};

/*
 * MP_IOC_BARRIER: returns when all that this process has written to segments at an
 * interface is in the peer's memory, which the peer's service has confirmed. Takes a
 * connection, or with MP_WAIT_INTERFACE an interface, whose peer is alive then.
 *
 * ENOENT, ENODEV. ECONNRESET: the connection is lost. ENETDOWN. ETIMEDOUT: no answer.
 * EINTR: the process is being killed.
 */
struct mp_barrier {
	__u32 size;
	__u32 flags;			/* MP_WAIT_INTERFACE */
	__u32 target;
	__u32 reserved;
	__aligned_u64 deadline;
};

/*
 * MP_IOC_EXCHANGE: compares a word of 64 bits of a connection's segment, and exchanges it if it is
 * equal, in one step for all programs and kernels of the segment's host. That host's kernel does
 * it, and its process need not run. The word has the byte order of that host.
 *
 * EINVAL: reserved is not zero. ENOENT. EINVAL: it leads to no segment; the offset is no multiple
 * of 8. ERANGE: outside. ECONNRESET: the connection is lost. ENETDOWN. EOPNOTSUPP: the peer's
 * service is of an earlier release. EACCES: the connection has not both rights. EIO: the segment's
 * host cannot do it: the word's address there is no multiple of 8. ETIMEDOUT: no answer; EINTR: the
 * process is being killed; ENOMEM. With ETIMEDOUT and EINTR, and with ECONNRESET and ENETDOWN while
 * it is under way, it may have been done, or be done later.
 */
struct mp_exchange {
	__u32 size;
	__u32 connection;		/* handle */
	__aligned_u64 offset;		/* of the word in the segment */
	__aligned_u64 expected;
	__aligned_u64 desired;
	__aligned_u64 deadline;
	__u32 exchanged;		/* out: 1 if the word was as expected */
	__u32 reserved;
};

/*
 * MP_IOC_ADDRESS: where in this host's physical address space a range of a segment is, or
 * that of a peer's segment to which a connection leads: in memory, or in a bridge's window.
 * It says nothing of how long it stays there.
 *
 * ENOENT, EPERM. EINVAL: no length. ERANGE: outside. ENXIO: not in one run, or a segment
 * without memory. EOPNOTSUPP: in no window. ECONNRESET, ENETDOWN, ENOTCONN: of a connection.
 */
struct mp_address {
	__u32 size;
	__u32 handle;			/* in: of a segment or a connection */
	__aligned_u64 offset;		/* in: bytes from its start */
	__aligned_u64 length;		/* in: bytes */
	__aligned_u64 address;		/* out */
};

/* The state of a queue; the status word has it, too. */
enum {
	MP_QUEUE_IDLE = 0,	/* never started */
	MP_QUEUE_POSTED = 1,	/* copies */
	MP_QUEUE_DONE = 2,	/* all is where it was to go */
	MP_QUEUE_ERROR = 3,	/* the connection was lost or down, or a copy has failed */
	MP_QUEUE_ABORTED = 4,
};

/* Most copies of one start. */
#define MP_QUEUE_ENTRIES_MAX 256

/* MP_IOC_QUEUE_CREATE. ENODEV. EINVAL: entries. EDQUOT: too many objects. ENOMEM. */
struct mp_queue_create {
	__u32 size;
	__u32 interface;
	__u32 entries;			/* most copies of one start */
	__u32 handle;			/* out */
};

/* A copy; bytes. */
struct mp_copy {
	__aligned_u64 local;		/* offset in the segment, or address */
	__aligned_u64 remote;		/* offset in the connection's segment */
	__aligned_u64 length;
};

#define MP_QUEUE_PINNED		0x1	/* see below */
#define MP_QUEUE_READ		0x2	/* from the connection's segment; see below */

/*
 * MP_IOC_QUEUE_START: copies from a segment into a segment of the peer, in order and in
 * the background; or from memory of the process: before the call returns, or with
 * MP_QUEUE_PINNED in the background as well, for which the memory is pinned meanwhile and
 * counts for RLIMIT_MEMLOCK. A DMA engine copies where the system has one that reaches
 * both, and the processor all that the engine does not.
 *
 * MP_IOC_QUEUE_ABORT (struct mp_handle): nothing is read or written by it any more when the call
 * returns; does nothing in a final state. MP_IOC_CLOSE does both, and waits also for another
 * thread's MP_IOC_QUEUE_START; one that comes later finds no queue.
 *
 * In this order: ENOENT: no such queue, segment or connection. EBUSY: it is posted. EINVAL: no
 * copies or too many, another interface, not to a segment. Of each copy: EFAULT, EINVAL: their
 * size is less than that of the first version, E2BIG: more than a page, or this kernel does not
 * know what is used of it. ERANGE: beyond a segment's end. EACCES: the
 * segment was handed over without the right for that. ENXIO: the segment is not prepared
 * there. EOPNOTSUPP: it is physical memory. ECONNRESET: the connection is lost, ENETDOWN.
 * EACCES: the connection's rights are only to read, or, with MP_QUEUE_READ, only to write.
 * EDQUOT: RLIMIT_MEMLOCK. ENOMEM. Aborting: ENXIO:
 * it is idle. ENOENT: it is closed meanwhile. EINTR: the process is being killed.
 *
 * With MP_QUEUE_READ the copies go the other way: out of the connection's segment, into the local
 * one or, with MP_QUEUE_PINNED, into memory of the process. The kernel of the peer's host
 * reads and sends; nobody reads across the bridge. EINVAL: neither a segment nor
 * MP_QUEUE_PINNED. EACCES: the segment is memory of MP_REGISTER_READ_ONLY. EOPNOTSUPP: the
 * peer's service is of a release that does not know of that.
 * What a queue copies by frames, in either direction, ends in MP_QUEUE_ERROR if the peer's host
 * cannot read or store some of it. The other copies of that connection that go on at that time
 * may end in the same way. A peer that deals with nothing of what was sent for 5 seconds loses
 * its link.
 *
 * EFAULT may also be found on the way, if memory of the process is copied before the call
 * returns: then the queue is in MP_QUEUE_ERROR, and some has been copied.
 */
struct mp_queue_start {
	__u32 size;
	__u32 handle;
	__u32 segment;			/* handle; 0 for memory of the process */
	__u32 connection;		/* handle */
	__u32 count;			/* of copies */
	__u32 flags;			/* MP_QUEUE_PINNED, only for memory of the process; MP_QUEUE_READ */
	__aligned_u64 copies;		/* address of an array of struct mp_copy */
	__u32 copy_size;		/* of one of them; 0: 24 bytes */
	__u32 reserved;
};

/* MP_IOC_QUEUE. ENOENT. */
struct mp_queue {
	__u32 size;
	__u32 handle;			/* in */
	__u32 interface;		/* out */
	__u32 state;			/* out: MP_QUEUE_* */
	__u32 status;			/* out: bytes from the status words' start to its own */
	__u32 entries;			/* out */
};

/*
 * MP_IOC_EXPORT: a file descriptor by which another process gets the use of a segment or of a
 * connection, with those rights. It is given on purpose, as by SCM_RIGHTS: exec closes it, and a
 * context or a handle is of no use to others. It is no context: there is nothing to be done with
 * it but MP_IOC_IMPORT, any number of times, by whoever has it, whatever its user.
 *
 * A descriptor of a segment keeps the segment's memory until the last copy of it is closed. For
 * peers the segment ends with its owner all the same, and its id and name are free then. One of a
 * connection keeps nothing: what it leads to may be gone, and if it was granted,
 * the session that it was granted to must still have its partner. Neither can be taken back.
 *
 * The descriptor counts as an object of the context's user, that of a segment as a segment, too,
 * until its last copy is closed. The memory of a segment counts for its maker.
 *
 * In this order: EINVAL: no rights or others. ENOENT: no such object. EINVAL: another kind, a
 * segment without MP_GRANT_READ, or without MP_GRANT_WRITE one that leads to an event or port. EACCES: the handle has not these
 * rights. ECONNRESET: the connection is lost; or was granted to a session that this context has not
 * any more. ENETDOWN, ENOTCONN: of that session. EDQUOT. EMFILE, ENFILE: too many descriptors or
 * files. ENOMEM.
 */
struct mp_export {
	__u32 size;
	__u32 flags;			/* 0 */
	__u32 handle;			/* in: of a segment or a connection */
	__u32 rights;			/* in: MP_GRANT_* */
	__s32 fd;			/* out */
	__u32 reserved;
};

/*
 * MP_IOC_IMPORT: a handle of this context, for what a descriptor of MP_IOC_EXPORT leads to. It
 * counts as one that this context has made.
 *
 * A segment that was imported is memory. Without MP_GRANT_WRITE it is mapped to be read, and
 * copied from; with it, it may be written as well. What peers may do with it, and what they did, is
 * its owners' business: sharing, preparing, publishing, withdrawing, registering, granting and
 * taking notices fail with EACCES. MP_IOC_REMOVE and MP_IOC_CLOSE end this handle.
 *
 * A connection that was imported is a new one, as the owner of the object sees it, made with the
 * rights of the descriptor: without MP_GRANT_WRITE it cannot be mapped. It leads to what has the
 * number or name by then; one that was granted leads to what was granted, or nowhere. The deadline
 * is for its answer.
 *
 * In this order: EBADF: the descriptor is not open. EINVAL: it is none of MP_IOC_EXPORT. EDQUOT: too
 * many objects. ECONNRESET, ENETDOWN, ENOTCONN: of the session that it was granted to. Those of
 * MP_IOC_CONNECT from ENETDOWN on. ENOMEM.
 */
struct mp_import {
	__u32 size;
	__u32 flags;			/* 0 */
	__s32 fd;			/* in */
	__u32 object;			/* out: MP_OBJECT_SEGMENT or _CONNECTION */
	__aligned_u64 deadline;
	__u32 handle;			/* out */
	__u32 rights;			/* out: MP_GRANT_* */
};

/* The calls; the argument is the address of the structure beside. */
enum {
	MP_IOC_INFO = _IO(MP_IOC_MAGIC, 0x00),	/* struct mp_info */
	MP_IOC_CLOSE = _IO(MP_IOC_MAGIC, 0x01),	/* struct mp_handle */
	MP_IOC_WAIT = _IO(MP_IOC_MAGIC, 0x02),	/* struct mp_wait */
	MP_IOC_EVENTFD = _IO(MP_IOC_MAGIC, 0x03),	/* struct mp_eventfd */
	MP_IOC_WATCH = _IO(MP_IOC_MAGIC, 0x04),	/* struct mp_watch */
	MP_IOC_SIGNAL = _IO(MP_IOC_MAGIC, 0x05),	/* struct mp_handle */
	MP_IOC_EXPORT = _IO(MP_IOC_MAGIC, 0x06),	/* struct mp_export */
	MP_IOC_IMPORT = _IO(MP_IOC_MAGIC, 0x07),	/* struct mp_import */
	MP_IOC_INTERFACES = _IO(MP_IOC_MAGIC, 0x10),	/* struct mp_interfaces */
	MP_IOC_INTERFACE = _IO(MP_IOC_MAGIC, 0x11),	/* struct mp_interface */
	MP_IOC_WINDOWS = _IO(MP_IOC_MAGIC, 0x12),	/* struct mp_windows */
	MP_IOC_WINDOW = _IO(MP_IOC_MAGIC, 0x13),	/* struct mp_window */
	MP_IOC_SESSION_OPEN = _IO(MP_IOC_MAGIC, 0x20),	/* struct mp_session_open */
	MP_IOC_SESSION = _IO(MP_IOC_MAGIC, 0x21),	/* struct mp_session */
	MP_IOC_SESSION_ADDRESS = _IO(MP_IOC_MAGIC, 0x22),	/* struct mp_session_address */
	MP_IOC_SESSION_ACCESS = _IO(MP_IOC_MAGIC, 0x23),	/* struct mp_session_access */
	MP_IOC_SESSION_PARTNER = _IO(MP_IOC_MAGIC, 0x24),	/* struct mp_session_partner */
	MP_IOC_SESSION_ANSWER = _IO(MP_IOC_MAGIC, 0x25),	/* struct mp_session_answer */
	MP_IOC_PARK = _IO(MP_IOC_MAGIC, 0x26),	/* struct mp_park */
	MP_IOC_SESSION_STORE = _IO(MP_IOC_MAGIC, 0x27),	/* struct mp_session_store */
	MP_IOC_SEGMENT_CREATE = _IO(MP_IOC_MAGIC, 0x30),	/* struct mp_segment_create */
	MP_IOC_SEGMENT_SHARE = _IO(MP_IOC_MAGIC, 0x31),	/* struct mp_handle */
	MP_IOC_SEGMENT_ATTACH = _IO(MP_IOC_MAGIC, 0x32),	/* struct mp_segment_attach */
	MP_IOC_SEGMENT_PREPARE = _IO(MP_IOC_MAGIC, 0x33),	/* struct mp_segment_interface */
	MP_IOC_SEGMENT_PUBLISH = _IO(MP_IOC_MAGIC, 0x34),	/* struct mp_segment_interface */
	MP_IOC_SEGMENT_WITHDRAW = _IO(MP_IOC_MAGIC, 0x35),	/* struct mp_segment_interface */
	MP_IOC_SEGMENT = _IO(MP_IOC_MAGIC, 0x36),	/* struct mp_segment */
	MP_IOC_SEGMENT_REGISTER = _IO(MP_IOC_MAGIC, 0x37),	/* struct mp_segment_register */
	MP_IOC_SEGMENT_GRANT = _IO(MP_IOC_MAGIC, 0x38),	/* struct mp_segment_grant */
	MP_IOC_SEGMENT_DMABUF = _IO(MP_IOC_MAGIC, 0x39),	/* struct mp_segment_dmabuf */
	MP_IOC_REMOVE = _IO(MP_IOC_MAGIC, 0x40),	/* struct mp_remove */
	MP_IOC_OFFER = _IO(MP_IOC_MAGIC, 0x41),	/* struct mp_offer */
	MP_IOC_CONNECT = _IO(MP_IOC_MAGIC, 0x42),	/* struct mp_connect */
	MP_IOC_CONNECTION = _IO(MP_IOC_MAGIC, 0x43),	/* struct mp_connection */
	MP_IOC_NOTICE = _IO(MP_IOC_MAGIC, 0x44),	/* struct mp_notice */
	MP_IOC_SEND = _IO(MP_IOC_MAGIC, 0x45),	/* struct mp_message */
	MP_IOC_RECEIVE = _IO(MP_IOC_MAGIC, 0x46),	/* struct mp_message */
	MP_IOC_BARRIER = _IO(MP_IOC_MAGIC, 0x47),	/* struct mp_barrier */
	MP_IOC_ADDRESS = _IO(MP_IOC_MAGIC, 0x48),	/* struct mp_address */
	MP_IOC_EXCHANGE = _IO(MP_IOC_MAGIC, 0x49),	/* struct mp_exchange */
	MP_IOC_QUEUE_CREATE = _IO(MP_IOC_MAGIC, 0x50),	/* struct mp_queue_create */
	MP_IOC_QUEUE_START = _IO(MP_IOC_MAGIC, 0x51),	/* struct mp_queue_start */
	MP_IOC_QUEUE_ABORT = _IO(MP_IOC_MAGIC, 0x52),	/* struct mp_handle */
	MP_IOC_QUEUE = _IO(MP_IOC_MAGIC, 0x53),	/* struct mp_queue */
};

#endif /* _UAPI_LINUX_MP_FABRIC_H */
