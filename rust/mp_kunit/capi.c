// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of the interface for modules in C: every function of mp/mp.h that
 * needs no hardware, with a transport that keeps what it is given to send.
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <mp/mp.h>

#define TRANS_ID	0x7e58U
#define FUNC_ID		0x4b554343U
#define ONE		MP_PEER_ID(1, 0, 0)
#define TWO		MP_PEER_ID(2, 0, 0)

/* What the transport was told to do, and what it was given. */
static struct {
	int refuse;		/* errno for frames to peer two */
	struct mp_frame *taken[4];
	int count;
	/* A copy that the transport has begun. */
	mp_dma_cb cb;
	void *cb_data;
	int sync_refuse;
} wire;

/* What the function got. */
static struct {
	int refuse;
	mp_frame *frame;
	int peers;
} got;

static mp_trans *trans;
static mp_peer *self, *one, *two;

/* --- transport and function -------------------------------------------------- */

static int frame_send(mp_frame *frame)
{
	const mp_msg *msg = mp_frame_msg(frame);

	/* Services tell each other who is there. */
	if (!msg->func) {
		frame->status = 0;
		mp_frame_free(frame);
		return 0;
	}
	if (wire.refuse && mp_peer_id(frame->dst) == TWO)
		return wire.refuse;
	if (wire.count == ARRAY_SIZE(wire.taken))
		return -ENOSPC;
	wire.taken[wire.count++] = frame;
	return 0;
}

/* What the transport has been given first, which the caller frees. */
static mp_frame *taken(void)
{
	mp_frame *frame = wire.taken[0];

	if (!wire.count)
		return NULL;
	memmove(wire.taken, wire.taken + 1, sizeof(wire.taken) - sizeof(wire.taken[0]));
	wire.count--;
	return frame;
}

static int frame_sync(mp_frame *frame, u32 frags, mp_frag *buffers, mp_dma_cb cb,
		      void *cb_data)
{
	if (wire.sync_refuse)
		return wire.sync_refuse;
	memset(buffers[0].buf, 0x5a, buffers[0].len);
	wire.cb = cb;
	wire.cb_data = cb_data;
	return 0;
}

static void peer_add(mp_peer *peer)
{
	got.peers++;
}

static void peer_del(mp_peer *peer)
{
	got.peers--;
}

static int frame_receive(mp_frame *frame)
{
	if (got.refuse)
		return got.refuse;
	if (got.frame)
		mp_frame_free(got.frame);
	got.frame = frame;
	return 0;
}

/* What the transport was told of a peer at its bridge. */
static struct {
	u32 id;
	u8 data[24];
	int count;
} told;

static mp_peer *announced_add(u32 id, void *data)
{
	mp_peer *peer = mp_peer_alloc(trans, TRANS_ID, id, 0, 0);

	if (!peer)
		return NULL;
	if (mp_peer_add(peer)) {
		mp_peer_free(peer);
		return NULL;
	}
	told.id = id;
	memcpy(told.data, data, sizeof(told.data));
	WRITE_ONCE(told.count, told.count + 1);
	return peer;
}

static void announced_del(mp_peer *peer)
{
	mp_peer_del(peer);
	WRITE_ONCE(told.count, told.count - 1);
}

static mp_func *func_new(struct kunit *test)
{
	mp_func *func = mp_func_alloc(FUNC_ID, 16);

	KUNIT_ASSERT_NOT_NULL(test, func);
	func->peer_add = peer_add;
	func->peer_del = peer_del;
	func->frame_receive = frame_receive;
	KUNIT_ASSERT_EQ(test, mp_func_register(func), 0);
	return func;
}

static void func_end(struct kunit *test, mp_func *func)
{
	KUNIT_EXPECT_EQ(test, mp_func_unregister(func), 0);
	mp_func_free(func);
	if (got.frame)
		mp_frame_free(got.frame);
	got.frame = NULL;
}

static int suite_init(struct kunit *test)
{
	memset(&wire, 0, sizeof(wire));
	memset(&got, 0, sizeof(got));
	memset(&told, 0, sizeof(told));
	trans = mp_trans_alloc(TRANS_ID, 24);
	KUNIT_ASSERT_NOT_NULL(test, trans);
	trans->frame_send = frame_send;
	trans->frame_sync = frame_sync;
	trans->peer_add = announced_add;
	trans->peer_del = announced_del;
	KUNIT_ASSERT_EQ(test, mp_trans_register(trans), 0);
	self = mp_peer_alloc(trans, TRANS_ID, MP_PEER_RP, 0, 0);
	one = mp_peer_alloc(trans, TRANS_ID, ONE, 12, 20);
	two = mp_peer_alloc(trans, TRANS_ID, TWO, 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, self);
	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_ASSERT_NOT_NULL(test, two);
	KUNIT_ASSERT_EQ(test, mp_self_add(self), 0);
	KUNIT_ASSERT_EQ(test, mp_peer_add(one), 0);
	KUNIT_ASSERT_EQ(test, mp_peer_add(two), 0);
	return 0;
}

