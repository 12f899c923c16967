// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function service in C: counts how the frames it sends fare, apart for the root
 * processor and for all others, and checks what it receives.
 *
 * A frame has a function header and two fragments. Its private data points to the
 * counters for its destination; its destructor frees the fragments' buffers and
 * counts by the frame's status. A received frame is copied into two buffers, once.
 *
 * To send COUNT frames of LEN bytes to the peer ID, or to all others:
 *
 *	echo "ID COUNT LEN [FUNC]" > /sys/kernel/mp_sample_c/send
 *
 * FUNC is the function service that receives them, by default this one; numbers as
 * in C. The other files of the directory:
 *
 *	rp_success, rp_fail	frames to the root processor, by their status
 *	success, fail		frames to others
 *	received		frames that arrived intact
 *	corrupt, repeated	frames that did not, or more than once
 *	lost			frames whose link went down before they were copied
 *	buffers			buffers that are allocated now
 *	peers			peers that are there now
 */

#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <mp/mp.h>

/* "SMPL" */
#define FUNC_ID		0x534d504cU
#define MAX_LEN		(64U << 10)
#define MAX_PEERS	64
/* How often a full queue is tried again, a millisecond apart. */
#define MAX_RETRIES	5000

struct func_stats {
	atomic_t success;
	atomic_t fail;
};

struct func_hdr {
	__le32 reply;		/* for mp_sample_echo: the function that gets the answer */
	__le32 run;		/* another number each time the module is loaded */
	__le32 seq;
	__le32 len[2];		/* of the fragments */
};

/* The latest frame from a peer. */
struct latest {
	u32 run;
	u32 seq;
};

/* A frame that is being copied. */
struct receipt {
	mp_frame *frame;
	mp_frag frags[2];
	u32 run;
	u32 seq;
	bool again;
};

static struct func_stats stats[2];	/* for the root processor, for others */
static atomic_t received, corrupt, repeated, lost, buffers, peers;
static atomic_t copying;
static atomic_t next_seq = ATOMIC_INIT(1);
static u32 run;
static struct latest latest[MAX_PEERS];
static DEFINE_SPINLOCK(latest_lock);
static mp_func *func;

static u8 pattern(u32 seq, u32 at)
{
	return seq * 31 + at * 7;
}

static u8 *buffer_alloc(u32 len, gfp_t gfp)
{
	u8 *buf = kmalloc(max(len, 1U), gfp | __GFP_NOWARN);

	if (buf)
		atomic_inc(&buffers);
	return buf;
}

static void buffer_free(u8 *buf)
{
	if (buf)
		atomic_dec(&buffers);
	kfree(buf);
}

/* --- sending ----------------------------------------------------------------- */

static void frame_ds(mp_frame *frame)
{
	struct func_stats *stat = *(struct func_stats **)mp_frame_priv(frame);
	mp_frag *frag;

	for (frag = mp_frame_frag(frame, NULL); frag; frag = mp_frame_frag(frame, frag))
		buffer_free(frag->buf);
	if (frame->status)
		atomic_inc(&stat->fail);
	else
		atomic_inc(&stat->success);
}

static int fill(mp_frag *frag, u32 len, u32 seq, u32 from)
{
	u32 i;

	frag->buf = buffer_alloc(len, GFP_KERNEL);
	if (!frag->buf)
		return -ENOMEM;
	frag->len = len;
	for (i = 0; i < len; i++)
		frag->buf[i] = pattern(seq, from + i);
	return 0;
}

static mp_frame *frame_new(struct func_stats *stat, u32 seq, u32 len)
{
	mp_frame *frame = mp_frame_alloc(2, sizeof(struct func_hdr), sizeof(stat), frame_ds);
	u32 first = len / 3;
	struct func_hdr *hdr;
	mp_frag *frag;

	if (!frame)
		return NULL;
	*(struct func_stats **)mp_frame_priv(frame) = stat;
	hdr = mp_frame_hdr(frame);
	hdr->reply = cpu_to_le32(FUNC_ID);
	hdr->run = cpu_to_le32(run);
	hdr->seq = cpu_to_le32(seq);
	hdr->len[0] = cpu_to_le32(first);
	hdr->len[1] = cpu_to_le32(len - first);
	frag = mp_frame_frag(frame, NULL);
	if (fill(frag, first, seq, 0))
		goto fail;
	frag = mp_frame_frag(frame, frag);
	if (fill(frag, len - first, seq, first))
		goto fail;
	return frame;

fail:
	mp_frame_free(frame);
	return NULL;
}

static int send_one(u32 dst, u32 len, u32 to)
{
	struct func_stats *stat = &stats[dst == MP_PEER_RP ? 0 : 1];
	mp_frame *frame = frame_new(stat, atomic_inc_return(&next_seq), len);
	int err, tries;

	if (!frame)
		return -ENOMEM;
	for (tries = 0; tries < MAX_RETRIES; tries++) {
		err = mp_frame_send(frame, dst, to);
		/* The destructor tells how it went, except for a queue that is full. */
		if (err != -EAGAIN)
			return 0;
		usleep_range(500, 1000);
	}
	mp_frame_free(frame);
	return 0;
}

/* --- receiving --------------------------------------------------------------- */

static bool is_intact(const struct receipt *receipt)
{
	u32 at = 0, i, k;

	for (k = 0; k < 2; k++)
		for (i = 0; i < receipt->frags[k].len; i++)
			if (receipt->frags[k].buf[i] != pattern(receipt->seq, at++))
				return false;
	return true;
}

