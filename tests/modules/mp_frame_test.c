// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames as tests make them, in the place of a function service: with func=ID, what arrives for
 * that service is kept for the test, and what the test writes is sent to that service of a peer,
 * or with to=ID to another one.
 * The files of /sys/kernel/mp_frame_test:
 *
 *	send		"PEER PRIORITY LEN HEADER DATA": sends a frame with that function header,
 *			and LEN bytes of data, of which the first are DATA and the others zero.
 *			Numbers as in C, bytes in hexadecimal digits; "-" for none
 *	received	the oldest frames that have arrived and were not read, as many as a page has
 *			room for, each a line "HEADER DATA", of which there are KEPT bytes at most;
 *			empty if there are none
 */

#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/hex.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <mp/mp.h>

#define MAX_HEADER	64
#define MAX_LEN		(128U << 10)
#define KEPT		512
/* Frames that wait to be read; what comes then is dropped. */
#define MAX_NOTES	256
/* How often a full queue is tried again, a millisecond apart. */
#define MAX_RETRIES	5000

static u32 func_id;
module_param_named(func, func_id, uint, 0);
static u32 to_id;
module_param_named(to, to_id, uint, 0);

/* A frame that has arrived. */
struct note {
	struct list_head list;
	u8 header[MAX_HEADER];
	u32 header_len;
	u32 len;
	mp_frame *frame;
	u8 data[];
};

static LIST_HEAD(notes);
static DEFINE_SPINLOCK(notes_lock);
static u32 noted;
static atomic_t copying;
static mp_func *func;

/* --- sending ----------------------------------------------------------------- */

static void frame_ds(mp_frame *frame)
{
	kfree(mp_frame_frag(frame, NULL)->buf);
}

/* Bytes of a word of hexadecimal digits, at most so many, or a negative errno. */
static int bytes(const char *word, u8 *to, size_t most)
{
	size_t len = strcmp(word, "-") ? strlen(word) / 2 : 0;

	if (len > most)
		return -E2BIG;
	return hex2bin(to, word, len) ? -EINVAL : len;
}

static mp_frame *frame_new(const u8 *header, u32 header_len, u8 *data, u32 len)
{
	mp_frame *frame = mp_frame_alloc(1, header_len, 0, frame_ds);
	mp_frag *frag;

	if (!frame)
		return NULL;
	memcpy(mp_frame_hdr(frame), header, header_len);
	frag = mp_frame_frag(frame, NULL);
	frag->buf = data;
	frag->len = len;
	return frame;
}

static int send(u32 peer, bool priority, const char *header_word, const char *data_word, u32 len)
{
	u8 *data = kzalloc(max(len, 1U), GFP_KERNEL);
	u8 header[MAX_HEADER];
	int header_len, err, tries;
	mp_frame *frame;

	if (!data)
		return -ENOMEM;
	header_len = bytes(header_word, header, sizeof(header));
	err = bytes(data_word, data, len);
	frame = header_len < 0 || err < 0 ? NULL : frame_new(header, header_len, data, len);
	if (!frame) {
		kfree(data);
		return -EINVAL;
	}
	if (priority)
		frame->flags |= MP_FRAME_PRIORITY;
	for (tries = 0; tries < MAX_RETRIES; tries++) {
		err = mp_frame_send(frame, peer, to_id ?: func_id);
		if (err != -EAGAIN)
			return err;
		usleep_range(500, 1000);
	}
	mp_frame_free(frame);
	return err;
}

static ssize_t send_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t size)
{
	char *words = kstrdup(buf, GFP_KERNEL), *rest, *word[5];
	u32 numbers[3];
	int err = 0, i;

	if (!words)
		return -ENOMEM;
	rest = strim(words);
	for (i = 0; i < ARRAY_SIZE(word) && !err; i++) {
		word[i] = strsep(&rest, " ");
		if (!word[i])
			err = -EINVAL;
		else if (i < ARRAY_SIZE(numbers))
			err = kstrtou32(word[i], 0, &numbers[i]);
	}
	if (!err && numbers[2] > MAX_LEN)
		err = -EINVAL;
	if (!err)
		err = send(numbers[0], numbers[1], word[3], word[4], numbers[2]);
	kfree(words);
	return err ?: size;
}