static void suite_exit(struct kunit *test)
{
	/* Removes those peers that are left. */
	KUNIT_EXPECT_EQ(test, mp_trans_unregister(trans), 0);
	KUNIT_EXPECT_NULL(test, mp_peer_get(TWO));
	KUNIT_EXPECT_EQ(test, mp_self_del(self), 0);
	mp_peer_free(two);
	mp_peer_dec(one);
	mp_peer_dec(self);
	mp_trans_free(trans);
}

/* --- frames ------------------------------------------------------------------ */

static int ended, end_status;

static void count_end(mp_frame *frame)
{
	ended++;
	end_status = frame->status;
}

/* How often the destructor ran since the last call; its last status is in end_status. */
static int ends(void)
{
	int count = ended;

	ended = 0;
	return count;
}

static u8 first[] = "first", second[] = "second!";

static mp_frame *frame_new(struct kunit *test)
{
	mp_frame *frame = mp_frame_alloc(2, 4, 8, count_end);
	mp_frag *frag;

	KUNIT_ASSERT_NOT_NULL(test, frame);
	frag = mp_frame_frag(frame, NULL);
	frag->buf = first;
	frag->len = sizeof(first);
	frag = mp_frame_frag(frame, frag);
	frag->buf = second;
	frag->len = sizeof(second);
	memcpy(mp_frame_func(frame), "head", 4);
	return frame;
}

#define DATA_LEN	(sizeof(first) + sizeof(second))

/* A frame as it arrives from peer one. */
static mp_frame *arrived_new(struct kunit *test, u32 dst, u32 src, u32 func)
{
	mp_frame *frame = frame_new(test);
	mp_msg *msg = mp_frame_msg(frame);

	msg->dst = cpu_to_le32(dst);
	msg->src = cpu_to_le32(src);
	msg->len = cpu_to_le32(4 + DATA_LEN);
	msg->func = cpu_to_le32(func);
	KUNIT_ASSERT_PTR_EQ(test, mp_frame_src_set(frame, one), one);
	return frame;
}

static int copies, copy_status;

static void copied(int status, void *cb_data)
{
	copies += cb_data == &copies;
	copy_status = status;
}

/* What a function does that has no more use for the frame. */
static void copied_and_freed(int status, void *cb_data)
{
	copy_status = status;
	mp_frame_free(cb_data);
}

/* --- cases ------------------------------------------------------------------- */

static void the_ids_are_those_of_the_guide(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, MP_PEER_ID(0x12, 0x03, 0x5), 0x121d);
	KUNIT_EXPECT_EQ(test, MP_PEER_ID(0x1ff, 0x3f, 0xf), 0xffff);
	KUNIT_EXPECT_EQ(test, MP_PEER_RP, 0);
	KUNIT_EXPECT_EQ(test, MP_PEER_SELF, 0x80000000U);
	KUNIT_EXPECT_EQ(test, MP_PEER_BCAST, ~0U);
	KUNIT_EXPECT_EQ(test, MP_DMA_DIR_L2L, 0);
	KUNIT_EXPECT_EQ(test, MP_DMA_DIR_L2P, 1);
	KUNIT_EXPECT_EQ(test, MP_DMA_DIR_P2L, 2);
	KUNIT_EXPECT_EQ(test, MP_DMA_DIR_P2P, 3);
	KUNIT_EXPECT_EQ(test, MP_DMA_DIR_MASK, 3);
}

