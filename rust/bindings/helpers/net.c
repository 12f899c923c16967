// SPDX-License-Identifier: GPL-2.0-only

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/busy_poll.h>
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

__mp_helper void mp_helper_napi_gro_flush_all(struct napi_struct *napi)
{
	napi_gro_flush(napi, false);
}

/* --- socket buffers ------------------------------------------------------- */

/* Data of a page fragment, or NULL behind the last one or if it is unreadable. */
__mp_helper const void *mp_helper_skb_frag_data(const struct sk_buff *skb,
						unsigned int index, u32 *len)
{
	const skb_frag_t *frag;

	if (index >= skb_shinfo(skb)->nr_frags || !skb_frags_readable(skb))
		return NULL;
	frag = &skb_shinfo(skb)->frags[index];
	if (PageHighMem(skb_frag_page(frag)))
		return NULL;
	*len = skb_frag_size(frag);
	return skb_frag_address(frag);
}

__mp_helper bool mp_helper_skb_has_frag_list(const struct sk_buff *skb)
{
	return skb_has_frag_list(skb);
}

__mp_helper int mp_helper_skb_linearize(struct sk_buff *skb)
{
	return skb_linearize(skb);
}

__mp_helper u32 mp_helper_skb_csum_get(const struct sk_buff *skb, u16 *start,
				       u16 *offset)
{
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		*start = skb_checksum_start_offset(skb);
		*offset = skb->csum_offset;
	}
	return skb->ip_summed;
}

__mp_helper void mp_helper_skb_csum_set_unnecessary(struct sk_buff *skb)
{
	skb->ip_summed = CHECKSUM_UNNECESSARY;
}

__mp_helper bool mp_helper_skb_is_gso(const struct sk_buff *skb)
{
	return skb_is_gso(skb);
}

__mp_helper bool mp_helper_skb_gso_get(const struct sk_buff *skb, u16 *size,
				       u32 *type)
{
	*size = skb_shinfo(skb)->gso_size;
	*type = skb_shinfo(skb)->gso_type;
	return *size;
}

/* The stack computes the number of segments after it has checked the headers. */
__mp_helper void mp_helper_skb_gso_set_untrusted(struct sk_buff *skb, u16 size,
						 u32 type)
{
	struct skb_shared_info *info = skb_shinfo(skb);

	info->gso_size = size;
	info->gso_type = type | SKB_GSO_DODGY;
	info->gso_segs = 0;
}

__mp_helper u32 mp_helper_skb_all_headers_len(const struct sk_buff *skb)
{
	if (!skb_transport_header_was_set(skb))
		return ETH_HLEN;
	if (skb_is_gso_tcp(skb))
		return skb_tcp_all_headers(skb);
	return skb_transport_offset(skb) + sizeof(struct udphdr);
}

__mp_helper u32 mp_helper_skb_get_hash(struct sk_buff *skb)
{
	return skb_get_hash(skb);
}

__mp_helper void mp_helper_skb_set_l4_hash(struct sk_buff *skb, u32 hash)
{
	skb_set_hash(skb, hash, PKT_HASH_TYPE_L4);
}

__mp_helper bool mp_helper_skb_vlan_tag_read(const struct sk_buff *skb, u16 *tci)
{
	*tci = skb_vlan_tag_get(skb);
	return skb_vlan_tag_present(skb);
}

__mp_helper void mp_helper_skb_vlan_tag_put(struct sk_buff *skb, u16 tci)
{
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), tci);
}

__mp_helper netdev_features_t
mp_helper_skb_vlan_features_check(struct sk_buff *skb, netdev_features_t features)
{
	return vlan_features_check(skb, features);
}

__mp_helper u16 mp_helper_skb_queue_mapping(const struct sk_buff *skb)
{
	return skb_get_queue_mapping(skb);
}

__mp_helper void mp_helper_skb_record_rx_queue(struct sk_buff *skb,
					       const struct net_device *dev, u16 queue)
{
	if (queue < READ_ONCE(dev->real_num_rx_queues))
		skb_record_rx_queue(skb, queue);
}

__mp_helper bool mp_helper_pskb_may_pull(struct sk_buff *skb, u32 len)
{
	return pskb_may_pull(skb, len);
}

__mp_helper void *mp_helper___skb_put(struct sk_buff *skb, u32 len)
{
	return __skb_put(skb, len);
}

/* Longest packet whose head napi_alloc_skb() cuts from a page. */
__mp_helper u32 mp_helper_skb_linear_fit(void)
{
	return SKB_WITH_OVERHEAD(PAGE_SIZE) - NET_SKB_PAD - NET_IP_ALIGN;
}

