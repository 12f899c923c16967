// SPDX-License-Identifier: GPL-2.0-only
/* The code of the tracepoints, which modules above this one fire as well. */

#include <linux/export.h>

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "mp.h"

EXPORT_TRACEPOINT_SYMBOL_GPL(mp_link_state);
EXPORT_TRACEPOINT_SYMBOL_GPL(mp_frame_send);
EXPORT_TRACEPOINT_SYMBOL_GPL(mp_frame_receive);
EXPORT_TRACEPOINT_SYMBOL_GPL(mp_ring_full);
#ifdef CONFIG_TRACEPOINTS
EXPORT_SYMBOL_GPL(rust_do_trace_mp_link_state);
EXPORT_SYMBOL_GPL(rust_do_trace_mp_frame_send);
EXPORT_SYMBOL_GPL(rust_do_trace_mp_frame_receive);
EXPORT_SYMBOL_GPL(rust_do_trace_mp_ring_full);
#endif