static void transports_are_found_by_id_and_in_order(struct kunit *test)
{
	mp_trans *found, *next, *again;
	u32 *priv = mp_trans_priv(trans);

	KUNIT_EXPECT_EQ(test, priv[5], 0);
	priv[5] = 1;
	found = mp_trans_get(TRANS_ID);
	KUNIT_EXPECT_PTR_EQ(test, found, trans);
	mp_trans_dec(found);
	KUNIT_EXPECT_NULL(test, mp_trans_get(TRANS_ID - 1));
	/* The loopback is not in C. */
	found = mp_trans_next(NULL);
	KUNIT_ASSERT_NOT_NULL(test, found);
	KUNIT_EXPECT_EQ(test, found->id, 0);
	KUNIT_EXPECT_NULL(test, found->frame_send);
	next = mp_trans_next(found);
	KUNIT_EXPECT_PTR_EQ(test, next, trans);
	KUNIT_EXPECT_NULL(test, mp_trans_next(next));
	mp_trans_dec(found);
	mp_trans_dec(next);
	KUNIT_EXPECT_PTR_EQ(test, mp_trans_inc(trans), trans);
	mp_trans_dec(trans);
	KUNIT_EXPECT_NULL(test, mp_trans_inc(NULL));

	again = mp_trans_alloc(TRANS_ID, 0);
	KUNIT_ASSERT_NOT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, mp_trans_register(again), -EINVAL);
	again->frame_send = frame_send;
	KUNIT_EXPECT_EQ(test, mp_trans_register(again), -EEXIST);
	KUNIT_EXPECT_EQ(test, mp_trans_unregister(again), -ENOENT);
	KUNIT_EXPECT_EQ(test, mp_trans_register(trans), -EBUSY);
	mp_trans_free(again);
}