/* --- receiving --------------------------------------------------------------- */

static void copied(int status, void *data)
{
	struct note *note = data;

	mp_frame_free(note->frame);
	spin_lock_bh(&notes_lock);
	if (!status && noted < MAX_NOTES) {
		list_add_tail(&note->list, &notes);
		noted++;
		note = NULL;
	}
	spin_unlock_bh(&notes_lock);
	kfree(note);
	atomic_dec(&copying);
}

static int frame_receive(mp_frame *frame)
{
	u32 len = mp_frame_data_len(frame);
	struct note *note;
	mp_frag frag;
	int err;

	if (frame->func_len > MAX_HEADER)
		return -EBADMSG;
	note = kzalloc(struct_size(note, data, len), GFP_ATOMIC);
	if (!note)
		return -ENOMEM;
	note->frame = frame;
	note->header_len = frame->func_len;
	memcpy(note->header, mp_frame_hdr(frame), frame->func_len);
	note->len = min(len, KEPT);
	frag.buf = note->data;
	frag.len = len;
	atomic_inc(&copying);
	err = mp_frame_sync(frame, 1, &frag, copied, note);
	if (err) {
		kfree(note);
		atomic_dec(&copying);
	}
	return err;
}

/* Bytes of the line of a note. */
static size_t line_len(const struct note *note)
{
	return 2 * note->header_len + strlen(" ") + max(2 * note->len, strlen("-")) + strlen("\n");
}

/* The oldest note, if its line has no more bytes than that. */
static struct note *take(size_t most)
{
	struct note *note;

	spin_lock_bh(&notes_lock);
	note = list_first_entry_or_null(&notes, struct note, list);
	if (note && line_len(note) > most)
		note = NULL;
	if (note) {
		list_del(&note->list);
		noted--;
	}
	spin_unlock_bh(&notes_lock);
	return note;
}

static size_t write_line(const struct note *note, char *to)
{
	char *end = bin2hex(to, note->header, note->header_len);

	*end++ = ' ';
	if (note->len)
		end = bin2hex(end, note->data, note->len);
	else
		*end++ = '-';
	*end++ = '\n';
	return end - to;
}

static ssize_t received_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct note *note;
	size_t len = 0;

	/* What is shown ends with a zero byte. */
	while ((note = take(PAGE_SIZE - 1 - len))) {
		len += write_line(note, buf + len);
		kfree(note);
	}
	return len;
}

/* --- module ------------------------------------------------------------------ */

static struct kobj_attribute send_attr = __ATTR_WO(send);
static struct kobj_attribute received_attr = __ATTR(received, 0400, received_show, NULL);
static struct attribute *attrs[] = { &send_attr.attr, &received_attr.attr, NULL };
static const struct attribute_group group = { .attrs = attrs };
static struct kobject *directory;

static int __init frame_test_init(void)
{
	int err;

	func = mp_func_alloc(func_id, 0);
	if (!func)
		return -ENOMEM;
	func->frame_receive = frame_receive;
	err = mp_func_register(func);
	if (err)
		goto free;
	directory = kobject_create_and_add(KBUILD_MODNAME, kernel_kobj);
	err = directory ? sysfs_create_group(directory, &group) : -ENOMEM;
	if (err)
		goto unregister;
	return 0;

unregister:
	kobject_put(directory);
	mp_func_unregister(func);
free:
	mp_func_free(func);
	return err;
}

static void __exit frame_test_exit(void)
{
	struct note *note;

	kobject_put(directory);
	mp_func_unregister(func);
	mp_func_free(func);
	while (atomic_read(&copying))
		msleep(20);
	while ((note = take(SIZE_MAX)))
		kfree(note);
}

module_init(frame_test_init);
module_exit(frame_test_exit);
MODULE_DESCRIPTION("Test that takes the place of a function service");
MODULE_AUTHOR("The pximc-ntb authors");
MODULE_LICENSE("GPL");
