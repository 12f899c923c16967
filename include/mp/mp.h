/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The message frame fabric for kernel modules in C.
 *
 * The types and functions of the system interconnect programming guide; the
 * rules that each implements are named IDT-*. All functions are exported by
 * mp_transport. mp_peer, and what is marked private, belongs to that module.
 *
 * Contexts: whatever makes, registers, adds, finds, removes or unregisters a
 * transport or function service, makes, adds or removes a peer, or enters or removes
 * the local host, sleeps. Everything else works in process and in softirq context.
 *
 * References: a function that returns an mp_peer, mp_trans, mp_func or mp_frame
 * gives the caller a reference, to be dropped by the _dec() of its kind.
 * Callbacks get theirs lent, unless they say otherwise.
 *
 * Modules: before its exit function returns, a module has unregistered its
 * services, freed the frames it has received and got the callbacks of its copies.
 * Frames that it has sent may still be under way then; their destructors have run
 * before its code goes.
 */
#ifndef _MP_MP_H
#define _MP_MP_H

#include <linux/list.h>
#include <linux/types.h>

/* --- identifiers and flags --------------------------------------------------- */

/* The id of the endpoint behind a bus, device and function (IDT-ID-1). */
#define MP_PEER_ID(b, d, f)	((((b) & 0xffU) << 8) | (((d) & 0x1fU) << 3) | ((f) & 0x7U))
/* The root processor (IDT-ID-2). */
#define MP_PEER_RP		0U
/* The local host, whatever its id is (IDT-ID-3). */
#define MP_PEER_SELF		0x80000000U
/* All other hosts (IDT-ID-4). */
#define MP_PEER_BCAST		0xffffffffU

/* Flag of a frame: it overtakes frames without it (IDT-ID-6). */
#define MP_FRAME_PRIORITY	0x1U

/* From and to where a DMA engine copies: this host, or a peer (IDT-ID-7). */
typedef enum MP_DMA_DIR {
	MP_DMA_DIR_L2L,
	MP_DMA_DIR_L2P,
	MP_DMA_DIR_P2L,
	MP_DMA_DIR_P2P,
} MP_DMA_DIR;

#define MP_DMA_DIR_MASK		0x3U

/* --- types ------------------------------------------------------------------- */

/**
 * struct mp_stats - traffic counters (IDT-PEER-1)
 * @tx_frames: frames sent
 * @tx_bytes: data bytes in them, without headers
 * @tx_errors: frames that could not be sent
 * @rx_frames: frames that a function has accepted
 * @rx_bytes: data bytes in them, without headers
 * @rx_errors: frames that were dropped
 */
typedef struct mp_stats {
	u64 tx_frames;
	u64 tx_bytes;
	u64 tx_errors;
	u64 rx_frames;
	u64 rx_bytes;
	u64 rx_errors;
} mp_stats;

/**
 * struct mp_msg - the message header as it crosses the bridge (IDT-MSG-1)
 * @dst: id of the destination
 * @src: id of the source
 * @len: bytes of function header and data
 * @func: id of the function service that receives the frame
 */
typedef struct mp_msg {
	__le32 dst;
	__le32 src;
	__le32 len;
	__le32 func;
} mp_msg;

/**
 * struct mp_frag - a piece of a frame's data, or of memory for it (IDT-FRAG-1)
 * @buf: where it is; NULL in a received frame, see mp_frame_sync()
 * @len: its length in bytes
 */
typedef struct mp_frag {
	u8 *buf;
	u32 len;
} mp_frag;

/**
 * struct mp_dma_frag - a range to copy (IDT-DMA-1)
 * @dst: address of the destination
 * @src: address of the source
 * @len: bytes
 */
typedef struct mp_dma_frag {
	u64 dst;
	u64 src;
	u32 len;
} mp_dma_frag;

/*
 * The end of a copy (IDT-DMA-2): status is zero, or a negative errno. Called once
 * for each copy that was accepted, possibly before the call that started it
 * returns. Process or softirq context, unless it says otherwise; must not sleep.
 */
typedef void (*mp_dma_cb)(int status, void *cb_data);

/* A host that frames can be sent to; see mp_peer_id() and those behind it. */
typedef struct mp_peer mp_peer;

struct mp_frame;

/*
 * The destructor of a frame (IDT-FRM-4), called when its last reference is
 * dropped, in process or softirq context. Frees what the fragments point to.
 *
 * A transport may drop that reference while it holds the lock of the queue that the
 * frame left by: a large frame, for one. The destructor must not sleep, send frames,
 * or take a lock that is held around a call which sends frames; work to be done then
 * is for a work queue. It may drop other frames.
 */
