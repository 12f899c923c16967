// SPDX-License-Identifier: GPL-2.0
/* Exports what include/mp/mp.h declares; the functions are those of capi. */

#include <linux/export.h>
#include <mp/mp.h>

EXPORT_SYMBOL_GPL(mp_peer_alloc);
EXPORT_SYMBOL_GPL(mp_peer_free);
EXPORT_SYMBOL_GPL(mp_peer_inc);
EXPORT_SYMBOL_GPL(mp_peer_dec);
EXPORT_SYMBOL_GPL(mp_peer_data);
EXPORT_SYMBOL_GPL(mp_peer_priv);
EXPORT_SYMBOL_GPL(mp_peer_data_len);
EXPORT_SYMBOL_GPL(mp_peer_id);
EXPORT_SYMBOL_GPL(mp_peer_index);
EXPORT_SYMBOL_GPL(mp_peer_type);
EXPORT_SYMBOL_GPL(mp_peer_stats);
EXPORT_SYMBOL_GPL(mp_peer_add);
EXPORT_SYMBOL_GPL(mp_peer_del);
EXPORT_SYMBOL_GPL(mp_peer_next);
EXPORT_SYMBOL_GPL(mp_peer_get);
EXPORT_SYMBOL_GPL(mp_self_add);
EXPORT_SYMBOL_GPL(mp_self_del);
EXPORT_SYMBOL_GPL(mp_self_get);
EXPORT_SYMBOL_GPL(mp_frame_alloc);
EXPORT_SYMBOL_GPL(mp_frame_clone);
EXPORT_SYMBOL_GPL(mp_frame_free);
EXPORT_SYMBOL_GPL(mp_frame_inc);
EXPORT_SYMBOL_GPL(mp_frame_dec);
EXPORT_SYMBOL_GPL(mp_frame_dst_set);
EXPORT_SYMBOL_GPL(mp_frame_src_set);
EXPORT_SYMBOL_GPL(mp_frame_frag);
EXPORT_SYMBOL_GPL(mp_frame_msg);
EXPORT_SYMBOL_GPL(mp_frame_func);
EXPORT_SYMBOL_GPL(mp_frame_priv);
EXPORT_SYMBOL_GPL(mp_frame_msg_len);
EXPORT_SYMBOL_GPL(mp_frame_func_len);
EXPORT_SYMBOL_GPL(mp_frame_hdr_len);
EXPORT_SYMBOL_GPL(mp_frame_data_len);
EXPORT_SYMBOL_GPL(mp_frame_len);
EXPORT_SYMBOL_GPL(mp_trans_alloc);
EXPORT_SYMBOL_GPL(mp_trans_free);
EXPORT_SYMBOL_GPL(mp_trans_inc);
EXPORT_SYMBOL_GPL(mp_trans_dec);
EXPORT_SYMBOL_GPL(mp_trans_priv);
EXPORT_SYMBOL_GPL(mp_trans_stats);
EXPORT_SYMBOL_GPL(mp_trans_register);
EXPORT_SYMBOL_GPL(mp_trans_unregister);
EXPORT_SYMBOL_GPL(mp_trans_next);
EXPORT_SYMBOL_GPL(mp_trans_get);
EXPORT_SYMBOL_GPL(mp_func_alloc);
EXPORT_SYMBOL_GPL(mp_func_free);
EXPORT_SYMBOL_GPL(mp_func_inc);
EXPORT_SYMBOL_GPL(mp_func_dec);
EXPORT_SYMBOL_GPL(mp_func_priv);
EXPORT_SYMBOL_GPL(mp_func_register);
EXPORT_SYMBOL_GPL(mp_func_unregister);
EXPORT_SYMBOL_GPL(mp_func_next);
EXPORT_SYMBOL_GPL(mp_func_get);
EXPORT_SYMBOL_GPL(mp_frame_send);
EXPORT_SYMBOL_GPL(mp_frame_receive);
EXPORT_SYMBOL_GPL(mp_frame_sync);