/* Whether this is later than all frames before it from that peer. */
static bool is_new(int peer, const struct receipt *receipt)
{
	bool new = false;

	if (peer < 0 || peer >= MAX_PEERS)
		return false;
	spin_lock_bh(&latest_lock);
	if (receipt->run != latest[peer].run || receipt->seq > latest[peer].seq) {
		latest[peer].run = receipt->run;
		latest[peer].seq = receipt->seq;
		new = true;
	}
	spin_unlock_bh(&latest_lock);
	return new;
}

static void receipt_free(struct receipt *receipt)
{
	buffer_free(receipt->frags[0].buf);
	buffer_free(receipt->frags[1].buf);
	kfree(receipt);
}

static void copied(int status, void *data)
{
	struct receipt *receipt = data;

	if (status == -ENOTCONN)
		atomic_inc(&lost);
	else if (status || !is_intact(receipt))
		atomic_inc(&corrupt);
	else if (receipt->again)
		atomic_inc(&repeated);
	else
		atomic_inc(&received);
	mp_frame_free(receipt->frame);
	receipt_free(receipt);
	atomic_dec(&copying);
}

/* What the frame's headers say, which its sender has written, against its length. */
static struct receipt *receipt_new(mp_frame *frame)
{
	const struct func_hdr *hdr = mp_frame_hdr(frame);
	struct receipt *receipt;
	u32 k, len = 0;

	if (mp_frame_func_len(frame) != sizeof(*hdr))
		return NULL;
	receipt = kzalloc_obj(*receipt, GFP_ATOMIC);
	if (!receipt)
		return NULL;
	receipt->frame = frame;
	receipt->run = le32_to_cpu(hdr->run);
	receipt->seq = le32_to_cpu(hdr->seq);
	for (k = 0; k < 2; k++) {
		u32 part = min(le32_to_cpu(hdr->len[k]), MAX_LEN);

		len += part;
		receipt->frags[k].len = part;
		receipt->frags[k].buf = buffer_alloc(part, GFP_ATOMIC);
	}
	if (len != mp_frame_data_len(frame) || !receipt->frags[0].buf || !receipt->frags[1].buf) {
		receipt_free(receipt);
		return NULL;
	}
	return receipt;
}

static int frame_receive(mp_frame *frame)
{
	struct receipt *receipt = receipt_new(frame);
	int err;

	if (!receipt) {
		atomic_inc(&corrupt);
		return -EBADMSG;
	}
	/* Copies may end in another order than they begin. */
	receipt->again = !is_new(mp_peer_index(frame->src), receipt);
	atomic_inc(&copying);
	err = mp_frame_sync(frame, 2, receipt->frags, copied, receipt);
	if (err) {
		receipt_free(receipt);
		atomic_dec(&copying);
		atomic_inc(err == -ENOTCONN ? &lost : &corrupt);
	}
	return err;
}

/* --- peers ------------------------------------------------------------------- */

static void peer_add(mp_peer *peer)
{
	atomic_inc(&peers);
}

static void peer_del(mp_peer *peer)
{
	atomic_dec(&peers);
}

/* --- sysfs ------------------------------------------------------------------- */

struct counter {
	struct kobj_attribute attr;
	const atomic_t *value;
};

static ssize_t counter_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct counter *counter = container_of(attr, struct counter, attr);

	return sysfs_emit(buf, "%d\n", atomic_read(counter->value));
}

static ssize_t send_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t size)
{
	u32 dst, count, len, to = FUNC_ID;
	int err;

	if (sscanf(buf, "%i %i %i %i", &dst, &count, &len, &to) < 3 || len > MAX_LEN)
		return -EINVAL;
	while (count--) {
		err = send_one(dst, len, to);
		if (err)
			return err;
	}
	return size;
}

#define COUNTER(_name, _value) { __ATTR(_name, 0444, counter_show, NULL), _value }

static struct counter counters[] = {
	COUNTER(rp_success, &stats[0].success),
	COUNTER(rp_fail, &stats[0].fail),
	COUNTER(success, &stats[1].success),
	COUNTER(fail, &stats[1].fail),
	COUNTER(received, &received),
	COUNTER(corrupt, &corrupt),
	COUNTER(repeated, &repeated),
	COUNTER(lost, &lost),
	COUNTER(buffers, &buffers),
	COUNTER(peers, &peers),
};

static struct kobj_attribute send_attr = __ATTR_WO(send);
static struct kobject *directory;

static int directory_add(void)
{
	int err, i;

	directory = kobject_create_and_add(KBUILD_MODNAME, kernel_kobj);
	if (!directory)
		return -ENOMEM;
	err = sysfs_create_file(directory, &send_attr.attr);
	for (i = 0; !err && i < ARRAY_SIZE(counters); i++)
		err = sysfs_create_file(directory, &counters[i].attr.attr);
	if (err)
		kobject_put(directory);
	return err;
}

/* --- module ------------------------------------------------------------------ */

static int __init sample_init(void)
{
	int err;

	run = get_random_u32();
	func = mp_func_alloc(FUNC_ID, 0);
	if (!func)
		return -ENOMEM;
	func->peer_add = peer_add;
	func->peer_del = peer_del;
	func->frame_receive = frame_receive;
	err = mp_func_register(func);
	if (err)
		goto free;
	err = directory_add();
	if (err)
		goto unregister;
	return 0;

unregister:
	mp_func_unregister(func);
free:
	mp_func_free(func);
	return err;
}

static void __exit sample_exit(void)
{
	kobject_put(directory);
	mp_func_unregister(func);
	mp_func_free(func);
	while (atomic_read(&copying))
		msleep(20);
}

module_init(sample_init);
module_exit(sample_exit);
MODULE_DESCRIPTION("Sample of a function service in C");
MODULE_AUTHOR("The pximc-ntb authors");
MODULE_LICENSE("GPL");