typedef void (*mp_frame_ds)(struct mp_frame *frame);

/**
 * struct mp_frame - a frame (IDT-FRM-1)
 * @list: for whoever has the frame
 * @frags: number of fragments
 * @func_len: length of the function header in bytes
 * @ds: destructor, or NULL
 * @status: for the destructor: zero once the frame was sent, or a negative errno;
 *	-ECANCELED if nobody has sent it
 * @flags: MP_FRAME_PRIORITY or none
 * @from: the frame that this is a clone of, or NULL; read only
 * @dst: where it goes; read only, see mp_frame_dst_set()
 * @src: where it comes from; read only, see mp_frame_src_set()
 * @func_priv: for the function service
 *
 * Fragments, headers and private data follow; mp_frame_frag() and those behind
 * it lead there.
 */
typedef struct mp_frame {
	struct list_head list;
	u32 frags;
	u32 func_len;
	mp_frame_ds ds;
	int status;
	u32 flags;
	struct mp_frame *from;
	mp_peer *dst;
	mp_peer *src;
	void *func_priv;
} mp_frame;

/**
 * struct mp_trans - a transport service: a way to some peers (IDT-TR-1, IDT-TR-2)
 * @id: its id; 0 is the loopback, 1 the NTB transport
 * @peer_add: the root processor, which this transport reaches, has announced a
 *	peer that it does not forward to (IDT-PEER-13). @data are 24 bytes as they
 *	crossed the bridge: the first 16 that mp_peer_data() has over there, and the
 *	peer's index. Returns a reference to the peer, which this transport has
 *	entered, or NULL. May sleep. NULL if the transport need not know
 * @peer_del: that peer has gone over there, and is still the transport's to remove
 *	with mp_peer_del(). May sleep
 * @frame_send: sends a frame to @frame->dst and returns zero; frees it, with
 *	@frame->status set, as soon as it needs it no more, since modules that unload
 *	wait for that. Or returns a negative errno, and the frame stays with the
 *	caller. Process or softirq context; must not sleep
 * @frame_sync: copies the data of a frame that this transport has received, as
 *	mp_frame_sync() does. NULL if its fragments have buffers
 *
 * The fields are set between mp_trans_alloc() and mp_trans_register().
 */
typedef struct mp_trans {
	u32 id;
	mp_peer *(*peer_add)(u32 peer, void *data);
	void (*peer_del)(mp_peer *peer);
	int (*frame_send)(mp_frame *frame);
	int (*frame_sync)(mp_frame *frame, u32 frags, mp_frag *buffers, mp_dma_cb cb,
			  void *cb_data);
} mp_trans;

/**
 * struct mp_func - a function service: a user of frames (IDT-FN-1)
 * @id: its id in message headers
 * @peer_add: a peer has arrived, or was there before (IDT-PEER-12). May sleep
 * @peer_del: a peer is leaving; sending to it fails from now on. May sleep
 * @frame_receive: a frame has arrived (IDT-FN-2). Returns zero, and the frame
 *	belongs to the function, which frees it after use; or a negative errno,
 *	and the frame is dropped. Softirq context
 *
 * The fields are set between mp_func_alloc() and mp_func_register(); peer_add and
 * peer_del may be NULL.
 */
typedef struct mp_func {
	u32 id;
	void (*peer_add)(mp_peer *peer);
	void (*peer_del)(mp_peer *peer);
	int (*frame_receive)(mp_frame *frame);
} mp_func;

/* --- peers ------------------------------------------------------------------- */

/**
 * mp_peer_alloc() - make a peer of a transport service (IDT-PEER-6)
 * @trans: the transport service, an mp_trans
 * @type: its id
 * @id: the peer's id; its bus number becomes the peer's index
 * @data_len: bytes of data that other hosts need to reach it
 * @priv_len: bytes of private data of the transport
 *
 * Return: the peer, which nobody knows before mp_peer_add(), or NULL.
 */
mp_peer *mp_peer_alloc(void *trans, u32 type, u32 id, u32 data_len, u32 priv_len);

/* Drops a reference, like mp_peer_dec() (IDT-PEER-7). */
void mp_peer_free(mp_peer *peer);

/* Takes a reference (IDT-PEER-7): @peer, or NULL if that is NULL. */
mp_peer *mp_peer_inc(mp_peer *peer);

/* Drops a reference (IDT-PEER-7). */
void mp_peer_dec(mp_peer *peer);