__mp_helper struct sk_buff *mp_helper_skb_alloc_rx(struct net_device *dev,
						   struct napi_struct *napi,
						   u32 len)
{
	return napi ? napi_alloc_skb(napi, len) : netdev_alloc_skb_ip_align(dev, len);
}

__mp_helper unsigned char *mp_helper_skb_tail_pointer(const struct sk_buff *skb)
{
	return skb_tail_pointer(skb);
}

/*
 * Fresh pages in one run, the largest that is no larger than *len needs; *len
 * becomes how much of it they hold. NULL: no memory.
 */
__mp_helper void *mp_helper_skb_alloc_rx_pages(u32 *len)
{
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP;
	unsigned int order = min_t(unsigned int, PAGE_ALLOC_COSTLY_ORDER,
				   ilog2(max_t(u32, PAGE_ALIGN(*len), PAGE_SIZE)) - PAGE_SHIFT);
	struct page *page = NULL;

	for (;; order--) {
		page = alloc_pages(order ? gfp & ~__GFP_RECLAIM : gfp, order);
		if (page || !order)
			break;
	}
	if (!page)
		return NULL;
	*len = min_t(u32, *len, PAGE_SIZE << order);
	return page_address(page);
}

__mp_helper void mp_helper_skb_free_rx_pages(void *pages)
{
	put_page(virt_to_page(pages));
}

/* Appends the first len bytes as a fragment; false if none is left, and the pages stay the caller's. */
__mp_helper bool mp_helper_skb_add_rx_pages(struct sk_buff *skb, void *pages,
					    u32 len)
{
	struct page *page = virt_to_page(pages);

	if (skb_shinfo(skb)->nr_frags >= MAX_SKB_FRAGS)
		return false;
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, 0, len,
			page_size(page));
	return true;
}

__mp_helper void mp_helper_skb_eth_type_trans(struct sk_buff *skb,
					      struct net_device *dev)
{
	skb->protocol = eth_type_trans(skb, dev);
}

/* --- network devices ------------------------------------------------------ */

/*
 * The per-CPU counters exist only while the device is registered, and packets
 * must not enter the stack for any other. Unregistering waits for RCU readers
 * after it has left this state.
 */
