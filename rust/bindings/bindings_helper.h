/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What `mp_bindings` is generated from: the kernel headers that the kernel
 * crate's own bindings leave out. Only items declared in the headers that the
 * Kbuild file's allow list names, and the types these need, are generated.
 */

#include <linux/dmaengine.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/ntb.h>
#include <linux/pci.h>
#include <linux/skbuff.h>
#include <net/busy_poll.h>
#include <net/gro.h>
#include <net/page_pool/helpers.h>
#include <net/rtnetlink.h>

/* `bindgen` does not see function-like or cast constants: name them here. */
static const netdev_features_t MP_CONST_NETIF_F_SG = NETIF_F_SG;