/* The peer's data, or NULL if its transport has given it none (IDT-PEER-8). */
void *mp_peer_data(mp_peer *peer);

/* The transport's private data, or NULL if there is none (IDT-PEER-8). */
void *mp_peer_priv(mp_peer *peer);

/* Bytes of data at mp_peer_data() (IDT-PEER-2). */
u32 mp_peer_data_len(const mp_peer *peer);

/* The peer's id (IDT-PEER-2). */
u32 mp_peer_id(const mp_peer *peer);

/* The peer's index, small and dense; 0 is the root processor (IDT-ID-5). */
int mp_peer_index(const mp_peer *peer);

/* The id of the transport service that reaches it (IDT-PEER-2). */
u32 mp_peer_type(const mp_peer *peer);

/* Reads the peer's counters (IDT-PEER-1). */
void mp_peer_stats(const mp_peer *peer, mp_stats *stats);

/**
 * mp_peer_add() - enter a peer and tell all function services (IDT-PEER-9)
 * @peer: from mp_peer_alloc(); the caller keeps its reference
 *
 * Return: 0; -EEXIST if a peer has that id or index, -ERANGE for an index beyond
 * the table, -ENOTCONN if it was removed before, -ENOMEM.
 */
int mp_peer_add(mp_peer *peer);

/**
 * mp_peer_del() - remove a peer and tell all function services (IDT-PEER-9)
 * @peer: a peer that mp_peer_add() has entered
 *
 * Return: 0, and no call of frame_send() for it is under way or will start;
 * -ENOENT if it is not entered, -EPERM if it is another transport's.
 */
int mp_peer_del(mp_peer *peer);

/* The peer after @peer by index, the first one for NULL, or NULL (IDT-PEER-10). */
mp_peer *mp_peer_next(mp_peer *peer);

/* The peer with that id, or NULL; the local host for its own (IDT-PEER-10). */
mp_peer *mp_peer_get(u32 id);

/**
 * mp_self_add() - give the local host its id (IDT-PEER-11)
 * @self: the local host as its transport sees it, with its id
 *
 * Return: 0, or -EBUSY if the host has another id already.
 */
int mp_self_add(mp_peer *self);

/* Undoes mp_self_add() (IDT-PEER-11): 0, or -ENOENT. */
int mp_self_del(mp_peer *self);

/* The local host (IDT-PEER-11); frames to it are delivered locally. */
mp_peer *mp_self_get(void);

/* --- frames ------------------------------------------------------------------ */

/**
 * mp_frame_alloc() - make a frame (IDT-FRM-2)
 * @frags: number of fragments, or zero
 * @func_len: bytes of function header; frames with more than 64 cannot be sent
 * @priv_len: bytes of private data
 * @ds: destructor, or NULL
 *
 * Return: the frame, zeroed, or NULL.
 */
mp_frame *mp_frame_alloc(u32 frags, u32 func_len, u32 priv_len, mp_frame_ds ds);

/**
 * mp_frame_clone() - make a frame with the data of another (IDT-FRM-3)
 * @frame: the other, which lives at least as long as the clone
 * @priv_len: bytes of private data
 * @ds: destructor, or NULL; must not free what the fragments point to
 *
 * Return: the clone, or NULL.
 */
mp_frame *mp_frame_clone(mp_frame *frame, u32 priv_len, mp_frame_ds ds);

/* Drops a reference, like mp_frame_dec() (IDT-FRM-4). */
void mp_frame_free(mp_frame *frame);

/* Takes a reference (IDT-FRM-4): @frame, or NULL if that is NULL. */
mp_frame *mp_frame_inc(mp_frame *frame);

/* Drops a reference; the destructor runs with the last one (IDT-FRM-4). */
void mp_frame_dec(mp_frame *frame);

/* Sets @frame->dst; takes a reference. Returns @peer or NULL (IDT-FRM-5). */
mp_peer *mp_frame_dst_set(mp_frame *frame, mp_peer *peer);

/* Sets @frame->src; takes a reference. Returns @peer or NULL (IDT-FRM-5). */
mp_peer *mp_frame_src_set(mp_frame *frame, mp_peer *peer);

/* The fragment after @frag, the first one for NULL, or NULL (IDT-FRM-6). */
mp_frag *mp_frame_frag(mp_frame *frame, mp_frag *frag);

/* The message header, an mp_msg (IDT-FRM-7). */
void *mp_frame_msg(mp_frame *frame);

/* The function header (IDT-FRM-7). */
void *mp_frame_func(mp_frame *frame);

/* The function header, by the name of the guide's example (IDT-FRM-7). */
static inline void *mp_frame_hdr(mp_frame *frame)
{
	return mp_frame_func(frame);
}