static void peers_have_ids_and_memory_of_their_own(struct kunit *test)
{
	mp_peer *found, *next, *other;

	KUNIT_EXPECT_EQ(test, mp_peer_id(one), ONE);
	KUNIT_EXPECT_EQ(test, mp_peer_index(one), 1);
	KUNIT_EXPECT_EQ(test, mp_peer_type(one), TRANS_ID);
	KUNIT_EXPECT_EQ(test, mp_peer_data_len(one), 12);
	KUNIT_ASSERT_NOT_NULL(test, mp_peer_data(one));
	KUNIT_ASSERT_NOT_NULL(test, mp_peer_priv(one));
	memset(mp_peer_data(one), 1, 12);
	memset(mp_peer_priv(one), 2, 20);
	KUNIT_EXPECT_EQ(test, ((u8 *)mp_peer_data(one))[11], 1);
	KUNIT_EXPECT_NULL(test, mp_peer_priv(two));

	found = mp_peer_get(TWO);
	KUNIT_EXPECT_PTR_EQ(test, found, two);
	mp_peer_dec(found);
	KUNIT_EXPECT_NULL(test, mp_peer_get(MP_PEER_ID(9, 0, 0)));
	found = mp_peer_next(NULL);
	KUNIT_EXPECT_PTR_EQ(test, found, one);
	next = mp_peer_next(found);
	KUNIT_EXPECT_PTR_EQ(test, next, two);
	KUNIT_EXPECT_NULL(test, mp_peer_next(next));
	mp_peer_dec(found);
	mp_peer_dec(next);
	KUNIT_EXPECT_PTR_EQ(test, mp_peer_inc(one), one);
	mp_peer_dec(one);
	KUNIT_EXPECT_NULL(test, mp_peer_inc(NULL));

	KUNIT_EXPECT_EQ(test, mp_peer_add(one), -EEXIST);
	other = mp_peer_alloc(trans, TRANS_ID, TWO, 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_EXPECT_EQ(test, mp_peer_add(other), -EEXIST);
	KUNIT_EXPECT_EQ(test, mp_peer_del(other), -ENOENT);
	mp_peer_free(other);
	KUNIT_EXPECT_NULL(test, mp_peer_alloc(NULL, TRANS_ID, TWO, 0, 0));
}

static void the_local_host_is_a_peer(struct kunit *test)
{
	mp_peer *found = mp_self_get(), *other;

	KUNIT_EXPECT_PTR_EQ(test, found, self);
	mp_peer_dec(found);
	found = mp_peer_get(MP_PEER_SELF);
	KUNIT_EXPECT_PTR_EQ(test, found, self);
	mp_peer_dec(found);
	found = mp_peer_get(MP_PEER_RP);
	KUNIT_EXPECT_PTR_EQ(test, found, self);
	mp_peer_dec(found);
	other = mp_peer_alloc(trans, TRANS_ID, MP_PEER_ID(3, 0, 0), 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_EXPECT_EQ(test, mp_self_add(other), -EBUSY);
	KUNIT_EXPECT_EQ(test, mp_self_del(other), -ENOENT);
	mp_peer_free(other);
}

static void functions_are_found_and_learn_of_peers(struct kunit *test)
{
	mp_func *func = func_new(test), *found, *again;
	mp_peer *three;

	KUNIT_EXPECT_EQ(test, got.peers, 2);
	KUNIT_EXPECT_EQ(test, ((u8 *)mp_func_priv(func))[15], 0);
	found = mp_func_get(FUNC_ID);
	KUNIT_EXPECT_PTR_EQ(test, found, func);
	mp_func_dec(found);
	found = mp_func_next(NULL);
	KUNIT_EXPECT_PTR_EQ(test, found, func);
	KUNIT_EXPECT_NULL(test, mp_func_next(found));
	mp_func_dec(found);
	KUNIT_EXPECT_PTR_EQ(test, mp_func_inc(func), func);
	mp_func_dec(func);
	KUNIT_EXPECT_NULL(test, mp_func_inc(NULL));

	again = mp_func_alloc(FUNC_ID, 0);
	KUNIT_ASSERT_NOT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, mp_func_register(again), -EINVAL);
	again->frame_receive = frame_receive;
	KUNIT_EXPECT_EQ(test, mp_func_register(again), -EEXIST);
	KUNIT_EXPECT_EQ(test, mp_func_unregister(again), -ENOENT);
	KUNIT_EXPECT_EQ(test, mp_func_register(func), -EBUSY);
	mp_func_free(again);

	three = mp_peer_alloc(trans, TRANS_ID, MP_PEER_ID(3, 0, 0), 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, three);
	KUNIT_EXPECT_EQ(test, mp_peer_add(three), 0);
	KUNIT_EXPECT_EQ(test, got.peers, 3);
	KUNIT_EXPECT_EQ(test, mp_peer_del(three), 0);
	KUNIT_EXPECT_EQ(test, got.peers, 2);
	KUNIT_EXPECT_EQ(test, mp_peer_add(three), -ENOTCONN);
	mp_peer_free(three);
	func_end(test, func);
	KUNIT_EXPECT_EQ(test, got.peers, 0);
	KUNIT_EXPECT_NULL(test, mp_func_get(FUNC_ID));
}

static void a_frame_has_fragments_headers_and_private_data(struct kunit *test)
{
	mp_frame *frame = frame_new(test);
	mp_frag *frag = mp_frame_frag(frame, NULL);

	KUNIT_EXPECT_EQ(test, frame->frags, 2);
	KUNIT_EXPECT_PTR_EQ(test, frag->buf, &first[0]);
	frag = mp_frame_frag(frame, frag);
	KUNIT_EXPECT_PTR_EQ(test, frag->buf, &second[0]);
	KUNIT_EXPECT_NULL(test, mp_frame_frag(frame, frag));
	KUNIT_EXPECT_PTR_EQ(test, mp_frame_hdr(frame), mp_frame_func(frame));
	KUNIT_EXPECT_EQ(test, *(u64 *)mp_frame_priv(frame), 0);
	memset(mp_frame_priv(frame), 0xff, 8);
	memset(mp_frame_msg(frame), 0xff, 16);
	KUNIT_EXPECT_EQ(test, memcmp(mp_frame_func(frame), "head", 4), 0);
	KUNIT_EXPECT_EQ(test, frag->len, sizeof(second));
	KUNIT_EXPECT_EQ(test, mp_frame_msg_len(), 16);
	KUNIT_EXPECT_EQ(test, mp_frame_func_len(frame), 4);
	KUNIT_EXPECT_EQ(test, mp_frame_hdr_len(frame), 20);
	KUNIT_EXPECT_EQ(test, mp_frame_data_len(frame), DATA_LEN);
	KUNIT_EXPECT_EQ(test, mp_frame_len(frame), 20 + DATA_LEN);
	mp_frame_free(frame);

	frame = mp_frame_alloc(0, 0, 0, NULL);
	KUNIT_ASSERT_NOT_NULL(test, frame);
	KUNIT_EXPECT_NULL(test, mp_frame_frag(frame, NULL));
	KUNIT_EXPECT_EQ(test, mp_frame_len(frame), 16);
	mp_frame_free(frame);
	KUNIT_EXPECT_EQ(test, ends(), 1);
}

static void a_frame_ends_once_with_its_last_reference(struct kunit *test)
{
	mp_frame *frame = frame_new(test), *clone;

	KUNIT_EXPECT_PTR_EQ(test, mp_frame_inc(frame), frame);
	KUNIT_EXPECT_NULL(test, mp_frame_inc(NULL));
	mp_frame_dec(frame);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	KUNIT_EXPECT_PTR_EQ(test, mp_frame_dst_set(frame, one), one);
	KUNIT_EXPECT_PTR_EQ(test, mp_frame_src_set(frame, two), two);
	KUNIT_EXPECT_NULL(test, mp_frame_dst_set(frame, NULL));
	KUNIT_EXPECT_PTR_EQ(test, frame->dst, one);

	clone = mp_frame_clone(frame, 4, count_end);
	KUNIT_ASSERT_NOT_NULL(test, clone);
	KUNIT_EXPECT_PTR_EQ(test, clone->from, frame);
	KUNIT_EXPECT_PTR_EQ(test, clone->src, two);
	KUNIT_EXPECT_PTR_EQ(test, mp_frame_frag(clone, NULL)->buf, &first[0]);
	KUNIT_EXPECT_EQ(test, memcmp(mp_frame_func(clone), "head", 4), 0);
	mp_frame_free(frame);
	/* The clone has its data. */
	KUNIT_EXPECT_EQ(test, ends(), 0);
	mp_frame_free(clone);
	KUNIT_EXPECT_EQ(test, ends(), 2);
	KUNIT_EXPECT_EQ(test, end_status, -ECANCELED);
}

static void a_frame_goes_to_the_transport_of_its_destination(struct kunit *test)
{
	mp_frame *frame = frame_new(test), *sent;
	mp_stats stats;
	mp_frag *frag;
	mp_msg *msg;

	frame->flags = MP_FRAME_PRIORITY;
	KUNIT_ASSERT_EQ(test, mp_frame_send(frame, ONE, FUNC_ID), 0);
	sent = taken();
	KUNIT_ASSERT_NOT_NULL(test, sent);
	msg = mp_frame_msg(sent);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(msg->dst), ONE);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(msg->src), MP_PEER_RP);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(msg->len), 4 + DATA_LEN);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(msg->func), FUNC_ID);
	KUNIT_EXPECT_PTR_EQ(test, sent->dst, one);
	KUNIT_EXPECT_PTR_EQ(test, sent->src, self);
	KUNIT_EXPECT_EQ(test, sent->flags, MP_FRAME_PRIORITY);
	KUNIT_EXPECT_EQ(test, memcmp(mp_frame_func(sent), "head", 4), 0);
	KUNIT_EXPECT_EQ(test, mp_frame_data_len(sent), DATA_LEN);
	frag = mp_frame_frag(sent, NULL);
	KUNIT_EXPECT_PTR_EQ(test, frag->buf, &first[0]);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	mp_frame_free(sent);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, 0);
	mp_peer_stats(one, &stats);
	KUNIT_EXPECT_EQ(test, stats.tx_frames, 1);
	KUNIT_EXPECT_EQ(test, stats.tx_bytes, DATA_LEN);
	mp_trans_stats(trans, &stats);
	KUNIT_EXPECT_EQ(test, stats.tx_frames, 1);

	/* It fails after the transport has taken it. */
	KUNIT_ASSERT_EQ(test, mp_frame_send(frame_new(test), ONE, FUNC_ID), 0);
	sent = taken();
	KUNIT_ASSERT_NOT_NULL(test, sent);
	sent->status = -EIO;
	mp_frame_free(sent);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, -EIO);
}

