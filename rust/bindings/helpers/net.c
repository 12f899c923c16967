// SPDX-License-Identifier: GPL-2.0

#include <linux/netdevice.h>

__mp_helper void mp_helper_netif_tx_stop_queue(struct netdev_queue *queue)
{
	netif_tx_stop_queue(queue);
}