/* The private data (IDT-FRM-7). */
void *mp_frame_priv(mp_frame *frame);

/* Bytes of a message header (IDT-FRM-8). */
u32 mp_frame_msg_len(void);

/* Bytes of the function header (IDT-FRM-8). */
u32 mp_frame_func_len(mp_frame *frame);

/* Bytes of both headers (IDT-FRM-8). */
u32 mp_frame_hdr_len(mp_frame *frame);

/* Bytes of data in all fragments (IDT-FRM-8). */
u32 mp_frame_data_len(mp_frame *frame);

/* Bytes of headers and data (IDT-FRM-8). */
u32 mp_frame_len(mp_frame *frame);

/* --- transport services ------------------------------------------------------ */

/* Makes a transport service with private data, or returns NULL (IDT-TR-1). */
mp_trans *mp_trans_alloc(u32 id, u32 priv_len);

/* Drops a reference, like mp_trans_dec() (IDT-TR-1). */
void mp_trans_free(mp_trans *trans);

/* Takes a reference (IDT-TR-1): @trans, or NULL if that is NULL. */
mp_trans *mp_trans_inc(mp_trans *trans);

/* Drops a reference (IDT-TR-1). */
void mp_trans_dec(mp_trans *trans);

/* The private data (IDT-TR-1). */
void *mp_trans_priv(mp_trans *trans);

/* Reads the counters over all its peers, those that left as well (IDT-PEER-1). */
void mp_trans_stats(mp_trans *trans, mp_stats *stats);

/* Registers (IDT-TR-3): 0, -EEXIST if the id is taken, -EINVAL, -ENOMEM. */
int mp_trans_register(mp_trans *trans);

/**
 * mp_trans_unregister() - end a transport service (IDT-TR-4)
 * @trans: a transport service that mp_trans_register() has registered
 *
 * Removes its peers first. Frames that functions still have of it are cut off
 * their data and freed.
 *
 * Return: 0, and no call into it is under way or will start; -ENOENT.
 */
int mp_trans_unregister(mp_trans *trans);

/*
 * The transport service after @trans in the order of ids, the first one for NULL,
 * or NULL (IDT-TR-3). Those that are not written in C have no callbacks.
 */
mp_trans *mp_trans_next(mp_trans *trans);

/* The transport service with that id, or NULL (IDT-TR-3); as above. */
mp_trans *mp_trans_get(u32 id);

/* --- function services ------------------------------------------------------- */

/* Makes a function service with private data, or returns NULL (IDT-FN-1). */
mp_func *mp_func_alloc(u32 id, u32 priv_len);

/* Drops a reference, like mp_func_dec() (IDT-FN-1). */
void mp_func_free(mp_func *func);

/* Takes a reference (IDT-FN-1): @func, or NULL if that is NULL. */
mp_func *mp_func_inc(mp_func *func);

/* Drops a reference (IDT-FN-1). */
void mp_func_dec(mp_func *func);

/* The private data (IDT-FN-1). */
void *mp_func_priv(mp_func *func);

/**
 * mp_func_register() - begin a function service (IDT-FN-3)
 * @func: from mp_func_alloc(), with its callbacks; the caller keeps its reference
 *
 * Return: 0, and all present peers have been announced to it; -EEXIST if the id
 * is taken, -ENOSPC, -EINVAL without frame_receive, -EBUSY if it is registered,
 * -ENOMEM.
 */
int mp_func_register(mp_func *func);

/**
 * mp_func_unregister() - end a function service (IDT-FN-3)
 * @func: a function service that mp_func_register() has registered
 *
 * Return: 0, and no call into it is under way or will start; -ENOENT.
 */
int mp_func_unregister(mp_func *func);

/*
 * The function service after @func in the order of ids, the first one for NULL, or
 * NULL (IDT-FN-3). Those that are not written in C have no callbacks.
 */
mp_func *mp_func_next(mp_func *func);

/* The function service with that id, or NULL (IDT-FN-3); as above. */
mp_func *mp_func_get(u32 id);

/* --- moving frames ----------------------------------------------------------- */