static void a_frame_that_cannot_be_sent_tells_its_destructor(struct kunit *test)
{
	mp_frame *frame = frame_new(test);

	wire.refuse = -EIO;
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, TWO, FUNC_ID), -EIO);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, -EIO);
	frame = frame_new(test);
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, MP_PEER_ID(9, 0, 0), FUNC_ID), -ENOTCONN);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, -ENOTCONN);
	frame = frame_new(test);
	mp_frame_frag(frame, NULL)->buf = NULL;
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, ONE, FUNC_ID), -EINVAL);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, -EINVAL);
	frame = mp_frame_alloc(0, 65, 0, count_end);
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, ONE, FUNC_ID), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, ends(), 1);

	/* A full queue: the frame is the sender's, as before. */
	wire.refuse = -EAGAIN;
	frame = frame_new(test);
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, TWO, FUNC_ID), -EAGAIN);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	wire.refuse = 0;
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame, TWO, FUNC_ID), 0);
	mp_frame_free(taken());
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, 0);
}

static void a_broadcast_ends_once_after_its_last_copy(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame_new(test), MP_PEER_BCAST, FUNC_ID), 0);
	KUNIT_EXPECT_EQ(test, wire.count, 2);
	mp_frame_free(taken());
	KUNIT_EXPECT_EQ(test, ends(), 0);
	mp_frame_free(taken());
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, 0);

	/* One copy is refused. */
	wire.refuse = -EAGAIN;
	KUNIT_EXPECT_EQ(test, mp_frame_send(frame_new(test), MP_PEER_BCAST, FUNC_ID),
			-ENOBUFS);
	KUNIT_EXPECT_EQ(test, wire.count, 1);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	mp_frame_free(taken());
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_NE(test, end_status, 0);
}

