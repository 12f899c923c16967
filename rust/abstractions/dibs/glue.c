// SPDX-License-Identifier: GPL-2.0-only
/*
 * What DIBS devices in Rust need of the kernel's structures: the device's operations with plain
 * arguments, signals and events under the device's lock, and a parent.
 *
 * Part of mp_dibs.ko and not of mp_kernel.ko, which all modules need: that would need dibs.ko, too.
 */

#include <linux/bitops.h>
#include <linux/dibs.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include "glue.h"

struct mp_dibs {
	struct dibs_dev *dibs;
	const struct mp_dibs_calls *calls;
	void *data;
	struct pci_dev *parent;
};

static u16 get_fabric_id(struct dibs_dev *dibs)
{
	return MP_DIBS_FABRIC;
}

static int query_remote_gid(struct dibs_dev *dibs, const uuid_t *rgid, u32 vid_valid, u32 vid)
{
	struct mp_dibs *mp = dibs->drv_priv;

	return mp->calls->query(mp->data, rgid->b);
}

static int max_dmbs(void)
{
	return MP_DIBS_BUFFERS;
}

static void set_client(struct dibs_dev *dibs, u32 index, u8 client)
{
	unsigned long flags;

	spin_lock_irqsave(&dibs->lock, flags);
	if (index < MP_DIBS_BUFFERS)
		dibs->dmb_clientid_arr[index] = client;
	spin_unlock_irqrestore(&dibs->lock, flags);
}

static int register_dmb(struct dibs_dev *dibs, struct dibs_dmb *dmb, struct dibs_client *client)
{
	struct mp_dibs *mp = dibs->drv_priv;
	struct mp_dibs_buffer buffer = {};
	int ret;

	/* What arrives in the head of a buffer is checked as a record of this client's. */
	if (strcmp(client->name, "SMC-D"))
		return -EOPNOTSUPP;
	ret = mp->calls->add(mp->data, dmb->rgid.b, dmb->dmb_len, &buffer);
	if (ret)
		return ret;
	dmb->dmb_tok = buffer.token;
	dmb->cpu_addr = buffer.address;
	dmb->idx = buffer.index;
	/* Clients take zero for "not registered". */
	dmb->dma_addr = ~(dma_addr_t)0;
	set_client(dibs, buffer.index, client->id);
	return 0;
}

static int unregister_dmb(struct dibs_dev *dibs, struct dibs_dmb *dmb)
{
	struct mp_dibs *mp = dibs->drv_priv;

	set_client(dibs, dmb->idx, NO_DIBS_CLIENT);
	return mp->calls->remove(mp->data, dmb->idx, dmb->dmb_tok);
}

static int move_data(struct dibs_dev *dibs, u64 token, unsigned int idx, bool sf,
		     unsigned int offset, void *data, unsigned int size)
{
	struct mp_dibs *mp = dibs->drv_priv;

	return mp->calls->move(mp->data, token, idx, sf, offset, data, size);
}

/* Any device may be in any VLAN; clients take that for version 2 of the device. */
static int accept_vlan_id(struct dibs_dev *dibs, u64 vlan_id)
{
	return 0;
}

static int signal_event(struct dibs_dev *dibs, const uuid_t *rgid, u32 trigger_irq, u32 code,
			u64 info)
{
	struct mp_dibs *mp = dibs->drv_priv;

	return mp->calls->event(mp->data, rgid->b, code, info);
}

static const struct dibs_dev_ops ops = {
	.get_fabric_id = get_fabric_id,
	.query_remote_gid = query_remote_gid,
	.max_dmbs = max_dmbs,
	.register_dmb = register_dmb,
	.unregister_dmb = unregister_dmb,
	.move_data = move_data,
	.add_vlan_id = accept_vlan_id,
	.del_vlan_id = accept_vlan_id,
	.signal_event = signal_event,
};

/*
 * The first function of the root bus above a function, referenced. Clients take the device's parent
 * for a PCI device, and tell its ids to every user who asks, so there has to be one. This one
 * outlives bridges, which come and go. NULL if the function has gone.
 */
static struct pci_dev *root_function(u32 domain, u8 number, u8 devfn)
{
	struct pci_dev *at = pci_get_domain_bus_and_slot(domain, number, devfn), *first = NULL;
	struct pci_bus *bus;
	unsigned int slot;

	if (!at)
		return NULL;
	for (bus = at->bus; bus->parent; bus = bus->parent)
		;
	for (slot = 0; slot < 256 && !first; slot++)
		first = pci_get_slot(bus, slot);
	pci_dev_put(at);
	return first;
}

struct mp_dibs *mp_dibs_new(void)
{
	struct mp_dibs *mp = kzalloc(sizeof(*mp), GFP_KERNEL);

	if (!mp)
		return NULL;
	mp->dibs = dibs_dev_alloc();
	if (!mp->dibs) {
		kfree(mp);
		return NULL;
	}
	mp->dibs->ops = &ops;
	mp->dibs->drv_priv = mp;
	return mp;
}

void mp_dibs_free(struct mp_dibs *mp)
{
	put_device(&mp->dibs->dev);
	pci_dev_put(mp->parent);
	kfree(mp);
}

int mp_dibs_add(struct mp_dibs *mp, const u8 *gid, const struct mp_dibs_calls *calls, void *data,
		u32 domain, u8 bus, u8 devfn)
{
	int ret;

	mp->parent = root_function(domain, bus, devfn);
	if (!mp->parent)
		return -ENODEV;
	mp->calls = calls;
	mp->data = data;
	import_uuid(&mp->dibs->gid, gid);
	mp->dibs->dev.parent = &mp->parent->dev;
	ret = dev_set_name(&mp->dibs->dev, "mp");
	return ret ?: dibs_dev_add(mp->dibs);
}

void mp_dibs_del(struct mp_dibs *mp)
{
	dibs_dev_del(mp->dibs);
}

void mp_dibs_signal(struct mp_dibs *mp, u32 index, u32 signal)
{
	struct dibs_dev *dibs = mp->dibs;
	struct dibs_client *client = NULL;
	unsigned long flags;

	spin_lock_irqsave(&dibs->lock, flags);
	if (index < MP_DIBS_BUFFERS && dibs->dmb_clientid_arr) {
		u8 id = dibs->dmb_clientid_arr[index];

		if (id < MAX_DIBS_CLIENTS)
			client = dibs->subs[id];
	}
	if (client)
		client->ops->handle_irq(dibs, index, ror16(0x1000, signal));
	spin_unlock_irqrestore(&dibs->lock, flags);
}

static void tell(struct dibs_dev *dibs, const struct dibs_event *event)
{
	unsigned long flags;
	unsigned int id;

	spin_lock_irqsave(&dibs->lock, flags);
	for (id = 0; id < MAX_DIBS_CLIENTS; id++) {
		if (dibs->subs[id])
			dibs->subs[id]->ops->handle_event(dibs, event);
	}
	spin_unlock_irqrestore(&dibs->lock, flags);
}

void mp_dibs_event(struct mp_dibs *mp, const u8 *gid, u32 code, u64 info)
{
	struct dibs_event event = { .type = DIBS_SW_EVENT, .subtype = code, .data = info };

	import_uuid(&event.gid, gid);
	tell(mp->dibs, &event);
}

void mp_dibs_gone(struct mp_dibs *mp, const u8 *gid)
{
	struct dibs_event event = { .type = DIBS_DEV_EVENT, .subtype = DIBS_DEV_DISABLED };

	import_uuid(&event.gid, gid);
	tell(mp->dibs, &event);
}
