// SPDX-License-Identifier: GPL-2.0

#include <linux/netdevice.h>
#include <net/gro.h>

/* --- NAPI ----------------------------------------------------------------- */

__mp_helper void mp_helper_netif_napi_add(struct net_device *dev,
					  struct napi_struct *napi,
					  int (*poll)(struct napi_struct *, int))
{
	netif_napi_add(dev, napi, poll);
}

__mp_helper void mp_helper_netif_napi_del(struct napi_struct *napi)
{
	netif_napi_del(napi);
}

__mp_helper bool mp_helper_napi_is_scheduled(struct napi_struct *napi)
{
	return test_bit(NAPI_STATE_SCHED, &napi->state);
}

/*
 * napi_schedule() raises the softirq but does not run it: in process context
 * that is the job of local_bh_enable(), which interrupt handlers must not call.
 */
__mp_helper void mp_helper_napi_schedule_any(struct napi_struct *napi)
{
	if (in_interrupt() || irqs_disabled()) {
		napi_schedule(napi);
		return;
	}
	local_bh_disable();
	napi_schedule(napi);
	local_bh_enable();
}

__mp_helper void mp_helper_napi_gro_receive(struct napi_struct *napi,
					    struct sk_buff *skb)
{
	napi_gro_receive(napi, skb);
}

__mp_helper void mp_helper_napi_gro_flush_all(struct napi_struct *napi)
{
	napi_gro_flush(napi, false);
}