static void a_received_frame_is_the_functions_own(struct kunit *test)
{
	mp_func *func = func_new(test);
	mp_frame *frame = arrived_new(test, MP_PEER_RP, ONE, FUNC_ID);
	u8 a[4], b[20];
	mp_frag buffers[] = { { a, sizeof(a) }, { b, sizeof(b) } };
	mp_stats stats;

	KUNIT_ASSERT_EQ(test, mp_frame_receive(frame), 0);
	KUNIT_ASSERT_NOT_NULL(test, got.frame);
	KUNIT_EXPECT_PTR_EQ(test, got.frame->src, one);
	KUNIT_EXPECT_PTR_EQ(test, got.frame->dst, self);
	KUNIT_EXPECT_EQ(test, mp_frame_data_len(got.frame), DATA_LEN);
	KUNIT_EXPECT_EQ(test, mp_frame_func_len(got.frame), 4);
	KUNIT_EXPECT_EQ(test, memcmp(mp_frame_func(got.frame), "head", 4), 0);
	mp_peer_stats(one, &stats);
	KUNIT_EXPECT_EQ(test, stats.rx_frames, 1);
	KUNIT_EXPECT_EQ(test, stats.rx_bytes, DATA_LEN);
	/* It has the transport's, which lives as long. */
	KUNIT_EXPECT_EQ(test, ends(), 0);

	copies = 0;
	KUNIT_EXPECT_EQ(test, mp_frame_sync(got.frame, 1, buffers, copied, &copies),
			-EMSGSIZE);
	KUNIT_EXPECT_EQ(test, copies, 0);
	KUNIT_EXPECT_EQ(test, mp_frame_sync(got.frame, 2, buffers, copied, &copies), 0);
	KUNIT_EXPECT_EQ(test, copies, 1);
	KUNIT_EXPECT_EQ(test, copy_status, 0);
	KUNIT_EXPECT_EQ(test, memcmp(a, "firs", 4), 0);
	KUNIT_EXPECT_EQ(test, memcmp(b, "t", 2), 0);
	KUNIT_EXPECT_EQ(test, memcmp(b + 2, second, sizeof(second)), 0);
	mp_frame_free(got.frame);
	got.frame = NULL;
	KUNIT_EXPECT_EQ(test, ends(), 1);
	func_end(test, func);
}

static void a_frame_ends_when_its_copy_frees_it(struct kunit *test)
{
	mp_frame *frame = frame_new(test);
	u8 a[DATA_LEN];
	mp_frag buffer = { a, sizeof(a) };

	copy_status = -EBUSY;
	KUNIT_EXPECT_EQ(test, mp_frame_sync(frame, 1, &buffer, copied_and_freed, frame), 0);
	KUNIT_EXPECT_EQ(test, copy_status, 0);
	KUNIT_EXPECT_EQ(test, ends(), 1);
}

static void a_frame_that_is_not_received_stays_with_the_transport(struct kunit *test)
{
	mp_func *func = func_new(test);
	mp_frame *frame = arrived_new(test, MP_PEER_RP, ONE, FUNC_ID);
	mp_frame *stray = frame_new(test);
	mp_msg *msg = mp_frame_msg(frame);

	got.refuse = -ENOMEM;
	KUNIT_EXPECT_EQ(test, mp_frame_receive(frame), -ENOMEM);
	got.refuse = 0;
	msg->len = cpu_to_le32(4 + DATA_LEN + 1);
	KUNIT_EXPECT_EQ(test, mp_frame_receive(frame), -EBADMSG);
	msg->len = cpu_to_le32(4 + DATA_LEN);
	/* Another link leads there. */
	msg->src = cpu_to_le32(TWO);
	KUNIT_EXPECT_EQ(test, mp_frame_receive(frame), -EBADMSG);
	msg->src = cpu_to_le32(ONE);
	msg->func = cpu_to_le32(FUNC_ID + 1);
	KUNIT_EXPECT_EQ(test, mp_frame_receive(frame), -ENOENT);
	KUNIT_EXPECT_EQ(test, mp_frame_receive(stray), -EINVAL);
	KUNIT_EXPECT_NULL(test, got.frame);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	mp_frame_free(stray);
	mp_frame_free(frame);
	KUNIT_EXPECT_EQ(test, ends(), 2);
	func_end(test, func);
}