/**
 * mp_frame_send() - send a frame (IDT-MSG-2, IDT-MSG-3, IDT-FRM-9)
 * @frame: the frame; fragments and headers do not change from now on
 * @dst: id of a peer, MP_PEER_SELF or MP_PEER_BCAST
 * @func: id of the function service that receives it
 *
 * Takes over the caller's reference, also if it fails; the destructor tells how it
 * went. Only a frame that met a full queue stays with the caller, who may send it
 * again: that is -EAGAIN, which a broadcast never returns.
 *
 * Return: 0; -EAGAIN, see above; -ENOTCONN if there is no such peer, -EMSGSIZE if
 * the peer's transport cannot carry it or the function header is too long,
 * -EINVAL for a fragment without buffer, -ENOBUFS if a copy of a broadcast met a
 * full queue, -ENOMEM, or the transport's error.
 */
int mp_frame_send(mp_frame *frame, u32 dst, u32 func);

/**
 * mp_frame_receive() - pass on a frame that has arrived (IDT-MSG-4)
 * @frame: made by the transport that calls, with message and function header in
 *	place, @frame->src set to the peer whose link it came from, and fragments
 *	for the data: with buffers, or for frame_sync() to fill in
 *
 * Takes over the caller's reference if it returns 0.
 *
 * Return: 0, -EBADMSG for a header that is not true (IDT-MSG-8), -EHOSTUNREACH
 * for another host's frame (IDT-MSG-7), -ENOENT for an unknown function service
 * (IDT-FN-4), -EINVAL without @frame->src, or the function's error.
 */
int mp_frame_receive(mp_frame *frame);

/**
 * mp_frame_sync() - copy a frame's data into buffers (IDT-MSG-5, IDT-MSG-6)
 * @frame: a frame that has been received; stays allocated until @cb is called
 * @frags: number of @buffers
 * @buffers: filled one after the other; needed during the call only, unlike the
 *	memory they point to
 * @cb: called when the copy is complete, or has failed; or NULL
 * @cb_data: for @cb
 *
 * Return: 0, and @cb has been or will be called; -EMSGSIZE if the buffers are
 * smaller than the data, -ENOTCONN if the link over which the frame came has gone
 * down, -EINVAL.
 */
int mp_frame_sync(mp_frame *frame, u32 frags, mp_frag *buffers, mp_dma_cb cb,
		  void *cb_data);

/* --- local processor --------------------------------------------------------- */

/*
 * Addresses of local memory that a peer reaches through the bridge: for this host
 * (physical, virtual) and as the bridge puts them on this host's bus (PCI). All ones,
 * zero or NULL for other addresses (IDT-LP-1 to IDT-LP-4, IDT-LP-9, IDT-LP-10). They
 * are good while the link to that peer is. The memory is the fabric's: do not write
 * it. Any context.
 */
u64 mp_in_phys_to_pci(unsigned long address);
unsigned long mp_in_pci_to_phys(u64 address);
u64 mp_in_virt_to_pci(void *address);
void *mp_in_pci_to_virt(u64 address);

/*
 * Addresses of a peer's memory behind the bridge, for this host and on its bus; as
 * above (IDT-LP-5 to IDT-LP-8). The virtual ones are device memory: __iomem.
 */
u64 mp_out_phys_to_pci(unsigned long address);
unsigned long mp_out_pci_to_phys(u64 address);
u64 mp_out_virt_to_pci(void *address);
void *mp_out_pci_to_virt(u64 address);

/**
 * mp_dma_start() - have a DMA engine copy (IDT-DMA-3)
 * @dir: MP_DMA_DIR_L2P; nothing else is supported, since nothing reads across the
 *	bridge, and the engines belong to the windows (IDT-DMA-4)
 * @num_frags: number of @frags
 * @frags: what to copy: from physical addresses of allocated local memory, which
 *	stays until @cb, to PCI addresses in one peer's memory; needed during the call
 *	only
 * @cb: called when all has been copied, or some has not and the content of the
 *	destination is undefined (IDT-DMA-5); or NULL. Also in interrupt context, and
 *	while the fabric holds locks: it must not call any function of this header
 * @cb_data: for @cb
 * @virt_base: virtual address of the destination; not needed here
 * @phys_base: physical address of the destination; not needed here
 *
 * Where in a peer's memory may be written is for the owners of that memory to say: a
 * copy into the rings ends the link.
 *
 * Return: 0, and @cb has been or will be called once; -EOPNOTSUPP for another
 * direction, -EINVAL for addresses outside a peer's memory or in several peers',
 * -ENODEV without an engine, -E2BIG for too many fragments, -EAGAIN while too much is
 * under way, -EFAULT for a source that is not in the kernel's linear map.
 */
int mp_dma_start(MP_DMA_DIR dir, u32 num_frags, mp_dma_frag *frags, mp_dma_cb cb,
		 void *cb_data, unsigned long virt_base, unsigned long phys_base);

#endif /* _MP_MP_H */
