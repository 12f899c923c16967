/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `mp_bindings` is generated from: the kernel headers that the kernel
 * crate's own bindings leave out. Only items declared in the headers that the
 * Kbuild file's allow list names, and the types these need, are generated.
 */

#include <linux/dmaengine.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/eventpoll.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/ntb.h>
#include <linux/pci.h>
#include <linux/reboot.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <mp/mp.h>
#include <net/busy_poll.h>
#include <net/genetlink.h>
#include <net/gro.h>
#include <net/page_pool/helpers.h>
#include <net/rtnetlink.h>
#include <net/tcp.h>

#include "trace/mp.h"

/* `bindgen` does not see function-like or cast constants: name them here. */
static const netdev_features_t MP_CONST_NETIF_F_SG = NETIF_F_SG;
static const netdev_features_t MP_CONST_NETIF_F_HW_CSUM = NETIF_F_HW_CSUM;
static const netdev_features_t MP_CONST_NETIF_F_RXCSUM = NETIF_F_RXCSUM;
static const netdev_features_t MP_CONST_NETIF_F_TSO = NETIF_F_TSO;
static const netdev_features_t MP_CONST_NETIF_F_TSO6 = NETIF_F_TSO6;
static const netdev_features_t MP_CONST_NETIF_F_TSO_ECN = NETIF_F_TSO_ECN;
static const netdev_features_t MP_CONST_NETIF_F_GSO_UDP_L4 = NETIF_F_GSO_UDP_L4;
static const netdev_features_t MP_CONST_NETIF_F_HW_VLAN_CTAG_TX = NETIF_F_HW_VLAN_CTAG_TX;
static const netdev_features_t MP_CONST_NETIF_F_HW_VLAN_CTAG_RX = NETIF_F_HW_VLAN_CTAG_RX;
static const u32 MP_CONST_ETHTOOL_COALESCE_TX_MAX_FRAMES = ETHTOOL_COALESCE_TX_MAX_FRAMES;
static const u32 MP_CONST_TCP_MIN_GSO_SIZE = TCP_MIN_GSO_SIZE;
static const u32 MP_CONST_UDP_MAX_SEGMENTS = UDP_MAX_SEGMENTS;
static const u8 MP_CONST_NLA_TYPE_U32 = NLA_U32;
static const u8 MP_CONST_GENL_ADMIN_PERM = GENL_ADMIN_PERM;
static const u32 MP_CONST_IFNAMSIZ = IFNAMSIZ;
static const u32 MP_CONST_EPOLLIN = (__force u32)(EPOLLIN | EPOLLRDNORM);
static const u32 MP_CONST_EPOLLOUT = (__force u32)(EPOLLOUT | EPOLLWRNORM);
static const u32 MP_CONST_EPOLLPRI = (__force u32)EPOLLPRI;
static const u32 MP_CONST_EPOLLERR = (__force u32)EPOLLERR;
static const u32 MP_CONST_EPOLLHUP = (__force u32)EPOLLHUP;