static void a_transport_may_copy_by_itself_and_later(struct kunit *test)
{
	mp_func *func = func_new(test);
	mp_frame *frame = arrived_new(test, MP_PEER_BCAST, ONE, FUNC_ID);
	u8 buf[DATA_LEN];
	mp_frag buffer = { buf, sizeof(buf) };

	mp_frame_frag(frame, NULL)->buf = NULL;
	KUNIT_ASSERT_EQ(test, mp_frame_receive(frame), 0);
	KUNIT_ASSERT_NOT_NULL(test, got.frame);
	copies = 0;
	KUNIT_EXPECT_EQ(test, mp_frame_sync(got.frame, 1, &buffer, copied, &copies), 0);
	KUNIT_EXPECT_EQ(test, copies, 0);
	/* The copy has a reference of its own. */
	mp_frame_free(got.frame);
	got.frame = NULL;
	KUNIT_EXPECT_EQ(test, ends(), 0);
	wire.cb(-EIO, wire.cb_data);
	KUNIT_EXPECT_EQ(test, copies, 1);
	KUNIT_EXPECT_EQ(test, copy_status, -EIO);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, buf[DATA_LEN - 1], 0x5a);

	/* What the transport does not copy cannot be copied. */
	frame = arrived_new(test, MP_PEER_BCAST, ONE, FUNC_ID);
	mp_frame_frag(frame, NULL)->buf = NULL;
	KUNIT_ASSERT_EQ(test, mp_frame_receive(frame), 0);
	wire.sync_refuse = -EBUSY;
	KUNIT_EXPECT_NE(test, mp_frame_sync(got.frame, 1, &buffer, copied, &copies), 0);
	KUNIT_EXPECT_EQ(test, copies, 1);
	func_end(test, func);
	KUNIT_EXPECT_EQ(test, ends(), 1);
}

static void a_transport_that_ends_takes_its_frames_back(struct kunit *test)
{
	mp_func *func = func_new(test);
	mp_frame *frame = arrived_new(test, MP_PEER_RP, ONE, FUNC_ID);
	u8 buf[DATA_LEN];
	mp_frag buffer = { buf, sizeof(buf) };

	KUNIT_ASSERT_EQ(test, mp_frame_receive(frame), 0);
	KUNIT_EXPECT_EQ(test, mp_trans_unregister(trans), 0);
	KUNIT_EXPECT_EQ(test, got.peers, 0);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, mp_frame_sync(got.frame, 1, &buffer, NULL, NULL), -ENOTCONN);
	func_end(test, func);
	KUNIT_EXPECT_EQ(test, ends(), 0);
	KUNIT_EXPECT_EQ(test, mp_trans_register(trans), 0);
}

static void a_frame_to_self_comes_back(struct kunit *test)
{
	mp_func *func = func_new(test);
	int tries;

	KUNIT_ASSERT_EQ(test, mp_frame_send(frame_new(test), MP_PEER_SELF, FUNC_ID), 0);
	for (tries = 0; tries < 1000 && !READ_ONCE(got.frame); tries++)
		usleep_range(1000, 2000);
	KUNIT_ASSERT_NOT_NULL(test, got.frame);
	KUNIT_EXPECT_EQ(test, mp_frame_data_len(got.frame), DATA_LEN);
	KUNIT_EXPECT_PTR_EQ(test, got.frame->dst, self);
	func_end(test, func);
	KUNIT_EXPECT_EQ(test, ends(), 1);
	KUNIT_EXPECT_EQ(test, end_status, 0);
}

static bool is_present(u32 id)
{
	mp_peer *peer = mp_peer_get(id);

	if (peer)
		mp_peer_dec(peer);
	return peer;
}

/* A message of the root processor's service: Documentation/wire-format.md, section 8. */
static void say(struct kunit *test, mp_peer *root, u32 kind, u32 id, u64 data)
{
	mp_frame *frame = mp_frame_alloc(0, 60, 0, NULL);
	mp_msg *msg;
	u8 *bytes;

	KUNIT_ASSERT_NOT_NULL(test, frame);
	msg = mp_frame_msg(frame);
	msg->dst = cpu_to_le32(ONE);
	msg->src = cpu_to_le32(MP_PEER_RP);
	msg->len = cpu_to_le32(60);
	msg->func = 0;
	bytes = mp_frame_func(frame);
	memset(bytes, 0, 60);
	put_unaligned_le32(kind, bytes);
	put_unaligned_le32(id, bytes + 4);
	put_unaligned_le64(data, bytes + 12);
	KUNIT_ASSERT_PTR_EQ(test, mp_frame_src_set(frame, root), root);
	KUNIT_EXPECT_EQ(test, mp_frame_receive(frame), 0);
}