static bool mp_netdev_is_live(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

__mp_helper void *mp_helper_netdev_priv(const struct net_device *dev)
{
	return netdev_priv(dev);
}

/*
 * The address may change while the device is up. Nobody may send with interrupts off, as
 * netpoll does: drivers take locks that keep softirqs away only. Nor may anybody send a
 * packet again that a driver still has, as pktgen does: it is the driver's alone.
 */
__mp_helper void mp_helper_netdev_set_up(struct net_device *dev)
{
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE | IFF_DISABLE_NETPOLL;
}

/* Under RTNL: gives the device an address unless someone chose one for it. */
__mp_helper int mp_helper_netdev_adopt_address(struct net_device *dev, const u8 *addr)
{
	struct sockaddr_storage ss = { .ss_family = dev->type };
	int err;

	if (dev->addr_assign_type != NET_ADDR_RANDOM ||
	    ether_addr_equal(dev->dev_addr, addr))
		return 0;
	ether_addr_copy(ss.__data, addr);
	err = dev_set_mac_address(dev, &ss, NULL);
	if (!err)
		dev->addr_assign_type = NET_ADDR_RANDOM;
	return err;
}

__mp_helper void mp_helper_netdev_copy_address(const struct net_device *dev, u8 *to)
{
	ether_addr_copy(to, dev->dev_addr);
}

__mp_helper bool mp_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

__mp_helper bool mp_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

__mp_helper void mp_helper_eth_hw_addr_random(struct net_device *dev)
{
	eth_hw_addr_random(dev);
}

__mp_helper void mp_helper_eth_hw_addr_set(struct net_device *dev, const u8 *addr)
{
	eth_hw_addr_set(dev, addr);
}

__mp_helper bool mp_helper_is_valid_ether_addr(const u8 *addr)
{
	return is_valid_ether_addr(addr);
}

/* Called under RTNL or before registration, where reg_state does not change. */
__mp_helper bool mp_helper_netdev_is_registered(const struct net_device *dev)
{
	return mp_netdev_is_live(dev);
}

__mp_helper void mp_helper_netdev_count_rx(struct net_device *dev, u32 len)
{
	guard(rcu)();
	guard(preempt)();
	if (mp_netdev_is_live(dev))
		dev_dstats_rx_add(dev, len);
}

__mp_helper void mp_helper_netdev_count_tx(struct net_device *dev, u32 len)
{
	guard(rcu)();
	guard(preempt)();
	if (mp_netdev_is_live(dev))
		dev_dstats_tx_add(dev, len);
}

__mp_helper void mp_helper_netdev_count_rx_dropped(struct net_device *dev)
{
	guard(rcu)();
	guard(preempt)();
	if (mp_netdev_is_live(dev))
		dev_dstats_rx_dropped(dev);
}

__mp_helper void mp_helper_netdev_count_tx_dropped(struct net_device *dev)
{
	guard(rcu)();
	guard(preempt)();
	if (mp_netdev_is_live(dev))
		dev_dstats_tx_dropped(dev);
}

__mp_helper void mp_helper_netdev_count_rx_error(struct net_device *dev)
{
	DEV_STATS_INC(dev, rx_errors);
}

__mp_helper void mp_helper_netdev_count_rx_frame_error(struct net_device *dev)
{
	DEV_STATS_INC(dev, rx_errors);
	DEV_STATS_INC(dev, rx_frame_errors);
}

__mp_helper void mp_helper_netdev_count_tx_error(struct net_device *dev)
{
	DEV_STATS_INC(dev, tx_errors);
}

/* Whether GRO holds nothing that a packet could be merged with, or follow. */
static bool mp_gro_is_empty(const struct napi_struct *napi)
{
	return !napi->gro.bitmask && !napi->gro.rx_count;
}

/*
 * Takes the packet. False: it was dropped, since the interface is not up.
 *
 * @last: the poll has no further packet, as far as its owner knows. Where there
 * is none before it either, GRO has nothing to do.
 */
__mp_helper bool mp_helper_netdev_deliver(struct net_device *dev,
					  struct napi_struct *napi,
					  struct sk_buff *skb, bool last)
{
	guard(rcu)();
	if (!mp_netdev_is_live(dev) || !netif_running(dev)) {
		dev_kfree_skb_any_reason(skb, SKB_DROP_REASON_DEV_READY);
		return false;
	}
	if (napi && last && mp_gro_is_empty(napi)) {
		skb_mark_napi_id(skb, napi);
		netif_receive_skb(skb);
	} else if (napi)
		napi_gro_receive(napi, skb);
	else
		netif_rx(skb);
	return true;
}

__mp_helper bool mp_helper_netdev_xmit_more(void)
{
	return netdev_xmit_more();
}

__mp_helper void mp_helper_skb_tx_timestamp(struct sk_buff *skb)
{
	skb_tx_timestamp(skb);
}

/* --- transmit queues ------------------------------------------------------ */

__mp_helper struct netdev_queue *
mp_helper_netdev_get_tx_queue(const struct net_device *dev, u32 index)
{
	return index < dev->num_tx_queues ? netdev_get_tx_queue(dev, index) : NULL;
}

__mp_helper u32 mp_helper_netdev_real_num_tx_queues(const struct net_device *dev)
{
	return READ_ONCE(dev->real_num_tx_queues);
}

__mp_helper void mp_helper_netif_tx_stop_queue(struct netdev_queue *queue)
{
	netif_tx_stop_queue(queue);
}

__mp_helper bool mp_helper_netif_xmit_stopped(const struct netdev_queue *queue)
{
	return netif_xmit_stopped(queue);
}

/* Also before the device is registered, when there is nothing to schedule. */
__mp_helper void mp_helper_netdev_tx_queue_wake(struct netdev_queue *queue)
{
	if (rcu_access_pointer(queue->qdisc))
		netif_tx_wake_queue(queue);
	else
		netif_tx_start_queue(queue);
}

__mp_helper bool mp_helper_netdev_tx_sent_queue(struct netdev_queue *queue,
						u32 bytes)
{
	netdev_tx_sent_queue(queue, bytes);
	return netif_xmit_stopped(queue);
}

__mp_helper void mp_helper_netdev_queue_set_dql_min_limit(struct netdev_queue *queue,
							  u32 bytes)
{
	netdev_queue_set_dql_min_limit(queue, bytes);
}

/* dql_completed() is fatal for more bytes than are in flight. */
__mp_helper void mp_helper_netdev_tx_completed_queue(struct netdev_queue *queue,
						     u32 packets, u32 bytes)
{
#ifdef CONFIG_BQL
	bytes = min(bytes, READ_ONCE(queue->dql.num_queued) -
			   queue->dql.num_completed);
#endif
	netdev_tx_completed_queue(queue, packets, bytes);
}

__mp_helper void mp_helper_netdev_tx_reset_queue(struct netdev_queue *queue)
{
	netdev_tx_reset_queue(queue);
}

__mp_helper void mp_helper_netif_tx_disable(struct net_device *dev)
{
	netif_tx_disable(dev);
}

__mp_helper void mp_helper_netif_tx_wake_all_queues(struct net_device *dev)
{
	netif_tx_wake_all_queues(dev);
}