static void await_told(int count)
{
	int tries;

	for (tries = 0; tries < 1000 && READ_ONCE(told.count) != count; tries++)
		fsleep(1000);
}

static void a_peer_that_is_announced_is_left_to_its_transport(struct kunit *test)
{
	mp_peer *endpoint = mp_peer_alloc(trans, TRANS_ID, ONE, 0, 0);
	mp_peer *root = mp_peer_alloc(trans, TRANS_ID, MP_PEER_RP, 0, 0);

	KUNIT_ASSERT_NOT_NULL(test, endpoint);
	KUNIT_ASSERT_NOT_NULL(test, root);
	KUNIT_ASSERT_EQ(test, mp_peer_del(one), 0);
	KUNIT_ASSERT_EQ(test, mp_peer_del(two), 0);
	KUNIT_ASSERT_EQ(test, mp_self_del(self), 0);
	KUNIT_ASSERT_EQ(test, mp_self_add(endpoint), 0);
	KUNIT_ASSERT_EQ(test, mp_peer_add(root), 0);

	say(test, root, 1, TWO, 0x1122334455667788);
	await_told(1);
	KUNIT_EXPECT_EQ(test, told.count, 1);
	KUNIT_EXPECT_EQ(test, told.id, TWO);
	KUNIT_EXPECT_EQ(test, get_unaligned_le64(told.data), 0x1122334455667788);
	KUNIT_EXPECT_TRUE(test, is_present(TWO));
	say(test, root, 2, TWO, 0);
	await_told(0);
	KUNIT_EXPECT_EQ(test, told.count, 0);
	KUNIT_EXPECT_FALSE(test, is_present(TWO));

	KUNIT_EXPECT_EQ(test, mp_peer_del(root), 0);
	KUNIT_EXPECT_EQ(test, mp_self_del(endpoint), 0);
	KUNIT_EXPECT_EQ(test, mp_self_add(self), 0);
	mp_peer_dec(root);
	mp_peer_dec(endpoint);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(the_ids_are_those_of_the_guide),
	KUNIT_CASE(transports_are_found_by_id_and_in_order),
	KUNIT_CASE(peers_have_ids_and_memory_of_their_own),
	KUNIT_CASE(the_local_host_is_a_peer),
	KUNIT_CASE(functions_are_found_and_learn_of_peers),
	KUNIT_CASE(a_frame_has_fragments_headers_and_private_data),
	KUNIT_CASE(a_frame_ends_once_with_its_last_reference),
	KUNIT_CASE(a_frame_goes_to_the_transport_of_its_destination),
	KUNIT_CASE(a_frame_that_cannot_be_sent_tells_its_destructor),
	KUNIT_CASE(a_broadcast_ends_once_after_its_last_copy),
	KUNIT_CASE(a_received_frame_is_the_functions_own),
	KUNIT_CASE(a_frame_ends_when_its_copy_frees_it),
	KUNIT_CASE(a_frame_that_is_not_received_stays_with_the_transport),
	KUNIT_CASE(a_transport_may_copy_by_itself_and_later),
	KUNIT_CASE(a_transport_that_ends_takes_its_frames_back),
	KUNIT_CASE(a_frame_to_self_comes_back),
	KUNIT_CASE(a_peer_that_is_announced_is_left_to_its_transport),
	{}
};

static struct kunit_suite suite = {
	.name = "mp_capi",
	.init = suite_init,
	.exit = suite_exit,
	.test_cases = cases,
};

/* --- without memory ----------------------------------------------------------- */

/* For a kernel that refuses memory to Rust: tests/rig/test_kunit.py. */
static void a_frame_that_there_is_no_memory_for_is_null(struct kunit *test)
{
	mp_frame *frame = mp_frame_alloc(2, 4, 8, count_end);

	if (frame) {
		mp_frame_free(frame);
		ends();
		kunit_skip(test, "there is memory");
	}
	KUNIT_EXPECT_EQ(test, ends(), 0);
}

static struct kunit_case short_cases[] = {
	KUNIT_CASE(a_frame_that_there_is_no_memory_for_is_null),
	{}
};

static struct kunit_suite short_suite = {
	.name = "mp_capi_short",
	.test_cases = short_cases,
};

kunit_test_suites(&suite, &short_suite);
